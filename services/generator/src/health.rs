//! Whether a replica is sent requests, and whether what it has in flight is lost: pure rules over what was observed.
//!
//! Two things are judged apart. The [`Breaker`] says whether anything new is sent: one refused connection is enough to stop
//! that, since asking again costs little. [`Health`] says that a replica is dead: requests in flight there are then given
//! back at once, so it takes more than one sign, and no sign of life in between. A host that vanished closes no connection; an
//! engine that has much to do may take long to answer a look, and is given long before it counts as such a host.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Pauses between two looks at a replica that is away: the first, and the longest.
pub(crate) const FIRST_LOOK: Duration = Duration::from_millis(250);
pub(crate) const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Between two looks at a replica that just failed to answer one.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Looks without an answer after which a replica is sent nothing more, and those that found nobody after which it is dead.
const MISSED: u32 = 3;

/// How long a replica that is there may give no sign of life, neither answer a look nor send a token, before it is dead.
const SILENCE: Duration = Duration::from_secs(30);

/// Bad answers in a row after which the other replicas are preferred, and after which they get everything.
const SUSPICIOUS: u32 = 8;
const USELESS: u32 = 16;

/// The last answers of which half or more are bad when a replica is of no use; they count for so long after the last one.
const WINDOW: usize = 64;
const WINDOW_AT_LEAST: usize = 32;
const WINDOW_IS_GOOD_FOR: Duration = Duration::from_secs(30);

/// Whether a replica is sent requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Closed,
    /// Away; looked at again at a time.
    Open {
        look_at: Instant,
        pause: Duration,
    },
    /// It answered a look; one real request decides.
    HalfOpen {
        pause: Duration,
    },
}

/// Stops requests to a replica that is away or answers nothing but errors.
#[derive(Debug)]
pub(crate) struct Breaker {
    gate: Gate,
    /// It was stopped for its answers, not for being away: bad ones prove nothing then.
    for_answers: bool,
    is_probing: bool,
    /// When it was last stopped, unless it is closed.
    since: Option<Instant>,
    bad_in_a_row: u32,
    window: VecDeque<bool>,
    last_answer: Option<Instant>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            gate: Gate::Closed,
            for_answers: false,
            is_probing: false,
            since: None,
            bad_in_a_row: 0,
            window: VecDeque::new(),
            last_answer: None,
        }
    }
}

impl Breaker {
    pub(crate) fn is_closed(&self) -> bool {
        self.gate == Gate::Closed
    }

    /// It is sent nothing.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.gate, Gate::Open { .. })
    }

    /// One real request may try it.
    pub(crate) const fn wants_probe(&self) -> bool {
        matches!(self.gate, Gate::HalfOpen { .. }) && !self.is_probing
    }

    /// When an open one is looked at again.
    pub(crate) const fn look_at(&self) -> Option<Instant> {
        match self.gate {
            Gate::Open { look_at, .. } => Some(look_at),
            Gate::Closed | Gate::HalfOpen { .. } => None,
        }
    }

    /// When requests to it were last stopped; `None` while they are not.
    pub(crate) const fn away_since(&self) -> Option<Instant> {
        self.since
    }

    /// Others are preferred.
    pub(crate) const fn is_suspicious(&self) -> bool {
        self.bad_in_a_row >= SUSPICIOUS
    }

    /// It answers so badly, in a row or over a while, that nothing should be sent where there is another.
    pub(crate) fn is_useless(&self) -> bool {
        let bad = self.window.iter().filter(|is_bad| **is_bad).count();
        self.bad_in_a_row >= USELESS || (self.window.len() >= WINDOW_AT_LEAST && bad * 2 >= self.window.len())
    }

    /// So many of its last answers are good that what was before says nothing.
    pub(crate) fn is_sound(&self) -> bool {
        self.window.len() >= WINDOW_AT_LEAST && !self.is_useless()
    }

    /// A request is sent. True when it is the one that decides.
    pub(crate) fn sent(&mut self) -> bool {
        let decides = self.wants_probe();
        self.is_probing |= decides;
        decides
    }

    /// The request that decides is over, whatever it told.
    pub(crate) const fn probed(&mut self) {
        self.is_probing = false;
    }

    /// An answer of some kind. True when the replica was not sent requests and is again.
    pub(crate) fn answered(&mut self, is_bad: bool, now: Instant) -> bool {
        if self
            .last_answer
            .is_some_and(|last| now.duration_since(last) > WINDOW_IS_GOOD_FOR)
        {
            self.window.clear();
        }
        self.last_answer = Some(now);
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(is_bad);
        self.bad_in_a_row = if is_bad { self.bad_in_a_row + 1 } else { 0 };
        if self.is_closed() {
            return false;
        }
        if is_bad && self.for_answers {
            if matches!(self.gate, Gate::HalfOpen { .. }) {
                self.open(true, now);
            }
            return false;
        }
        (self.gate, self.since) = (Gate::Closed, None);
        true
    }

    /// Stops requests, for what it answers or because it is away. True when they were not stopped before.
    pub(crate) fn open(&mut self, for_answers: bool, now: Instant) -> bool {
        let pause = match self.gate {
            // The others of a whole batch that was lost at once tell nothing new.
            Gate::Open { .. } => return false,
            Gate::HalfOpen { pause } => (pause * 2).min(LONGEST_LOOK),
            Gate::Closed => FIRST_LOOK,
        };
        self.gate = Gate::Open {
            look_at: now + pause,
            pause,
        };
        (self.for_answers, self.since) = (for_answers, Some(now));
        // What it answers from now on is judged afresh.
        self.window.clear();
        self.bad_in_a_row = 0;
        true
    }

    /// Takes note of a look at an open one. True when it answered: one request may now try it.
    pub(crate) fn looked(&mut self, answered: bool, now: Instant) -> bool {
        let Gate::Open { pause, .. } = self.gate else {
            return false;
        };
        if answered {
            self.gate = Gate::HalfOpen { pause };
            self.is_probing = false;
            return true;
        }
        let pause = (pause * 2).min(LONGEST_LOOK);
        self.gate = Gate::Open {
            look_at: now + pause,
            pause,
        };
        false
    }
}

