//! The replicas of one server group as this generator sees them, and which of them takes the next request: pure rules over
//! what was observed, with the time passed in.
//!
//! Looking for a replica changes nothing; [`Replicas::book`] does. How many requests one takes is its [`Controller`]'s
//! decision, whether it takes any its [`Breaker`]'s.

use std::collections::BTreeMap;
use std::time::Duration;

use tidemill_domain::{Capacity, ReplicaLoad, Trouble, TroubleKind};
use tidemill_inference::Load;
use tokio::time::Instant;

use crate::controller::{Controller, Event, Sample};
use crate::health::{Breaker, Condition, Health, LOOK_AGAIN, Looked};
use crate::routing::{Barred, Fit, Lengths, Prefixes, Wish};

/// How long after its first refusal, with nothing else between, a replica must still refuse before items are failed for it.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(10);

/// How long a replica, the only one that serves, may answer half of everything or more with nothing before that counts as what the
/// model says.
const EMPTY_PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks at a replica that is sent nothing at present.
const LOOK_IDLE: Duration = Duration::from_secs(2);

/// Loads are compared in millionths.
const FULL: u64 = 1_000_000;

/// The replicas of one server group, by numbers that are never used again.
#[derive(Debug)]
pub(crate) struct Replicas {
    states: BTreeMap<usize, State>,
    next: usize,
    seed: u64,
    lengths: Lengths,
    /// Preemptions that all replicas counted meanwhile.
    preemptions: u64,
    /// How long requests that have tokens may get none before their replica counts as standing still.
    stall_patience: Duration,
}

#[derive(Debug)]
struct State {
    name: String,
    controller: Controller,
    breaker: Breaker,
    health: Health,
    /// Places that are booked.
    in_flight: u32,
    /// Those of them whose request is sent, and those whose answer has begun.
    sent: u32,
    flowing: u32,
    /// Tokens of answers that are expected of what is in flight.
    outstanding: u64,
    prefixes: Prefixes,
    load: Load,
    /// Preemptions that it counted when it last said so.
    preemptions: Option<u64>,
    /// Tokens that came with whole answers.
    answered: u64,
    looked: Option<Instant>,
    /// It is to take nothing more, and is forgotten once nothing is in flight there.
    is_leaving: bool,
    /// It refused the last request, and has not been away since.
    refusing: Option<Refusing>,
    /// Why the server that answers there is not the one that joined, as the last look found.
    another: Option<String>,
    /// Why it does not serve what is asked of it, as the last look found.
    unserved: Option<String>,
    /// Since when it has been sent nothing, but for what tries it.
    stopped: Option<Instant>,
    /// Since when it has turned away everything that it answered, and whether the last time as too much.
    turned_away: Option<(Instant, bool)>,
    /// Since when it has answered half of everything or more with nothing.
    empty: Option<Instant>,
}

/// What a replica says that refuses every request.
#[derive(Debug)]
struct Refusing {
    since: Instant,
    /// When it last refused something.
    last: Instant,
    reason: String,
}

impl Refusing {
    /// One refusal may come from what stands before an engine that restarts: it takes another one, later.
    fn is_hopeless(&self) -> bool {
        self.last.duration_since(self.since) >= REFUSAL_PATIENCE
    }
}

/// Where a request may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pick {
    /// To this replica.
    Replica(usize),
    /// Nowhere before something changes, or this time comes.
    Wait(Option<Instant>),
    /// Every replica refuses every request, for the reason of the last one.
    Hopeless(String),
}

/// A request's place at a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) index: usize,
    /// When its request was sent.
    sent: Option<Instant>,
    /// It decides whether the replica is sent more.
    is_probe: bool,
    expected_tokens: u32,
}

/// What a request told about its replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It answered.
    Good,
    /// It answered badly.
    Bad,
    /// It answered with nothing, which may be what the model says.
    Empty,
    /// An answer that had begun went on no more.
    Stalled,
    /// It has too much to do.
    Busy {
        /// It asks for fewer requests, not only for time.
        overloaded: bool,
        /// How long it asks to be left alone.
        pause: Option<Duration>,
    },
    /// It is away: a connection to it failed, or was cut within an answer.
    Away,
    /// It would refuse every request.
    Refusing(String),
}

