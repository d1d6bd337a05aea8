//! Corrupted, foreign, empty, confused and misplaced messages on every subject: no service dies of one or spins on it, what can
//! end ends, and the reason is told.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::{self, Context};
use futures::TryStreamExt as _;
use serde_json::{Value, json};
use tidemill_testkit::engine::Request;
use tidemill_testkit::{Broker, FakeEngine, Reply, Service};
use tidemill_tests::{Ran, Workbench, tidemill};
use tokio::runtime::Runtime;

const ITEMS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(150);
const ROLES: [&str; 4] = ["loader", "generator", "grader", "aggregator"];
/// An evaluation and a group that nobody knows.
const NOBODY: &str = "00000000deadbeef";

fn answer(request: &Request) -> Reply {
    Workbench::answer(request).after(Duration::from_millis(20))
}

struct Pipeline {
    broker: Broker,
    bench: Workbench,
    engine: FakeEngine,
    services: Vec<Service>,
    runtime: Runtime,
    js: Context,
}

impl Pipeline {
    fn start() -> Self {
        let broker = Broker::start().unwrap();
        let bench = Workbench::new(ITEMS).unwrap();
        let applied = tidemill(&["streams", "apply", "--nats", &broker.url()]).unwrap();
        assert_eq!(applied.code, Some(0), "{}", applied.log);
        let runtime = Runtime::new().unwrap();
        // A context starts a task of its own, so that it must be made inside of a runtime.
        let js = runtime.block_on(async { jetstream::new(async_nats::connect(broker.url()).await.unwrap()) });
        let spawn = |role: &str| {
            let service = Service::tidemill()
                .unwrap()
                .args([role, "--nats", &broker.url(), "--data-dir", &bench.text("data")])
                .env("TIDEMILL_SERVICE__NEWER_PATIENCE", "200ms")
                .env("TIDEMILL_LOADER__MAX_IN_FLIGHT", "8")
                .spawn()
                .unwrap();
            service.wait_for_line("ready", PATIENCE).unwrap();
            service
        };
        let services = ROLES.iter().map(|role| spawn(role)).collect();
        Self {
            engine: FakeEngine::builder().respond(answer).start().unwrap(),
            js,
            broker,
            bench,
            services,
            runtime,
        }
    }

    fn put(&self, subject: &str, payload: impl Into<Vec<u8>>) {
        let payload = payload.into().into();
        let published = self
            .runtime
            .block_on(async { self.js.publish(subject.to_owned(), payload).await.unwrap().await });
        published.unwrap_or_else(|error| panic!("{subject}: {error}"));
    }

    fn put_value(&self, bucket: &str, key: &str, value: &[u8]) {
        self.runtime.block_on(async {
            let bucket = self.js.get_key_value(bucket).await.unwrap();
            bucket.put(key, value.to_vec().into()).await.unwrap();
        });
    }

    /// A message that the pipeline itself has stored, with the last token of its subject.
    fn example(&self, stream: &str) -> (String, Vec<u8>) {
        self.runtime.block_on(async {
            let stream = self.js.get_stream(stream).await.unwrap();
            let first = stream.cached_info().state.first_sequence;
            let message = stream.get_raw_message(first).await.unwrap();
            (message.subject.to_string(), message.payload.to_vec())
        })
    }

    fn command(&self, arguments: &[&str]) -> Ran {
        let (nats, data) = (self.broker.url(), self.bench.text("data"));
        tidemill(&[arguments, &["--nats", &nats, "--data-dir", &data]].concat()).unwrap()
    }

    fn announce(&self, run: &str) {
        let (suite, url) = (self.bench.text("suite.toml"), self.engine.url());
        let what = [
            "announce",
            "--endpoint",
            &url,
            "--model",
            self.engine.model(),
            "--run",
            run,
            "--step",
            "1",
            "--suite",
            &suite,
        ];
        let ran = self.command(&what);
        assert_eq!(ran.code, Some(0), "{}", ran.log);
    }

    fn result(&self, run: &str) -> Value {
        let results = self.command(&["results", "--json", "--run", run]).json().unwrap();
        results[0].clone()
    }

