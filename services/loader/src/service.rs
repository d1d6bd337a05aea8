//! The loader as a service: intake, board and groups side by side.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tidemill_domain::{EvaluationEvent, EvaluationId, GroupId};
use tidemill_service::{Context, Fatal, Follow, Start, work};
use tidemill_streams::{declared, durable};
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::inbox::Inbox;
use crate::{claims, group, intake, sweep};

/// Which evaluations a loader takes part in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All, and the intake of announcements.
    All,
    /// These alone; the rest is left to other loaders.
    Only(Vec<EvaluationId>),
}

/// Announcements that one loader holds at once; each may wait minutes for its checkpoint.
const INTAKES: usize = 64;

/// The pause before a group that panicked begins anew.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Runs a loader until the context drains.
///
/// # Errors
/// None at present: what fails is retried or recorded.
pub async fn run(context: Context, scope: Scope) -> Result<(), Fatal> {
    let takes_all = scope == Scope::All;
    let groups = follow_board(context.clone(), scope);
    if !takes_all {
        groups.await;
        return Ok(());
    }
    let intake = {
        let context = context.clone();
        async move {
            let handling = context.clone();
            work(
                &context,
                &durable::loader(),
                INTAKES,
                &context.draining.clone(),
                move |delivery| intake::handle(handling.clone(), delivery),
            )
            .await;
        }
    };
    tokio::join!(groups, intake, claims::run(&context));
    Ok(())
}

async fn follow_board(context: Context, scope: Scope) {
    let filter = "tm.evaluation.>".to_owned();
    let mut follow = Follow::open(&context, declared::EVALUATION, filter, false, Start::LastPerSubject).await;
    let mut groups = Groups::new(group_runner(&context), context.draining.clone());
    let mut board = Board::default();
    let mut is_begun = false;
    loop {
        if !is_begun && !follow.is_behind() {
            begin(&context, &scope, &board, &mut groups).await;
            is_begun = true;
        }
        let message = tokio::select! {
            () = context.draining.cancelled() => break,
            message = follow.next() => message,
            Some(ended) = groups.next_end() => {
                groups.forget(ended, board.events().filter(|event| takes(&scope, event)));
                continue;
            }
        };
        let event = board.apply(&message).cloned();
        // Old events come in any order of evaluations: only the newest of each counts.
        if let Some(event) = event.filter(|event| is_begun && takes(&scope, event)) {
            groups.put(event);
        }
    }
    while let Some(ended) = groups.next_end().await {
        groups.forget(ended, board.events());
    }
}

/// Begins with what the board knew at the start, and removes what others left who were killed.
async fn begin(context: &Context, scope: &Scope, board: &Board, groups: &mut Groups) {
    let taken = board.events().filter(|event| takes(scope, event));
    taken.for_each(|event| groups.put(event.clone()));
    let alive = board.events().filter(|event| !event.state.is_ended());
    sweep::groups(context, &alive.map(|event| event.group.clone()).collect::<HashSet<_>>()).await;
}

fn takes(scope: &Scope, event: &EvaluationEvent) -> bool {
    match scope {
        Scope::All => true,
        Scope::Only(evaluations) => evaluations.contains(&event.evaluation),
    }
}

/// Runs one group to its end.
type RunGroup = Box<dyn Fn(GroupId, Arc<Inbox>) -> BoxFuture<'static, ()> + Send>;

fn group_runner(context: &Context) -> RunGroup {
    let context = context.clone();
    let room = Arc::new(Semaphore::new(context.config.loader.max_groups.max(1)));
    Box::new(move |group, inbox| group::run(context.clone(), group, inbox, Arc::clone(&room)).boxed())
}

/// The groups that this loader runs or waits to run.
struct Groups {
    run: RunGroup,
    draining: CancellationToken,
    inboxes: HashMap<GroupId, Arc<Inbox>>,
    tasks: JoinSet<()>,
    names: HashMap<Id, GroupId>,
}

impl Groups {
    fn new(run: RunGroup, draining: CancellationToken) -> Self {
        Self {
            run,
            draining,
            inboxes: HashMap::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
        }
    }

    fn put(&mut self, event: EvaluationEvent) {
        match self.inboxes.get(&event.group) {
            Some(inbox) => inbox.put(event),
            None if event.state.is_ended() => {}
            None => self.spawn(vec![event], Duration::ZERO),
        }
    }

    /// Starts the group of these events after a pause.
    fn spawn(&mut self, events: Vec<EvaluationEvent>, pause: Duration) {
        let Some(group) = events.first().map(|event| event.group.clone()) else {
            return;
        };
        let inbox = Arc::<Inbox>::default();
        events.into_iter().for_each(|event| inbox.put(event));
        let running = (self.run)(group.clone(), Arc::clone(&inbox));
        let task = self.tasks.spawn(async move {
            sleep(pause).await;
            running.await;
        });
        self.names.insert(task.id(), group.clone());
        self.inboxes.insert(group, inbox);
    }

    /// Waits until a group's task ends; `None` when there is none.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    async fn next_end(&mut self) -> Option<Ended> {
        Some(match self.tasks.join_next_with_id().await? {
            Ok((task, ())) => Ended { task, panic: None },
            Err(error) => Ended {
                task: error.id(),
                panic: Some(error.to_string()),
            },
        })
    }

    /// Begins a group anew that ended while an event came in, or that panicked while it had evaluations in `known`.
    fn forget<'a>(&mut self, ended: Ended, known: impl Iterator<Item = &'a EvaluationEvent>) {
        let Some(group) = self.names.remove(&ended.task) else {
            return;
        };
        let left = self.inboxes.remove(&group);
        if self.draining.is_cancelled() {
            return;
        }
        match ended.panic {
            None => left
                .into_iter()
                .flat_map(|inbox| inbox.take_now())
                .for_each(|event| self.put(event)),
            Some(panic) => {
                tracing::error!(%group, panic, "a group's task died; it begins anew");
                let alive = known.filter(|event| event.group == group && !event.state.is_ended());
                self.spawn(alive.cloned().collect(), AFTER_PANIC);
            }
        }
    }
}

/// A group's task that ended.
struct Ended {
    task: Id,
    panic: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn event() -> EvaluationEvent {
        let digest = format!("blake3:{}", "0".repeat(64));
        serde_json::from_value(serde_json::json!({
            "schema": 1, "evaluation": "0".repeat(16), "state": "queued", "at": "2024-01-01T00:00:00Z", "run": "r",
            "step": 1, "team": "t", "checkpoint": digest, "manifest": digest, "group": "0".repeat(16),
            "suite": {"name": "s", "version": "1", "tier": "canary"}, "samples": 1,
            "source": {"checkpoint": {"uri": "/c"}}, "timeline": {},
        }))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_that_panics_begins_anew_with_its_evaluations() {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let run: RunGroup = Box::new(move |_, inbox| {
            let earlier = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                assert_eq!(inbox.take().await.len(), 1);
                assert_ne!(earlier, 0, "the first run panics");
            }
            .boxed()
        });
        let mut groups = Groups::new(run, CancellationToken::new());
        groups.put(event());
        let ended = groups.next_end().await.unwrap();
        assert!(ended.panic.is_some());
        groups.forget(ended, [event()].iter());
        let ended = groups.next_end().await.unwrap();
        assert!(ended.panic.is_none());
        groups.forget(ended, [event()].iter());
        assert!(groups.next_end().await.is_none() && groups.inboxes.is_empty());
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}
