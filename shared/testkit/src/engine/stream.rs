//! Answers as server-sent events, one token each.

use bytes::Bytes;
use serde_json::{Value, json};

use super::answer::{Choice, Settings, usage, usage_json};
use super::request::Endpoint;
use super::tokens::split_tokens;

/// The events of a streamed answer, the closing `[DONE]` included.
pub(super) fn events(choices: &[Choice], settings: &Settings) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    for (index, choice) in choices.iter().enumerate() {
        let tokens = split_tokens(choice.content());
        chunks.extend(
            tokens
                .iter()
                .map(|token| chunk(&json!([delta(index, token, settings, None)]), settings)),
        );
        chunks.push(chunk(
            &json!([delta(index, "", settings, Some(&choice.finish_reason))]),
            settings,
        ));
    }
    if settings.stream_usage {
        let mut last = chunk(&json!([]), settings);
        last["usage"] = usage_json(usage(choices, settings.samples));
        chunks.push(last);
    }
    let mut events: Vec<Bytes> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n").into()).collect();
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

fn delta(index: usize, token: &str, settings: &Settings, finish_reason: Option<&str>) -> Value {
    match settings.endpoint {
        Endpoint::Completions => json!({ "index": index, "text": token, "finish_reason": finish_reason }),
        Endpoint::Chat => json!({ "index": index, "delta": { "content": token }, "finish_reason": finish_reason }),
    }
}

fn chunk(choices: &Value, settings: &Settings) -> Value {
    let object = match settings.endpoint {
        Endpoint::Completions => "text_completion",
        Endpoint::Chat => "chat.completion.chunk",
    };
    json!({ "id": "fake-0", "object": object, "created": 0, "model": settings.model, "choices": choices })
}
