//! Which items this process is working on: a redelivery waits for the attempt that runs instead of asking again.
//!
//! After the broker was lost it delivers again what was not acknowledged, also to the process that has it in flight.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_domain::ItemKey;
use tokio::sync::OwnedMutexGuard;

/// The items in flight in this process.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    held: Mutex<HashMap<ItemKey, Arc<tokio::sync::Mutex<()>>>>,
}

/// The right to work on one item, given back when dropped.
pub(crate) struct Held<'a> {
    keys: &'a Keys,
    key: ItemKey,
    /// Another attempt of this process had it before: its completion may be recorded.
    pub(crate) waited: bool,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Keys {
    /// Takes an item, after whoever works on it in this process.
    pub(crate) async fn hold(&self, key: &ItemKey) -> Held<'_> {
        let lock = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(held.entry(key.clone()).or_default())
        };
        let (guard, waited) = match Arc::clone(&lock).try_lock_owned() {
            Ok(guard) => (guard, false),
            Err(_) => (lock.lock_owned().await, true),
        };
        Held {
            keys: self,
            key: key.clone(),
            waited,
            guard: Some(guard),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.keys.held.lock().unwrap_or_else(PoisonError::into_inner);
        self.guard = None;
        // The map's own handle is the last one when nobody waits.
        if held.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            held.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidemill_domain::{Digest, EvaluationId};

    fn key(item: u32) -> ItemKey {
        ItemKey {
            evaluation: EvaluationId::from_digest(&Digest::of(b"e")),
            benchmark: 0,
            item,
            sample: 0,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_attempt_waits_for_the_first_and_nothing_is_left_behind() {
        let keys = Keys::default();
        let first = keys.hold(&key(1)).await;
        assert!(!first.waited);
        assert!(!keys.hold(&key(2)).await.waited);
        let waiting = async {
            let second = keys.hold(&key(1)).await;
            assert!(second.waited);
        };
        let release = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(first);
        };
        tokio::join!(waiting, release);
        assert!(keys.held.lock().unwrap().is_empty());
    }
}
