//! Whose turn it is: first come, first served.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Those that wait, by numbers that rise.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    numbers: BTreeSet<u64>,
}

impl Queue {
    /// A turn after those of all that wait; `changed` is told when it is over.
    pub(super) fn join<'q>(&'q self, changed: &'q Notify) -> Turn<'q> {
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.numbers.insert(number);
        Turn {
            queue: self,
            changed,
            number,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in a queue, which is left when it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'q> {
    queue: &'q Queue,
    changed: &'q Notify,
    number: u64,
}

impl Turn<'_> {
    /// Nobody waits who came before.
    pub(super) fn is_come(&self) -> bool {
        self.queue.waiting().numbers.first() == Some(&self.number)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.queue.waiting().numbers.remove(&self.number);
        self.changed.notify_waiters();
    }
}
