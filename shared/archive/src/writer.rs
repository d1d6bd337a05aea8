//! Rows into files in the object store, a group of rows in memory at a time.

use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use tidemill_storage::Store;

use crate::columns::{self, Columns};
use crate::{Entry, Error, Row};

/// How large groups of rows and files become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows of a group.
    pub group_rows: u64,
    /// Bytes of a group before compression; one row may exceed it.
    pub group_bytes: usize,
    /// Rows of a file, looked at after each group.
    pub file_rows: u64,
    /// Bytes of a file, looked at after each group.
    pub file_bytes: usize,
}

impl Default for Limits {
    /// A group is what is in memory uncompressed when it is written or read, a file what is in memory compressed.
    fn default() -> Self {
        Self {
            group_rows: 5_000,
            group_bytes: 16 << 20,
            file_rows: 200_000,
            file_bytes: 32 << 20,
        }
    }
}

/// The files that were written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// The files of rows, in order.
    pub items: Vec<Entry>,
    /// The lists of claims.
    pub claims: Vec<Entry>,
    /// Rows over all files.
    pub rows: u64,
    /// Rows with a completion.
    pub completions: u64,
}

/// Writes rows to files below a folder: `items/00000.parquet` and so on.
pub struct Writer {
    store: Store,
    folder: String,
    limits: Limits,
    gathered: Columns,
    open: Option<File>,
    claims: Vec<String>,
    written: Written,
}

/// A file that is being made.
struct File {
    writer: SerializedFileWriter<Vec<u8>>,
    rows: u64,
}

impl Writer {
    /// A writer into a folder, which holds nothing yet.
    #[must_use]
    pub fn new(store: &Store, folder: &str, limits: Limits) -> Self {
        Self {
            store: store.clone(),
            folder: folder.to_owned(),
            limits,
            gathered: Columns::new(),
            open: None,
            claims: Vec::new(),
            written: Written::default(),
        }
    }

    /// Takes a row, and the keys of bodies that lie in the object store for it.
    ///
    /// # Errors
    /// [`Error::Storage`] and [`Error::Encode`].
    pub async fn push(&mut self, row: &Row<'_>, claims: Vec<String>) -> Result<(), Error> {
        self.gathered.push(row)?;
        self.claims.extend(claims);
        self.written.rows += 1;
        self.written.completions += u64::from(row.completion.is_some());
        if self.gathered.rows >= self.limits.group_rows || self.gathered.bytes >= self.limits.group_bytes {
            self.write_group().await?;
        }
        Ok(())
    }

    /// Writes what is left. Each file is named with its digest.
    ///
    /// # Errors
    /// [`Error::Storage`] and [`Error::Encode`].
    pub async fn finish(mut self) -> Result<Written, Error> {
        if self.gathered.rows > 0 {
            self.write_group().await?;
        }
        self.close_file().await?;
        Ok(self.written)
    }

    async fn write_group(&mut self) -> Result<(), Error> {
        let mut file = match self.open.take() {
            Some(file) => file,
            None => File::new()?,
        };
        let group = std::mem::replace(&mut self.gathered, Columns::new());
        // Compressing takes tens of milliseconds.
        let wrote = tokio::task::spawn_blocking(move || {
            file.rows += group.rows;
            group.write(&mut file.writer).map(|()| file)
        });
        let file = wrote.await.map_err(|error| Error::Encode(error.to_string()))??;
        let is_full = file.rows >= self.limits.file_rows || file.writer.bytes_written() >= self.limits.file_bytes;
        self.open = Some(file);
        if is_full {
            self.close_file().await?;
        }
        Ok(())
    }

    async fn close_file(&mut self) -> Result<(), Error> {
        let number = self.written.items.len();
        if let Some(file) = self.open.take() {
            let rows = file.rows;
            let content = file
                .writer
                .into_inner()
                .map_err(|error| Error::Encode(error.to_string()))?;
            let entry = self.put(format!("items/{number:05}.parquet"), content, rows).await?;
            self.written.items.push(entry);
        }
        if !self.claims.is_empty() {
            let claims = std::mem::take(&mut self.claims);
            let entry = self
                .put(
                    format!("claims/{number:05}.txt"),
                    claims.join("\n").into_bytes(),
                    claims.len() as u64,
                )
                .await?;
            self.written.claims.push(entry);
        }
        Ok(())
    }

    async fn put(&self, name: String, content: Vec<u8>, rows: u64) -> Result<Entry, Error> {
        let entry = Entry::of(&name, &content, Some(rows));
        self.store.put(&format!("{}/{name}", self.folder), content).await?;
        Ok(entry)
    }
}

impl File {
    fn new() -> Result<Self, Error> {
        let level = ZstdLevel::try_new(3).map_err(|error| Error::Encode(error.to_string()))?;
        let about = KeyValue::new("tidemill.schema".to_owned(), "1".to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(concat!("tidemill ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(vec![about]))
            .build();
        let writer = SerializedFileWriter::new(Vec::new(), columns::schema()?, Arc::new(properties));
        Ok(Self {
            writer: writer.map_err(|error| Error::Encode(error.to_string()))?,
            rows: 0,
        })
    }
}
