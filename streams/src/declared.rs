//! The streams.

use std::time::Duration;

use crate::{Retention, Stream};

const fn mib(count: i64) -> i64 {
    count << 20
}

const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 24 * 60 * 60)
}

/// Events from trainers, in JSON, so that they speak it without us.
pub const CHECKPOINT: Stream = Stream {
    name: "CHECKPOINT",
    subjects: &["tm.checkpoint.*.*"],
    purpose: "a checkpoint was written, or a run rolled back (JSON)",
    producer: "trainers, announce, demo",
    consumer: "loader",
    retention: Retention::Limits,
    max_messages_per_subject: None,
    max_bytes: mib(64),
    max_age: Some(days(90)),
    max_consumers: 100,
    message_ttl: false,
};

/// State changes of evaluations, in JSON. The newest event of an evaluation is its state.
pub const EVALUATION: Stream = Stream {
    name: "EVALUATION",
    subjects: &["tm.evaluation.*.*"],
    purpose: "an evaluation changed its state; the last message of `final` and `invalid` holds the whole result (JSON)",
    producer: "loader, aggregator",
    consumer: "loader, aggregator, results, watch",
    retention: Retention::Limits,
    max_messages_per_subject: None,
    max_bytes: mib(256),
    max_age: None,
    max_consumers: 500,
    message_ttl: false,
};

/// Items released to a server group, just ahead of its free slots: keys only. A double release is refused.
pub const READY: Stream = Stream {
    name: "READY",
    subjects: &["tm.ready.*.*.*.*.*"],
    purpose: "an item released to a server group, just ahead of its free slots",
    producer: "loader's dispatcher",
    consumer: "generator: one durable per server group",
    retention: Retention::WorkQueue,
    max_messages_per_subject: Some(1),
    max_bytes: mib(256),
    max_age: None,
    max_consumers: 1_000,
    message_ttl: false,
};

/// Completions. The first write of a key wins, which alone decides that nothing is counted twice.
pub const DONE: Stream = Stream {
    name: "DONE",
    subjects: &["tm.done.*.*.*.*"],
    purpose: "a completion with its ending; the first write of a key wins",
    producer: "generator",
    consumer: "grader (durable), loader's dispatcher, items",
    retention: Retention::Limits,
    max_messages_per_subject: None,
    max_bytes: mib(4_096),
    max_age: None,
    max_consumers: 500,
    message_ttl: false,
};

/// Grades. The first write of a key wins.
pub const GRADE: Stream = Stream {
    name: "GRADE",
    subjects: &["tm.grade.*.*.*.*"],
    purpose: "a grade; the first write of a key wins",
    producer: "grader",
    consumer: "aggregator, items",
    retention: Retention::Limits,
    max_messages_per_subject: None,
    max_bytes: mib(2_048),
    max_age: None,
    max_consumers: 500,
    message_ttl: false,
};

/// Results for analysts, in JSON: provisional snapshots that expire, and final ones that stay.
pub const RESULT: Stream = Stream {
    name: "RESULT",
    subjects: &["tm.result.*.*.*.*"],
    purpose: "the result of one benchmark of one evaluation, provisional (kept an hour) or final (JSON)",
    producer: "aggregator",
    consumer: "analysts, watch, results",
    retention: Retention::Limits,
    max_messages_per_subject: None,
    max_bytes: mib(512),
    max_age: None,
    max_consumers: 900,
    message_ttl: true,
};

/// What could not be processed, with the reason in the header `Tidemill-Reason` and where it came from in
/// `Tidemill-Subject`, `Tidemill-Stream` and `Tidemill-Sequence`. With `Tidemill-Held: true` no outcome is recorded.
///
/// The broker's advisories of messages that reached `max_deliver` are kept here as well: such a message stays in its stream
/// and is delivered no more. Those of terminated messages are not: what is terminated has its letter.
///
/// A letter stays until an operator retries or drops it: one that went by its age would take a held grade with it. When
/// the stream is full, whoever has another letter keeps its message and waits.
pub const DEAD: Stream = Stream {
    name: "DEAD",
    subjects: &["tm.dead.*", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"],
    purpose: "a message that could not be processed, with the reason; or the broker's advisory that one is delivered no more",
    producer: "every service, the broker",
    consumer: "dead, doctor, loader's dispatcher",
    retention: Retention::Limits,
    max_messages_per_subject: None,
    max_bytes: mib(256),
    max_age: None,
    max_consumers: 100,
    message_ttl: false,
};

/// What was generated before, for every evaluation of the same weights. The configuration bounds it; when it is full the
/// oldest generations go. Nothing depends on what is in it but work saved.
pub const CACHE: Stream = Stream {
    name: "CACHE",
    subjects: &["tm.cache.*.*"],
    purpose: "a generation, by server group (identity of the weights) and by what was asked; sealed with a checksum",
    producer: "generator",
    consumer: "generator; loader's dispatcher (subjects alone)",
    retention: Retention::Cache,
    max_messages_per_subject: Some(1),
    max_bytes: mib(1_024),
    max_age: None,
    max_consumers: 500,
    message_ttl: false,
};

/// Every stream, in the order of an item's life.
pub const ALL: [Stream; 8] = [CHECKPOINT, EVALUATION, READY, DONE, GRADE, RESULT, DEAD, CACHE];
