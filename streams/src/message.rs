//! Which type is published where: a message knows its own subject, so the wrong one does not compile.

use tidemill_codec::encode;
use tidemill_domain::{
    BenchmarkName, CheckpointEvent, Completion, EvaluationEvent, Grade, GroupId, Release, ResultMessage,
};

use crate::{Stream, declared, subject};

/// A message of one of the declared streams.
pub trait Message {
    /// The stream that holds it.
    const STREAM: Stream;
    /// The first message of a subject wins; a second one is refused.
    const FIRST_WRITE_WINS: bool;

    /// The subject it is published on.
    fn subject(&self) -> String;

    /// Its bytes.
    ///
    /// # Errors
    /// When the value cannot be encoded.
    fn payload(&self) -> Result<Vec<u8>, tidemill_codec::Error>;
}

fn json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, tidemill_codec::Error> {
    serde_json::to_vec(value).map_err(|error| tidemill_codec::Error::Encode(error.to_string()))
}

/// A checkpoint event.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointMessage(pub CheckpointEvent);

impl Message for CheckpointMessage {
    const STREAM: Stream = declared::CHECKPOINT;
    const FIRST_WRITE_WINS: bool = false;

    fn subject(&self) -> String {
        match &self.0 {
            CheckpointEvent::Written(event) => subject::checkpoint_written(&event.run),
            CheckpointEvent::RolledBack(event) => subject::checkpoint_rolled_back(&event.run),
        }
    }

    fn payload(&self) -> Result<Vec<u8>, tidemill_codec::Error> {
        match &self.0 {
            CheckpointEvent::Written(event) => json(event),
            CheckpointEvent::RolledBack(event) => json(event),
        }
    }
}

/// A state change of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct StateChange(pub EvaluationEvent);

impl Message for StateChange {
    const STREAM: Stream = declared::EVALUATION;
    const FIRST_WRITE_WINS: bool = false;

    fn subject(&self) -> String {
        subject::evaluation(&self.0.evaluation, self.0.state)
    }

    fn payload(&self) -> Result<Vec<u8>, tidemill_codec::Error> {
        json(&self.0)
    }
}

/// Reads a message of the EVALUATION stream; `None` when it is no event, or one of another evaluation or state than its
/// subject says.
#[must_use]
pub fn evaluation_event(on: &str, payload: &[u8]) -> Option<EvaluationEvent> {
    let event: EvaluationEvent = serde_json::from_slice(payload).ok()?;
    (subject::evaluation(&event.evaluation, event.state) == on).then_some(event)
}

/// A release to a group. READY keeps one message a subject, so a second release of a waiting item is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Released {
    /// The group that may take it.
    pub group: GroupId,
    /// What is released.
    pub release: Release,
}

impl Message for Released {
    const STREAM: Stream = declared::READY;
    const FIRST_WRITE_WINS: bool = false;

    fn subject(&self) -> String {
        subject::ready(&self.group, &self.release.key)
    }

    fn payload(&self) -> Result<Vec<u8>, tidemill_codec::Error> {
        encode(&self.release)
    }
}

impl Message for Completion {
    const STREAM: Stream = declared::DONE;
    const FIRST_WRITE_WINS: bool = true;

    fn subject(&self) -> String {
        subject::done(&self.key)
    }

    fn payload(&self) -> Result<Vec<u8>, tidemill_codec::Error> {
        encode(self)
    }
}

impl Message for Grade {
    const STREAM: Stream = declared::GRADE;
    const FIRST_WRITE_WINS: bool = true;

    fn subject(&self) -> String {
        subject::grade(&self.key)
    }

    fn payload(&self) -> Result<Vec<u8>, tidemill_codec::Error> {
        encode(self)
    }
}

/// A result of one benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultSnapshot {
    /// The benchmark it is about.
    pub benchmark: BenchmarkName,
    /// The message.
    pub message: ResultMessage,
}

impl Message for ResultSnapshot {
    const STREAM: Stream = declared::RESULT;
    const FIRST_WRITE_WINS: bool = false;

    fn subject(&self) -> String {
        let result = &self.message.result;
        subject::result(&result.team, &result.run, &result.suite.name, self.benchmark.as_str())
    }

    fn payload(&self) -> Result<Vec<u8>, tidemill_codec::Error> {
        json(&self.message)
    }
}

/// A message that could not be processed, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The service that gave it up.
    pub stage: &'static str,
    /// Its bytes.
    pub payload: Vec<u8>,
}

impl Message for DeadLetter {
    const STREAM: Stream = declared::DEAD;
    const FIRST_WRITE_WINS: bool = false;

    fn subject(&self) -> String {
        subject::dead(self.stage)
    }

    fn payload(&self) -> Result<Vec<u8>, tidemill_codec::Error> {
        Ok(self.payload.clone())
    }
}
