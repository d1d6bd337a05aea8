//! A rolling upgrade: services one schema version older and newer beside current ones, and what nobody reads is held.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::Value;
use tidemill_testkit::engine::Request;
use tidemill_testkit::{Broker, FakeEngine, Reply, Service};
use tidemill_tests::{Ran, Workbench, tidemill};

const ITEMS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(150);
/// The loader warms an engine up before anything is released to it.
const WARM_UP: u64 = 1;
/// Reaches a process that was built for these tests alone.
const SHIFT: &str = "TIDEMILL_VERSION_SHIFT";

/// Slow enough that every generator gets its share.
fn answer(request: &Request) -> Reply {
    Workbench::answer(request).after(Duration::from_millis(25))
}

struct Pipeline {
    broker: Broker,
    bench: Workbench,
    engine: FakeEngine,
    services: Vec<(&'static str, Service)>,
    newer_patience: &'static str,
}

impl Pipeline {
    fn start(newer_patience: &'static str) -> Self {
        let pipeline = Self {
            broker: Broker::start().unwrap(),
            bench: Workbench::new(ITEMS).unwrap(),
            engine: FakeEngine::builder().respond(answer).start().unwrap(),
            services: Vec::new(),
            newer_patience,
        };
        let applied = tidemill(&["streams", "apply", "--nats", &pipeline.broker.url()]).unwrap();
        assert_eq!(applied.code, Some(0), "{}", applied.log);
        pipeline
    }

    fn spawn(&mut self, role: &'static str, version: &str) {
        let service = Service::tidemill()
            .unwrap()
            .args([
                role,
                "--nats",
                &self.broker.url(),
                "--data-dir",
                &self.bench.text("data"),
            ])
            .env("TIDEMILL_SERVICE__NEWER_PATIENCE", self.newer_patience)
            .env("TIDEMILL_LOADER__MAX_IN_FLIGHT", "12")
            .env("TIDEMILL_GENERATOR__MAX_IN_FLIGHT", "4")
            .env(SHIFT, version)
            .spawn()
            .unwrap();
        service.wait_for_line("ready", PATIENCE).unwrap();
        self.services.push((role, service));
    }

    /// Ends the services of a role in order.
    fn retire(&mut self, role: &str) {
        let (gone, kept) = std::mem::take(&mut self.services)
            .into_iter()
            .partition(|(running, _)| *running == role);
        self.services = kept;
        let gone: Vec<(&str, Service)> = gone;
        for (_, mut service) in gone {
            service.terminate().unwrap();
            service.wait(PATIENCE).unwrap();
        }
    }

    fn command(&self, arguments: &[&str]) -> Ran {
        let (nats, data) = (self.broker.url(), self.bench.text("data"));
        tidemill(&[arguments, &["--nats", &nats, "--data-dir", &data]].concat()).unwrap()
    }

    fn announce(&self) {
        let (suite, url) = (self.bench.text("suite.toml"), self.engine.url());
        let what = [
            "announce",
            "--endpoint",
            &url,
            "--model",
            self.engine.model(),
            "--run",
            "r",
            "--step",
            "1",
            "--suite",
            &suite,
        ];
        let ran = self.command(&what);
        assert_eq!(ran.code, Some(0), "{}", ran.log);
    }

