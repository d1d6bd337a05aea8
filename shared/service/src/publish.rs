//! The way out: every publish is awaited, and the first write of a key wins.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::connection::State;
use async_nats::jetstream::{self, ErrorCode, context::PublishErrorKind, message::PublishMessage};
use tidemill_domain::{Class, TraceContext};
use tidemill_streams::{Message, Retention};
use tidemill_telemetry::Metric;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::waits::{Obstacle, Waits};

/// What became of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// Stored under this stream sequence.
    Stored(u64),
    /// An earlier write of the same key had won. That is success.
    AlreadyThere,
}

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The message cannot be encoded.
    #[error(transparent)]
    Encode(#[from] tidemill_codec::Error),
    /// The process is stopping.
    #[error("publish {subject}: stopped before the broker answered")]
    Cancelled {
        /// Where to.
        subject: String,
    },
    /// The broker will not take it, now or later.
    #[error("publish {subject} to {stream}: {reason}")]
    Refused {
        /// Where to.
        subject: String,
        /// The stream.
        stream: &'static str,
        /// The broker's word.
        reason: String,
    },
}

impl PublishError {
    /// Whether trying again may help.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::Encode(_) => Class::Bug,
            Self::Cancelled { .. } => Class::Cancelled,
            Self::Refused { .. } => Class::Permanent,
        }
    }
}

/// How long a message is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// As long as its stream keeps messages.
    Stream,
    /// At most so long.
    AtMost(Duration),
}

/// Publishes messages to their streams.
#[derive(Debug, Clone)]
pub struct Publisher {
    jetstream: jetstream::Context,
    cancelled: CancellationToken,
    waits: Waits,
}

/// The header that makes a write win only while its subject is empty; `publish` sets the other ones of a message.
const SUBJECT_IS_EMPTY: u64 = 0;

enum Refusal {
    AlreadyThere,
    /// `is_answer`: the broker said so, as opposed to not answering.
    Later {
        reason: String,
        is_answer: bool,
    },
    Never(String),
}

impl Publisher {
    pub(crate) const fn new(jetstream: jetstream::Context, cancelled: CancellationToken, waits: Waits) -> Self {
        Self {
            jetstream,
            cancelled,
            waits,
        }
    }

    /// Publishes a message and waits until the broker has stored it.
    ///
    /// A stream that is full, or a broker that is away, is waited for: nothing is dropped. Repeating a publish whose
    /// answer was lost is safe for first-write-wins messages; for the others a reader must expect it twice.
    ///
    /// # Errors
    /// [`PublishError`]; waiting ends with [`PublishError::Cancelled`] when the process's grace is over.
    pub async fn publish<M: Message>(
        &self,
        message: &M,
        trace: Option<TraceContext>,
    ) -> Result<Published, PublishError> {
        self.publish_bytes::<M>(
            message.subject(),
            message.payload()?,
            trace,
            Ttl::Stream,
            HeaderMap::new(),
        )
        .await
    }