    fn wait_for(&self, run: &str, states: &[&str]) -> Value {
        let begun = Instant::now();
        loop {
            let result = self.result(run);
            if states.contains(&result["state"].as_str().unwrap_or_default()) {
                return result;
            }
            assert!(begun.elapsed() < PATIENCE, "{run} is not {states:?}: {result}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn letters(&self) -> Vec<Value> {
        let ran = self.command(&["dead", "list", "--json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.log);
        ran.json().unwrap().as_array().unwrap().clone()
    }

    /// The reason of the letter of a subject, once there is one.
    fn reason(&self, subject: &str) -> String {
        let begun = Instant::now();
        loop {
            let letters = self.letters();
            if let Some(letter) = letters.iter().find(|letter| letter["subject"] == subject) {
                return letter["reason"].as_str().unwrap().to_owned();
            }
            assert!(begun.elapsed() < PATIENCE, "no letter of {subject}: {letters:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// No service has ended, and each log says how it ended: none did.
    fn assert_alive(&mut self) {
        for (role, service) in ROLES.iter().zip(&mut self.services) {
            assert!(
                service.poll().unwrap().is_none(),
                "{role} ended: {}",
                service.log().join("\n")
            );
            let panicked: Vec<String> = service
                .log()
                .into_iter()
                .filter(|line| line.contains("panicked"))
                .collect();
            assert_eq!(panicked, Vec::<String>::new(), "{role}");
        }
    }

    /// How much the broker has delivered to each consumer of the streams; those of buckets hear of every lease that is renewed.
    fn deliveries(&self) -> BTreeMap<String, u64> {
        self.runtime.block_on(async {
            let mut deliveries = BTreeMap::new();
            let names: Vec<String> = self.js.stream_names().try_collect().await.unwrap();
            for name in names.into_iter().filter(|name| !name.starts_with("KV_")) {
                let stream = self.js.get_stream_no_info(&name).await.unwrap();
                let consumers: Vec<_> = stream.consumers().try_collect().await.unwrap();
                let counts = consumers
                    .into_iter()
                    .map(|info| (format!("{name} {}", info.name), info.delivered.consumer_sequence));
                deliveries.extend(counts);
            }
            deliveries
        })
    }

    /// Waits until nothing is delivered any more, to whomever; longer than the longest pause before another delivery.
    fn wait_for_rest(&self) {
        let begun = Instant::now();
        let mut before = self.deliveries();
        loop {
            std::thread::sleep(Duration::from_secs(12));
            let after = self.deliveries();
            if after
                .iter()
                .all(|(consumer, count)| before.get(consumer) == Some(count))
            {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "delivered again and again: {before:?}, then {after:?}"
            );
            before = after;
        }
    }
}

/// What may come instead of a message of ours.
fn garbage(good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut wrong_schema = good.to_vec();
    wrong_schema[2] = 99;
    let mut wrong_kind = good.to_vec();
    wrong_kind[6] = 7;
    vec![
        ("empty", Vec::new()),
        ("foreign", b"{\"hello\": \"world\"}".to_vec()),
        ("cut", good[..good.len() - 1].to_vec()),
        ("header alone", good[..7].to_vec()),
        ("longer", [good, b"more"].concat()),
        ("wrong schema", wrong_schema),
        ("wrong body kind", wrong_kind),
        (
            "noise",
            (0..2_000_u32)
                .map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8)
                .collect(),
        ),
    ]
}

#[test]
fn bad_messages_on_every_subject_harm_no_other_evaluation() {
    let mut pipeline = Pipeline::start();
    pipeline.announce("first");
    let first = pipeline.wait_for("first", &["final"]);
    let evaluation = first["evaluation"].as_str().unwrap().to_owned();
    let (_, completion) = pipeline.example("DONE");
    let (_, grade) = pipeline.example("GRADE");

    // DONE of an evaluation that nobody knows: kept with a reason, and nothing is recorded for it.
    let mut subjects = Vec::new();
    for (index, (_, bytes)) in garbage(&completion).into_iter().enumerate() {
        let subject = format!("tm.done.{NOBODY}.0.{index}.0");
        pipeline.put(&subject, bytes);
        subjects.push(subject);
    }
    let elsewhere = format!("tm.done.{NOBODY}.0.900.0");
    pipeline.put(&elsewhere, completion.clone());
    assert!(pipeline.reason(&elsewhere).contains("under another key's subject"));
    let mut newer = completion;
    newer[4] = 99;
    let future = format!("tm.done.{NOBODY}.0.901.0");
    pipeline.put(&future, newer);
    assert!(pipeline.reason(&future).contains("version 99"));
    for subject in &subjects {
        assert!(!pipeline.reason(subject).is_empty());
    }
    pipeline.put("tm.done.not.a.key.here", "not ours");
    assert!(
        pipeline
            .reason("tm.done.not.a.key.here")
            .contains("not a message of ours")
    );

    // GRADE: of an evaluation that is over, and of none.
    for (index, (_, bytes)) in garbage(&grade).into_iter().enumerate() {
        pipeline.put(&format!("tm.grade.{NOBODY}.0.{index}.0"), bytes.clone());
        pipeline.put(&format!("tm.grade.{evaluation}.0.{}.0", 9_000 + index), bytes);
    }
    pipeline.put("tm.grade.not.a.key.here", "not ours");

    // JSON: not JSON, of another shape, of a newer schema, under another's subject.
    let newer = json!({ "schema": 7, "run": "r", "step": 1, "uri": "file:///nowhere" }).to_string();
    for (index, text) in ["", "not json", "[]", "{}", "{\"schema\": 1}", &newer]
        .into_iter()
        .enumerate()
    {
        pipeline.put(&format!("tm.checkpoint.bad{index}.written"), text);
        pipeline.put(&format!("tm.checkpoint.bad{index}.rolled_back"), text);
        pipeline.put(&format!("tm.evaluation.{NOBODY}.state{index}"), text);
        pipeline.put(&format!("tm.result.team.run.suite.bench{index}"), text);
        pipeline.put(&format!("tm.dead.anybody{index}"), text);
        // As if the broker had said that it delivers a message no more.
        pipeline.put(
            &format!("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.DONE.forged{index}"),
            text,
        );
        pipeline.put_value("tm_groups", &format!("group{index}"), text.as_bytes());
        pipeline.put_value("tm_leases", &format!("group.{index}"), text.as_bytes());
        pipeline.put_value("tm_meta", &format!("key{index}"), text.as_bytes());
        pipeline.put_value("tm_failures", &format!("DONE.{index}"), text.as_bytes());
    }
    assert!(
        pipeline
            .reason("tm.checkpoint.bad1.written")
            .contains("not a checkpoint event")
    );
    let schema = pipeline.reason("tm.checkpoint.bad5.written");
    assert!(
        schema.contains("schema 7") && schema.contains("upgrade the loader"),
        "{schema}"
    );
    let (event_subject, event) = pipeline.example("EVALUATION");
    pipeline.put(&format!("tm.evaluation.{NOBODY}.queued"), event.clone());
    assert!(event_subject.contains(&evaluation));
    let (_, result) = pipeline.example("RESULT");
    pipeline.put("tm.result.other.other.other.other", result);
    pipeline.put_value("tm_groups", NOBODY, &event);

    // Another evaluation ends as the first one did, and nothing of it shows.
    pipeline.announce("second");
    let second = pipeline.wait_for("second", &["final"]);
    assert_eq!(Workbench::comparable(&second), Workbench::comparable(&first));
    assert_eq!(
        Workbench::comparable(&pipeline.result("first")),
        Workbench::comparable(&first)
    );
    pipeline.assert_alive();
    let items = pipeline.command(&["items", &evaluation, "--json"]);
    assert_eq!(
        items.output.lines().count() as u64,
        Workbench::samples(ITEMS),
        "{}",
        items.log
    );

    // Nothing is worked on again and again.
    pipeline.wait_for_rest();

    // What is foreign can be removed, and nothing else is.
    let ran = pipeline.command(&["dead", "drop", "--all", "--reason", "a test"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.output, ran.log);
    assert_eq!(pipeline.letters(), Vec::<Value>::new());
    assert_eq!(
        Workbench::comparable(&pipeline.result("second")),
        Workbench::comparable(&first)
    );
}

/// Messages of a running evaluation that were damaged on their way: their items end as failures, and it ends.
#[test]
fn damaged_messages_of_an_evaluation_end_their_items_and_it_ends_invalid() {
    let mut pipeline = Pipeline::start();
    // Suspended, the generator lets us put our messages first.
    let generator = ROLES.iter().position(|role| *role == "generator").unwrap();
    let stopped = &mut pipeline.services[generator];
    stopped.terminate().unwrap();
    stopped.wait(PATIENCE).unwrap();
    pipeline.announce("r");
    let serving = pipeline.wait_for("r", &["serving"]);
    let evaluation = serving["evaluation"].as_str().unwrap().to_owned();
    let begun = Instant::now();
    let ready = loop {
        let info = pipeline.runtime.block_on(async {
            pipeline
                .js
                .get_stream("READY")
                .await
                .unwrap()
                .cached_info()
                .state
                .clone()
        });
        if info.messages > 0 {
            break pipeline.example("READY");
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is released");
        std::thread::sleep(Duration::from_millis(50));
    };
    let group = ready.0.split('.').nth(2).unwrap().to_owned();
    // An item whose release was damaged, in the place of the good one.
    let damaged = pipeline.runtime.block_on(async {
        let stream = pipeline.js.get_stream("READY").await.unwrap();
        stream
            .delete_message(stream.cached_info().state.first_sequence)
            .await
            .unwrap();
        ready.0.clone()
    });
    pipeline.put(&damaged, &ready.1[..ready.1.len() - 2]);
    // A release of an evaluation that nobody knows, with a manifest that is not there.
    let mut stranger = ready.1.clone();
    let at = stranger
        .windows(16)
        .position(|window| window == evaluation.as_bytes())
        .unwrap();
    stranger[at..at + 16].copy_from_slice(NOBODY.as_bytes());
    let hash = stranger.windows(7).position(|window| window == b"blake3:").unwrap() + 7;
    for digit in &mut stranger[hash..hash + 64] {
        *digit = b'0';
    }
    let stray = format!(
        "tm.ready.{group}.{NOBODY}.{}",
        ready.0.split('.').skip(4).collect::<Vec<_>>().join(".")
    );
    pipeline.put(&stray, stranger);
    // A completion and a grade that are no such things: the first write of their keys wins, whatever it is.
    pipeline.put(&format!("tm.done.{evaluation}.0.3.0"), "not a completion");
    pipeline.put(&format!("tm.grade.{evaluation}.0.4.0"), "not a grade");
    let service = Service::tidemill()
        .unwrap()
        .args([
            "generator",
            "--nats",
            &pipeline.broker.url(),
            "--data-dir",
            &pipeline.bench.text("data"),
        ])
        .spawn()
        .unwrap();
    service.wait_for_line("ready", PATIENCE).unwrap();
    pipeline.services[generator] = service;

    let result = pipeline.wait_for("r", &["invalid", "final"]);
    assert_eq!(result["state"], "invalid", "{result}");
    let outcomes = |outcome: &str| -> u64 {
        let benchmarks = result["benchmarks"].as_array().unwrap().iter();
        benchmarks
            .map(|benchmark| benchmark["outcomes"][outcome].as_u64().unwrap())
            .sum()
    };
    assert_eq!(
        (outcomes("engine_error"), outcomes("grader_error"), outcomes("missing")),
        (1, 2, 0),
        "{result}"
    );
    assert!(pipeline.reason(&damaged).contains("malformed"));
    let unknown = pipeline.reason(&stray);
    assert!(unknown.contains(NOBODY) && unknown.contains("not known"), "{unknown}");
    pipeline.assert_alive();
    let retried = pipeline.command(&["dead", "retry", "--all"]);
    assert_eq!(retried.code, Some(1), "{}", retried.log);
    assert!(
        retried.output.contains("no effect") && retried.output.contains("the first one stands"),
        "{}",
        retried.output
    );
}

#[test]
fn a_store_of_a_newer_version_is_refused_at_the_start_with_both_versions() {
    let pipeline = Pipeline::start();
    pipeline.put_value("tm_meta", "format", b"2 (Tidemill 9.9.9)");
    let service = pipeline.command(&["grader"]);
    assert_eq!(service.code, Some(69), "{}", service.log);
    let (url, suite) = (pipeline.engine.url(), pipeline.bench.text("suite.toml"));
    let command = pipeline.command(&["evaluate", "--suite", &suite, "--endpoint", &url, "--model", "m"]);
    assert_eq!(command.code, Some(2), "{}", command.log);
    for ran in [service, command] {
        for part in ["format 2 (Tidemill 9.9.9)", "Tidemill 0.", "knows format 1", "upgrade"] {
            assert!(ran.log.contains(part), "{part:?} is missing in: {}", ran.log);
        }
    }
}

#[test]
fn wrong_use_of_dead_letters_is_explained() {
    let pipeline = Pipeline::start();
    let cases: [(&[&str], &str); 4] = [
        (&["dead", "retry"], "--all"),
        (&["dead", "drop", "--all", "7"], "cannot be used with"),
        (&["dead", "retry", "7"], "no dead letter 7"),
        (&["dead", "show", "7"], "no dead letter 7"),
    ];
    for (arguments, part) in cases {
        let ran = pipeline.command(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.log);
        assert!(ran.log.contains(part), "{arguments:?}: {}", ran.log);
    }
    // A letter of nobody can be looked at.
    let mut headers = HeaderMap::new();
    headers.insert("Tidemill-Subject", "tm.elsewhere");
    pipeline.runtime.block_on(async {
        let sent = pipeline
            .js
            .publish_with_headers("tm.dead.x", headers, "words".into())
            .await;
        sent.unwrap().await.unwrap();
    });
    let shown = pipeline.command(&["dead", "show", "1", "--json"]).json().unwrap();
    assert_eq!(shown["content"], "text: words");
    let retried = pipeline.command(&["dead", "retry", "1"]);
    assert_eq!(retried.code, Some(1));
    assert!(retried.output.contains("nobody works on"), "{}", retried.output);
}
