//! How many requests one replica is sent at once: a pure rule over what the engine says and what its answers show.
//!
//! The right number is found, not set: as many as keep the engine's batch full, and a few more that wait in it, so that it
//! need not wait for us when one ends. Fewer waste the engine; many more only lengthen its queue, in which nothing can be
//! put in a better order or sent elsewhere.
//!
//! - *With metrics* the number of requests that wait in the engine is held in a band. Below it this generator takes more: by
//!   doubling at first, then as much as is missing. Above it, it gives up its share of what is too much, and its share is
//!   what it has in flight of all that the engine has. So generators that know nothing of each other share a replica: each
//!   adds alike and each gives up in proportion, which evens them out.
//! - *Preemptions* mean that what runs needs more room than there is. The limit goes below what runs, stays there for a while,
//!   and comes back slowly.
//! - *429* is one cut an episode, to just below what was accepted; nothing is sent before it is due, or a quarter of an hour has passed.
//!   *503* asks for time, and is the same as 429 where a server keeps turning some away while it takes others ([`closed`]).
//! - *Without metrics* [`blind`] goes by throughput and the time to the first token.
//!
//! Source for the evening out: Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in
//! Computer Networks", 1989; for judging a queue by its minimum over a while: Nichols and Jacobson, "Controlling Queue
//! Delay", 2012.

mod blind;
mod ceiling;
mod closed;

use std::collections::VecDeque;
use std::time::Duration;

use tidemill_inference::Load;
use tokio::time::Instant;

use self::blind::Blind;
use self::ceiling::{BELOW_ACCEPTED, Ceiling, Episode};
use self::closed::{Accepted, Closed};

/// The level at which a replica begins that may be sent as many.
const START: f64 = 96.0;

/// Samples over which the least number of waiting requests is what stands in the queue: a burst passes sooner.
const STANDING: usize = 3;

/// Between two samples while the level doubles, while more is wanted, and once the level is found.
const SAMPLE_RAMP: Duration = Duration::from_millis(50);
const SAMPLE_OFTEN: Duration = Duration::from_millis(100);
const SAMPLE_STEADY: Duration = Duration::from_millis(500);

/// How long a completed request is taken to be replaced by another one.
const REFILL: Duration = Duration::from_millis(50);

/// Tokens of an answer below which a batch changes so fast that the queue must hold a large part of the next one.
const SHORT_ANSWER: f64 = 4.0;

/// Use of the key-value cache above which nothing more is asked of a replica.
const KV_NEARLY_FULL: f64 = 0.96;

/// Use of it below which a level that was too high is tried again so much faster.
const KV_ROOMY: f64 = 0.85;
const FASTER: f64 = 3.0;

/// After a cut for preemptions: how much less than what ran, the pause before the next one, and how long the level holds.
const PREEMPTED_CUT: f64 = 0.97;
const BETWEEN_CUTS: Duration = Duration::from_secs(2);
const PREEMPTED_HOLD: Duration = Duration::from_secs(10);

/// Finds how many requests a replica is sent at once.
#[derive(Debug)]
pub(crate) struct Controller {
    bound: f64,
    limit: f64,
    /// The level is being found by doubling.
    is_ramping: bool,
    /// The engine says what runs and waits, and that is this generator's.
    is_alone: bool,
    /// The last sample said that the engine has room and the limit is what keeps it empty.
    is_short: bool,
    /// Samples in a row of which that is true.
    short_for: u32,
    ceiling: Ceiling,
    episode: Episode,
    last_cut: Option<Instant>,
    last: Option<(Instant, Sample)>,
    waiting: VecDeque<u32>,
    answers: Answers,
    blind: Blind,
    closed: Closed,
}

/// A look at a replica.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// What the engine says.
    pub(crate) load: Load,
    /// Requests that this generator has in flight there.
    pub(crate) in_flight: u32,
    /// Tokens that this generator got from it so far, or what stands for them.
    pub(crate) work: u64,
}

