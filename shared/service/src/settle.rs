//! What happens to a message after it was handled: the one place where a failure's class becomes an action.

use std::time::Duration;

use async_nats::jetstream::AckKind;
use async_nats::jetstream::message::Acker;
use bytes::Bytes;
use tidemill_domain::{Class, TraceContext};
use tidemill_streams::{Stream, durable, subject};
use tidemill_telemetry::{Metric, Warning};

use crate::fault::{self, Point};
use crate::{Context, PublishError, dead, failures};

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

/// Failures after which a message that ends in a bug is given up.
pub const MOST_FAILURES: u32 = 5;

/// How often a message that only a newer version understands is given back before it is held as a dead letter. Many and
/// quick, because each time the chance that a newer process gets it is only that process's share of all.
pub const MOST_TIMES_LEFT: u32 = 100;

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

    /// Work given back for want of room, to come again after the pause: no failure, and not counted as one.
    #[must_use]
    pub fn later(reason: impl Into<String>, pause: Duration) -> Self {
        Self {
            pause: Some(pause),
            ..Self::new(Class::Cancelled, reason)
        }
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
        let class = match error {
            tidemill_codec::Error::UnknownVersion { .. } => Class::Newer,
            _ => Class::Permanent,
        };
        Self::of(class, &error)
    }
}

/// How a handler ended: its effects are stored, or it failed.
pub type Settled = Result<(), Failure>;

/// Longest pause before a message that failed is delivered again.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Shortest and longest pause of a message that is left to newer processes.
const NEWER_PAUSES: (Duration, Duration) = (Duration::from_millis(10), LONGEST_PAUSE);

/// The pause after so many failures: doubles from 100 ms. A message that waits keeps its place among the unacknowledged
/// ones, so pauses stay short.
fn pause(failures: u32) -> Duration {
    let doublings = failures.clamp(1, 8) - 1;
    (Duration::from_millis(100) * 2_u32.pow(doublings)).min(LONGEST_PAUSE)
}

/// What is sent to the broker for a message that was handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Its effects are stored: it is acknowledged.
    Ack,
    /// It is given back, to be delivered again after the pause; `None`: at once.
    Nak(Option<Duration>),
    /// It is given up: its outcome is recorded, it becomes a dead letter, and it is terminated when that is stored.
    Bury,
    /// As [`Action::Bury`], without an outcome: its item stays open until an operator retries or drops the letter.
    Hold,
    /// Nothing: the broker delivers it again after `ack_wait`.
    Leave,
}

impl Action {
    /// What is sent when there is another connection than the message came on. A broker that was started again may have
    /// forgotten this delivery and given the message to somebody else, out of whose hands giving it back would take it: that
    /// is left to `ack_wait`. The others are of effects that are stored, whoever has the message.
    #[must_use]
    pub const fn over_another_connection(self) -> Self {
        match self {
            Self::Nak(_) => Self::Leave,
            Self::Ack | Self::Bury | Self::Hold | Self::Leave => self,
        }
    }
}

/// What a failure of this class does to its message, which failed so often and was delivered so often, this time
/// included in both.
///
/// Failures decide. Deliveries do not: a kill or a preemption uses one up and says nothing about the message. They matter at
/// the last one that the broker makes alone, after which the message would lie in its stream unseen.
#[must_use]
pub fn decide(class: Class, failures: u32, deliveries: i64) -> Action {
    match class {
        Class::Permanent => Action::Bury,
        Class::Bug if failures >= MOST_FAILURES => Action::Bury,
        Class::Newer if failures >= MOST_TIMES_LEFT => Action::Hold,
        _ if deliveries >= durable::MAX_DELIVER => Action::Hold,
        Class::Transient | Class::Newer => Action::Nak(Some(pause(failures))),
        Class::Cancelled => Action::Nak(None),
        Class::Bug => Action::Leave,
    }
}

/// A handler's outcome, with what settling it needs.
pub(crate) struct Handled {
    pub(crate) stream: Stream,
    pub(crate) sequence: u64,
    pub(crate) subject: String,
    pub(crate) payload: Bytes,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) delivered: i64,
    /// The broker's connection that it came on.
    pub(crate) connection: u64,
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
        Ok(()) => acknowledge(context, acker).await,
        Err(failure) => settle_failure(context, &handled, failure, acker).await,
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

/// Whether a line about one message is logged: thousands of an evaluation may fail alike.
pub(crate) fn is_said(message: &'static str, subject: &str, reason: &str) -> bool {
    let key = subject::key_of(subject);
    tidemill_telemetry::is_said(Warning {
        message,
        scope: key.as_ref().map_or(subject, |key| key.evaluation.as_str()),
        reason,
    })
}

