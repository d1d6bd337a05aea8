//! How many requests a judge is sent at once, and when: a pure rule over what became of earlier ones.
//!
//! A judge is often somebody else's server that says nothing of its load, so the level goes up by one for each round of
//! answers, and is halved once for each episode in which requests are turned away. A server that is away is asked by one
//! request at a time, with growing pauses, until it answers. The generator's controller fills an engine of ours to the brim
//! by its metrics; here the level needs only be good enough, and the bound is what the operator is willing to pay for.
//!
//! Source: Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in Computer Networks",
//! 1989.

use std::time::Duration;

use tokio::time::Instant;

/// The level at the start: doubling is not worth its rules where a judge takes seconds for each verdict.
const START: f64 = 4.0;

/// Faults in a row after which a server that answers so is taken to be away: one may be of its request.
const FAULTS: u32 = 3;

/// Shortest and longest pause of a server that is away or turns requests away without saying for how long.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// Longest pause that a server may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(15 * 60);

/// What an operator allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Requests at once, at least 1.
    pub(crate) at_once: u32,
    /// 0 for any number.
    pub(crate) requests_per_minute: u32,
    /// Of prompts and replies together; 0 for any number.
    pub(crate) tokens_per_hour: u64,
}

/// Whether a request may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is booked, and must be [`Pace::ended`].
    Now,
    /// Ask again then.
    At(Instant),
    /// Ask again when another one ends.
    Later,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// An answer came, of any worth, that took so many tokens.
    Answered { tokens: u64 },
    /// The server has too much to do, and may say for how long.
    TurnedAway { pause: Option<Duration> },
    /// The server is away, or would refuse everything.
    Away { pause: Option<Duration> },
    /// A fault that may be of this request alone.
    Faulty { pause: Option<Duration> },
    /// Nobody waits for it any more.
    Dropped,
}

/// Finds how many requests a judge is sent.
#[derive(Debug)]
pub(crate) struct Pace {
    bounds: Bounds,
    allowed: f64,
    in_flight: u32,
    answers: u64,
    closed_until: Option<Instant>,
    /// When the last episode began in which requests were turned away, or failed: what was sent before says nothing new.
    last_cut: Option<Instant>,
    last_failure: Option<Instant>,
    turned_away: u32,
    faults: u32,
    failures: u32,
    requests: Option<Budget>,
    tokens: Option<Budget>,
}

impl Pace {
    pub(crate) fn new(bounds: Bounds, now: Instant) -> Self {
        let per_minute = f64::from(bounds.requests_per_minute);
        let per_hour = bounds.tokens_per_hour as f64;
        Self {
            bounds,
            allowed: START.min(f64::from(bounds.at_once.max(1))),
            in_flight: 0,
            answers: 0,
            closed_until: None,
            last_cut: None,
            last_failure: None,
            turned_away: 0,
            faults: 0,
            failures: 0,
            // Ten seconds' requests, and a minute's tokens, may come at once.
            requests: (per_minute > 0.0).then(|| Budget::new(per_minute / 60.0, (per_minute / 6.0).max(1.0), now)),
            tokens: (per_hour > 0.0).then(|| Budget::new(per_hour / 3_600.0, (per_hour / 60.0).max(1.0), now)),
        }
    }

    /// The server is taken to be away.
    pub(crate) const fn is_away(&self) -> bool {
        self.failures > 0
    }

    /// Answers so far: one that comes while a request fails says that the server lives.
    pub(crate) const fn answers(&self) -> u64 {
        self.answers
    }

    /// Asks for the right to send a request.
    pub(crate) fn admit(&mut self, now: Instant) -> Admission {
        if let Some(until) = self.closed_until.filter(|until| now < *until) {
            return Admission::At(until);
        }
        let most = if self.is_away() { 1 } else { self.allowed as u32 };
        if self.in_flight >= most.max(1) {
            return Admission::Later;
        }
        let budgets = [(&mut self.requests, 1.0), (&mut self.tokens, 0.0)];
        let due = budgets
            .into_iter()
            .filter_map(|(budget, needed)| budget.as_mut()?.due(needed, now));
        if let Some(due) = due.max() {
            return Admission::At(due);
        }
        self.also_sent();
        self.in_flight += 1;
        Admission::Now
    }

    /// Notes that one more request is sent in a place that is booked.
    pub(crate) fn also_sent(&mut self) {
        if let Some(requests) = &mut self.requests {
            requests.level -= 1.0;
        }
    }

