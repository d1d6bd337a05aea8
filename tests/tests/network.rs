//! The network between a service and the broker fails for longer than every lease, and the report is the undisturbed one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::thread;
use std::time::Duration;

use serde_json::Value;
use tidemill_testkit::{FakeEngine, Proxy};
use tidemill_tests::{Pipeline, ROLES, Setup, Workbench, tidemill};

const ITEMS: usize = 150;
const IN_FLIGHT: u64 = 8;

/// Longer than a lease lives (10 s), and than a silent grader keeps its completions (6 s).
const LONGER_THAN_A_LEASE: Duration = Duration::from_secs(12);
const PATIENCE: Duration = Duration::from_secs(120);

fn undisturbed() -> Value {
    let bench = Workbench::new(ITEMS).unwrap();
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    let command = bench.evaluate(&engine.url(), engine.model());
    let ran = tidemill(&command.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.log);
    Workbench::comparable(&ran.json().unwrap())
}

/// One pipeline a service, all at once since they mostly wait: half way through, the network of that service fails.
fn each_service_outlives(disturb: impl Fn(&Proxy) + Sync) {
    let expected = undisturbed();
    thread::scope(|scope| {
        for role in ROLES {
            let (disturb, expected) = (&disturb, &expected);
            scope.spawn(move || outlives(role, disturb, expected));
        }
    });
}

fn outlives(role: &'static str, disturb: impl Fn(&Proxy), expected: &Value) {
    let setup = Setup {
        items: ITEMS,
        in_flight: IN_FLIGHT,
        latency: Duration::from_millis(60),
        through_proxy: vec![role],
        ..Setup::default()
    };
    let mut pipeline = Pipeline::start(setup).unwrap();
    pipeline.announce().unwrap();
    let total = Workbench::requests(ITEMS);
    pipeline.wait_for_requests(total / 3).unwrap();
    disturb(&pipeline.proxies[role]);
    thread::sleep(LONGER_THAN_A_LEASE);
    assert!(
        pipeline
            .results()
            .unwrap()
            .iter()
            .all(|result| result["state"] == "serving"),
        "it was disturbed after its end"
    );
    pipeline
        .service(role)
        .unwrap()
        .wait_for_line("the broker is away", PATIENCE)
        .unwrap();
    pipeline.proxies[role].heal().unwrap();
    let result = pipeline.final_result().unwrap();
    assert_eq!(&Workbench::comparable(&result), expected, "{role}");
    // A loader that lost its lease warms the engine up again when it has it back; nothing else is asked for twice.
    let warm_ups = if role == "loader" { 3 } else { 1 };
    let asked = pipeline.engine.stats().requests;
    assert!(
        (total + 1..=total + warm_ups).contains(&asked),
        "{role}: {asked} requests for {total} and a warm-up"
    );
    for (role, service) in &mut pipeline.services {
        assert!(service.poll().unwrap().is_none(), "the {role} outlives the network");
    }
}

#[test]
fn a_network_cut_longer_than_every_lease_changes_no_result() {
    each_service_outlives(|proxy| proxy.cut().unwrap());
}

#[test]
fn a_silent_network_longer_than_every_lease_changes_no_result() {
    each_service_outlives(|proxy| proxy.silence().unwrap());
}
