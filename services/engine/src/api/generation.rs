//! From prompts to sequences in the engine, and from their events to whole outputs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{error::ApiError, router::App};
use crate::schedule::{Ending, Event, FinishReason, Job, Params, Piece};

/// Most sequences of one request.
const MAX_SEQUENCES: usize = 4096;

/// What every answer repeats.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
}

/// A finished sequence.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) piece: Piece,
    pub(super) reason: FinishReason,
    pub(super) stop: Option<String>,
}

/// Token counts of a request; each prompt counts once, however many samples it has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) prompt: usize,
    pub(super) completion: usize,
}

impl Header {
    /// A new answer's header; `kind` begins its id.
    pub(super) fn new(kind: &str, app: &App) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let created = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let id = format!("{kind}-{:08x}-{number:08x}", app.created);
        Self {
            id,
            created,
            model: app.name.clone(),
        }
    }

    /// An answer of type `object` around `choices`.
    pub(super) fn wrap(&self, object: &str, choices: Value, usage: Option<Usage>) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "usage": usage.map(Usage::to_json),
            "system_fingerprint": concat!("tidemill-engine-", env!("CARGO_PKG_VERSION")),
        })
    }
}

impl Usage {
    fn to_json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        })
    }
}

/// Splits text into tokens off the async threads: long prompts take their time, and a panic stays there.
pub(super) async fn encode(app: &Arc<App>, text: String, add_special: bool) -> Result<Vec<u32>, ApiError> {
    let app = Arc::clone(app);
    let encoded = tokio::task::spawn_blocking(move || app.text.encode(&text, add_special)).await;
    let tokens = encoded.map_err(|_| ApiError::internal("the tokenizer panicked"))?;
    tokens.map_err(|error| ApiError::bad_request(error.to_string(), Some("prompt")))
}

/// The text of tokens, likewise.
pub(super) async fn decode(app: &Arc<App>, tokens: Vec<u32>, skip_special: bool) -> Result<String, ApiError> {
    let app = Arc::clone(app);
    let decoded = tokio::task::spawn_blocking(move || app.text.decode(&tokens, skip_special)).await;
    decoded.map_err(|_| ApiError::internal("the tokenizer panicked"))
}

/// Checks the tokens of a field against the vocabulary.
pub(super) fn check_tokens(app: &App, tokens: &[u32], field: &'static str) -> Result<(), ApiError> {
    let Some(token) = tokens.iter().find(|token| **token as usize >= app.vocab_size) else {
        return Ok(());
    };
    let message = format!(
        "token id {token} is out of vocabulary: the model has {} tokens",
        app.vocab_size
    );
    Err(ApiError::bad_request(message, Some(field)))
}

/// Checks a prompt against vocabulary and context, and settles the number of tokens to generate.
///
/// A number that was asked for must fit; without one, `default` is cut to what does.
pub(super) fn check_prompt(app: &App, prompt: &[u32], asked: Option<usize>, default: usize) -> Result<usize, ApiError> {
    if prompt.is_empty() {
        return Err(ApiError::bad_request("the prompt has no tokens", Some("prompt")));
    }
    check_tokens(app, prompt, "prompt")?;
    let (context, length) = (app.context_length, prompt.len());
    let fitting = match (context.checked_sub(length), asked) {
        (Some(room), Some(tokens)) => (tokens <= room).then_some(tokens),
        (Some(room), None) => (room > 0).then_some(default.min(room)),
        (None, _) => None,
    };
    if let Some(tokens) = fitting {
        return Ok(tokens);
    }
    let output = asked
        .map(|tokens| format!("{tokens} output tokens and "))
        .unwrap_or_default();
    let message = format!(
        "This model's maximum context length is {context} tokens. However, you requested {output}your prompt contains \
         {length} input tokens, for a total of {} tokens. Please reduce the length of the input or the number of output tokens.",
        length.saturating_add(asked.unwrap_or(1)),
    );
    Err(ApiError::bad_request(message, Some("input_tokens")))
}

/// Sends `samples` sequences per prompt to the engine. Event indices count samples within prompts.
pub(super) async fn start(
    app: &App,
    prompts: &[Vec<u32>],
    params: Vec<Params>,
    samples: usize,
) -> Result<mpsc::Receiver<Event>, ApiError> {
    let count = prompts.len() * samples;
    if count > MAX_SEQUENCES {
        let message = format!("{count} sequences in one request are more than the {MAX_SEQUENCES} allowed");
        return Err(ApiError::bad_request(message, Some("prompt")));
    }
    let longest = params.iter().map(|params| params.max_tokens).max().unwrap_or_default();
    let (events, receiver) = mpsc::channel(count * (longest + 2));
    let arrived = Instant::now();
    for (number, (prompt, params)) in prompts.iter().zip(params).enumerate() {
        let params = Arc::new(params);
        for sample in 0..samples {
            let job = Job {
                prompt: prompt.clone(),
                params: Arc::clone(&params),
                sample,
                index: number * samples + sample,
                events: events.clone(),
                arrived,
            };
            app.jobs
                .send(job)
                .await
                .map_err(|_| ApiError::internal("the engine's thread has ended"))?;
        }
    }
    Ok(receiver)
}

/// Waits for all `count` sequences.
///
/// # Cancel safety
/// Dropping it drops the receiver, and with it the sequences in the engine.
pub(super) async fn collect(mut events: mpsc::Receiver<Event>, count: usize) -> Result<Vec<Output>, ApiError> {
    let mut outputs: Vec<Option<Output>> = (0..count).map(|_| None).collect();
    while let Some(event) = events.recv().await {
        match event.end {
            Some(Ending::Finished { reason, stop }) => {
                outputs[event.index] = Some(Output {
                    piece: event.piece,
                    reason,
                    stop,
                });
            }
            Some(Ending::Failed(reason)) => return Err(ApiError::internal(reason)),
            None => {}
        }
    }
    outputs
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| ApiError::internal("the engine's thread has ended"))
}
