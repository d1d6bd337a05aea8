//! Reading a stream from a place on, for ever, across reconnects: the input of folds.

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use bytes::Bytes;
use futures::StreamExt as _;
use tidemill_domain::TraceContext;
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
    backlog: u64,
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
            backoff: Backoff::standard(),
        };
        follow.backlog = follow.reopen().await;
        follow
    }

    /// Matching messages that were there when it was opened.
    #[must_use]
    pub const fn backlog(&self) -> u64 {
        self.backlog
    }

    async fn reopen(&mut self) -> u64 {
        loop {
            match self.try_open().await {
                Ok(backlog) => {
                    self.backoff.reset();
                    return backlog;
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
                        self.start = Start::After(sequence);
                        let async_nats::Message { subject, payload, headers, .. } = message.message;
                        return Followed { subject: subject.to_string(), payload, headers, sequence, pending };
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
}
