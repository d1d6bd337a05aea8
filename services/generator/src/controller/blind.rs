//! The level of a replica that says nothing of its load: by throughput, and by the time to the first token.
//!
//! A level is kept until it is filled and has been measured. More is tried while that brings more tokens a second, and less
//! where it brings as many. Throughput is counted in tokens as they arrive, not in answers: the lengths of answers then do not
//! matter, however unequal. A first token that takes much longer than it did shows a queue in the engine, of about as many
//! requests as arrive in that time; what is too much of it is given up at once.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::Sample;

/// How long a level must be filled before it is measured, and how long that takes.
const SETTLE: Duration = Duration::from_millis(600);
const MEASURE: Duration = Duration::from_millis(1_500);

/// While the level is found by doubling; what is decided then is coarse.
const MEASURE_RAMP: Duration = Duration::from_millis(600);

/// A level that takes this much less than the best throughput is as good.
const AS_GOOD: f64 = 0.985;

/// Throughput that twice the requests must bring for doubling to go on.
const WORTH_DOUBLING: f64 = 1.1;

/// What a small step changes.
const STEP: f64 = 1.15;

/// Measurements between two tries of another level, once one is found.
const REST: u32 = 12;

/// First tokens that are remembered.
const KEPT: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Ramp,
    /// Trying less.
    Down,
    /// Trying more.
    Up,
    Rest(u32),
}

#[derive(Debug)]
pub(super) struct Blind {
    phase: Phase,
    /// Filled for so long, and the tokens counted since it was settled.
    filled: Duration,
    measured: Duration,
    work: u64,
    last_work: Option<u64>,
    /// Level and throughput of what is best.
    best: Option<(f64, f64)>,
    first_tokens: VecDeque<Duration>,
    /// The shortest typical time to a first token.
    base: Option<Duration>,
    /// When the level was last cut for a queue.
    cut: Option<Instant>,
}

impl Default for Blind {
    fn default() -> Self {
        Self {
            phase: Phase::Ramp,
            filled: Duration::ZERO,
            measured: Duration::ZERO,
            work: 0,
            last_work: None,
            best: None,
            first_tokens: VecDeque::new(),
            base: None,
            cut: None,
        }
    }
}

impl Blind {
    pub(super) fn is_ramping(&self) -> bool {
        self.phase == Phase::Ramp
    }

    pub(super) fn answered(&mut self, sent: Instant, first_token: Option<Duration>) {
        let Some(first_token) = first_token else { return };
        if self.cut.is_some_and(|cut| sent < cut) {
            // It says how it was before.
            return;
        }
        if self.first_tokens.len() == KEPT {
            self.first_tokens.pop_front();
        }
        self.first_tokens.push_back(first_token);
    }

    /// The level was set by something else.
    pub(super) fn stop(&mut self) {
        self.phase = Phase::Rest(REST);
        self.best = None;
        self.begin();
    }

    /// The limit that follows from a sample; `rate` is answers a second.
    pub(super) fn sampled(
        &mut self,
        limit: f64,
        most: f64,
        sample: &Sample,
        after: Duration,
        rate: f64,
        now: Instant,
    ) -> f64 {
        let work = sample
            .work
            .saturating_sub(self.last_work.replace(sample.work).unwrap_or(sample.work));
        let own = f64::from(sample.in_flight);
        if own < limit * 0.9 - 2.0 {
            // Nothing is learnt from a level that is not filled.
            self.begin();
            return limit.min(most);
        }
        if let Some(too_much) = self.queued(rate, limit) {
            self.first_tokens.clear();
            self.phase = Phase::Rest(REST);
            self.best = None;
            self.cut = Some(now);
            self.begin();
            let least = limit.min(own) / 2.0;
            return (limit.min(own) - too_much).clamp(least.min(most), most);
        }
        self.filled += after;
        if self.filled <= SETTLE {
            return limit.min(most);
        }
        self.measured += after;
        self.work += work;
        let needed = if self.phase == Phase::Ramp {
            MEASURE_RAMP
        } else {
            MEASURE
        };
        if self.measured < needed || self.work == 0 {
            return limit.min(most);
        }
        let throughput = self.work as f64 / self.measured.as_secs_f64();
        self.begin();
        self.decide(limit, throughput, most).min(most).max(1.0)
    }

    fn begin(&mut self) {
        self.filled = Duration::ZERO;
        self.measured = Duration::ZERO;
        self.work = 0;
    }

    /// The requests that wait in the engine beyond those that should, by the time to first tokens; `None` while they are few.
    fn queued(&mut self, rate: f64, limit: f64) -> Option<f64> {
        if self.first_tokens.len() < 16 {
            return None;
        }
        let mut sorted: Vec<Duration> = self.first_tokens.iter().copied().collect();
        sorted.sort_unstable();
        let typical = sorted[sorted.len() / 2];
        let base = *self.base.get_or_insert(typical);
        self.base = Some(base.min(typical));
        let queued = rate * typical.saturating_sub(base).as_secs_f64();
        let target = (limit / 16.0).max(2.0);
        (queued > 3.0 * target && typical > base * 2).then_some(queued - target)
    }

    fn decide(&mut self, limit: f64, throughput: f64, most: f64) -> f64 {
        let (level, best) = *self.best.get_or_insert((limit, 0.0));
        match self.phase {
            Phase::Ramp => {
                let is_better = throughput > best;
                let is_worth_it = best == 0.0 || throughput >= best * WORTH_DOUBLING.powf((limit / level).log2());
                if is_better {
                    self.best = Some((limit, throughput));
                }
                if is_worth_it && limit < most {
                    return limit * 2.0;
                }
                self.phase = Phase::Down;
                if is_better { limit / STEP } else { level }
            }
            Phase::Down => {
                if throughput >= best * AS_GOOD {
                    self.best = Some((limit, throughput.max(best)));
                    return limit / STEP;
                }
                self.phase = Phase::Rest(REST);
                level
            }
            Phase::Up => {
                if throughput > best / AS_GOOD {
                    self.best = Some((limit, throughput));
                    return limit * STEP;
                }
                self.phase = Phase::Down;
                level
            }
            Phase::Rest(0) => {
                // What was best may be long ago: contexts grow, and others come and go.
                self.best = Some((limit, throughput));
                self.phase = Phase::Up;
                limit * STEP
            }
            Phase::Rest(left) => {
                self.phase = Phase::Rest(left - 1);
                limit
            }
        }
    }
}