    /// Publishes the given bytes as a message of type `M`, with further headers.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub async fn publish_bytes<M: Message>(
        &self,
        subject: String,
        payload: Vec<u8>,
        trace: Option<TraceContext>,
        ttl: Ttl,
        mut headers: HeaderMap,
    ) -> Result<Published, PublishError> {
        if let Some(trace) = trace {
            headers.insert(TraceContext::HEADER, trace.to_string());
        }
        let mut message = PublishMessage::build().payload(payload.into());
        if !headers.is_empty() {
            message = message.headers(headers);
        }
        if M::FIRST_WRITE_WINS {
            message = message.expected_last_subject_sequence(SUBJECT_IS_EMPTY);
        }
        if let Ttl::AtMost(age) = ttl {
            message = message.ttl(age);
        }
        self.insist::<M>(subject, message, M::FIRST_WRITE_WINS).await
    }

    /// Publishes a message if the last one of its subject has the sequence `last`, 0 for none. [`Published::AlreadyThere`] where
    /// another came since; that may be this very one, whose answer was lost.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub async fn publish_after<M: Message>(&self, message: &M, last: u64) -> Result<Published, PublishError> {
        let (subject, payload) = (message.subject(), message.payload()?);
        let message = PublishMessage::build().payload(payload.into());
        self.insist::<M>(subject, message.expected_last_subject_sequence(last), true)
            .await
    }

    /// Publishes the bytes of a first-write-wins message once more, behind the one of its subject that has the sequence
    /// `last`: its consumers see it again, and those that fold by key are not moved. [`Published::AlreadyThere`] when the
    /// subject has a later one, so that doing it twice is doing it once.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub async fn publish_again<M: Message>(
        &self,
        subject: String,
        payload: Vec<u8>,
        trace: Option<TraceContext>,
        last: u64,
    ) -> Result<Published, PublishError> {
        let mut message = PublishMessage::build().payload(payload.into());
        if let Some(trace) = trace {
            message = message.header(TraceContext::HEADER, trace.to_string());
        }
        self.insist::<M>(
            subject,
            message.expected_last_subject_sequence(last),
            M::FIRST_WRITE_WINS,
        )
        .await
    }

    /// Publishes until the broker has decided. One that `is_conditional` names what its subject must hold.
    async fn insist<M: Message>(
        &self,
        subject: String,
        message: PublishMessage,
        is_conditional: bool,
    ) -> Result<Published, PublishError> {
        let stream = M::STREAM.name;
        let mut backoff = Backoff::standard();
        let mut waiting = None;
        loop {
            let refusal = match self.once(&subject, message.clone()).await {
                Ok(sequence) => {
                    self.waits.passed(Obstacle::Stream(stream));
                    return Ok(Published::Stored(sequence));
                }
                Err(error) => refusal::<M>(&error, is_conditional),
            };
            match refusal {
                Refusal::AlreadyThere => {
                    tidemill_telemetry::count(Metric::AlreadyThere, [("stream", stream)]);
                    return Ok(Published::AlreadyThere);
                }
                Refusal::Never(reason) => {
                    return Err(PublishError::Refused {
                        subject,
                        stream,
                        reason,
                    });
                }
                Refusal::Later { reason, is_answer } => {
                    let pause = backoff.next_pause();
                    // A broker that is connected and silent has no room either, or no disk that answers.
                    if is_answer || self.jetstream.client().connection_state() == State::Connected {
                        waiting
                            .get_or_insert_with(|| self.waits.begin(Obstacle::Stream(stream), &reason))
                            .because(&reason);
                    }
                    tidemill_telemetry::count(Metric::PublishRetries, [("stream", stream)]);
                    if pause > Duration::from_secs(1) {
                        tracing::warn!(stream, reason, "the broker does not take messages; waiting");
                    }
                    tokio::select! {
                        () = self.cancelled.cancelled() => return Err(PublishError::Cancelled { subject }),
                        () = tokio::time::sleep(pause) => {}
                    }
                }
            }
        }
    }

    async fn once(&self, subject: &str, message: PublishMessage) -> Result<u64, jetstream::context::PublishError> {
        let acknowledged = self.jetstream.send_publish(subject.to_owned(), message).await?;
        Ok(acknowledged.await?.sequence)
    }
}

fn refusal<M: Message>(error: &jetstream::context::PublishError, is_conditional: bool) -> Refusal {
    let answer = std::error::Error::source(error).and_then(|source| source.downcast_ref::<jetstream::Error>());
    match error.kind() {
        PublishErrorKind::WrongLastSequence if is_conditional => Refusal::AlreadyThere,
        PublishErrorKind::MaxPayloadExceeded => Refusal::Never(error.to_string()),
        PublishErrorKind::Other
            if answer.is_some_and(|answer| answer.error_code() == ErrorCode::STREAM_STORE_FAILED) =>
        {
            full_stream::<M>(answer.map(ToString::to_string).unwrap_or_default())
        }
        _ => Refusal::Later {
            reason: answer.map_or_else(|| error.to_string(), ToString::to_string),
            is_answer: answer.is_some(),
        },
    }
}

/// The server has one code for a subject that holds its message and for a stream that holds its bytes; only the text
/// tells them apart.
fn full_stream<M: Message>(reason: String) -> Refusal {
    let one_per_subject = M::STREAM.retention == Retention::WorkQueue && M::STREAM.max_messages_per_subject == Some(1);
    if one_per_subject && reason.contains("per subject") {
        Refusal::AlreadyThere
    } else {
        Refusal::Later {
            reason,
            is_answer: true,
        }
    }
}
