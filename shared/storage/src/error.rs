//! What can go wrong with the object store.

use tidemill_domain::{Class, Digest};

use crate::Kind;

/// A failure of the object store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not one of a store.
    #[error("{address:?} is not an object store: use file:///path or s3://bucket/prefix{detail}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The store failed.
    #[error("{action} {key} in the object store: {source}")]
    Access {
        /// What was tried.
        action: &'static str,
        /// On which key.
        key: String,
        /// What came back.
        source: object_store::Error,
    },
    /// There is nothing under this key.
    #[error("{key} is not in the object store at {address}: is every service configured with the same store?")]
    Missing {
        /// The key.
        key: String,
        /// The store.
        address: String,
    },
    /// What is there is not what its key says.
    #[error("{what} {digest} in the object store is damaged: {detail}; run `tidemill evaluate` again to write it anew")]
    Damaged {
        /// What it is.
        what: Kind,
        /// Its digest.
        digest: Digest,
        /// How it shows.
        detail: String,
    },
    /// The thread that read or wrote died.
    #[error("the object store was not read or written to the end: {0}")]
    Interrupted(String),
    /// A message or manifest that does not decode.
    #[error(transparent)]
    Codec(#[from] tidemill_codec::Error),
}

impl Error {
    /// The store failed, as opposed to what is in it: it is full, away or may not be used. Waiting may help.
    #[must_use]
    pub const fn is_of_the_store(&self) -> bool {
        matches!(self, Self::Access { .. })
    }

    /// Whether trying again may help.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::Access { .. } | Self::Missing { .. } | Self::Interrupted(_) => Class::Transient,
            Self::Codec(tidemill_codec::Error::UnknownVersion { .. }) => Class::Newer,
            Self::Address { .. } | Self::Damaged { .. } | Self::Codec(_) => Class::Permanent,
        }
    }
}
