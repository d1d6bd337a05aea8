//! The endpoints that generate nothing.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{error::ApiError, fields::Fields, generation, router::App};

/// 200 while requests are taken, 503 while draining or after the engine's thread died.
pub(super) async fn health(State(app): State<Arc<App>>) -> Response {
    if app.draining.is_cancelled() {
        return ApiError::unavailable("the server is shutting down").into_response();
    }
    if !app.is_alive() {
        return ApiError::unavailable("the engine's thread has ended").into_response();
    }
    ().into_response()
}

pub(super) async fn version() -> Response {
    Json(json!({"version": env!("CARGO_PKG_VERSION"), "engine": "tidemill-engine"})).into_response()
}

pub(super) async fn models(State(app): State<Arc<App>>) -> Response {
    let model = json!({
        "id": app.name,
        "object": "model",
        "created": app.created,
        "owned_by": "tidemill",
        "root": app.checkpoint,
        "parent": null,
        "max_model_len": app.context_length,
    });
    Json(json!({"object": "list", "data": [model]})).into_response()
}

pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        app.metrics.render(),
    )
        .into_response()
}

/// Token ids of a text.
pub(super) async fn tokenize(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let mut fields = Fields::parse(&body)?;
    app.check_model(fields.take::<String>("model")?.as_deref())?;
    let prompt: String = fields
        .take("prompt")?
        .ok_or_else(|| ApiError::bad_request("`prompt` is required", Some("prompt")))?;
    let add_special = fields.take("add_special_tokens")?.unwrap_or(true);
    fields.finish()?;
    let tokens = generation::encode(&app, prompt, add_special).await?;
    let answer = json!({"count": tokens.len(), "max_model_len": app.context_length, "tokens": tokens});
    Ok(Json(answer).into_response())
}

/// The text of token ids, that of special ones with it unless these are to be skipped.
pub(super) async fn detokenize(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let mut fields = Fields::parse(&body)?;
    app.check_model(fields.take::<String>("model")?.as_deref())?;
    let tokens: Vec<u32> = fields
        .take("tokens")?
        .ok_or_else(|| ApiError::bad_request("`tokens` is required", Some("tokens")))?;
    let skip_special = fields.take("skip_special_tokens")?.unwrap_or(false);
    fields.finish()?;
    generation::check_tokens(&app, &tokens, "tokens")?;
    let text = generation::decode(&app, tokens, skip_special).await?;
    Ok(Json(json!({"prompt": text})).into_response())
}
