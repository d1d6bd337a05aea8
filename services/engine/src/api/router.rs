//! Routes, and what their handlers share.

use std::{path::PathBuf, sync::Arc};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{chat, completions, error::ApiError, plain};
use crate::{metrics::Metrics, schedule::Job, text::TextModel};

/// Longest body. A prompt of a million token ids takes about seven megabytes.
const MAX_BODY_BYTES: usize = 64 << 20;

/// What handlers need of the engine.
#[derive(Debug)]
pub(crate) struct App {
    /// Served model name.
    pub(crate) name: String,
    pub(crate) checkpoint: PathBuf,
    pub(crate) text: Arc<TextModel>,
    pub(crate) vocab_size: usize,
    pub(crate) context_length: usize,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) jobs: mpsc::Sender<Job>,
    /// Cancelled when no more requests are taken.
    pub(crate) draining: CancellationToken,
    /// Holds a token for each request until its answer is complete.
    pub(crate) in_flight: TaskTracker,
    /// When the server started, in seconds since 1970.
    pub(crate) created: u64,
}

/// The server's routes.
pub(crate) fn router(app: Arc<App>) -> Router {
    let work = Router::new()
        .route("/v1/completions", post(completions::create))
        .route("/v1/chat/completions", post(chat::create))
        .route("/tokenize", post(plain::tokenize))
        .route("/detokenize", post(plain::detokenize))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), refuse_while_draining));
    Router::new()
        .merge(work)
        .route("/health", get(plain::health))
        .route("/version", get(plain::version))
        .route("/v1/models", get(plain::models))
        .route("/metrics", get(plain::metrics))
        .fallback(async || ApiError::no_path())
        .method_not_allowed_fallback(async || ApiError::no_path())
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(app)
}

async fn refuse_while_draining(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    // The token is taken before the look, so that a drain that begins now waits for this request.
    let _token = app.in_flight.token();
    if app.draining.is_cancelled() {
        return ApiError::unavailable("the server is shutting down").into_response();
    }
    next.run(request).await
}

impl App {
    /// Refuses a request for another model; naming none is fine.
    pub(super) fn check_model(&self, name: Option<&str>) -> Result<(), ApiError> {
        match name {
            Some(name) if name != self.name => Err(ApiError::no_model(name)),
            _ => Ok(()),
        }
    }

    /// The text of a single token, as log-probabilities name it.
    pub(super) fn token_text(&self, token: u32) -> String {
        self.text.decode(&[token], false)
    }

    /// Whether the engine's thread is there.
    pub(super) fn is_alive(&self) -> bool {
        !self.jobs.is_closed()
    }
}
