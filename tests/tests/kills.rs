//! Each service, the broker and the engine are killed while an evaluation runs, and the report is the undisturbed one.

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
use tidemill_tests::{GENERATED, Workbench, tidemill, workspace};

const ITEMS: usize = 150;
const IN_FLIGHT: u64 = 16;
const PATIENCE: Duration = Duration::from_secs(150);
const ROLES: [&str; 4] = ["loader", "generator", "grader", "aggregator"];

struct Pipeline {
    broker: Broker,
    bench: Workbench,
    engine: FakeEngine,
    services: Vec<(&'static str, Service)>,
    /// Further environment of the services.
    environment: &'static [(&'static str, &'static str)],
}

/// One process at a time is asked for little, so that an evaluation lasts long enough to be disturbed.
const SLOW: [(&str, &str); 2] = [
    ("TIDEMILL_GENERATOR__MAX_IN_FLIGHT", "2"),
    ("TIDEMILL_AGGREGATOR__PUBLISH_INTERVAL", "100ms"),
];

fn answer(request: &Request) -> tidemill_testkit::Reply {
    Workbench::answer(request).after(Duration::from_millis(60))
}

impl Pipeline {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(environment: &'static [(&'static str, &'static str)]) -> Self {
        let broker = Broker::start().unwrap();
        let bench = Workbench::new(ITEMS).unwrap();
        let engine = FakeEngine::builder().respond(answer).start().unwrap();
        let mut pipeline = Self {
            broker,
            bench,
            engine,
            services: Vec::new(),
            environment,
        };
        let applied = tidemill(&["streams", "apply", "--nats", &pipeline.broker.url()]).unwrap();
        assert_eq!(applied.code, Some(0), "{}", applied.log);
        for role in ROLES {
            pipeline.spawn(role);
        }
        pipeline
    }

    fn spawn(&mut self, role: &'static str) {
        let mut launch = Service::tidemill()
            .unwrap()
            .args([
                role,
                "--nats",
                &self.broker.url(),
                "--data-dir",
                &self.bench.text("data"),
            ])
            .env("TIDEMILL_LOADER__MAX_IN_FLIGHT", IN_FLIGHT.to_string());
        for (name, value) in self.environment {
            launch = launch.env(name, value);
        }
        let service = launch.spawn().unwrap();
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
        self.announce_on(&["--endpoint", &url, "--model", model]);
    }

    /// Announces a checkpoint that the loader serves with an engine of its own.
    fn announce_checkpoint(&self) {
        self.bench.write("suite.toml", GENERATED).unwrap();
        let checkpoint = workspace().join("services/engine/tests/data/hf-single");
        self.announce_on(&[&checkpoint.display().to_string()]);
    }

    fn announce_on(&self, source: &[&str]) {
        let suite = self.bench.text("suite.toml");
        let (nats, data) = (self.broker.url(), self.bench.text("data"));
        let arguments = ["announce", "--run", "r", "--step", "1", "--suite", &suite];
        let place = ["--nats", &nats, "--data-dir", &data];
        let ran = tidemill(&[&arguments[..], source, &place[..]].concat()).unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.log);
    }

    /// What was asked, answered and judged, item by item.
    fn items(&self, evaluation: &str) -> Vec<Value> {
        let (nats, data) = (self.broker.url(), self.bench.text("data"));
        let ran = tidemill(&["items", evaluation, "--json", "--nats", &nats, "--data-dir", &data]).unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.log);
        let rows = ran.output.lines().map(|line| serde_json::from_str(line).unwrap());
        let told = |row: Value| {
            let fields = ["benchmark", "item", "completion", "finish_reason", "outcome"];
            Value::from(fields.map(|field| row[field].clone()).to_vec())
        };
        rows.map(told).collect()
    }

    /// The process ids of the engines that the loader runs.
    fn engines(&self) -> Vec<u32> {
        let (_, loader) = self.services.iter().find(|(role, _)| *role == "loader").unwrap();
        let threads = std::fs::read_dir(format!("/proc/{}/task", loader.id())).unwrap();
        let children = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")));
        let children = children.map(Result::unwrap_or_default).collect::<Vec<_>>().join(" ");
        let is_engine = |id: &u32| {
            let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            command.split(|byte| *byte == 0).any(|argument| argument == b"engine")
        };
        let ids = children.split_whitespace().map(|id| id.parse().unwrap());
        ids.filter(is_engine).collect()
    }

    /// Waits until some samples have grades, and makes sure that others have not.
    fn wait_until_half_way(&self) {
        self.wait_until(|| self.result().is_some_and(|result| coverage(&result) > 0.1));
        let result = self.result().unwrap();
        assert!(coverage(&result) < 0.9 && result["state"] == "serving", "{result}");
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

/// The share of all samples that have grades.
fn coverage(result: &Value) -> f64 {
    let benchmarks = result["benchmarks"].as_array().unwrap();
    let covered: f64 = benchmarks
        .iter()
        .filter_map(|benchmark| benchmark["coverage"].as_f64())
        .sum();
    covered / 2.0
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
fn killing_the_broker_changes_no_result() {
    let undisturbed = Pipeline::start();
    undisturbed.announce();
    let expected = undisturbed.final_result();
    assert_eq!(expected["state"], "final");
    drop(undisturbed);

    let mut pipeline = Pipeline::start();
    pipeline.announce();
    let total = Workbench::requests(ITEMS);
    for part in [4, 2] {
        pipeline.wait_for_requests(total / part);
        assert!(pipeline.engine.stats().requests < total, "not half way");
        pipeline.broker.kill().unwrap();
        pipeline.broker.restart().unwrap();
    }
    let result = pipeline.final_result();
    assert_eq!(Workbench::comparable(&result), Workbench::comparable(&expected));
    for (role, service) in &mut pipeline.services {
        assert!(service.poll().unwrap().is_none(), "the {role} outlives the broker");
    }
}

#[test]
fn killing_the_engine_of_a_checkpoint_changes_no_answer() {
    let undisturbed = Pipeline::start_with(&SLOW);
    undisturbed.announce_checkpoint();
    let expected = undisturbed.final_result();
    assert_eq!(expected["state"], "final");
    let answers = undisturbed.items(expected["evaluation"].as_str().unwrap());
    assert_eq!(answers.len(), 2 * ITEMS);
    drop(undisturbed);

    let pipeline = Pipeline::start_with(&SLOW);
    pipeline.announce_checkpoint();
    pipeline.wait_until_half_way();
    let engines = pipeline.engines();
    let [engine] = engines[..] else {
        panic!("one checkpoint has one engine: {engines:?}")
    };
    let killed = std::process::Command::new("kill")
        .args(["-9", &engine.to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    pipeline.wait_until(|| pipeline.engines().iter().any(|id| *id != engine));
    let result = pipeline.final_result();
    assert_eq!(Workbench::comparable(&result), Workbench::comparable(&expected));
    assert_eq!(pipeline.items(result["evaluation"].as_str().unwrap()), answers);
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
