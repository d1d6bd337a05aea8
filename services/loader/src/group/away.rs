//! Patience with attached engines that went away.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Engines;

/// Between the first two lines that say that nobody answers; each pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// No longer than this between two of them.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Since when no attached engine has answered.
#[derive(Debug, Default)]
pub(super) struct Away {
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    say_at: Instant,
    pause: Duration,
}

impl Waiting {
    const fn new(now: Instant) -> Self {
        Self {
            since: now,
            say_at: now,
            pause: FIRST_PAUSE,
        }
    }

    /// Whether it is to be said again, at this look.
    fn is_said(&mut self, now: Instant) -> bool {
        if now < self.say_at {
            return false;
        }
        self.say_at = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

impl Away {
    /// Looks whether any replica answers. Returns the reason to give up when none has for longer than the patience.
    pub(super) async fn look(&mut self, engines: &Engines, patience: Duration) -> Option<String> {
        let replicas = engines.replicas();
        for replica in &replicas {
            if tidemill_inference::is_reachable(&replica.url).await {
                self.returned(&replica.url);
                return None;
            }
        }
        let urls: Vec<&str> = replicas.iter().map(|replica| replica.url.as_str()).collect();
        let now = Instant::now();
        let waiting = self.waiting.get_or_insert_with(|| Waiting::new(now));
        let elapsed = now.duration_since(waiting.since);
        if waiting.is_said(now) {
            tracing::warn!(
                urls = urls.join(" "),
                seconds = elapsed.as_secs(),
                patience = ?patience,
                "no engine answers; waiting"
            );
        }
        (elapsed >= patience).then(|| format!("no engine at {} answered for {patience:?}", urls.join(", ")))
    }

    fn returned(&mut self, url: &str) {
        if let Some(waiting) = self.waiting.take() {
            let seconds = waiting.since.elapsed().as_secs();
            tracing::info!(url, seconds, "an engine answers again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_of_ten_minutes_is_said_at_once_and_then_ever_more_rarely() {
        let begun = Instant::now();
        let mut waiting = Waiting::new(begun);
        let seconds = (0..600).step_by(2);
        let said: Vec<u64> = seconds
            .filter(|second| waiting.is_said(begun + Duration::from_secs(*second)))
            .collect();
        assert_eq!(said[..5], [0, 6, 16, 36, 76]);
        assert_eq!(said.len(), 5 + (598 - 76) / 60);
    }
}
