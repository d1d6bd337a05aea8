//! SGLang.

use tidemill_domain::EngineKind;

use crate::Capabilities;
use crate::body::{KeepStop, Words};
use crate::dialect::{Dialect, TellsTokens};

pub(crate) static DIALECT: Dialect = Dialect {
    capabilities: Capabilities {
        prompt_logprobs: true,
        token_ids: true,
        metrics: true,
        seed: true,
        chat: true,
        continues: true,
        kind: EngineKind::Sglang,
    },
    words: Words::Vllm,
    keep_stop: Some(KeepStop::Untrimmed(true)),
    tells_tokens: TellsTokens::Completions,
    repetition_counts_prompt: false,
};
