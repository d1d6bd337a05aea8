//! The newest event of each evaluation of one group, handed from the board to the group.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tidemill_domain::{EvaluationEvent, EvaluationId};
use tokio::sync::Notify;

/// Holds at most one event an evaluation, so a group that is busy starting an engine never blocks the board.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    newest: Mutex<BTreeMap<EvaluationId, EvaluationEvent>>,
    changed: Notify,
}

impl Inbox {
    /// Puts an event in, in place of an older one.
    pub(crate) fn put(&self, event: EvaluationEvent) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.insert(event.evaluation.clone(), event);
        drop(newest);
        self.changed.notify_one();
    }

    /// Waits for events and takes them all.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn take(&self) -> Vec<EvaluationEvent> {
        loop {
            let events = self.take_now();
            if !events.is_empty() {
                return events;
            }
            self.changed.notified().await;
        }
    }

    /// Takes what is there.
    pub(crate) fn take_now(&self) -> Vec<EvaluationEvent> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *newest).into_values().collect()
    }
}
