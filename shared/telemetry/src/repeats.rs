//! Warnings that come once for each of thousands of items: the first of a kind are logged in full, the others are counted, and
//! a line at intervals says how many there were. What became of each item is in its record, never in the log alone.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Warnings of a kind that are logged in full before the rest are counted.
const IN_FULL: u32 = 5;

/// Between two lines that say how many there were. A kind is new again once so long passed without any.
const INTERVAL: Duration = Duration::from_secs(10);

/// Kinds that are told apart; beyond them one is taken for another of the same message.
const MOST_KINDS: usize = 1_024;

/// Letters of a reason by which it is told apart from others.
const REASON_LETTERS: usize = 48;

/// Letters of a reason that are kept to be said with a count.
const SAID_LETTERS: usize = 300;

/// A kind of warning with what it is about.
#[derive(Debug, Clone, Copy)]
pub struct Warning<'a> {
    /// What is logged, without what differs from item to item.
    pub message: &'static str,
    /// Whose it is: an evaluation, a replica, a group.
    pub scope: &'a str,
    /// Why. Reasons that differ in numbers alone are of one kind.
    pub reason: &'a str,
}

/// Whether a warning is to be logged in full. One that is not is counted, and said with the others of its kind within 10 s.
#[must_use]
pub fn is_said(warning: Warning<'_>) -> bool {
    let noted = lock().note(warning, Instant::now());
    if noted == Noted::First {
        // It says what is counted from here on, also when nothing more comes; without it the next warning would.
        let summary = std::thread::Builder::new().name("warnings".to_owned());
        drop(summary.spawn(say_all_in_time));
    }
    noted == Noted::InFull
}

/// Says at once what was counted so far, as before a process ends.
pub fn say_rest() {
    let due = lock().due(None);
    due.iter().for_each(Summary::say);
}

/// Until nothing is counted any more.
fn say_all_in_time() {
    loop {
        std::thread::sleep(INTERVAL);
        let (due, is_over) = {
            let mut repeats = lock();
            (repeats.due(Some(Instant::now())), repeats.ends_watch())
        };
        due.iter().for_each(Summary::say);
        if is_over {
            return;
        }
    }
}

static REPEATS: LazyLock<Mutex<Repeats>> = LazyLock::new(Mutex::default);

fn lock() -> std::sync::MutexGuard<'static, Repeats> {
    REPEATS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was logged and counted: a pure rule.
#[derive(Debug, Default)]
struct Repeats {
    kinds: HashMap<Kind, Seen>,
    /// Somebody says what is counted.
    is_watched: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    message: &'static str,
    scope: String,
    reason: String,
}

#[derive(Debug)]
struct Seen {
    in_full: u32,
    /// Counted since the last line about them.
    more: u64,
    /// The reason of the first of those, as it was given.
    reason: String,
    /// Since when they are counted.
    since: Instant,
    last: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Noted {
    InFull,
    Counted,
    /// Counted, and nobody says so yet.
    First,
}

/// How many warnings of a kind there were.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Summary {
    message: &'static str,
    scope: String,
    /// One of theirs.
    reason: String,
    more: u64,
    seconds: u64,
}

impl Repeats {
    fn note(&mut self, warning: Warning<'_>, now: Instant) -> Noted {
        let mut kind = Kind::of(warning);
        if self.kinds.len() >= MOST_KINDS && !self.kinds.contains_key(&kind) {
            self.forget_quiet(now);
            if self.kinds.len() >= MOST_KINDS {
                (kind.scope, kind.reason) = ("several".to_owned(), String::new());
            }
        }
        let seen = self.kinds.entry(kind).or_insert(Seen {
            in_full: 0,
            more: 0,
            reason: String::new(),
            since: now,
            last: now,
        });
        if seen.more == 0 && now.duration_since(seen.last) >= INTERVAL {
            seen.in_full = 0;
        }
        seen.last = now;
        if seen.in_full < IN_FULL {
            seen.in_full += 1;
            return Noted::InFull;
        }
        if seen.more == 0 {
            seen.since = now;
            seen.reason = warning.reason.chars().take(SAID_LETTERS).collect();
        }
        seen.more += 1;
        if std::mem::replace(&mut self.is_watched, true) {
            Noted::Counted
        } else {
            Noted::First
        }
    }

