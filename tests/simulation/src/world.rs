//! The world of a run: virtual time, the network between processes and broker, and what happens to both.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tidemill_domain::{Completion, ItemKey};
use tidemill_generator::step::LOOK_IS_GOOD_FOR;
use tokio::time::Instant;

use crate::breakage::Breakage;
use crate::broker::{Answer, Broker, Delivery, Op, Violation};
use crate::chance::Chance;
use crate::plan::{Fault, Plan, Role, Time};
use crate::suite::Declared;
use crate::summary::Summary;
use crate::workers::{self, Worker};

/// A client gives up waiting for an answer after so long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// After the last result, for stale processes to do what harm they can.
const AFTERWARDS: Duration = Duration::from_secs(50);

/// The run must be over so long after the last fault. The longest chain: an item is suspended with its process (`ack_wait`,
/// 20 s), is released again (30 s), and waits behind a lease (10 s) and pauses of publishes and failures (5 and 10 s).
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(150);

/// More events than any run needs.
const MOST_EVENTS: u64 = 2_000_000;

/// What reaches a process.
#[derive(Debug)]
pub(crate) enum Input {
    Start,
    Timer(Timer),
    /// The answer to a request; `None` when none came in time.
    Answer(u64, Option<Answer>),
    Delivery(Box<Delivery>),
    /// What asking for a task takes is there.
    Prepared(u64),
    /// The engine's answer for a task.
    Engine(u64, Box<Completion>),
    Drain,
}

/// What a process may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    Poll,
    Progress,
    Tick,
    Lease,
    LeaseEnds,
    Retry(u64),
    GraceEnds,
}

#[derive(Debug)]
enum What {
    Start(usize),
    Input(usize, u64, Input),
    ToBroker(usize, u64, u64, Op),
    Fault(Fault),
}

/// A process, or the place of one that is down.
struct Process {
    role: Role,
    incarnation: u64,
    worker: Option<Box<dyn Worker>>,
    suspended_until: Time,
    draining: bool,
}

/// A request to the engine.
#[derive(Debug, Clone)]
struct Asked {
    process: usize,
    incarnation: u64,
    is_open: bool,
}

/// Everything but the processes.
pub(crate) struct Shared {
    pub(crate) now: Time,
    pub(crate) plan: Plan,
    pub(crate) declared: Declared,
    pub(crate) breakage: Option<Breakage>,
    pub(crate) summary: Summary,
    pub(crate) trace: Option<Vec<String>>,
    chance: Chance,
    broker: Broker,
    queue: BTreeMap<(Time, u64), What>,
    order: u64,
    requests: u64,
    asked: HashMap<ItemKey, Vec<Asked>>,
    broker_away_until: Time,
    engine_away_until: Time,
    leases_expired: bool,
    /// Requests to the engine that ended without a stored completion of their own.
    excused: u64,
    violation: Option<Violation>,
    begin: Instant,
}

/// What a process has at hand.
pub(crate) struct Reach<'a> {
    pub(crate) world: &'a mut Shared,
    pub(crate) process: usize,
    incarnation: u64,
    exits: bool,
}

/// A run.
pub(crate) struct World {
    shared: Shared,
    processes: Vec<Process>,
}

impl Shared {
    fn push(&mut self, at: Time, what: What) {
        self.order += 1;
        self.queue.insert((at, self.order), what);
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>10.4} {}", self.now.as_secs_f64(), text()));
        }
    }

    fn violate(&mut self, violation: Violation) {
        self.note(|| format!("VIOLATION {violation}"));
        self.violation.get_or_insert(violation);
    }

    /// Bad things may happen.
    fn is_rough(&self) -> bool {
        self.now < self.plan.calm_from
    }

    /// How long a message takes; `None` when it is lost.
    fn fate(&mut self) -> Option<Duration> {
        if self.is_rough() && self.chance.happens(self.plan.net.lost) {
            self.summary.lost += 1;
            return None;
        }
        if self.is_rough() && self.chance.happens(self.plan.net.slow) {
            self.summary.delayed += 1;
            return Some(self.chance.millis(100, 4_000));
        }
        Some(Duration::from_micros(200 + self.chance.below(2_000) as u64))
    }
}

