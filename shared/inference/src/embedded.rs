//! Tidemill's own engine, which answers in vLLM's shapes and has no penalties: it refuses requests that want some.

use tidemill_domain::EngineKind;

use crate::Capabilities;
use crate::body::{KeepStop, Words};
use crate::continuation::Traits;
use crate::dialect::{Dialect, HasPenalties, TellsTokens};

pub(crate) static DIALECT: Dialect = Dialect {
    capabilities: Capabilities {
        prompt_logprobs: true,
        token_ids: true,
        metrics: true,
        seed: true,
        chat: true,
        continues: true,
        kind: EngineKind::Embedded,
    },
    words: Words::Vllm,
    keep_stop: Some(KeepStop::Include(true)),
    tells_tokens: TellsTokens::Everywhere,
    asks_for_seam: false,
    penalties: HasPenalties {
        of_answer: false,
        repetition: false,
    },
    continuing: Traits {
        repetition_counts_prompt: true,
        draws_by_position: true,
    },
};
