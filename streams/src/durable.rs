//! The durable consumers: whose progress the broker keeps.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use tidemill_domain::GroupId;

use crate::{Stream, declared, subject};

/// A declared durable pull consumer, shared by all processes of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable {
    /// The stream it reads.
    pub stream: Stream,
    /// Its name.
    pub name: String,
    /// The subjects it gets.
    pub filter: String,
    /// A message that is neither acknowledged nor reported in progress for so long is delivered again.
    pub ack_wait: Duration,
    /// Most messages delivered and not acknowledged, over all processes.
    pub max_ack_pending: i64,
    /// Deliveries after which the broker gives a message no more and says so in an advisory.
    pub max_deliver: i64,
}

/// A distant backstop against a message that ends its process each time, before a failure can be counted: deliveries lost
/// to kills and preemption count as well, so it is far beyond them. At one delivery an `ACK_WAIT` it is reached after
/// two days, at one preemption a minute after a week. The services give a message up long before, by its failures; the
/// broker's advisory of one that gets here is kept in DEAD.
pub const MAX_DELIVER: i64 = 10_000;

/// How long a message stays with a process that fell silent.
pub const ACK_WAIT: Duration = Duration::from_secs(20);

/// Grading takes milliseconds, and what takes longer reports progress: a dead grader's completions come back soon.
pub const GRADER_ACK_WAIT: Duration = Duration::from_secs(6);

/// The loader's intake of checkpoint events.
#[must_use]
pub fn loader() -> Durable {
    Durable {
        stream: declared::CHECKPOINT,
        name: "loader".to_owned(),
        filter: "tm.checkpoint.>".to_owned(),
        ack_wait: ACK_WAIT,
        max_ack_pending: 1_000,
        max_deliver: MAX_DELIVER,
    }
}

/// Most completions at graders or given back by them. More than may be ungraded unless somebody raises that
/// (`[loader] max_ungraded`, 100,000) and what is out besides: however many slow ones graders give back for a while, the
/// completions behind them are delivered.
pub const GRADER_MAX_ACK_PENDING: i64 = 120_000;

/// The graders' intake of completions.
#[must_use]
pub fn grader() -> Durable {
    Durable {
        stream: declared::DONE,
        name: "grader".to_owned(),
        filter: "tm.done.>".to_owned(),
        ack_wait: GRADER_ACK_WAIT,
        max_ack_pending: GRADER_MAX_ACK_PENDING,
        max_deliver: MAX_DELIVER,
    }
}

/// The generators' intake of one server group: as many unacknowledged items as the group has slots.
#[must_use]
pub fn generator(group: &GroupId, slots: u32) -> Durable {
    Durable {
        stream: declared::READY,
        name: format!("generator-{group}"),
        filter: subject::ready_of_group(group),
        ack_wait: ACK_WAIT,
        max_ack_pending: i64::from(slots.max(1)),
        max_deliver: MAX_DELIVER,
    }
}

/// The durables that exist from the start; those of server groups come and go with them.
#[must_use]
pub fn fixed() -> Vec<Durable> {
    vec![loader(), grader()]
}

impl Durable {
    /// The server's configuration of this consumer.
    #[must_use]
    pub fn config(&self) -> pull::Config {
        pull::Config {
            durable_name: Some(self.name.clone()),
            name: Some(self.name.clone()),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.ack_wait,
            max_deliver: self.max_deliver,
            filter_subject: self.filter.clone(),
            max_ack_pending: self.max_ack_pending,
            max_waiting: 10_000,
            ..pull::Config::default()
        }
    }
}
