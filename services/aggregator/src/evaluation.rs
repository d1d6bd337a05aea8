//! One evaluation that is served: its grades in, its results out, and its end.

use std::sync::Arc;

use tidemill_domain::{
    BenchmarkResult, Class, Columns, EvaluationEvent, EvaluationState, Grade, GroupResult, ItemKey, Manifest,
    ResultState, Timeline, Timestamp, counted_as,
};
use tidemill_service::backoff::Backoff;
use tidemill_service::fault::{self, Point};
use tidemill_service::{Context, Follow, Followed, Start, now, span};
use tidemill_streams::{declared, subject};
use tidemill_telemetry::{Metric, Warning};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::draining::Draining;
use crate::publish::{Outlet, Snapshot};
use crate::{Fold, verdict};

/// Tries to read the manifest of an evaluation that drains: it is given up anyway, and someone waits for its end.
const DRAINING_TRIES: u32 = 5;

/// The newest event of an evaluation and its place in the stream.
#[derive(Debug, Clone)]
pub(crate) struct Newest {
    pub(crate) sequence: u64,
    pub(crate) event: EvaluationEvent,
}

impl Newest {
    /// It comes later in the stream than the known one, and counts.
    pub(crate) fn displaces(&self, known: &Self) -> bool {
        self.sequence > known.sequence && self.event.displaces(&known.event)
    }
}

/// Follows an evaluation until it has ended or its events are no longer watched.
///
/// # Cancel safety
/// Dropping it loses nothing: the next one folds the same grades from the start.
pub(crate) async fn follow(context: Context, mut newest: watch::Receiver<Newest>) {
    let event = newest.borrow_and_update().event.clone();
    if event.state.is_ended() {
        return;
    }
    let outlet = Outlet::new(context.clone());
    let Some((manifest, columns)) = manifest(&context, &event, &outlet, &newest).await else {
        return;
    };
    let filter = subject::grade_of_evaluation(&event.evaluation);
    let grades = Follow::open(&context, declared::GRADE, filter, false, Start::Beginning).await;
    let mut evaluation = Evaluation {
        replayed: false,
        newer: 0,
        ended: None,
        changed: vec![false; manifest.benchmarks.len()],
        fold: Fold::new(&manifest, columns),
        draining: Draining::default(),
        last_change: Instant::now(),
        context,
        manifest,
        outlet,
    };
    Box::pin(evaluation.run(grades, newest)).await;
}

