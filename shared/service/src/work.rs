//! The work loop: take, handle, settle, report progress.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use tidemill_domain::{Class, TraceContext};
use tidemill_streams::{Durable, live};
use tidemill_telemetry::Metric;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::fault::{self, Point};
use crate::settle::{self, Action, Failure, Handled, Settled};
use crate::take::{Pulled, Take};
use crate::{Context, backoff::Backoff};

/// A message as a handler gets it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The subject it came on.
    pub subject: String,
    /// Its bytes.
    pub payload: Bytes,
    /// The trace it belongs to.
    pub trace: Option<TraceContext>,
    /// How often it was delivered, this time included. Kills and lost acknowledgements count, so it proves nothing more
    /// than that the work may have been done before.
    pub delivered: i64,
    /// Its place in the stream.
    pub sequence: u64,
}

/// How long freed slots are gathered before a pull is sent for them.
const GATHER: Duration = Duration::from_millis(2);

/// Works on the messages of a durable consumer, up to `slots` at once, until `stop` or the context's drain.
///
/// The handler's effects must be stored when it returns `Ok`: the message is then acknowledged. While it runs the broker is
/// told every third of `ack_wait`. A panic in a handler is a bug of ours: the message is left for redelivery and the loop
/// goes on; a message that ends so again and again becomes a dead letter. On drain nothing new is taken and what is in flight is finished, until the context is cancelled.
pub async fn work<H, F>(context: &Context, durable: &Durable, slots: usize, stop: &CancellationToken, handler: H)
where
    H: Fn(Delivery) -> F,
    F: Future<Output = Settled> + Send + 'static,
{
    let mut backoff = Backoff::standard();
    let consumer = loop {
        let made = tokio::select! {
            () = stop.cancelled() => return,
            () = context.draining.cancelled() => return,
            made = live::ensure(context.jetstream(), durable) => made,
        };
        match made {
            Ok(consumer) => break consumer,
            Err(error) => {
                tracing::warn!(consumer = durable.name, %error, "cannot take work yet");
                sleep(backoff.next_pause()).await;
            }
        }
    };
    let mut worker = Worker {
        context,
        take: Take::new(consumer, slots),
        running: JoinSet::new(),
        in_flight: HashMap::new(),
        progress_every: durable.ack_wait / 3,
        gather_until: Instant::now(),
        backoff,
    };
    worker.run(stop, &handler).await;
    worker.drain().await;
}

struct InFlight {
    delivery: Delivery,
    acker: Arc<Acker>,
}

struct Worker<'a> {
    context: &'a Context,
    take: Take,
    running: JoinSet<Settled>,
    in_flight: HashMap<Id, InFlight>,
    progress_every: Duration,
    gather_until: Instant,
    backoff: Backoff,
}

