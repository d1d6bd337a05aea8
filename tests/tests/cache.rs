//! What was generated once is not generated again, whichever evaluation asks, and nothing is mistaken for it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidemill_testkit::engine::Request;
use tidemill_testkit::{FakeEngine, Reply, Service};
use tidemill_tests::{Ran, Workbench, tidemill, workspace};

const PATIENCE: Duration = Duration::from_secs(120);

/// One request, that the engine may be asked for when it is attached.
const WARM_UP: u64 = 1;

fn run(arguments: &[String]) -> Ran {
    tidemill(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
}

fn valid(arguments: &[String]) -> Value {
    let ran = run(arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.log);
    ran.json().unwrap()
}

/// A suite of one benchmark: its head, what the prompt is, and further settings.
fn suite(version: &str, prompt: &str, settings: &str) -> String {
    format!(
        "name = \"words\"\nversion = \"{version}\"\n[[benchmark]]\nname = \"b\"\ndata = \"rows.jsonl\"\nid = \"id\"\n\
         {prompt}\ntarget = \"1\"\n{settings}\n[benchmark.grader]\nkind = \"exact\"\n"
    )
}

const TEXT: &str = "prompt = \"Say {{ word }}:\"";
const CHAT: &str = "messages = [{ role = \"user\", content = \"Say {{ word }}:\" }]";
const SAMPLED: &str = "max_tokens = 8\ntemperature = 0.8\nseed = 3\nsamples = 3";

fn rows(bench: &Workbench, ids: impl Iterator<Item = usize>) {
    let rows: Vec<String> = ids
        .map(|id| json!({ "id": format!("row-{id}"), "word": format!("word{id}") }).to_string())
        .collect();
    bench.write("rows.jsonl", &rows.join("\n")).unwrap();
}

/// An engine whose answer is the seed that was sent: another draw is another text.
fn drawing() -> FakeEngine {
    let answer = |request: &Request| Reply::text(format!(" {}", request.body["seed"]));
    FakeEngine::builder().respond(answer).start().unwrap()
}

fn more(command: &[String], flags: &[&str]) -> Vec<String> {
    command
        .iter()
        .cloned()
        .chain(flags.iter().map(|flag| (*flag).to_owned()))
        .collect()
}

fn cached(result: &Value) -> u64 {
    let benchmarks = result["benchmarks"].as_array().unwrap();
    benchmarks
        .iter()
        .map(|benchmark| benchmark["cached"].as_u64().unwrap())
        .sum()
}

/// The texts of an evaluation's samples by item and sample.
fn texts(bench: &Workbench, result: &Value) -> BTreeMap<(String, u64), String> {
    let data = bench.text("data");
    let ran = tidemill(&[
        "items",
        result["evaluation"].as_str().unwrap(),
        "--json",
        "--data-dir",
        &data,
    ])
    .unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.log);
    let rows = ran
        .output
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |row: Value| {
        let key = (
            row["item"].as_str().unwrap().to_owned(),
            row["sample"].as_u64().unwrap(),
        );
        (key, row["completion"].as_str().unwrap().to_owned())
    };
    rows.map(text).collect()
}

