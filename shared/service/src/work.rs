//! The work loop: take, handle, settle. Dropping it loses what is in flight and no message: handlers end where they are,
//! and what was not acknowledged is delivered again after `ack_wait`.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use futures::FutureExt as _;
use tidemill_domain::{Class, TraceContext};
use tidemill_streams::{Durable, Stream, live};
use tidemill_telemetry::Metric;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::doubt::{Doubt, Remedy};
use crate::fault::{self, Point};
use crate::progress::Progress;
use crate::settle::{self, Failure, Handled, Settled};
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
    /// Cancelled when the broker could not be told for `ack_wait` that this goes on: it is given to another then. Long work
    /// ends with it; storing what is finished does not, because the first write wins.
    pub stopped: CancellationToken,
}

/// How much a worker takes, which may change while it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// Messages that are worked on at once.
    pub taken: usize,
    /// Where the consumer's own bound changes with it: what its declaration is to say from now on.
    pub max_ack_pending: Option<i64>,
}

impl Slots {
    /// So many at once.
    #[must_use]
    pub const fn fixed(taken: usize) -> Self {
        Self {
            taken,
            max_ack_pending: None,
        }
    }
}

/// Where a worker learns how much it takes: a number, or what somebody else says at each time.
#[derive(Debug)]
pub struct Taking {
    slots: watch::Receiver<Slots>,
    /// Kept, so that a fixed number is one that may change and never does.
    _fixed: Option<watch::Sender<Slots>>,
}

impl From<usize> for Taking {
    fn from(taken: usize) -> Self {
        let (sender, slots) = watch::channel(Slots::fixed(taken));
        Self {
            slots,
            _fixed: Some(sender),
        }
    }
}

impl From<watch::Receiver<Slots>> for Taking {
    fn from(slots: watch::Receiver<Slots>) -> Self {
        Self { slots, _fixed: None }
    }
}

/// How long freed slots are gathered before a pull is sent for them.
const GATHER: Duration = Duration::from_millis(2);

/// Works on the messages of a durable consumer, up to `taking` at once, until `stop` or the context's drain.
///
/// Fewer than before interrupts nothing: nothing new is taken until so many are finished.
///
/// The handler's effects must be stored when it returns `Ok`: the message is then acknowledged. While it runs, and while its
/// end is settled, the broker is told every third of `ack_wait`, from a task that nothing else holds up. A panic in a handler
/// is a bug of ours: the message is left for redelivery and the loop goes on; a message that ends so again and again becomes a
/// dead letter. On drain nothing new is taken and what is in flight is finished, until the context is cancelled.
pub async fn work<H, F>(
    context: &Context,
    durable: &Durable,
    taking: impl Into<Taking>,
    stop: &CancellationToken,
    handler: H,
) where
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
    let mut taking = taking.into();
    let slots = taking.slots.borrow_and_update().taken;
    let mut worker = Worker {
        context,
        shared: Arc::new(context.clone()),
        stream: durable.stream,
        take: Take::new(consumer, slots),
        running: JoinSet::new(),
        progress: Progress::start(durable.ack_wait, reporter(context, durable)),
        gather_until: Instant::now(),
        backoff,
        newest: 0,
        durable: durable.clone(),
        doubt: Doubt::new(KEPT_PER_SLOT * slots.max(1), durable.ack_wait),
    };
    worker.run(&mut taking.slots, stop, &handler).await;
    worker.drain().await;
}

/// Sends progress for messages of the durable and asks the broker about it: an answer means that all of it has arrived.
fn reporter(
    context: &Context,
    durable: &Durable,
) -> impl Fn(Vec<Arc<Acker>>) -> futures::future::BoxFuture<'static, bool> + Send + Sync + 'static {
    let (context, stream, consumer) = (context.clone(), durable.stream.name, durable.name.clone());
    move |ackers| {
        let (context, consumer) = (context.clone(), consumer.clone());
        async move {
            for acker in ackers {
                if acker.ack_with(AckKind::Progress).await.is_err() {
                    return false;
                }
            }
            match context.jetstream().get_stream_no_info(stream).await {
                Ok(stream) => stream.consumer_info(&consumer).await.is_ok(),
                Err(_) => false,
            }
        }
        .boxed()
    }
}

