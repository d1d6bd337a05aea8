//! What goes into the engine's thread and what comes back.

use std::{sync::Arc, time::Instant};

use tokio::sync::mpsc;

use crate::sampling::{Sampling, TokenScore};

/// Settings shared by all sequences of a request.
#[derive(Debug, Clone)]
pub(crate) struct Params {
    pub(crate) sampling: Sampling,
    /// Most tokens to generate; together with the prompt within the context.
    pub(crate) max_tokens: usize,
    /// Strings that end the text, none of them empty.
    pub(crate) stop: Vec<String>,
    /// How many alternatives to report beside each generated token; `None` asks for no log-probabilities.
    pub(crate) logprobs: Option<usize>,
    /// The same for the prompt's tokens.
    pub(crate) prompt_logprobs: Option<usize>,
    pub(crate) ignore_eos: bool,
    pub(crate) skip_special: bool,
    /// The text that ends the answer is given out as its last part.
    pub(crate) include_stop: bool,
    /// Tokens are given out, hence only together with all of their text.
    pub(crate) tells_tokens: bool,
    /// The prompt came as tokens: what is generated is decoded as going on from them.
    pub(crate) goes_on: bool,
    /// Whether an event is wanted for each token instead of one at the end.
    pub(crate) stream: bool,
}

/// One sequence to compute.
#[derive(Debug)]
pub(crate) struct Job {
    /// Not empty, every token within the vocabulary.
    pub(crate) prompt: Vec<u32>,
    pub(crate) params: Arc<Params>,
    /// Which sample of its prompt this is; picks the random numbers.
    pub(crate) sample: usize,
    /// Marks this sequence's events among those of its request.
    pub(crate) index: usize,
    /// The sequence is dropped when the receiver is. It has room for every event, so the engine never waits for a reader.
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) arrived: Instant,
}

/// News of one sequence.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) index: usize,
    pub(crate) piece: Piece,
    /// Set on the sequence's last event.
    pub(crate) end: Option<Ending>,
}

/// Output since the last event.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// Tokens generated, with one that ended the sequence.
    pub(crate) tokens: Vec<u32>,
    /// Their scores, when asked for.
    pub(crate) scores: Vec<TokenScore>,
    /// Scores of the prompt's tokens from the second on, when asked for.
    pub(crate) prompt_scores: Vec<TokenScore>,
}

/// How a sequence ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Regularly, with the stop string if one was met.
    Finished { reason: FinishReason, stop: Option<String> },
    /// By a fault of the engine.
    Failed(String),
}

/// Why a sequence ended, in the words of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinishReason {
    /// End-of-sequence token or stop string.
    Stop,
    /// The limit of tokens.
    Length,
    /// The server is shutting down.
    Abort,
}

impl FinishReason {
    /// The protocol's word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Abort => "abort",
        }
    }
}
