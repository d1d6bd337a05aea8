//! The archiver as a service: one at a time, beside the folds.

use std::time::Duration;

use tidemill_archive::{Error, Limits, Records};
use tidemill_domain::{EvaluationEvent, Timestamp};
use tidemill_service::{Context, Follow, Followed, Held, Start, acquire, now};
use tidemill_streams::{declared, evaluation_event};
use tidemill_telemetry::Metric;
use tokio::time::Instant;

use super::plan::{Plan, Task};
use super::steps;
use crate::evaluation::Newest;

/// The lease of the one archiver.
const LEASE: &str = "archiver";

/// The longest sleep: clocks may be set.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Pause before records that could not be read are read again.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// Archives and purges evaluations until the context drains.
pub(crate) async fn run(context: &Context) {
    if !context.config.archive.enabled {
        return;
    }
    while let Some(held) = acquire(context, LEASE).await {
        // Boxed: it holds readers, writers and events.
        Box::pin(archive(context, &held)).await;
        if context.draining.is_cancelled() {
            break;
        }
    }
}

/// Works until the drain or the loss of the lease. A task that is dropped on the way is done again by the next holder.
async fn archive(context: &Context, held: &Held) {
    let Some(mut plan) = begin(context, held).await else {
        return;
    };
    let filter = "tm.evaluation.>".to_owned();
    let mut events = Follow::open(context, declared::EVALUATION, filter, false, Start::LastPerSubject).await;
    while let Some(message) = events.next_known().await {
        note(&mut plan, &message);
    }
    while let Some(done) = work(context, held, &mut plan, &mut events).await {
        settle(context, &mut plan, done).await;
    }
}

/// Performs the next task; `None` when this process is to stop. Events are taken in meanwhile and disturb nothing.
async fn work(context: &Context, held: &Held, plan: &mut Plan, events: &mut Follow) -> Option<Done> {
    let mut room = Room::default();
    loop {
        plan.tight(room.is_tight(context).await);
        tidemill_telemetry::set(Metric::ArchiveBacklog, plan.backlog() as f64, []);
        let at = match plan.next(now()) {
            Ok(task) => return finish(context, held, plan, events, task).await,
            Err(at) => at,
        };
        tokio::select! { biased;
            () = context.draining.cancelled() => return None,
            () = held.lost().cancelled() => return None,
            message = events.next() => note(plan, &message),
            () = tokio::time::sleep(pause(at)) => {}
        }
    }
}

/// The room that is left in the streams that archiving makes room in, looked at now and then.
#[derive(Default)]
pub(super) struct Room {
    looked: Option<Instant>,
    is_tight: bool,
}

impl Room {
    /// One of the streams is nearly full, as far as that can be told.
    pub(super) async fn is_tight(&mut self, context: &Context) -> bool {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return self.is_tight;
        }
        self.is_tight = false;
        for stream in [declared::DONE, declared::GRADE] {
            match context.jetstream().get_stream(stream.name).await {
                Ok(found) => {
                    let info = found.cached_info();
                    self.is_tight |= is_tight(info.state.bytes, info.config.max_bytes);
                }
                Err(error) => tracing::debug!(stream = stream.name, %error, "its room is not known"),
            }
        }
        self.looked = Some(Instant::now());
        self.is_tight
    }
}

/// More than three quarters of the limit are taken; a stream without one is never tight.
fn is_tight(bytes: u64, limit: i64) -> bool {
    u64::try_from(limit).is_ok_and(|limit| limit > 0 && bytes > limit / 4 * 3)
}

/// Performs a task. It is not begun anew by what happens meanwhile.
async fn finish(context: &Context, held: &Held, plan: &mut Plan, events: &mut Follow, task: Task) -> Option<Done> {
    let mut performed = Box::pin(perform(context, task));
    loop {
        tokio::select! { biased;
            () = context.draining.cancelled() => return None,
            () = held.lost().cancelled() => return None,
            done = &mut performed => return Some(done),
            message = events.next() => note(plan, &message),
        }
    }
}

/// A plan with every record that there is.
async fn begin(context: &Context, held: &Held) -> Option<Plan> {
    loop {
        let read = async { Records::open(context).await?.all().await };
        match read.await {
            Ok(records) => {
                let mut plan = Plan::new(&context.config.archive);
                records.into_iter().for_each(|known| plan.record(known.record));
                return Some(plan);
            }
            Err(error) => tracing::warn!(%error, "archives' records cannot be read yet"),
        }
        tokio::select! {
            () = context.draining.cancelled() => return None,
            () = held.lost().cancelled() => return None,
            () = tokio::time::sleep(AFTER_FAILURE) => {}
        }
    }
}

fn note(plan: &mut Plan, message: &Followed) {
    // One that does not parse is reported by the folds.
    if let Some(event) = evaluation_event(&message.subject, &message.payload) {
        plan.note(Newest {
            sequence: message.sequence,
            event,
        });
    }
}

fn pause(at: Option<Timestamp>) -> Duration {
    let seconds = at.map_or(f64::MAX, |at| at.seconds_since(now()));
    Duration::from_secs_f64(seconds.clamp(0.0, LOOK_EVERY.as_secs_f64()))
}

struct Done {
    event: EvaluationEvent,
    step: &'static str,
    result: Result<tidemill_archive::Known, Error>,
}

async fn perform(context: &Context, task: Task) -> Done {
    match task {
        Task::Archive(event) => Done {
            result: Box::pin(steps::archive(context, &event, Limits::default())).await,
            event: *event,
            step: "archived",
        },
        Task::Purge(event) => Done {
            result: steps::purge_archived(context, &event).await,
            event: *event,
            step: "purged",
        },
    }
}

async fn settle(context: &Context, plan: &mut Plan, done: Done) {
    let evaluation = done.event.evaluation.clone();
    match done.result {
        Ok(known) => {
            tidemill_telemetry::count(Metric::Archived, [("step", done.step)]);
            let stored = known.record.stored.as_ref();
            let (rows, bytes) = stored.map_or((0, 0), |stored| (stored.rows, stored.bytes));
            let folder = stored.map(|stored| stored.folder.as_str());
            tracing::info!(evaluation_id = %evaluation, state = known.record.state.label(), rows, bytes, folder, "archive");
            plan.record(known.record);
        }
        Err(error) => {
            tidemill_telemetry::count(Metric::Archived, [("step", "failed")]);
            if plan.failed(&evaluation, now()) {
                tracing::warn!(evaluation_id = %evaluation, %error, "could not be {}; tried again, nothing is purged", done.step);
            }
            let reason = error.to_string();
            if !matches!(error, Error::Outrun { .. } | Error::Vanished { .. })
                && let Err(error) = steps::note_failure(context, &done.event, &reason).await
            {
                tracing::debug!(evaluation_id = %evaluation, %error, "the reason was not recorded");
            }
        }
    }
}