/// What a controller is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Event {
    /// A look at the replica.
    Sampled(Sample),
    /// A request is sent.
    Sent,
    /// The answer to a request has begun that was sent at a time.
    Begun(Instant),
    /// An answer came.
    Answered {
        /// Its tokens.
        tokens: u64,
        /// When it was asked for.
        sent: Instant,
        /// How long its first one took, where that is known.
        first_token: Option<Duration>,
    },
    /// A request was turned away, by a replica that has so many in flight, that one included.
    TurnedAway {
        /// It asks for fewer, not only for time.
        overloaded: bool,
        /// How long it asks to be left alone.
        pause: Option<Duration>,
        in_flight: u32,
    },
}

/// What recent answers were like.
#[derive(Debug, Default)]
struct Answers {
    mean_tokens: Option<f64>,
    /// Since the last sample.
    count: u32,
    /// A second, smoothed.
    rate: f64,
}

impl Answers {
    fn add(&mut self, tokens: u64) {
        self.count += 1;
        let tokens = tokens as f64;
        let mean = self.mean_tokens.get_or_insert(tokens);
        *mean += (tokens - *mean) / 32.0;
    }

    /// Nothing runs for longer than a step: what runs and what waits at a moment says nothing.
    fn are_short(&self) -> bool {
        self.mean_tokens.is_some_and(|tokens| tokens < SHORT_ANSWER)
    }

    fn sampled(&mut self, after: Duration) {
        let seconds = after.as_secs_f64().max(1e-3);
        let weight = (seconds / 2.0).min(1.0);
        self.rate += (f64::from(self.count) / seconds - self.rate) * weight;
        self.count = 0;
    }
}

impl Controller {
    /// For a replica that may be sent at most `bound` requests. `seed` keeps those apart that are told the same.
    pub(crate) fn new(bound: u32, seed: u64) -> Self {
        let bound = f64::from(bound.max(1));
        Self {
            bound,
            limit: bound.min(START),
            is_ramping: true,
            is_alone: false,
            is_short: false,
            short_for: 0,
            ceiling: Ceiling::default(),
            episode: Episode::new(seed),
            last_cut: None,
            last: None,
            waiting: VecDeque::new(),
            answers: Answers::default(),
            blind: Blind::default(),
            closed: Closed::default(),
        }
    }

    /// Changes the most that the replica may be sent.
    pub(crate) fn set_bound(&mut self, bound: u32) {
        let bound = f64::from(bound.max(1));
        if bound > self.bound {
            self.is_ramping = true;
        }
        self.bound = bound;
        self.set(self.limit);
    }

    #[cfg(test)]
    pub(crate) fn fix(&mut self, level: u32) {
        self.limit = f64::from(level);
    }

    /// The requests that the replica is to have at once.
    pub(crate) fn limit(&self) -> u32 {
        // At least 1 and at most the bound, which is a u32.
        self.limit as u32
    }

    /// The most that it may be sent.
    pub(crate) fn bound(&self) -> u32 {
        self.bound as u32
    }

    /// When it may be sent something again, where that is not now.
    pub(crate) fn held_until(&self, now: Instant) -> Option<Instant> {
        self.episode.held_until(now)
    }

    /// The requests that it may have in a moment: who sends it items has them at hand then.
    pub(crate) fn limit_soon(&self) -> u32 {
        if self.is_ramping {
            (self.limit * 2.0).min(self.most()).max(self.limit) as u32
        } else {
            self.limit()
        }
    }

    /// How soon another look is wanted, with so many in flight.
    pub(crate) fn next_sample(&self, in_flight: u32) -> Duration {
        let is_filling = self.is_alone && f64::from(in_flight) * 2.0 >= self.limit;
        match () {
            () if self.is_ramping && is_filling => SAMPLE_RAMP,
            () if self.is_ramping || self.is_short => SAMPLE_OFTEN,
            () => SAMPLE_STEADY,
        }
    }

