//! The aggregator as a service: one task for each evaluation that is being served.

use std::collections::HashMap;

use tidemill_domain::{EvaluationEvent, EvaluationId, EvaluationState};
use tidemill_service::{Context, Fatal, Follow, Followed, Held, Start, acquire};
use tidemill_streams::declared;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::evaluation::{self, Newest};

/// The lease of the one aggregator.
const LEASE: &str = "aggregator";

/// Runs an aggregator until the context drains.
///
/// # Errors
/// None at present: what fails is retried or recorded.
pub async fn run(context: Context) -> Result<(), Fatal> {
    while let Some(held) = acquire(&context, LEASE).await {
        tracing::info!("aggregating");
        aggregate(&context, &held).await;
        if context.draining.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// Follows evaluations until the drain or the loss of the lease. What was folded is forgotten: the streams have it.
async fn aggregate(context: &Context, held: &Held) {
    let filter = "tm.evaluation.>".to_owned();
    let mut follow = Follow::open(context, declared::EVALUATION, filter, false, Start::LastPerSubject).await;
    let mut live = Live::new(context.clone());
    // The newest event of an evaluation is known when all known ones were read; before, an old one may look live.
    let mut is_current = false;
    loop {
        let next = async {
            if is_current {
                return Some(follow.next().await);
            }
            follow.next_known().await
        };
        let message = tokio::select! { biased;
            () = context.draining.cancelled() => break,
            () = held.lost().cancelled() => break,
            Some(ended) = live.tasks.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a fold died; it begins anew with the next event of its evaluation");
                }
                continue;
            }
            message = next => message,
        };
        match message {
            Some(message) => live.note(&message),
            None => is_current = true,
        }
        if is_current {
            live.start();
        }
    }
    live.stop().await;
}

/// The evaluations as their newest events tell, and the tasks of those that are served.
struct Live {
    context: Context,
    newest: HashMap<EvaluationId, watch::Sender<Newest>>,
    /// Evaluations that changed and were not looked at since.
    changed: Vec<EvaluationId>,
    tasks: JoinSet<()>,
}

impl Live {
    fn new(context: Context) -> Self {
        Self {
            context,
            newest: HashMap::new(),
            changed: Vec::new(),
            tasks: JoinSet::new(),
        }
    }

    fn note(&mut self, message: &Followed) {
        let event: EvaluationEvent = match serde_json::from_slice(&message.payload) {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(subject = message.subject, %error, "an evaluation event that does not parse");
                return;
            }
        };
        let id = event.evaluation.clone();
        let newest = Newest {
            sequence: message.sequence,
            event,
        };
        match self.newest.get(&id) {
            Some(known) => {
                let is_newer = known.borrow().sequence < newest.sequence;
                if is_newer {
                    known.send_replace(newest);
                }
            }
            None => {
                self.newest.insert(id.clone(), watch::Sender::new(newest));
            }
        }
        self.changed.push(id);
    }

    /// Starts a task for every changed evaluation that is served and has none; running tasks see the change themselves.
    fn start(&mut self) {
        for id in std::mem::take(&mut self.changed) {
            let Some(newest) = self.newest.get(&id) else { continue };
            let state = newest.borrow().event.state;
            if newest.receiver_count() == 0 && is_served(state) {
                self.tasks
                    .spawn(evaluation::follow(self.context.clone(), newest.subscribe()));
            }
            if state.is_ended() {
                self.newest.remove(&id);
            }
        }
    }

    /// Stops the tasks where they are; each ends at its next await.
    async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// Grades can come: before, there is nothing to fold, and a queue of a thousand evaluations needs no readers.
const fn is_served(state: EvaluationState) -> bool {
    matches!(
        state,
        EvaluationState::Serving | EvaluationState::Paused | EvaluationState::Draining
    )
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