#[test]
fn the_next_version_of_a_suite_asks_only_for_what_is_new_and_samples_stay_different() {
    let (bench, engine) = (Workbench::new(1).unwrap(), drawing());
    let command = bench.evaluate(&engine.url(), engine.model());
    rows(&bench, 0..45);
    bench.write("suite.toml", &suite("1", TEXT, SAMPLED)).unwrap();
    let first = valid(&command);
    assert_eq!(
        (cached(&first), &first["benchmarks"][0]["cache_hit_rate"]),
        (0, &json!(0.0))
    );
    let before = engine.stats().requests;
    assert!((135..=135 + WARM_UP).contains(&before), "{before}");

    // What is cached outlives the completions of the evaluation that generated it.
    let (id, data) = (first["evaluation"].as_str().unwrap(), bench.text("data"));
    let archived = tidemill(&["archive", "now", id, "--purge", "--data-dir", &data]).unwrap();
    assert_eq!(archived.code, Some(0), "{}", archived.log);

    rows(&bench, 0..50);
    bench.write("suite.toml", &suite("2", TEXT, SAMPLED)).unwrap();
    let second = valid(&command);
    assert_eq!(
        (cached(&second), &second["benchmarks"][0]["cache_hit_rate"]),
        (135, &json!(0.9))
    );
    assert_eq!(second["benchmarks"][0]["requests"], 15);
    let asked = engine.stats().requests - before;
    assert!(
        (15..=15 + WARM_UP).contains(&asked),
        "{asked} requests for 5 new rows of 3 samples"
    );

    let (first, second) = (texts(&bench, &first), texts(&bench, &second));
    assert_eq!(second.len(), 150);
    let distinct: std::collections::BTreeSet<&String> = second.values().collect();
    assert_eq!(
        distinct.len(),
        150,
        "samples that are taken over stay different samples"
    );
    assert!(first.iter().all(|(key, text)| second[key] == *text));

    let third = valid(&more(&command, &["--no-cache"]));
    assert_eq!(cached(&third), 0);
    let asked = engine.stats().requests - before - asked;
    assert!(
        (150..=150 + WARM_UP).contains(&asked),
        "{asked} requests without the cache"
    );
    let entries = stat(&bench)["generations"].clone();
    assert_eq!(entries, 150, "and it leaves nothing there");
    let again = engine.stats().requests;
    assert_eq!(
        valid(&more(&command, &["--no-cache"])),
        third,
        "it is an evaluation of its own, and known"
    );
    assert_eq!(engine.stats().requests, again);
}

fn stat(bench: &Workbench) -> Value {
    let ran = tidemill(&["cache", "stat", "--json", "--data-dir", &bench.text("data")]).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.log);
    ran.json().unwrap()
}

#[test]
fn another_temperature_cap_template_seed_model_run_or_step_is_asked_for() {
    let (bench, engine) = (Workbench::new(1).unwrap(), drawing());
    rows(&bench, 0..4);
    let command = bench.evaluate(&engine.url(), engine.model());
    let base = "max_tokens = 8\ntemperature = 0.8\nseed = 3";
    bench.write("suite.toml", &suite("1", TEXT, base)).unwrap();
    valid(&command);
    let suites = [
        ("temperature", TEXT, "max_tokens = 8\ntemperature = 0.7\nseed = 3"),
        ("greedy", TEXT, "max_tokens = 8\nseed = 3"),
        ("cap", TEXT, "max_tokens = 9\ntemperature = 0.8\nseed = 3"),
        ("seed", TEXT, "max_tokens = 8\ntemperature = 0.8\nseed = 4"),
        (
            "stop",
            TEXT,
            "max_tokens = 8\ntemperature = 0.8\nseed = 3\nstop = [\"Say\"]",
        ),
        (
            "nucleus",
            TEXT,
            "max_tokens = 8\ntemperature = 0.8\nseed = 3\ntop_p = 0.5",
        ),
        ("chat", CHAT, base),
        ("prompt", "prompt = \"Say {{ word }}: \"", base),
    ];
    for (name, prompt, settings) in suites {
        bench.write("suite.toml", &suite(name, prompt, settings)).unwrap();
        let result = valid(&command);
        assert_eq!(cached(&result), 0, "another {name}");
        assert_eq!(result["benchmarks"][0]["requests"], 4, "another {name}");
    }
    bench.write("suite.toml", &suite("1", TEXT, base)).unwrap();
    for flags in [
        vec!["--run", "r"],
        vec!["--run", "r", "--step", "1"],
        vec!["--run", "q", "--step", "1"],
    ] {
        let result = valid(&more(&command, &flags));
        assert_eq!(
            cached(&result),
            0,
            "{flags:?}: a server's weights are what it is said to serve"
        );
    }
    let other = FakeEngine::builder().model("other").start().unwrap();
    let moved = more(&bench.evaluate(&other.url(), "other"), &["--run", "r"]);
    assert_eq!(cached(&valid(&moved)), 0, "another model");

    // The suite's name and version, its graders and targets are not asked for.
    let regraded = suite("regraded", TEXT, base)
        .replace("target = \"1\"", "target = \"2\"")
        .replace("exact", "numeric");
    bench.write("suite.toml", &regraded).unwrap();
    assert_eq!(cached(&valid(&more(&command, &["--run", "r"]))), 4);
}

