//! What an engine's steps cost and what it has room for.

use std::time::Duration;

use serde::Deserialize;

use crate::complaint::Complaint;

/// Settings of the model; times are virtual.
///
/// The defaults are those of the mock engine behind published comparisons of eval runners (256 sequences, 150 ms to the first
/// token, 8 ms + 0.08 ms x batch a step); the form, a constant and a part that grows with the batch, is that of a decode step
/// that reads all weights once.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Sequences computed at once; others wait.
    pub max_num_seqs: u32,
    /// Tokens computed in one step: one for each sequence that decodes, the rest prefill, which is cut into chunks of this.
    pub max_batched_tokens: u32,
    /// Tokens of a KV block.
    pub block_size: u32,
    /// KV blocks.
    pub kv_blocks: u32,
    /// Whether full blocks of prompts are kept for other prompts that begin alike.
    pub prefix_cache: bool,
    /// Requests that may wait; one more is refused.
    pub max_waiting: Option<u32>,
    /// The longest prompt and answer together.
    pub max_model_len: u32,
    /// What each step costs.
    #[serde(deserialize_with = "crate::config::time")]
    pub step: Duration,
    /// What each decoding sequence adds to a step.
    #[serde(deserialize_with = "crate::config::time")]
    pub step_per_sequence: Duration,
    /// From a sequence's start to its first token, besides the steps.
    #[serde(deserialize_with = "crate::config::time")]
    pub first_token: Duration,
    /// What each token of prefill adds to a step.
    #[serde(deserialize_with = "crate::config::time")]
    pub prefill_per_token: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_num_seqs: 256,
            max_batched_tokens: 8192,
            block_size: 16,
            kv_blocks: 65_536,
            prefix_cache: true,
            max_waiting: None,
            max_model_len: 32_768,
            step: Duration::from_millis(8),
            step_per_sequence: Duration::from_micros(80),
            first_token: Duration::from_millis(150),
            prefill_per_token: Duration::ZERO,
        }
    }
}

impl Limits {
    /// What a step costs in which `decoding` sequences get a token and `prefill` tokens of prompts are computed.
    #[must_use]
    pub fn step_time(&self, decoding: u32, prefill: u32) -> Duration {
        self.step + self.step_per_sequence * decoding + self.prefill_per_token * prefill
    }

    /// What is wrong with the settings, if anything, and with which of them.
    #[must_use]
    pub fn complaint(&self) -> Option<Complaint> {
        let positive = [
            ("max_num_seqs", self.max_num_seqs),
            ("max_batched_tokens", self.max_batched_tokens),
            ("block_size", self.block_size),
            ("kv_blocks", self.kv_blocks),
            ("max_model_len", self.max_model_len),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Some(Complaint::new(&[name], "must be at least 1"));
        }
        if self.max_batched_tokens < self.max_num_seqs {
            let rule = format!(
                "is {}, below max_num_seqs ({}): each sequence takes one token a step",
                self.max_batched_tokens, self.max_num_seqs
            );
            return Some(Complaint::new(&["max_batched_tokens", "max_num_seqs"], rule));
        }
        if self.step.is_zero() && self.step_per_sequence.is_zero() {
            let rule = "and step_per_sequence are both 0: steps must cost something; speed = 0 waits for none of it";
            return Some(Complaint::new(&["step", "step_per_sequence"], rule));
        }
        let room = u64::from(self.kv_blocks) * u64::from(self.block_size);
        (room < u64::from(self.max_model_len)).then(|| {
            let rule = format!(
                "x block_size is {room} tokens, less than max_model_len ({}): the longest request would never end",
                self.max_model_len
            );
            Complaint::new(&["kv_blocks", "block_size", "max_model_len"], rule)
        })
    }
}
