//! A server that sends everything away, whatever it is sent, told apart from one that is full.
//!
//! What is sent between two holds is a batch. Where all of it is turned away, the server takes nothing, and the level is not the
//! reason: it is asked by one request at a time, beside what it still works on, and the first that begins brings the level
//! before back. Where some of it is turned away, batch after batch, the server is full.

use std::time::Duration;

use tokio::time::Instant;

use super::ceiling::{SHORTEST_HOLD, SOON};

/// The longest pause between two requests to a server that takes nothing and does not say how long.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Batches of which a server that asks for time alone turns some away, one soon after the other, before it counts as full: one
/// may straddle the end of an outage.
const FULL: u32 = 2;

/// Episodes in a row, and what was sent between them.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// When the last episode began.
    began: Option<Instant>,
    /// The level before the first of them.
    level: f64,
    /// Episodes since something that was sent after one of them was accepted.
    episodes: u32,
    /// Requests sent since the hold before ended, and those of them that were turned away.
    sent: u32,
    refused: u32,
    /// A hold began, and nothing has been sent since.
    is_held: bool,
    /// The level is as low as what is in flight until it is known what the server takes.
    is_lowered: bool,
    /// Batches of which some were turned away, each soon after the one before.
    full: u32,
    /// No cut for being full goes below: a share of requests may be turned away at any level.
    least: Option<f64>,
}

/// What follows from a request that was accepted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Accepted {
    /// Nothing.
    Nothing,
    /// The server takes requests again: the level before counts.
    Reopened(f64),
    /// The server is full: it is sent no more than it took, and not less than this.
    Full(f64),
}

impl Closed {
    /// A request is sent: no hold is on.
    pub(super) const fn sent(&mut self) {
        if self.is_held {
            self.is_held = false;
            self.sent = 0;
        }
        self.sent = self.sent.saturating_add(1);
    }

    /// Another episode begins, at a level; the hold of the one before ended at a time.
    pub(super) fn begin(&mut self, level: f64, ended: Option<Instant>, now: Instant) {
        self.judge_batch();
        let is_soon = ended.is_some_and(|ended| now.duration_since(ended) < SOON);
        if !is_soon {
            self.full = 0;
            self.least = None;
        }
        if self.episodes == 0 {
            self.level = level;
        }
        self.began = Some(now);
        self.episodes += 1;
        self.refused = 0;
        self.is_lowered = is_soon;
        self.is_held = true;
    }

    /// A request of the batch was turned away.
    pub(super) const fn refused(&mut self) {
        self.refused = self.refused.saturating_add(1);
    }

    /// Nothing of what was sent between the last two episodes was accepted.
    pub(super) const fn takes_nothing(&self) -> bool {
        self.episodes > 1 && self.refused >= self.sent
    }

    /// It is not known what the server takes: no look at it is a reason for another level.
    pub(super) const fn is_open_question(&self) -> bool {
        self.is_lowered || self.takes_nothing()
    }

    /// The level where the server asks for time alone and has so many requests in flight, the one included that it turned away:
    /// what it took, and one to ask with where it takes nothing. `None` while nothing is known.
    pub(super) fn lowered(&self, in_flight: u32) -> Option<f64> {
        let to_ask_with = u32::from(self.takes_nothing());
        self.is_open_question()
            .then(|| f64::from(in_flight.saturating_sub(1) + to_ask_with))
    }

    /// How long a server is left alone that does not say: longer each time, but no longer than it has been away for.
    pub(super) fn pause(&self) -> Option<Duration> {
        let doublings = self.episodes.saturating_sub(2).min(10);
        (self.episodes > 1).then(|| (SHORTEST_HOLD * (1 << doublings)).min(LONGEST_PAUSE))
    }

    /// What was sent before an episode does not show that the server takes anything. True where the server takes nothing, so that
    /// the place of what has ended is not to be filled.
    pub(super) fn keeps_free(&self, sent: Instant) -> bool {
        self.takes_nothing() && self.began.is_some_and(|began| sent < began)
    }

