//! An aggregator: the lease, the real fold of each evaluation, and its results.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tidemill_aggregator::Fold;
use tidemill_domain::BenchmarkResult;
use tokio::time::Instant;

use super::Worker;
use super::lease::Leasing;
use super::publishing::Publishing;
use crate::breakage::Breakage;
use crate::broker::{Answer, Op, Published, State};
use crate::world::{Input, Reach, Timer};

const POLL_EVERY: Duration = Duration::from_millis(300);
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// An evaluation that is folded.
struct Followed {
    fold: Fold,
    after: u64,
    /// All grades that were there at the start are folded.
    replayed: bool,
    changed: bool,
    /// Its end is being published.
    is_ending: bool,
    /// Grades that came again: a breakage counts them.
    repeats: u64,
}

/// What comes after a publish.
#[derive(Debug)]
enum Then {
    Nothing,
    /// The results of benchmarks up to this one are said.
    Said(usize, usize),
}

pub(super) struct Aggregator {
    leasing: Leasing,
    seen: u64,
    states: BTreeMap<usize, State>,
    followed: BTreeMap<usize, Followed>,
    events: Option<u64>,
    grades: HashMap<u64, usize>,
    publishing: Publishing<Then>,
}

impl Default for Aggregator {
    fn default() -> Self {
        Self {
            leasing: Leasing::new("aggregator"),
            seen: 0,
            states: BTreeMap::new(),
            followed: BTreeMap::new(),
            events: None,
            grades: HashMap::new(),
            publishing: Publishing::default(),
        }
    }
}

impl Worker for Aggregator {
    fn handle(&mut self, input: Input, reach: &mut Reach<'_>) {
        match input {
            Input::Start => {
                self.leasing.start(reach);
                reach.about(POLL_EVERY, Timer::Poll);
                reach.about(PUBLISH_EVERY, Timer::Tick);
            }
            Input::Timer(Timer::Lease) => self.leasing.due(reach),
            Input::Timer(Timer::LeaseEnds) => {
                if self.leasing.ends(reach).is_some() {
                    self.begin_anew();
                }
            }
            Input::Timer(Timer::Poll) => self.poll(reach),
            Input::Timer(Timer::Tick) => self.tick(reach),
            Input::Timer(Timer::Retry(request)) => self.publishing.retry(reach, request),
            Input::Answer(request, answer) => self.answered(request, answer.as_ref(), reach),
            Input::Drain => {
                self.leasing.give_back(reach);
                reach.exit();
            }
            Input::Timer(_) | Input::Delivery(_) | Input::Prepared(_) | Input::Engine(..) => {}
        }
    }

    fn lease(&self) -> &'static str {
        self.leasing.key()
    }

    fn holds(&self, now: Instant) -> bool {
        self.leasing.is_certain(now)
    }
}

impl Aggregator {
    /// What was folded is forgotten: the streams have it.
    fn begin_anew(&mut self) {
        self.followed.clear();
        self.grades.clear();
        self.publishing = Publishing::default();
    }

    fn poll(&mut self, reach: &mut Reach<'_>) {
        reach.about(POLL_EVERY, Timer::Poll);
        if !self.leasing.is_held() {
            return;
        }
        if self.events.is_none() {
            self.events = Some(reach.request(Op::Events(self.seen)));
        }
        for (evaluation, followed) in &self.followed {
            if !self.grades.values().any(|known| known == evaluation) {
                let request = reach.request(Op::Grades(*evaluation, followed.after));
                self.grades.insert(request, *evaluation);
            }
        }
    }

    /// Publishes what changed, and the end of what is complete.
    fn tick(&mut self, reach: &mut Reach<'_>) {
        reach.about(PUBLISH_EVERY, Timer::Tick);
        if !self.leasing.is_certain(reach.instant()) {
            return;
        }
        for (evaluation, followed) in &mut self.followed {
            if !followed.replayed || followed.is_ending {
                continue;
            }
            if followed.fold.is_complete() {
                followed.is_ending = true;
                let op = said(*evaluation, false, reach);
                self.publishing.publish(reach, op, Then::Said(*evaluation, 0));
                continue;
            }
            if std::mem::take(&mut followed.changed) {
                for _ in 0..followed.fold.benchmarks() {
                    let op = said(*evaluation, true, reach);
                    self.publishing.publish(reach, op, Then::Nothing);
                }
            }
        }
    }

    fn answered(&mut self, request: u64, answer: Option<&Answer>, reach: &mut Reach<'_>) {
        if self.leasing.answered(reach, request, answer).is_some() {
            self.begin_anew();
        }
        if let Some(Then::Said(evaluation, benchmark)) = self.publishing.answered(reach, request, answer) {
            self.say_next(evaluation, benchmark + 1, reach);
        }
        if self.events == Some(request) {
            self.events = None;
            if let Some(Answer::Events(events, seen)) = answer {
                self.seen = *seen;
                self.states.extend(events.iter().cloned());
            }
            self.follow(reach);
        }
        if let (Some(evaluation), Some(Answer::Grades(grades, last))) = (self.grades.remove(&request), answer)
            && let Some(followed) = self.followed.get_mut(&evaluation)
        {
            for grade in grades {
                let is_new = followed.fold.apply(grade);
                followed.changed |= is_new;
                followed.repeats += u64::from(!is_new && reach.is_broken(Breakage::CountRepeats));
            }
            followed.after = *last;
            followed.replayed = true;
        }
    }

    /// Follows what is served, and stops where it has ended.
    fn follow(&mut self, reach: &Reach<'_>) {
        for (evaluation, state) in &self.states {
            match state {
                State::Queued => {}
                State::Serving => {
                    self.followed.entry(*evaluation).or_insert_with(|| Followed {
                        fold: Fold::new(&reach.world.declared.manifests[*evaluation], Vec::new()),
                        after: 0,
                        replayed: false,
                        changed: false,
                        is_ending: false,
                        repeats: 0,
                    });
                }
                State::Final(_) => drop(self.followed.remove(evaluation)),
            }
        }
    }

    /// The next benchmark's last result, and after all of them the end.
    fn say_next(&mut self, evaluation: usize, benchmark: usize, reach: &mut Reach<'_>) {
        let Some(followed) = self.followed.get_mut(&evaluation) else {
            return;
        };
        if !self.leasing.is_certain(reach.instant()) {
            followed.is_ending = false;
            return;
        }
        if benchmark < followed.fold.benchmarks() {
            let op = said(evaluation, false, reach);
            self.publishing.publish(reach, op, Then::Said(evaluation, benchmark));
        } else if benchmark == followed.fold.benchmarks() {
            let op = Op::Announce(evaluation, State::Final(results(followed)));
            // One more than there are benchmarks: nothing comes after it.
            self.publishing.publish(reach, op, Then::Said(evaluation, benchmark));
        }
    }
}

fn results(followed: &Followed) -> Vec<BenchmarkResult> {
    let mut results = followed.fold.results();
    if let Some(first) = results.first_mut() {
        first.requests += followed.repeats;
    }
    results
}

fn said(evaluation: usize, provisional: bool, reach: &Reach<'_>) -> Op {
    Op::Result(Published {
        evaluation,
        provisional,
        sent: reach.now(),
    })
}
