//! A folder with a suite, its data, and a data directory.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidemill_testkit::Reply;
use tidemill_testkit::engine::Request;

/// A suite of sums (completions, exact), the same as chat (numeric, two samples), and a choice by likelihood.
pub const SUITE: &str = r#"
name = "sums"
version = "1"

[[benchmark]]
name = "exact"
data = "sums.jsonl"
id = "id"
prompt = "Q: {{ a }}+{{ b }}\nA:"
target = "{{ sum }}"
max_tokens = 8
[benchmark.grader]
kind = "exact"

[[benchmark]]
name = "chat"
data = "sums.jsonl"
id = "id"
messages = [{ role = "user", content = "{{ a }}+{{ b }}?" }]
target = "{{ sum }}"
max_tokens = 16
temperature = 0.5
samples = 2
[benchmark.grader]
kind = "numeric"

[[benchmark]]
name = "likelihood"
data = "sums.jsonl"
id = "id"
limit = 20
prompt = "{{ a }}+{{ b }} ="
choices = "{{ choices }}"
target = "{{ right }}"
[benchmark.grader]
kind = "likelihood"
"#;

/// Generation of a few tokens, greedy and drawn with seeds.
pub const GENERATED: &str = r#"
name = "generated"
version = "1"

[[benchmark]]
name = "greedy"
data = "sums.jsonl"
id = "id"
prompt = "Q: {{ a }}+{{ b }}\nA:"
target = "{{ sum }}"
max_tokens = 24
[benchmark.grader]
kind = "exact"

[[benchmark]]
name = "drawn"
data = "sums.jsonl"
id = "id"
prompt = "{{ a }} and {{ b }}"
target = "{{ sum }}"
max_tokens = 24
temperature = 0.8
[benchmark.grader]
kind = "exact"
"#;

/// A folder with a suite and a data directory, removed when dropped.
#[derive(Debug)]
pub struct Workbench {
    folder: TempDir,
}

impl Workbench {
    /// A suite of `items` sums.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn new(items: usize) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("tidemill-test-").tempdir()?;
        let bench = Self { folder };
        bench.write("suite.toml", SUITE)?;
        let rows: Vec<String> = (0..items).map(|index| row(index).to_string()).collect();
        bench.write("sums.jsonl", &rows.join("\n"))?;
        Ok(bench)
    }

    /// Writes a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.path(name);
        std::fs::write(&path, content).with_context(|| format!("write {name}"))?;
        Ok(path)
    }

    /// A path in the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path in the folder as text.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The arguments of an evaluation of the suite against an endpoint.
    #[must_use]
    pub fn evaluate(&self, url: &str, model: &str) -> Vec<String> {
        let (suite, data) = (self.text("suite.toml"), self.text("data"));
        [
            "evaluate",
            "--suite",
            &suite,
            "--endpoint",
            url,
            "--model",
            model,
            "--data-dir",
            &data,
            "--json",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// Declared samples for `items` sums.
    #[must_use]
    pub fn samples(items: usize) -> u64 {
        (items + 2 * items + items.min(20)) as u64
    }

    /// Requests for `items` sums: one a sample, and one a choice of a likelihood item.
    #[must_use]
    pub fn requests(items: usize) -> u64 {
        (items + 2 * items + 4 * items.min(20)) as u64
    }

    /// An engine's answer: knows all sums but each fifth.
    #[must_use]
    pub fn answer(request: &Request) -> Reply {
        let numbers: Vec<u64> = request
            .prompt
            .split(|character: char| !character.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect();
        let sum = numbers.iter().take(2).sum::<u64>();
        Reply::text(if sum.is_multiple_of(5) {
            format!(" {}", sum + 1)
        } else {
            format!(" {sum}")
        })
    }

    /// The report without what may differ between two runs: times, identities, counts of requests.
    #[must_use]
    pub fn comparable(result: &Value) -> Value {
        let benchmarks = result["benchmarks"].as_array().cloned().unwrap_or_default();
        let kept = benchmarks.into_iter().map(|mut benchmark| {
            for field in [
                "requests",
                "prompt_tokens",
                "completion_tokens",
                "cached",
                "cache_hit_rate",
                "cached_prompt_tokens",
                "reusable_prompt_tokens",
                "continued",
            ] {
                benchmark[field] = Value::Null;
            }
            benchmark
        });
        json!({ "state": result["state"], "benchmarks": kept.collect::<Vec<_>>() })
    }
}

fn row(index: usize) -> Value {
    let (a, b) = (index, 3 * index + 1);
    let sum = a + b;
    let choices = [sum, sum + 1, sum + 2, sum + 3].map(|choice| format!(" {choice}"));
    json!({ "id": format!("sum-{index}"), "a": a, "b": b, "sum": sum, "choices": choices, "right": 0 })
}

/// The folder of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
        .to_owned()
}
