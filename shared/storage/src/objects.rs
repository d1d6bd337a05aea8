//! Objects under the digest of their content: what they are called, how they are packed, and how damage shows.

use std::fmt;

use tidemill_codec::{Envelope, Wire};
use tidemill_domain::Digest;

use crate::{Error, Store};

/// A kind of object that is stored under its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A rendered suite without its items.
    Manifest,
    /// Neighbouring items.
    Block,
    /// The clusters of a benchmark's items.
    Clusters,
    /// What order needs to know of a block.
    Outline,
    /// The subsets of a benchmark's items.
    Subsets,
    /// The weights of a benchmark's items.
    Weights,
}

impl Kind {
    /// The key of an object of this kind.
    #[must_use]
    pub fn key(self, digest: &Digest) -> String {
        let folder = match self {
            Self::Manifest => "manifests",
            Self::Block => "blocks",
            Self::Clusters => "clusters",
            Self::Outline => "outlines",
            Self::Subsets => "subsets",
            Self::Weights => "weights",
        };
        format!("{folder}/{}.zst", digest.hex())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Manifest => "manifest",
            Self::Block => "block of items",
            Self::Clusters => "clusters",
            Self::Outline => "outline of a block",
            Self::Subsets => "subsets",
            Self::Weights => "weights",
        })
    }
}

const COMPRESSION_LEVEL: i32 = 3;

/// Encodes and compresses a value. Its digest is of the bytes before compression.
pub(crate) fn sealed<T: Wire>(kind: Kind, value: &T) -> Result<(Digest, Vec<u8>), Error> {
    let bytes = tidemill_codec::encode(value)?;
    let digest = Digest::of(&bytes);
    match zstd::bulk::compress(&bytes, COMPRESSION_LEVEL) {
        Ok(compressed) => Ok((digest, compressed)),
        Err(error) => Err(damaged(kind, &digest, error.to_string())),
    }
}

fn opened(kind: Kind, digest: &Digest, compressed: &[u8]) -> Result<Vec<u8>, Error> {
    let bytes = zstd::stream::decode_all(compressed).map_err(|error| damaged(kind, digest, error.to_string()))?;
    if Digest::of(&bytes) != *digest {
        return Err(damaged(kind, digest, "its content has another digest".to_owned()));
    }
    Ok(bytes)
}

fn damaged(what: Kind, digest: &Digest, detail: String) -> Error {
    Error::Damaged {
        what,
        digest: digest.clone(),
        detail,
    }
}

/// The bytes of an object, unpacked and proved, and the version in which they are written.
pub(crate) struct Opened {
    pub(crate) version: u16,
    pub(crate) bytes: Vec<u8>,
}

impl Store {
    /// Reads an object and proves its digest, on a thread that may take its time.
    pub(crate) async fn open_object(&self, kind: Kind, digest: &Digest) -> Result<Opened, Error> {
        let compressed = self.get(&kind.key(digest)).await?;
        let named = digest.clone();
        let bytes = tokio::task::spawn_blocking(move || opened(kind, &named, &compressed))
            .await
            .map_err(|error| Error::Interrupted(error.to_string()))??;
        let version = Envelope::open(&bytes)?.version;
        Ok(Opened { version, bytes })
    }

    pub(crate) async fn sealed_object<T>(&self, kind: Kind, digest: &Digest) -> Result<T, Error>
    where
        T: Wire + Send + 'static,
    {
        let opened = self.open_object(kind, digest).await?;
        let decoded = tokio::task::spawn_blocking(move || tidemill_codec::decode::<T>(&opened.bytes)).await;
        Ok(decoded.map_err(|error| Error::Interrupted(error.to_string()))??)
    }
}