impl Reach<'_> {
    pub(crate) const fn now(&self) -> Time {
        self.world.now
    }

    /// The clock that the real rules read.
    pub(crate) fn instant(&self) -> Instant {
        self.world.begin + self.world.now
    }

    /// The name of this life of this process.
    pub(crate) fn holder(&self) -> String {
        format!("{}.{}", self.process, self.incarnation)
    }

    pub(crate) fn is_broken(&self, breakage: Breakage) -> bool {
        self.world.breakage == Some(breakage)
    }

    pub(crate) fn timer(&mut self, after: Duration, timer: Timer) {
        let what = What::Input(self.process, self.incarnation, Input::Timer(timer));
        self.world.push(self.world.now + after, what);
    }

    /// A timer with some disorder, as real ones have.
    pub(crate) fn about(&mut self, after: Duration, timer: Timer) {
        let more = self.world.chance.below(after.as_micros() as usize / 4 + 1);
        self.timer(after + Duration::from_micros(more as u64), timer);
    }

    /// Sends a request whose answer, or the lack of it, comes back under the number returned.
    pub(crate) fn request(&mut self, op: Op) -> u64 {
        let request = self.send(op);
        let timeout = What::Input(self.process, self.incarnation, Input::Answer(request, None));
        self.world.push(self.world.now + ANSWER_TIMEOUT, timeout);
        request
    }

    /// Sends what nobody answers.
    pub(crate) fn send(&mut self, op: Op) -> u64 {
        self.world.requests += 1;
        let request = self.world.requests;
        self.world.summary.messages += 1;
        self.world.note(|| format!("{} -> {op:?}", self.process));
        if let Some(delay) = self.world.fate() {
            let what = What::ToBroker(self.process, self.incarnation, request, op);
            self.world.push(self.world.now + delay, what);
        }
        request
    }

    /// A handler panics now.
    pub(crate) fn panics(&mut self) -> bool {
        let panics = self.world.is_rough() && self.world.chance.happens(self.world.plan.net.panics);
        self.world.summary.panics += u64::from(panics);
        panics
    }

    /// The object store fails now.
    pub(crate) fn store_fails(&mut self) -> bool {
        self.world.is_rough() && self.world.chance.happens(self.world.plan.net.store_fails)
    }

    /// Gets a task's prompt from the object store, and room for its request.
    pub(crate) fn prepare(&mut self, task: u64) {
        let is_slow = self.world.is_rough() && self.world.chance.happens(0.02);
        let takes = if is_slow {
            self.world.chance.millis(1_000, 30_000)
        } else {
            self.world.chance.millis(0, 3)
        };
        let what = What::Input(self.process, self.incarnation, Input::Prepared(task));
        self.world.push(self.world.now + takes, what);
    }

    /// This process ends by itself, drained.
    pub(crate) const fn exit(&mut self) {
        self.exits = true;
    }

    /// Sends a request to the engine for a task, after a look that was sent at `looked` and found nothing.
    pub(crate) fn ask(&mut self, task: u64, key: &ItemKey, looked: Time) {
        let (now, process, incarnation) = (self.world.now, self.process, self.incarnation);
        self.world.note(|| format!("{process} asks for {key}"));
        self.world.summary.asked += 1;
        if let Some(stored) = self.world.broker.done_at(key) {
            if stored < looked || stored + LOOK_IS_GOOD_FOR < now {
                let reason = format!("{key} was asked for again: its completion is there since {stored:?}");
                self.world.violate(reason);
            }
            self.world.summary.raced += 1;
        }
        let earlier = self.world.asked.entry(key.clone()).or_default();
        let is_own = |asked: &Asked| asked.is_open && asked.process == process && asked.incarnation == incarnation;
        let is_twice = earlier.iter().any(is_own);
        earlier.push(Asked {
            process,
            incarnation,
            is_open: true,
        });
        if is_twice {
            let reason = format!("process {process} has two requests for {key} in flight");
            self.world.violate(reason);
        }
        let mut latency = self.world.chance.millis(30, 1_500);
        if self.world.chance.happens(0.05) {
            latency = self.world.chance.millis(2_000, 30_000);
        }
        // A request that fails is made again by the same asking: it is not an answer, so nothing is generated twice.
        while self.world.is_rough() && self.world.chance.happens(0.05) {
            self.world.summary.engine_failures += 1;
            latency += self.world.chance.millis(50, 2_000);
        }
        let at = (now + latency).max(self.world.engine_away_until);
        let completion = Box::new(self.world.declared.completion(key));
        self.world
            .push(at, What::Input(process, incarnation, Input::Engine(task, completion)));
    }

    /// A request of this process for the item is over: its completion is stored, or it was given back.
    pub(crate) fn asked_is_over(&mut self, key: &ItemKey, was_given_back: bool) {
        let (process, incarnation) = (self.process, self.incarnation);
        for asked in self.world.asked.entry(key.clone()).or_default() {
            if asked.process == process && asked.incarnation == incarnation && asked.is_open {
                asked.is_open = false;
                self.world.excused += u64::from(was_given_back);
            }
        }
    }
}