    fn letters(&self) -> Vec<Value> {
        let ran = self.command(&["dead", "list", "--json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.log);
        ran.json().unwrap().as_array().unwrap().clone()
    }

    fn wait_for_letters(&self, count: u64) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let letters = self.letters();
            if letters.len() as u64 >= count {
                return letters;
            }
            assert!(begun.elapsed() < PATIENCE, "{} of {count} letters", letters.len());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn wait_for_end(&self) -> Value {
        let begun = Instant::now();
        loop {
            let results = self.command(&["results", "--json"]).json().unwrap();
            if ["final", "invalid"].contains(&results[0]["state"].as_str().unwrap_or_default()) {
                return results[0].clone();
            }
            assert!(begun.elapsed() < PATIENCE, "not ended: {results}; {:?}", self.letters());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The versions of the messages of a stream.
    fn versions(&self, stream: &str) -> BTreeSet<u8> {
        let url = self.broker.url();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let jetstream = async_nats::jetstream::new(async_nats::connect(&url).await.unwrap());
            let config = async_nats::jetstream::consumer::pull::OrderedConfig::default();
            let consumer = jetstream.create_consumer_on_stream(config, stream).await.unwrap();
            let count = consumer.cached_info().num_pending as usize;
            let messages = consumer.messages().await.unwrap().take(count);
            messages.map(|message| message.unwrap().payload[4]).collect().await
        })
    }

    /// What an undisturbed evaluation of the same suite says.
    fn reference(&self) -> Value {
        let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
        let mut arguments = self.bench.evaluate(&engine.url(), engine.model());
        arguments.extend(["--data-dir".to_owned(), self.bench.text("reference")]);
        let at = arguments.iter().position(|argument| argument == "--data-dir").unwrap();
        arguments.drain(at..at + 2);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ran = tidemill(&arguments).unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.log);
        Workbench::comparable(&ran.json().unwrap())
    }

    fn assert_undisturbed(&self, result: &Value) {
        assert_eq!(Workbench::comparable(result), self.reference());
        assert_eq!(
            self.engine.stats().requests,
            Workbench::requests(ITEMS) + WARM_UP,
            "nothing was generated twice"
        );
        assert_eq!(self.letters(), Vec::<Value>::new());
    }
}

/// Readers are upgraded before writers: here the loader last, so that all three generators understand it.
#[test]
fn generators_of_three_versions_side_by_side_bring_the_undisturbed_report() {
    let mut pipeline = Pipeline::start("60s");
    pipeline.spawn("aggregator", "newer");
    pipeline.spawn("grader", "newer");
    pipeline.spawn("grader", "");
    for version in ["older", "", "newer"] {
        pipeline.spawn("generator", version);
    }
    pipeline.spawn("loader", "older");
    pipeline.announce();
    let result = pipeline.wait_for_end();
    let versions = pipeline.versions("DONE");
    assert_eq!(versions.len(), 3, "each generator took part: {versions:?}");
    assert!(pipeline.versions("GRADE").len() >= 2);
    pipeline.assert_undisturbed(&result);
}

/// A generator that does not understand the loader gives its items to those that do.
#[test]
fn an_older_generator_leaves_newer_releases_to_newer_generators() {
    let mut pipeline = Pipeline::start("60s");
    pipeline.spawn("aggregator", "newer");
    pipeline.spawn("grader", "newer");
    for version in ["older", "", "newer"] {
        pipeline.spawn("generator", version);
    }
    pipeline.spawn("loader", "");
    pipeline.announce();
    let result = pipeline.wait_for_end();
    let (_, older) = pipeline.services.iter().find(|(role, _)| *role == "generator").unwrap();
    older.wait_for_line("will be tried again", PATIENCE).unwrap();
    assert_eq!(pipeline.versions("DONE").len(), 2);
    pipeline.assert_undisturbed(&result);
}

#[test]
fn completions_that_nobody_reads_are_held_and_a_retry_after_the_upgrade_ends_the_evaluation() {
    let mut pipeline = Pipeline::start("1s");
    for (role, version) in [
        ("aggregator", ""),
        ("grader", ""),
        ("generator", "newer"),
        ("loader", ""),
    ] {
        pipeline.spawn(role, version);
    }
    pipeline.announce();
    let letters = pipeline.wait_for_letters(Workbench::samples(ITEMS));
    for letter in &letters {
        assert_eq!(
            (letter["state"].as_str(), letter["stage"].as_str()),
            (Some("held"), Some("grader"))
        );
        let reason = letter["reason"].as_str().unwrap();
        for part in ["completion version 4", "newest known: 3", "upgrade this service"] {
            assert!(reason.contains(part), "{reason}");
        }
    }
    let results = pipeline.command(&["results"]);
    let held = format!("{} samples are held", letters.len());
    assert!(results.log.contains(&held), "{}", results.log);
    let doctor = pipeline.command(&["doctor"]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.output.contains("items held open"), "{}", doctor.output);
    assert_eq!(pipeline.engine.stats().requests, Workbench::requests(ITEMS) + WARM_UP);

    for role in ["grader", "aggregator"] {
        pipeline.retire(role);
        pipeline.spawn(role, "newer");
    }
    let retried = pipeline.command(&["dead", "retry", "--stage", "grader"]);
    assert_eq!(retried.code, Some(0), "{}{}", retried.output, retried.log);
    assert!(
        retried.log.contains(&format!("{} retried", letters.len())),
        "{}",
        retried.log
    );
    let result = pipeline.wait_for_end();
    pipeline.assert_undisturbed(&result);
}

#[test]
fn releases_that_nobody_reads_are_held_and_not_released_again() {
    let mut pipeline = Pipeline::start("500ms");
    for (role, version) in [
        ("aggregator", "newer"),
        ("grader", "newer"),
        ("generator", ""),
        ("loader", "newer"),
    ] {
        pipeline.spawn(role, version);
    }
    pipeline.announce();
    // More than may be out at once: what is held makes room for the others.
    let letters = pipeline.wait_for_letters(Workbench::samples(ITEMS));
    let subjects: BTreeSet<&str> = letters.iter().filter_map(|letter| letter["subject"].as_str()).collect();
    assert_eq!(subjects.len() as u64, Workbench::samples(ITEMS));
    assert_eq!(letters.len(), subjects.len(), "no item has two letters");
    assert!(
        letters
            .iter()
            .all(|letter| letter["stage"] == "generator" && letter["state"] == "held")
    );
    assert_eq!(pipeline.engine.stats().requests, WARM_UP);

    pipeline.retire("generator");
    pipeline.spawn("generator", "newer");
    let retried = pipeline.command(&["dead", "retry", "--all", "--json"]);
    assert_eq!(retried.code, Some(0), "{}{}", retried.output, retried.log);
    assert_eq!(retried.output.lines().count(), letters.len());
    let result = pipeline.wait_for_end();
    pipeline.assert_undisturbed(&result);
}
