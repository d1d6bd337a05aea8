//! Reading a stream from a place on, for ever, across reconnects: the input of folds.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use bytes::Bytes;
use futures::StreamExt as _;
use tidemill_domain::{Timestamp, TraceContext};
use tidemill_streams::Stream;
use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::{Context, leader};

/// A message that was followed.
#[derive(Debug, Clone)]
pub struct Followed {
    /// The subject.
    pub subject: String,
    /// The bytes; empty when only headers were asked for.
    pub payload: Bytes,
    /// Its headers.
    pub headers: Option<HeaderMap>,
    /// Its place in the stream.
    pub sequence: u64,
    /// When the broker stored it.
    pub at: Timestamp,
    /// Matching messages after it when it was delivered; 0 means that everything known was read.
    pub pending: u64,
}

impl Followed {
    /// The trace that the message belongs to.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        TraceContext::parse(self.headers.as_ref()?.get(TraceContext::HEADER)?.as_str())
    }
}

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the first message.
    Beginning,
    /// With the last message of each subject.
    LastPerSubject,
    /// With messages that come from now on.
    New,
    /// After this sequence.
    After(u64),
}

/// Silence, while messages are known to be left, after which a reader asks anew what is left. It doubles each time.
const SILENCE: Duration = Duration::from_secs(1);

/// How often the broker says that a reader is still there while nothing comes. After two such times without a word the
/// reader is made anew: the server that held it may be gone while the connection, to another one, is well.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// How long one pull of a reader lasts.
const PULL_EXPIRES: Duration = Duration::from_secs(30);

/// The longest such silence.
const LONGEST_SILENCE: Duration = Duration::from_secs(16);

/// Follows a stream without acknowledging: any number may follow, and each begins where it likes.
///
/// A reader is a consumer without acknowledgements in the memory of one server. After a reconnect, an error, a gap in its
/// messages or silence it is made again behind the last message seen; the ordered consumers of the client library do this
/// too, but take 15 to 60 s to notice.
///
/// Where streams have several copies a reader may sit on one that is behind. What is known to be there is therefore asked
/// of the stream's leader.
pub struct Follow {
    context: Context,
    stream: Stream,
    filter: String,
    headers_only: bool,
    start: Start,
    reader: Option<Reader>,
    connections: watch::Receiver<u64>,
    /// Messages known to the last opening and not read since.
    backlog: u64,
    /// The last matching message that the stream's leader had at the last opening; 0 for none, or where there is one copy.
    last_known: u64,
    silence: Duration,
    backoff: Backoff,
}

struct Reader {
    messages: pull::Stream,
    /// Messages that it has delivered.
    delivered: u64,
}

impl Follow {
    /// Opens a reader on `filter` of `stream`. With `headers_only` payloads are not sent.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind that the broker does not remove by itself.
    pub async fn open(context: &Context, stream: Stream, filter: String, headers_only: bool, start: Start) -> Self {
        let mut connections = context.broker.connections.clone();
        connections.mark_unchanged();
        let mut follow = Self {
            context: context.clone(),
            stream,
            filter,
            headers_only,
            start,
            reader: None,
            connections,
            backlog: 0,
            last_known: 0,
            silence: SILENCE,
            backoff: Backoff::standard(),
        };
        follow.reopen().await;
        follow
    }

    /// Matching messages that were there when it was opened and are not read yet. Some may expire before they are, so
    /// a loop over so many may wait for ever: read them with [`Follow::next_known`] or [`Follow::each_known`].
    #[must_use]
    pub const fn backlog(&self) -> u64 {
        self.backlog
    }

    /// Opens the reader behind the last message seen and notes how many messages are known to come.
    async fn reopen(&mut self) {
        loop {
            match self.try_open().await {
                Ok(backlog) => {
                    self.backoff.reset();
                    self.backlog = backlog;
                    return;
                }
                Err(error) => {
                    tracing::debug!(stream = self.stream.name, %error, "cannot follow yet");
                    tokio::time::sleep(self.backoff.next_pause()).await;
                }
            }
        }
    }

