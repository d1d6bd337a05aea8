//! Rows of an archive back as messages, one group of rows in memory at a time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use tidemill_domain::{Digest, ItemKey, counted};
use tidemill_storage::Store;

use crate::Error;
use crate::columns::{BENCHMARK_ORDINAL, COMPLETION_MESSAGE, GRADE_MESSAGE, ITEM_ORDINAL, SAMPLE};
use crate::index::{Index, read_file, read_index};

type Messages = (Option<Bytes>, Option<Bytes>);

/// Reads the rows of an archive in order.
pub(crate) struct Reader {
    store: Store,
    folder: String,
    index: Index,
    /// The file being read, and the group of rows that comes next in it.
    open: Option<(Arc<SerializedFileReader<Bytes>>, usize)>,
    /// The next file.
    file: usize,
    /// Ordinal of the first row in `group`.
    position: u64,
    group: VecDeque<([i32; 3], Messages)>,
}

impl Reader {
    pub(crate) async fn open(store: &Store, folder: &str, digest: &Digest) -> Result<Self, Error> {
        Ok(Self::new(store, folder, read_index(store, folder, Some(digest)).await?))
    }

    pub(crate) async fn open_unchecked(store: &Store, folder: &str) -> Result<Self, Error> {
        Ok(Self::new(store, folder, read_index(store, folder, None).await?))
    }

    fn new(store: &Store, folder: &str, index: Index) -> Self {
        Self {
            store: store.clone(),
            folder: folder.to_owned(),
            index,
            open: None,
            file: 0,
            position: 0,
            group: VecDeque::new(),
        }
    }

    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    /// The messages of the row with this ordinal, which is this key's. Ordinals are asked for in order; some may be skipped.
    pub(crate) async fn messages(&mut self, key: &ItemKey, ordinal: u64) -> Result<Messages, Error> {
        loop {
            while self.group.is_empty() {
                self.next_group().await?;
            }
            let Some((ordinals, messages)) = self.group.pop_front() else {
                continue;
            };
            self.position += 1;
            if self.position <= ordinal {
                continue;
            }
            if ordinals.map(|ordinal| ordinal as u32) != [key.benchmark, key.item, key.sample] {
                return Err(Error::damaged(
                    &self.folder,
                    format!("row {ordinal} is not that of {key}"),
                ));
            }
            return Ok(messages);
        }
    }

    async fn next_group(&mut self) -> Result<(), Error> {
        let (reader, group) = match self.open.take() {
            Some(open) => open,
            None => (self.next_file().await?, 0),
        };
        if group >= reader.num_row_groups() {
            return Ok(());
        }
        self.open = Some((Arc::clone(&reader), group + 1));
        let name = self.folder.clone();
        let rows = tokio::task::spawn_blocking(move || guarded(&name, || group_rows(&*reader.get_row_group(group)?)));
        self.group = rows
            .await
            .map_err(|error| Error::damaged(&self.folder, error.to_string()))??;
        Ok(())
    }

    async fn next_file(&mut self) -> Result<Arc<SerializedFileReader<Bytes>>, Error> {
        let Some(entry) = self.index.items.get(self.file) else {
            let detail = format!(
                "it ends after {} of {}",
                self.position,
                counted(self.index.rows, "announced row")
            );
            return Err(Error::damaged(&self.folder, detail));
        };
        let bytes = read_file(&self.store, &self.folder, entry).await?;
        self.file += 1;
        Ok(Arc::new(guarded(&self.folder, || SerializedFileReader::new(bytes))?))
    }
}

/// How many rows a file holds.
pub(crate) fn rows(name: &str, bytes: Bytes) -> Result<u64, Error> {
    let reader = guarded(name, || SerializedFileReader::new(bytes))?;
    Ok(reader.metadata().file_metadata().num_rows().unsigned_abs())
}

/// The library asserts what a damaged file may break.
fn guarded<T>(name: &str, read: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| Error::damaged(name, error.to_string())),
        Err(_) => Err(Error::damaged(name, "its content is not Parquet of ours")),
    }
}

fn group_rows(group: &dyn RowGroupReader) -> parquet::errors::Result<VecDeque<([i32; 3], Messages)>> {
    let benchmarks = integers(group, BENCHMARK_ORDINAL)?;
    let items = integers(group, ITEM_ORDINAL)?;
    let samples = integers(group, SAMPLE)?;
    let completions = messages(group, COMPLETION_MESSAGE)?;
    let grades = messages(group, GRADE_MESSAGE)?;
    let ordinals = benchmarks.into_iter().zip(items).zip(samples);
    let ordinals = ordinals.map(|((benchmark, item), sample)| [benchmark, item, sample]);
    Ok(ordinals.zip(completions.into_iter().zip(grades)).collect())
}

fn column(group: &dyn RowGroupReader, name: &str) -> parquet::errors::Result<(ColumnReader, usize)> {
    let columns = group.metadata().columns();
    let index = columns.iter().position(|column| column.column_path().string() == name);
    let index = index.ok_or_else(|| missing(name))?;
    Ok((
        group.get_column_reader(index)?,
        group.metadata().num_rows().unsigned_abs() as usize,
    ))
}

fn missing(name: &str) -> parquet::errors::ParquetError {
    parquet::errors::ParquetError::General(format!("column {name} is not there, or of another type"))
}

fn integers(group: &dyn RowGroupReader, name: &str) -> parquet::errors::Result<Vec<i32>> {
    let (ColumnReader::Int32ColumnReader(mut reader), rows) = column(group, name)? else {
        return Err(missing(name));
    };
    let mut values = Vec::with_capacity(rows);
    reader.read_records(rows, None, None, &mut values)?;
    Ok(values)
}

fn messages(group: &dyn RowGroupReader, name: &str) -> parquet::errors::Result<Vec<Option<Bytes>>> {
    let (ColumnReader::ByteArrayColumnReader(mut reader), rows) = column(group, name)? else {
        return Err(missing(name));
    };
    let (mut values, mut definitions) = (Vec::<ByteArray>::new(), Vec::new());
    reader.read_records(rows, Some(&mut definitions), None, &mut values)?;
    let mut values = values.into_iter();
    let read = definitions.into_iter().map(|definition| match definition {
        0 => None,
        _ => values.next().map(|value| Bytes::copy_from_slice(value.data())),
    });
    Ok(read.collect())
}
