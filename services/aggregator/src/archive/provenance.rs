//! Where an archive's numbers come from: `provenance.json`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidemill_archive::{Row, Written};
use tidemill_domain::{Benchmark, EvaluationEvent, EvaluationResult, Manifest, ResultState, Timestamp};

/// Names of engines and graders that are listed; the rows have all.
const LISTED: usize = 1_000;

/// What the rows tell of engines and graders.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    engines: BTreeSet<String>,
    graders: BTreeSet<String>,
    unreadable: u64,
}

impl Seen {
    pub(crate) fn note(&mut self, row: &Row<'_>) {
        if let Some(completion) = row.completed() {
            list(&mut self.engines, &completion.engine);
        }
        if let Some(grade) = row.graded() {
            list(&mut self.graders, &grade.grader);
        }
        let is_unreadable =
            (row.completion.is_some() && row.completed().is_none()) || (row.grade.is_some() && row.graded().is_none());
        self.unreadable += u64::from(is_unreadable);
    }
}

fn list(names: &mut BTreeSet<String>, name: &str) {
    if !name.is_empty() && names.len() < LISTED && !names.contains(name) {
        names.insert(name.to_owned());
    }
}

/// The document.
pub(crate) fn document(
    event: &EvaluationEvent,
    manifest: &Manifest,
    seen: &Seen,
    written: &Written,
    (undeclared, at): (u64, Timestamp),
) -> Value {
    json!({
        "schema": 1,
        "evaluation": event.evaluation,
        "state": event.state.label(),
        "reason": event.reason,
        "run": event.run,
        "step": event.step,
        "team": event.team,
        "checkpoint": event.checkpoint,
        "source": event.source,
        "suite": event.suite,
        "manifest": event.manifest,
        "max_failure_rate": manifest.max_failure_rate,
        "benchmarks": manifest.benchmarks.iter().map(benchmark).collect::<Vec<_>>(),
        "versions": { "tidemill": env!("CARGO_PKG_VERSION"), "graders": seen.graders },
        "engines": seen.engines,
        "rows": written.rows,
        "completions": written.completions,
        "unreadable": seen.unreadable,
        "undeclared": undeclared,
        "timeline": event.timeline,
        "archived": at,
        "files": written.items,
    })
}

fn benchmark(benchmark: &Benchmark) -> Value {
    json!({
        "name": benchmark.name,
        "samples": benchmark.samples(),
        "settings": benchmark.settings,
        "grader": benchmark.grader,
    })
}

/// The result as the event tells it; one that ended without any says so.
pub(crate) fn result(event: &EvaluationEvent) -> EvaluationResult {
    if let Some(result) = &event.result {
        return (**result).clone();
    }
    EvaluationResult {
        schema: 1,
        evaluation: event.evaluation.clone(),
        state: match event.state {
            tidemill_domain::EvaluationState::Superseded => ResultState::Superseded,
            _ => ResultState::Invalid,
        },
        reason: event.reason.clone(),
        run: event.run.clone(),
        step: event.step,
        team: event.team.clone(),
        checkpoint: event.checkpoint.clone(),
        suite: event.suite.clone(),
        groups: Vec::new(),
        benchmarks: Vec::new(),
        timeline: event.timeline.clone(),
    }
}