impl World {
    pub(crate) fn new(seed: u64, is_calm: bool, breakage: Option<Breakage>, is_traced: bool) -> Self {
        let mut chance = Chance::new(seed);
        let plan = if is_calm {
            Plan::calm(&mut chance)
        } else {
            Plan::of(&mut chance)
        };
        let declared = Declared::new(seed, plan.evaluations, plan.items);
        let broker = Broker::new(declared.ids.clone(), plan.slots);
        let processes = plan.roles.iter().map(|role| Process::down(*role)).collect();
        let mut shared = Shared {
            now: Duration::ZERO,
            declared,
            breakage,
            summary: Summary::default(),
            trace: is_traced.then(Vec::new),
            chance,
            broker,
            queue: BTreeMap::new(),
            order: 0,
            requests: 0,
            asked: HashMap::new(),
            broker_away_until: Duration::ZERO,
            engine_away_until: Duration::ZERO,
            leases_expired: false,
            excused: 0,
            violation: None,
            begin: Instant::now(),
            plan,
        };
        shared.set_going();
        Self { shared, processes }
    }

    /// Runs to the end. The summary, the trace, and what must not be, if it was.
    pub(crate) fn run(mut self) -> (Summary, Vec<String>, Option<Violation>) {
        let mut events = 0;
        let mut over_at: Option<Time> = None;
        while let Some(((at, _), what)) = self.shared.queue.pop_first() {
            events += 1;
            self.shared.now = at;
            self.step(what);
            if over_at.is_none() && self.shared.is_over() {
                over_at = Some(at);
            }
            let deadline = self.shared.plan.calm_from + ENDS_WITHIN;
            if over_at.is_none() && (at > deadline || events > MOST_EVENTS) {
                let reason = format!(
                    "not over {ENDS_WITHIN:?} after the last fault: {}",
                    self.shared.what_is_left()
                );
                self.shared.violate(reason);
            }
            let is_past = over_at.is_some_and(|over| at > over.max(self.shared.plan.calm_from) + AFTERWARDS);
            if is_past || self.shared.violation.is_some() {
                break;
            }
        }
        if self.shared.violation.is_none() {
            self.shared.check_the_end();
        }
        self.shared.count();
        (
            self.shared.summary,
            self.shared.trace.unwrap_or_default(),
            self.shared.violation,
        )
    }

    fn step(&mut self, what: What) {
        match what {
            What::Start(process) => self.start(process),
            What::Input(process, incarnation, input) => {
                let place = &self.processes[process];
                if place.incarnation != incarnation {
                    return;
                }
                if place.suspended_until > self.shared.now {
                    let at = place.suspended_until;
                    // What was to come earlier comes earlier then too.
                    return self.shared.push(at, What::Input(process, incarnation, input));
                }
                self.input(process, input);
            }
            What::ToBroker(process, incarnation, request, op) => self.reach_broker(process, incarnation, request, op),
            What::Fault(fault) => self.fault(fault),
        }
    }

    fn start(&mut self, process: usize) {
        let place = &mut self.processes[process];
        if place.worker.is_some() {
            return;
        }
        place.worker = Some(workers::new(place.role));
        place.draining = false;
        self.input(process, Input::Start);
    }

    /// Hands an input to a process, which may die before or after it, or be suspended after it.
    fn input(&mut self, process: usize, input: Input) {
        let is_rough = self.shared.is_rough();
        let dies = is_rough && self.shared.chance.happens(self.shared.plan.net.dies);
        if dies && self.shared.chance.happens(0.5) {
            let pause = self.shared.chance.millis(0, 5_000);
            return self.kill(process, pause);
        }
        let place = &mut self.processes[process];
        let Some(worker) = place.worker.as_mut() else { return };
        let mut reach = Reach {
            world: &mut self.shared,
            process,
            incarnation: place.incarnation,
            exits: false,
        };
        if let Input::Drain | Input::Start = input {
            reach.world.note(|| format!("{process} {:?} {input:?}", place.role));
        }
        worker.handle(input, &mut reach);
        let exits = reach.exits;
        self.check_leases(process);
        if exits {
            self.shared.note(|| format!("{process} ends"));
            self.end(process);
            let pause = self.shared.chance.millis(0, 2_000);
            return self.shared.push(self.shared.now + pause, What::Start(process));
        }
        if dies {
            let pause = self.shared.chance.millis(0, 5_000);
            return self.kill(process, pause);
        }
        if is_rough && self.shared.chance.happens(self.shared.plan.net.stops) {
            let pause = self.shared.chance.suspension();
            self.suspend(process, pause);
        }
    }

