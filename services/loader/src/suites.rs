//! Which suite file an announcement means, and its manifest.

use std::fmt;
use std::path::{Path, PathBuf};

use tidemill_config::Loader;
use tidemill_domain::{Block, BlockRef, Columns, ColumnsRef, Digest, Outline, SuiteRef};
use tidemill_service::fault::{self, Point};
use tidemill_storage::{BlockWriter, Store};
use tidemill_tasks::{LoadError, Loaded, Sink, Stopped};
use tokio::runtime::Handle;

use crate::registry;

/// A rendered suite.
#[derive(Debug, Clone)]
pub(crate) struct Rendered {
    pub(crate) suite: SuiteRef,
    pub(crate) manifest: Digest,
    /// The suite file, in full.
    pub(crate) file: PathBuf,
    pub(crate) samples: u64,
}

/// Why a suite cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// No suite of that name is configured.
    #[error("no suite is named {name:?} ({}): name one that [loader] suites lists, or give the path of a suite file", if .known.is_empty() { "[loader] suites is empty".to_owned() } else { format!("known: {}", .known.join(", ")) })]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that are known.
        known: Vec<String>,
    },
    /// Several files bear the name.
    #[error("{} suite files are named {name:?}: {}; give the path of the one that is meant, or rename the others", .files.len(), .files.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// The files, with their versions.
        files: Vec<String>,
    },
    /// The name and version were evaluated with another content.
    #[error("suite {name:?} version {version:?} stands for other content already: it was registered from {registered}, and {file} differs ({}); raise `version` in {file}, or restore what it was", .differences.join("; "))]
    Changed {
        /// The suite's name.
        name: String,
        /// Its version.
        version: String,
        /// The file that was registered.
        registered: PathBuf,
        /// The file that was to be evaluated.
        file: PathBuf,
        /// What differs.
        differences: Vec<String>,
    },
    /// The registered suites could not be asked.
    #[error("look up the registered suites: {0}")]
    Registry(String),
    /// What is registered for a name and version is no entry of ours.
    #[error(
        "key {key} of bucket {bucket}, which holds what suite {name:?} version {version:?} stands for, cannot be read: {reason}; if a newer version wrote it upgrade the loader, else delete the key (`nats kv del {bucket} {key}`); then announce the checkpoint again"
    )]
    Entry {
        /// The bucket.
        bucket: &'static str,
        /// The key.
        key: String,
        /// The suite's name.
        name: String,
        /// Its version.
        version: String,
        /// Why it is none.
        reason: String,
    },
    /// The announcement names none and there is no default.
    #[error(
        "the announcement names no suite, and [loader] default_suites is empty: announce again with a suite, or set that"
    )]
    None,
    /// The suite or its data is wrong.
    #[error("{0}")]
    Invalid(#[from] tidemill_tasks::SuiteErrors),
    /// It could not be stored.
    #[error(transparent)]
    Storage(#[from] tidemill_storage::Error),
    /// The rendering thread died.
    #[error("render {path}: {reason}")]
    Crashed {
        /// The suite file.
        path: PathBuf,
        /// The panic.
        reason: String,
    },
}

/// Renders a suite given by path or by name, and stores its blocks as they come and then its manifest.
pub(crate) async fn render(store: &Store, config: &Loader, name: &str) -> Result<Rendered, SuiteError> {
    let path = find(config, name)?;
    let loaded = load(store, &path).await?;
    for warning in &loaded.warnings {
        tracing::warn!(suite = %path.display(), "{warning}");
    }
    let (suite, samples) = (loaded.manifest.suite.clone(), loaded.manifest.samples());
    let manifest = store.put_manifest(loaded.manifest).await?;
    fault::point(Point::LoaderManifestStored);
    Ok(Rendered {
        suite,
        manifest,
        file: registry::absolute(&path),
        samples,
    })
}

async fn load(store: &Store, path: &Path) -> Result<Loaded, SuiteError> {
    let crashed = |reason: String| SuiteError::Crashed {
        path: path.to_owned(),
        reason,
    };
    let reading = path.to_owned();
    let mut storing = Storing {
        runtime: Handle::current(),
        writer: store.block_writer(),
        failure: None,
    };
    let (loaded, storing) =
        tokio::task::spawn_blocking(move || (tidemill_tasks::load(&reading, &mut storing), storing))
            .await
            .map_err(|error| crashed(error.to_string()))?;
    match (loaded, storing.failure) {
        (_, Some(failure)) => Err(failure.into()),
        (Err(LoadError::Suite(errors)), None) => Err(errors.into()),
        (Err(stopped @ LoadError::Stopped(_)), None) => Err(crashed(stopped.to_string())),
        (Ok(loaded), None) => {
            storing.writer.finish().await?;
            Ok(loaded)
        }
    }
}

/// Stores blocks from the thread that renders; it waits while the store is slow, so no more than a few are in memory.
struct Storing {
    runtime: Handle,
    writer: BlockWriter,
    failure: Option<tidemill_storage::Error>,
}

impl Storing {
    fn kept<T>(&mut self, stored: Result<T, tidemill_storage::Error>) -> Result<T, Stopped> {
        stored.map_err(|failure| {
            self.failure = Some(failure);
            Stopped
        })
    }
}

impl Sink for Storing {
    fn block(&mut self, block: Block, end: u32) -> Result<BlockRef, Stopped> {
        let stored = self.runtime.block_on(self.writer.block(&block, end));
        self.kept(stored)
    }

    fn outline(&mut self, outline: Outline) -> Result<Digest, Stopped> {
        let stored = self.runtime.block_on(self.writer.outline(&outline));
        self.kept(stored)
    }

    fn columns(&mut self, columns: Columns) -> Result<ColumnsRef, Stopped> {
        let stored = self.runtime.block_on(self.writer.columns(&columns));
        self.kept(stored)
    }
}

fn find(config: &Loader, name: &str) -> Result<PathBuf, SuiteError> {
    let path = name.strip_prefix("file://").unwrap_or(name);
    if path.contains('/') || Path::new(path).extension().is_some_and(|extension| extension == "toml") {
        return Ok(PathBuf::from(path));
    }
    let files = config.suites.iter().flat_map(|entry| suite_files(entry));
    let named: Vec<Named> = files.filter_map(|file| Named::read(&file)).collect();
    // A file may be listed twice, by itself and with its folder.
    let mut meant: Vec<&Named> = Vec::new();
    for suite in named.iter().filter(|suite| suite.name == name) {
        if meant.iter().all(|known| known.canonical() != suite.canonical()) {
            meant.push(suite);
        }
    }
    match meant.as_slice() {
        [suite] => Ok(suite.file.clone()),
        [] => Err(SuiteError::Unknown {
            name: name.to_owned(),
            known: named.into_iter().map(|suite| suite.name).collect(),
        }),
        several => Err(SuiteError::Ambiguous {
            name: name.to_owned(),
            files: several.iter().map(ToString::to_string).collect(),
        }),
    }
}

fn suite_files(entry: &Path) -> Vec<PathBuf> {
    if !entry.is_dir() {
        return vec![entry.to_owned()];
    }
    let entries = std::fs::read_dir(entry)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    let mut files: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

/// A suite file with what it calls itself.
struct Named {
    name: String,
    version: String,
    file: PathBuf,
}

impl Named {
    fn read(file: &Path) -> Option<Self> {
        let table: toml::Table = std::fs::read_to_string(file).ok()?.parse().ok()?;
        let text = |field: &str| table.get(field).and_then(toml::Value::as_str);
        Some(Self {
            name: text("name")?.to_owned(),
            version: text("version").unwrap_or("none").to_owned(),
            file: file.to_owned(),
        })
    }

    fn canonical(&self) -> PathBuf {
        self.file.canonicalize().unwrap_or_else(|_| self.file.clone())
    }
}

impl fmt::Display for Named {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (version {})", self.file.display(), self.version)
    }
}
