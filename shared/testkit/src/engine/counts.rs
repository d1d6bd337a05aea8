//! What the engine has seen.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// Figures over all requests to the two generating endpoints, as `/stats` gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Requests received, whatever became of them.
    pub requests: u64,
    /// Different prompts among them.
    pub distinct_prompts: u64,
    /// Requests being answered now.
    pub in_flight: u64,
    /// The most that were ever answered at once.
    pub max_in_flight: u64,
    /// Prompt tokens of answered requests.
    pub prompt_tokens: u64,
    /// Completion tokens of answered requests.
    pub completion_tokens: u64,
}

/// The live figures; one lock, held for a few instructions.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stats: Stats,
    by_prompt: HashMap<u64, u64>,
}

impl Counts {
    /// Counts a request in; it counts as in flight until the guard is dropped.
    pub(super) fn enter(&self) -> InFlight<'_> {
        let mut inner = self.lock();
        inner.stats.requests += 1;
        inner.stats.in_flight += 1;
        inner.stats.max_in_flight = inner.stats.max_in_flight.max(inner.stats.in_flight);
        InFlight(self)
    }

    /// Counts a prompt and says how often it has come by now.
    pub(super) fn prompt(&self, hash: u64) -> u64 {
        let mut inner = self.lock();
        let times = inner.by_prompt.entry(hash).or_default();
        *times += 1;
        let times = *times;
        inner.stats.distinct_prompts = inner.by_prompt.len() as u64;
        times
    }

    pub(super) fn answered(&self, prompt_tokens: u64, completion_tokens: u64) {
        let mut inner = self.lock();
        inner.stats.prompt_tokens += prompt_tokens;
        inner.stats.completion_tokens += completion_tokens;
    }

    pub(super) fn stats(&self) -> Stats {
        self.lock().stats
    }

    pub(super) fn by_prompt(&self) -> HashMap<u64, u64> {
        self.lock().by_prompt.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct InFlight<'a>(&'a Counts);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.lock().stats.in_flight -= 1;
    }
}
