//! Pulling exactly as many messages as there are free slots.
//!
//! A pull is sent for free slots only, so a message that arrives always has one and none waits in a busy process while
//! another is idle. Small pulls cost the broker ten times more a message, so slots are gathered for a moment first.

use std::pin::Pin;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer;
use futures::stream::{self, SelectAll};
use futures::{FutureExt as _, Stream, StreamExt as _};

/// How long a pull stays open at the broker. It is also how long a pull that the broker forgot is missed.
const PULL_EXPIRES: Duration = Duration::from_secs(5);

/// Slots that make a pull worth while at once, as a share of all.
const EAGER_SHARE: usize = 8;

/// Most messages of one pull.
const MAX_PULL: usize = 512;

pub(crate) enum Pulled {
    Message(Box<Message>),
    Ended,
    Failed(String),
}

/// What a pull brings, with the connection it was sent on.
enum Event {
    Message(Box<Message>),
    /// It ended with so many messages not delivered.
    Ended(usize),
    Failed(String),
}

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
        let Some((connection, event)) = self.pulls.next().await else {
            return std::future::pending().await;
        };
        let counts = connection == self.connection;
        match event {
            Event::Message(message) => {
                self.promised -= usize::from(counts).min(self.promised);
                Pulled::Message(message)
            }
            Event::Ended(left) => {
                self.promised -= if counts { left.min(self.promised) } else { 0 };
                Pulled::Ended
            }
            Event::Failed(reason) => Pulled::Failed(reason),
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

fn pulled(
    batch: async_nats::jetstream::consumer::pull::Batch,
    wanted: usize,
    connection: u64,
) -> impl Stream<Item = (u64, Event)> + Send {
    let events = stream::unfold(Some((Box::pin(batch), wanted)), |state| async move {
        let (mut batch, left) = state?;
        match batch.next().await {
            Some(Ok(message)) => Some((Event::Message(Box::new(message)), Some((batch, left.saturating_sub(1))))),
            Some(Err(error)) => Some((Event::Failed(error.to_string()), Some((batch, left)))),
            None => Some((Event::Ended(left), None)),
        }
    });
    events.map(move |event| (connection, event))
}
