//! What a server says when it refuses: its error object read, its status and words turned into a verdict.
//!
//! A code, type or parameter decides first, because these are made for programs; wording is looked at last, and only for
//! statuses with which a server refuses a single request.

use std::time::Duration;

use serde_json::Value;

use crate::Verdict;
use crate::text::with_replacements;

/// An error object in any of its shapes, or the beginning of a body that is none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Complaint {
    message: String,
    kind: String,
    code: String,
    param: String,
}

/// How much of a body without an error object is shown.
const SHOWN_CHARACTERS: usize = 300;

/// What servers write when a prompt does not fit: vLLM, SGLang, llama.cpp, OpenAI, and servers that copied one of these.
const OVERFLOW_WORDING: [&str; 9] = [
    "maximum context length",
    "maximum model length",
    "exceeds the maximum allowed length",
    "longer than the model's context",
    "exceeds the model's context",
    "exceeds the available context size",
    "exceeds the context window",
    "context length exceeded",
    "prompt is too long",
];

impl Complaint {
    /// Reads a body. Known shapes: `{"error": {...}}`, `{"error": "..."}`, a bare error object, `{"detail": ...}`.
    pub(crate) fn read(body: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            return Self {
                message: shorten(&with_replacements(body)),
                ..Self::default()
            };
        };
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(&value);
        let message = ["message", "detail"].iter().find_map(|name| error.get(*name));
        Self {
            message: message.map_or_else(|| shorten(&word(error)), word),
            kind: error.get("type").map(word).unwrap_or_default(),
            code: error.get("code").map(word).unwrap_or_default(),
            param: error.get("param").map(word).unwrap_or_default(),
        }
    }

    /// The prompt, or prompt and cap, do not fit the context.
    pub(crate) fn is_overflow(&self) -> bool {
        self.code == "context_length_exceeded"
            || self.kind == "exceed_context_size_error"
            || self.param == "input_tokens"
            || self.says(&OVERFLOW_WORDING)
    }

    /// A filter in front of the model refused the prompt.
    pub(crate) fn is_filtered(&self) -> bool {
        ["content_filter", "content_policy_violation"].contains(&self.code.as_str())
    }

    /// The complaint is about this parameter of the request.
    pub(crate) fn is_about(&self, parameter: &str) -> bool {
        self.param.contains(parameter) || self.message.contains(parameter)
    }

    fn concerns_every_request(&self) -> bool {
        const CODES: [&str; 3] = ["model_not_found", "insufficient_quota", "invalid_api_key"];
        CODES.contains(&self.code.as_str()) || CODES.contains(&self.kind.as_str())
    }

    fn says(&self, wording: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        wording.iter().any(|words| message.contains(words))
    }

    /// Status and message, for people.
    pub(crate) fn describe(&self, status: u16) -> String {
        match self.message.as_str() {
            "" => format!("status {status}"),
            message => format!("status {status}: {message}"),
        }
    }

    /// What a response with an error status means.
    pub(crate) fn verdict<T>(&self, status: u16, retry_after: Option<Duration>) -> Verdict<T> {
        let detail = self.describe(status);
        match status {
            _ if self.concerns_every_request() => Verdict::Fatal { detail },
            400 | 413 | 422 | 500 if self.is_overflow() => Verdict::Overflow { detail },
            429 | 503 | 529 => Verdict::Busy {
                status,
                why: detail,
                retry_after,
            },
            401..=405 | 410 | 300..=399 => Verdict::Fatal { detail },
            408 | 409 | 425 | 500.. | 0..=299 => Verdict::Retry {
                why: detail,
                on_new_connection: matches!(status, 408 | 502 | 504),
                retry_after,
            },
            _ => Verdict::Rejected { detail },
        }
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.trim().to_owned(),
    }
}