struct Worker<'a> {
    context: &'a Context,
    /// The same for handlers: a clone of a context is dozens of counts, and each delivery takes one.
    shared: Arc<Context>,
    stream: Stream,
    take: Take,
    /// Messages from their delivery until they are settled; what was acknowledged comes back.
    running: JoinSet<Option<Arc<Acker>>>,
    progress: Progress<Acker>,
    gather_until: Instant,
    backoff: Backoff,
    /// The last place in the stream that was delivered here.
    newest: u64,
    durable: Durable,
    doubt: Doubt<Arc<Acker>>,
}

/// Acknowledgements that are kept to be repeated, for each slot: while none arrives, no more than one a slot is sent, and some
/// are sent before it is noticed.
const KEPT_PER_SLOT: usize = 8;

impl Worker<'_> {
    async fn run<H, F>(&mut self, slots: &mut watch::Receiver<Slots>, stop: &CancellationToken, handler: &H)
    where
        H: Fn(Delivery) -> F,
        F: Future<Output = Settled> + Send + 'static,
    {
        let mut connections = self.context.broker.connections.clone();
        connections.mark_unchanged();
        loop {
            let free = self.take.free(self.running.len());
            tokio::select! { biased;
                () = stop.cancelled() => return,
                () = self.context.draining.cancelled() => return,
                Ok(()) = connections.changed() => {
                    self.take.distrust();
                    self.remedy();
                }
                Ok(()) = slots.changed() => {
                    let slots = *slots.borrow_and_update();
                    self.take_at_once(slots);
                }
                Some(ended) = self.running.join_next() => self.note_free_slot(ended.ok().flatten()),
                pulled = self.take.next() => self.take_in(pulled, handler).await,
                () = tokio::time::sleep_until(self.gather_until), if free > 0 => self.pull().await,
            }
        }
    }

    fn take_at_once(&mut self, slots: Slots) {
        self.take.set_slots(slots.taken);
        self.doubt.keep_at_most(KEPT_PER_SLOT * slots.taken.max(1));
        self.durable.max_ack_pending = slots.max_ack_pending.unwrap_or(self.durable.max_ack_pending);
    }

    async fn pull(&mut self) {
        match self.take.pull(self.running.len()).await {
            Ok(()) => self.gather_until = Instant::now() + GATHER,
            Err(reason) => {
                self.remedy();
                self.pause(&reason);
            }
        }
    }

    /// Does what may help against a broker that refuses or forgets pulls.
    fn remedy(&mut self) {
        let Some(remedy) = self.doubt.trouble() else { return };
        tracing::warn!(
            stage = self.context.role,
            ?remedy,
            "the broker gives no work and does not say that there is none"
        );
        let (context, durable) = (self.context.clone(), self.durable.clone());
        tokio::spawn(async move {
            let tried = match remedy {
                Remedy::Consumer => live::ensure(context.jetstream(), &durable)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string()),
                Remedy::Connection => context
                    .broker
                    .client
                    .force_reconnect()
                    .await
                    .map_err(|error| error.to_string()),
            };
            if let Err(error) = tried {
                tracing::debug!(consumer = durable.name, error, "that did not help");
            }
        });
    }

    /// Acknowledges again what the broker may not have heard, now that it answers.
    async fn repeat_acknowledgements(&mut self) {
        for acker in self.doubt.answered() {
            if let Err(error) = acker.ack().await {
                tracing::debug!(stage = self.context.role, %error, "acknowledgement not repeated");
            }
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
                self.repeat_acknowledgements().await;
                self.start(*message, handler);
            }
            Pulled::Ended => self.repeat_acknowledgements().await,
            Pulled::Failed(reason) => {
                self.remedy();
                self.pause(&reason);
            }
            Pulled::Silent => self.remedy(),
        }
    }

    fn start<H, F>(&mut self, message: Message, handler: &H)
    where
        H: Fn(Delivery) -> F,
        F: Future<Output = Settled> + Send + 'static,
    {
        let (delivered, sequence) = message
            .info()
            .map_or((1, 0), |info| (info.delivered, info.stream_sequence));
        let delivered = self.deliveries(delivered, sequence);
        let trace = message
            .headers
            .as_ref()
            .and_then(|headers| headers.get(TraceContext::HEADER));
        let trace = trace.and_then(|value| TraceContext::parse(value.as_str()));
        let (message, acker) = message.split();
        let (acker, stopped) = (Arc::new(acker), CancellationToken::new());
        let reported = self.progress.add(Arc::clone(&acker), stopped.clone());
        let delivery = Delivery {
            subject: message.subject.to_string(),
            payload: message.payload,
            trace,
            delivered,
            sequence,
            stopped,
        };
        tidemill_telemetry::count(Metric::Deliveries, [("stage", self.context.role)]);
        if delivered > 1 {
            tidemill_telemetry::count(Metric::Redeliveries, [("stage", self.context.role)]);
        }
        if let Some(delivered) = Point::delivered(self.context.role) {
            fault::point(delivered);
        }
        let connection = *self.context.broker.connections.borrow();
        let (context, stream, handling) = (Arc::clone(&self.shared), self.stream, handler(delivery.clone()));
        self.running.spawn(async move {
            let settled = AssertUnwindSafe(handling).catch_unwind().await;
            let handled = Handled {
                stream,
                sequence: delivery.sequence,
                subject: delivery.subject,
                payload: delivery.payload,
                trace: delivery.trace,
                delivered: delivery.delivered,
                connection,
                settled: settled.unwrap_or_else(|panic| Err(Failure::new(Class::Bug, panic_text(panic.as_ref())))),
            };
            let is_done = handled.settled.is_ok();
            // Settling may wait for the broker as well, and is reported in progress until it is over.
            settle::settle(&context, handled, &acker).await;
            drop(reported);
            is_done.then_some(acker)
        });
    }

    /// First deliveries come in the stream's order. One that does not was delivered before, by a broker that has forgotten
    /// it since: a leader that was killed before the others knew.
    fn deliveries(&mut self, delivered: i64, sequence: u64) -> i64 {
        let is_forgotten = delivered == 1 && sequence <= self.newest;
        self.newest = self.newest.max(sequence);
        if is_forgotten { 2 } else { delivered }
    }

    /// A message was settled; `acknowledged` is what it was acknowledged with.
    fn note_free_slot(&mut self, acknowledged: Option<Arc<Acker>>) {
        if let Some(acker) = acknowledged {
            self.doubt.acknowledged(acker);
        }
        self.gather_until = self.gather_until.max(Instant::now() + GATHER / 2);
        if self.take.is_eager(self.running.len()) {
            self.gather_until = Instant::now();
        }
    }

    /// Finishes what is in flight; what is left when the grace ends is delivered to others.
    async fn drain(&mut self) {
        for message in self.take.close() {
            if let Err(error) = message.ack_with(AckKind::Nak(None)).await {
                tracing::debug!(%error, "message not given back");
            }
        }
        while !self.running.is_empty() {
            tokio::select! { biased;
                () = self.context.cancelled.cancelled() => {
                    tracing::warn!(stage = self.context.role, left = self.running.len(), "the grace is over; the rest is delivered to others");
                    self.running.abort_all();
                    return;
                }
                Some(_) = self.running.join_next() => {}
            }
        }
        // Acknowledgements are sent without waiting; this makes sure that they have left.
        if let Err(error) = self.context.broker.client.flush().await {
            tracing::debug!(%error, "flush");
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().map(ToString::to_string);
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", said.unwrap_or_else(|| "no message".to_owned()))
}
