//! Publishes that are insisted on until the broker has stored them or says that an earlier write had won.

use std::collections::HashMap;
use std::time::Duration;

use crate::broker::{Answer, Op};
use crate::world::{Reach, Timer};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Publishes under way, each with what comes after it.
#[derive(Debug)]
pub(super) struct Publishing<T> {
    sent: HashMap<u64, (Op, Duration, T)>,
    waiting: HashMap<u64, (Op, Duration, T)>,
}

impl<T> Default for Publishing<T> {
    fn default() -> Self {
        Self {
            sent: HashMap::new(),
            waiting: HashMap::new(),
        }
    }
}

impl<T> Publishing<T> {
    pub(super) fn publish(&mut self, reach: &mut Reach<'_>, op: Op, then: T) {
        self.send(reach, op, FIRST_PAUSE, then);
    }

    fn send(&mut self, reach: &mut Reach<'_>, op: Op, pause: Duration, then: T) {
        let request = reach.request(op.clone());
        self.sent.insert(request, (op, pause, then));
    }

    /// Takes an answer. What comes after it, once it is stored.
    pub(super) fn answered(&mut self, reach: &mut Reach<'_>, request: u64, answer: Option<&Answer>) -> Option<T> {
        let (op, pause, then) = self.sent.remove(&request)?;
        if matches!(answer, Some(Answer::Stored | Answer::AlreadyThere)) {
            return Some(then);
        }
        self.waiting.insert(request, (op, (pause * 2).min(LONGEST_PAUSE), then));
        reach.about(pause, Timer::Retry(request));
        None
    }

    pub(super) fn retry(&mut self, reach: &mut Reach<'_>, request: u64) {
        if let Some((op, pause, then)) = self.waiting.remove(&request) {
            self.send(reach, op, pause, then);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.waiting.is_empty()
    }
}