impl Worker<'_> {
    async fn run<H, F>(&mut self, stop: &CancellationToken, handler: &H)
    where
        H: Fn(Delivery) -> F,
        F: Future<Output = Settled> + Send + 'static,
    {
        let mut progress = interval(self.progress_every);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut connections = self.context.broker.connections.clone();
        connections.mark_unchanged();
        loop {
            let free = self.take.free(self.in_flight.len());
            tokio::select! { biased;
                () = stop.cancelled() => return,
                () = self.context.draining.cancelled() => return,
                Ok(()) = connections.changed() => self.take.distrust(),
                Some(ended) = self.running.join_next_with_id() => self.settle(ended).await,
                pulled = self.take.next() => self.take_in(pulled, handler).await,
                _ = progress.tick() => self.report_progress().await,
                () = tokio::time::sleep_until(self.gather_until), if free > 0 => self.pull().await,
            }
        }
    }

    async fn pull(&mut self) {
        match self.take.pull(self.in_flight.len()).await {
            Ok(()) => self.gather_until = Instant::now() + GATHER,
            Err(reason) => self.pause(&reason),
        }
    }

    fn pause(&mut self, reason: &str) {
        tracing::debug!(stage = self.context.role, reason, "pull failed; trying again");
        self.gather_until = Instant::now() + self.backoff.next_pause();
    }

    async fn take_in<H, F>(&mut self, pulled: Pulled, handler: &H)
    where
        H: Fn(Delivery) -> F,
        F: Future<Output = Settled> + Send + 'static,
    {
        match pulled {
            Pulled::Message(message) => {
                self.backoff.reset();
                self.start(*message, handler).await;
            }
            Pulled::Ended => {}
            Pulled::Failed(reason) => self.pause(&reason),
        }
    }

    async fn start<H, F>(&mut self, message: Message, handler: &H)
    where
        H: Fn(Delivery) -> F,
        F: Future<Output = Settled> + Send + 'static,
    {
        let (delivered, sequence) = message
            .info()
            .map_or((1, 0), |info| (info.delivered, info.stream_sequence));
        let trace = message
            .headers
            .as_ref()
            .and_then(|headers| headers.get(TraceContext::HEADER));
        let trace = trace.and_then(|value| TraceContext::parse(value.as_str()));
        let (message, acker) = message.split();
        let delivery = Delivery {
            subject: message.subject.to_string(),
            payload: message.payload,
            trace,
            delivered,
            sequence,
        };
        tidemill_telemetry::count(Metric::Deliveries, [("stage", self.context.role)]);
        if delivered > 1 {
            tidemill_telemetry::count(Metric::Redeliveries, [("stage", self.context.role)]);
        }
        if let Some(delivered) = Point::delivered(self.context.role) {
            fault::point(delivered);
        }
        let id = self.running.spawn(handler(delivery.clone())).id();
        self.in_flight.insert(
            id,
            InFlight {
                delivery,
                acker: Arc::new(acker),
            },
        );
    }

    async fn settle(&mut self, ended: Result<(Id, Settled), JoinError>) {
        let (id, settled) = match ended {
            Ok((id, settled)) => (id, settled),
            Err(error) => {
                let failure = Failure::new(Class::Bug, error.to_string());
                (error.id(), Err(failure))
            }
        };
        let Some(InFlight { delivery, acker }) = self.in_flight.remove(&id) else {
            return;
        };
        self.gather_until = self.gather_until.max(Instant::now() + GATHER / 2);
        if self.take.is_eager(self.in_flight.len()) {
            self.gather_until = Instant::now();
        }
        let Delivery {
            subject,
            payload,
            delivered,
            ..
        } = delivery;
        let handled = Handled {
            subject,
            payload,
            delivered,
            settled,
        };
        if handled.action() == Action::Bury {
            // Publishing the dead letter may wait for the broker, which the loop must not.
            let context = self.context.clone();
            tokio::spawn(async move { settle::settle(&context, handled, &acker).await });
        } else {
            settle::settle(self.context, handled, &acker).await;
        }
    }

    async fn report_progress(&mut self) {
        for item in self.in_flight.values() {
            if let Err(error) = item.acker.ack_with(AckKind::Progress).await {
                tracing::debug!(subject = item.delivery.subject, %error, "progress not reported");
            }
        }
    }

    /// Finishes what is in flight; what is left when the grace ends is delivered to others.
    async fn drain(&mut self) {
        for message in self.take.close() {
            if let Err(error) = message.ack_with(AckKind::Nak(None)).await {
                tracing::debug!(%error, "message not given back");
            }
        }
        let mut progress = interval(self.progress_every);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.running.is_empty() {
            tokio::select! { biased;
                () = self.context.cancelled.cancelled() => {
                    tracing::warn!(stage = self.context.role, left = self.running.len(), "the grace is over; the rest is delivered to others");
                    self.running.abort_all();
                    return;
                }
                Some(ended) = self.running.join_next_with_id() => self.settle(ended).await,
                _ = progress.tick() => self.report_progress().await,
            }
        }
        // Acknowledgements are sent without waiting; this makes sure that they have left.
        if let Err(error) = self.context.broker.client.flush().await {
            tracing::debug!(%error, "flush");
        }
    }
}