    /// Notes how a request ended that was sent then.
    pub(crate) fn ended(&mut self, ended: Ended, sent: Instant, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match ended {
            Ended::Answered { tokens } => self.answered(tokens),
            Ended::TurnedAway { pause } => self.turned_away(pause, sent, now),
            Ended::Away { pause } => self.failed(pause, sent, now),
            Ended::Faulty { pause } => {
                self.faults += 1;
                if self.faults >= FAULTS {
                    self.failed(pause, sent, now);
                } else if let Some(pause) = pause {
                    self.close(pause.min(LONGEST_ASKED), now);
                }
            }
            Ended::Dropped => {}
        }
    }

    fn answered(&mut self, tokens: u64) {
        self.answers += 1;
        self.allowed = (self.allowed + 1.0 / self.allowed).min(f64::from(self.bounds.at_once.max(1)));
        if self.is_away() {
            self.closed_until = None;
        }
        (self.failures, self.faults, self.turned_away) = (0, 0, 0);
        if let Some(budget) = &mut self.tokens {
            budget.level -= tokens as f64;
        }
    }

    fn turned_away(&mut self, pause: Option<Duration>, sent: Instant, now: Instant) {
        if self.last_cut.is_none_or(|cut| sent > cut) {
            self.last_cut = Some(now);
            self.turned_away += 1;
            self.allowed = (self.allowed / 2.0).max(1.0);
        }
        let pause = pause.map_or_else(|| growing(self.turned_away), |asked| asked.min(LONGEST_ASKED));
        self.close(pause, now);
    }

    fn failed(&mut self, pause: Option<Duration>, sent: Instant, now: Instant) {
        if self.last_failure.is_none_or(|failure| sent > failure) {
            self.last_failure = Some(now);
            self.failures += 1;
        }
        let pause = pause.map_or_else(|| growing(self.failures), |asked| asked.min(LONGEST_ASKED));
        self.close(pause, now);
    }

    fn close(&mut self, pause: Duration, now: Instant) {
        self.closed_until = self.closed_until.max(Some(now + pause));
    }
}

/// Doubles from the shortest pause up to the longest.
fn growing(times: u32) -> Duration {
    (PAUSES.0 * 2_u32.pow(times.clamp(1, 8) - 1)).min(PAUSES.1)
}

/// So much a second, of which some may be saved up.
#[derive(Debug)]
struct Budget {
    per_second: f64,
    most: f64,
    level: f64,
    at: Instant,
}

impl Budget {
    const fn new(per_second: f64, most: f64, now: Instant) -> Self {
        Self {
            per_second,
            most,
            level: most,
            at: now,
        }
    }