impl Sign {
    /// Why a replica that gave it last is sent nothing more.
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Good | Self::Bad | Self::Empty => "too many of its last answers are empty, broken or errors",
            Self::Stalled => "answers that had begun go on no more",
            Self::Busy { .. } => "it has too much to do",
            Self::Away => "a connection to it failed or was cut",
            Self::Refusing(reason) => reason,
        }
    }
}

/// What an answer was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Took {
    /// Tokens generated.
    pub(crate) tokens: u64,
    /// How long the first one took, of a streamed answer.
    pub(crate) first_token: Option<Duration>,
}

/// What changed about a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing that others wait for.
    None,
    /// The number of requests that it takes, or when.
    Level,
    /// It takes no more requests.
    Opened,
    /// It takes requests again.
    Closed,
    /// It is dead: what it has in flight is lost.
    Died,
}

impl Replicas {
    /// None yet. `seed` keeps this generator's jitter apart from that of others.
    pub(crate) fn new(seed: u64, stall_patience: Duration) -> Self {
        Self {
            states: BTreeMap::new(),
            next: 0,
            seed,
            lengths: Lengths::default(),
            preemptions: 0,
            stall_patience,
        }
    }

    /// Adds a replica that may be sent at most so many requests at once, and returns its number.
    pub(crate) fn join(&mut self, name: &str, bound: u32, now: Instant) -> usize {
        let index = self.next;
        self.next += 1;
        let seed = self.seed.wrapping_add(index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let state = State {
            name: name.to_owned(),
            controller: Controller::new(bound, seed),
            breaker: Breaker::default(),
            health: Health::new(now),
            in_flight: 0,
            sent: 0,
            flowing: 0,
            outstanding: 0,
            prefixes: Prefixes::default(),
            load: Load::default(),
            preemptions: None,
            answered: 0,
            looked: None,
            is_leaving: false,
            refusing: None,
            another: None,
            unserved: None,
            stopped: None,
            turned_away: None,
            empty: None,
        };
        self.states.insert(index, state);
        index
    }

    /// Sends a replica nothing more. What it has in flight goes on.
    pub(crate) fn leave(&mut self, index: usize) {
        if let Some(state) = self.states.get_mut(&index) {
            state.is_leaving = true;
            if state.in_flight == 0 {
                self.states.remove(&index);
            }
        }
    }

    /// Changes the most that a replica may be sent.
    pub(crate) fn set_bound(&mut self, index: usize, bound: u32) {
        if let Some(state) = self.states.get_mut(&index) {
            state.controller.set_bound(bound);
        }
    }

    /// The replica for a wish: with the smallest share of its requests in flight, or one that is not much fuller and suits
    /// better. One to avoid, and those with many bad answers in a row, only where no other has room.
    pub(crate) fn pick(&self, now: Instant, wish: &Wish) -> Pick {
        let others_serve = !wish.barred.is_empty() && self.has_other(&wish.barred);
        let is_barred = |index: usize| others_serve && wish.barred.holds(index);
        let candidates = || {
            let roomy = self.states.iter().filter(|(_, state)| state.has_room(now));
            roomy.filter(|(index, _)| !is_barred(**index))
        };
        let rank = |index: usize, state: &State| Some(index) == wish.avoid || state.breaker.is_suspicious();
        let least = candidates()
            .map(|(index, state)| (rank(*index, state), state.share()))
            .min();
        let Some((rank_of_least, least)) = least else {
            return self.nowhere(now);
        };
        let most = least + least / 10 + slack(least);
        let eligible = || {
            let alike = candidates().filter(|(index, state)| rank(**index, state) == rank_of_least);
            alike.filter(|(_, state)| state.share() <= most)
        };
        let is_long = self.lengths.is_long(wish.expected_tokens);
        let held = eligible().filter(|(_, state)| state.prefixes.holds(wish.prefix));
        let best = held.min_by_key(|(index, state)| (state.share(), **index));
        let best = best.or_else(|| {
            eligible().min_by_key(|(index, state)| {
                let first = if is_long { state.burden() } else { state.share() };
                (first, state.burden(), **index)
            })
        });
        best.map_or(Pick::Wait(None), |(index, _)| Pick::Replica(*index))
    }

    /// A replica serves that is not one of these.
    pub(crate) fn has_other(&self, barred: &Barred) -> bool {
        let mut others = self.states.iter().filter(|(index, _)| !barred.holds(**index));
        others.any(|(_, state)| !state.is_leaving && state.breaker.is_closed())
    }

    /// It is sent nothing but what tries it.
    pub(crate) fn is_stopped(&self, index: usize) -> bool {
        let state = self.states.get(&index);
        state.is_some_and(|state| !state.breaker.is_closed())
    }

    /// The replica that alone has room, where only one has.
    pub(crate) fn only_one(&self, now: Instant) -> Option<usize> {
        let mut roomy = self.states.iter().filter(|(_, state)| state.has_room(now));
        let (index, _) = roomy.next()?;
        roomy.next().is_none().then_some(*index)
    }

    /// How well a place at a replica suits a wish.
    pub(crate) fn fit(&self, index: usize, wish: &Wish) -> Fit {
        let Some(state) = self.states.get(&index) else {
            return Fit::Any;
        };
        if wish.barred.holds(index) && self.has_other(&wish.barred) {
            return Fit::Barred;
        }
        if wish.avoid == Some(index) && self.states.len() > 1 {
            return Fit::Avoided;
        }
        if state.prefixes.holds(wish.prefix) {
            return Fit::Held;
        }
        let others = || {
            self.states
                .iter()
                .filter(|(other, state)| **other != index && state.breaker.is_closed())
        };
        let is_elsewhere = others().any(|(_, other)| other.prefixes.holds(wish.prefix));
        let is_burdened = self.lengths.is_long(wish.expected_tokens)
            && others().any(|(_, other)| other.burden() + other.burden() / 4 < state.burden());
        if is_elsewhere || is_burdened {
            Fit::Elsewhere
        } else {
            Fit::Any
        }
    }

    /// Books one request at a replica. It counts as sent once it [begins](Self::begin).
    pub(crate) fn book(&mut self, index: usize, wish: &Wish) -> Place {
        self.lengths.add(wish.expected_tokens);
        let mut place = Place {
            index,
            sent: None,
            is_probe: false,
            expected_tokens: wish.expected_tokens,
        };
        if let Some(state) = self.states.get_mut(&index) {
            state.in_flight += 1;
            state.outstanding += u64::from(wish.expected_tokens);
            state.prefixes.sent(wish);
            place.is_probe = state.breaker.sent();
        }
        place
    }

    /// The request of a place is sent now. False when the place holds no more: since it was booked the replica went away,
    /// asked to be left alone, or is leaving.
    pub(crate) fn begin(&mut self, place: &mut Place, now: Instant) -> bool {
        let Some(state) = self.states.get_mut(&place.index) else {
            return false;
        };
        let is_open = state.breaker.is_closed() || (place.is_probe && !state.breaker.is_open());
        if !is_open || state.is_leaving || state.controller.held_until(now).is_some() {
            return false;
        }
        if place.sent.replace(now).is_none() {
            state.sent += 1;
            state.controller.observe(Event::Sent, now);
        }
        true
    }

    /// The answer to the request of a place has begun: its first token is there.
    pub(crate) fn flows(&mut self, place: Place, now: Instant) -> Change {
        let Some(state) = self.states.get_mut(&place.index) else {
            return Change::None;
        };
        state.flowing += 1;
        let before = state.controller.limit();
        let limit = state.controller.observe(Event::Begun(place.sent.unwrap_or(now)), now);
        if limit == before { Change::None } else { Change::Level }
    }

    /// One that had begun is over, whatever came of it.
    pub(crate) fn ended(&mut self, index: usize) {
        if let Some(state) = self.states.get_mut(&index) {
            state.flowing = state.flowing.saturating_sub(1);
        }
    }

    /// Gives a booked request back.
    pub(crate) fn free(&mut self, place: Place) {
        let Some(state) = self.states.get_mut(&place.index) else {
            return;
        };
        state.in_flight = state.in_flight.saturating_sub(1);
        state.sent = state.sent.saturating_sub(u32::from(place.sent.is_some()));
        state.outstanding = state.outstanding.saturating_sub(u64::from(place.expected_tokens));
        if place.is_probe {
            state.breaker.probed();
        }
        if state.is_leaving && state.in_flight == 0 {
            self.states.remove(&place.index);
        }
    }

    /// Takes note of an answer's figures.
    pub(crate) fn took(&mut self, place: Place, took: Took, now: Instant) {
        let Some(state) = self.states.get_mut(&place.index) else {
            return;
        };
        if took.first_token.is_none() {
            // One more, so that answers without tokens count.
            state.answered += took.tokens + 1;
        }
        let event = Event::Answered {
            tokens: took.tokens,
            sent: place.sent.unwrap_or(now),
            first_token: took.first_token,
        };
        state.controller.observe(event, now);
    }

    /// Takes note of what a request told.
    pub(crate) fn note(&mut self, index: usize, sign: Sign, now: Instant) -> Change {
        let another = self
            .states
            .iter()
            .any(|(other, state)| *other != index && state.breaker.is_closed());
        let stall_patience = self.stall_patience;
        let Some(state) = self.states.get_mut(&index) else {
            return Change::None;
        };
        match &sign {
            Sign::Busy { overloaded, .. } => {
                let (since, _) = state.turned_away.unwrap_or((now, false));
                state.turned_away = Some((since, *overloaded));
            }
            // Answers to what it took before it turned others away say nothing of those that come.
            Sign::Good | Sign::Bad | Sign::Empty | Sign::Stalled if state.controller.held_until(now).is_none() => {
                state.turned_away = None;
            }
            Sign::Good | Sign::Bad | Sign::Empty | Sign::Stalled | Sign::Away | Sign::Refusing(_) => {}
        }
        match sign {
            Sign::Good => {
                state.health.alive(now);
                let change = state.answered(false, now);
                if state.breaker.is_sound() {
                    state.empty = None;
                }
                change
            }
            Sign::Empty => state.answered_with_nothing(another, now),
            Sign::Bad => state.answered_badly(another, now),
            Sign::Stalled => {
                // The others may stand still as well, and need not wait for it one by one.
                if state.health.is_stalled(state.flowing, stall_patience.mul_f64(0.9), now) {
                    return state.die(now);
                }
                state.answered_badly(another, now)
            }
            Sign::Busy { overloaded, pause } => {
                let event = Event::TurnedAway {
                    overloaded,
                    pause,
                    in_flight: state.sent,
                };
                state.controller.observe(event, now);
                match state.answered(false, now) {
                    Change::None => Change::Level,
                    change => change,
                }
            }
            Sign::Away => {
                state.refusing = None;
                state.open(now)
            }
            Sign::Refusing(reason) => {
                match &mut state.refusing {
                    Some(refusing) => refusing.last = now,
                    none => {
                        *none = Some(Refusing {
                            since: now,
                            last: now,
                            reason,
                        });
                    }
                }
                match state.open(now) {
                    Change::None => Change::Level,
                    change => change,
                }
            }
        }
    }

    /// When the replica is to be looked at next; `None` when it is not known any more.
    pub(crate) fn next_look(&self, index: usize, now: Instant) -> Option<Instant> {
        let state = self.states.get(&index)?;
        if let Some(at) = state.breaker.look_at() {
            return Some(at);
        }
        let Some(looked) = state.looked else {
            return Some(now);
        };
        let pause = match state.in_flight {
            _ if state.health.missed() > 0 => LOOK_AGAIN,
            0 => LOOK_IDLE,
            _ => state.controller.next_sample(state.sent),
        };
        Some(looked + pause)
    }

    /// Takes note of the pieces of streamed answers that came from a replica so far.
    pub(crate) fn progressed(&mut self, index: usize, pieces: u64, now: Instant) {
        if let Some(state) = self.states.get_mut(&index) {
            state.health.work(state.answered + pieces, now);
        }
    }

    /// Takes note of a look at a replica: whether it answered, its load, and the pieces of streamed answers that came from it
    /// so far, where they are counted.
    pub(crate) fn looked(
        &mut self,
        index: usize,
        looked: Looked,
        load: Load,
        pieces: Option<u64>,
        now: Instant,
    ) -> Change {
        let stall_patience = self.stall_patience;
        let Some(state) = self.states.get_mut(&index) else {
            return Change::None;
        };
        state.looked = Some(now);
        let work = state.answered + pieces.unwrap_or(0);
        state.health.work(work, now);
        if let Looked::Another(reason) = &looked {
            return state.is_another(reason, now);
        }
        (state.another, state.unserved) = (None, None);
        match &looked {
            Looked::Another(_) | Looked::Answered => {}
            // It would refuse requests as well.
            Looked::Refusing(reason) => {
                state.unserved = Some(reason.clone());
                state.refusing.iter_mut().for_each(|refusing| refusing.last = now);
            }
            Looked::Unready | Looked::Nobody | Looked::Silent => state.refusing = None,
        }
        match state.health.looked(&looked, state.breaker.away_since(), now) {
            Condition::Alive => {}
            Condition::Missing if !state.breaker.is_open() => return state.open(now),
            Condition::Missing => {}
            Condition::Dead if state.breaker.is_open() && state.in_flight == 0 => {}
            Condition::Dead => {
                state.breaker.looked(false, now);
                return state.die(now);
            }
        }
        if pieces.is_some() && state.health.is_stalled(state.flowing, stall_patience, now) {
            return state.die(now);
        }
        if state.breaker.is_open() {
            let answered = looked == Looked::Answered;
            return match () {
                () if state.breaker.looked(answered, now) => Change::Closed,
                () if state.refusing.as_ref().is_some_and(Refusing::is_hopeless) => Change::Level,
                () => Change::None,
            };
        }
        if looked != Looked::Answered {
            return Change::None;
        }
        state.load = load;
        if let Some(counted) = load.preemptions {
            let before = state.preemptions.replace(counted);
            // The first count is of what was before.
            self.preemptions += before.map_or(0, |before| counted.saturating_sub(before));
        }
        let before = state.controller.limit();
        let sample = Sample {
            load,
            in_flight: state.sent,
            work,
        };
        let limit = state.controller.observe(Event::Sampled(sample), now);
        if limit == before { Change::None } else { Change::Level }
    }

    /// Keeps a replica at a level, for comparison.
    #[cfg(test)]
    pub(crate) fn fix(&mut self, index: usize, level: u32) {
        if let Some(state) = self.states.get_mut(&index) {
            state.controller.fix(level);
        }
    }

    /// Requests in flight at a replica.
    pub(crate) fn in_flight(&self, index: usize) -> u32 {
        self.states.get(&index).map_or(0, |state| state.in_flight)
    }

    /// Requests that all replicas are to have at once at present.
    pub(crate) fn allowed(&self) -> u32 {
        self.states.values().map(State::allowed).sum()
    }

    /// Requests that they may have in a moment.
    pub(crate) fn allowed_soon(&self) -> u32 {
        self.states.values().map(State::allowed_soon).sum()
    }

    /// The most that they may ever have.
    pub(crate) fn bound(&self) -> u32 {
        let staying = self.states.values().filter(|state| !state.is_leaving);
        staying.map(|state| state.controller.bound()).sum()
    }

    /// The replicas as others are told of them.
    pub(crate) fn capacity(&self, now: Instant) -> Capacity {
        let replicas = self.states.values().map(|state| {
            let is_away = !state.breaker.is_closed();
            // What one that is away said last is not what it does now.
            let load = if is_away { Load::default() } else { state.load };
            ReplicaLoad {
                url: state.name.clone(),
                allowed: state.allowed(),
                in_flight: state.in_flight,
                running: load.running,
                waiting: load.waiting,
                kv_use: load.kv_use,
                is_away,
                trouble: state.trouble(now),
            }
        });
        Capacity {
            schema: 1,
            slots: self.allowed_soon(),
            in_flight: self.states.values().map(|state| state.in_flight).sum(),
            replicas: replicas.collect(),
        }
    }

    /// Preemptions that the engines counted since they joined, of those that count them.
    pub(crate) const fn preemptions(&self) -> u64 {
        self.preemptions
    }

    fn nowhere(&self, now: Instant) -> Pick {
        if let Some(reason) = self.hopeless() {
            return Pick::Hopeless(reason);
        }
        let holds = self
            .states
            .values()
            .filter_map(|state| state.controller.held_until(now));
        Pick::Wait(holds.min())
    }

    fn hopeless(&self) -> Option<String> {
        let refusing = || self.states.values().map(|state| state.refusing.as_ref());
        let is_hopeless = refusing().all(|refusing| refusing.is_some_and(Refusing::is_hopeless));
        let last = refusing().next_back()??;
        is_hopeless.then(|| last.reason.clone())
    }
}

/// How much fuller than the least full replica one may be that suits better: nothing while replicas run empty, because the
/// others are idle then.
const fn slack(least: u64) -> u64 {
    if least >= FULL / 4 { FULL / 32 } else { 0 }
}

impl State {
    fn has_room(&self, now: Instant) -> bool {
        let is_open = if self.breaker.is_closed() {
            self.in_flight < self.controller.limit()
        } else {
            self.breaker.wants_probe()
        };
        is_open && !self.is_leaving && self.controller.held_until(now).is_none()
    }

