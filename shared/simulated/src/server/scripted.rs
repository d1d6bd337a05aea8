//! Answers as a fault wants them: the right one, and then something wrong with it.

use serde_json::{Value, json};

use super::ask::Endpoint;
use crate::faults::FaultKind;

/// Stands in an answer until the bytes that JSON cannot hold take its place.
const MARK: &str = "@@@";

/// Whether a fault changes the body of an answer that was computed.
pub(super) const fn changes_body(kind: FaultKind) -> bool {
    !matches!(
        kind,
        FaultKind::Overloaded
            | FaultKind::Unavailable
            | FaultKind::Internal
            | FaultKind::Reset
            | FaultKind::Stall
            | FaultKind::OtherModel
            | FaultKind::SmallerContext
            | FaultKind::StallEngine
            | FaultKind::Die
    )
}

/// The body with its fault.
pub(super) fn damage(kind: FaultKind, endpoint: Endpoint, body: &[u8]) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(body).unwrap_or_default();
    match kind {
        FaultKind::NotJson => return b"<html><body>502 Bad Gateway</body></html>".to_vec(),
        FaultKind::CutJson => return body[..body.len() / 2].to_vec(),
        FaultKind::ErrorObject => {
            return json!({ "error": { "message": "EngineCore encountered an issue", "type": "InternalServerError", "code": 500 } })
                .to_string()
                .into_bytes();
        }
        FaultKind::NoChoices => value["choices"] = json!([]),
        _ => {
            let choices = value["choices"].as_array_mut();
            choices
                .into_iter()
                .flatten()
                .for_each(|choice| change(kind, endpoint, choice));
        }
    }
    if matches!(kind, FaultKind::Empty | FaultKind::Blank) {
        let prompt_tokens = value["usage"]["prompt_tokens"].clone();
        let usage = &mut value["usage"];
        (usage["completion_tokens"], usage["total_tokens"]) = (json!(0), prompt_tokens);
    }
    let text = value.to_string();
    let raw: &[u8] = match kind {
        FaultKind::CutCharacter => b"caf\xc3",
        FaultKind::LoneSurrogate => b"\\ud83e ",
        _ => return text.into_bytes(),
    };
    replace(text.as_bytes(), MARK.as_bytes(), raw)
}

fn change(kind: FaultKind, endpoint: Endpoint, choice: &mut Value) {
    let content = match endpoint {
        Endpoint::Completions => &mut choice["text"],
        Endpoint::Chat => &mut choice["message"]["content"],
    };
    match kind {
        FaultKind::Empty => *content = json!(""),
        FaultKind::Blank => *content = json!(" \n"),
        FaultKind::ReasoningCut => *content = Value::Null,
        FaultKind::CutCharacter | FaultKind::LoneSurrogate => {
            let text = content.as_str().unwrap_or_default();
            *content = json!(format!("{MARK}{text}"));
        }
        _ => {}
    }
    if matches!(kind, FaultKind::Empty | FaultKind::Blank)
        && let Some(tokens) = choice.get_mut("token_ids")
    {
        *tokens = json!([]);
    }
    match kind {
        FaultKind::Empty | FaultKind::Blank | FaultKind::StopAtCap => choice["finish_reason"] = json!("stop"),
        FaultKind::LengthAfterAnswer => choice["finish_reason"] = json!("length"),
        FaultKind::ReasoningCut => {
            choice["finish_reason"] = json!("length");
            choice["message"]["reasoning_content"] = json!("Let us think about it once more. ".repeat(200));
        }
        FaultKind::ZeroLogprobs => each_logprob(choice, |logprob| *logprob = json!(0.0)),
        FaultKind::NullLogprobs => each_logprob(choice, |logprob| *logprob = Value::Null),
        FaultKind::ShortLogprobs => {
            let list = choice["logprobs"]["token_logprobs"].as_array_mut();
            list.map(Vec::pop).unwrap_or_default();
        }
        _ => {}
    }
}

fn each_logprob(choice: &mut Value, change: impl FnMut(&mut Value)) {
    let list = choice["logprobs"]["token_logprobs"].as_array_mut();
    list.into_iter()
        .flatten()
        .filter(|logprob| !logprob.is_null())
        .for_each(change);
}

/// A damaged body as the events of a stream.
pub(super) fn events(endpoint: Endpoint, body: &[u8]) -> Vec<u8> {
    let mut value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(_) => return [b"data: ".as_slice(), body, b"\n\n", super::stream::DONE].concat(),
    };
    let usage = value.as_object_mut().and_then(|object| object.remove("usage"));
    for choice in value["choices"].as_array_mut().into_iter().flatten() {
        if endpoint == Endpoint::Chat {
            choice["delta"] = choice["message"].take();
        }
    }
    let mut events = format!("data: {value}\n\n");
    if let Some(usage) = usage {
        value["choices"] = json!([]);
        value["usage"] = usage;
        events.push_str(&format!("data: {value}\n\n"));
    }
    [events.as_bytes(), super::stream::DONE].concat()
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    match bytes.windows(from.len()).position(|window| window == from) {
        Some(at) => [&bytes[..at], to, &bytes[at + from.len()..]].concat(),
        None => bytes.to_vec(),
    }
}
