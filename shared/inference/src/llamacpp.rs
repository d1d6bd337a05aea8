//! llama.cpp's server.

use tidemill_domain::EngineKind;

use crate::Capabilities;
use crate::body::Words;
use crate::dialect::{Dialect, TellsTokens};

pub(crate) static DIALECT: Dialect = Dialect {
    capabilities: Capabilities {
        prompt_logprobs: false,
        token_ids: true,
        metrics: true,
        seed: true,
        chat: true,
        continues: false,
        kind: EngineKind::LlamaCpp,
    },
    words: Words::LlamaCpp,
    keep_stop: None,
    tells_tokens: TellsTokens::Nowhere,
    repetition_counts_prompt: true,
};
