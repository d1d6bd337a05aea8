//! vLLM, and what serves in its shapes.
//!
//! - It tells and takes token ids on both endpoints (`return_token_ids`), so every answer that it streams can be continued.
//! - Likelihoods come by `echo` with `logprobs`, which inside is `prompt_logprobs`: exact, the first one null. Such requests
//!   do not read the prefix cache, so few-shot prompts are computed anew for each choice, and they are left out of its
//!   counters.
//! - Streamed answers are asked for with the stop text in them, because it otherwise holds back as many characters as a stop
//!   text may need, although their tokens are told.

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
        kind: EngineKind::Vllm,
    },
    words: Words::Vllm,
    keep_stop: Some(KeepStop::Include(true)),
    tells_tokens: TellsTokens::Everywhere,
    asks_for_seam: true,
    penalties: HasPenalties {
        of_answer: true,
        repetition: true,
    },
    continuing: Traits {
        repetition_counts_prompt: true,
        draws_by_position: false,
    },
};
