//! The record that says where an evaluation's items are: one entry of the bucket `tm_archive`.

use async_nats::jetstream::kv;
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use tidemill_domain::{Digest, EvaluationEvent, EvaluationId, Timestamp};
use tidemill_service::{Context, leader};
use tidemill_streams::buckets;

use crate::Error;

/// How far an evaluation is on its way out of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not archived yet, because of the record's failure. The streams hold everything.
    Waiting,
    /// The archive is whole and the streams still hold everything.
    Archived,
    /// The archive is whole; the streams may hold a part.
    Purging,
    /// The archive is whole, and the streams hold nothing of it.
    Purged,
    /// There was nothing to archive.
    Empty,
    /// Announced again: the streams hold everything again.
    Reopened,
}

impl State {
    /// The state's name in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Archived => "archived",
            Self::Purging => "purging",
            Self::Purged => "purged",
            Self::Empty => "empty",
            Self::Reopened => "reopened",
        }
    }
}

/// What an archive holds, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The archive's folder in the object store.
    pub folder: String,
    /// The digest of `archive.json` in it.
    pub index: Digest,
    /// Declared samples: one row each.
    pub rows: u64,
    /// Rows with a completion.
    pub completions: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// The last message of DONE that the archive may hold.
    pub done_through: u64,
    /// The last message of GRADE that the archive may hold.
    pub grade_through: u64,
}

/// Where the items of an evaluation are.
///
/// It belongs to one life of the evaluation, told by the time at which that was queued: an evaluation that is announced
/// again has another one, and this record does not count for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this shape; 1.
    pub schema: u32,
    /// The evaluation.
    pub evaluation: EvaluationId,
    /// The life it belongs to.
    pub queued: Timestamp,
    /// How far it is.
    pub state: State,
    /// When this state was entered.
    pub at: Timestamp,
    /// Why the next state could not be reached at the last try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The archive, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<Stored>,
}

impl Record {
    /// A first record of an evaluation's life.
    #[must_use]
    pub fn new(event: &EvaluationEvent, state: State, at: Timestamp, stored: Option<Stored>) -> Self {
        Self {
            schema: 1,
            evaluation: event.evaluation.clone(),
            queued: event.life(),
            state,
            at,
            failure: None,
            stored,
        }
    }

    /// The same record in another state.
    #[must_use]
    pub fn enter(&self, state: State, at: Timestamp) -> Self {
        Self {
            state,
            at,
            failure: None,
            ..self.clone()
        }
    }

    /// It is about this life of the evaluation.
    #[must_use]
    pub fn is_of(&self, event: &EvaluationEvent) -> bool {
        self.queued == event.life()
    }

    /// It is about a later life of the evaluation: this event decides nothing any more.
    #[must_use]
    pub fn is_after(&self, event: &EvaluationEvent) -> bool {
        self.queued > event.life()
    }

    /// The archive that is to be read instead of the streams, for an evaluation whose newest event this is.
    #[must_use]
    pub fn counts(&self, event: &EvaluationEvent) -> Option<&Stored> {
        let is_whole = matches!(self.state, State::Archived | State::Purging | State::Purged);
        let stored = self.stored.as_ref()?;
        (is_whole && event.state.is_ended() && self.is_of(event)).then_some(stored)
    }
}

/// A record as it was read, with the revision that a change of it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The record.
    pub record: Record,
    /// Its revision.
    pub revision: u64,
}

/// The records of all evaluations.
#[derive(Debug, Clone)]
pub struct Records {
    bucket: kv::Store,
}

impl Records {
    /// Opens the bucket.
    ///
    /// # Errors
    /// [`Error::Broker`].
    pub async fn open(context: &Context) -> Result<Self, Error> {
        let name = buckets::ARCHIVE.name;
        let bucket = context.jetstream().get_key_value(name).await;
        Ok(Self {
            bucket: bucket.map_err(|error| Error::broker("open bucket", name, &error))?,
        })
    }

    /// The record of an evaluation; `None` when it has none.
    ///
    /// # Errors
    /// [`Error::Broker`]; [`Error::Damaged`] when it does not parse.
    pub async fn get(&self, evaluation: &EvaluationId) -> Result<Option<Known>, Error> {
        // Of the leader: what was done last decides what may be purged.
        let entry = leader::entry(&self.bucket, evaluation.as_str()).await;
        let entry =
            entry.map_err(|error| Error::broker("read the record of evaluation", evaluation.as_str(), &error))?;
        entry.map(|entry| known(evaluation, &entry)).transpose()
    }

    /// Writes a record over the one that was read, or as the first one.
    ///
    /// # Errors
    /// [`Error::Outrun`] when another process wrote meanwhile, else [`Error::Broker`].
    pub async fn put(&self, record: Record, before: Option<&Known>) -> Result<Known, Error> {
        let evaluation = record.evaluation.clone();
        let bytes = serde_json::to_vec(&record).map_err(|error| Error::Encode(error.to_string()))?;
        let written = match before {
            Some(before) => self
                .bucket
                .update(evaluation.as_str(), bytes.into(), before.revision)
                .await
                .map_err(|error| {
                    (
                        error.kind() == kv::UpdateErrorKind::WrongLastRevision,
                        error.to_string(),
                    )
                }),
            None => self
                .bucket
                .create(evaluation.as_str(), bytes.into())
                .await
                .map_err(|error| (error.kind() == kv::CreateErrorKind::AlreadyExists, error.to_string())),
        };
        match written {
            Ok(revision) => Ok(Known { record, revision }),
            // The answer to an earlier try may be what was lost.
            Err((is_outrun, reason)) => match self.get(&evaluation).await {
                Ok(Some(known)) if known.record == record => Ok(known),
                // Whoever cannot look does not know that another one wrote.
                Ok(_) if is_outrun => Err(Error::Outrun { evaluation }),
                _ => Err(Error::broker(
                    "write the record of evaluation",
                    evaluation.as_str(),
                    &reason,
                )),
            },
        }
    }

    /// Every record.
    ///
    /// # Errors
    /// [`Error::Broker`].
    pub async fn all(&self) -> Result<Vec<Known>, Error> {
        let failed =
            |error: &dyn std::fmt::Display| Error::broker("list the records of bucket", buckets::ARCHIVE.name, error);
        let mut keys = self.bucket.keys().await.map_err(|error| failed(&error))?;
        let mut records = Vec::new();
        while let Some(key) = keys.next().await {
            let key = key.map_err(|error| failed(&error))?;
            let Ok(evaluation) = key.parse::<EvaluationId>() else {
                tracing::warn!(key, "a record that is of no evaluation");
                continue;
            };
            records.extend(self.get(&evaluation).await?);
        }
        Ok(records)
    }
}

fn known(evaluation: &EvaluationId, entry: &leader::Value) -> Result<Known, Error> {
    let place = format!("{}/{evaluation}", buckets::ARCHIVE.name);
    let record: Record = serde_json::from_slice(&entry.value).map_err(|error| {
        let detail = format!(
            "{error}; put its earlier value back (`nats kv history {bucket} {evaluation}`), or delete the key (`nats kv del \
             {bucket} {evaluation}`), after which what only the archive held is evaluated anew; then announce it again",
            bucket = buckets::ARCHIVE.name
        );
        Error::damaged(&place, detail)
    })?;
    if record.schema != 1 {
        let detail = format!("its schema is {}; this version knows 1: upgrade", record.schema);
        return Err(Error::damaged(&place, detail));
    }
    Ok(Known {
        record,
        revision: entry.revision,
    })
}
