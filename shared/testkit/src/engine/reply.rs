//! What a script may answer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;

/// How the engine treats one prompt.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) delay: Duration,
    pub(super) held: Option<Arc<AtomicBool>>,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Text(Text),
    Raw(Raw),
    Dropped { after_bytes: usize, text: Text },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    pub(super) content: Option<String>,
    pub(super) reasoning: Option<String>,
    pub(super) finish_reason: Option<String>,
    pub(super) completion_tokens: Option<u64>,
    pub(super) token_logprobs: Option<Vec<Option<f64>>>,
}

#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
}

impl Reply {
    /// A normal answer: the text, cut at a stop string or at `max_tokens` as the request says, with the matching finish reason and usage.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Kind::Text(Text {
            content: Some(content.into()),
            ..Text::default()
        })
        .into()
    }

    /// A normal answer whose content is null, as after reasoning that used up the cap.
    #[must_use]
    pub fn no_content() -> Self {
        Kind::Text(Text::default()).into()
    }

    /// A status and body sent as they are, JSON or not.
    #[must_use]
    pub fn raw(status: u16, body: impl Into<Bytes>) -> Self {
        Kind::Raw(Raw {
            status,
            headers: Vec::new(),
            body: body.into(),
        })
        .into()
    }

    /// The connection ends after `after_bytes` bytes of the body of a normal answer; 0 ends it before any byte of the response.
    #[must_use]
    pub fn dropped(after_bytes: usize) -> Self {
        let text = Text {
            content: Some("an answer that is cut in the middle".to_owned()),
            ..Text::default()
        };
        Kind::Dropped { after_bytes, text }.into()
    }

    /// Waits before the first byte.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits before the first byte for as long as `held` is set.
    #[must_use]
    pub fn held_while(mut self, held: &Arc<AtomicBool>) -> Self {
        self.held = Some(Arc::clone(held));
        self
    }

    /// Adds a header to a [`raw`](Self::raw) answer; others have none to add.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Kind::Raw(raw) = &mut self.kind {
            raw.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Claims this finish reason, and leaves the text uncut.
    #[must_use]
    pub fn finish_reason(self, reason: impl Into<String>) -> Self {
        self.with_text(|text| text.finish_reason = Some(reason.into()))
    }

    /// Claims this number of completion tokens in `usage`.
    #[must_use]
    pub fn completion_tokens(self, tokens: u64) -> Self {
        self.with_text(|text| text.completion_tokens = Some(tokens))
    }

    /// Adds a reasoning field to a chat message.
    #[must_use]
    pub fn reasoning(self, reasoning: impl Into<String>) -> Self {
        self.with_text(|text| text.reasoning = Some(reasoning.into()))
    }

    /// Sends these as `token_logprobs` where log-probabilities are asked for, whatever their number.
    #[must_use]
    pub fn token_logprobs(self, logprobs: Vec<Option<f64>>) -> Self {
        self.with_text(|text| text.token_logprobs = Some(logprobs))
    }

    fn with_text(mut self, change: impl FnOnce(&mut Text)) -> Self {
        if let Kind::Text(text) | Kind::Dropped { text, .. } = &mut self.kind {
            change(text);
        }
        self
    }
}

impl From<Kind> for Reply {
    fn from(kind: Kind) -> Self {
        Self {
            delay: Duration::ZERO,
            held: None,
            kind,
        }
    }
}
