//! A grader: its real steps and its real grades.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tidemill_domain::{Class, ItemKey, Timestamp};
use tidemill_grader::step::{Action, Event, graded, next};
use tidemill_service::settle::{self, Failure, Settled};
use tidemill_storage::Error;

use super::Worker;
use super::generator::carry_out;
use super::publishing::Publishing;
use crate::breakage::Breakage;
use crate::broker::{Answer, Body, Delivery, Durable, Op};
use crate::world::{Input, Reach, Timer};

const POLL_EVERY: Duration = Duration::from_millis(150);
const SLOTS: usize = 16;

/// A completion in hand: its place in DONE, how often it was delivered, and its key.
type InHand = (u64, i64, ItemKey);

#[derive(Debug)]
enum Then {
    Published(u64, Settled),
    Terminate(u64),
}

#[derive(Default)]
pub(super) struct Grader {
    tasks: BTreeMap<u64, InHand>,
    next: u64,
    pulls: HashSet<u64>,
    publishing: Publishing<Then>,
    draining: bool,
}

impl Worker for Grader {
    fn handle(&mut self, input: Input, reach: &mut Reach<'_>) {
        match input {
            Input::Start => {
                reach.about(Duration::from_millis(10), Timer::Poll);
                reach.timer(Durable::Grader.ack_wait() / 3, Timer::Progress);
            }
            Input::Timer(Timer::Poll) => {
                reach.about(POLL_EVERY, Timer::Poll);
                let free = SLOTS.saturating_sub(self.tasks.len());
                if free > 0 && self.pulls.is_empty() && !self.draining {
                    self.pulls.insert(reach.request(Op::Pull(Durable::Grader, free)));
                }
            }
            Input::Timer(Timer::Progress) => {
                for (sequence, _, _) in self.tasks.values() {
                    reach.send(Op::Progress(Durable::Grader, *sequence));
                }
                reach.timer(Durable::Grader.ack_wait() / 3, Timer::Progress);
            }
            Input::Timer(Timer::Retry(request)) => self.publishing.retry(reach, request),
            Input::Delivery(delivery) => self.begin(*delivery, reach),
            Input::Answer(request, answer) => self.answered(request, answer.as_ref(), reach),
            Input::Drain => self.draining = true,
            Input::Timer(_) | Input::Prepared(_) | Input::Engine(..) => {}
        }
        if self.draining && self.tasks.is_empty() && self.publishing.is_empty() {
            reach.exit();
        }
    }
}

impl Grader {
    fn begin(&mut self, delivery: Delivery, reach: &mut Reach<'_>) {
        let Body::Completion(completion) = delivery.body else {
            return;
        };
        let task = self.next;
        self.next += 1;
        self.tasks
            .insert(task, (delivery.sequence, delivery.delivered, completion.key.clone()));
        if reach.is_broken(Breakage::AckBeforeGrade) {
            reach.send(Op::Ack(Durable::Grader, delivery.sequence));
        }
        if reach.panics() {
            let failure = Failure::of(Class::Bug, &std::fmt::Error);
            return self.settle(task, &Err(failure), reach);
        }
        let read = if reach.store_fails() {
            Err(missing(&completion.key))
        } else {
            Ok(completion)
        };
        self.go_on(task, Event::Read(read), reach);
    }

    fn answered(&mut self, request: u64, answer: Option<&Answer>, reach: &mut Reach<'_>) {
        self.pulls.remove(&request);
        match self.publishing.answered(reach, request, answer) {
            Some(Then::Published(task, then)) => {
                self.go_on(task, Event::Published { stored: Ok(()), then }, reach);
            }
            Some(Then::Terminate(sequence)) => drop(reach.send(Op::Term(Durable::Grader, sequence))),
            None => {}
        }
    }

    /// Does what the step says.
    fn go_on(&mut self, task: u64, event: Event, reach: &mut Reach<'_>) {
        let Some((_, delivered, key)) = self.tasks.get(&task).cloned() else {
            return;
        };
        match next(event, Some(&key), delivered) {
            Action::Find(completion) => {
                let found = if reach.store_fails() {
                    Err(missing(&key))
                } else {
                    Ok(Some(reach.world.declared.find(&key)))
                };
                self.go_on(task, Event::Found(completion, found), reach);
            }
            Action::Grade(completion, declared) => {
                let event = Event::Graded(Ok(graded(&declared, &completion, Timestamp(3))));
                self.go_on(task, event, reach);
            }
            Action::Publish { grade, then, .. } => {
                self.publishing
                    .publish(reach, Op::Grade(grade), Then::Published(task, then));
            }
            Action::Settle(settled) => self.settle(task, &settled, reach),
        }
    }

    fn settle(&mut self, task: u64, settled: &Settled, reach: &mut Reach<'_>) {
        let Some((sequence, delivered, key)) = self.tasks.remove(&task) else {
            return;
        };
        let action = match settled {
            Ok(()) => settle::Action::Ack,
            Err(failure) => settle::decide(failure, delivered),
        };
        if let Some(key) = carry_out(action, Durable::Grader, sequence, key, reach) {
            self.publishing.publish(reach, Op::Bury(key), Then::Terminate(sequence));
        }
    }
}

/// The object store does not have what it should.
fn missing(key: &ItemKey) -> Error {
    Error::Missing {
        key: key.to_string(),
        address: "simulated".to_owned(),
    }
}
