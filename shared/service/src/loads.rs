//! How much of each kind of work a process has in hand, and how it gets on, so that whoever wonders can be told.
//!
//! Only what is said of it: nothing is decided by it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// What a process has in hand of one kind of work.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// The kind: a grader's family.
    pub kind: String,
    /// Done by this process so far.
    pub done: u64,
    /// Seconds from a piece's being there to its being done, the mean of the last ones.
    pub latency_seconds: f64,
    /// In work.
    pub running: usize,
    /// Held, waiting for its turn.
    pub waiting: usize,
    /// Given back to the broker for want of room, and not due yet.
    pub given_back: usize,
    /// Seconds since the oldest was there that is in work or waits.
    pub oldest_seconds: f64,
}

/// The loads of one process, by kind.
#[derive(Debug, Clone, Default)]
pub struct Loads(Arc<Mutex<BTreeMap<String, Load>>>);

impl Loads {
    /// Says how much there is of the load's kind, in place of what was said before.
    pub fn set(&self, load: Load) {
        self.lock().insert(load.kind.clone(), load);
    }

    /// What was said last of each kind, in the order of their names.
    #[must_use]
    pub fn all(&self) -> Vec<Load> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Load>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Load {
    /// The same kind in two processes.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        let done = self.done + other.done;
        if done > 0 {
            let both = self.latency_seconds * self.done as f64 + other.latency_seconds * other.done as f64;
            self.latency_seconds = both / done as f64;
        }
        self.done = done;
        self.running += other.running;
        self.waiting += other.waiting;
        self.given_back += other.given_back;
        self.oldest_seconds = self.oldest_seconds.max(other.oldest_seconds);
        self
    }

    /// The load as words for people.
    #[must_use]
    pub fn line(&self) -> String {
        let Self {
            kind,
            done,
            latency_seconds,
            running,
            waiting,
            given_back,
            oldest_seconds,
        } = self;
        let graded = format!("{kind}: {done} graded, {latency_seconds:.2} s after their completion");
        match running + waiting + given_back {
            0 => graded,
            _ => format!(
                "{graded}, {running} running, {waiting} waiting, {given_back} to come again, the oldest for {oldest_seconds:.0} s"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_word_of_a_kind_holds_and_processes_add_up() {
        let (one, other) = (Loads::default(), Loads::default());
        let load = |done, latency_seconds, waiting| Load {
            kind: "code".to_owned(),
            done,
            latency_seconds,
            waiting,
            ..Load::default()
        };
        one.set(load(1, 9.0, 9));
        one.set(load(2, 1.0, 3));
        other.set(load(6, 5.0, 4));
        let both = one.all().remove(0).and(&other.all()[0]);
        assert_eq!(both, load(8, 4.0, 7));
        assert_eq!(
            both.line(),
            "code: 8 graded, 4.00 s after their completion, 0 running, 7 waiting, 0 to come again, the oldest for 0 s"
        );
    }
}
