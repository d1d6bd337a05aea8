//! From a suite file to a manifest.

use std::path::Path;

use tidemill_domain::{Benchmark, Manifest};

use crate::data::is_file;
use crate::error::{Place, Problems, SuiteErrors, Warning};
use crate::sink::{Sink, Stopped};
use crate::{decode, groups, render, task};

/// A suite that is ready to be evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Every setting, and where the items are.
    pub manifest: Manifest,
    /// What is odd about the suite, for people to read.
    pub warnings: Vec<Warning>,
}

/// Why a suite was not rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The suite or its data is wrong.
    #[error(transparent)]
    Suite(#[from] SuiteErrors),
    /// The sink took nothing more.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Reads a suite file and its data, and renders every item into the sink, holding one block of them at a time.
///
/// Items keep the order of their rows. An item's few-shot examples are rows of `few_shot_data` that differ from its own row: the
/// first, those with certain ids, or drawn for the item. Unless they have templates of their own, each is the prompt, a space
/// unless the prompt ends in white space, the target and an empty line, or, in a chat, the turns followed by the target as the
/// assistant's. The choices of a likelihood follow the prompt in the same way,
/// so they begin with that space here. Their targets are the right choice's text; those of kind `choice` are letters.
///
/// What is wrong shows only as rows are read, so a sink may hold blocks of a suite that is refused.
///
/// # Errors
/// [`LoadError::Suite`] with everything that is wrong; of row errors the first 20 of each benchmark and the count of the
/// rest. [`LoadError::Stopped`] when the sink does not go on.
pub fn load(path: &Path, sink: &mut dyn Sink) -> Result<Loaded, LoadError> {
    let mut problems = Problems::default();
    let manifest = match read(path, &mut problems) {
        Some(text) => render(path, &text, &mut problems, sink)?,
        None => None,
    };
    let (manifest, warnings) = problems.settle(manifest)?;
    Ok(Loaded { manifest, warnings })
}

pub(crate) fn read(path: &Path, problems: &mut Problems) -> Option<String> {
    if let Ok(metadata) = path.metadata()
        && !metadata.is_dir()
        && let Err(message) = is_file(path, &metadata)
    {
        problems.error(Place::of(path), message);
        return None;
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            problems.error(Place::of(path), error.to_string());
            return None;
        }
    };
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
            problems.error(Place::of(path).line(line), "holds invalid UTF-8");
            None
        }
    }
}

fn render(path: &Path, text: &str, problems: &mut Problems, sink: &mut dyn Sink) -> Result<Option<Manifest>, Stopped> {
    let decoded = decode::decode(path, text, problems);
    let mut benchmarks = Vec::new();
    for entry in &decoded.benchmarks {
        benchmarks.extend(render::benchmark(entry, problems, sink)?);
    }
    let of_data = benchmarks.len();
    let (mut of_tasks, mut is_whole) = (Vec::new(), true);
    for entry in &decoded.tasks {
        let rendered = task::render(entry, benchmarks.len(), problems, sink)?;
        is_whole &= rendered.is_whole;
        for benchmark in rendered.benchmarks {
            if benchmarks.iter().any(|known: &Benchmark| known.name == benchmark.name) {
                let message = format!("benchmark {} is there already", benchmark.name);
                problems.error(Place::of(path).field("task"), message);
            }
            benchmarks.push(benchmark);
        }
        of_tasks.extend(rendered.groups);
    }
    let known = groups::Known {
        names: &decoded.names,
        of_data: &decoded.benchmarks,
        of_tasks: &benchmarks[of_data..],
        groups: &of_tasks,
        is_whole,
    };
    groups::check(&decoded.groups, &known, problems);
    let mut groups = groups::resolve(&decoded.groups, &benchmarks);
    groups.extend(of_tasks);
    let (max_failure_rate, suite) = (decoded.max_failure_rate, decoded.suite);
    Ok(suite.map(|suite| Manifest {
        suite,
        max_failure_rate,
        benchmarks,
        groups,
    }))
}