    /// No two processes believe that they hold one lease, unless the broker's clock jumped.
    fn check_leases(&mut self, process: usize) {
        if self.shared.leases_expired {
            return;
        }
        let now = self.shared.begin + self.shared.now;
        let place = &self.processes[process];
        let Some(worker) = place.worker.as_ref().filter(|worker| worker.holds(now)) else {
            return;
        };
        let key = worker.lease();
        let others = self.processes.iter().enumerate().filter(|(index, _)| *index != process);
        let holders = others.filter(|(_, other)| {
            let other = other.worker.as_ref();
            other.is_some_and(|other| other.lease() == key && other.holds(now))
        });
        if let Some((other, _)) = holders.into_iter().next() {
            let reason = format!("processes {process} and {other} both believe that they hold the lease {key:?}");
            self.shared.violate(reason);
        }
    }

    fn reach_broker(&mut self, process: usize, incarnation: u64, request: u64, op: Op) {
        if self.shared.broker_away_until > self.shared.now {
            return;
        }
        let shared = &mut self.shared;
        if let Op::Pull(durable, room) = op {
            let doubled = if shared.is_rough() {
                shared.plan.net.doubled
            } else {
                0.0
            };
            let now = shared.now;
            for delivery in shared.broker.deliver(durable, room, now, doubled, &mut shared.chance) {
                shared.summary.messages += 1;
                shared.note(|| format!("{process} <- {delivery:?}"));
                if let Some(delay) = shared.fate() {
                    let input = Input::Delivery(Box::new(delivery));
                    shared.push(now + delay, What::Input(process, incarnation, input));
                }
            }
        }
        let op = match op {
            Op::LookUp(key) if shared.breakage == Some(Breakage::LaggingReplica) && shared.chance.happens(0.3) => {
                shared.push(
                    shared.now,
                    What::Input(process, incarnation, Input::Answer(request, Some(Answer::Found(false)))),
                );
                drop(key);
                return;
            }
            op => op,
        };
        let answer = match shared.broker.apply(op, shared.now, &mut shared.chance) {
            Ok(answer) => answer,
            Err(violation) => return shared.violate(violation),
        };
        let Some(answer) = answer else { return };
        shared.summary.messages += 1;
        if let Some(delay) = shared.fate() {
            let input = Input::Answer(request, Some(answer));
            shared.push(shared.now + delay, What::Input(process, incarnation, input));
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.shared.note(|| format!("FAULT {fault:?}"));
        let now = self.shared.now;
        match fault {
            Fault::Kill(process, pause) => self.kill(process, pause),
            Fault::KillAll => (0..self.processes.len()).for_each(|process| {
                let pause = self.shared.chance.millis(0, 3_000);
                self.kill(process, pause);
            }),
            Fault::Suspend(process, pause) => self.suspend(process, pause),
            Fault::Drain(process) => {
                let place = &mut self.processes[process];
                if place.worker.is_some() && !place.draining {
                    place.draining = true;
                    self.shared.summary.drains += 1;
                    let what = What::Input(process, place.incarnation, Input::Drain);
                    self.shared.push(now, what);
                }
            }
            Fault::KillBroker { down, forgets } => {
                self.shared.summary.broker_kills += 1;
                self.shared.broker_away_until = self.shared.broker_away_until.max(now + down);
                if forgets {
                    self.shared.summary.forgotten += 1;
                    self.shared.broker.forget(now, &mut self.shared.chance);
                }
            }
            Fault::CutBroker(pause) => {
                self.shared.summary.cuts += 1;
                self.shared.broker_away_until = self.shared.broker_away_until.max(now + pause);
            }
            Fault::LoseWaiting => {
                let lost = self.shared.broker.lose_waiting(&mut self.shared.chance);
                self.shared.summary.lost_releases += u64::from(lost);
            }
            Fault::Full(pause) => {
                self.shared.summary.full += 1;
                self.shared.broker.full_until = now + pause;
            }
            Fault::EngineAway(pause) => self.shared.engine_away_until = now + pause,
            Fault::ExpireLeases => {
                self.shared.leases_expired = true;
                self.shared.summary.expired += 1;
                self.shared.broker.expire_leases();
            }
            Fault::Join => {
                self.shared.summary.joins += 1;
                self.processes.push(Process::down(Role::Generator));
                let process = self.processes.len() - 1;
                self.shared.push(now, What::Start(process));
            }
        }
    }

    fn kill(&mut self, process: usize, pause: Duration) {
        if self.processes[process].worker.is_none() {
            return;
        }
        self.shared.note(|| format!("{process} is killed"));
        self.shared.summary.kills += 1;
        self.end(process);
        self.shared.push(self.shared.now + pause, What::Start(process));
    }

    fn end(&mut self, process: usize) {
        let place = &mut self.processes[process];
        for asked in self.shared.asked.values_mut().flatten() {
            if asked.is_open && asked.process == process && asked.incarnation == place.incarnation {
                asked.is_open = false;
                self.shared.excused += 1;
                self.shared.summary.lost_requests += 1;
            }
        }
        place.incarnation += 1;
        place.worker = None;
        place.suspended_until = Duration::ZERO;
    }

    fn suspend(&mut self, process: usize, pause: Duration) {
        let place = &mut self.processes[process];
        if place.worker.is_some() {
            self.shared.note(|| format!("{process} is suspended for {pause:?}"));
            self.shared.summary.suspensions += 1;
            place.suspended_until = place.suspended_until.max(self.shared.now + pause);
        }
    }
}

impl Process {
    const fn down(role: Role) -> Self {
        Self {
            role,
            incarnation: 0,
            worker: None,
            suspended_until: Duration::ZERO,
            draining: false,
        }
    }
}

impl Shared {
    fn set_going(&mut self) {
        for process in 0..self.plan.roles.len() {
            let at = self.chance.millis(0, 300);
            self.push(at, What::Start(process));
        }
        for evaluation in 0..self.plan.evaluations {
            self.broker.events.push((evaluation, crate::broker::State::Queued));
        }
        for (at, fault) in std::mem::take(&mut self.plan.faults) {
            self.push(at, What::Fault(fault));
        }
    }

