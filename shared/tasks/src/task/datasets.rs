//! Which local files hold the splits of a dataset.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tidemill_harness::rows::{Row, conform, signed, typed};
use tidemill_harness::task::Dataset;

use crate::data::{DataFile, exact, is_file};

/// Rows of a split, each with its place in a file.
#[derive(Debug, Default)]
pub(super) struct Split {
    pub(super) rows: Vec<Row>,
    name: String,
    /// The files, as they are written, each with where each of its rows stands: a line, or the row's number; from 1.
    files: Vec<String>,
    places: Vec<(usize, u64)>,
}

impl Split {
    /// Rows that stand in the task file.
    pub(super) fn of_samples(rows: &[Row]) -> Self {
        Self {
            rows: rows.to_vec(),
            name: "fewshot_config.samples".to_owned(),
            ..Self::default()
        }
    }

    /// The files and the split.
    pub(super) fn label(&self) -> String {
        self.labelled(&self.files.join(", "))
    }

    /// The file and the split of a row, and its place in the file.
    pub(super) fn place(&self, at: usize) -> (String, u64) {
        match self.places.get(at) {
            Some((file, number)) => (self.labelled(&self.files[*file]), *number),
            None => (self.name.clone(), at as u64 + 1),
        }
    }

    fn labelled(&self, files: &str) -> String {
        if files.is_empty() {
            return format!("split {:?}", self.name);
        }
        format!("{files}: {}", self.name)
    }

    /// Without the rows that are not kept.
    ///
    /// # Errors
    /// For which row that could not be said, and why.
    pub(super) fn kept(
        mut self,
        keeps: impl Fn(&Row) -> Result<bool, String>,
    ) -> Result<Self, ((String, u64), String)> {
        let mut kept = Vec::with_capacity(self.rows.len());
        for (at, row) in self.rows.iter().enumerate() {
            kept.push(keeps(row).map_err(|reason| (self.place(at), reason))?);
        }
        let (mut rows, mut places) = (kept.iter(), kept.iter());
        self.rows.retain(|_| rows.next().is_some_and(|kept| *kept));
        self.places.retain(|_| places.next().is_some_and(|kept| *kept));
        Ok(self)
    }
}

/// A file that names local files for datasets of the hub.
#[derive(Debug, Default)]
pub(super) struct Datasets {
    folder: PathBuf,
    known: Vec<Known>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mapping {
    dataset: Vec<Known>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    /// The name on the hub.
    path: String,
    /// The configuration; any where there is none.
    name: Option<String>,
    /// Files by split, relative to the mapping.
    splits: BTreeMap<String, Files>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Files {
    One(String),
    Many(Vec<String>),
}

impl Known {
    /// Whether it is for the same configuration as another.
    fn is_for(&self, other: &Self) -> bool {
        (&self.path, &self.name) == (&other.path, &other.name)
    }
}

impl Datasets {
    /// Reads a mapping.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mapping: Mapping = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        for (at, known) in mapping.dataset.iter().enumerate() {
            if mapping.dataset[..at].iter().any(|other| other.is_for(known)) {
                let name = known
                    .name
                    .as_ref()
                    .map_or(String::new(), |name| format!(", name {name:?}"));
                return Err(format!(
                    "{}: path {:?}{name} is there twice",
                    path.display(),
                    known.path
                ));
            }
        }
        Ok(Self {
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            known: mapping.dataset,
        })
    }

    /// What is known of a dataset; what names its configuration wins over what is for any.
    fn known(&self, dataset: &Dataset) -> Option<&Known> {
        let of_path = || self.known.iter().filter(|known| known.path == dataset.path);
        let exact = of_path().find(|known| known.name == dataset.name);
        exact.or_else(|| of_path().find(|known| known.name.is_none()))
    }

    /// The rows of a split, from the files that the task names or that the mapping names for it.
    pub(super) fn rows(&self, dataset: &Dataset, split: &str, base: &Path) -> Result<Split, String> {
        if let Some(known) = self.known(dataset) {
            let files = match known.splits.get(split) {
                Some(Files::One(file)) => std::slice::from_ref(file),
                Some(Files::Many(files)) => files.as_slice(),
                None => return Err(format!("datasets: {} has no split {split:?}", known.path)),
            };
            return read(files, split, &self.folder, dataset);
        }
        if dataset.data_files.is_empty() {
            let name = dataset
                .name
                .as_ref()
                .map(|name| format!(", name = {name:?}"))
                .unwrap_or_default();
            return Err(format!(
                "dataset_path: {:?} is on the hub, which is not reached from here; name its files in a datasets file: \
                 [[dataset]] with path = {:?}{name} and splits.{split}",
                dataset.path, dataset.path
            ));
        }
        let folder = dataset
            .data_dir
            .as_ref()
            .map_or_else(|| base.to_owned(), |folder| base.join(folder));
        match dataset.data_files.iter().find(|(name, _)| name == split) {
            Some((_, files)) => read(files, split, &folder, dataset),
            None => Err(format!("dataset_kwargs.data_files: has no split {split:?}")),
        }
    }
}

fn read(files: &[String], split: &str, folder: &Path, dataset: &Dataset) -> Result<Split, String> {
    let mut whole = Split {
        name: split.to_owned(),
        files: files.to_vec(),
        ..Split::default()
    };
    for (file, written) in files.iter().enumerate() {
        let rows = read_one(written, folder, dataset)?;
        whole.places.extend(rows.iter().map(|(number, _)| (file, *number)));
        whole.rows.extend(rows.into_iter().map(|(_, row)| row));
    }
    whole.rows = conform(whole.rows);
    Ok(whole)
}

/// The rows of a file, each with its line or number.
fn read_one(written: &str, folder: &Path, dataset: &Dataset) -> Result<Vec<(u64, Row)>, String> {
    let lowered = written.to_lowercase();
    if lowered.ends_with(".json") {
        let rows = json(&folder.join(written)).map_err(|error| format!("{written}: {error}"))?;
        return Ok((1..).zip(signed(rows)).collect());
    }
    if dataset.column_names.is_some() {
        return Err("dataset_kwargs.column_names: files without a header are not read here; give them one".to_owned());
    }
    let file = DataFile::locate(written, folder)?;
    let located = |error: crate::data::RowError| match error.row {
        Some(row) => format!("{written} row {row}: {}", error.message),
        None => format!("{written}: {}", error.message),
    };
    let (mut numbers, mut rows) = (Vec::new(), Vec::new());
    for row in file.rows_of_python().map_err(located)? {
        let row = row.map_err(located)?;
        numbers.push(row.number);
        rows.push(row.columns);
    }
    let unpacked = lowered.trim_end_matches(".gz").trim_end_matches(".zst");
    let rows = match unpacked.rsplit('.').next() {
        Some("csv") => typed(rows),
        Some("parquet") => rows,
        _ => signed(rows),
    };
    Ok(numbers.into_iter().zip(rows).collect())
}

/// A list of rows, or rows one after the other.
fn json(path: &Path) -> Result<Vec<Row>, String> {
    let metadata = path.metadata().map_err(|error| error.to_string())?;
    is_file(path, &metadata)?;
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let text = exact(&text)?;
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(&text).map_err(|error| error.to_string());
    }
    let rows = serde_json::Deserializer::from_str(&text).into_iter::<Row>();
    rows.collect::<Result<_, _>>().map_err(|error| error.to_string())
}
