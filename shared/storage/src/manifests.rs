//! Manifests: written once under their digest, read by every service, cached while in use.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_domain::{Digest, Manifest};

use crate::{Error, Store};

/// Manifests kept in memory. One evaluation needs one; a sweep over many suites alternates between a few.
const CACHED: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Manifests {
    recent: Mutex<VecDeque<(Digest, Arc<Manifest>)>>,
    reading: tokio::sync::Mutex<()>,
}

impl Manifests {
    fn cached(&self, digest: &Digest) -> Option<Arc<Manifest>> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent
            .iter()
            .find(|(cached, _)| cached == digest)
            .map(|(_, manifest)| Arc::clone(manifest))
    }

    fn keep(&self, digest: Digest, manifest: Arc<Manifest>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|(cached, _)| *cached != digest);
        recent.push_front((digest, manifest));
        recent.truncate(CACHED);
    }
}

fn key(digest: &Digest) -> String {
    format!("manifests/{}.zst", digest.hex())
}

const COMPRESSION_LEVEL: i32 = 3;

impl Store {
    /// Writes a manifest and returns its digest, under which [`Store::manifest`] finds it.
    ///
    /// # Errors
    /// [`Error::Access`].
    pub async fn put_manifest(&self, manifest: Manifest) -> Result<Digest, Error> {
        let bytes = tidemill_codec::encode(&manifest)?;
        let digest = Digest::of(&bytes);
        let compressed = zstd::bulk::compress(&bytes, COMPRESSION_LEVEL).map_err(|error| Error::Damaged {
            digest: digest.clone(),
            detail: error.to_string(),
        })?;
        self.put(&key(&digest), compressed).await?;
        self.manifests.keep(digest.clone(), Arc::new(manifest));
        Ok(digest)
    }

    /// The manifest of a digest. At most one caller reads it from the store, the others wait for that.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Access`], [`Error::Damaged`] or [`Error::Codec`].
    pub async fn manifest(&self, digest: &Digest) -> Result<Arc<Manifest>, Error> {
        if let Some(manifest) = self.manifests.cached(digest) {
            return Ok(manifest);
        }
        let _reading = self.manifests.reading.lock().await;
        if let Some(manifest) = self.manifests.cached(digest) {
            return Ok(manifest);
        }
        let compressed = self.get(&key(digest)).await?;
        let damaged = |detail: String| Error::Damaged {
            digest: digest.clone(),
            detail,
        };
        let bytes = zstd::stream::decode_all(compressed.as_slice()).map_err(|error| damaged(error.to_string()))?;
        if Digest::of(&bytes) != *digest {
            return Err(damaged("its content has another digest".to_owned()));
        }
        let manifest = Arc::new(tidemill_codec::decode::<Manifest>(&bytes)?);
        self.manifests.keep(digest.clone(), Arc::clone(&manifest));
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use tidemill_domain::{SuiteName, SuiteRef, Tier};

    fn manifest(version: &str) -> Manifest {
        let suite = SuiteRef {
            name: SuiteName::try_new("s").unwrap(),
            version: version.to_owned(),
            tier: Tier::InTraining,
        };
        Manifest {
            suite,
            max_failure_rate: 0.02,
            benchmarks: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_manifest_is_found_by_its_digest_from_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let digest = Store::open(Address::of_folder(folder.path()))
            .unwrap()
            .put_manifest(manifest("1"))
            .await
            .unwrap();
        let other = Store::open(Address::of_folder(folder.path())).unwrap();
        assert_eq!(*other.manifest(&digest).await.unwrap(), manifest("1"));
        let missing = other.manifest(&Digest::of(b"none")).await.unwrap_err();
        assert!(matches!(missing, Error::Missing { .. }), "{missing}");
    }

    #[tokio::test]
    async fn a_manifest_with_other_content_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Address::of_folder(folder.path())).unwrap();
        let (one, two) = (
            store.put_manifest(manifest("1")).await.unwrap(),
            store.put_manifest(manifest("2")).await.unwrap(),
        );
        let swapped = store.get(&key(&two)).await.unwrap();
        store.put(&key(&one), swapped).await.unwrap();
        let fresh = Store::open(Address::of_folder(folder.path())).unwrap();
        assert!(matches!(fresh.manifest(&one).await.unwrap_err(), Error::Damaged { .. }));
    }
}
