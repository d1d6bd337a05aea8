//! The loader as a service: intake, board and groups side by side.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use tidemill_domain::{EvaluationEvent, EvaluationId, GroupId};
use tidemill_service::{Context, Fatal, Follow, Start, work};
use tidemill_streams::{declared, durable};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::board::Board;
use crate::inbox::Inbox;
use crate::{group, intake};

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
    tokio::join!(groups, intake);
    Ok(())
}

async fn follow_board(context: Context, scope: Scope) {
    let filter = "tm.evaluation.>".to_owned();
    let mut follow = Follow::open(&context, declared::EVALUATION, filter, false, Start::LastPerSubject).await;
    let mut groups = Groups::new(context.clone());
    let mut board = Board::default();
    let mut backlog = follow.backlog();
    loop {
        let message = tokio::select! {
            () = context.draining.cancelled() => break,
            message = follow.next() => message,
            Some(ended) = groups.tasks.join_next() => {
                groups.forget(ended);
                continue;
            }
        };
        let event = board.apply(&message).cloned();
        if backlog > 0 {
            // Old events come in any order of evaluations: only the newest of each counts.
            backlog -= 1;
            if backlog == 0 {
                board
                    .events()
                    .filter(|event| takes(&scope, event))
                    .for_each(|event| groups.put(event.clone()));
            }
        } else if let Some(event) = event.filter(|event| takes(&scope, event)) {
            groups.put(event);
        }
    }
    while let Some(ended) = groups.tasks.join_next().await {
        groups.forget(ended);
    }
}

fn takes(scope: &Scope, event: &EvaluationEvent) -> bool {
    match scope {
        Scope::All => true,
        Scope::Only(evaluations) => evaluations.contains(&event.evaluation),
    }
}

/// The groups that this loader runs or waits to run.
struct Groups {
    context: Context,
    room: Arc<Semaphore>,
    inboxes: HashMap<GroupId, Arc<Inbox>>,
    tasks: JoinSet<GroupId>,
}

impl Groups {
    fn new(context: Context) -> Self {
        let room = Arc::new(Semaphore::new(context.config.loader.max_groups.max(1)));
        Self {
            context,
            room,
            inboxes: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    fn put(&mut self, event: EvaluationEvent) {
        let group = event.group.clone();
        let inbox = match self.inboxes.entry(group.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if event.state.is_ended() => return,
            Entry::Vacant(entry) => {
                let inbox = entry.insert(Arc::default());
                self.tasks.spawn(run_group(
                    self.context.clone(),
                    Arc::clone(&self.room),
                    group,
                    Arc::clone(inbox),
                ));
                inbox
            }
        };
        inbox.put(event);
    }

    fn forget(&mut self, ended: Result<GroupId, tokio::task::JoinError>) {
        match ended {
            Ok(group) => {
                // An event may have come in between: the group then begins anew with it.
                let left = self
                    .inboxes
                    .remove(&group)
                    .map(|inbox| inbox.take_now())
                    .unwrap_or_default();
                if !self.context.draining.is_cancelled() {
                    left.into_iter().for_each(|event| self.put(event));
                }
            }
            Err(error) => tracing::error!(%error, "a group's task died"),
        }
    }
}

async fn run_group(context: Context, room: Arc<Semaphore>, group: GroupId, inbox: Arc<Inbox>) -> GroupId {
    let admitted = tokio::select! {
        () = context.draining.cancelled() => None,
        permit = room.acquire_owned() => permit.ok(),
    };
    if admitted.is_some() {
        group::run(context, group.clone(), inbox).await;
    }
    group
}
