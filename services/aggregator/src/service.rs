//! The aggregator as a service: one task for each evaluation that is being served.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::BoxFuture;
use tidemill_domain::{EvaluationId, EvaluationState, Timestamp};
use tidemill_service::fault::{self, Point};
use tidemill_service::{Context, Fatal, Follow, Followed, Held, Start, acquire};
use tidemill_streams::{declared, evaluation_event};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};

use crate::archive;
use crate::evaluation::{self, Newest};
use crate::publish::Outlet;
use crate::retraction;

/// The lease of the one aggregator.
const LEASE: &str = "aggregator";

/// Deaths of an evaluation's fold after which it ends invalid: what breaks it each time would break it for ever.
const MOST_DEATHS: u32 = 4;

/// The pause before a fold that died begins anew, times its deaths.
const DEATH_PAUSE: Duration = Duration::from_millis(500);

/// Runs an aggregator until the context drains.
///
/// # Errors
/// None at present: what fails is retried or recorded.
pub async fn run(context: Context) -> Result<(), Fatal> {
    tokio::join!(fold_all(&context), archive::run(&context));
    Ok(())
}

async fn fold_all(context: &Context) {
    while let Some(held) = acquire(context, LEASE).await {
        fault::point(Point::AggregatorLeaseTaken);
        tracing::info!("aggregating");
        aggregate(context, &held).await;
        if context.draining.is_cancelled() {
            break;
        }
    }
}

/// Follows evaluations until the drain or the loss of the lease. What was folded is forgotten: the streams have it.
async fn aggregate(context: &Context, held: &Held) {
    let context = &context.under(held);
    let filter = "tm.evaluation.>".to_owned();
    let mut follow = Follow::open(context, declared::EVALUATION, filter, false, Start::LastPerSubject).await;
    let mut live = Live::new(context.clone(), |context, newest| {
        Box::pin(evaluation::follow(context, newest))
    });
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
            Some(ended) = live.tasks.join_next_with_id() => {
                live.note_end(ended);
                if is_current {
                    live.start();
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

/// Folds an evaluation until it has ended.
type Folding = fn(Context, watch::Receiver<Newest>) -> BoxFuture<'static, ()>;

/// The evaluations as their newest events tell, and the tasks of those that are served.
struct Live {
    context: Context,
    newest: HashMap<EvaluationId, watch::Sender<Newest>>,
    /// Evaluations that changed and were not looked at since.
    changed: Vec<EvaluationId>,
    folding: Folding,
    tasks: JoinSet<()>,
    /// The evaluations of the tasks that fold, and which life of them.
    folded: HashMap<Id, (EvaluationId, Timestamp)>,
    /// How often an evaluation's fold died.
    deaths: HashMap<EvaluationId, u32>,
}

impl Live {
    fn new(context: Context, folding: Folding) -> Self {
        Self {
            context,
            newest: HashMap::new(),
            changed: Vec::new(),
            folding,
            tasks: JoinSet::new(),
            folded: HashMap::new(),
            deaths: HashMap::new(),
        }
    }

    fn note(&mut self, message: &Followed) {
        let Some(event) = evaluation_event(&message.subject, &message.payload) else {
            tracing::warn!(
                subject = message.subject,
                sequence = message.sequence,
                "not an event of its subject's evaluation; ignored"
            );
            return;
        };
        let id = event.evaluation.clone();
        let newest = Newest {
            sequence: message.sequence,
            event,
        };
        match self.newest.get(&id) {
            Some(known) => {
                let is_newer = newest.displaces(&known.borrow());
                if !is_newer {
                    return;
                }
                known.send_replace(newest);
            }
            None => {
                self.newest.insert(id.clone(), watch::Sender::new(newest));
            }
        }
        self.changed.push(id);
    }

    /// Starts a task for every changed evaluation that is served and has none; running tasks see the change themselves.
    fn start(&mut self) {
        let mut superseded = Vec::new();
        for id in std::mem::take(&mut self.changed) {
            let Some(newest) = self.newest.get(&id) else { continue };
            let state = newest.borrow().event.state;
            if newest.receiver_count() == 0 && is_served(state) {
                let folding = (self.folding)(self.context.clone(), newest.subscribe());
                let life = newest.borrow().event.life();
                self.folded.insert(self.tasks.spawn(folding).id(), (id.clone(), life));
            }
            if state == EvaluationState::Superseded {
                superseded.push(newest.borrow().clone());
            }
            if state.is_ended() {
                // What ended stays known, so that a stale event serves it no more; results of thousands would be much memory.
                newest.send_if_modified(|newest| {
                    newest.event.result = None;
                    false
                });
                self.deaths.remove(&id);
            }
        }
        superseded.retain(|newest| newest.event.result.is_some());
        if !superseded.is_empty() {
            self.tasks.spawn(retraction::retract(self.context.clone(), superseded));
        }
    }

    /// A fold that died begins anew after a pause, since the next event of its evaluation may never come; one that dies
    /// again and again ends its evaluation.
    fn note_end(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (task, error) = match ended {
            Ok((task, ())) => (task, None),
            Err(error) => (error.id(), Some(error)),
        };
        let (evaluation, life) = self.folded.remove(&task).unzip();
        let Some(error) = error else {
            // It may have been queued again while its fold still said how its life before ended.
            let newest = evaluation.as_ref().and_then(|id| self.newest.get(id));
            if newest.is_some_and(|newest| Some(newest.borrow().event.life()) != life) {
                self.changed.extend(evaluation);
            }
            return;
        };
        tracing::error!(evaluation_id = evaluation.as_ref().map(EvaluationId::as_str), %error, "a task died");
        let Some(id) = evaluation else { return };
        let Some(newest) = self.newest.get(&id).map(watch::Sender::subscribe) else {
            return;
        };
        if newest.borrow().event.state.is_ended() {
            return;
        }
        let deaths = self.deaths.entry(id.clone()).or_default();
        *deaths += 1;
        let context = self.context.clone();
        if *deaths >= MOST_DEATHS {
            self.tasks.spawn(give_up(context, newest, error.to_string()));
            return;
        }
        let life = newest.borrow().event.life();
        let (folding, pause) = (self.folding, DEATH_PAUSE * *deaths);
        let again = async move {
            tokio::time::sleep(pause).await;
            folding(context, newest).await;
        };
        self.folded.insert(self.tasks.spawn(again).id(), (id, life));
    }

    /// Stops the tasks where they are; each ends at its next await.
    async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// Ends an evaluation whose fold dies each time.
async fn give_up(context: Context, newest: watch::Receiver<Newest>, reason: String) {
    let latest = newest.borrow().clone();
    let reason = format!("its grades could not be added up: {reason}");
    Outlet::new(context).without_result(&latest, reason).await;
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