    fn finals(&self, evaluation: usize) -> impl Iterator<Item = &Vec<tidemill_domain::BenchmarkResult>> {
        self.broker.events.iter().filter_map(move |(known, state)| match state {
            crate::broker::State::Final(results) if *known == evaluation => Some(results),
            _ => None,
        })
    }

    fn is_over(&self) -> bool {
        (0..self.plan.evaluations).all(|evaluation| self.finals(evaluation).next().is_some())
    }

    fn what_is_left(&self) -> String {
        let keys = self.declared.keys();
        let undone: Vec<String> = keys
            .iter()
            .filter(|key| self.broker.done_at(key).is_none())
            .map(ToString::to_string)
            .collect();
        let ungraded = keys.iter().filter(|key| self.broker.times_graded(key) == 0).count();
        format!(
            "{} of {} without a completion, {ungraded} without a grade ({})",
            undone.len(),
            keys.len(),
            undone.join(" ")
        )
    }

    /// One completion and one grade each, the result of the undisturbed run, and no request without an excuse.
    fn check_the_end(&mut self) {
        let keys = self.declared.keys();
        for key in &keys {
            let (stored, graded) = (self.broker.times_stored(key), self.broker.times_graded(key));
            if (stored, graded) != (1, 1) {
                return self.violate(format!("{key} has {stored} completions and {graded} grades"));
            }
        }
        if self.broker.done.len() != keys.len() {
            return self.violate("DONE holds what nobody declared".to_owned());
        }
        for evaluation in 0..self.plan.evaluations {
            let undisturbed = self.declared.undisturbed(evaluation);
            if self.finals(evaluation).any(|results| *results != undisturbed) {
                return self.violate(format!(
                    "the result of evaluation {evaluation} is not that of the undisturbed run"
                ));
            }
        }
        let extra = self.summary.asked - keys.len() as u64;
        let forgotten = self.summary.forgotten * self.plan.slots as u64;
        let excuses = self.excused + self.broker.redelivered + forgotten + self.summary.lost_releases;
        if extra > excuses {
            self.violate(format!("{extra} requests too many, with {excuses} excuses"));
        }
    }

    fn count(&mut self) {
        let summary = &mut self.summary;
        summary.items = self.declared.keys().len() as u64;
        summary.redelivered = self.broker.redelivered;
        summary.refused_writes = self.broker.refused_writes;
        summary.refused_releases = self.broker.refused_releases;
        summary.late_acks = self.broker.late_acks;
        summary.dead = self.broker.dead.len() as u64;
        summary.seconds = self.now.as_secs();
    }
}
