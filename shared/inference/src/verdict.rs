//! What can become of a request.

use std::time::Duration;

use bytes::Bytes;
use tidemill_domain::Ending;

/// What HTTP made of a request, before anyone looked into the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpOutcome {
    /// A whole response.
    Answered {
        /// The status code.
        status: u16,
        /// How long the server asks to be left alone.
        retry_after: Option<Duration>,
        /// The body.
        body: Bytes,
    },
    /// The response began and did not end.
    Cut(String),
    /// No connection; the request was not sent.
    Unreachable(String),
    /// The request was sent, and the connection ended without a response.
    Lost(String),
    /// No whole response within the time-out.
    TimedOut(Duration),
}

impl HttpOutcome {
    /// What happened, for people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Answered { status, .. } => format!("status {status}"),
            Self::Cut(why) | Self::Unreachable(why) | Self::Lost(why) => why.clone(),
            Self::TimedOut(limit) => format!("nothing within {limit:?}"),
        }
    }
}

/// What became of a request, by the thing a caller does about it.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict<T> {
    /// The answer is there.
    Done(T),
    /// A success without content, which is more often a damaged answer than a silent model: asked again on a new
    /// connection, and taken at its word when that repeats.
    Suspect(T),
    /// An infrastructure fault that may pass; counts against the item's budget.
    Retry {
        /// What happened.
        why: String,
        /// The connection may be to blame.
        on_new_connection: bool,
        /// How long the server asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// The server has too much to do. Nothing is wrong with the item and nothing is sent to this replica until it is due.
    Busy {
        /// The status code: 429 asks for fewer requests, 503 only for patience.
        status: u16,
        /// What the server said.
        why: String,
        /// How long the server asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// The prompt, or prompt and cap, do not fit the context.
    Overflow {
        /// What the server said.
        detail: String,
    },
    /// The server refuses this one request, and will again.
    Rejected {
        /// What the server said.
        detail: String,
    },
    /// The server cannot do what the request needs (for instance log-probabilities of the prompt).
    Unsupported {
        /// What is missing.
        detail: String,
    },
    /// The server would refuse every request: wrong model, wrong key, wrong address.
    Fatal {
        /// What the server said.
        detail: String,
    },
    /// A streamed answer began and then no token came for too long.
    Stalled {
        /// What happened.
        why: String,
    },
    /// The engine does not end the answer: it does not heed its cap, and would not the next time either.
    Endless {
        /// What happened.
        why: String,
    },
    /// The replica is away. Not the item's fault.
    Down {
        /// What happened.
        why: String,
        /// The replica had been sent the request: one that kills its engine must not go round for ever.
        sent: bool,
    },
}

impl<T> Verdict<T> {
    /// The verdict's name in logs and metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Suspect(_) => "suspect",
            Self::Retry { .. } => "retry",
            Self::Busy { .. } => "busy",
            Self::Overflow { .. } => "overflow",
            Self::Rejected { .. } => "rejected",
            Self::Unsupported { .. } => "unsupported",
            Self::Fatal { .. } => "fatal",
            Self::Stalled { .. } => "stalled",
            Self::Endless { .. } => "endless",
            Self::Down { .. } => "down",
        }
    }

    pub(crate) fn retry(why: impl Into<String>) -> Self {
        Self::Retry {
            why: why.into(),
            on_new_connection: false,
            retry_after: None,
        }
    }

    pub(crate) fn retry_on_new_connection(why: impl Into<String>) -> Self {
        Self::Retry {
            why: why.into(),
            on_new_connection: true,
            retry_after: None,
        }
    }
}

/// A model's answer as the engine gave it: the part of a completion that the response decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// `Stop`, `Length`, `Refused` or `Empty`.
    pub ending: Ending,
    /// The text, without reasoning that the engine split off. Bytes that are no text are replaced by U+FFFD.
    pub text: String,
    /// Reasoning that the engine split off.
    pub reasoning: Option<String>,
    /// The engine's own word for the ending.
    pub finish_reason: Option<String>,
    /// The stop text that fired, where the engine says.
    pub stop_reason: Option<String>,
    /// Cut by the cap or the context, whatever the engine called it.
    pub truncated: bool,
    /// Tokens of the prompt, 0 where the engine does not say.
    pub prompt_tokens: u64,
    /// Tokens generated, 0 where the engine does not say.
    pub completion_tokens: u64,
    /// Tokens of the prompt that the engine had in its prefix cache; `None` where it does not say.
    pub cached_tokens: Option<u64>,
    /// From the request to the first token of a streamed answer.
    pub first_token_after: Option<Duration>,
}
