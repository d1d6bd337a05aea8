//! The grader as a service: completions in, grades out, each key once.

use std::sync::Arc;

use tidemill_domain::{Class, Completion, Grade};
use tidemill_service::fault::{self, Point};
use tidemill_service::{Context, Delivery, Failure, Fatal, Settled, now, span, work};
use tidemill_streams::{durable, subject};

use crate::lanes::LaneName;
use crate::load::{self, Latencies};
use crate::pool::{Pool, Turn, Wanted};
use crate::step::{Action, Declared, Event, Graded, graded, graded_with, next};
use crate::suite::Suites;
use crate::{Runners, backlog};

/// Runs a grader until the context drains.
///
/// # Errors
/// None at present: what fails is retried or recorded.
pub async fn run(context: Context) -> Result<(), Fatal> {
    let slots = context.config.grader.max_in_flight.max(1) as usize;
    let grading = Arc::new(Grading::new(&context));
    let (durable, stop) = (durable::grader(), context.draining.clone());
    let handling = Arc::clone(&grading);
    let grades = work(&context, &durable, slots, &stop, move |delivery| {
        let grading = Arc::clone(&handling);
        async move { grading.handle(delivery).await }
    });
    let loads = load::report(&context, &grading.pool, &grading.latencies);
    tokio::join!(grades, loads, backlog::report(&context));
    Ok(())
}

struct Grading {
    context: Context,
    suites: Suites,
    runners: Runners,
    pool: Pool,
    latencies: Latencies,
}

impl Grading {
    fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            suites: Suites::default(),
            runners: Runners::of(&context.config.grader),
            pool: Pool::new(&context.config.grader),
            latencies: Latencies::default(),
        }
    }

    /// Handles a delivery as [`step`](crate::step) says.
    async fn handle(&self, delivery: Delivery) -> Settled {
        let key = subject::key_of(&delivery.subject);
        let read = self.context.store.check_out(&delivery.payload).await;
        let mut event = Event::Read(read.map(Box::new));
        let mut turn = None;
        loop {
            event = match next(event, key.as_ref()) {
                Action::Find(completion) => {
                    // Before its item is read: most of what is given back comes again several times.
                    turn = match self.turn(&completion, &delivery).await {
                        Ok(turn) => turn,
                        Err(given_back) => return Err(given_back),
                    };
                    let declared = self.find(&completion).await;
                    Event::Found(completion, declared)
                }
                Action::Grade(completion, declared) => {
                    // Others have their turn while this grade is stored.
                    let graded = self.grade(declared, completion, turn.take()).await;
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

    /// Waits for the completion's turn; there is none where it is graded in place, or not at all.
    async fn turn(&self, completion: &Completion, delivery: &Delivery) -> Result<Option<Turn>, Failure> {
        let Ok(suite) = self.suites.get(&self.context.store, &completion.manifest).await else {
            return Ok(None);
        };
        let is_slowed = !self.context.config.grader.delay.is_zero();
        let Some(lane) = suite.lane(completion).or(is_slowed.then_some(LaneName::Blocking)) else {
            return Ok(None);
        };
        let wanted = Wanted {
            lane,
            evaluation: completion.key.evaluation.clone(),
            family: suite.family(completion.key.benchmark),
            since: completion.finished,
        };
        self.pool
            .turn(&wanted, delivery, &self.context.draining)
            .await
            .map(Some)
    }

    async fn find(&self, completion: &Completion) -> Result<Option<Declared>, tidemill_storage::Error> {
        let store = &self.context.store;
        let suite = self.suites.get(store, &completion.manifest).await?;
        let item = store.item(suite.manifest(), &completion.key).await?;
        Ok(item.map(|item| Declared { suite, item }))
    }

    /// Grades in place, or at its turn: by what is outside of this process, or on a thread that may be kept busy.
    async fn grade(
        &self,
        declared: Declared,
        completion: Box<Completion>,
        turn: Option<Turn>,
    ) -> Result<Graded, Failure> {
        let Some(turn) = turn else {
            return Ok(graded(&declared, &completion, now()));
        };
        if declared.suite.is_outside(completion.key.benchmark) {
            let graded = graded_with(&declared, &completion, &self.runners).await;
            drop(turn);
            return Ok(graded);
        }
        let delay = self.context.config.grader.delay;
        let graded = tokio::task::spawn_blocking(move || {
            // Until the thread is free again, also when nobody waits for the grade any more.
            let _turn = turn;
            std::thread::sleep(delay);
            graded(&declared, &completion, now())
        });
        graded.await.map_err(|error| Failure::of(Class::Bug, &error))
    }

    async fn publish(&self, grade: &Grade, family: &'static str, delivery: &Delivery) -> Settled {
        let trace = delivery.trace.map(|trace| trace.child("grade"));
        self.context.publisher.publish(grade, trace).await?;
        fault::point(Point::GraderPublished);
        span("grade", &grade.key, trace);
        self.latencies.record(grade, family);
        Ok(())
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