    /// Takes note of what happened, and returns the limit that follows.
    pub(crate) fn observe(&mut self, event: Event, now: Instant) -> u32 {
        match event {
            Event::Answered {
                tokens,
                sent,
                first_token,
            } => {
                self.answers.add(tokens);
                self.blind.answered(sent, first_token);
                if self.closed.keeps_free(sent) {
                    self.set(self.limit - 1.0);
                }
                self.accepted(sent, now);
            }
            Event::Sent => self.closed.sent(),
            Event::Begun(sent) => self.accepted(sent, now),
            Event::TurnedAway {
                overloaded,
                pause,
                in_flight,
            } => self.turned_away(overloaded, pause, in_flight, now),
            Event::Sampled(sample) => self.sampled(sample, now),
        }
        self.limit()
    }

    fn sampled(&mut self, sample: Sample, now: Instant) {
        let before = self.last.replace((now, sample));
        let Some((at, before)) = before else { return };
        let after = now.duration_since(at);
        // An idle engine behind a server that takes nothing has room, which is no reason to ask it more often.
        if self.held_until(now).is_some() || self.closed.is_open_question() {
            return;
        }
        self.episode.is_over();
        self.answers.sampled(after);
        let has_room = sample.load.kv_use.is_some_and(|used| used < KV_ROOMY);
        self.ceiling.passed(after, if has_room { FASTER } else { 1.0 }, now);
        match (sample.load.running, sample.load.waiting) {
            (Some(running), Some(waiting)) if !self.answers.are_short() => {
                let preempted = preempted(&before.load, &sample.load);
                self.steer(&sample, running, waiting, preempted, now);
            }
            _ => self.grope(&sample, after, now),
        }
    }

    /// By what the engine says.
    fn steer(&mut self, sample: &Sample, running: u32, waiting: u32, preempted: u64, now: Instant) {
        self.waiting.push_back(waiting);
        if self.waiting.len() > STANDING {
            self.waiting.pop_front();
        }
        let own = f64::from(sample.in_flight);
        let share = (own / f64::from((running + waiting).max(1))).clamp(0.05, 1.0);
        self.is_alone = share >= 0.9;
        if preempted > 0 {
            self.preempted(own, own.min(share * f64::from(running)), now);
            return;
        }
        let standing = f64::from(self.waiting.iter().copied().min().unwrap_or(waiting));
        let target = self.target(f64::from(running));
        let most = 2.0 * target + 2.0;
        let is_used = own >= self.limit - (self.limit * 0.1).max(2.0);
        self.is_short = standing < target / 2.0 && is_used && self.limit < self.most();
        self.short_for = if self.is_short { self.short_for + 1 } else { 0 };
        if self.is_ramping && self.is_alone && standing > target && self.waiting.len() < STANDING {
            // What was added last waits at first.
            return;
        }
        if standing > most {
            self.is_ramping = false;
            // What is too much is there still after the limit fell, until it is worked off.
            self.set(self.limit.min(own - share * (f64::from(waiting) - target)));
            return;
        }
        if !is_used || sample.load.kv_use.is_some_and(|used| used > KV_NEARLY_FULL) {
            return;
        }
        if self.is_ramping {
            // What was added last is there, and nothing of it waits. Those that share a replica are in less of a hurry, so that
            // each sees what the others added.
            let is_there = if self.is_alone {
                f64::from(running + waiting) >= own * 0.9 && f64::from(waiting) <= target
            } else {
                standing <= target && self.waiting.len() == STANDING
            };
            if is_there {
                self.raise(self.limit * 2.0);
                self.waiting.clear();
            }
            self.is_ramping &= standing <= target && self.limit < self.most();
            return;
        }
        let alike = if self.is_alone {
            0.0
        } else {
            (f64::from(running) / 64.0).max(1.0)
        };
        let missing = (target - standing).max(0.0) * share * 0.5;
        // Room that stays free though the limit grows is more than a band's worth.
        let hurry = 1.5_f64.powi(
            i32::try_from(self.short_for.saturating_sub(STANDING as u32))
                .unwrap_or(i32::MAX)
                .min(12),
        );
        let more = alike + missing * hurry;
        if more > 0.0 {
            self.raise(self.limit + more.min(self.limit / 4.0).max(more.min(1.0)));
        }
    }

