//! Reading a stream from a place on, for ever, across reconnects: the input of folds.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use bytes::Bytes;
use futures::StreamExt as _;
use tidemill_domain::{Timestamp, TraceContext};
use tidemill_streams::Stream;
use tokio::sync::watch;

use crate::Context;
use crate::backoff::Backoff;

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

/// The longest such silence.
const LONGEST_SILENCE: Duration = Duration::from_secs(16);

/// Follows a stream without acknowledging: any number may follow, and each begins where it likes.
///
/// After a reconnect the reader is made again behind the last message seen, since ordered consumers take 15 s to notice.
pub struct Follow {
    context: Context,
    stream: Stream,
    filter: String,
    headers_only: bool,
    start: Start,
    reader: Option<pull::Ordered>,
    connections: watch::Receiver<u64>,
    /// Messages known to the last opening and not read since.
    backlog: u64,
    silence: Duration,
    backoff: Backoff,
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
        let config = pull::OrderedConfig {
            filter_subject: self.filter.clone(),
            headers_only: self.headers_only,
            deliver_policy: match self.start {
                Start::Beginning => DeliverPolicy::All,
                Start::LastPerSubject => DeliverPolicy::LastPerSubject,
                Start::New => DeliverPolicy::New,
                Start::After(sequence) => DeliverPolicy::ByStartSequence {
                    start_sequence: sequence + 1,
                },
            },
            ..pull::OrderedConfig::default()
        };
        let consumer = self
            .context
            .jetstream()
            .create_consumer_on_stream(config, self.stream.name)
            .await?;
        let backlog = consumer.cached_info().num_pending;
        self.reader = Some(consumer.messages().await?);
        Ok(backlog)
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
                message = reader.next() => match message {
                    Some(Ok(message)) => {
                        let Ok(info) = message.info() else { continue };
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
        while self.backlog > 0 {
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
