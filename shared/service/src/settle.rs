//! What happens to a message after it was handled: the one place where a failure's class becomes an action.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::message::Acker;
use bytes::Bytes;
use tidemill_domain::Class;
use tidemill_streams::{DeadLetter, Message as _};
use tidemill_telemetry::Metric;

use crate::{Context, PublishError, Ttl};

/// A failure of a handler: its class, and the reason for people.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What kind it is.
    pub class: Class,
    /// Why, with the whole chain.
    pub reason: String,
}

impl Failure {
    /// A failure from an error and its class; the reason is the error with all its sources.
    #[must_use]
    pub fn of(class: Class, error: &dyn std::error::Error) -> Self {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !reason.contains(&cause_text) {
                reason = format!("{reason}: {cause_text}");
            }
            source = cause.source();
        }
        Self { class, reason }
    }

    /// A failure that will not pass.
    #[must_use]
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self {
            class: Class::Permanent,
            reason: reason.into(),
        }
    }

    /// Work given back on purpose.
    #[must_use]
    pub fn cancelled() -> Self {
        Self {
            class: Class::Cancelled,
            reason: "draining".to_owned(),
        }
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        Self::of(error.class(), &error)
    }
}

impl From<tidemill_storage::Error> for Failure {
    fn from(error: tidemill_storage::Error) -> Self {
        Self::of(error.class(), &error)
    }
}

impl From<tidemill_codec::Error> for Failure {
    fn from(error: tidemill_codec::Error) -> Self {
        Self::of(Class::Permanent, &error)
    }
}

/// How a handler ended: its effects are stored, or it failed.
pub type Settled = Result<(), Failure>;

/// Longest pause before a message that failed is delivered again.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The pause before delivery `delivered + 1`: doubles from 100 ms. A message that waits keeps its place among the
/// unacknowledged ones, so pauses stay short.
fn pause(delivered: i64) -> Duration {
    let doublings = u32::try_from(delivered.clamp(1, 8) - 1).unwrap_or(0);
    (Duration::from_millis(100) * 2_u32.pow(doublings)).min(LONGEST_PAUSE)
}

pub(crate) struct Handled {
    pub(crate) subject: String,
    pub(crate) payload: Bytes,
    pub(crate) delivered: i64,
    pub(crate) settled: Settled,
}

/// Sends what the outcome of a handler asks for.
pub(crate) async fn settle(context: &Context, handled: Handled, acker: &Acker) {
    let class = handled
        .settled
        .as_ref()
        .map_or_else(|failure| failure.class.label(), |()| "done");
    tidemill_telemetry::count(Metric::Settled, [("stage", context.role), ("class", class)]);
    let sent = match &handled.settled {
        Ok(()) => acker.ack().await,
        Err(failure) => match failure.class {
            Class::Transient => {
                tracing::warn!(
                    subject = handled.subject,
                    reason = failure.reason,
                    delivered = handled.delivered,
                    "will be tried again"
                );
                acker.ack_with(AckKind::Nak(Some(pause(handled.delivered)))).await
            }
            Class::Cancelled => acker.ack_with(AckKind::Nak(None)).await,
            Class::Permanent => bury(context, &handled, &failure.reason, acker).await,
            Class::Bug => {
                tracing::error!(
                    subject = handled.subject,
                    reason = failure.reason,
                    "a bug: left for redelivery"
                );
                Ok(())
            }
        },
    };
    if let Err(error) = sent {
        // The broker delivers it again, and the effect that is stored answers it.
        tracing::debug!(subject = handled.subject, %error, "acknowledgement not sent");
    }
}

async fn bury(context: &Context, handled: &Handled, reason: &str, acker: &Acker) -> Result<(), async_nats::Error> {
    tracing::error!(subject = handled.subject, reason, "given up; kept in the DEAD stream");
    tidemill_telemetry::count(Metric::DeadLetters, [("stage", context.role)]);
    let letter = DeadLetter {
        stage: context.role,
        payload: handled.payload.to_vec(),
    };
    let mut headers = HeaderMap::new();
    headers.insert("Tidemill-Subject", handled.subject.as_str());
    headers.insert("Tidemill-Reason", one_line(reason).as_str());
    let stored = context
        .publisher
        .publish_bytes::<DeadLetter>(letter.subject(), letter.payload, None, Ttl::Stream, headers)
        .await;
    match stored {
        Ok(_) => acker.ack_with(AckKind::Term).await,
        Err(error) => Err(error.into()),
    }
}

/// Header values hold no line breaks.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .take(2_000)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_short() {
        assert_eq!(pause(1), Duration::from_millis(100));
        assert_eq!(pause(2), Duration::from_millis(200));
        assert_eq!(pause(1_000), LONGEST_PAUSE);
        assert_eq!(pause(-5), Duration::from_millis(100));
    }

    #[test]
    fn reasons_fit_a_header() {
        assert_eq!(one_line("a\r\nb"), "a  b");
    }
}
