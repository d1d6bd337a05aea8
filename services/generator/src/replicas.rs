//! Which replica takes the next request, and which may take none: a pure rule over what was observed.
//!
//! Looking for a replica changes nothing; [`Replicas::book`] does. Time is passed in.

use std::time::Duration;

use tokio::time::Instant;

/// Pauses between two looks at a replica that is away: the first, and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(500);
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// Pauses after a server said that it is busy: the shortest, and the longest that it may ask for.
const SHORTEST_HOLD: Duration = Duration::from_millis(250);
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// Bad answers in a row after which the other replicas are preferred.
const SUSPICIOUS: u32 = 8;

/// How long every replica must have refused every request before items are failed for it.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(10);

/// The replicas of one server group.
#[derive(Debug)]
pub(crate) struct Replicas {
    states: Vec<State>,
}

#[derive(Debug)]
struct State {
    /// The most requests it may be sent at once.
    limit: u32,
    /// The most it takes at present: cut when it is overloaded, growing back with every answer.
    allowed: u32,
    in_flight: u32,
    breaker: Breaker,
    bad_in_a_row: u32,
    held_until: Option<Instant>,
    /// Since when, and why, it refuses every request.
    refusing: Option<(Instant, String)>,
}

/// Whether a replica is sent requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaker {
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

/// What a request told about its replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It answered.
    Good,
    /// It answered badly.
    Bad,
    /// It has too much to do.
    Busy {
        /// It asks for fewer requests, not only for time.
        overloaded: bool,
        /// How long it asks to be left alone.
        pause: Option<Duration>,
    },
    /// It is away.
    Away,
    /// It would refuse every request.
    Refusing(String),
}

/// What a sign changed about a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing that others wait for.
    None,
    /// It takes no more requests.
    Opened,
    /// It takes requests again.
    Closed,
}

impl Replicas {
    /// Replicas that may be sent so many requests at once each.
    pub(crate) fn new(limits: impl IntoIterator<Item = u32>) -> Self {
        let state = |limit: u32| State {
            limit: limit.max(1),
            allowed: limit.max(1),
            in_flight: 0,
            breaker: Breaker::Closed,
            bad_in_a_row: 0,
            held_until: None,
            refusing: None,
        };
        Self {
            states: limits.into_iter().map(state).collect(),
        }
    }

    /// The replica with the smallest share of its requests in flight; `avoid`, and those with many bad answers in a row,
    /// only where no other has room.
    pub(crate) fn pick(&self, now: Instant, avoid: Option<usize>) -> Pick {
        let candidates = self.states.iter().enumerate().filter(|(_, state)| state.has_room(now));
        let best = candidates.min_by_key(|(index, state)| {
            let is_second_choice = Some(*index) == avoid || state.bad_in_a_row >= SUSPICIOUS;
            let load = u64::from(state.in_flight) * 1_000_000 / u64::from(state.allowed);
            (is_second_choice, load, *index)
        });
        if let Some((index, _)) = best {
            return Pick::Replica(index);
        }
        if let Some(reason) = self.hopeless(now) {
            return Pick::Hopeless(reason);
        }
        let holds = self.states.iter().filter_map(|state| state.held_until);
        let patience = self.states.iter().filter_map(|state| state.refusing.as_ref());
        let patience = patience.map(|(since, _)| *since + REFUSAL_PATIENCE);
        Pick::Wait(holds.chain(patience).filter(|time| *time > now).min())
    }

    /// Books one request at a replica.
    pub(crate) fn book(&mut self, index: usize) {
        self.states[index].in_flight += 1;
    }

    /// Gives a booked request back.
    pub(crate) fn free(&mut self, index: usize) {
        let state = &mut self.states[index];
        state.in_flight = state.in_flight.saturating_sub(1);
    }

    /// Takes note of what a request told.
    pub(crate) fn note(&mut self, index: usize, sign: Sign, now: Instant) -> Change {
        let state = &mut self.states[index];
        match sign {
            Sign::Good => {
                state.bad_in_a_row = 0;
                state.allowed = (state.allowed + 1).min(state.limit);
                state.answered()
            }
            Sign::Bad => {
                state.bad_in_a_row += 1;
                state.answered()
            }
            Sign::Busy { overloaded, pause } => {
                state.busy(overloaded, pause, now);
                state.answered()
            }
            Sign::Away => state.open(now),
            Sign::Refusing(reason) => {
                state.refusing.get_or_insert((now, reason));
                state.open(now)
            }
        }
    }

    /// The next replica that is away and due for a look, or the time when one will be.
    pub(crate) fn next_look(&self) -> Option<(usize, Instant)> {
        let due = self
            .states
            .iter()
            .enumerate()
            .filter_map(|(index, state)| match state.breaker {
                Breaker::Open { look_at, .. } => Some((index, look_at)),
                Breaker::Closed | Breaker::HalfOpen { .. } => None,
            });
        due.min_by_key(|(_, look_at)| *look_at)
    }

    /// Takes note of a look at a replica that is away. True when it answered: one request may now try it.
    pub(crate) fn looked(&mut self, index: usize, answered: bool, now: Instant) -> bool {
        let state = &mut self.states[index];
        if let Breaker::Open { pause, .. } = state.breaker {
            state.breaker = if answered {
                Breaker::HalfOpen { pause }
            } else {
                let pause = (pause * 2).min(LONGEST_LOOK);
                Breaker::Open {
                    look_at: now + pause,
                    pause,
                }
            };
        }
        answered
    }

    fn hopeless(&self, now: Instant) -> Option<String> {
        let refused = |state: &State| {
            let (since, _) = state.refusing.as_ref()?;
            (now.duration_since(*since) >= REFUSAL_PATIENCE).then_some(())
        };
        self.states.iter().map(refused).collect::<Option<Vec<()>>>()?;
        self.states.last()?.refusing.as_ref().map(|(_, reason)| reason.clone())
    }
}

impl State {
    fn has_room(&self, now: Instant) -> bool {
        let most = match self.breaker {
            Breaker::Closed => self.allowed,
            Breaker::HalfOpen { .. } => 1,
            Breaker::Open { .. } => 0,
        };
        self.in_flight < most && self.held_until.is_none_or(|until| until <= now)
    }

    /// A response of any kind shows that it is there.
    fn answered(&mut self) -> Change {
        self.refusing = None;
        if self.breaker == Breaker::Closed {
            return Change::None;
        }
        self.breaker = Breaker::Closed;
        Change::Closed
    }

    /// All requests that were in flight may be turned away at once: that is one episode, with one cut.
    fn busy(&mut self, overloaded: bool, pause: Option<Duration>, now: Instant) {
        let is_new_episode = self.held_until.is_none_or(|until| until <= now);
        if is_new_episode && overloaded {
            self.allowed = (self.in_flight / 2).clamp(1, self.limit);
        }
        let until = now + pause.unwrap_or(SHORTEST_HOLD).clamp(SHORTEST_HOLD, LONGEST_HOLD);
        self.held_until = Some(self.held_until.map_or(until, |held| held.max(until)));
    }

    fn open(&mut self, now: Instant) -> Change {
        let pause = match self.breaker {
            // The others of a whole batch that was lost at once tell nothing new.
            Breaker::Open { .. } => return Change::None,
            Breaker::HalfOpen { pause } => (pause * 2).min(LONGEST_LOOK),
            Breaker::Closed => FIRST_LOOK,
        };
        self.breaker = Breaker::Open {
            look_at: now + pause,
            pause,
        };
        Change::Opened
    }
}

#[cfg(test)]
mod tests;
