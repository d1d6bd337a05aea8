//! The size of an evaluation does not show in the memory of the services: items lie in the object store.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::time::{Duration, Instant};

use serde_json::json;
use tidemill_testkit::{Broker, FakeEngine, Service};
use tidemill_tests::{Workbench, tidemill};

/// Longest wait for an evaluation on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Every prompt is so long.
const PROMPT_BYTES: usize = 8_000;

/// What an item may add to a process, in bytes: its id's hash, its bits, its marks, and what allocators do with those. An
/// item kept in memory would add its prompt.
const BYTES_PER_ITEM: u64 = 4_000;

/// Items of the first evaluation, which fills what is bounded: pools, buffers, what is read and written at once.
const SMALL: u64 = 6_000;

/// Items of the second one.
const LARGE: u64 = 14_000;

const ROLES: [&str; 4] = ["loader", "generator", "grader", "aggregator"];

const SUITE: &str = r#"
name = "large"
version = "VERSION"

[[benchmark]]
name = "echo"
data = "VERSION.jsonl"
id = "id"
prompt = "{{ text }}"
target = "4"
cluster = "cluster"
max_tokens = 4
[benchmark.grader]
kind = "exact"
"#;

/// The peak of a process's resident memory so far, in bytes.
fn peak(service: &Service) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes << 10
}

struct Run {
    bench: Workbench,
    broker: Broker,
    engine: FakeEngine,
    services: Vec<Service>,
}

impl Run {
    fn start() -> Self {
        let (bench, broker) = (Workbench::new(1).unwrap(), Broker::start().unwrap());
        let applied = tidemill(&["streams", "apply", "--nats", &broker.url()]).unwrap();
        assert_eq!(applied.code, Some(0), "{}", applied.log);
        let services = ROLES.map(|role| {
            let launch = Service::tidemill().unwrap();
            let arguments = [role, "--nats", &broker.url(), "--data-dir", &bench.text("data")];
            // What an archive takes in memory is bounded, and would begin at any moment.
            let launch = launch.args(arguments).env("TIDEMILL_ARCHIVE__ENABLED", "false");
            launch.env_remove("NATS_URL").spawn().unwrap()
        });
        Self {
            bench,
            broker,
            engine: FakeEngine::builder().fixed_text(" 4").start().unwrap(),
            services: services.into(),
        }
    }

    /// Evaluates so many items to the end and returns the peak of each role.
    fn evaluate(&self, items: u64) -> Vec<u64> {
        let version = items.to_string();
        let row = |index: u64| {
            // No two prompts are alike, and no two rows compress each other away.
            let word = format!("{:016x} ", (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            json!({ "id": index, "text": word.repeat(PROMPT_BYTES / word.len()), "cluster": index / 5 }).to_string()
                + "\n"
        };
        self.bench
            .write(&format!("{version}.jsonl"), &(0..items).map(row).collect::<String>())
            .unwrap();
        self.bench
            .write("suite.toml", &SUITE.replace("VERSION", &version))
            .unwrap();
        let (url, model, suite, data) = (
            self.engine.url(),
            self.engine.model(),
            self.bench.text("suite.toml"),
            self.bench.text("data"),
        );
        let broker = self.broker.url();
        let mut arguments = vec!["announce", "--run", "size", "--step", "1", "--suite", &suite];
        arguments.extend([
            "--endpoint",
            &url,
            "--model",
            model,
            "--nats",
            &broker,
            "--data-dir",
            &data,
        ]);
        let announced = tidemill(&arguments).unwrap();
        assert_eq!(announced.code, Some(0), "{}", announced.log);
        let begun = Instant::now();
        while !self.is_final(&version, items) {
            assert!(
                begun.elapsed() < PATIENCE,
                "not ended: {:?}",
                self.services.iter().map(Service::log).collect::<Vec<_>>()
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        self.services.iter().map(peak).collect()
    }

    fn is_final(&self, version: &str, items: u64) -> bool {
        let (broker, data) = (self.broker.url(), self.bench.text("data"));
        let shown = tidemill(&["results", "--json", "--nats", &broker, "--data-dir", &data]).unwrap();
        let results: Vec<serde_json::Value> = serde_json::from_str(&shown.output).unwrap();
        let ended = |result: &serde_json::Value| result["state"] == "final" && result["suite"]["version"] == version;
        let Some(result) = results.into_iter().find(ended) else {
            return false;
        };
        assert_eq!(result["benchmarks"][0]["outcomes"]["correct"], items, "{result}");
        true
    }
}

#[test]
fn memory_does_not_grow_with_the_items_of_an_evaluation() {
    let run = Run::start();
    // From the second evaluation of a model on, the loader also learns which of its generations are there already.
    run.evaluate(500);
    let small = run.evaluate(SMALL);
    let large = run.evaluate(LARGE);
    for ((role, small), large) in ROLES.iter().zip(small).zip(large) {
        // These two keep 64 MiB of blocks each, more than both evaluations differ by; a test of the store holds that bound.
        if matches!(*role, "generator" | "grader") {
            continue;
        }
        let bound = small + (LARGE - SMALL) * BYTES_PER_ITEM;
        assert!(
            large <= bound,
            "{role}: {small} bytes after {SMALL} items, {large} after {LARGE} more; bound {bound}"
        );
    }
}