async fn settle_failure(
    context: &Context,
    handled: &Handled,
    failure: &Failure,
    acker: &Acker,
) -> Result<(), async_nats::Error> {
    let failures = match failure.class {
        // Decided without a count, and a cancellation is no failure.
        Class::Permanent | Class::Cancelled => 0,
        Class::Transient | Class::Newer | Class::Bug => {
            failures::count(context, handled.stream.name, handled.sequence).await
        }
    };
    let (subject, reason, delivered) = (&handled.subject, &failure.reason, handled.delivered);
    let mut action = decide(failure.class, failures, delivered);
    if *context.broker.connections.borrow() != handled.connection {
        action = action.over_another_connection();
    }
    match action {
        Action::Ack => acknowledge(context, acker).await,
        Action::Nak(by_count) => {
            if failure.class != Class::Cancelled && is_said("will be tried again", subject, reason) {
                tracing::warn!(subject, reason, failures, delivered, "will be tried again");
            }
            let newer = context.config.service.newer_patience / MOST_TIMES_LEFT;
            let pause = match failure.class {
                Class::Newer => Some(newer.clamp(NEWER_PAUSES.0, NEWER_PAUSES.1)),
                _ => failure.pause.or(by_count),
            };
            acker.ack_with(AckKind::Nak(pause)).await
        }
        Action::Leave if failure.class == Class::Bug => {
            if is_said("a bug: left for redelivery", subject, reason) {
                tracing::error!(subject, reason, failures, delivered, "a bug: left for redelivery");
            }
            Ok(())
        }
        Action::Leave => {
            tracing::debug!(
                subject,
                reason,
                "left for redelivery: the broker may have forgotten this one"
            );
            Ok(())
        }
        Action::Bury | Action::Hold => {
            let is_held = action == Action::Hold;
            if let Err(why) = dead::bury(context, handled, failure, failures, is_held).await {
                let why = why.to_string();
                if is_said("a dead letter or its outcome is not stored", subject, &why) {
                    tracing::warn!(
                        subject,
                        reason,
                        why,
                        "its dead letter or its outcome is not stored; tried again at its next delivery"
                    );
                }
                return Ok(());
            }
            fault::point(Point::DeadLetterStored);
            acker.ack_with(AckKind::Term).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_short() {
        assert_eq!(pause(1), Duration::from_millis(100));
        assert_eq!(pause(2), Duration::from_millis(200));
        assert_eq!(pause(1_000), LONGEST_PAUSE);
        assert_eq!(pause(0), Duration::from_millis(100));
    }

    #[test]
    fn failures_decide_and_deliveries_do_not() {
        let far = durable::MAX_DELIVER - 1;
        assert_eq!(decide(Class::Bug, 1, far), Action::Leave);
        assert_eq!(decide(Class::Bug, MOST_FAILURES - 1, far), Action::Leave);
        assert_eq!(decide(Class::Bug, MOST_FAILURES, 1), Action::Bury);
        assert_eq!(decide(Class::Permanent, 0, 1), Action::Bury);
        assert_eq!(decide(Class::Transient, 100_000, far), Action::Nak(Some(LONGEST_PAUSE)));
        assert_eq!(decide(Class::Cancelled, 0, far), Action::Nak(None));
    }

    #[test]
    fn a_delivery_that_the_broker_may_have_forgotten_is_not_given_back() {
        for class in [Class::Cancelled, Class::Transient, Class::Newer] {
            let action = decide(class, 1, 1);
            assert!(matches!(action, Action::Nak(_)), "{class:?}");
            assert_eq!(action.over_another_connection(), Action::Leave, "{class:?}");
        }
        for kept in [Action::Ack, Action::Bury, Action::Hold, Action::Leave] {
            assert_eq!(kept.over_another_connection(), kept);
        }
    }

    #[test]
    fn what_a_newer_version_wrote_is_given_back_and_then_held_open() {
        assert!(matches!(decide(Class::Newer, 1, 1), Action::Nak(Some(_))));
        assert!(matches!(
            decide(Class::Newer, MOST_TIMES_LEFT - 1, 5_000),
            Action::Nak(_)
        ));
        assert_eq!(decide(Class::Newer, MOST_TIMES_LEFT, 1), Action::Hold);
        let newer = tidemill_codec::Error::UnknownVersion {
            name: "completion",
            found: 2,
            known: 1,
        };
        assert_eq!(Failure::from(newer).class, Class::Newer);
        let foreign = tidemill_codec::Error::Foreign { length: 0 };
        assert_eq!(Failure::from(foreign).class, Class::Permanent);
    }

    #[test]
    fn the_last_delivery_of_all_is_not_given_back() {
        for class in [Class::Transient, Class::Cancelled, Class::Newer, Class::Bug] {
            assert_eq!(decide(class, 1, durable::MAX_DELIVER), Action::Hold, "{class:?}");
        }
        assert_eq!(decide(Class::Permanent, 1, durable::MAX_DELIVER), Action::Bury);
    }
}
