//! What is announced more than once, at once or after its end, is evaluated once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::thread;
use std::time::Duration;

use serde_json::Value;
use tidemill_tests::{Pipeline, SUITE, Setup, Workbench};

const ITEMS: usize = 20;

fn ended(pipeline: &Pipeline, count: usize) -> Vec<Value> {
    let mut ended = Vec::new();
    pipeline
        .wait_until(|| {
            thread::sleep(Duration::from_millis(200));
            let results = pipeline.results()?;
            assert!(results.len() <= count, "{results:?}");
            let is_complete = results.len() == count && results.iter().all(|result| result["state"] == "final");
            ended = results;
            Ok(is_complete)
        })
        .unwrap();
    ended
}

#[test]
fn a_step_announced_many_times_at_once_in_any_order_of_suites_is_one_evaluation_a_suite() {
    let setup = Setup {
        items: ITEMS,
        in_flight: 8,
        latency: Duration::from_millis(20),
        // The suites ask the same prompts: without a cache, every evaluation of a suite shows in the engine's count.
        environment: vec![("TIDEMILL_CACHE__ENABLED".to_owned(), "false".to_owned())],
        ..Setup::default()
    };
    let pipeline = Pipeline::start(setup).unwrap();
    let other = SUITE.replace("name = \"sums\"", "name = \"others\"");
    let (one, other) = (
        pipeline.bench.text("suite.toml"),
        pipeline.bench.write("other.toml", &other).unwrap(),
    );
    let other = other.display().to_string();
    let orders = [[one.as_str(), other.as_str()], [other.as_str(), one.as_str()]];
    // Two loaders, so that announcements are handled at the same time in two processes too.
    let _second = pipeline.launch("loader").unwrap();
    thread::scope(|scope| {
        for announcer in 0..6 {
            let (pipeline, suites) = (&pipeline, &orders[announcer % 2]);
            scope.spawn(move || pipeline.announce_step(1, suites).unwrap());
        }
    });
    let results = ended(&pipeline, 2);
    let requests = 2 * Workbench::requests(ITEMS);
    let asked = pipeline.engine.stats().requests;
    // Each loader may have had the group once, and warms the engine up when it has.
    assert!(
        (requests + 1..=requests + 2).contains(&asked),
        "{asked} requests for {requests}"
    );

    // Announced again after its end, with either order of suites: the same evaluations, and nothing is asked.
    for suites in orders {
        pipeline.announce_step(1, &suites).unwrap();
    }
    thread::sleep(Duration::from_secs(1));
    assert_eq!(ended(&pipeline, 2), results);
    assert_eq!(pipeline.engine.stats().requests, asked);

    // Another step of the same run is another evaluation.
    pipeline.announce_step(2, &[&one]).unwrap();
    assert_eq!(ended(&pipeline, 3).len(), 3);
}
