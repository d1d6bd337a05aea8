//! A server that sends everything away, whatever it is sent.

use std::time::Duration;

use tokio::time::Instant;

use super::ceiling::SHORTEST_HOLD;

/// The longest pause between two requests to a server that takes nothing and does not say how long.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Episodes in a row in which nothing was accepted.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// When the last episode began.
    began: Option<Instant>,
    /// The level before the first of them.
    level: f64,
    /// Episodes since something that was sent after the first of them was answered.
    episodes: u32,
}

impl Closed {
    /// Another episode begins, at a level.
    pub(super) fn begin(&mut self, level: f64, now: Instant) {
        if self.episodes == 0 {
            self.level = level;
        }
        self.began = Some(now);
        self.episodes += 1;
    }

    /// Nothing was accepted between the last two episodes.
    pub(super) const fn takes_nothing(&self) -> bool {
        self.episodes > 1
    }

    /// How long a server is left alone that does not say: longer each time.
    pub(super) fn pause(&self) -> Option<Duration> {
        let doublings = self.episodes.saturating_sub(1).min(10);
        self.takes_nothing()
            .then(|| (SHORTEST_HOLD * (1 << doublings)).min(LONGEST_PAUSE))
    }

    /// What was sent at a time was answered. The level before, where the server had taken nothing until now.
    pub(super) fn answered(&mut self, sent: Instant) -> Option<f64> {
        if self.began.is_none_or(|began| sent < began) {
            return None;
        }
        let reopened = self.takes_nothing().then_some(self.level);
        *self = Self::default();
        reopened
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_inference::Load;

    use crate::controller::{Controller, Event, Sample};

    fn refuse(controller: &mut Controller, pause: Option<Duration>, now: Instant) -> u32 {
        let in_flight = controller.limit();
        let event = Event::TurnedAway {
            overloaded: pause.is_some(),
            pause,
            in_flight,
        };
        controller.observe(event, now)
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
            let limit = refuse(&mut controller, Some(Duration::from_secs(1)), now);
            assert!(limit < before && limit > 40, "{limit}");
            now = controller.held_until(now).map_or(now, |until| until) + Duration::from_millis(1);
            before = answer(&mut controller, now, now);
            now += Duration::from_millis(1);
        }
    }
}
