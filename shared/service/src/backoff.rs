//! Pauses between tries. The only user of the backoff crate, which is unmaintained upstream; see `docs/decisions`.

use std::time::Duration;

use backoff::ExponentialBackoffBuilder;
use backoff::backoff::Backoff as _;

/// An endless series of pauses that grows from a minimum to a maximum, each moved at random by up to a quarter.
#[derive(Debug, Clone)]
pub struct Backoff(backoff::ExponentialBackoff);

impl Backoff {
    /// Pauses of about `min` at first, doubling up to about `max`.
    #[must_use]
    pub fn new(min: Duration, max: Duration) -> Self {
        Self(
            ExponentialBackoffBuilder::new()
                .with_initial_interval(min)
                .with_max_interval(max.max(min))
                .with_multiplier(2.0)
                .with_randomization_factor(0.25)
                .with_max_elapsed_time(None)
                .build(),
        )
    }

    /// The pauses that suit the broker and the object store: 50 ms to 5 s.
    #[must_use]
    pub fn standard() -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(5))
    }

    /// The next pause.
    pub fn next_pause(&mut self) -> Duration {
        self.0.next_backoff().unwrap_or(self.0.max_interval)
    }

    /// Begins again at the minimum, after a success.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_maximum_and_begin_again() {
        let (min, max) = (Duration::from_millis(40), Duration::from_secs(1));
        let mut backoff = Backoff::new(min, max);
        let pauses: Vec<_> = (0..100).map(|_| backoff.next_pause()).collect();
        assert!(pauses[0] <= min.mul_f64(1.26) && pauses[0] >= min.mul_f64(0.74));
        assert!(pauses.iter().all(|pause| *pause <= max.mul_f64(1.26)));
        assert!(pauses[50] >= max.mul_f64(0.74));
        backoff.reset();
        assert!(backoff.next_pause() <= min.mul_f64(1.26));
    }
}
