//! The grader as a service: completions in, grades out, each key once.

use std::sync::Arc;
use std::time::Duration;

use tidemill_domain::{Class, Completion, Grade};
use tidemill_service::fault::{self, Point};
use tidemill_service::{Context, Delivery, Failure, Fatal, Settled, now, span, work};
use tidemill_streams::{durable, subject};
use tidemill_telemetry::Metric;

use crate::step::{Action, Declared, Event, Graded, graded, graded_with, next};
use crate::suite::Suites;
use crate::{Runners, backlog};

/// Longer answers are graded away from the threads that talk to the broker: a pattern over one takes above half a
/// millisecond.
const LONG_ANSWER_BYTES: usize = 64 << 10;

/// Runs a grader until the context drains.
///
/// # Errors
/// None at present: what fails is retried or recorded.
pub async fn run(context: Context) -> Result<(), Fatal> {
    let slots = context.config.grader.max_in_flight.max(1) as usize;
    let grading = Arc::new(Grading {
        context: context.clone(),
        suites: Suites::default(),
        runners: Runners::new(&context.config.grader).within(&context),
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
    runners: Runners,
}

impl Grading {
    /// Handles a delivery as [`step`](crate::step) says.
    async fn handle(&self, delivery: Delivery) -> Settled {
        let key = subject::key_of(&delivery.subject);
        let read = self.context.store.check_out(&delivery.payload).await;
        let mut event = Event::Read(read.map(Box::new));
        loop {
            event = match next(event, key.as_ref()) {
                Action::Find(completion) => {
                    let declared = self.find(&completion).await;
                    Event::Found(completion, declared)
                }
                Action::Grade(completion, declared) => {
                    let graded = if declared.suite.is_outside(completion.key.benchmark) {
                        self.grade_outside(&declared, &completion, &delivery).await
                    } else {
                        grade(declared, completion, self.context.config.grader.delay).await
                    };
                    fault::point(Point::GraderGraded);
                    Event::Graded(graded)
                }
                Action::Publish { grade, family, then } => Event::Published {
                    stored: self.publish(&grade, family, &delivery).await,
                    then,
                },
                Action::Settle(settled) => return settled,
            };
        }
    }

    /// Grades by something outside of this process, unless the completion is somebody else's before that is done.
    async fn grade_outside(
        &self,
        declared: &Declared,
        completion: &Completion,
        delivery: &Delivery,
    ) -> Result<Graded, Failure> {
        tokio::select! { biased;
            graded = graded_with(declared, completion, &self.runners) => {
                graded.map_err(|failure| left_longer(failure, delivery.delivered))
            }
            () = delivery.stopped.cancelled() => Err(Failure::cancelled()),
        }
    }

    async fn find(&self, completion: &Completion) -> Result<Option<Declared>, tidemill_storage::Error> {
        let store = &self.context.store;
        let suite = self.suites.get(store, &completion.manifest).await?;
        let item = store.item(suite.manifest(), &completion.key).await?;
        Ok(item.map(|item| Declared { suite, item }))
    }

    async fn publish(&self, grade: &Grade, family: &'static str, delivery: &Delivery) -> Settled {
        let trace = delivery.trace.map(|trace| trace.child("grade"));
        self.context.publisher.publish(grade, trace).await?;
        fault::point(Point::GraderPublished);
        span("grade", &grade.key, trace);
        record(grade, family);
        Ok(())
    }
}

/// Longest pause of what is given back again and again, in first pauses.
const LONGEST_LEFT: u32 = 6;

/// The pause of what is given back grows with its deliveries: thousands may wait.
fn left_longer(failure: Failure, delivered: i64) -> Failure {
    let times = u32::try_from(delivered).unwrap_or(LONGEST_LEFT).clamp(1, LONGEST_LEFT);
    Failure {
        pause: failure.pause.map(|pause| pause * times),
        ..failure
    }
}

/// Grades in place, or away from the runtime's threads when the answer is long or grading is made slow.
async fn grade(declared: Declared, completion: Box<Completion>, delay: Duration) -> Result<Graded, Failure> {
    if completion.text.len() <= LONG_ANSWER_BYTES && delay.is_zero() {
        return Ok(graded(&declared, &completion, now()));
    }
    let graded = tokio::task::spawn_blocking(move || {
        std::thread::sleep(delay);
        graded(&declared, &completion, now())
    });
    graded.await.map_err(|error| Failure::of(Class::Bug, &error))
}

fn record(grade: &Grade, family: &'static str) {
    let outcome = grade.outcome.label();
    tidemill_telemetry::count(Metric::Grades, [("outcome", outcome), ("family", family)]);
    let latency = grade.graded.seconds_since(grade.finished);
    tidemill_telemetry::observe(Metric::GradeLatencySeconds, latency, [("family", family)]);
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
