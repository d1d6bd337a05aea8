//! What happens to a message after it was handled: the one place where a failure's class becomes an action.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::message::Acker;
use bytes::Bytes;
use tidemill_domain::Class;
use tidemill_streams::{DeadLetter, Message as _};
use tidemill_telemetry::Metric;

use crate::fault::{self, Point};
use crate::{Context, PublishError, Ttl};

/// A failure of a handler: its class, and the reason for people.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What kind it is.
    pub class: Class,
    /// Why, with the whole chain.
    pub reason: String,
    /// The pause before the next delivery of what is tried again; `None` lets it grow from delivery to delivery.
    pub pause: Option<Duration>,
}

/// Deliveries after which a message that ended in a bug, or that only a newer process understands, is given up. Lost
/// deliveries count too, so that a sample has several more than a broken process or two use up.
pub const MOST_DELIVERIES: i64 = 10;

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
        Self {
            class,
            reason,
            pause: None,
        }
    }

    /// A failure that may pass.
    #[must_use]
    pub fn transient(reason: impl Into<String>) -> Self {
        Self::new(Class::Transient, reason)
    }

    /// A failure that will not pass.
    #[must_use]
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self::new(Class::Permanent, reason)
    }

    /// Work given back on purpose.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(Class::Cancelled, "draining")
    }

    /// A failure that a newer process would not have, while fewer than [`MOST_DELIVERIES`] were made: the message is given
    /// back for the longest pause. In a deployment half way through an upgrade a newer process then gets it.
    #[must_use]
    pub fn left_to_newer(error: &tidemill_storage::Error, delivered: i64) -> Option<Self> {
        let is_newer = matches!(
            error,
            tidemill_storage::Error::Codec(tidemill_codec::Error::UnknownVersion { .. })
        );
        (is_newer && delivered < MOST_DELIVERIES).then(|| Self {
            pause: Some(LONGEST_PAUSE),
            ..Self::of(Class::Transient, error)
        })
    }

    pub(crate) fn new(class: Class, reason: impl Into<String>) -> Self {
        Self {
            class,
            reason: reason.into(),
            pause: None,
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

/// A handler's outcome, with what settling it needs.
pub(crate) struct Handled {
    pub(crate) subject: String,
    pub(crate) payload: Bytes,
    pub(crate) delivered: i64,
    pub(crate) settled: Settled,
}

impl Handled {
    /// What is sent.
    pub(crate) fn action(&self) -> Action {
        match &self.settled {
            Ok(()) => Action::Ack,
            Err(failure) => decide(failure, self.delivered),
        }
    }
}

/// What is sent to the broker for a message that was handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Its effects are stored: it is acknowledged.
    Ack,
    /// It is given back, to be delivered again after the pause; `None`: at once.
    Nak(Option<Duration>),
    /// It becomes a dead letter, and is terminated when that is stored.
    Bury,
    /// Nothing: the broker delivers it again after `ack_wait`.
    Leave,
}

/// What a failure does to its message, delivered so often: it becomes a dead letter when it will not pass, or when it
/// ended in a bug as often as is borne.
#[must_use]
pub fn decide(failure: &Failure, delivered: i64) -> Action {
    match failure.class {
        Class::Transient => Action::Nak(Some(failure.pause.unwrap_or_else(|| pause(delivered)))),
        Class::Cancelled => Action::Nak(None),
        Class::Permanent => Action::Bury,
        Class::Bug if delivered >= MOST_DELIVERIES => Action::Bury,
        Class::Bug => Action::Leave,
    }
}

/// Sends what the outcome of a handler asks for.
pub(crate) async fn settle(context: &Context, handled: Handled, acker: &Acker) {
    let class = handled
        .settled
        .as_ref()
        .map_or_else(|failure| failure.class.label(), |()| "done");
    tidemill_telemetry::count(Metric::Settled, [("stage", context.role), ("class", class)]);
    let reason = handled
        .settled
        .as_ref()
        .map_or_else(|failure| failure.reason.as_str(), |()| "");
    let (subject, delivered) = (&handled.subject, handled.delivered);
    let sent = match handled.action() {
        Action::Ack => acknowledge(context, acker).await,
        Action::Bury => bury(context, &handled, reason, acker).await,
        Action::Nak(pause) => {
            if pause.is_some() {
                tracing::warn!(subject, reason, delivered, "will be tried again");
            }
            acker.ack_with(AckKind::Nak(pause)).await
        }
        Action::Leave => {
            tracing::error!(subject, reason, delivered, "a bug: left for redelivery");
            Ok(())
        }
    };
    if let Err(error) = sent {
        // The broker delivers it again, and the effect that is stored answers it.
        tracing::debug!(subject = handled.subject, %error, "acknowledgement not sent");
    }
}

/// Acknowledges a message whose effects are stored.
async fn acknowledge(context: &Context, acker: &Acker) -> Result<(), async_nats::Error> {
    acker.ack().await?;
    if let Some(acked) = Point::acked(context.role) {
        fault::point(acked);
    }
    Ok(())
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
        Ok(_) => {
            fault::point(Point::DeadLetterStored);
            acker.ack_with(AckKind::Term).await
        }
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
    fn a_newer_version_is_waited_for_as_often_as_is_borne() {
        let newer = || tidemill_codec::Error::UnknownVersion {
            name: "completion",
            found: 2,
            known: 1,
        };
        let left = |delivered| Failure::left_to_newer(&newer().into(), delivered);
        let first = left(1).map(|failure| (failure.class, failure.pause));
        assert_eq!(first, Some((Class::Transient, Some(LONGEST_PAUSE))));
        assert!(left(MOST_DELIVERIES - 1).is_some());
        assert!(left(MOST_DELIVERIES).is_none());
        let foreign = tidemill_codec::Error::Foreign { length: 0 };
        assert!(Failure::left_to_newer(&foreign.into(), 1).is_none());
    }

    #[test]
    fn a_bug_is_given_up_at_last_and_a_passing_failure_never() {
        let decide = |class, delivered| decide(&Failure::new(class, ""), delivered);
        assert_eq!(decide(Class::Bug, MOST_DELIVERIES - 1), Action::Leave);
        assert_eq!(decide(Class::Bug, MOST_DELIVERIES), Action::Bury);
        assert_eq!(decide(Class::Permanent, 1), Action::Bury);
        assert_eq!(decide(Class::Transient, 100_000), Action::Nak(Some(LONGEST_PAUSE)));
        assert_eq!(decide(Class::Cancelled, 100_000), Action::Nak(None));
    }

    #[test]
    fn reasons_fit_a_header() {
        assert_eq!(one_line("a\r\nb"), "a  b");
    }
}