    /// Requests that it is to have at once at present.
    fn allowed(&self) -> u32 {
        match () {
            () if self.is_leaving || self.breaker.is_open() => 0,
            () if self.breaker.is_closed() => self.controller.limit(),
            () => 1,
        }
    }

    /// Requests that it may have in a moment.
    fn allowed_soon(&self) -> u32 {
        if self.breaker.is_closed() && !self.is_leaving {
            self.controller.limit_soon()
        } else {
            self.allowed()
        }
    }

    /// The share of its requests that is in flight.
    fn share(&self) -> u64 {
        u64::from(self.in_flight) * FULL / u64::from(self.controller.limit())
    }

    /// Tokens that it has yet to generate, for each request that it takes.
    fn burden(&self) -> u64 {
        self.outstanding * 16 / u64::from(self.controller.limit())
    }

    /// A response of any kind shows that it is there.
    fn answered(&mut self, is_bad: bool, now: Instant) -> Change {
        self.refusing = None;
        if self.another.is_some() {
            // It is there, and not what is wanted.
            return Change::None;
        }
        if self.breaker.answered(is_bad, now) {
            self.stopped = None;
            Change::Closed
        } else {
            Change::None
        }
    }

    /// One that answers nothing of use is left alone where another one serves; alone, it is asked on, because its items'
    /// budgets end that.
    fn answered_badly(&mut self, another: bool, now: Instant) -> Change {
        let change = self.answered(true, now);
        if another && self.breaker.is_closed() && self.breaker.is_useless() && self.breaker.open(true, now) {
            self.stopped = Some(now);
            return Change::Opened;
        }
        change
    }