    /// The requests that should wait in an engine that runs so many: what may end before we have sent another one.
    fn target(&self, running: f64) -> f64 {
        let tokens = self.answers.mean_tokens.unwrap_or(f64::INFINITY);
        let at_once = running * (SHORT_ANSWER / (tokens + 1.0)).min(1.0);
        let meanwhile = self.answers.rate * REFILL.as_secs_f64();
        (running / 16.0).max(at_once).max(meanwhile).max(2.0)
    }

    /// By throughput and the time to the first token.
    fn grope(&mut self, sample: &Sample, after: Duration, now: Instant) {
        self.is_alone = false;
        let most = self.most();
        let limit = self
            .blind
            .sampled(self.limit, most, sample, after, self.answers.rate, now);
        self.is_ramping = self.blind.is_ramping();
        self.is_short = false;
        self.set(limit);
    }

    fn preempted(&mut self, own: f64, ran: f64, now: Instant) {
        self.is_ramping = false;
        self.is_short = false;
        let is_too_soon = self.last_cut.is_some_and(|cut| now.duration_since(cut) < BETWEEN_CUTS);
        if is_too_soon || own > self.limit * 1.05 {
            // The last cut is not worked off.
            return;
        }
        self.last_cut = Some(now);
        self.set(self.limit.min(ran) * PREEMPTED_CUT);
        self.ceiling.hold(self.limit, PREEMPTED_HOLD, now);
    }

    fn turned_away(&mut self, overloaded: bool, pause: Option<Duration>, in_flight: u32, now: Instant) {
        if self.episode.held_until(now).is_none() {
            self.closed.begin(self.limit, self.episode.ended(), now);
        }
        self.closed.refused();
        if overloaded {
            self.closed.says_full();
        }
        let pause = pause.or_else(|| self.closed.pause());
        let takes_nothing = self.closed.takes_nothing();
        // No level is too high for a server that takes nothing.
        let level = self
            .episode
            .turned_away(overloaded && !takes_nothing, pause, in_flight, now);
        if let Some(level) = level {
            self.cut(level, now);
        } else if let Some(level) = self.closed.lowered(in_flight) {
            self.set(self.limit.min(level));
        }
    }

    /// Something that was sent at a time is being answered.
    fn accepted(&mut self, sent: Instant, now: Instant) {
        match self.closed.accepted(sent) {
            Accepted::Nothing => {}
            Accepted::Reopened(level) => {
                // What it refused, it refused at any level: nothing was learnt about this one.
                self.ceiling = Ceiling::default();
                self.is_ramping = true;
                self.waiting.clear();
                self.set(level);
            }
            Accepted::Full(least) => {
                self.cut((self.limit * BELOW_ACCEPTED).max(least), now);
                self.closed.cut(self.limit);
            }
        }
    }

    /// A server turned away what was more than this.
    fn cut(&mut self, level: f64, now: Instant) {
        self.is_ramping = false;
        self.is_short = false;
        self.blind.stop();
        self.set(level);
        self.ceiling.hold(self.limit, self.episode.keeps_away(), now);
    }

    fn most(&self) -> f64 {
        self.ceiling.level().map_or(self.bound, |level| level.min(self.bound))
    }

    fn raise(&mut self, limit: f64) {
        self.set(limit.min(self.most().max(self.limit)));
    }

    fn set(&mut self, limit: f64) {
        self.limit = limit.clamp(1.0, self.bound);
    }
}

/// Preemptions between two samples; 0 where the engine does not count them, or began anew.
fn preempted(before: &Load, now: &Load) -> u64 {
    let counts = before.preemptions.zip(now.preemptions);
    counts.map_or(0, |(before, now)| now.saturating_sub(before))
}

#[cfg(test)]
mod tests;
