//! Pulling exactly as many messages as there are free slots.
//!
//! A pull is sent for free slots only, so a message that arrives always has one and none waits in a busy process while
//! another is idle. Small pulls cost the broker ten times more a message, so slots are gathered for a moment first.

use std::pin::Pin;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer;
use futures::stream::{self, SelectAll};
use futures::{Stream, StreamExt as _};

/// How long a pull stays open at the broker. It is also how long a pull that the broker forgot is missed.
const PULL_EXPIRES: Duration = Duration::from_secs(5);

/// Slots that make a pull worth while at once, as a share of all.
const EAGER_SHARE: usize = 8;

/// Most messages of one pull.
const MAX_PULL: usize = 512;

pub(crate) enum Pulled {
    Message(Box<Message>),
    /// A pull ended with so many messages not delivered.
    Ended(usize),
    Failed(String),
}

type Pull = Pin<Box<dyn Stream<Item = Pulled> + Send>>;

/// The open pulls of one consumer.
pub(crate) struct Take {
    consumer: PullConsumer,
    slots: usize,
    pulls: SelectAll<Pull>,
    /// Slots promised to open pulls.
    promised: usize,
}

impl Take {
    pub(crate) fn new(consumer: PullConsumer, slots: usize) -> Self {
        Self {
            consumer,
            slots,
            pulls: SelectAll::new(),
            promised: 0,
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
        self.pulls.push(Box::pin(pulled(batch, wanted)));
        Ok(())
    }

    /// The next message or end of a pull; waits for ever while no pull is open.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Pulled {
        let Some(pulled) = self.pulls.next().await else {
            return std::future::pending().await;
        };
        match &pulled {
            Pulled::Message(_) => self.promised = self.promised.saturating_sub(1),
            Pulled::Ended(left) => self.promised = self.promised.saturating_sub(*left),
            Pulled::Failed(_) => {}
        }
        pulled
    }

    /// Forgets all open pulls, after the connection was lost. What they might still bring is delivered again.
    pub(crate) fn forget(&mut self) {
        self.pulls.clear();
        self.promised = 0;
    }
}

fn pulled(batch: async_nats::jetstream::consumer::pull::Batch, wanted: usize) -> impl Stream<Item = Pulled> + Send {
    stream::unfold(Some((Box::pin(batch), wanted)), |state| async move {
        let (mut batch, left) = state?;
        match batch.next().await {
            Some(Ok(message)) => Some((
                Pulled::Message(Box::new(message)),
                Some((batch, left.saturating_sub(1))),
            )),
            Some(Err(error)) => Some((Pulled::Failed(error.to_string()), Some((batch, left)))),
            None => Some((Pulled::Ended(left), None)),
        }
    })
}
