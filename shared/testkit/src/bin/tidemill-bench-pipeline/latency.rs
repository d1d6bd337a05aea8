//! Latencies of messages, and what is told of them.

use std::fmt;
use std::time::Duration;

/// Latencies in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        self.0.push(latency);
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = |share: f64| {
            let index = (share * sorted.len() as f64) as usize;
            let value = sorted.get(index.min(sorted.len().saturating_sub(1)));
            value.copied().unwrap_or_default().as_secs_f64() * 1e3
        };
        write!(formatter, "p50 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.99))
    }
}
