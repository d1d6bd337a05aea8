//! Reads that only the leader of a stream answers.
//!
//! Where a stream has several copies, a direct read, which is what the client library makes of a look into a bucket, may be
//! answered by a copy that is behind. What must see the last write that was acknowledged is asked here: of the leader, which
//! answers once it has everything that was committed. The leader's answer may still be old while it is cut off from the
//! others and has not noticed (up to some ten seconds), so nothing but a write may decide what happens once.

use async_nats::jetstream::kv::Store;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{LastRawMessageError, LastRawMessageErrorKind};
use async_nats::jetstream::{self};
use bytes::Bytes;

mod looks;

pub use looks::Looks;

/// Why the leader did not say.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No leader answered.
    #[error(transparent)]
    Unanswered(#[from] LastRawMessageError),
    /// The stream cannot be named.
    #[error(transparent)]
    Stream(#[from] jetstream::context::GetStreamError),
    /// No server answered questions that were asked together.
    #[error("{0}")]
    Silence(String),
    /// Whoever asks has ended, with the process.
    #[error("no looks are taken any more")]
    Ended,
}

/// The value of a key and the revision it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The bytes.
    pub value: Bytes,
    /// The revision that an update must name.
    pub revision: u64,
}

/// The last message of `stream` on `subject`, which may hold wildcards; `None` when there is none.
///
/// # Errors
/// [`ReadError`] when no leader answers; that may pass.
pub async fn last(js: &jetstream::Context, stream: &str, subject: &str) -> Result<Option<StreamMessage>, ReadError> {
    let stream = js.get_stream_no_info(stream).await?;
    found(stream.get_last_raw_message_by_subject(subject).await)
}

/// The value of a key of a bucket; `None` when it has none or was deleted.
///
/// # Errors
/// As [`last`].
pub async fn entry(bucket: &Store, key: &str) -> Result<Option<Value>, ReadError> {
    let subject = format!("{}{key}", bucket.prefix);
    let message = found(bucket.stream.get_last_raw_message_by_subject(&subject).await)?;
    // A deletion is a message with this header and without a value.
    let is_value = |message: &StreamMessage| message.headers.get("KV-Operation").is_none();
    Ok(message.filter(is_value).map(|message| Value {
        value: message.payload,
        revision: message.sequence,
    }))
}

fn found(answer: Result<StreamMessage, LastRawMessageError>) -> Result<Option<StreamMessage>, ReadError> {
    match answer {
        Ok(message) => Ok(Some(message)),
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
