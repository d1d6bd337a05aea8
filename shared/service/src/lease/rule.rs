//! When a lease is held, and what a holder does to keep it: a pure rule, with the clock and the broker's answers outside.
//!
//! The broker drops an entry [`AGE`] after it was last written. A holder counts from when it *sent* the write that was
//! accepted, so it stops believing in its lease before anybody else can take it: no two processes believe at one time, as
//! long as their clocks run at the same rate. A process that was suspended believes nothing when it wakes up.

use std::time::Duration;

use tidemill_streams::buckets;
use tokio::time::Instant;

/// A third of the bucket's age, so that two renewals may be lost.
pub const RENEW_EVERY: Duration = Duration::from_secs(3);

/// How long an entry lives that is not written again.
pub const AGE: Duration = match buckets::LEASES.max_age {
    Some(age) => age,
    None => Duration::ZERO,
};

/// A lease that was taken.
#[derive(Debug, Clone)]
pub struct Lease {
    revision: u64,
    /// When the last write that was accepted was sent.
    written: Instant,
}

/// What became of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The entry was written, with this revision.
    Written(u64),
    /// The broker did not answer, and what is in the entry is not known.
    Away,
    /// The write was refused, or not answered, and the entry is ours all the same, with this revision: only the answer to
    /// an earlier write was lost.
    Ours(u64),
    /// The write was refused, and the entry is somebody else's or gone.
    NotOurs,
}

impl Lease {
    /// A lease whose entry was created by a write that was sent at `sent`.
    #[must_use]
    pub const fn taken(revision: u64, sent: Instant) -> Self {
        Self {
            revision,
            written: sent,
        }
    }

    /// The revision that the entry must have for a renewal or a return.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Until when the lease is certain to be held.
    #[must_use]
    pub fn until(&self) -> Instant {
        self.written + AGE
    }

    /// Nobody else can hold it.
    #[must_use]
    pub fn is_certain(&self, now: Instant) -> bool {
        now < self.until()
    }

    /// Notes the answer to a renewal that was sent at `sent`. False when the lease is lost for good.
    pub fn note(&mut self, answer: Answer, sent: Instant, now: Instant) -> bool {
        match answer {
            Answer::Written(revision) => {
                self.revision = revision;
                self.written = sent;
            }
            // It may have been written long before this renewal: only the revision is news.
            Answer::Ours(revision) => self.revision = revision,
            Answer::Away => {}
            Answer::NotOurs => return false,
        }
        self.is_certain(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(begin: Instant, seconds: u64) -> Instant {
        begin + Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_is_certain_for_its_age_after_the_write_was_sent() {
        let begin = Instant::now();
        let mut lease = Lease::taken(1, begin);
        assert!(lease.is_certain(after(begin, 9)));
        assert!(!lease.is_certain(after(begin, 10)));
        assert!(lease.note(Answer::Written(2), after(begin, 3), after(begin, 8)));
        assert_eq!((lease.revision(), lease.until()), (2, after(begin, 13)));
    }

    #[test]
    fn a_broker_that_is_away_is_borne_as_long_as_the_lease_is_certain() {
        let begin = Instant::now();
        let mut lease = Lease::taken(1, begin);
        assert!(lease.note(Answer::Away, after(begin, 3), after(begin, 9)));
        assert!(!lease.note(Answer::Away, after(begin, 6), after(begin, 10)));
    }

    #[test]
    fn a_lost_answer_costs_no_lease_and_prolongs_none() {
        let begin = Instant::now();
        let mut lease = Lease::taken(1, begin);
        assert!(lease.note(Answer::Ours(7), after(begin, 6), after(begin, 6)));
        assert_eq!((lease.revision(), lease.until()), (7, after(begin, 10)));
        assert!(!lease.note(Answer::NotOurs, after(begin, 6), after(begin, 6)));
    }
}
