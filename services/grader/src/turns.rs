//! Whose turn it is to be graded: the rule of one lane, without clock, broker or threads.
//!
//! A lane grades so many at once and holds somewhat more. Evaluations take turns, oldest first within each. What is beyond
//! the lane's room is given back to the broker to come again later, from the evaluation that has the most waiting, its
//! youngest first: so no evaluation keeps another one's completions from being held, and a lane that is slow never fills a
//! grader. How soon they come again follows the lane's own pace: twice as many return as it grades. A lane whose turns pass
//! quickly gives nothing back: to grade is then cheaper than to take twice.
//!
//! What a lane does not know: how many there are in the stream, and what other processes do. Each returns what it was given
//! at its own pace, so the sum fits however many there are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tidemill_domain::Timestamp;

/// Below this time between two starts of a lane nothing is given back: that costs the broker and this process about as much.
const QUICK: Duration = Duration::from_millis(2);

/// As many completions come back in the time of one grade: more than are graded, so that a lane never stands idle, and not
/// many more, because each costs a delivery.
const RETURNS: u32 = 2;

/// Shortest time between two that come back.
const LEAST_SPACING: Duration = Duration::from_millis(1);

/// Longest time until one comes back. The broker goes through all that are out each time one is due, so it is not short.
pub(crate) const LONGEST: Duration = Duration::from_secs(300);

/// Those of the longest pauses are due together at such times: the broker then goes through all that are out once.
const STEP_SECONDS: u64 = 2;

/// A time, counted from whatever the owner of the lane counts from.
pub(crate) type Moment = Duration;

/// What a lane has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Graded at once, at least 1.
    pub(crate) at_once: usize,
    /// Graded and waiting, at least `at_once`.
    pub(crate) held: usize,
}

/// A completion that asks for its turn.
#[derive(Debug)]
pub(crate) struct Asking<E, W> {
    pub(crate) evaluation: E,
    /// Its place in the stream, which is its age.
    pub(crate) sequence: u64,
    /// Its grader's kind, for metrics.
    pub(crate) family: &'static str,
    /// When it was generated.
    pub(crate) since: Timestamp,
    /// Who is told.
    pub(crate) waiter: W,
}

/// A completion in a lane: its place in the stream, and which of its deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    sequence: u64,
    arrival: u64,
}

/// What is to be told to whom.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Move<W> {
    /// Its turn has come; the lane is told by [`Lane::finish`] when it is over.
    Start(Place, W),
    /// There is no room: it is to come again after so long.
    Back(W, Duration),
}

/// How much of a family is where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Level {
    /// Being graded.
    pub(crate) running: usize,
    /// Held, waiting for a turn.
    pub(crate) waiting: usize,
    /// Given back to the broker and not due yet.
    pub(crate) back: usize,
    /// When the oldest that is held was generated.
    pub(crate) oldest: Option<Timestamp>,
}

#[derive(Debug)]
struct Waiting<W> {
    family: &'static str,
    since: Timestamp,
    waiter: W,
}

#[derive(Debug)]
struct Running {
    family: &'static str,
    since: Timestamp,
    started: Moment,
}

/// The turns of one lane.
#[derive(Debug)]
pub(crate) struct Lane<E, W> {
    room: Room,
    running: HashMap<Place, Running>,
    /// Evaluations of which something waits, the one whose turn is next first.
    ring: VecDeque<E>,
    queues: HashMap<E, BTreeMap<Place, Waiting<W>>>,
    waiting: usize,
    arrivals: u64,
    /// How long a grade takes, smoothed.
    pace: Duration,
    /// When the last of those given back comes again, as far as they come one by one: by evaluation, or a few of one would
    /// come again behind all of another.
    returns: HashMap<E, Moment>,
    /// When those given back are due.
    back: BinaryHeap<Reverse<(Moment, &'static str)>>,
}

impl<E: Clone + Eq + Hash, W> Lane<E, W> {
    pub(crate) fn new(room: Room) -> Self {
        let at_once = room.at_once.max(1);
        Self {
            room: Room {
                at_once,
                held: room.held.max(at_once),
            },
            running: HashMap::new(),
            ring: VecDeque::new(),
            queues: HashMap::new(),
            waiting: 0,
            arrivals: 0,
            pace: Duration::ZERO,
            returns: HashMap::new(),
            back: BinaryHeap::new(),
        }
    }

    /// A completion was delivered. Returns its place, and what follows, perhaps for it.
    pub(crate) fn arrive(&mut self, asking: Asking<E, W>, now: Moment) -> (Place, Vec<Move<W>>) {
        self.arrivals += 1;
        let place = Place {
            sequence: asking.sequence,
            arrival: self.arrivals,
        };
        let queue = self.queues.entry(asking.evaluation.clone()).or_default();
        if queue.is_empty() {
            self.ring.push_back(asking.evaluation);
        }
        let waiting = Waiting {
            family: asking.family,
            since: asking.since,
            waiter: asking.waiter,
        };
        queue.insert(place, waiting);
        self.waiting += 1;
        (place, self.go_on(now))
    }

    /// A grade is made, or given up.
    pub(crate) fn finish(&mut self, place: Place, now: Moment) -> Vec<Move<W>> {
        if let Some(running) = self.running.remove(&place) {
            let took = now.saturating_sub(running.started);
            self.pace = self.pace * 7 / 8 + took / 8;
        }
        self.go_on(now)
    }

