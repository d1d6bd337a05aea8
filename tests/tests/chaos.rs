//! Each kind of disturbance once, and each fault point: the end is the undisturbed one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::collections::BTreeSet;

use tidemill_service::fault::Point;
use tidemill_tests::chaos::{Outcome, Scenario, expect, run_all, short};

/// Runs at once: most of a run is waiting for leases and redeliveries.
const JOBS: usize = 7;

/// Any seed must do; this one is the same for everybody.
const SEED: u64 = 1;

#[test]
fn disturbed_runs_end_like_the_undisturbed_one_and_every_fault_point_is_passed() {
    let scenarios = short(SEED);
    let expected = expect(&scenarios).unwrap();
    let seeded: Vec<(Scenario, u64)> = scenarios.into_iter().map(|scenario| (scenario, SEED)).collect();
    let mut passed = BTreeSet::new();
    let mut wrong = Vec::new();
    for (scenario, outcome) in run_all(&seeded, JOBS, &expected, |_, _, _| ()) {
        match outcome {
            Ok(outcome) => {
                passed.extend(outcome.points.iter().copied());
                wrong.extend(complaint(&outcome));
            }
            Err(error) => wrong.push(format!("{}: {error:#}", scenario.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let declared: BTreeSet<&str> = Point::ALL
        .iter()
        .filter(|point| !point.is_after_end())
        .map(|point| point.name())
        .collect();
    assert_eq!(passed, declared, "a point that nothing passes shows nothing");
}

fn complaint(outcome: &Outcome) -> Option<String> {
    (!outcome.is_clean()).then(|| format!("{outcome:#?}"))
}
