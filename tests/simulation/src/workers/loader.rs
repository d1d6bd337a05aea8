//! A loader: the lease of its group, and the real dispatcher.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tidemill_domain::{AnswerLength, ItemKey, Release};
use tidemill_loader::dispatch::Dispatcher;
use tokio::time::Instant;

use super::Worker;
use super::lease::{Change, Leasing};
use super::publishing::Publishing;
use crate::breakage::Breakage;
use crate::broker::{Answer, Op, State};
use crate::world::{Input, Reach, Timer};

const POLL_EVERY: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What comes after a publish.
#[derive(Debug)]
enum Then {
    Released(ItemKey),
    Announced,
}

/// An answer that is waited for.
#[derive(Debug)]
enum Asked {
    Events,
    /// The completions of an evaluation that the dispatcher does not have yet, or those to come.
    Keys(usize),
}

pub(super) struct Loader {
    leasing: Leasing,
    dispatcher: Dispatcher,
    /// Evaluations that the dispatcher has, and how far their completions were followed.
    followed: BTreeMap<usize, u64>,
    /// The newest state of each evaluation.
    states: BTreeMap<usize, State>,
    seen: u64,
    asked: HashMap<u64, Asked>,
    publishing: Publishing<Then>,
}

impl Default for Loader {
    fn default() -> Self {
        Self {
            leasing: Leasing::new("group"),
            dispatcher: Dispatcher::default(),
            followed: BTreeMap::new(),
            states: BTreeMap::new(),
            seen: 0,
            asked: HashMap::new(),
            publishing: Publishing::default(),
        }
    }
}

impl Worker for Loader {
    fn handle(&mut self, input: Input, reach: &mut Reach<'_>) {
        match input {
            Input::Start => {
                self.leasing.start(reach);
                reach.about(POLL_EVERY, Timer::Poll);
                reach.about(LOOK_EVERY, Timer::Tick);
            }
            Input::Timer(Timer::Lease) => self.leasing.due(reach),
            Input::Timer(Timer::LeaseEnds) => {
                let change = self.leasing.ends(reach);
                self.note(change);
            }
            Input::Timer(Timer::Poll) => self.poll(reach),
            Input::Timer(Timer::Tick) => {
                reach.about(LOOK_EVERY, Timer::Tick);
                if self.leasing.is_held() && !reach.is_broken(Breakage::NeverAgain) {
                    let overdue = self.dispatcher.overdue(reach.instant());
                    self.publish(overdue, reach);
                }
            }
            Input::Timer(Timer::Retry(request)) => self.publishing.retry(reach, request),
            Input::Answer(request, answer) => self.answered(request, answer.as_ref(), reach),
            Input::Drain => {
                self.leasing.give_back(reach);
                reach.exit();
                return;
            }
            Input::Timer(_) | Input::Delivery(_) | Input::Prepared(_) | Input::Engine(..) => {}
        }
        if self.leasing.is_certain(reach.instant()) {
            self.dispatcher.set_slots(reach.world.plan.slots);
            let releases = self.dispatcher.release(reach.instant());
            self.publish(releases, reach);
        }
    }

    fn lease(&self) -> &'static str {
        self.leasing.key()
    }

    fn holds(&self, now: Instant) -> bool {
        self.leasing.is_certain(now)
    }
}

impl Loader {
    /// Where the lease is lost, the group begins anew.
    fn note(&mut self, change: Option<Change>) {
        if change.is_some() {
            self.dispatcher = Dispatcher::default();
            self.followed.clear();
            self.asked.retain(|_, asked| matches!(asked, Asked::Events));
        }
    }

    fn publish(&mut self, releases: Vec<Release>, reach: &mut Reach<'_>) {
        for release in releases {
            let key = release.key.clone();
            self.publishing
                .publish(reach, Op::Release(release), Then::Released(key));
        }
    }

    fn poll(&mut self, reach: &mut Reach<'_>) {
        reach.about(POLL_EVERY, Timer::Poll);
        if self.asked.values().any(|asked| matches!(asked, Asked::Events)) {
            return;
        }
        self.asked.insert(reach.request(Op::Events(self.seen)), Asked::Events);
        if !self.leasing.is_held() {
            return;
        }
        let live = self
            .states
            .iter()
            .filter(|(_, state)| !matches!(state, State::Final(_)));
        for (evaluation, _) in live {
            if !self
                .asked
                .values()
                .any(|asked| matches!(asked, Asked::Keys(known) if known == evaluation))
            {
                let after = self.followed.get(evaluation).copied().unwrap_or(0);
                let request = reach.request(Op::Keys(*evaluation, after));
                self.asked.insert(request, Asked::Keys(*evaluation));
            }
        }
    }

    fn answered(&mut self, request: u64, answer: Option<&Answer>, reach: &mut Reach<'_>) {
        let change = self.leasing.answered(reach, request, answer);
        self.note(change);
        if let Some(Then::Released(key)) = self.publishing.answered(reach, request, answer)
            && reach.is_broken(Breakage::TrustDelivery)
        {
            self.dispatcher.complete(&key);
        }
        match (self.asked.remove(&request), answer) {
            (Some(Asked::Events), Some(Answer::Events(events, seen))) => {
                self.seen = *seen;
                for (evaluation, state) in events {
                    if matches!(state, State::Final(_)) {
                        self.dispatcher.remove(&reach.world.declared.ids[*evaluation]);
                        self.followed.remove(evaluation);
                    }
                    self.states.insert(*evaluation, state.clone());
                }
            }
            (Some(Asked::Keys(evaluation)), Some(Answer::Keys(keys, last))) => {
                self.take_up(evaluation, keys, *last, reach);
            }
            _ => {}
        }
    }

    fn complete(&mut self, keys: &[ItemKey], reach: &Reach<'_>) {
        for key in keys {
            let length = AnswerLength::of(&reach.world.declared.completion(key));
            self.dispatcher.complete_with(key, length);
        }
    }

    /// Gives completions to the dispatcher, with the evaluation when it does not have it yet.
    fn take_up(&mut self, evaluation: usize, keys: &[ItemKey], last: u64, reach: &mut Reach<'_>) {
        let state = self.states.get(&evaluation);
        if !self.leasing.is_held() || matches!(state, None | Some(State::Final(_))) {
            return;
        }
        if self.followed.insert(evaluation, last).is_some() {
            self.complete(keys, reach);
            return;
        }
        let was_serving = matches!(state, Some(State::Serving));
        let declared = &reach.world.declared;
        self.dispatcher.add(
            declared.ids[evaluation].clone(),
            declared.digests[evaluation].clone(),
            std::sync::Arc::clone(&declared.manifests[evaluation]),
            &[],
            was_serving || !keys.is_empty(),
        );
        // Every other evaluation has a history, and each is another team's.
        let id = &declared.ids[evaluation];
        self.dispatcher.bill(id, declared.teams[evaluation].clone(), None);
        self.dispatcher.expect(id, declared.expected(evaluation));
        self.complete(keys, reach);
        if !was_serving {
            let op = Op::Announce(evaluation, State::Serving);
            self.publishing.publish(reach, op, Then::Announced);
        }
    }
}
