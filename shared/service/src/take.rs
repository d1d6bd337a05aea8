//! Pulling exactly as many messages as there are free slots.
//!
//! A pull is sent for free slots only, so a message that arrives always has one and none waits in a busy process while
//! another is idle. Small pulls cost the broker ten times more a message, so slots are gathered for a moment first.

use std::pin::Pin;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::Batch;
use futures::stream::{self, SelectAll};
use futures::{FutureExt as _, Stream, StreamExt as _};
use tokio::time::{Instant, timeout_at};

/// How long a pull stays open at the broker, which then says that it has expired.
const PULL_EXPIRES: Duration = Duration::from_secs(2);

/// How late it may say so. A pull without a word until then was forgotten, by a server that died or lost the others.
const LATE: Duration = Duration::from_secs(1);

/// Slots that make a pull worth while at once, as a share of all.
const EAGER_SHARE: usize = 8;

/// Most messages of one pull.
const MAX_PULL: usize = 512;

pub(crate) enum Pulled {
    Message(Box<Message>),
    /// The broker has ended a pull.
    Ended,
    /// The broker has refused one.
    Failed(String),
    /// The broker has forgotten one.
    Silent,
}

/// What a pull brings, with the connection it was sent on.
enum Event {
    Message(Box<Message>),
    /// It ended with so many messages not delivered.
    Ended(usize),
    /// It was refused, likewise.
    Failed(usize, String),
    /// It was not ended in time, likewise.
    Silent(usize),
}

/// In place of the connection of a pull that nothing counts on.
const NO_CONNECTION: u64 = u64::MAX;

type Pull = Pin<Box<dyn Stream<Item = (u64, Event)> + Send>>;

/// The open pulls of one consumer.
pub(crate) struct Take {
    consumer: PullConsumer,
    slots: usize,
    pulls: SelectAll<Pull>,
    /// Slots promised to open pulls of this connection.
    promised: usize,
    connection: u64,
}

impl Take {
    pub(crate) fn new(consumer: PullConsumer, slots: usize) -> Self {
        Self {
            consumer,
            slots,
            pulls: SelectAll::new(),
            promised: 0,
            connection: 0,
        }
    }

    /// Fills so many slots from now on.
    pub(crate) const fn set_slots(&mut self, slots: usize) {
        self.slots = slots;
    }

    /// Slots neither in use nor promised.
    pub(crate) const fn free(&self, in_flight: usize) -> usize {
        self.slots.saturating_sub(in_flight + self.promised)
    }

    /// Enough slots are free that a pull should be sent without waiting for more.
    pub(crate) fn is_eager(&self, in_flight: usize) -> bool {
        self.free(in_flight) >= (self.slots / EAGER_SHARE).clamp(1, 64)
    }

    /// Sends a pull for the free slots.
    pub(crate) async fn pull(&mut self, in_flight: usize) -> Result<(), String> {
        let wanted = self.free(in_flight).min(MAX_PULL);
        if wanted == 0 {
            return Ok(());
        }
        let batch = self
            .consumer
            .batch()
            .max_messages(wanted)
            .expires(PULL_EXPIRES)
            .messages()
            .await;
        let batch = batch.map_err(|error| error.to_string())?;
        self.promised += wanted;
        self.pulls.push(Box::pin(pulled(batch, wanted, self.connection)));
        Ok(())
    }

    /// The next message or end of a pull; waits for ever while no pull is open.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Pulled {
        loop {
            let Some((connection, event)) = self.pulls.next().await else {
                return std::future::pending().await;
            };
            let counts = connection == self.connection;
            let (left, pulled) = match event {
                Event::Message(message) => (1, Pulled::Message(message)),
                Event::Ended(left) => (left, Pulled::Ended),
                Event::Failed(left, reason) => (left, Pulled::Failed(reason)),
                // It went with its connection.
                Event::Silent(_) if !counts => continue,
                Event::Silent(left) => (left, Pulled::Silent),
            };
            self.promised -= if counts { left.min(self.promised) } else { 0 };
            return pulled;
        }
    }

    /// Counts on no open pull any more, after the connection was lost: the broker may have forgotten them. What they still
    /// bring is taken, since the broker counts it as delivered.
    pub(crate) const fn distrust(&mut self) {
        self.connection += 1;
        self.promised = 0;
    }

    /// Ends all open pulls and returns the messages that had arrived and were not taken.
    pub(crate) fn close(&mut self) -> Vec<Message> {
        let mut arrived = Vec::new();
        while let Some(Some((_, event))) = self.pulls.next().now_or_never() {
            if let Event::Message(message) = event {
                arrived.push(*message);
            }
        }
        self.pulls.clear();
        self.promised = 0;
        arrived
    }
}

/// What a pull brings. After its silence, messages that come late are still taken, for as long as the client library waits
/// (5 s), but nothing counts on them any more.
fn pulled(batch: Batch, wanted: usize, connection: u64) -> impl Stream<Item = (u64, Event)> + Send {
    let deadline = Instant::now() + PULL_EXPIRES + LATE;
    let begun = Some((Box::pin(batch), wanted, connection));
    stream::unfold(begun, move |state| async move {
        let (mut batch, left, connection) = state?;
        let is_silent = connection == NO_CONNECTION;
        let next = if is_silent {
            batch.next().await
        } else {
            match timeout_at(deadline, batch.next()).await {
                Ok(next) => next,
                Err(_) => return Some(((connection, Event::Silent(left)), Some((batch, left, NO_CONNECTION)))),
            }
        };
        match next {
            Some(Ok(message)) => {
                let left = left.saturating_sub(1);
                Some((
                    (connection, Event::Message(Box::new(message))),
                    Some((batch, left, connection)),
                ))
            }
            Some(Err(error)) => Some(((connection, Event::Failed(left, error.to_string())), None)),
            None if is_silent => None,
            None => Some(((connection, Event::Ended(left)), None)),
        }
    })
}
