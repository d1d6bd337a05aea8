//! What an engine understands beyond OpenAI's API, and what it can do.

use tidemill_domain::EngineKind;

use crate::Capabilities;
use crate::body::{KeepStop, Words};
use crate::{embedded, llamacpp, openai, sglang, vllm};

/// The differences of one engine.
#[derive(Debug)]
pub(crate) struct Dialect {
    pub(crate) capabilities: Capabilities,
    /// How its sampling settings are called.
    pub(crate) words: Words,
    /// How it is asked to hold back no text that may become a stop text.
    pub(crate) keep_stop: Option<KeepStop>,
    /// Where it tells token ids when asked to.
    pub(crate) tells_tokens: TellsTokens,
    /// Its repetition penalty counts the prompt's tokens too.
    pub(crate) repetition_counts_prompt: bool,
}

/// Where an engine tells the ids of the tokens that it streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TellsTokens {
    Nowhere,
    Completions,
    Everywhere,
}

/// The dialect of an engine.
pub(crate) const fn of(kind: EngineKind) -> &'static Dialect {
    match kind {
        EngineKind::OpenAi => &openai::DIALECT,
        EngineKind::Vllm => &vllm::DIALECT,
        EngineKind::Sglang => &sglang::DIALECT,
        EngineKind::LlamaCpp => &llamacpp::DIALECT,
        EngineKind::Embedded => &embedded::DIALECT,
    }
}
