//! What the aggregator says: results of benchmarks, and the end of evaluations.

use std::time::Duration;

use async_nats::HeaderMap;
use tidemill_domain::{
    BenchmarkResult, Digest, EvaluationEvent, EvaluationResult, EvaluationState, GroupResult, ResultMessage,
    ResultState, Timeline, Timestamp,
};
use tidemill_service::fault::{self, Point};
use tidemill_service::{Context, PublishError, Ttl, now};
use tidemill_streams::{Message, ResultSnapshot, StateChange};
use tidemill_telemetry::Metric;

use crate::evaluation::Newest;

/// How long a provisional result is kept: long enough for whoever looks, short enough not to fill the stream.
const PROVISIONAL_AGE: Duration = Duration::from_secs(3_600);

/// The broker drops a second message with the same id within its duplicate window: what two aggregators, or one before
/// and after a restart, say in the same words is then said once.
pub(crate) const MESSAGE_ID: &str = "Nats-Msg-Id";

/// The result of a benchmark whose evaluation goes on.
pub(crate) struct Snapshot {
    pub(crate) benchmark: BenchmarkResult,
    /// Every sample of it has an outcome; whether it counts is known when the evaluation ends.
    pub(crate) is_complete: bool,
}

pub(crate) struct Outlet {
    context: Context,
}

impl Outlet {
    pub(crate) const fn new(context: Context) -> Self {
        Self { context }
    }

    /// Publishes a result that may change. False when it could not be.
    pub(crate) async fn provisional(&self, event: &EvaluationEvent, timeline: Timeline, snapshot: Snapshot) -> bool {
        // A complete benchmark is not published again before its evaluation ends, however long that takes.
        let ttl = if snapshot.is_complete {
            Ttl::Stream
        } else {
            Ttl::AtMost(PROVISIONAL_AGE)
        };
        let result = result(event, (ResultState::Serving, None), timeline, vec![snapshot.benchmark]);
        let message = ResultMessage {
            provisional: true,
            result,
        };
        self.result(message, ttl, None).await
    }

    /// Publishes the last result of each benchmark, then the end of the evaluation. False when it could not be.
    pub(crate) async fn ended(
        &self,
        newest: &Newest,
        verdict: (ResultState, Option<String>),
        timeline: Timeline,
        (benchmarks, groups): (Vec<BenchmarkResult>, Vec<GroupResult>),
    ) -> bool {
        for benchmark in benchmarks.clone() {
            let message = ResultMessage {
                provisional: false,
                result: result(&newest.event, verdict.clone(), timeline.clone(), vec![benchmark]),
            };
            let id = id_of_last(newest.event.life(), &message.result);
            if !self.result(message, Ttl::Stream, Some(id)).await {
                return false;
            }
        }
        let state = match verdict.0 {
            ResultState::Final => EvaluationState::Final,
            _ => EvaluationState::Invalid,
        };
        let reason = verdict.1.clone();
        let event = EvaluationEvent {
            timeline: timeline.clone(),
            result: Some(Box::new(EvaluationResult {
                groups,
                ..result(&newest.event, verdict, timeline, benchmarks)
            })),
            ..newest.event.next(state, now(), reason)
        };
        self.state(event).await
    }

    /// Publishes results of a superseded evaluation, from the last benchmark to the first: the first tells that all are said.
    pub(crate) async fn superseded(&self, newest: &Newest, timeline: &Timeline, benchmarks: Vec<BenchmarkResult>) {
        let verdict = (ResultState::Superseded, newest.event.reason.clone());
        for (index, benchmark) in benchmarks.into_iter().enumerate().rev() {
            let message = ResultMessage {
                provisional: false,
                result: result(&newest.event, verdict.clone(), timeline.clone(), vec![benchmark]),
            };
            let id = id_of_retraction(newest, index);
            if !self.result(message, Ttl::Stream, Some(id)).await {
                return;
            }
        }
    }

    /// Ends an evaluation that cannot be folded.
    pub(crate) async fn without_result(&self, newest: &Newest, reason: String) {
        let event = newest.event.next(EvaluationState::Invalid, now(), Some(reason));
        self.state(event).await;
    }

    async fn result(&self, message: ResultMessage, ttl: Ttl, id: Option<String>) -> bool {
        let is_provisional = message.provisional;
        let kind = if is_provisional { "provisional" } else { "final" };
        let Some(benchmark) = message.result.benchmarks.first() else {
            return true;
        };
        let snapshot = ResultSnapshot {
            benchmark: benchmark.name.clone(),
            message,
        };
        let published = self.publish(&snapshot, ttl, id).await;
        if published {
            fault::point(if is_provisional {
                Point::AggregatorProvisional
            } else {
                Point::AggregatorResult
            });
            tidemill_telemetry::count(Metric::Results, [("kind", kind)]);
        }
        published
    }

    /// The id names the life that ends, so that an evaluation announced again may end again. What a loader that took over
    /// says of the same life in the meantime makes no second end of it.
    async fn state(&self, event: EvaluationEvent) -> bool {
        let id = format!("{}/{}/{}", event.evaluation, event.state.label(), event.life().0);
        let (evaluation, state, reason) = (event.evaluation.clone(), event.state.label(), event.reason.clone());
        let published = self.publish(&StateChange(event), Ttl::Stream, Some(id)).await;
        if published {
            fault::point(Point::AggregatorEnded);
            tracing::info!(evaluation_id = %evaluation, state, reason, "ended");
        }
        published
    }

    async fn publish<M: Message>(&self, message: &M, ttl: Ttl, id: Option<String>) -> bool {
        if !self.context.may_act() {
            // Another aggregator may have said the last word since.
            return false;
        }
        let mut headers = HeaderMap::new();
        if let Some(id) = id {
            headers.insert(MESSAGE_ID, id);
        }
        let publish = async {
            let (subject, payload) = (message.subject(), message.payload()?);
            let publisher = &self.context.publisher;
            publisher.publish_bytes::<M>(subject, payload, None, ttl, headers).await
        };
        match publish.await {
            Ok(_) => true,
            Err(PublishError::Cancelled { .. }) => false,
            Err(error) => {
                tracing::error!(%error, "a result was not published");
                false
            }
        }
    }
}

/// The id under which an evaluation's benchmark is said to be superseded.
pub(crate) fn id_of_retraction(newest: &Newest, benchmark: usize) -> String {
    format!("superseded/{}/{}/{benchmark}", newest.event.evaluation, newest.sequence)
}

/// The same last result of the same life of an evaluation has the same id, whenever and by whom it is published.
fn id_of_last(life: Timestamp, result: &EvaluationResult) -> String {
    let benchmarks = serde_json::to_vec(&result.benchmarks).unwrap_or_default();
    let content = Digest::of_parts([
        result.evaluation.as_str().as_bytes(),
        result.state.label().as_bytes(),
        &life.0.to_le_bytes(),
        &benchmarks,
    ]);
    content.hex().to_owned()
}

fn result(
    event: &EvaluationEvent,
    (state, reason): (ResultState, Option<String>),
    timeline: Timeline,
    benchmarks: Vec<BenchmarkResult>,
) -> EvaluationResult {
    EvaluationResult {
        schema: 1,
        evaluation: event.evaluation.clone(),
        state,
        reason,
        run: event.run.clone(),
        step: event.step,
        team: event.team.clone(),
        checkpoint: event.checkpoint.clone(),
        suite: event.suite.clone(),
        benchmarks,
        groups: Vec::new(),
        timeline,
    }
}
