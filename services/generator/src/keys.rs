//! Which items this process is working on: a redelivery waits for the attempt that runs instead of asking again.
//!
//! After the broker was lost it delivers again what was not acknowledged, also to the process that has it in flight.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_domain::ItemKey;
use tokio::sync::OwnedMutexGuard;

/// The items in flight in this process.
#[derive(Debug, Default)]
pub struct Keys {
    held: Mutex<HashMap<ItemKey, Arc<tokio::sync::Mutex<()>>>>,
}

/// The right to work on one item, given back when dropped.
#[derive(Debug)]
pub struct Held {
    keys: Arc<Keys>,
    key: ItemKey,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Keys {
    /// Takes an item, after whoever works on it in this process.
    pub async fn hold(self: Arc<Self>, key: ItemKey) -> Held {
        let lock = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(held.entry(key.clone()).or_default())
        };
        let guard = Some(lock.lock_owned().await);
        Held { keys: self, key, guard }
    }
}

impl Drop for Held {
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
        let keys = Arc::new(Keys::default());
        let hold = |item| Arc::clone(&keys).hold(key(item));
        let first = hold(1).await;
        drop(hold(2).await);
        let done = std::sync::atomic::AtomicBool::new(false);
        let waiting = async {
            drop(hold(1).await);
            assert!(
                done.load(std::sync::atomic::Ordering::Relaxed),
                "the second did not wait"
            );
        };
        let release = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            drop(first);
        };
        tokio::join!(waiting, release);
        assert!(keys.held.lock().unwrap().is_empty());
    }
}