#[test]
fn the_same_weights_under_another_run_share_and_other_weights_do_not() {
    let bench = Workbench::new(1).unwrap();
    rows(&bench, 0..3);
    bench.write("suite.toml", &suite("1", TEXT, "max_tokens = 4")).unwrap();
    let checkpoints = workspace().join("examples/demo/checkpoints");
    let mut names: Vec<_> = std::fs::read_dir(checkpoints)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    let copy = bench.path("copy");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(&names[0]).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let evaluate = |run: &str| {
        let (suite, checkpoint, data) = (bench.text("suite.toml"), copy.display().to_string(), bench.text("data"));
        let arguments = [
            "evaluate",
            "--suite",
            &suite,
            "--checkpoint",
            &checkpoint,
            "--run",
            run,
            "--data-dir",
            &data,
            "--json",
        ];
        valid(&arguments.map(str::to_owned))
    };
    assert_eq!(cached(&evaluate("first")), 0);
    let second = evaluate("second");
    assert_eq!((cached(&second), &second["benchmarks"][0]["requests"]), (3, &json!(0)));
    // What turns text into tokens is part of the checkpoint.
    let tokenizer = copy.join("tokenizer.json");
    let text = std::fs::read_to_string(&tokenizer).unwrap();
    std::fs::write(&tokenizer, format!("{text}\n")).unwrap();
    assert_eq!(cached(&evaluate("third")), 0, "another tokenizer is another checkpoint");
}

/// Announces a suite for an endpoint.
fn announce(suite: &str, engine: &FakeEngine, broker: &str, data: &str) {
    let url = engine.url();
    let arguments = [
        "announce",
        "--run",
        "r",
        "--step",
        "1",
        "--suite",
        suite,
        "--endpoint",
        &url,
        "--model",
        engine.model(),
        "--nats",
        broker,
        "--data-dir",
        data,
    ];
    let ran = tidemill(&arguments).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.log);
}

