//! What is known of all evaluations: the newest event of each.

use std::collections::HashMap;

use tidemill_domain::{EvaluationEvent, EvaluationId, EvaluationState};
use tidemill_service::{Context, Follow, Followed, Start, outcome};
use tidemill_streams::{declared, evaluation_event};

/// The newest event of each evaluation: its events folded in the order of the stream.
#[derive(Debug, Default)]
pub(crate) struct Board {
    newest: HashMap<EvaluationId, (u64, EvaluationEvent)>,
}

impl Board {
    /// Takes in a message of the EVALUATION stream, in any order. Returns the event when it is the newest.
    pub(crate) fn apply(&mut self, message: &Followed) -> Option<&EvaluationEvent> {
        let Some(event) = evaluation_event(&message.subject, &message.payload) else {
            tracing::warn!(
                subject = message.subject,
                sequence = message.sequence,
                "not an event of its subject's evaluation; ignored"
            );
            return None;
        };
        let id = event.evaluation.clone();
        if self
            .newest
            .get(&id)
            .is_some_and(|(sequence, known)| *sequence >= message.sequence || !event.displaces(known))
        {
            return None;
        }
        self.newest.insert(id.clone(), (message.sequence, event));
        self.newest.get(&id).map(|(_, event)| event)
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &EvaluationEvent> {
        self.newest.values().map(|(_, event)| event)
    }
}

/// The newest event of every evaluation.
pub(crate) async fn all(context: &Context) -> Vec<EvaluationEvent> {
    let filter = "tm.evaluation.>".to_owned();
    let mut follow = Follow::open(context, declared::EVALUATION, filter, false, Start::LastPerSubject).await;
    let mut board = Board::default();
    while let Some(message) = follow.next_known().await {
        board.apply(&message);
    }
    board.newest.into_values().map(|(_, event)| event).collect()
}

/// The sequence of the event with which an evaluation was queued last; 0 when it never was.
pub(crate) async fn last_queued(context: &Context, evaluation: &EvaluationId) -> Result<u64, String> {
    let last = outcome::last_entry(context, evaluation, EvaluationState::Queued).await;
    last.map_err(|failure| failure.reason)
}

/// The newest event of one evaluation; `None` when it is not known.
pub(crate) async fn newest(context: &Context, evaluation: &EvaluationId) -> Result<Option<EvaluationEvent>, String> {
    let newest = outcome::newest_event(context, evaluation).await;
    newest.map_err(|failure| failure.reason)
}
