//! What an engine understands beyond OpenAI's API, and what it can do.

use tidemill_domain::{EngineKind, Penalties};

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
    /// The penalties that it has in the sense of [`Penalties`].
    pub(crate) penalties: HasPenalties,
    /// How its answers are continued.
    pub(crate) continuing: Traits,
}

/// The penalties that an engine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HasPenalties {
    /// Those for what the answer holds, by its count and by its presence.
    pub(crate) of_answer: bool,
    /// That for what prompt or answer hold.
    pub(crate) repetition: bool,
}

/// Why a kind of engine cannot draw under these penalties; none when it can. An engine may have a penalty of that name that
/// counts other tokens: it would draw from another distribution, which no score shows.
#[must_use]
pub fn penalty_refusal(kind: EngineKind, penalties: &Penalties) -> Option<String> {
    let has = of(kind).penalties;
    let counts_answer = penalties.frequency != 0.0 || penalties.presence != 0.0;
    let lacking = if counts_answer && !has.of_answer {
        "frequency and presence penalties that count the answer alone"
    } else if penalties.repetition != 1.0 && !has.repetition {
        "a repetition penalty that counts prompt and answer"
    } else {
        return None;
    };
    Some(format!("the engine ({}) does not have {lacking}", kind.label()))
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
