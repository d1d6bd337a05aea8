//! Why items could not be read, archived or purged.

use tidemill_domain::{Class, EvaluationId};

/// A failure of an archive.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object store failed, or does not hold what it should.
    #[error(transparent)]
    Storage(#[from] tidemill_storage::Error),
    /// The broker failed.
    #[error("{action} {what}: {reason}")]
    Broker {
        /// What was tried.
        action: &'static str,
        /// On what.
        what: String,
        /// The broker's word.
        reason: String,
    },
    /// A file of an archive is not what was written.
    #[error("{file} of the archive is damaged: {detail}")]
    Damaged {
        /// The file's key in the object store.
        file: String,
        /// How it shows.
        detail: String,
    },
    /// A file could not be made.
    #[error("make an archive's file: {0}")]
    Encode(String),
    /// Messages went while they were read: the evaluation was archived and purged meanwhile.
    #[error("items of evaluation {evaluation} left the broker while they were read")]
    Vanished {
        /// Whose.
        evaluation: EvaluationId,
    },
    /// Another process wrote the record of this evaluation first.
    #[error("another process changed the archive of evaluation {evaluation} meanwhile")]
    Outrun {
        /// Whose.
        evaluation: EvaluationId,
    },
    /// A message could not be put back.
    #[error(transparent)]
    Publish(#[from] tidemill_service::PublishError),
}

impl Error {
    /// Whether trying again may help.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::Storage(error) => error.class(),
            Self::Broker { .. } | Self::Vanished { .. } | Self::Outrun { .. } => Class::Transient,
            Self::Damaged { .. } => Class::Permanent,
            Self::Encode(_) => Class::Bug,
            Self::Publish(error) => error.class(),
        }
    }

    pub(crate) fn broker(action: &'static str, what: impl Into<String>, error: &dyn std::fmt::Display) -> Self {
        Self::Broker {
            action,
            what: what.into(),
            reason: error.to_string(),
        }
    }

    pub(crate) fn damaged(file: &str, detail: impl Into<String>) -> Self {
        Self::Damaged {
            file: file.to_owned(),
            detail: detail.into(),
        }
    }
}
