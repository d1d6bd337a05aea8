//! When each prompt was asked for, and how that ended: for comparing with what was stored meanwhile.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// One prompt of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The prompt as a script sees it.
    pub prompt: String,
    /// Its stable hash.
    pub hash: u64,
    /// The request's seed.
    pub seed: Option<u64>,
    /// When the request had come.
    pub arrived: SystemTime,
    /// How it ended; none while it is in flight.
    pub ended: Option<End>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// When.
    pub at: SystemTime,
    /// The completion tokens of its answer; none when the client left or the connection was ended before.
    pub answered: Option<u64>,
}

/// The journal of a running engine, in the order of arrival; it grows until the engine ends.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<Vec<Asked>>);

impl Journal {
    /// Notes a prompt; it counts as in flight until the guard is dropped.
    pub(super) fn enter(&self, prompt: &str, hash: u64, seed: Option<u64>) -> Entry<'_> {
        let mut asked = self.lock();
        asked.push(Asked {
            prompt: prompt.to_owned(),
            hash,
            seed,
            arrived: SystemTime::now(),
            ended: None,
        });
        Entry {
            journal: self,
            index: asked.len() - 1,
            answered: None,
        }
    }

    pub(super) fn read(&self) -> Vec<Asked> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A prompt that is being answered.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    journal: &'a Journal,
    index: usize,
    answered: Option<u64>,
}

impl Entry<'_> {
    /// The answer is ready.
    pub(super) fn answer(&mut self, completion_tokens: u64) {
        self.answered = Some(completion_tokens);
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let end = End {
            at: SystemTime::now(),
            answered: self.answered,
        };
        if let Some(asked) = self.journal.lock().get_mut(self.index) {
            asked.ended = Some(end);
        }
    }
}
