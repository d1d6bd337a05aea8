//! Each service is killed once while an evaluation runs, and the report is the undisturbed one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::time::Duration;

use serde_json::Value;
use tidemill_testkit::engine::Request;
use tidemill_testkit::{Broker, FakeEngine, Service};
use tidemill_tests::{Workbench, tidemill};

const ITEMS: usize = 150;
const IN_FLIGHT: u64 = 16;
const PATIENCE: Duration = Duration::from_secs(150);
const ROLES: [&str; 4] = ["loader", "generator", "grader", "aggregator"];

struct Pipeline {
    broker: Broker,
    bench: Workbench,
    engine: FakeEngine,
    services: Vec<(&'static str, Service)>,
}

fn answer(request: &Request) -> tidemill_testkit::Reply {
    Workbench::answer(request).after(Duration::from_millis(60))
}

impl Pipeline {
    fn start() -> Self {
        let broker = Broker::start().unwrap();
        let bench = Workbench::new(ITEMS).unwrap();
        let engine = FakeEngine::builder().respond(answer).start().unwrap();
        let mut pipeline = Self {
            broker,
            bench,
            engine,
            services: Vec::new(),
        };
        let applied = tidemill(&["streams", "apply", "--nats", &pipeline.broker.url()]).unwrap();
        assert_eq!(applied.code, Some(0), "{}", applied.log);
        for role in ROLES {
            pipeline.spawn(role);
        }
        pipeline
    }

    fn spawn(&mut self, role: &'static str) {
        let service = Service::tidemill()
            .unwrap()
            .args([
                role,
                "--nats",
                &self.broker.url(),
                "--data-dir",
                &self.bench.text("data"),
            ])
            .env("TIDEMILL_LOADER__MAX_IN_FLIGHT", IN_FLIGHT.to_string())
            .spawn()
            .unwrap();
        service.wait_for_line("ready", PATIENCE).unwrap();
        self.services.push((role, service));
    }

    fn kill_and_replace(&mut self, role: &'static str) {
        let index = self.services.iter().position(|(running, _)| *running == role).unwrap();
        let (_, mut service) = self.services.remove(index);
        service.kill9().unwrap();
        self.spawn(role);
    }

    fn announce(&self) {
        let (url, model) = (self.engine.url(), self.engine.model());
        let arguments = [
            "announce",
            "--run",
            "r",
            "--step",
            "1",
            "--endpoint",
            &url,
            "--model",
            model,
        ];
        let suite = self.bench.text("suite.toml");
        let (nats, data) = (self.broker.url(), self.bench.text("data"));
        let rest = ["--suite", &suite, "--nats", &nats, "--data-dir", &data];
        let ran = tidemill(&[&arguments[..], &rest[..]].concat()).unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.log);
    }

    fn result(&self) -> Option<Value> {
        let (nats, data) = (self.broker.url(), self.bench.text("data"));
        let ran = tidemill(&["results", "--json", "--nats", &nats, "--data-dir", &data]).unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.log);
        let results = ran.json().unwrap();
        assert!(
            results.as_array().unwrap().len() <= 1,
            "one announcement is one evaluation: {results}"
        );
        results.get(0).cloned()
    }

    fn wait_for_requests(&self, count: u64) {
        self.wait_until(|| self.engine.stats().requests >= count);
    }

    fn wait_until(&self, reached: impl Fn() -> bool) {
        let begun = std::time::Instant::now();
        while !reached() {
            assert!(begun.elapsed() < PATIENCE, "no progress: {:?}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn logs(&self) -> Vec<(&str, Vec<String>)> {
        self.services
            .iter()
            .map(|(role, service)| (*role, service.log()))
            .collect()
    }

    fn final_result(&self) -> Value {
        let begun = std::time::Instant::now();
        loop {
            if let Some(result) = self.result().filter(|result| result["state"] != "serving") {
                return result;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "not final: {:?} {:?}",
                self.result(),
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(250));
        }
    }
}

#[test]
fn killing_each_service_once_changes_no_result() {
    let undisturbed = Pipeline::start();
    undisturbed.announce();
    let expected = undisturbed.final_result();
    assert_eq!(expected["state"], "final");
    let requests = undisturbed.engine.stats().requests;
    assert_eq!(
        requests,
        Workbench::requests(ITEMS) + 1,
        "one warm-up and one request a sample or choice"
    );
    drop(undisturbed);

    let mut pipeline = Pipeline::start();
    pipeline.announce();
    let total = Workbench::requests(ITEMS);
    for (role, at) in [("generator", 5), ("grader", 4), ("aggregator", 3), ("loader", 2)] {
        pipeline.wait_for_requests(total / at);
        pipeline.kill_and_replace(role);
    }
    // The same thing announced again is the same evaluation.
    pipeline.announce();
    let result = pipeline.final_result();
    assert_eq!(Workbench::comparable(&result), Workbench::comparable(&expected));
    assert_eq!(result["evaluation"].as_str().map(str::len), Some(16));
    let asked = pipeline.engine.stats().requests;
    // A killed generator's items in flight are asked for again, four requests each at most; each loader warms up once.
    let most = total + 4 * IN_FLIGHT + 2;
    assert!(
        asked <= most,
        "{asked} requests, at most {most}: what was finished was asked for again"
    );
}

#[test]
fn a_second_process_of_each_service_shares_the_work() {
    let mut pipeline = Pipeline::start();
    for role in ROLES {
        pipeline.spawn(role);
    }
    pipeline.announce();
    let result = pipeline.final_result();
    assert_eq!(result["state"], "final");
    assert!(pipeline.engine.stats().requests <= Workbench::requests(ITEMS) + 2);
    assert!(
        pipeline.engine.stats().max_in_flight <= IN_FLIGHT,
        "the group's slots bound all generators together"
    );
}
