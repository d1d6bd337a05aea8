//! Manifests: written once under their digest, read by every service, cached while in use.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_codec::{Wire as _, v1};
use tidemill_domain::{Digest, Manifest, Packer, WholeManifest};

use crate::objects::{Kind, sealed};
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

impl Store {
    /// Writes a manifest whose blocks are stored, and returns its digest, under which [`Store::manifest`] finds it.
    ///
    /// # Errors
    /// [`Error::Access`].
    pub async fn put_manifest(&self, manifest: Manifest) -> Result<Digest, Error> {
        let (digest, object) = sealed(Kind::Manifest, &manifest)?;
        self.put(&Kind::Manifest.key(&digest), object).await?;
        self.manifests.keep(digest.clone(), Arc::new(manifest));
        Ok(digest)
    }

    /// Writes a manifest that is in memory with all its items: its blocks, then itself.
    ///
    /// # Errors
    /// [`Error::Access`].
    pub async fn put_whole(&self, whole: WholeManifest) -> Result<Digest, Error> {
        let manifest = self.split(whole).await?;
        self.put_manifest(manifest).await
    }

    /// The manifest of a digest. At most one caller reads it from the store, the others wait for that.
    ///
    /// One of version 1 has its items in it; they are written to blocks when it is first read, so that later reads are
    /// those of any other.
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
        let opened = self.open_object(Kind::Manifest, digest).await?;
        let manifest = if opened.version == v1::Manifest::VERSION {
            self.split(tidemill_codec::decode::<v1::Manifest>(&opened.bytes)?.into())
                .await?
        } else {
            tidemill_codec::decode::<Manifest>(&opened.bytes)?
        };
        let manifest = Arc::new(manifest);
        self.manifests.keep(digest.clone(), Arc::clone(&manifest));
        Ok(manifest)
    }

    async fn split(&self, mut whole: WholeManifest) -> Result<Manifest, Error> {
        let mut writer = self.block_writer();
        let mut benchmarks = Vec::with_capacity(whole.benchmarks.len());
        for mut benchmark in std::mem::take(&mut whole.benchmarks) {
            let (mut packer, mut blocks) = (Packer::default(), Vec::new());
            for item in std::mem::take(&mut benchmark.items) {
                if let Some((block, end)) = packer.push(item) {
                    blocks.push(writer.block(&block, end).await?);
                }
            }
            if let Some((block, end)) = packer.rest() {
                blocks.push(writer.block(&block, end).await?);
            }
            let items = packer.packed();
            let columns = writer.columns(&packer.columns()).await?;
            benchmarks.push(benchmark.located(blocks, items, columns));
        }
        writer.finish().await?;
        Ok(whole.located(benchmarks))
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
            groups: Vec::new(),
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
        let swapped = store.get(&Kind::Manifest.key(&two)).await.unwrap();
        store.put(&Kind::Manifest.key(&one), swapped).await.unwrap();
        let fresh = Store::open(Address::of_folder(folder.path())).unwrap();
        assert!(matches!(fresh.manifest(&one).await.unwrap_err(), Error::Damaged { .. }));
    }
}