/// What a look at a replica found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Looked {
    /// It answered.
    Answered,
    /// Something answered that it cannot serve now: it has too much to do, is starting, or what stands before it said so.
    Unready,
    /// It answered that it does not serve what is asked of it, as by this reason.
    Refusing(String),
    /// It answered, and is not the server that joined, for this reason.
    Another(String),
    /// Nobody is there: no connection came about, or it was closed without an answer.
    Nobody,
    /// Nothing came in time. An engine that is merely busy may do that too.
    Silent,
}

impl Looked {
    /// Why a replica at which it was found last is sent nothing more.
    pub(crate) const fn why(&self) -> &str {
        match self {
            Self::Answered => "it stands still",
            Self::Unready => "it is not ready",
            Self::Refusing(reason) | Self::Another(reason) => reason.as_str(),
            Self::Nobody => "nobody answers there",
            Self::Silent => "it does not answer in time",
        }
    }
}

/// What looks tell of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Nothing is wrong.
    Alive,
    /// It should be sent nothing more; what it has may still be answered.
    Missing,
    /// What it has in flight will never be answered.
    Dead,
}

/// Signs of life of one replica.
#[derive(Debug)]
pub(crate) struct Health {
    /// Looks that were not answered, and those of them that found nobody, since the last sign of life.
    missed: u32,
    nobody: u32,
    /// Work that had arrived when it was last seen to grow.
    work: u64,
    grew: Instant,
    /// The last sign of life of any kind.
    heard: Instant,
}

