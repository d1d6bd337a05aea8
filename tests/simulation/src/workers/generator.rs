//! A generator: its real steps from a delivery to its acknowledgement.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidemill_domain::{Class, ItemKey, Release};
use tidemill_generator::step::{Action, Asked, Event, is_good, next};
use tidemill_generator::{Held, Keys};
use tidemill_service::settle::{self, Failure, Settled};

use super::Worker;
use super::publishing::Publishing;
use crate::breakage::Breakage;
use crate::broker::{Answer, Body, Delivery, Durable, Op};
use crate::plan::Time;
use crate::world::{Input, Reach, Timer};

const POLL_EVERY: Duration = Duration::from_millis(150);

/// The part of the grace in which requests in flight may finish.
const GRACE: Duration = Duration::from_secs(8);

type Waiting = Pin<Box<dyn Future<Output = Held>>>;

/// The right to work on the item, or the wait for it.
enum Hold {
    Waiting(Waiting),
    Held(#[expect(dead_code, reason = "it is held until it is dropped")] Held),
    /// A breakage.
    Ignored,
}

struct Task {
    sequence: u64,
    delivered: i64,
    release: Release,
    hold: Hold,
    /// Another attempt of this process had the item before.
    waited: bool,
    looked: Time,
    /// A request is with the engine.
    is_asking: bool,
}

/// What comes after a publish.
#[derive(Debug)]
enum Then {
    /// The completion of a task is stored.
    Published(u64, Settled),
    /// The dead letter of a message is stored.
    Terminate(u64),
}

#[derive(Default)]
pub(super) struct Generator {
    tasks: BTreeMap<u64, Task>,
    next: u64,
    keys: Arc<Keys>,
    looks: HashMap<u64, u64>,
    pulling: Option<u64>,
    publishing: Publishing<Then>,
    draining: bool,
}

impl Worker for Generator {
    fn handle(&mut self, input: Input, reach: &mut Reach<'_>) {
        match input {
            Input::Start => {
                reach.about(Duration::from_millis(10), Timer::Poll);
                reach.timer(Durable::Generator.ack_wait() / 3, Timer::Progress);
            }
            Input::Timer(Timer::Poll) => self.poll(reach),
            Input::Timer(Timer::Progress) => {
                for task in self.tasks.values() {
                    reach.send(Op::Progress(Durable::Generator, task.sequence));
                }
                reach.timer(Durable::Generator.ack_wait() / 3, Timer::Progress);
            }
            Input::Timer(Timer::Retry(request)) => self.publishing.retry(reach, request),
            Input::Timer(Timer::GraceEnds) => self.give_back(reach),
            Input::Timer(_) => {}
            Input::Delivery(delivery) => self.begin(*delivery, reach),
            Input::Prepared(task) => self.ask(task, reach),
            Input::Engine(task, completion) => {
                if let Some(known) = self.tasks.get_mut(&task) {
                    known.is_asking = false;
                    if reach.is_broken(Breakage::AckBeforePublish) {
                        reach.send(Op::Ack(Durable::Generator, known.sequence));
                    }
                    self.go_on(task, Event::Asked(Asked::Completed(completion)), reach);
                }
            }
            Input::Answer(request, answer) => self.answered(request, answer.as_ref(), reach),
            Input::Drain => {
                self.draining = true;
                reach.timer(GRACE, Timer::GraceEnds);
            }
        }
        if self.draining && self.tasks.is_empty() && self.publishing.is_empty() {
            reach.exit();
        }
    }
}

impl Generator {
    fn poll(&mut self, reach: &mut Reach<'_>) {
        reach.about(POLL_EVERY, Timer::Poll);
        let free = reach.world.plan.slots.saturating_sub(self.tasks.len());
        if free > 0 && self.pulling.is_none() && !self.draining {
            self.pulling = Some(reach.request(Op::Pull(Durable::Generator, free)));
        }
    }

    fn begin(&mut self, delivery: Delivery, reach: &mut Reach<'_>) {
        let Body::Release(release) = delivery.body else { return };
        let task = self.next;
        self.next += 1;
        let hold = if reach.is_broken(Breakage::IgnoreOwnItems) {
            Hold::Ignored
        } else {
            Hold::Waiting(Box::pin(Arc::clone(&self.keys).hold(release.key.clone())))
        };
        let begun = Task {
            sequence: delivery.sequence,
            delivered: delivery.delivered,
            release,
            hold,
            waited: false,
            looked: Duration::ZERO,
            is_asking: false,
        };
        self.tasks.insert(task, begun);
        self.try_hold(task, reach);
        if let Some(task) = self.tasks.get_mut(&task) {
            task.waited = matches!(task.hold, Hold::Waiting(_));
        }
    }

    fn try_hold(&mut self, task: u64, reach: &mut Reach<'_>) {
        let Some(known) = self.tasks.get_mut(&task) else { return };
        match &mut known.hold {
            Hold::Held(_) => return,
            Hold::Ignored => {}
            Hold::Waiting(waiting) => {
                let Poll::Ready(held) = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                    return;
                };
                known.hold = Hold::Held(held);
            }
        }
        let event = self.delivered(task, reach);
        self.go_on(task, event, reach);
    }