    /// Whoever waited for its turn does not any more.
    pub(crate) fn leave(&mut self, evaluation: &E, place: Place) {
        let Some(queue) = self.queues.get_mut(evaluation) else {
            return;
        };
        if queue.remove(&place).is_none() {
            return;
        }
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(evaluation);
            self.ring.retain(|waiting| waiting != evaluation);
        }
    }

    /// Time has passed: what was quick may not be any more.
    pub(crate) fn go_on(&mut self, now: Moment) -> Vec<Move<W>> {
        let mut moves = Vec::new();
        while self.running.len() < self.room.at_once {
            let Some((place, started)) = self.next_turn() else {
                break;
            };
            let running = Running {
                family: started.family,
                since: started.since,
                started: now,
            };
            self.running.insert(place, running);
            moves.push(Move::Start(place, started.waiter));
        }
        if self.turn(now) < QUICK {
            return moves;
        }
        while self.running.len() + self.waiting > self.room.held {
            let Some((evaluation, place, shed)) = self.youngest_of_the_most() else {
                break;
            };
            let pause = self.pause(evaluation, place, now);
            self.back.push(Reverse((now + pause, shed.family)));
            moves.push(Move::Back(shed.waiter, pause));
        }
        moves
    }

    /// What of each family is where.
    pub(crate) fn levels(&mut self, now: Moment) -> BTreeMap<&'static str, Level> {
        while self.back.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            self.back.pop();
        }
        let mut levels: BTreeMap<&'static str, Level> = BTreeMap::new();
        for running in self.running.values() {
            let level = levels.entry(running.family).or_default();
            level.running += 1;
            level.note_age(running.since);
        }
        for waiting in self.queues.values().flat_map(BTreeMap::values) {
            let level = levels.entry(waiting.family).or_default();
            level.waiting += 1;
            level.note_age(waiting.since);
        }
        for Reverse((_, family)) in &self.back {
            levels.entry(*family).or_default().back += 1;
        }
        levels
    }

    /// The oldest of the evaluation whose turn it is, which then comes last.
    fn next_turn(&mut self) -> Option<(Place, Waiting<W>)> {
        let evaluation = self.ring.pop_front()?;
        let queue = self.queues.get_mut(&evaluation)?;
        let oldest = queue.pop_first()?;
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(&evaluation);
        } else {
            self.ring.push_back(evaluation);
        }
        Some(oldest)
    }

    /// The youngest of the evaluation that has the most waiting; of several the one with the youngest.
    fn youngest_of_the_most(&mut self) -> Option<(E, Place, Waiting<W>)> {
        let most = self.queues.iter().max_by_key(|(_, queue)| {
            let youngest = queue.last_key_value().map(|(place, _)| *place);
            (queue.len(), youngest)
        });
        let evaluation = most.map(|(evaluation, _)| evaluation.clone())?;
        let queue = self.queues.get_mut(&evaluation)?;
        let (place, youngest) = queue.pop_last()?;
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(&evaluation);
            self.ring.retain(|waiting| *waiting != evaluation);
        }
        Some((evaluation, place, youngest))
    }

    /// How long a grade takes: as those that ended did, or longer when one has not ended for longer.
    fn grade_takes(&self, now: Moment) -> Duration {
        let started = self.running.values().map(|running| running.started).min();
        let longest = started.map_or(Duration::ZERO, |started| now.saturating_sub(started));
        self.pace.max(longest)
    }

    /// Time from one start to the next.
    fn turn(&self, now: Moment) -> Duration {
        self.grade_takes(now) / self.at_once()
    }

    fn at_once(&self) -> u32 {
        u32::try_from(self.room.at_once).unwrap_or(u32::MAX)
    }

    /// When one comes again that is given back now: a little behind the last one of its evaluation, so that they return
    /// evenly, and from all evaluations together as many as fit.
    fn pause(&mut self, evaluation: E, place: Place, now: Moment) -> Duration {
        self.returns.retain(|_, last| *last > now);
        let before = self.returns.get(&evaluation).copied().unwrap_or(now);
        let others = self.returns.len() - usize::from(before > now);
        let evaluations = u32::try_from(others + 1).unwrap_or(u32::MAX);
        let spacing = (self.turn(now) * evaluations / RETURNS).max(LEAST_SPACING);
        let returns = before.min(now + LONGEST) + spacing;
        self.returns.insert(evaluation, returns);
        let pause = returns - now;
        if pause < LONGEST {
            return pause;
        }
        // Many more than come back in that time: spread over half of it, by place, or all would return as they were taken.
        let spread = f64::from((place.sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32) / f64::from(u32::MAX);
        let due = (now + LONGEST.mul_f64(0.5 + spread / 2.0)).as_secs() / STEP_SECONDS * STEP_SECONDS;
        Duration::from_secs(due).saturating_sub(now)
    }
}

impl Level {
    fn note_age(&mut self, since: Timestamp) {
        self.oldest = Some(self.oldest.map_or(since, |oldest| oldest.min(since)));
    }

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            running: self.running + other.running,
            waiting: self.waiting + other.waiting,
            back: self.back + other.back,
            oldest: [self.oldest, other.oldest].into_iter().flatten().min(),
        }
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
