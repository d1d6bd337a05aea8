//! What a folder of an archive holds: `archive.json`, written last.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidemill_domain::{Digest, EvaluationId, counted, counted_as};
use tidemill_storage::Store;

use crate::reader;
use crate::{Error, Stored};

/// The index's name in its folder.
pub(crate) const INDEX: &str = "archive.json";

/// One file of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name in the folder.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its digest.
    pub digest: Digest,
    /// Its rows or lines, where it has such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

impl Entry {
    /// The entry of a file with this content.
    #[must_use]
    pub fn of(name: &str, content: &[u8], rows: Option<u64>) -> Self {
        Self {
            name: name.to_owned(),
            bytes: content.len() as u64,
            digest: Digest::of(content),
            rows,
        }
    }
}

/// What a folder of an archive holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Version of this shape; 1.
    pub schema: u32,
    /// The evaluation.
    pub evaluation: EvaluationId,
    /// The digest of its manifest, which stays under its own key.
    pub manifest: Digest,
    /// Declared samples: one row each, in the manifest's order over all files.
    pub rows: u64,
    /// Rows with a completion.
    pub completions: u64,
    /// The files of rows (Parquet), in order.
    pub items: Vec<Entry>,
    /// Keys of bodies that lie in the object store by themselves and leave it when the messages are purged.
    pub claims: Vec<Entry>,
    /// `result.json`, `provenance.json` and what else belongs to it.
    pub documents: Vec<Entry>,
}

impl Index {
    /// Every file.
    pub fn files(&self) -> impl Iterator<Item = &Entry> {
        self.items.iter().chain(&self.claims).chain(&self.documents)
    }

    /// Writes it into its folder, and returns its digest.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn put(&self, store: &Store, folder: &str) -> Result<Digest, Error> {
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| Error::Encode(error.to_string()))?;
        let digest = Digest::of(&bytes);
        store.put(&format!("{folder}/{INDEX}"), bytes).await?;
        Ok(digest)
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files().map(|entry| entry.bytes).sum()
    }
}

/// The folder of everything that is kept of an evaluation.
#[must_use]
pub fn folder(evaluation: &EvaluationId) -> String {
    format!("archive/{evaluation}")
}

/// Reads a folder's index, and compares it with its digest where that is known.
///
/// # Errors
/// [`Error::Storage`] when it is not there, [`Error::Damaged`] when it is another one.
pub async fn read_index(store: &Store, folder: &str, digest: Option<&Digest>) -> Result<Index, Error> {
    let key = format!("{folder}/{INDEX}");
    let bytes = store.get(&key).await?;
    if digest.is_some_and(|digest| Digest::of(&bytes) != *digest) {
        return Err(Error::damaged(&key, "its content has another digest"));
    }
    let index: Index = serde_json::from_slice(&bytes).map_err(|error| Error::damaged(&key, error.to_string()))?;
    if index.schema != 1 {
        let detail = format!("its schema is {}; this version knows 1: upgrade", index.schema);
        return Err(Error::damaged(&key, detail));
    }
    Ok(index)
}

/// A file of a folder, with its digest compared.
pub(crate) async fn read_file(store: &Store, folder: &str, entry: &Entry) -> Result<Bytes, Error> {
    let key = format!("{folder}/{}", entry.name);
    let bytes: Bytes = store.get(&key).await?.into();
    let hashed = bytes.clone();
    let digest = tokio::task::spawn_blocking(move || Digest::of(&hashed)).await;
    if digest.ok().as_ref() != Some(&entry.digest) {
        return Err(Error::damaged(&key, "its content has another digest"));
    }
    Ok(bytes)
}

/// Reads every file of an archive back, one at a time: each has its digest, and the rows are the declared ones.
///
/// # Errors
/// As [`read_index`]; [`Error::Damaged`] names the file.
pub async fn verify(store: &Store, stored: &Stored) -> Result<Index, Error> {
    let folder = &stored.folder;
    let index = read_index(store, folder, Some(&stored.index)).await?;
    let mut rows = 0;
    for entry in index.files() {
        let bytes = read_file(store, folder, entry).await?;
        if index.items.contains(entry) {
            rows += reader::rows(&format!("{folder}/{}", entry.name), bytes)?;
        }
    }
    if rows != stored.rows || rows != index.rows {
        let detail = format!(
            "its files hold {} and {} declared",
            counted(rows, "row"),
            counted_as(stored.rows, "sample is", "samples are")
        );
        return Err(Error::damaged(&format!("{folder}/{INDEX}"), detail));
    }
    Ok(index)
}
