//! The grader as a service: completions in, grades out, each key once.

use std::sync::Arc;

use tidemill_domain::{Class, Completion, Grade, ItemKey, Outcome};
use tidemill_service::{Context, Delivery, Failure, Fatal, Settled, now, span, work};
use tidemill_streams::{durable, subject};
use tidemill_telemetry::Metric;

use crate::backlog;
use crate::suite::{Suite, Suites};

/// Longer answers are graded away from the threads that talk to the broker: a pattern over one takes above half a
/// millisecond.
const LONG_ANSWER_BYTES: usize = 64 << 10;

/// The grader that stands in the grade of a completion that could not be read.
const NO_GRADER: &str = "none";

/// Runs a grader until the context drains.
///
/// # Errors
/// None at present: what fails is retried or recorded.
pub async fn run(context: Context) -> Result<(), Fatal> {
    let slots = context.config.grader.max_in_flight.max(1) as usize;
    let grading = Arc::new(Grading {
        context: context.clone(),
        suites: Suites::default(),
    });
    let (durable, stop) = (durable::grader(), context.draining.clone());
    let grades = work(&context, &durable, slots, &stop, move |delivery| {
        let grading = Arc::clone(&grading);
        async move { grading.handle(delivery).await }
    });
    tokio::join!(grades, backlog::report(&context));
    Ok(())
}

struct Grading {
    context: Context,
    suites: Suites,
}

impl Grading {
    /// Stores the grade of a completion, unless one is there.
    async fn handle(&self, delivery: Delivery) -> Settled {
        let completion: Completion = match self.context.store.check_out(&delivery.payload).await {
            Ok(completion) => completion,
            Err(error) => return Err(self.unreadable(&delivery, None, error).await?),
        };
        if subject::key_of(&delivery.subject).as_ref() != Some(&completion.key) {
            let key = &completion.key;
            return Err(Failure::permanent(format!(
                "a completion of {key} under another key's subject"
            )));
        }
        let suite = match self.suites.get(&self.context.store, &completion.manifest).await {
            Ok(suite) => suite,
            Err(error) => return Err(self.unreadable(&delivery, Some(&completion), error).await?),
        };
        let (key, family) = (completion.key.clone(), suite.family(completion.key.benchmark));
        let Some(grade) = grade(suite, completion).await? else {
            return Err(Failure::permanent(format!("{key} is not declared by its manifest")));
        };
        let trace = delivery.trace.map(|trace| trace.child("grade"));
        self.context.publisher.publish(&grade, trace).await?;
        span("grade", &grade.key, trace);
        record(&grade, family);
        Ok(())
    }

    /// Records a fault of the grader for a completion that will never be readable, or whose manifest will not, so that its
    /// evaluation can end, and returns the failure for the dead letter. What a newer grader reads gets no grade here: it is
    /// left to that one, and held when none comes.
    async fn unreadable(
        &self,
        delivery: &Delivery,
        completion: Option<&Completion>,
        error: tidemill_storage::Error,
    ) -> Result<Failure, Failure> {
        let failure = Failure::from(error);
        let is_lost = failure.class == Class::Permanent;
        if let Some(key) = subject::key_of(&delivery.subject).filter(|_| is_lost) {
            let fault = fault(key, failure.reason.clone());
            let grade = match completion {
                Some(completion) => with_costs(fault, completion),
                None => fault,
            };
            self.context.publisher.publish(&grade, delivery.trace).await?;
            record(&grade, NO_GRADER);
        }
        Ok(failure)
    }
}

/// Grades in place, or away from the runtime's threads when the answer is long.
async fn grade(suite: Arc<Suite>, completion: Completion) -> Result<Option<Grade>, Failure> {
    if completion.text.len() <= LONG_ANSWER_BYTES {
        return Ok(suite.grade(&completion, now()));
    }
    let graded = tokio::task::spawn_blocking(move || suite.grade(&completion, now()));
    graded.await.map_err(|error| Failure::of(Class::Bug, &error))
}

fn fault(key: ItemKey, reason: String) -> Grade {
    let now = now();
    Grade {
        key,
        outcome: Outcome::GraderError,
        score: 0.0,
        score_before_cut: None,
        extracted: None,
        grader: NO_GRADER.to_owned(),
        reason: Some(reason),
        truncated: false,
        prompt_tokens: 0,
        completion_tokens: 0,
        requests: 0,
        cached: false,
        started: now,
        finished: now,
        graded: now,
    }
}

/// A grade with what its completion cost, and when.
fn with_costs(grade: Grade, completion: &Completion) -> Grade {
    Grade {
        prompt_tokens: completion.prompt_tokens,
        completion_tokens: completion.completion_tokens,
        requests: completion.requests,
        cached: completion.cached,
        started: completion.started,
        finished: completion.finished,
        ..grade
    }
}

fn record(grade: &Grade, family: &'static str) {
    let outcome = grade.outcome.label();
    tidemill_telemetry::count(Metric::Grades, [("outcome", outcome), ("family", family)]);
    if !grade.cached {
        let latency = grade.graded.seconds_since(grade.finished);
        tidemill_telemetry::observe(Metric::GradeLatencySeconds, latency, [("family", family)]);
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
