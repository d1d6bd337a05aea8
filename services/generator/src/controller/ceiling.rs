//! Levels that were too high, and episodes in which a server sends requests away.

use std::time::Duration;

use tokio::time::Instant;

/// Pauses after a server said that it is busy: the shortest, and the longest that it may ask for.
pub(crate) const SHORTEST_HOLD: Duration = Duration::from_millis(250);
pub(crate) const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// The longest that a level counts as too high before it is tried again.
const LONGEST_CEILING: Duration = Duration::from_secs(30 * 60);

/// What the level that was too high grows by in a second, once it is tried again.
const PROBE: f64 = 0.01;

/// How much below what was accepted a server is left after it turned requests away.
const BELOW_ACCEPTED: f64 = 0.97;

/// An episode that follows another so soon means that the cut was too small.
const SOON: Duration = Duration::from_secs(5);

/// A level that showed to be too high.
#[derive(Debug, Default)]
pub(super) struct Ceiling {
    level: Option<f64>,
    until: Option<Instant>,
    /// How long the next one holds at least.
    patience: Duration,
}

impl Ceiling {
    /// More than `level` was too much. It holds for `time`, and longer each time that it is found again.
    pub(super) fn hold(&mut self, level: f64, time: Duration, now: Instant) {
        let patience = self.patience.max(time).min(LONGEST_CEILING);
        self.level = Some(level);
        self.until = Some(now + patience);
        self.patience = (patience * 2).min(time * 6);
    }

    /// The most that is tried, where something is known.
    pub(super) fn level(&self, _now: Instant) -> Option<f64> {
        self.level
    }

    /// Lets time pass: once a ceiling has held for long enough, it rises slowly.
    pub(super) fn passed(&mut self, time: Duration, now: Instant) {
        if self.until.is_some_and(|until| until > now) {
            return;
        }
        if let Some(level) = &mut self.level {
            *level += (*level * PROBE).max(0.5) * time.as_secs_f64();
        }
    }
}

/// The present or last episode in which a server sent requests away.
#[derive(Debug)]
pub(super) struct Episode {
    held_until: Option<Instant>,
    /// In flight when it began, and the fewest that were while it sent some away.
    began: u32,
    accepted: u32,
    is_on: bool,
    pause: Duration,
    /// Was cut once.
    is_cut: bool,
    random: u64,
}

impl Episode {
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            held_until: None,
            began: 0,
            accepted: 0,
            is_on: false,
            pause: Duration::ZERO,
            is_cut: false,
            random: seed | 1,
        }
    }

    pub(super) fn held_until(&self, now: Instant) -> Option<Instant> {
        self.held_until.filter(|until| *until > now)
    }

    /// How long a level is avoided at which requests were turned away: an episode must stay dear and rare.
    pub(super) fn keeps_away(&self) -> Duration {
        (self.pause * 40).clamp(Duration::from_secs(60), LONGEST_CEILING)
    }

    /// The hold has ended: what is turned away from now on is another episode.
    pub(super) const fn is_over(&mut self) {
        self.is_on = false;
    }

    /// A request was turned away. All that were in flight may be, at once: that is one episode, with one cut. Returns the level
    /// that follows from what is known of it by now; a server that asks for time alone is not sent less.
    pub(super) fn turned_away(
        &mut self,
        overloaded: bool,
        pause: Option<Duration>,
        in_flight: u32,
        now: Instant,
    ) -> Option<f64> {
        let is_new = self.held_until(now).is_none();
        if is_new {
            let is_soon = self.held_until.is_some_and(|until| now.duration_since(until) < SOON);
            self.is_on = true;
            self.is_cut = is_soon && self.is_cut;
            self.began = in_flight;
            self.accepted = in_flight;
            self.pause = Duration::ZERO;
        }
        let pause = pause.unwrap_or(SHORTEST_HOLD).clamp(SHORTEST_HOLD, LONGEST_HOLD);
        if is_new || pause > self.pause {
            self.pause = pause;
            let until = now + pause + self.jitter(pause);
            self.held_until = Some(self.held_until.map_or(until, |held| held.max(until)));
        }
        if !overloaded {
            return None;
        }
        self.accepted = self.accepted.min(in_flight.saturating_sub(1));
        let most = if self.is_cut && is_new {
            f64::from(self.began) * 0.75
        } else {
            f64::from(self.began) - 1.0
        };
        self.is_cut = true;
        let least = f64::from(self.began) / 2.0;
        Some(
            (f64::from(self.accepted) * BELOW_ACCEPTED)
                .clamp(least.min(most), most.max(least))
                .max(1.0),
        )
    }

    /// Keeps generators apart that were told the same time.
    fn jitter(&mut self, pause: Duration) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let share = (self.random >> 40) as f64 / (1_u64 << 24) as f64;
        (pause.mul_f64(0.1) + Duration::from_millis(50))
            .min(Duration::from_secs(1))
            .mul_f64(share)
    }
}
