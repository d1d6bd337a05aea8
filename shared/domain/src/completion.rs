//! What a generator records: one completion, however it ended.

use serde::{Deserialize, Serialize};

use crate::{Digest, GenerationKey, ItemKey, Timestamp};

/// How a completion ended. Every ending that someone may want to count is one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ending {
    /// The model stopped by itself or at a stop text.
    Stop,
    /// The cap or the context ended it.
    Length,
    /// The log-probabilities of all choices are known.
    Scored,
    /// The engine said success and sent nothing, repeatedly.
    Empty,
    /// The engine or its filter refused to answer.
    Refused,
    /// The prompt, or prompt and cap, do not fit the context.
    ContextOverflow,
    /// The engine failed within the retry budget.
    EngineError,
}

impl Ending {
    /// The ending's name in records and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Scored => "scored",
            Self::Empty => "empty",
            Self::Refused => "refused",
            Self::ContextOverflow => "context_overflow",
            Self::EngineError => "engine_error",
        }
    }
}

/// The likelihood of one choice given the prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChoiceScore {
    /// Sum of the log-probabilities (natural logarithm) of exactly the choice's tokens.
    pub log_probability: f64,
    /// How many tokens that sum covers, at least 1.
    pub tokens: u32,
    /// Every one of them was the most probable token.
    pub is_greedy: bool,
}

/// How a completion was served, where the engine or the stream of its tokens tells; for a cached one, nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Served {
    /// Tokens of the prompt that the engine had in its prefix cache, over all requests of the sample. `None` where no engine
    /// said, which is not 0.
    pub cached_tokens: Option<u64>,
    /// Tokens of the prompt that this generator had sent to some replica of the group before: what a prefix cache could have
    /// held. `None` where it is not known.
    pub reusable_tokens: Option<u64>,
    /// When the first token arrived, of a streamed one.
    pub first_token: Option<Timestamp>,
    /// How often it was continued from saved tokens.
    pub continuations: u32,
}

/// The record of one sample: the text with its ending, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// What was asked for.
    pub key: ItemKey,
    /// The manifest that holds its prompt.
    pub manifest: Digest,
    /// How it ended.
    pub ending: Ending,
    /// The answer's text, without reasoning that the engine already split off.
    pub text: String,
    /// Reasoning that the engine split off.
    pub reasoning: Option<String>,
    /// The engine's own word for the ending.
    pub finish_reason: Option<String>,
    /// The stop text that fired, where the engine says.
    pub stop_reason: Option<String>,
    /// Cut by the cap or the context, whatever the engine called it.
    pub truncated: bool,
    /// For a likelihood benchmark, one entry a choice, in the item's order.
    pub choices: Vec<ChoiceScore>,
    /// What went wrong, for endings without an answer.
    pub detail: Option<String>,
    /// Tokens of the prompt as the engine counted them, over all requests of the sample; for a cached one, of the earlier.
    pub prompt_tokens: u64,
    /// Tokens of the answer; for a cached one they were generated earlier and cost nothing now.
    pub completion_tokens: u64,
    /// Requests sent to engines for this sample, failed ones included.
    pub requests: u32,
    /// Tries, counting the one that ended it; 0 for a cached one.
    pub attempts: u32,
    /// Taken from an earlier generation instead of asked for.
    pub cached: bool,
    /// What the generation cache knows the answer by; none where the cache took no part.
    pub generation: Option<GenerationKey>,
    /// How it was served.
    pub served: Served,
    /// The replica that answered; for a cached one, that which had generated it.
    pub engine: String,
    /// When the first request was sent; for a cached one, when it was found.
    pub started: Timestamp,
    /// When the ending was known.
    pub finished: Timestamp,
}

impl Completion {
    /// Places in its text and reasoning where bytes were no text, each marked by U+FFFD.
    #[must_use]
    pub fn replaced_characters(&self) -> u64 {
        let texts = std::iter::once(&self.text).chain(&self.reasoning);
        let places = texts.map(|text| text.matches(char::REPLACEMENT_CHARACTER).count());
        places.sum::<usize>() as u64
    }
}
