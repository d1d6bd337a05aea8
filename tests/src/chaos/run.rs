//! One run of a scenario, and many at once.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::evidence;
use super::outcome::Outcome;
use super::pipeline::Pipeline;
use super::scenario::Scenario;
use super::work::Work;
use crate::Workbench;

/// The undisturbed end of each kind of work.
#[derive(Debug, Default)]
pub struct Expected(HashMap<Work, End>);

/// What a run must end in.
#[derive(Debug, Clone, PartialEq)]
struct End {
    report: Value,
    items: Vec<Value>,
}

/// Runs the work of these scenarios undisturbed, each kind once.
///
/// # Errors
/// When it does not end, or not in a final result.
pub fn expect(scenarios: &[Scenario]) -> Result<Expected> {
    let mut expected = Expected::default();
    for scenario in scenarios {
        if expected.0.contains_key(&scenario.work) {
            continue;
        }
        let (end, outcome) = ended(&Scenario::undisturbed(scenario.work), 0)?;
        anyhow::ensure!(end.report["state"] == "final", "undisturbed: {}", end.report);
        anyhow::ensure!(outcome.is_clean(), "undisturbed: {outcome:?}");
        anyhow::ensure!(
            end.items.len() as u64 == scenario.work.samples(),
            "undisturbed: items are missing"
        );
        expected.0.insert(scenario.work, end);
    }
    Ok(expected)
}

/// Runs a scenario and compares it with the undisturbed run.
///
/// # Errors
/// When it does not end, or a process ends that nobody killed; the logs are in the error.
pub fn run(scenario: &Scenario, seed: u64, expected: &Expected) -> Result<Outcome> {
    let (end, mut outcome) = ended(scenario, seed)?;
    let undisturbed = expected.0.get(&scenario.work).context("the undisturbed run is known")?;
    if end.report != undisturbed.report {
        outcome.differences.push(format!(
            "the report is {} instead of {}",
            end.report, undisturbed.report
        ));
    }
    let rows = end.items.iter().zip(&undisturbed.items);
    let differing =
        rows.filter(|(got, wanted)| got != wanted).count() + end.items.len().abs_diff(undisturbed.items.len());
    if differing > 0 {
        outcome.differences.push(format!("{differing} items differ"));
    }
    Ok(outcome)
}

/// Runs scenarios with their seeds, at most `jobs` at once, begun in their order. Each outcome is handed over as it comes,
/// and all of them in the order in which they ended.
pub fn run_all(
    scenarios: &[(Scenario, u64)],
    jobs: usize,
    expected: &Expected,
    note: impl Fn(&Scenario, u64, &Result<Outcome>) + Sync,
) -> Vec<(Scenario, Result<Outcome>)> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::with_capacity(scenarios.len()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, scenarios.len().max(1)) {
            scope.spawn(|| {
                while let Some((scenario, seed)) = scenarios.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let outcome = run(scenario, *seed, expected);
                    note(scenario, *seed, &outcome);
                    outcomes
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((scenario.clone(), outcome));
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn ended(scenario: &Scenario, seed: u64) -> Result<(End, Outcome)> {
    let mut pipeline = Pipeline::start(scenario)?;
    let begun = Instant::now();
    pipeline.announce()?;
    for step in &scenario.steps {
        pipeline.wait_for_share(step.at)?;
        pipeline.disturb(step.action)?;
    }
    let evaluation = pipeline.wait_for_end()?;
    let mut outcome = Outcome {
        scenario: scenario.name,
        seed,
        wall_seconds: begun.elapsed().as_secs_f64(),
        points: pipeline.passed.iter().map(|point| point.name()).collect(),
        ..Outcome::default()
    };
    let evidence = evidence::read(&pipeline.url(), &evaluation)?;
    outcome.count(&evidence, scenario.work.samples());
    let journal = pipeline
        .engine()
        .map(tidemill_testkit::FakeEngine::journal)
        .unwrap_or_default();
    outcome.judge(&journal, &evidence, &pipeline.hits);
    let is_letter_due = scenario
        .faults
        .iter()
        .any(|fault| fault.point.name() == "any.dead_letter_stored");
    if evidence.dead > 0 && !is_letter_due {
        outcome.differences.push(format!("{} dead letters", evidence.dead));
    }
    let end = End {
        report: Workbench::comparable(&pipeline.report()?),
        items: pipeline.items(&evaluation)?,
    };
    Ok((end, outcome))
}