    /// When there is so much; `None` for now. What a reply takes is known afterwards, so a level may be below nought.
    fn due(&mut self, needed: f64, now: Instant) -> Option<Instant> {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.level = (self.level + gained).min(self.most);
        self.at = now;
        let missing = needed - self.level;
        if missing <= 0.0 {
            return None;
        }
        // Rounding must not let somebody ask again a moment too early for ever.
        Some(now + Duration::from_secs_f64(missing / self.per_second) + Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn bounds(at_once: u32) -> Bounds {
        Bounds {
            at_once,
            requests_per_minute: 0,
            tokens_per_hour: 0,
        }
    }

    fn admitted(pace: &mut Pace, now: Instant) -> u32 {
        let mut count = 0;
        while pace.admit(now) == Admission::Now {
            count += 1;
        }
        count
    }

    /// Answers all that is in flight, and fills up again.
    fn round(pace: &mut Pace, now: Instant) -> u32 {
        for _ in 0..pace.in_flight {
            pace.ended(Ended::Answered { tokens: 0 }, now, now);
        }
        admitted(pace, now)
    }

    #[test]
    fn the_level_rises_by_one_a_round_up_to_what_is_allowed() {
        let now = Instant::now();
        let mut pace = Pace::new(bounds(6), now);
        let levels: Vec<u32> = std::iter::once(admitted(&mut pace, now))
            .chain((0..12).map(|_| round(&mut pace, now)))
            .collect();
        assert_eq!(levels[0], 4);
        assert!(
            levels.is_sorted() && levels.windows(2).all(|pair| pair[1] <= pair[0] + 1),
            "{levels:?}"
        );
        assert_eq!(levels.last(), Some(&6));
        assert_eq!(admitted(&mut Pace::new(bounds(1), now), now), 1);
    }

    #[test]
    fn an_episode_of_429_halves_once_and_is_waited_for() {
        let now = Instant::now();
        let mut pace = Pace::new(bounds(8), now);
        assert_eq!(admitted(&mut pace, now), 4);
        let later = now + SECOND;
        let pause = Some(20 * SECOND);
        for _ in 0..4 {
            pace.ended(Ended::TurnedAway { pause }, now, later);
        }
        assert_eq!(pace.admit(later + 19 * SECOND), Admission::At(later + 20 * SECOND));
        assert_eq!(admitted(&mut pace, later + 20 * SECOND), 2);
        assert!(!pace.is_away());
        // Another episode, of a server that does not say how long.
        let (sent, at) = (later + 20 * SECOND, later + 30 * SECOND);
        pace.ended(Ended::TurnedAway { pause: None }, sent, at);
        assert_eq!(pace.admit(at), Admission::At(at + 2 * PAUSES.0));
        // An answer to what was sent before opens nothing.
        pace.ended(Ended::Answered { tokens: 0 }, sent, at);
        assert_eq!(pace.admit(at), Admission::At(at + 2 * PAUSES.0));
    }

    #[test]
    fn a_server_that_is_away_is_asked_by_one_request_with_growing_pauses_until_it_answers() {
        let mut now = Instant::now();
        let mut pace = Pace::new(bounds(8), now);
        assert_eq!(admitted(&mut pace, now), 4);
        for _ in 0..4 {
            pace.ended(Ended::Away { pause: None }, now, now + SECOND);
        }
        now += SECOND;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert!(pace.is_away());
            let Admission::At(due) = pace.admit(now) else {
                panic!("open")
            };
            pauses.push((due - now).as_millis());
            now = due;
            assert_eq!(admitted(&mut pace, now), 1);
            assert_eq!(pace.admit(now), Admission::Later);
            pace.ended(Ended::Away { pause: None }, now, now);
        }
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        let Admission::At(due) = pace.admit(now) else {
            panic!("open")
        };
        assert_eq!(pace.admit(due), Admission::Now);
        pace.ended(Ended::Answered { tokens: 0 }, due, due);
        assert!(!pace.is_away());
        assert_eq!(admitted(&mut pace, due), 4, "the level is what it was");
    }

    #[test]
    fn a_fault_may_be_of_its_request_and_several_in_a_row_are_of_the_server() {
        let now = Instant::now();
        let mut pace = Pace::new(bounds(8), now);
        let fault = Ended::Faulty { pause: None };
        for _ in 0..10 {
            for _ in 0..FAULTS - 1 {
                assert_eq!(pace.admit(now), Admission::Now);
                pace.ended(fault, now, now);
            }
            assert_eq!(pace.admit(now), Admission::Now);
            pace.ended(Ended::Answered { tokens: 0 }, now, now);
        }
        assert!(!pace.is_away());
        for _ in 0..FAULTS {
            assert_eq!(pace.admit(now), Admission::Now);
            pace.ended(fault, now, now);
        }
        assert!(pace.is_away());
    }

    #[test]
    fn requests_and_tokens_keep_to_their_budgets() {
        let now = Instant::now();
        let mut pace = Pace::new(
            Bounds {
                requests_per_minute: 60,
                ..bounds(1_000)
            },
            now,
        );
        let mut sent = 0;
        for tenth in 0..6_000_u32 {
            let now = now + tenth * SECOND / 10;
            while pace.admit(now) == Admission::Now {
                pace.ended(Ended::Answered { tokens: 1_000 }, now, now);
                sent += 1;
            }
        }
        assert!(
            (600..=611).contains(&sent),
            "{sent} in ten minutes, of which ten at once"
        );
        let mut pace = Pace::new(
            Bounds {
                tokens_per_hour: 3_600,
                ..bounds(1_000)
            },
            now,
        );
        assert_eq!(pace.admit(now), Admission::Now);
        pace.ended(Ended::Answered { tokens: 160 }, now, now);
        let Admission::At(due) = pace.admit(now) else {
            panic!("within the budget")
        };
        assert_eq!((due - now).as_secs(), 100, "60 were there, 1 comes a second");
        assert_eq!(pace.admit(due), Admission::Now);
    }

    #[test]
    fn what_nobody_waits_for_leaves_its_place() {
        let now = Instant::now();
        let mut pace = Pace::new(bounds(1), now);
        assert_eq!(pace.admit(now), Admission::Now);
        assert_eq!(pace.admit(now), Admission::Later);
        pace.ended(Ended::Dropped, now, now);
        assert_eq!(pace.admit(now), Admission::Now);
    }
}
