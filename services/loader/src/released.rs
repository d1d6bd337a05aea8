//! The dispatcher's way in and out: completions followed from DONE, releases published to READY.

use futures::{StreamExt as _, stream};
use tidemill_domain::{AnswerLength, EvaluationId, GroupId, ItemKey, Release, TraceContext};
use tidemill_service::fault::{self, Point};
use tidemill_service::{Context, Follow, Followed, Start};
use tidemill_streams::{Released, declared, subject};
use tidemill_telemetry::{Metric, Warning};
use tokio::sync::mpsc::Sender;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::dispatch::Dispatcher;

/// Releases whose publish may be outstanding at once: below the limit of the connection, above what fills a round trip.
const PUBLISHES_AT_ONCE: usize = 512;

/// Publishes releases and waits for all of them. READY refuses those that it still has.
pub(crate) async fn publish(context: &Context, group: &GroupId, releases: Vec<Release>) {
    let publishes = releases.into_iter().map(|release| {
        let message = Released {
            group: group.clone(),
            release,
        };
        async move {
            let trace = TraceContext::of_item(&message.release.key, "release");
            let again = if message.release.again { "true" } else { "false" };
            tidemill_telemetry::count(Metric::Released, [("again", again)]);
            tidemill_service::span("release", &message.release.key, Some(trace));
            let published = context.publisher.publish(&message, Some(trace)).await;
            fault::point(Point::LoaderReleased);
            published
        }
    });
    let mut publishes = stream::iter(publishes).buffer_unordered(PUBLISHES_AT_ONCE);
    while let Some(published) = publishes.next().await {
        if let Err(error) = published {
            // It stays among those that are out and is released again later.
            let warning = Warning {
                message: "release not published",
                scope: "releases",
                reason: &error.to_string(),
            };
            if tidemill_telemetry::is_said(warning) {
                tracing::warn!(%error, "release not published");
            }
        }
    }
}

/// What the headers of a completion's message say of it.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) key: ItemKey,
    /// How long its answer was, where it has one and its generator said so.
    pub(crate) length: Option<AnswerLength>,
}

impl Completed {
    fn of(message: &Followed) -> Option<Self> {
        let header = message
            .headers
            .as_ref()
            .and_then(|headers| headers.get(AnswerLength::HEADER));
        Some(Self {
            key: subject::key_of(&message.subject)?,
            length: header.and_then(|length| length.as_str().parse().ok()),
        })
    }
}

/// Tells the dispatcher of the completions that an evaluation has, one by one, then sends those to come until the guard is dropped.
pub(crate) async fn completions(
    context: &Context,
    evaluation: &EvaluationId,
    coming: Sender<Completed>,
    dispatcher: &mut Dispatcher,
) -> DropGuard {
    let filter = subject::done_of_evaluation(evaluation);
    let mut follow = Follow::open(context, declared::DONE, filter, true, Start::Beginning).await;
    while let Some(message) = follow.next_known().await {
        if let Some(completed) = Completed::of(&message) {
            dispatcher.complete_with(&completed.key, completed.length);
        }
    }
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        loop {
            let followed = tokio::select! {
                () = stopped.cancelled() => return,
                followed = follow.next() => followed,
            };
            if let Some(completed) = Completed::of(&followed)
                && coming.send(completed).await.is_err()
            {
                return;
            }
        }
    });
    stop.drop_guard()
}
