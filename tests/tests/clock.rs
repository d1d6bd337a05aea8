//! The clocks of services jump while they evaluate: what is written down is odd, and the report is the undisturbed one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidemill_testkit::FakeEngine;
use tidemill_tests::{Pipeline, Setup, Workbench, tidemill};

const ITEMS: usize = 100;

#[test]
fn clocks_that_jump_an_hour_either_way_and_to_1970_change_no_result() {
    let bench = Workbench::new(ITEMS).unwrap();
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    let command = bench.evaluate(&engine.url(), engine.model());
    let expected = tidemill(&command.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();

    let clock = bench.write("clock", "0").unwrap();
    let setup = Setup {
        items: ITEMS,
        in_flight: 8,
        latency: Duration::from_millis(40),
        environment: vec![("TIDEMILL_CLOCK_OFFSET_FILE".to_owned(), clock.display().to_string())],
        ..Setup::default()
    };
    let mut pipeline = Pipeline::start(setup).unwrap();
    pipeline.announce().unwrap();
    let total = Workbench::requests(ITEMS);
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let jumps = [
        (5, "generator", "3600".to_owned()),
        (3, "loader", "-3600".to_owned()),
        (2, "aggregator", format!("-{since_1970}")),
    ];
    for (part, begins_anew, offset) in jumps {
        pipeline.wait_for_requests(total / part).unwrap();
        bench.write("clock", &offset).unwrap();
        // What starts now knows no other time.
        pipeline.spawn(begins_anew).unwrap();
    }
    let result = pipeline.final_result().unwrap();
    assert_eq!(
        Workbench::comparable(&result),
        Workbench::comparable(&expected.json().unwrap())
    );
    let last_grade = result["timeline"]["last_grade"].as_str().unwrap();
    let visible = result["timeline"]["visible"].as_str().unwrap();
    assert!(
        visible.starts_with("1970"),
        "the clock did not jump: {visible}, {last_grade}"
    );
}
