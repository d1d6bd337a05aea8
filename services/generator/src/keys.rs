//! What this process is working on: who wants the same waits for the attempt that runs instead of asking too.
//!
//! By item, because after the broker was lost it delivers again what was not acknowledged, also to the process that has it
//! in flight. By generation, because two evaluations of the same weights may want the same one at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_domain::ItemKey;
use tokio::sync::OwnedMutexGuard;

/// The keys in flight in this process: items, or generations.
#[derive(Debug)]
pub struct Keys<K = ItemKey> {
    held: Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>,
}

impl<K> Default for Keys<K> {
    fn default() -> Self {
        Self { held: Mutex::default() }
    }
}

/// The right to work on one key, given back when dropped.
#[derive(Debug)]
pub struct Held<K: Eq + Hash = ItemKey> {
    keys: Arc<Keys<K>>,
    key: K,
    waited: bool,
    guard: Option<OwnedMutexGuard<()>>,
}

impl<K: Clone + Eq + Hash> Keys<K> {
    /// Takes a key, after whoever works on it in this process.
    pub async fn hold(self: Arc<Self>, key: K) -> Held<K> {
        let lock = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(held.entry(key.clone()).or_default())
        };
        let (guard, waited) = match Arc::clone(&lock).try_lock_owned() {
            Ok(guard) => (guard, false),
            Err(_) => (lock.lock_owned().await, true),
        };
        let guard = Some(guard);
        Held {
            keys: self,
            key,
            waited,
            guard,
        }
    }
}

impl<K: Eq + Hash> Held<K> {
    /// What is held.
    #[must_use]
    pub const fn key(&self) -> &K {
        &self.key
    }

    /// Somebody of this process had the key before: what came of it may be stored.
    #[must_use]
    pub const fn waited(&self) -> bool {
        self.waited
    }
}

impl<K: Eq + Hash> Drop for Held<K> {
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