/// The manifest and its columns, waited for while their store is away. An evaluation whose manifest is damaged cannot be folded: it ends.
async fn manifest(
    context: &Context,
    event: &EvaluationEvent,
    outlet: &Outlet,
    newest: &watch::Receiver<Newest>,
) -> Option<(Arc<Manifest>, Vec<Columns>)> {
    let mut backoff = Backoff::standard();
    let mut tries = 0;
    loop {
        let error = match read(context, event).await {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        let latest = newest.borrow().clone();
        if newest.has_changed().is_err() || latest.event.state.is_ended() {
            return None;
        }
        tries += 1;
        let is_given_up = latest.event.state == EvaluationState::Draining && tries >= DRAINING_TRIES;
        if error.class() == Class::Permanent || is_given_up {
            outlet.without_result(&latest, error.to_string()).await;
            return None;
        }
        tracing::warn!(evaluation_id = %event.evaluation, %error, "the manifest cannot be read yet");
        tokio::time::sleep(backoff.next_pause()).await;
    }
}

async fn read(
    context: &Context,
    event: &EvaluationEvent,
) -> Result<(Arc<Manifest>, Vec<Columns>), tidemill_storage::Error> {
    let manifest = context.store.manifest(&event.manifest).await?;
    let columns = context.store.columns(&manifest).await?;
    Ok((manifest, columns))
}

struct Evaluation {
    context: Context,
    manifest: Arc<Manifest>,
    outlet: Outlet,
    fold: Fold,
    /// Benchmarks with grades that no published result holds.
    changed: Vec<bool>,
    /// All grades that were there at the start are folded: before, results would show less than an earlier aggregator did.
    replayed: bool,
    draining: Draining,
    last_change: Instant,
    /// The life whose end was published and has not come back yet.
    ended: Option<Timestamp>,
    /// Grades that only a newer version reads.
    newer: u64,
}

impl Evaluation {
    async fn run(&mut self, mut grades: Follow, mut newest: watch::Receiver<Newest>) {
        let mut ticks = interval(self.context.config.aggregator.publish_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let replayed = self.replayed;
            let next = async {
                if replayed {
                    return Some(grades.next().await);
                }
                grades.next_known().await
            };
            if self.replayed && self.fold.is_complete() && self.may_end(&newest) {
                if !self.end(&newest).await {
                    return;
                }
                continue;
            }
            tokio::select! { biased;
                changed = newest.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let newest = newest.borrow_and_update().clone();
                    if newest.event.state == EvaluationState::Superseded {
                        self.retract(&newest).await;
                    }
                    if newest.event.state.is_ended() {
                        return;
                    }
                }
                _ = ticks.tick(), if self.replayed && self.may_end(&newest) => {
                    let known = newest.borrow().clone();
                    if self.tick(&known).await && !self.end(&newest).await {
                        return;
                    }
                }
                message = next => match message {
                    Some(message) => self.fold(&message),
                    None => self.replayed = true,
                },
            }
        }
    }

    fn fold(&mut self, message: &Followed) {
        let Some(key) = subject::key_of(&message.subject) else {
            return;
        };
        span("aggregate", &key, message.trace().map(|trace| trace.child("aggregate")));
        let is_new = match decode(message, &key) {
            Decoded::Grade(grade) => self.fold.apply(&grade),
            Decoded::Unreadable => self.fold.apply_unreadable(&key),
            Decoded::Newer(reason) => {
                self.note_newer(message, &reason);
                false
            }
        };
        fault::point(Point::AggregatorFolded);
        if is_new {
            self.last_change = Instant::now();
            if let Some(changed) = self.changed.get_mut(key.benchmark as usize) {
                *changed = true;
            }
        }
    }

    fn note_newer(&mut self, message: &Followed, reason: &str) {
        if self.newer == 0 {
            tracing::error!(
                subject = message.subject,
                reason,
                "grades that only a newer aggregator reads: their samples stay open until one runs"
            );
        }
        self.newer += 1;
    }

    /// Publishes what changed. True when the evaluation drains and nothing more will come.
    async fn tick(&mut self, newest: &Newest) -> bool {
        for index in 0..self.changed.len() {
            // A pass over all samples: not where nothing changed.
            let changed = self.changed[index].then(|| self.fold.benchmark_result(index));
            let Some(benchmark) = changed.flatten() else {
                continue;
            };
            let snapshot = Snapshot {
                benchmark,
                is_complete: self.fold.benchmark_complete(index),
            };
            let timeline = self.timeline(&newest.event);
            self.changed[index] = !self.outlet.provisional(&newest.event, timeline, snapshot).await;
        }
        if newest.event.state != EvaluationState::Draining {
            self.draining = Draining::default();
            return false;
        }
        self.draining
            .is_over(
                &self.context,
                &newest.event.evaluation,
                self.fold.seen(),
                self.last_change,
            )
            .await
    }

    /// Says that what was published so far counts no longer.
    async fn retract(&self, newest: &Newest) {
        let (results, _) = self.results().await;
        let known = results.into_iter().filter(|result| result.coverage > 0.0);
        let timeline = self.timeline(&newest.event);
        self.outlet.superseded(newest, &timeline, known.collect()).await;
    }

    fn timeline(&self, event: &EvaluationEvent) -> Timeline {
        let known = self.fold.timeline();
        Timeline {
            first_request: known.first_request,
            last_completion: known.last_completion,
            last_grade: known.last_grade,
            ..event.timeline.clone()
        }
    }

    /// Nothing is known that is not looked at yet, and the end of this life was not published.
    fn may_end(&self, newest: &watch::Receiver<Newest>) -> bool {
        let is_current = newest.has_changed().is_ok_and(|changed| !changed);
        is_current && self.ended != Some(newest.borrow().event.life())
    }

    /// Publishes the results and the end of the evaluation, unless it is told otherwise meanwhile.
    ///
    /// It is over when its end comes back: what was published before that, a rollback or another life, comes first.
    /// False when this process is to stop.
    async fn end(&mut self, newest: &watch::Receiver<Newest>) -> bool {
        let mut told = newest.clone();
        let known = newest.borrow().clone();
        let publish = self.publish_end(&known);
        let told_otherwise = async {
            while told.changed().await.is_ok() {
                // The end itself may come back before the broker's word that it is stored.
                if !told.borrow_and_update().event.is_end_of(&known.event) {
                    return;
                }
            }
        };
        let is_said = tokio::select! { biased;
            () = told_otherwise => return true,
            is_said = publish => is_said,
        };
        self.ended = is_said.then_some(known.event.life());
        is_said
    }

    /// False when this process is to stop.
    async fn publish_end(&self, newest: &Newest) -> bool {
        let (state, reason) = self.judge(&newest.event);
        let visible = now();
        let timeline = Timeline {
            visible: Some(visible),
            ..self.timeline(&newest.event)
        };
        let results = self.results().await;
        let mut backoff = Backoff::standard();
        while !self
            .outlet
            .ended(newest, (state, reason.clone()), timeline.clone(), results.clone())
            .await
        {
            if self.context.cancelled.is_cancelled() {
                return false;
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
        if state == ResultState::Final {
            self.observe(&newest.event, visible);
        }
        true
    }

    /// The last results of all benchmarks and groups, computed where they hold up no other evaluation.
    async fn results(&self) -> (Vec<BenchmarkResult>, Vec<GroupResult>) {
        let fold = self.fold.clone();
        let computed = tokio::task::spawn_blocking(move || {
            let results = fold.results();
            let groups = fold.groups(&results);
            (results, groups)
        });
        match computed.await {
            Ok(results) => results,
            // The thread could not be had or ended: computed here, whatever that holds up.
            Err(error) => {
                tracing::warn!(%error, "results are computed in line");
                let results = self.fold.results();
                let groups = self.fold.groups(&results);
                (results, groups)
            }
        }
    }

    /// An evaluation that drained with samples missing is invalid, for the reason that it drains.
    fn judge(&self, event: &EvaluationEvent) -> (ResultState, Option<String>) {
        if self.fold.is_complete() {
            let verdict = verdict(&self.fold, self.manifest.max_failure_rate);
            return (verdict.state, verdict.reason);
        }
        let missing = format!(
            "{} of {} missing",
            self.fold.outcomes().missing,
            counted_as(self.fold.declared(), "sample is", "samples are")
        );
        let reason = match &event.reason {
            Some(reason) => format!("{reason}; {missing}"),
            None => missing,
        };
        let reason = match self.newer {
            0 => reason,
            newer => format!(
                "{reason}; {} of a newer version: upgrade the aggregator",
                counted_as(newer, "grade is", "grades are")
            ),
        };
        (ResultState::Invalid, Some(reason))
    }

    fn observe(&self, event: &EvaluationEvent, visible: Timestamp) {
        let begun = event.timeline.written.or(event.timeline.seen).or(event.timeline.queued);
        if let Some(begun) = begun {
            let seconds = visible.seconds_since(begun);
            tidemill_telemetry::observe(
                Metric::WrittenToVisibleSeconds,
                seconds,
                [("tier", event.suite.tier.label())],
            );
        }
    }
}

/// What a message of the GRADE stream is.
enum Decoded {
    Grade(Box<Grade>),
    /// It will never be a grade of its key: a fault of the grader, since its sample must end somehow, and no score.
    Unreadable,
    /// A newer aggregator reads it. Until one does its sample is missing, and its evaluation stays open.
    Newer(String),
}

fn decode(message: &Followed, key: &ItemKey) -> Decoded {
    match tidemill_codec::decode::<Grade>(&message.payload) {
        Ok(grade) if grade.key == *key => Decoded::Grade(Box::new(grade)),
        Ok(grade) => {
            if is_said("a grade under another key's subject", key, "") {
                tracing::error!(subject = message.subject, key = %grade.key, "a grade under another key's subject");
            }
            Decoded::Unreadable
        }
        Err(error @ tidemill_codec::Error::UnknownVersion { .. }) => Decoded::Newer(error.to_string()),
        Err(error) => {
            if is_said("a grade that cannot be read", key, &error.to_string()) {
                tracing::error!(subject = message.subject, %error, "a grade that cannot be read");
            }
            Decoded::Unreadable
        }
    }
}

fn is_said(message: &'static str, key: &ItemKey, reason: &str) -> bool {
    tidemill_telemetry::is_said(Warning {
        message,
        scope: key.evaluation.as_str(),
        reason,
    })
}
