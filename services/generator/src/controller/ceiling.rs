//! Levels that were too high, and episodes in which a server sends requests away.

use std::time::Duration;

use tokio::time::Instant;

/// Pauses after a server said that it is busy: the shortest, and the longest that it may ask for, which is as long as an item
/// is kept waiting for a busy server.
pub(crate) const SHORTEST_HOLD: Duration = Duration::from_millis(250);
pub(crate) const LONGEST_HOLD: Duration = Duration::from_secs(15 * 60);

/// The longest that a level counts as too high before it is tried again.
const LONGEST_CEILING: Duration = Duration::from_secs(30 * 60);

/// A level so far below the one that was too high before is found for another reason.
const ANOTHER: f64 = 0.7;

/// What the level that was too high grows by in a second, once it is tried again.
const PROBE: f64 = 0.01;

/// How much below what was accepted a server is left after it turned requests away.
pub(super) const BELOW_ACCEPTED: f64 = 0.97;

/// An episode that follows another so soon means that the cut was too small.
pub(super) const SOON: Duration = Duration::from_secs(5);

/// A level that showed to be too high.
#[derive(Debug, Default)]
pub(super) struct Ceiling {
    level: Option<f64>,
    until: Option<Instant>,
    /// How long it holds when it is found again.
    patience: Duration,
    /// It rose since it was found.
    is_probed: bool,
}

impl Ceiling {
    /// More than `level` was too much. It holds for `time`, and longer each time that trying more finds it again.
    pub(super) fn hold(&mut self, level: f64, time: Duration, now: Instant) {
        let is_another = self.level.is_none_or(|before| level < before * ANOTHER);
        if is_another {
            self.patience = time;
        } else if self.is_probed {
            self.patience = (self.patience * 2).min(time * 6);
        }
        self.patience = self.patience.max(time).min(LONGEST_CEILING);
        self.is_probed = false;
        self.level = Some(level);
        self.until = Some(now + self.patience);
    }

    /// The most that is tried, where something is known.
    pub(super) const fn level(&self) -> Option<f64> {
        self.level
    }

    /// Lets time pass, `pace` times as fast as it does: once a ceiling has held for long enough, it rises slowly.
    pub(super) fn passed(&mut self, time: Duration, pace: f64, now: Instant) {
        if let Some(until) = self.until.filter(|until| *until > now) {
            let more = time.mul_f64((pace - 1.0).max(0.0));
            self.until = until.checked_sub(more);
            return;
        }
        if let Some(level) = &mut self.level {
            *level += (*level * PROBE * pace).max(0.5) * time.as_secs_f64();
            self.is_probed = true;
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

    /// When the last hold ended, or will.
    pub(super) const fn ended(&self) -> Option<Instant> {
        self.held_until
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