    /// What is to be said: of what was counted for an interval, or all of it. Kinds of which nothing comes any more are forgotten.
    fn due(&mut self, now: Option<Instant>) -> Vec<Summary> {
        let mut due = Vec::new();
        for (kind, seen) in &mut self.kinds {
            let is_due = now.is_none_or(|now| now.duration_since(seen.since) >= INTERVAL);
            if seen.more > 0 && is_due {
                let until = now.unwrap_or(seen.last);
                due.push(Summary {
                    message: kind.message,
                    scope: kind.scope.clone(),
                    reason: std::mem::take(&mut seen.reason),
                    more: std::mem::take(&mut seen.more),
                    seconds: until.duration_since(seen.since).as_secs_f64().ceil() as u64,
                });
            }
        }
        if let Some(now) = now {
            self.forget_quiet(now);
        }
        due
    }

    fn forget_quiet(&mut self, now: Instant) {
        self.kinds
            .retain(|_, seen| seen.more > 0 || now.duration_since(seen.last) < INTERVAL);
    }

    /// Whether nothing is left to be said. The next that is counted wants somebody new to say it.
    fn ends_watch(&mut self) -> bool {
        self.is_watched = self.kinds.values().any(|seen| seen.more > 0);
        !self.is_watched
    }
}

impl Kind {
    fn of(warning: Warning<'_>) -> Self {
        let letters = warning.reason.chars().filter(|letter| !letter.is_ascii_digit());
        Self {
            message: warning.message,
            scope: warning.scope.to_owned(),
            reason: letters.take(REASON_LETTERS).collect(),
        }
    }
}

impl Summary {
    fn say(&self) {
        let Self {
            message,
            scope,
            reason,
            more,
            seconds,
        } = self;
        tracing::warn!(scope, reason, "{message}: and {more} more in {seconds} s");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn warning<'a>(scope: &'a str, reason: &'a str) -> Warning<'a> {
        Warning {
            message: "no answer",
            scope,
            reason,
        }
    }

    #[test]
    fn the_first_of_a_kind_are_said_in_full_and_the_rest_as_a_count_at_intervals() {
        let (mut repeats, begun) = (Repeats::default(), Instant::now());
        let mut noted = |item: u32, at| {
            let reason = format!("request {item} got status 500");
            repeats.note(warning("e1", &reason), at)
        };
        for item in 0..IN_FULL {
            assert_eq!(noted(item, begun), Noted::InFull);
        }
        assert_eq!(noted(98, begun), Noted::First, "somebody is to say it");
        for item in 0..411 {
            assert_eq!(noted(item, begun + SECOND * (item / 42)), Noted::Counted);
        }
        assert!(repeats.due(Some(begun + SECOND * 9)).is_empty(), "not yet");
        let due = repeats.due(Some(begun + INTERVAL));
        assert_eq!((due.len(), due[0].more, due[0].seconds), (1, 412, 10));
        assert_eq!(due[0].reason, "request 98 got status 500", "numbers stay");
        assert!(repeats.ends_watch() && repeats.due(None).is_empty(), "said once");
        // It goes on: counted from its first, and somebody has to say it again.
        let again = begun + SECOND * 12;
        assert_eq!(
            repeats.note(warning("e1", "request 7 got status 502"), again),
            Noted::First
        );
        assert_eq!(repeats.due(None)[0].more, 1, "also before the process ends");
        // Silence for an interval makes the kind new.
        let later = again + INTERVAL;
        assert_eq!(
            repeats.note(warning("e1", "request 8 got status 500"), later),
            Noted::InFull
        );
    }

    #[test]
    fn another_evaluation_reason_or_message_is_another_kind() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        for _ in 0..100 {
            repeats.note(warning("e1", "timed out"), now);
        }
        assert_eq!(repeats.note(warning("e2", "timed out"), now), Noted::InFull);
        assert_eq!(repeats.note(warning("e1", "refused"), now), Noted::InFull);
        let other = Warning {
            message: "tried again",
            ..warning("e1", "timed out")
        };
        assert_eq!(repeats.note(other, now), Noted::InFull);
    }

    #[test]
    fn kinds_are_bounded_and_forgotten() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        for scope in 0..10 * MOST_KINDS {
            repeats.note(warning(&scope.to_string(), "timed out"), now);
        }
        assert!(repeats.kinds.len() <= MOST_KINDS + 1);
        let counted: u64 = repeats
            .due(Some(now + INTERVAL))
            .iter()
            .map(|summary| summary.more)
            .sum();
        assert_eq!(counted, 9 * MOST_KINDS as u64 - u64::from(IN_FULL), "none is lost");
        assert!(repeats.kinds.is_empty());
        // Also where nothing was ever counted.
        (0..MOST_KINDS)
            .for_each(|scope| assert_eq!(repeats.note(warning(&scope.to_string(), "x"), now), Noted::InFull));
        assert_eq!(repeats.note(warning("new", "x"), now + INTERVAL), Noted::InFull);
        assert_eq!(repeats.kinds.len(), 1);
    }
}