    async fn try_open(&mut self) -> Result<u64, async_nats::Error> {
        // Asked first, so that a reader which is not behind knows of it.
        self.last_known = self.last_of_leader().await?;
        let config = pull::Config {
            filter_subject: self.filter.clone(),
            headers_only: self.headers_only,
            ack_policy: AckPolicy::None,
            max_deliver: 1,
            inactive_threshold: Duration::from_secs(30),
            num_replicas: 1,
            memory_storage: true,
            deliver_policy: match self.start {
                Start::Beginning => DeliverPolicy::All,
                Start::LastPerSubject => DeliverPolicy::LastPerSubject,
                Start::New => DeliverPolicy::New,
                Start::After(sequence) => DeliverPolicy::ByStartSequence {
                    start_sequence: sequence + 1,
                },
            },
            ..pull::Config::default()
        };
        let consumer = self
            .context
            .jetstream()
            .create_consumer_on_stream(config, self.stream.name)
            .await?;
        let backlog = consumer.cached_info().num_pending;
        let messages = consumer.stream().expires(PULL_EXPIRES).heartbeat(HEARTBEAT).messages();
        self.reader = Some(Reader {
            messages: messages.await?,
            delivered: 0,
        });
        Ok(backlog)
    }

    async fn last_of_leader(&self) -> Result<u64, async_nats::Error> {
        if self.context.config.broker.replicas == 1 || self.start == Start::New {
            return Ok(0);
        }
        let last = leader::last(self.context.jetstream(), self.stream.name, &self.filter).await?;
        Ok(last.map_or(0, |message| message.sequence))
    }

    /// Whether messages that were there at the last opening are not read yet; as with [`Follow::backlog`], some of them may
    /// expire before they are.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        let seen = match self.start {
            Start::After(sequence) => sequence,
            Start::Beginning | Start::LastPerSubject | Start::New => 0,
        };
        self.backlog > 0 || seen < self.last_known
    }

    /// The next message.
    ///
    /// # Cancel safety
    /// No message is lost when the future is dropped.
    pub async fn next(&mut self) -> Followed {
        loop {
            let Some(reader) = self.reader.as_mut() else {
                self.reopen().await;
                continue;
            };
            tokio::select! { biased;
                Ok(()) = self.connections.changed() => self.reader = None,
                message = reader.messages.next() => match message {
                    Some(Ok(message)) => {
                        let Ok(info) = message.info() else { continue };
                        reader.delivered += 1;
                        if info.consumer_sequence != reader.delivered {
                            tracing::debug!(stream = self.stream.name, "messages are missing; opening another reader");
                            self.reader = None;
                            continue;
                        }
                        let (sequence, pending) = (info.stream_sequence, info.pending);
                        let at = std::time::SystemTime::from(info.published).into();
                        self.start = Start::After(sequence);
                        // A reader that began anew by itself may bring more than the one before it knew of.
                        let is_first = info.consumer_sequence == 1;
                        self.backlog = if is_first { pending } else { pending.min(self.backlog.saturating_sub(1)) };
                        self.silence = SILENCE;
                        let async_nats::Message { subject, payload, headers, .. } = message.message;
                        return Followed { subject: subject.to_string(), payload, headers, sequence, at, pending };
                    }
                    Some(Err(error)) => {
                        tracing::debug!(stream = self.stream.name, %error, "reader failed; opening another");
                        self.reader = None;
                        tokio::time::sleep(self.backoff.next_pause()).await;
                    }
                    None => self.reader = None,
                },
            }
        }
    }

    /// The next message of those that were there already; `None` when all of them were read or have expired.
    ///
    /// Messages may expire unread, and then the last one says that more are to come. So while nothing comes the reader
    /// is made anew, which tells what is left.
    ///
    /// # Cancel safety
    /// No message is lost when the future is dropped.
    pub async fn next_known(&mut self) -> Option<Followed> {
        while self.is_behind() {
            match tokio::time::timeout(self.silence, self.next()).await {
                Ok(message) => return Some(message),
                Err(_) => {
                    self.silence = (self.silence * 2).min(LONGEST_SILENCE);
                    self.reopen().await;
                }
            }
        }
        None
    }

    /// Hands over every message that was there already, in the stream's order, and returns when there are no more.
    ///
    /// After a reconnect a reader of the last message of each subject may hand over several of a subject: the last
    /// counts, as it does for messages that come later.
    ///
    /// # Cancel safety
    /// No message is lost when the future is dropped: what was not handed over comes next.
    pub async fn each_known(&mut self, mut take: impl FnMut(Followed)) {
        while let Some(message) = self.next_known().await {
            take(message);
        }
    }
}
