//! Which local files hold the splits of a dataset.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tidemill_harness::rows::{Row, conform, typed};
use tidemill_harness::task::Dataset;

use crate::data::DataFile;

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
    pub(super) fn rows(&self, dataset: &Dataset, split: &str, base: &Path) -> Result<Vec<Row>, String> {
        if let Some(known) = self.known(dataset) {
            let files = match known.splits.get(split) {
                Some(Files::One(file)) => std::slice::from_ref(file),
                Some(Files::Many(files)) => files.as_slice(),
                None => return Err(format!("datasets: {} has no split {split:?}", known.path)),
            };
            return read(files, &self.folder, dataset);
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
            Some((_, files)) => read(files, &folder, dataset),
            None => Err(format!("dataset_kwargs.data_files: has no split {split:?}")),
        }
    }
}

fn read(files: &[String], folder: &Path, dataset: &Dataset) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for written in files {
        let lowered = written.to_lowercase();
        if lowered.ends_with(".json") {
            rows.extend(json(&folder.join(written)).map_err(|error| format!("{written}: {error}"))?);
            continue;
        }
        if dataset.column_names.is_some() {
            return Err(
                "dataset_kwargs.column_names: files without a header are not read here; give them one".to_owned(),
            );
        }
        let file = DataFile::locate(written, folder)?;
        let mut read = Vec::new();
        let located = |error: crate::data::RowError| match error.row {
            Some(row) => format!("{written} row {row}: {}", error.message),
            None => format!("{written}: {}", error.message),
        };
        for row in file.rows().map_err(located)? {
            read.push(row.map_err(located)?.columns);
        }
        let is_csv = lowered
            .trim_end_matches(".gz")
            .trim_end_matches(".zst")
            .ends_with(".csv");
        rows.extend(if is_csv { typed(read) } else { read });
    }
    Ok(conform(rows))
}

/// A list of rows, or rows one after the other.
fn json(path: &Path) -> Result<Vec<Row>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(&text).map_err(|error| error.to_string());
    }
    let rows = serde_json::Deserializer::from_str(&text).into_iter::<Row>();
    rows.collect::<Result<_, _>>().map_err(|error| error.to_string())
}