impl Health {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            missed: 0,
            nobody: 0,
            work: 0,
            grew: now,
            heard: now,
        }
    }

    /// Looks in a row that were not answered.
    pub(crate) const fn missed(&self) -> u32 {
        self.missed
    }

    /// Takes note of how much work has arrived so far.
    pub(crate) fn work(&mut self, work: u64, now: Instant) {
        if work != self.work {
            self.work = work;
            self.alive(now);
        }
    }

    /// Something came from it, or all that it had is lost and what is sent now is judged afresh.
    pub(crate) const fn alive(&mut self, now: Instant) {
        self.grew = now;
        self.heard_at(now);
    }

    const fn heard_at(&mut self, now: Instant) {
        (self.missed, self.nobody) = (0, 0);
        self.heard = now;
    }

    /// Takes note of a look. `away_since` says since when requests to it fail already: nobody there at the first look then
    /// leaves no doubt, unless work arrived since.
    pub(crate) fn looked(&mut self, looked: &Looked, away_since: Option<Instant>, now: Instant) -> Condition {
        match looked {
            Looked::Answered | Looked::Unready | Looked::Another(_) => {
                self.heard_at(now);
                return Condition::Alive;
            }
            Looked::Refusing(_) => self.heard = now,
            Looked::Nobody => self.nobody += 1,
            Looked::Silent => {}
        }
        self.missed += 1;
        let is_lost = *looked == Looked::Nobody && away_since.is_some_and(|since| self.grew <= since);
        match () {
            () if is_lost || self.nobody >= MISSED => Condition::Dead,
            () if now.duration_since(self.heard) >= SILENCE => Condition::Dead,
            () if self.missed >= MISSED => Condition::Missing,
            () => Condition::Alive,
        }
    }

    /// Answers that have begun, so many, have seen nothing of it for `patience`: it stands still. Requests that wait for a
    /// first token do not count, since that takes as long as it takes.
    pub(crate) fn is_stalled(&self, flowing: u32, patience: Duration, now: Instant) -> bool {
        flowing > 0 && now.duration_since(self.grew) >= patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_open_breaker_is_looked_at_no_more_rarely_than_once_a_second_and_tried_with_one_request() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        assert!(breaker.open(false, now));
        assert!(
            !breaker.open(false, now),
            "the second loss of a batch tells nothing new"
        );
        let mut time = now;
        let mut pauses = Vec::new();
        for _ in 0..4 {
            let at = breaker.look_at().unwrap();
            pauses.push(at - time);
            time = at;
            assert!(!breaker.looked(false, time));
        }
        assert_eq!((pauses[0], pauses[3]), (FIRST_LOOK, LONGEST_LOOK));
        assert!(breaker.looked(true, time) && breaker.wants_probe());
        assert!(breaker.sent());
        assert!(!breaker.wants_probe() && !breaker.sent(), "one request decides");
        breaker.probed();
        assert!(breaker.answered(false, time) && breaker.is_closed());
    }

    #[test]
    fn a_request_that_fails_after_a_good_look_opens_it_again_for_longer() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        breaker.open(false, now);
        breaker.looked(true, now);
        assert!(breaker.open(false, now));
        assert_eq!(breaker.look_at(), Some(now + FIRST_LOOK * 2));
    }

    #[test]
    fn bad_answers_make_it_useless_in_a_row_or_as_half_of_many() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 1..USELESS {
            breaker.answered(true, now);
        }
        assert!(breaker.is_suspicious() && !breaker.is_useless());
        breaker.answered(true, now);
        assert!(breaker.is_useless());

        let mut half = Breaker::default();
        for at in 0..WINDOW_AT_LEAST {
            half.answered(at % 2 == 0, now);
        }
        assert!(half.is_useless() && !half.is_suspicious());
        let mut third = Breaker::default();
        for at in 0..WINDOW {
            third.answered(at % 3 == 0, now);
        }
        assert!(!third.is_useless());
        half.answered(false, now + WINDOW_IS_GOOD_FOR + SECOND);
        assert!(!half.is_useless(), "what was long ago does not count");
    }

    #[test]
    fn a_bad_answer_shows_that_a_replica_is_there_and_not_that_it_is_of_use() {
        let now = Instant::now();
        let mut away = Breaker::default();
        away.open(false, now);
        assert!(away.answered(true, now) && away.is_closed());

        let mut useless = Breaker::default();
        useless.open(true, now);
        assert!(
            !useless.answered(true, now) && useless.is_open(),
            "sent before it was stopped"
        );
        useless.looked(true, now);
        useless.sent();
        assert!(!useless.answered(true, now) && useless.is_open());
        useless.looked(true, now);
        assert!(useless.answered(false, now) && useless.is_closed());
    }

    #[test]
    fn three_looks_that_find_nobody_without_a_sign_of_life_are_death() {
        let now = Instant::now();
        let mut health = Health::new(now);
        assert_eq!(health.looked(&Looked::Nobody, None, now), Condition::Alive);
        assert_eq!(health.looked(&Looked::Nobody, None, now), Condition::Alive);
        assert_eq!(health.looked(&Looked::Nobody, None, now), Condition::Dead);

        let mut busy = Health::new(now);
        for at in 1..10 {
            assert_eq!(busy.looked(&Looked::Nobody, None, now), Condition::Alive);
            busy.work(at, now);
        }
        assert_eq!(busy.missed(), 0);

        let mut away = Health::new(now);
        assert_eq!(
            away.looked(&Looked::Silent, Some(now), now),
            Condition::Alive,
            "it may be slow"
        );
        assert_eq!(away.looked(&Looked::Nobody, Some(now), now), Condition::Dead);
        let mut works = Health::new(now);
        works.work(1, now + SECOND);
        assert_eq!(
            works.looked(&Looked::Nobody, Some(now), now + SECOND),
            Condition::Alive,
            "its answers go on"
        );
    }

    #[test]
    fn slow_answers_to_looks_are_not_death_before_a_long_silence() {
        let now = Instant::now();
        let mut health = Health::new(now);
        let mut at = |second| health.looked(&Looked::Silent, None, now + SECOND * second);
        assert_eq!((at(3), at(6)), (Condition::Alive, Condition::Alive));
        assert_eq!((at(9), at(29)), (Condition::Missing, Condition::Missing));
        assert_eq!(at(30), Condition::Dead);
        health.work(1, now + SECOND * 31);
        assert_eq!(
            health.looked(&Looked::Silent, None, now + SECOND * 60),
            Condition::Alive
        );
    }

    #[test]
    fn any_answer_to_a_look_is_a_sign_of_life() {
        let now = Instant::now();
        let mut health = Health::new(now);
        for second in 1..100 {
            let now = now + SECOND * second;
            assert_eq!(health.looked(&Looked::Unready, Some(now), now), Condition::Alive);
            assert_ne!(
                health.looked(&Looked::Refusing(String::new()), Some(now), now),
                Condition::Dead
            );
        }
    }

    #[test]
    fn an_engine_stands_still_when_what_had_tokens_gets_no_more() {
        let now = Instant::now();
        let patience = SECOND * 120;
        let mut health = Health::new(now);
        assert!(
            !health.is_stalled(0, patience, now + patience * 10),
            "a first token takes as long as it takes"
        );
        health.work(7, now + SECOND);
        assert!(!health.is_stalled(1, patience, now + patience));
        assert!(health.is_stalled(1, patience, now + SECOND + patience));
        health.work(8, now + patience);
        assert!(!health.is_stalled(1, patience, now + SECOND + patience));
    }
}
