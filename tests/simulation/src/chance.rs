//! Everything that is left to chance, from one seed.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Draws from one seed; the algorithm is named, so that a seed means the same on every machine and in every version.
#[derive(Debug)]
pub(crate) struct Chance(ChaCha8Rng);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.0.random_bool(probability.min(1.0))
    }

    /// From 0 up to and without `end`, which is at least 1.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end.max(1))
    }

    /// A time in milliseconds, both ends included.
    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(self.0.random_range(least * 1_000..=most * 1_000))
    }

    /// How long a process is suspended: shorter than its leases and acknowledgements last, or longer than all of them.
    pub(crate) fn suspension(&mut self) -> Duration {
        if self.happens(0.5) {
            self.millis(100, 12_000)
        } else {
            self.millis(12_000, 60_000)
        }
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
