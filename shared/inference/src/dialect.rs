//! What an engine understands beyond OpenAI's API, and what it can do.

use tidemill_domain::EngineKind;

use crate::Capabilities;
use crate::body::{KeepStop, Words};
use crate::continuation::Traits;
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
    /// The text that it streams with a token may lack the end of that token's, so whether a beginning ends with a whole
    /// character is asked before it is continued.
    pub(crate) asks_for_seam: bool,
    /// How its answers are continued.
    pub(crate) continuing: Traits,
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
