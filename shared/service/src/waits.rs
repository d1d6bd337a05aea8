//! What a process waits for, so that whoever wonders why nothing moves can be told.
//!
//! A stream or a store that is full, and graders that are behind, stop nothing and lose nothing: whoever has something to
//! store keeps it and tries again. This register says so; it decides nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_telemetry::Metric;
use tokio::time::Instant;

/// What can be in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// A stream takes no messages: it, or the broker's disk, is full.
    Stream(&'static str),
    /// The object store takes no writes, or does not answer.
    ObjectStore,
    /// As many completions as may wait for their grades: nothing more is released.
    Grading,
}

impl Obstacle {
    /// The stream's name, `object_store` or `grading`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Stream(name) => name,
            Self::ObjectStore => "object_store",
            Self::Grading => "grading",
        }
    }

    /// What a person can do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Stream(_) => {
                "make room on the broker's disk, then restart the broker (or the command that has its own); or raise the stream's limit"
            }
            Self::ObjectStore => "make room in the object store, or make it reachable and writable",
            Self::Grading => "start more graders, or look at what keeps them",
        }
    }
}

/// Something that is in the way now.
#[derive(Debug, Clone)]
pub struct Wait {
    /// What.
    pub on: Obstacle,
    /// Nothing has passed it since.
    pub since: Instant,
    /// The other side's word.
    pub reason: String,
}

impl Wait {
    /// The wait as a line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let seconds = self.since.elapsed().as_secs();
        format!(
            "{}, for {seconds} s ({}): {}",
            self.on.label(),
            self.reason,
            self.on.remedy()
        )
    }
}

/// The waits of one process: at most one an obstacle, however many wait for it.
#[derive(Debug, Clone, Default)]
pub struct Waits(Arc<Mutex<BTreeMap<Obstacle, (Wait, usize)>>>);

/// Waits for an obstacle until it is dropped.
#[derive(Debug)]
pub struct Waiting {
    waits: Waits,
    on: Obstacle,
}

impl Waits {
    /// Begins to wait.
    #[must_use]
    pub fn begin(&self, on: Obstacle, reason: &str) -> Waiting {
        let wait = || Wait {
            on,
            since: Instant::now(),
            reason: String::new(),
        };
        self.lock().entry(on).or_insert_with(|| (wait(), 0)).1 += 1;
        let waiting = Waiting {
            waits: self.clone(),
            on,
        };
        waiting.because(reason);
        waiting
    }

    /// Notes that something passed: who still waits, waits from now on.
    pub(crate) fn passed(&self, on: Obstacle) {
        if let Some((wait, _)) = self.lock().get_mut(&on) {
            wait.since = Instant::now();
        }
    }

    /// What is in the way now, the longest first.
    #[must_use]
    pub fn all(&self) -> Vec<Wait> {
        let mut waits: Vec<Wait> = self.lock().values().map(|(wait, _)| wait.clone()).collect();
        waits.sort_by_key(|wait| wait.since);
        waits
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Obstacle, (Wait, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Notes the newest reason, and how long it has lasted.
    pub fn because(&self, reason: &str) {
        if let Some((wait, _)) = self.waits.lock().get_mut(&self.on) {
            reason.clone_into(&mut wait.reason);
            let seconds = wait.since.elapsed().as_secs_f64();
            tidemill_telemetry::set(Metric::StalledSeconds, seconds, [("on", self.on.label())]);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waits = self.waits.lock();
        let Some((_, waiting)) = waits.get_mut(&self.on) else {
            return;
        };
        *waiting -= 1;
        if *waiting == 0 {
            waits.remove(&self.on);
            tidemill_telemetry::set(Metric::StalledSeconds, 0.0, [("on", self.on.label())]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_lasts_as_long_as_someone_waits_and_counts_from_what_passed_last() {
        let waits = Waits::default();
        let done = Obstacle::Stream("DONE");
        let first = waits.begin(done, "full");
        tokio::time::advance(Duration::from_secs(5)).await;
        let second = waits.begin(done, "still full");
        drop(first);
        let seen = waits.all();
        assert_eq!(seen.len(), 1);
        assert_eq!(
            (seen[0].since.elapsed().as_secs(), seen[0].reason.as_str()),
            (5, "still full")
        );
        waits.passed(done);
        assert!(waits.all()[0].since.elapsed().is_zero());
        drop(second);
        assert!(waits.all().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_wait_comes_first_and_what_passes_one_stream_ends_no_wait_for_another() {
        let waits = Waits::default();
        let _grading = waits.begin(Obstacle::Grading, "behind");
        tokio::time::advance(Duration::from_secs(1)).await;
        let _done = waits.begin(Obstacle::Stream("DONE"), "full");
        waits.passed(Obstacle::Stream("GRADE"));
        let labels: Vec<_> = waits.all().iter().map(|wait| wait.on.label()).collect();
        assert_eq!(labels, ["grading", "DONE"]);
    }
}
