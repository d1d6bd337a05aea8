//! Suites looked at without running them: what is wrong, what is sent, what is graded. Nothing is sent anywhere.

mod check;
mod show;

use std::path::Path;

use anyhow::bail;
use serde_json::{Value, json};
use tidemill_domain::counted;
use tidemill_tasks::{Place, Sink, SuiteError, Warning};

use crate::arguments::{Suite, SuiteAction};
use crate::exit::Done;
use crate::output;

pub(crate) fn run(args: Suite) -> anyhow::Result<Done> {
    match args.action {
        SuiteAction::Check(args) => check::run(&args),
        SuiteAction::Show(args) => show::run(&args),
        SuiteAction::Schema => {
            let schema = tidemill_tasks::suite_schema();
            output::data(&serde_json::to_string_pretty(&schema)?).map(|()| Done::Valid)
        }
    }
}

/// A suite that was looked at: what it is, or everything that is wrong with it.
type Looked = Result<tidemill_tasks::Loaded, Vec<SuiteError>>;

fn load(file: &Path, sink: &mut dyn Sink) -> anyhow::Result<Looked> {
    match tidemill_tasks::load(file, sink) {
        Ok(loaded) => Ok(Ok(loaded)),
        Err(tidemill_tasks::LoadError::Suite(errors)) => Ok(Err(errors.iter().cloned().collect())),
        Err(stopped @ tidemill_tasks::LoadError::Stopped(_)) => bail!("{stopped}"),
    }
}

fn error_json(error: &SuiteError) -> Value {
    problem(&error.place, &error.message, &error.to_string())
}

fn warning_json(warning: &Warning) -> Value {
    problem(&warning.place, &warning.message, &warning.to_string())
}

fn problem(place: &Place, message: &str, text: &str) -> Value {
    json!({
        "file": place.file,
        "line": place.line,
        "benchmark": place.benchmark.as_ref().map(|label| match label {
            tidemill_tasks::BenchmarkLabel::Name(name) => name.clone(),
            tidemill_tasks::BenchmarkLabel::Number(number) => number.to_string(),
        }),
        "field": place.field,
        "data": place.data,
        "row": place.row,
        "message": message,
        "text": text,
    })
}

/// Errors that people are shown; `--json` has all.
const SHOWN: usize = 100;

fn note_errors(errors: &[SuiteError]) {
    for error in errors.iter().take(SHOWN) {
        output::note(&format!("error: {error}"));
    }
    let more = errors.len().saturating_sub(SHOWN);
    if more > 0 {
        output::note(&format!("{}; --json has all", counted(more as u64, "more error")));
    }
}