    /// A delivery that is worked on now. A broken generator pretends to have looked.
    fn delivered(&mut self, task: u64, reach: &mut Reach<'_>) -> Event {
        let Some(known) = self.tasks.get_mut(&task) else {
            return Event::Delivered;
        };
        let hints = known.release.again || known.delivered > 1 || known.waited;
        let skips = reach.is_broken(Breakage::SkipLook) || (reach.is_broken(Breakage::LookOnHint) && !hints);
        if !skips {
            return Event::Delivered;
        }
        known.looked = reach.now();
        Event::Looked {
            recorded: Ok(false),
            ago: Duration::ZERO,
        }
    }

    fn answered(&mut self, request: u64, answer: Option<&Answer>, reach: &mut Reach<'_>) {
        if self.pulling == Some(request) {
            self.pulling = None;
            return;
        }
        if let Some(then) = self.publishing.answered(reach, request, answer) {
            match then {
                Then::Published(task, then) => self.go_on(task, Event::Published { stored: Ok(()), then }, reach),
                Then::Terminate(sequence) => drop(reach.send(Op::Term(Durable::Generator, sequence))),
            }
            return;
        }
        let Some(task) = self.looks.remove(&request) else {
            return;
        };
        let Some(looked) = self.tasks.get(&task).map(|task| task.looked) else {
            return;
        };
        if reach.panics() {
            let failure = Failure::of(Class::Bug, &std::fmt::Error);
            return self.settle(task, &Err(failure), reach);
        }
        let recorded = match answer {
            Some(Answer::Found(found)) => Ok(*found),
            _ => Err(Failure::transient("no answer")),
        };
        let ago = if reach.is_broken(Breakage::BelieveOldLook) {
            Duration::ZERO
        } else {
            reach.now() - looked
        };
        self.go_on(task, Event::Looked { recorded, ago }, reach);
    }

    /// Does what the step says.
    fn go_on(&mut self, task: u64, event: Event, reach: &mut Reach<'_>) {
        let Some(known) = self.tasks.get_mut(&task) else { return };
        match next(event) {
            Action::LookUp => {
                known.looked = reach.now();
                let request = reach.request(Op::LookUp(known.release.key.clone()));
                self.looks.insert(request, task);
            }
            Action::Ask => reach.prepare(task),
            Action::Publish { completion, then } => {
                let op = if reach.is_broken(Breakage::Overwrite) {
                    Op::Overwrite(completion)
                } else {
                    Op::Complete(completion)
                };
                if reach.is_broken(Breakage::PublishUnawaited) {
                    reach.send(op);
                    return self.go_on(task, Event::Published { stored: Ok(()), then }, reach);
                }
                self.publishing.publish(reach, op, Then::Published(task, then));
            }
            Action::Settle(settled) => self.settle(task, &settled, reach),
        }
    }

    /// What asking takes is there.
    fn ask(&mut self, task: u64, reach: &mut Reach<'_>) {
        let Some(known) = self.tasks.get_mut(&task) else { return };
        let ago = reach.now() - known.looked;
        if self.draining {
            let given_back = Asked::Failed(Failure::cancelled());
            return self.go_on(task, Event::Asked(given_back), reach);
        }
        if !is_good(ago) && !reach.is_broken(Breakage::BelieveOldLook) {
            return self.go_on(task, Event::Asked(Asked::TooLate), reach);
        }
        known.is_asking = true;
        let (key, looked) = (known.release.key.clone(), known.looked);
        reach.ask(task, &key, looked);
    }

    fn settle(&mut self, task: u64, settled: &Settled, reach: &mut Reach<'_>) {
        let Some(Task {
            sequence,
            delivered,
            release,
            ..
        }) = self.tasks.remove(&task)
        else {
            return;
        };
        reach.asked_is_over(&release.key, settled.is_err());
        let action = match settled {
            Ok(()) => settle::Action::Ack,
            Err(_) if reach.is_broken(Breakage::AckFailure) => settle::Action::Ack,
            Err(failure) => settle::decide(failure, delivered),
        };
        if let Some(key) = carry_out(action, Durable::Generator, sequence, release.key, reach) {
            self.publishing.publish(reach, Op::Bury(key), Then::Terminate(sequence));
        }
        // Whoever waited for the item in this process goes on.
        let waiting: Vec<u64> = self.tasks.keys().copied().collect();
        for task in waiting {
            if matches!(
                self.tasks.get(&task),
                Some(Task {
                    hold: Hold::Waiting(_),
                    ..
                })
            ) {
                self.try_hold(task, reach);
            }
        }
    }

    /// The grace is over: what is with the engine is given back.
    fn give_back(&mut self, reach: &mut Reach<'_>) {
        let asking: Vec<u64> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.is_asking)
            .map(|(task, _)| *task)
            .collect();
        for task in asking {
            self.go_on(task, Event::Asked(Asked::Failed(Failure::cancelled())), reach);
        }
    }
}

/// Sends what a message's handling ended in. The key, when a dead letter is to be stored first.
pub(super) fn carry_out(
    action: settle::Action,
    durable: Durable,
    sequence: u64,
    key: ItemKey,
    reach: &mut Reach<'_>,
) -> Option<ItemKey> {
    match action {
        settle::Action::Ack => drop(reach.send(Op::Ack(durable, sequence))),
        settle::Action::Nak(pause) => drop(reach.send(Op::Nak(durable, sequence, pause.unwrap_or_default()))),
        settle::Action::Leave => {}
        settle::Action::Bury => return Some(key),
    }
    None
}
