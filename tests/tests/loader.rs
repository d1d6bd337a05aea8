//! Evaluations whose loader or engines are disturbed still end, and with all samples.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidemill_testkit::engine::Request;
use tidemill_testkit::{FakeEngine, Reply, Service};
use tidemill_tests::{Workbench, tidemill};

const ITEMS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(120);

fn slow_engine() -> FakeEngine {
    let answer = |request: &Request| -> Reply { Workbench::answer(request).after(Duration::from_millis(50)) };
    FakeEngine::builder().respond(answer).start().unwrap()
}

fn evaluate(bench: &Workbench, engine: &FakeEngine, more: &[&str]) -> Service {
    Service::tidemill()
        .unwrap()
        .args(bench.evaluate(&engine.url(), engine.model()))
        .args(more)
        .env_remove("NATS_URL")
        .spawn()
        .unwrap()
}

fn wait_for_requests(engine: &FakeEngine, count: u64) {
    let begun = Instant::now();
    while engine.stats().requests < count {
        assert!(begun.elapsed() < PATIENCE, "{} requests", engine.stats().requests);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(service: &Service, name: &str) {
    let sent = Command::new("kill")
        .args([name, &service.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

fn finished(mut service: Service) -> Value {
    let status = service.wait(PATIENCE).unwrap();
    assert_eq!(status.code(), Some(0), "{:?}", service.log());
    let result: Value = serde_json::from_str(&service.output()).unwrap();
    assert_eq!(result["state"], "final", "{result}");
    result
}

#[test]
fn an_evaluation_suspended_for_longer_than_its_lease_goes_on_and_ends() {
    let (bench, engine) = (Workbench::new(ITEMS).unwrap(), slow_engine());
    let service = evaluate(&bench, &engine, &["--max-in-flight", "2"]);
    wait_for_requests(&engine, 20);
    signal(&service, "-STOP");
    // Longer than the age at which the broker drops a lease.
    std::thread::sleep(Duration::from_secs(14));
    signal(&service, "-CONT");
    service.wait_for_line("lease was lost", PATIENCE).unwrap();
    finished(service);
}

#[test]
fn a_resumed_evaluation_takes_its_new_limit() {
    let (bench, engine) = (Workbench::new(ITEMS).unwrap(), slow_engine());
    let mut first = evaluate(&bench, &engine, &["--max-in-flight", "1"]);
    wait_for_requests(&engine, 20);
    first.kill9().unwrap();
    assert_eq!(engine.stats().max_in_flight, 1);
    finished(evaluate(&bench, &engine, &["--max-in-flight", "6"]));
    let most = engine.stats().max_in_flight;
    assert!((2..=6).contains(&most), "{most} in flight");
}

#[test]
fn a_limit_below_the_number_of_endpoints_holds_over_all_of_them() {
    let (bench, first, second) = (Workbench::new(10).unwrap(), slow_engine(), slow_engine());
    finished(evaluate(
        &bench,
        &first,
        &["--endpoint", &second.url(), "--max-in-flight", "1"],
    ));
    let (first, second) = (first.stats(), second.stats());
    assert!(
        first.requests.min(second.requests) <= 1,
        "one of them is only asked whether it is there"
    );
    assert_eq!(first.max_in_flight.max(second.max_in_flight), 1);
}

#[test]
fn a_dead_endpoint_of_several_holds_nothing_up() {
    let (bench, engine, dead) = (Workbench::new(10).unwrap(), slow_engine(), slow_engine());
    dead.set_down(true).unwrap();
    let begun = Instant::now();
    finished(evaluate(&bench, &engine, &["--endpoint", &dead.url()]));
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

#[test]
fn a_context_shorter_than_a_benchmarks_answers_is_refused_with_the_reason() {
    let bench = Workbench::new(5).unwrap();
    let engine = FakeEngine::builder().max_context(12).start().unwrap();
    let arguments = bench.evaluate(&engine.url(), engine.model());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ran = tidemill(&arguments).unwrap();
    assert_ne!(ran.code, Some(0));
    for part in ["context of 12 tokens", "chat", "16"] {
        assert!(
            ran.output.contains(part) || ran.log.contains(part),
            "{part}: {} {}",
            ran.output,
            ran.log
        );
    }
}
