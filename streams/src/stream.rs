//! What a stream declaration says.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};

/// How long messages stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// Until the stream's limits; any number of readers, replayable.
    Limits,
    /// Until acknowledged; one reader.
    WorkQueue,
    /// Until the stream is full: then the oldest go, and nobody waits. One message a subject.
    Cache,
}

/// A declared stream. All are file-backed, and all but a cache refuse new messages when full: producers wait, nothing is
/// dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Its name.
    pub name: &'static str,
    /// The subjects it captures.
    pub subjects: &'static [&'static str],
    /// What one message is.
    pub purpose: &'static str,
    /// Who writes it.
    pub producer: &'static str,
    /// Who reads it.
    pub consumer: &'static str,
    /// How long messages stay.
    pub retention: Retention,
    /// Most messages of one subject; a further one is refused (work queues) or replaces the oldest.
    pub max_messages_per_subject: Option<i64>,
    /// Most bytes.
    pub max_bytes: i64,
    /// Longest stay.
    pub max_age: Option<Duration>,
    /// Most consumers.
    pub max_consumers: i32,
    /// Single messages may expire earlier.
    pub message_ttl: bool,
}

impl Stream {
    /// The server's configuration of this stream on `replicas` nodes.
    #[must_use]
    pub fn config(&self, replicas: usize) -> Config {
        let work_queue = self.retention == Retention::WorkQueue;
        Config {
            name: self.name.to_owned(),
            subjects: self.subjects.iter().map(|subject| (*subject).to_owned()).collect(),
            description: Some(self.purpose.to_owned()),
            retention: match self.retention {
                Retention::Limits | Retention::Cache => RetentionPolicy::Limits,
                Retention::WorkQueue => RetentionPolicy::WorkQueue,
            },
            storage: StorageType::File,
            discard: match self.retention {
                Retention::Cache => DiscardPolicy::Old,
                Retention::Limits | Retention::WorkQueue => DiscardPolicy::New,
            },
            discard_new_per_subject: work_queue,
            max_messages: -1,
            max_messages_per_subject: self.max_messages_per_subject.unwrap_or(-1),
            max_bytes: self.max_bytes,
            max_age: self.max_age.unwrap_or_default(),
            max_message_size: -1,
            max_consumers: self.max_consumers,
            num_replicas: replicas,
            allow_direct: true,
            allow_message_ttl: self.message_ttl,
            ..Config::default()
        }
    }
}
