//! Suites in a folder of their own.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidemill_domain::{Item, WholeBenchmark, WholeManifest};
use tidemill_tasks::{Collected, LoadError, Loaded, SuiteErrors, Warning, load};

pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.0.path().join(name), content).unwrap();
        self
    }

    pub(crate) fn load(&self) -> Result<Loaded, SuiteErrors> {
        self.load_into(&mut Collected::default())
    }

    pub(crate) fn load_into(&self, sink: &mut Collected) -> Result<Loaded, SuiteErrors> {
        load(&self.path(), sink).map_err(|error| match error {
            LoadError::Suite(errors) => errors,
            LoadError::Stopped(stopped) => panic!("{stopped}"),
        })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("suite.toml")
    }

    /// The error text, without this folder's path.
    pub(crate) fn errors(&self) -> String {
        self.plain(&self.load().unwrap_err().to_string())
    }

    /// The warnings, one a line, without this folder's path.
    pub(crate) fn warnings(&self) -> String {
        let warnings = self.load().unwrap().warnings;
        let lines: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        self.plain(&lines.join("\n"))
    }

    /// The only benchmark.
    pub(crate) fn benchmark(&self) -> WholeBenchmark {
        let mut benchmarks = whole(&self.path()).0.benchmarks;
        assert_eq!(benchmarks.len(), 1);
        benchmarks.remove(0)
    }

    /// The only benchmark's items.
    pub(crate) fn items(&self) -> Vec<Item> {
        self.benchmark().items
    }

    fn plain(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

/// A suite's manifest with its items in it, and the warnings.
pub(crate) fn whole(path: &Path) -> (WholeManifest, Vec<Warning>) {
    let mut collected = Collected::default();
    let Loaded { manifest, warnings } = load(path, &mut collected).unwrap_or_else(|errors| panic!("{errors}"));
    let benchmarks = manifest
        .benchmarks
        .iter()
        .enumerate()
        .map(|(index, benchmark)| WholeBenchmark {
            name: benchmark.name.clone(),
            settings: benchmark.settings.clone(),
            grader: benchmark.grader.clone(),
            items: collected.items(&manifest, index).cloned().collect(),
        });
    let whole = WholeManifest {
        suite: manifest.suite.clone(),
        max_failure_rate: manifest.max_failure_rate,
        benchmarks: benchmarks.collect(),
    };
    (whole, warnings)
}

/// A suite of one benchmark over `rows.jsonl`; `fields` may end in a grader table, else answers are compared exactly.
pub(crate) fn suite(fields: &str) -> String {
    let grader = if fields.contains("[benchmark.grader]") {
        ""
    } else {
        "[benchmark.grader]\nkind = \"exact\"\n"
    };
    format!("name = \"s\"\nversion = \"1\"\ntier = \"canary\"\n[[benchmark]]\nname = \"b\"\n{fields}\n{grader}")
}

/// A suite of one benchmark over `rows.jsonl` with columns `q` and `a`.
pub(crate) fn question_suite(fields: &str) -> String {
    suite(&format!(
        "data = \"rows.jsonl\"\nprompt = \"Q: {{{{ q }}}}\\nA:\"\ntarget = \"{{{{ a }}}}\"\n{fields}"
    ))
}
