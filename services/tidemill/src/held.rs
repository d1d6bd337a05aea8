//! How many items are held in the DEAD stream, for everything that shows how far an evaluation is.

use std::collections::BTreeMap;

use tidemill_domain::{EvaluationId, counted_as};
use tidemill_service::{Context, dead};

/// What is held, and what was said about it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    held: dead::Held,
    said: BTreeMap<EvaluationId, usize>,
}

impl Held {
    /// Reads what is held now; what was known stays where the broker does not answer.
    pub(crate) async fn look(&mut self, context: &Context) {
        if let Err(failure) = self.held.look(context).await {
            tracing::debug!(reason = failure.reason, "dead letters not read");
        }
    }

    /// How many items of an evaluation are held.
    pub(crate) fn of(&self, evaluation: &EvaluationId) -> usize {
        self.held
            .items()
            .iter()
            .filter(|key| key.evaluation == *evaluation)
            .count()
    }

    /// A line for the operator when the number of an evaluation's held items has changed since the last one.
    pub(crate) fn news(&mut self, evaluation: &EvaluationId) -> Option<String> {
        let held = self.of(evaluation);
        let before = self.said.insert(evaluation.clone(), held).unwrap_or(0);
        if held == before {
            return None;
        }
        Some(match held {
            0 => format!("{evaluation}: nothing is held any more"),
            held => sentence(evaluation, held),
        })
    }
}

/// What it means that items are held, and what to do.
pub(crate) fn sentence(evaluation: &EvaluationId, held: usize) -> String {
    let held = counted_as(
        held as u64,
        "sample is held as a dead letter and waits",
        "samples are held as dead letters and wait",
    );
    format!(
        "{evaluation}: {held} for you: `tidemill dead list --evaluation {evaluation}` \
         says why; then `tidemill dead retry` or `tidemill dead drop`"
    )
}
