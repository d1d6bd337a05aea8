//! Evaluations whose manifest is not there: the store is away, or somebody removed an object that may come back.

use std::collections::HashMap;

use tidemill_domain::EvaluationId;
use tokio::time::Instant;

use super::LOOK_EVERY;

/// When each was last looked for, and why it was not found.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    looked: HashMap<EvaluationId, (Instant, String)>,
}

impl Awaited {
    /// It was looked for a moment ago.
    pub(super) fn is_recent(&self, evaluation: &EvaluationId) -> bool {
        let looked = self.looked.get(evaluation);
        looked.is_some_and(|(at, _)| at.elapsed() < LOOK_EVERY)
    }

    /// It is waited for.
    pub(super) fn contains(&self, evaluation: &EvaluationId) -> bool {
        self.looked.contains_key(evaluation)
    }

    /// Notes a look in vain. True when the reason is news.
    pub(super) fn note(&mut self, evaluation: &EvaluationId, reason: &str) -> bool {
        let before = self
            .looked
            .insert(evaluation.clone(), (Instant::now(), reason.to_owned()));
        before.is_none_or(|(_, before)| before != reason)
    }

    /// It was found, or it is not wanted any more.
    pub(super) fn forget(&mut self, evaluation: &EvaluationId) {
        self.looked.remove(evaluation);
    }
}