    /// Where that is half of its answers or more the engine is at fault: it is tried by one request at a time, also where it is the
    /// only one, so that no item's tries are used up. A model may have nothing to say, so not for ever.
    fn answered_with_nothing(&mut self, another: bool, now: Instant) -> Change {
        let is_late = self
            .empty
            .is_some_and(|since| now.duration_since(since) >= EMPTY_PATIENCE);
        if is_late && !another {
            return self.answered(false, now);
        }
        let change = self.answered(true, now);
        if self.breaker.is_closed() && self.breaker.is_useless() && self.breaker.open(true, now) {
            self.empty.get_or_insert(now);
            self.stopped = Some(now);
            return Change::Opened;
        }
        change
    }

    /// One that came back as another server is sent nothing, whatever it answers, until a look finds the one that joined.
    fn is_another(&mut self, reason: &str, now: Instant) -> Change {
        self.refusing = None;
        self.health.looked(&Looked::Another(String::new()), None, now);
        let is_known = self.another.as_deref() == Some(reason);
        self.another = Some(reason.to_owned());
        if self.open(now) == Change::None {
            self.breaker.looked(false, now);
        }
        if is_known { Change::None } else { Change::Opened }
    }

    fn open(&mut self, now: Instant) -> Change {
        if self.breaker.open(false, now) {
            self.stopped.get_or_insert(now);
            Change::Opened
        } else {
            Change::None
        }
    }

