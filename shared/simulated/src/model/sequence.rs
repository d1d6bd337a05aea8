//! One request inside the model.

use std::sync::Arc;
use std::time::Duration;

use super::blocks::Held;

/// Names a sequence for as long as the model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u64);

/// What is asked of the model.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// Hashes of the prompt's full blocks, each over the prompt up to its end; see [`chain`].
    pub chain: Arc<[u64]>,
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens to be generated; the model itself decides nothing about content. At least 1.
    pub output: u32,
    /// Whether the prefix cache may be read: requests for log-probabilities of the prompt do not.
    pub reads_cache: bool,
    /// After this many tokens no more come, and the sequence keeps its place until it is aborted.
    pub stalls_after: Option<u32>,
}

/// The hashes of a prompt's full blocks.
#[must_use]
pub fn chain(ids: &[u32], block_size: u32) -> Arc<[u64]> {
    let mut before = 0;
    let full = ids.chunks_exact(block_size as usize);
    full.map(|block| {
        before = crate::hash::of_tokens(before, block);
        before
    })
    .collect()
}

#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: SequenceId,
    pub(super) arrival: Arrival,
    pub(super) generated: u32,
    /// Tokens of prompt and answer that are in the KV cache.
    pub(super) computed: u32,
    /// Prompt tokens that the prefix cache had at the first start.
    pub(super) cached: Option<u32>,
    pub(super) held: Held,
    pub(super) started_at: Duration,
    /// The first token needs this moment to have come.
    pub(super) ready_at: Duration,
    pub(super) first_token_at: Option<Duration>,
}

impl Sequence {
    pub(super) fn new(id: SequenceId, arrival: Arrival) -> Self {
        Self {
            id,
            arrival,
            generated: 0,
            computed: 0,
            cached: None,
            held: Held::default(),
            started_at: Duration::ZERO,
            ready_at: Duration::ZERO,
            first_token_at: None,
        }
    }

    /// Tokens that must be in the cache before the next token can be drawn.
    pub(super) fn context(&self) -> u32 {
        self.arrival.prompt + self.generated
    }

    pub(super) fn is_prefilling(&self) -> bool {
        self.computed < self.context()
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.arrival.stalls_after.is_some_and(|after| self.generated >= after)
    }

    pub(super) fn is_done(&self) -> bool {
        self.generated >= self.arrival.output
    }
}
