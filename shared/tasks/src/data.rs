//! Data files: where they are, how they are packed, and their rows one after the other.
//!
//! Files are streamed; only the rows that a caller keeps stay in memory.

mod columns;
mod exact;
mod lines;
mod moments;
mod quotes;
mod records;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use columns::Form;
pub(crate) use exact::exact;

/// A data file that was named by a suite and exists.
#[derive(Debug, Clone)]
pub(crate) struct DataFile {
    /// The name as the suite writes it.
    pub(crate) written: String,
    path: PathBuf,
    packing: Packing,
    format: Format,
}

#[derive(Debug, Clone, Copy)]
enum Packing {
    Plain,
    Gzip,
    Zstd,
}

#[derive(Debug, Clone, Copy)]
enum Format {
    JsonLines,
    Csv,
    Parquet,
}

/// A row takes at most so many bytes of its file: what goes on for longer is no row, and must not fill the memory.
pub(crate) const MAX_ROW_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// Says so.
fn too_long(question: &str) -> String {
    format!("is longer than {} MiB; {question}", MAX_ROW_BYTES >> 20)
}

/// One row, whose columns are JSON values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Its line in the file, or its number where a file has no lines; from 1.
    pub(crate) number: u64,
    pub(crate) columns: Map<String, Value>,
    /// Columns that are there and hold no text, nor anything that a template could show.
    pub(crate) unread: Vec<String>,
}

/// Why a row, or what follows in the file, cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowError {
    pub(crate) row: Option<u64>,
    pub(crate) message: String,
}

/// Rows in the order of the file. After an error the iterator goes on wherever the next row can be told.
pub(crate) type Rows = Box<dyn Iterator<Item = Result<Row, RowError>>>;

impl DataFile {
    /// Finds a file from a path relative to the suite's folder or from a `file:///` URI.
    pub(crate) fn locate(written: &str, folder: &Path) -> Result<Self, String> {
        let path = path(written, folder)?;
        let (packing, format) = kind(&path)?;
        let metadata = path
            .metadata()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        if metadata.is_dir() {
            return Err(format!("{} is a folder, not a file", path.display()));
        }
        is_file(&path, &metadata)?;
        Ok(Self {
            written: written.to_owned(),
            path,
            packing,
            format,
        })
    }

    /// Opens the file.
    pub(crate) fn rows(&self) -> Result<Rows, RowError> {
        self.opened(Form::Own)
    }

    /// Opens the file for rows as `datasets` gives them to Python.
    pub(crate) fn rows_of_python(&self) -> Result<Rows, RowError> {
        self.opened(Form::Python)
    }

    fn opened(&self, form: Form) -> Result<Rows, RowError> {
        let file = File::open(&self.path).map_err(RowError::whole)?;
        if matches!(self.format, Format::Parquet) {
            return columns::rows(file, form);
        }
        let reader = BufReader::with_capacity(1 << 16, file);
        let text: Box<dyn BufRead> = match self.packing {
            Packing::Plain => Box::new(reader),
            Packing::Gzip => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(reader))),
            Packing::Zstd => Box::new(BufReader::new(
                zstd::stream::read::Decoder::with_buffer(reader).map_err(RowError::whole)?,
            )),
        };
        match self.format {
            Format::Csv => records::rows(text),
            _ => Ok(Box::new(lines::Lines::new(text))),
        }
    }
}

impl RowError {
    fn at(row: u64, message: impl Into<String>) -> Self {
        Self {
            row: Some(row),
            message: message.into(),
        }
    }

    fn whole(error: impl ToString) -> Self {
        Self {
            row: None,
            message: error.to_string(),
        }
    }
}

/// Says that something is no file: reading from a pipe waits for whoever writes into it, and a second time finds nothing.
pub(crate) fn is_file(path: &Path, metadata: &std::fs::Metadata) -> Result<(), String> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(format!("{} is a pipe or a device, not a file", path.display())),
    }
}

fn path(written: &str, folder: &Path) -> Result<PathBuf, String> {
    let Some((scheme, _)) = written.split_once("://") else {
        return Ok(folder.join(written));
    };
    if scheme != "file" {
        return Err(format!(
            "{scheme}:// is not available in this version; use a path or a file:/// URI"
        ));
    }
    let local = url::Url::parse(written).ok().and_then(|url| url.to_file_path().ok());
    local.ok_or_else(|| format!("{written:?} is not a URI of a local file, such as file:///data/rows.jsonl"))
}

fn kind(path: &Path) -> Result<(Packing, Format), String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let (stem, packing) = if let Some(stem) = name.strip_suffix(".gz") {
        (stem, Packing::Gzip)
    } else if let Some(stem) = name.strip_suffix(".zst") {
        (stem, Packing::Zstd)
    } else {
        (name.as_str(), Packing::Plain)
    };
    let extension = Path::new(stem).extension().and_then(|extension| extension.to_str());
    match (extension, packing) {
        (Some("jsonl"), packing) => Ok((packing, Format::JsonLines)),
        (Some("csv"), packing) => Ok((packing, Format::Csv)),
        (Some("parquet"), Packing::Plain) => Ok((packing, Format::Parquet)),
        _ => Err(format!(
            "{name:?} has none of the known endings .jsonl, .csv (also with .gz or .zst) and .parquet"
        )),
    }
}

#[cfg(test)]
mod tests;