fn results(broker: &str, data: &str, count: usize) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let ran = tidemill(&["results", "--json", "--nats", broker, "--data-dir", data]).unwrap();
        let found = ran
            .json()
            .ok()
            .and_then(|found| found.as_array().cloned())
            .unwrap_or_default();
        if found.iter().filter(|result| result["state"] == "final").count() >= count {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{}", ran.log);
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn evaluations_at_once_ask_for_what_they_share_once_and_a_kill_in_between_changes_nothing() {
    let bench = Workbench::new(1).unwrap();
    rows(&bench, 0..60);
    bench.write("one.toml", &suite("1", TEXT, SAMPLED)).unwrap();
    bench
        .write(
            "two.toml",
            &suite("2", TEXT, &SAMPLED.replace("samples = 3", "samples = 4")),
        )
        .unwrap();
    let broker = tidemill_testkit::Broker::start().unwrap();
    let slow = |request: &Request| Reply::text(format!(" {}", request.body["seed"])).after(Duration::from_millis(30));
    let engine = FakeEngine::builder().respond(slow).start().unwrap();
    let data = bench.text("data");
    let up = || {
        let arguments = ["up", "--nats", &broker.url(), "--data-dir", &data].map(str::to_owned);
        Service::tidemill()
            .unwrap()
            .args(arguments)
            .env("TIDEMILL_LOADER__MAX_IN_FLIGHT", "8")
            .spawn()
            .unwrap()
    };
    let mut service = up();
    let ready = Instant::now();
    while tidemill(&["streams", "check", "--nats", &broker.url(), "--data-dir", &data])
        .unwrap()
        .code
        != Some(0)
    {
        assert!(ready.elapsed() < PATIENCE);
    }
    announce(&bench.text("one.toml"), &engine, &broker.url(), &data);
    announce(&bench.text("two.toml"), &engine, &broker.url(), &data);
    while engine.stats().requests < 80 {
        std::thread::sleep(Duration::from_millis(5));
        assert!(service.poll().unwrap().is_none(), "{:?}", service.log());
    }
    service.kill9().unwrap();
    let service = up();
    let found = results(&broker.url(), &data, 2);
    drop(service);
    assert_eq!(found.len(), 2, "{found:?}");
    let shared: u64 = found.iter().map(cached).sum();
    let distinct = 60 * 4;
    let requests = engine.stats().requests;
    // What was in flight at the kill may be asked for again, and each start may ask once whether the engine is there.
    assert!(
        (distinct..=distinct + 8 + 2 * WARM_UP).contains(&requests),
        "{requests} requests for {distinct} draws"
    );
    assert!(
        (60 * 3..=60 * 3 + 8).contains(&shared),
        "{shared} of 180 shared samples were taken over"
    );
}

#[test]
fn an_operator_sees_bounds_and_clears_the_cache() {
    let bench = Workbench::new(1).unwrap();
    rows(&bench, 0..30);
    bench.write("suite.toml", &suite("1", TEXT, "max_tokens = 8")).unwrap();
    let long = FakeEngine::builder()
        .respond(|_| Reply::text(format!(" {}", "x".repeat(8_000))))
        .start()
        .unwrap();
    let command = bench.evaluate(&long.url(), long.model());
    let bounded = |command: &[String]| {
        let launched = Service::tidemill()
            .unwrap()
            .args(command)
            .env_remove("NATS_URL")
            .env("TIDEMILL_CACHE__MAX_BYTES", "64KiB");
        let mut service = launched.spawn().unwrap();
        assert_eq!(service.wait(PATIENCE).unwrap().code(), Some(0), "{:?}", service.log());
        serde_json::from_str::<Value>(&service.output()).unwrap()
    };
    bounded(&command);
    bench.write("suite.toml", &suite("2", TEXT, "max_tokens = 8")).unwrap();
    let result = bounded(&command);
    let taken = cached(&result);
    assert!(taken <= 8, "{taken} of 30 fit into the bound");
    assert_eq!(
        result["benchmarks"][0]["requests"],
        30 - taken,
        "what was evicted is generated anew"
    );

    let data = bench.text("data");
    let before = stat(&bench);
    assert!(
        before["generations"].as_u64().unwrap() > 0 && before["models"].as_array().unwrap().len() == 1,
        "{before}"
    );
    let wrong = tidemill(&["cache", "clear", "--model", "nobody", "--data-dir", &data]).unwrap();
    assert_eq!(wrong.code, Some(2), "{}", wrong.log);
    assert!(
        wrong.log.contains("nobody") && wrong.log.contains("cache stat"),
        "{}",
        wrong.log
    );
    let cleared = tidemill(&["cache", "clear", "--model", long.model(), "--json", "--data-dir", &data]).unwrap();
    assert_eq!(
        cleared.json().unwrap()["removed"],
        before["generations"],
        "{}",
        cleared.log
    );
    assert_eq!(stat(&bench)["generations"], 0);
    bench.write("suite.toml", &suite("3", TEXT, "max_tokens = 8")).unwrap();
    assert_eq!(cached(&bounded(&command)), 0);
}

#[test]
fn with_the_cache_switched_off_every_evaluation_asks_for_itself() {
    let (bench, engine) = (Workbench::new(1).unwrap(), drawing());
    rows(&bench, 0..5);
    let command = bench.evaluate(&engine.url(), engine.model());
    for version in ["1", "2"] {
        bench
            .write("suite.toml", &suite(version, TEXT, "max_tokens = 8"))
            .unwrap();
        let launched = Service::tidemill()
            .unwrap()
            .args(&command)
            .env_remove("NATS_URL")
            .env("TIDEMILL_CACHE__ENABLED", "false");
        let mut service = launched.spawn().unwrap();
        assert_eq!(service.wait(PATIENCE).unwrap().code(), Some(0), "{:?}", service.log());
        assert_eq!(cached(&serde_json::from_str(&service.output()).unwrap()), 0);
    }
    assert_eq!(stat(&bench)["generations"], 0);
}
