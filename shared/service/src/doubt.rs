//! What a worker does about a broker that was silent: it repeats acknowledgements, and looks for another way in.
//!
//! An acknowledgement is not answered. One that was sent while the consumer had no leader is lost, and its message keeps a
//! place among the unacknowledged ones until `ack_wait` is over: a group whose places are all taken so would stand still.
//! So acknowledgements are kept for that time, and those that were sent before or during the silence are sent again at the
//! first sign of life. The broker takes a second one for what it is.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Trouble after which the consumer is made anew, in case the broker has forgotten it.
const NEW_CONSUMER: Duration = Duration::from_secs(10);

/// Trouble after which the connection is: the server at its other end may have lost all others.
const NEW_CONNECTION: Duration = Duration::from_secs(30);

/// What may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Making the consumer anew.
    Consumer,
    /// Connecting anew, perhaps to another server.
    Connection,
}

/// Acknowledgements that may not have arrived, and since when that is to be feared.
#[derive(Debug)]
pub(crate) struct Doubt<A> {
    sent: VecDeque<(Instant, A)>,
    most: usize,
    keep: Duration,
    since: Option<Instant>,
    tried: Option<Instant>,
}

impl<A: Clone> Doubt<A> {
    /// Keeps at most the last `most` acknowledgements, for `keep`: later the broker delivers their messages again anyway.
    pub(crate) const fn new(most: usize, keep: Duration) -> Self {
        Self {
            sent: VecDeque::new(),
            most,
            keep,
            since: None,
            tried: None,
        }
    }

    /// Keeps another number from now on.
    pub(crate) const fn keep_at_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Takes note of an acknowledgement that was sent.
    pub(crate) fn acknowledged(&mut self, acknowledgement: A) {
        while self.sent.len() >= self.most || self.sent.front().is_some_and(|(at, _)| at.elapsed() > self.keep) {
            self.sent.pop_front();
        }
        self.sent.push_back((Instant::now(), acknowledgement));
    }

    /// A pull failed or was not answered, or the connection was lost. Returns what to try when that has gone on for long.
    pub(crate) fn trouble(&mut self) -> Option<Remedy> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.tried.unwrap_or(since).elapsed() < NEW_CONSUMER {
            return None;
        }
        self.tried = Some(Instant::now());
        if since.elapsed() < NEW_CONNECTION {
            return Some(Remedy::Consumer);
        }
        self.since = self.tried;
        Some(Remedy::Connection)
    }

    /// The broker gave an answer. Returns what to acknowledge again, in the order of the first time.
    pub(crate) fn answered(&mut self) -> Vec<A> {
        self.tried = None;
        if self.since.take().is_none() {
            return Vec::new();
        }
        let young = self.sent.iter().filter(|(at, _)| at.elapsed() <= self.keep);
        young.map(|(_, acknowledgement)| acknowledgement.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const KEEP: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn what_was_acknowledged_around_the_silence_is_acknowledged_again_once() {
        let mut doubt = Doubt::new(3, KEEP);
        doubt.acknowledged(1);
        assert!(doubt.answered().is_empty(), "nothing was in doubt");
        advance(KEEP).await;
        doubt.acknowledged(2);
        advance(Duration::from_secs(1)).await;
        assert_eq!(doubt.trouble(), None);
        doubt.acknowledged(3);
        assert_eq!(
            doubt.answered(),
            [2, 3],
            "the first one's message was delivered again by now"
        );
        assert!(doubt.answered().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_kept_than_asked_for() {
        let mut doubt = Doubt::new(3, KEEP);
        doubt.trouble();
        (0..10).for_each(|number| doubt.acknowledged(number));
        assert_eq!(doubt.answered(), [7, 8, 9]);
    }

    #[tokio::test(start_paused = true)]
    async fn long_trouble_asks_for_a_new_consumer_and_then_for_a_new_connection() {
        let mut doubt = Doubt::<u8>::new(3, KEEP);
        let mut remedies = Vec::new();
        for second in 0..=65 {
            remedies.extend(doubt.trouble().map(|remedy| (second, remedy)));
            advance(Duration::from_secs(1)).await;
        }
        use Remedy::{Connection, Consumer};
        assert_eq!(
            remedies,
            [
                (10, Consumer),
                (20, Consumer),
                (30, Connection),
                (40, Consumer),
                (50, Consumer),
                (60, Connection)
            ]
        );
        doubt.answered();
        assert_eq!(doubt.trouble(), None, "an answer ends it");
    }
}