    /// Why it takes nothing.
    fn trouble(&self, now: Instant) -> Option<Trouble> {
        let (kind, since, next) = match (&self.refusing, self.turned_away) {
            (refusing, _) if !self.breaker.is_closed() => {
                let kind = match refusing {
                    Some(_) => TroubleKind::Refusing,
                    None => TroubleKind::Away,
                };
                (kind, self.stopped.unwrap_or(now), self.breaker.look_at())
            }
            (_, Some((since, overloaded))) => {
                let kind = if overloaded {
                    TroubleKind::Overloaded
                } else {
                    TroubleKind::Unavailable
                };
                (kind, since, self.controller.held_until(now))
            }
            (_, None) => return None,
        };
        Some(Trouble {
            kind,
            since_seconds: now.saturating_duration_since(since).as_secs(),
            next_seconds: next.map(|next| next.saturating_duration_since(now).as_secs_f64().ceil() as u64),
            reason: self
                .refusing
                .as_ref()
                .map(|refusing| refusing.reason.clone())
                .or_else(|| self.another.clone())
                .or_else(|| self.unserved.clone()),
        })
    }

    fn die(&mut self, now: Instant) -> Change {
        self.refusing = None;
        self.open(now);
        self.health.alive(now);
        self.prefixes.forget();
        Change::Died
    }
}

#[cfg(test)]
mod tests;