    /// What was sent at a time has begun, or was answered.
    pub(super) fn accepted(&mut self, sent: Instant) -> Accepted {
        if self.began.is_none_or(|began| sent < began) {
            return Accepted::Nothing;
        }
        let took_nothing = self.takes_nothing();
        let was_lowered = self.is_lowered;
        self.judge_batch();
        let level = self.level;
        (self.began, self.episodes, self.refused, self.is_lowered) = (None, 0, 0, false);
        match () {
            () if took_nothing => Accepted::Reopened(level),
            () if was_lowered && self.full >= FULL => Accepted::Full(self.least.unwrap_or(0.0)),
            () if was_lowered => Accepted::Reopened(level),
            () => Accepted::Nothing,
        }
    }

    /// The server was cut for being full, to a level.
    pub(super) fn cut(&mut self, level: f64) {
        self.least.get_or_insert(level / 2.0);
    }

    /// A server that asks for fewer says itself that it is full.
    pub(super) const fn says_full(&mut self) {
        self.is_lowered = false;
    }

    fn judge_batch(&mut self) {
        if self.is_lowered && !self.takes_nothing() {
            self.full += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_inference::Load;

    use crate::controller::{Controller, Event, Sample};

    /// Sends as many as the level is, and has all of them turned away.
    fn refuse(controller: &mut Controller, pause: Option<Duration>, now: Instant) -> u32 {
        let level = controller.limit();
        refuse_some(controller, level, pause, now)
    }

    /// Sends as many as the level is, and has so many of them turned away.
    fn refuse_some(controller: &mut Controller, refused: u32, pause: Option<Duration>, now: Instant) -> u32 {
        let level = controller.limit();
        for _ in 0..level {
            controller.observe(Event::Sent, now);
        }
        for in_flight in (level - refused + 1..=level).rev() {
            let event = Event::TurnedAway {
                overloaded: pause.is_some(),
                pause,
                in_flight,
            };
            controller.observe(event, now);
        }
        controller.limit()
    }

    fn answer(controller: &mut Controller, sent: Instant, now: Instant) -> u32 {
        let event = Event::Answered {
            tokens: 100,
            sent,
            first_token: None,
        };
        controller.observe(event, now)
    }

    fn idle() -> Sample {
        Sample {
            load: Load {
                running: Some(0),
                waiting: Some(0),
                ..Load::default()
            },
            in_flight: 1,
            work: 0,
        }
    }

    #[test]
    fn a_server_that_takes_nothing_is_asked_by_one_request_and_finds_its_level_again_at_once() {
        let second = Duration::from_secs(1);
        for pause in [Some(second), None] {
            let mut now = Instant::now();
            let mut controller = Controller::new(1_024, 7);
            controller.fix(200);
            let first = refuse(&mut controller, pause, now);
            assert!(first >= 99, "one episode is one cut: {first}");
            for _ in 0..15 {
                now = controller.held_until(now).map_or(now, |until| until) + Duration::from_millis(1);
                assert_eq!(refuse(&mut controller, pause, now), 1);
                let due = controller.held_until(now).map_or(now, |until| until) + Duration::from_millis(1);
                assert_eq!(
                    controller.observe(Event::Sampled(idle()), due),
                    1,
                    "an idle engine is no sign"
                );
            }
            if pause.is_none() {
                let held = controller.held_until(now).map(|until| until - now);
                assert!(held >= Some(LONGEST_PAUSE), "it is asked less and less often: {held:?}");
            }
            // What was sent before says nothing of now.
            assert_eq!(answer(&mut controller, now.checked_sub(second * 60).unwrap(), now), 1);
            now = controller.held_until(now).map_or(now, |until| until);
            assert!(answer(&mut controller, now, now + second) >= 200);
        }
    }

    #[test]
    fn a_server_that_takes_some_is_still_cut_an_episode_at_a_time() {
        let mut now = Instant::now();
        let mut controller = Controller::new(1_024, 7);
        controller.fix(200);
        let mut before = 200;
        for _ in 0..3 {
            let limit = refuse_some(&mut controller, 5, Some(Duration::from_secs(1)), now);
            assert!(limit < before && limit > 40, "{limit}");
            now = controller.held_until(now).map_or(now, |until| until) + Duration::from_millis(1);
            before = answer(&mut controller, now, now);
            now += Duration::from_millis(1);
        }
    }
}
