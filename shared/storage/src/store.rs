//! One handle on the object store.

use std::sync::Arc;

use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use tidemill_codec::{Body, Envelope};
use tidemill_domain::{Digest, ItemKey};

use crate::blocks::Blocks;
use crate::claims;
use crate::manifests::Manifests;
use crate::{Address, Error};

/// A cheap handle on the object store, with a bounded cache of the manifests and blocks in use.
#[derive(Debug, Clone)]
pub struct Store {
    address: Address,
    pub(crate) inner: Arc<dyn ObjectStore>,
    pub(crate) manifests: Arc<Manifests>,
    pub(crate) blocks: Arc<Blocks>,
}

/// Bodies above this many bytes travel by claim check, as letters and cached generations do.
pub const CLAIM_ABOVE_BYTES: usize = 256 << 10;

impl Store {
    /// Opens the store at an address; a folder is created.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn open(address: Address) -> Result<Self, Error> {
        Ok(Self {
            inner: address.open()?,
            address,
            manifests: Arc::default(),
            blocks: Arc::default(),
        })
    }

    /// Where this store is.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Reads the object under `key`.
    ///
    /// # Errors
    /// [`Error::Missing`] or [`Error::Access`].
    pub async fn get(&self, key: &str) -> Result<Vec<u8>, Error> {
        let access = |source| self.unreadable(key, source);
        let found = self.inner.get(&Key::from(key)).await.map_err(access)?;
        Ok(found.bytes().await.map_err(access)?.to_vec())
    }

    /// Proves that there is an object under `key`.
    ///
    /// # Errors
    /// [`Error::Missing`] or [`Error::Access`].
    pub async fn prove(&self, key: &str) -> Result<(), Error> {
        let found = self.inner.head(&Key::from(key)).await;
        found.map(drop).map_err(|source| self.unreadable(key, source))
    }

    /// Writes an object; the write is atomic.
    ///
    /// # Errors
    /// [`Error::Access`].
    pub async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), Error> {
        let payload = PutPayload::from(bytes);
        let access = |source| Error::Access {
            action: "write",
            key: key.to_owned(),
            source,
        };
        self.inner.put(&Key::from(key), payload).await.map_err(access)?;
        Ok(())
    }

    fn unreadable(&self, key: &str, source: object_store::Error) -> Error {
        match source {
            object_store::Error::NotFound { .. } => Error::Missing {
                key: key.to_owned(),
                address: self.address.as_str().to_owned(),
            },
            source => Error::Access {
                action: "read",
                key: key.to_owned(),
                source,
            },
        }
    }

    /// Replaces a message that is too large by a claim on the object store; a small one comes back as it is.
    ///
    /// The body lies under its key and its content: two attempts at one key do not overwrite each other, and the one whose
    /// message is not stored can be told later (see [`Store::claims`]).
    ///
    /// # Errors
    /// [`Error::Access`].
    pub async fn check_in<T: tidemill_codec::Wire>(&self, item: &ItemKey, message: Vec<u8>) -> Result<Vec<u8>, Error> {
        if message.len() <= CLAIM_ABOVE_BYTES {
            return Ok(message);
        }
        let key = claims::key(item, &Digest::of(&message));
        self.put(&key, message).await?;
        Ok(tidemill_codec::claim::<T>(&key))
    }

    /// Decodes a message, fetching its body where it was checked in.
    ///
    /// # Errors
    /// [`Error`]; a claim that is missing is transient, a message that does not decode is permanent.
    pub async fn check_out<T: tidemill_codec::Wire>(&self, message: &[u8]) -> Result<T, Error> {
        match Envelope::open(message)?.body {
            Body::Here(_) => Ok(tidemill_codec::decode(message)?),
            Body::Claimed(key) => Ok(tidemill_codec::decode(&self.get(key).await?)?),
        }
    }
}
