//! The broker's advisories of messages that were delivered as often as is allowed, read as letters.

use async_nats::jetstream::stream::LastRawMessageErrorKind;
use serde::Deserialize;
use tidemill_domain::{Class, Timestamp, TraceContext};
use tidemill_streams::{declared, subject};

use super::letter::{Letter, Origin};
use crate::{Context, Failure, Follow, Start};

/// What we read of `io.nats.jetstream.advisory.v1.max_deliver`.
#[derive(Debug, Deserialize)]
struct MaxDeliver {
    stream: String,
    consumer: String,
    stream_seq: u64,
    deliveries: i64,
}

pub(super) fn is_one(on: &str) -> bool {
    on.starts_with(subject::MAX_DELIVERIES.trim_end_matches('>'))
}

pub(super) async fn all(context: &Context) -> Result<Vec<Letter>, Failure> {
    let filter = subject::MAX_DELIVERIES.to_owned();
    let mut follow = Follow::open(context, declared::DEAD, filter, false, Start::Beginning).await;
    let mut letters = Vec::new();
    while let Some(message) = follow.next_known().await {
        letters.push(read(context, message.sequence, &message.payload, message.at).await?.0);
    }
    Ok(letters)
}

/// The advisory as a letter, with the bytes of the message that it is about, which are empty when that is gone.
pub(super) async fn read(
    context: &Context,
    sequence: u64,
    payload: &[u8],
    at: Timestamp,
) -> Result<(Letter, Vec<u8>), Failure> {
    let mut letter = Letter::of(sequence, "", None, at);
    letter.is_advisory = true;
    "deliveries".clone_into(&mut letter.class);
    "broker".clone_into(&mut letter.stage);
    let advisory: MaxDeliver = match serde_json::from_slice(payload) {
        Ok(advisory) => advisory,
        Err(error) => {
            letter.reason = format!("an advisory that does not parse: {error}");
            return Ok((letter, Vec::new()));
        }
    };
    letter.stage = advisory.consumer.split('-').next().unwrap_or_default().to_owned();
    letter.deliveries = advisory.deliveries;
    let about = format!("message {} of {}", advisory.stream_seq, advisory.stream);
    letter.reason = format!(
        "{about} was delivered {} times to {} without an end, and is delivered no more",
        advisory.deliveries, advisory.consumer
    );
    let found = message(context, &advisory.stream, advisory.stream_seq).await?;
    letter.origin = Some(Origin {
        stream: advisory.stream,
        sequence: advisory.stream_seq,
    });
    let Some((on, trace, payload)) = found else {
        letter.reason = format!("{}; it is gone since", letter.reason);
        return Ok((letter, Vec::new()));
    };
    letter.subject = Some(on);
    letter.trace = trace;
    letter.is_held = true;
    Ok((letter, payload))
}

type Found = (String, Option<TraceContext>, Vec<u8>);

async fn message(context: &Context, stream: &str, sequence: u64) -> Result<Option<Found>, Failure> {
    // A stream that is not ours, or not there any more, has no such message either.
    if !declared::ALL.iter().any(|declared| declared.name == stream) {
        return Ok(None);
    }
    let stream = context.jetstream().get_stream_no_info(stream).await;
    let stream = stream.map_err(|error| Failure::of(Class::Transient, &error))?;
    match stream.get_raw_message(sequence).await {
        Ok(message) => {
            let trace = message.headers.get(TraceContext::HEADER);
            let trace = trace.and_then(|value| TraceContext::parse(value.as_str()));
            Ok(Some((message.subject.to_string(), trace, message.payload.to_vec())))
        }
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(Failure::of(Class::Transient, &error)),
    }
}
