//! What an operator sees: health, metrics, one trace an item, waiting checkpoints, brokers that are not fit.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use tidemill_testkit::{Broker, FakeEngine, Service};
use tidemill_tests::{Workbench, tidemill, workspace};

const PATIENCE: Duration = Duration::from_secs(90);
const ROLES: [&str; 4] = ["loader", "generator", "grader", "aggregator"];

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: tidemill\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn apply_streams(broker: &Broker) {
    let applied = tidemill(&["streams", "apply", "--nats", &broker.url()]).unwrap();
    assert_eq!(applied.code, Some(0), "{}", applied.log);
}

fn spawn(role: &str, broker: &Broker, bench: &Workbench) -> Service {
    let service = Service::tidemill()
        .unwrap()
        .args([role, "--nats", &broker.url(), "--data-dir", &bench.text("data")])
        .env("RUST_LOG", "debug,hyper_util=warn")
        .env("TIDEMILL_SERVICE__LOG_JSON", "true")
        .spawn()
        .unwrap();
    service.wait_for_line("\"ready\"", PATIENCE).unwrap();
    service
}

fn announce(broker: &Broker, bench: &Workbench, what: &[&str]) {
    let (suite, nats, data) = (bench.text("suite.toml"), broker.url(), bench.text("data"));
    let common = [
        "--run",
        "r",
        "--step",
        "1",
        "--suite",
        &suite,
        "--nats",
        &nats,
        "--data-dir",
        &data,
    ];
    let ran = tidemill(&[&["announce"], what, &common].concat()).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.log);
}

fn wait_for_state(broker: &Broker, bench: &Workbench, state: &str) -> serde_json::Value {
    let begun = std::time::Instant::now();
    loop {
        let (nats, data) = (broker.url(), bench.text("data"));
        let ran = tidemill(&["results", "--json", "--nats", &nats, "--data-dir", &data]).unwrap();
        let results = ran.json().unwrap();
        let results = results.as_array().unwrap();
        if let Some(found) = results.iter().find(|result| result["state"] == state) {
            return found.clone();
        }
        assert!(begun.elapsed() < PATIENCE, "not {state}: {results:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The lines of the log that are spans, by item: the trace ids and the stages.
fn spans(services: &[Service]) -> BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> {
    let mut spans: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
    for line in services.iter().flat_map(Service::log) {
        let Ok(line) = serde_json::from_str::<serde_json::Value>(&line) else {
            continue;
        };
        if line["message"] == "span" {
            let text = |field: &str| line[field].as_str().unwrap().to_owned();
            let (traces, stages) = spans.entry(text("item_id")).or_default();
            traces.insert(text("trace_id"));
            stages.insert(text("stage"));
        }
    }
    spans
}

#[test]
fn services_tell_their_health_and_one_item_is_one_trace_across_them() {
    let (broker, bench) = (Broker::start().unwrap(), Workbench::new(5).unwrap());
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    apply_streams(&broker);
    let services: Vec<Service> = ROLES.iter().map(|role| spawn(role, &broker, &bench)).collect();
    announce(
        &broker,
        &bench,
        &["--endpoint", &engine.url(), "--model", engine.model()],
    );
    wait_for_state(&broker, &bench, "final");

    for (role, service) in ROLES.iter().zip(&services) {
        let ready: serde_json::Value =
            serde_json::from_str(&service.wait_for_line("\"ready\"", PATIENCE).unwrap()).unwrap();
        let admin = ready["admin"].as_str().unwrap();
        assert!(get(admin, "/livez").starts_with("HTTP/1.1 200"), "{role}");
        assert!(get(admin, "/readyz").starts_with("HTTP/1.1 200"), "{role}");
        let metrics = get(admin, "/metrics");
        let expected = match *role {
            "loader" => "tidemill_released_total{again=\"false\"} 20",
            "generator" => "tidemill_items_left_total 20",
            "grader" => "tidemill_grades_total{",
            _ => "tidemill_results_total{",
        };
        assert!(metrics.contains(expected), "{role}: {metrics}");
    }
    let spans = spans(&services);
    assert_eq!(spans.len() as u64, Workbench::samples(5));
    for (item, (traces, stages)) in spans {
        assert_eq!(traces.len(), 1, "{item} has the traces {traces:?}");
        assert_eq!(
            stages,
            ["aggregate", "generate", "grade", "release"].map(str::to_owned).into(),
            "{item}"
        );
    }
    for mut service in services {
        service.terminate().unwrap();
        assert_eq!(service.wait(PATIENCE).unwrap().code(), Some(0), "{:?}", service.log());
    }
}

fn copy(from: &Path, to: &Path, skip: &str) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name() != skip)
    {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_checkpoint_that_is_still_written_is_waited_for_and_one_that_stays_so_is_given_up_with_the_reason() {
    let (broker, bench) = (Broker::start().unwrap(), Workbench::new(3).unwrap());
    let plain = std::fs::read_to_string(bench.path("suite.toml")).unwrap();
    let exact_only = plain.split("[[benchmark]]\nname = \"chat\"").next().unwrap();
    bench.write("suite.toml", exact_only).unwrap();
    apply_streams(&broker);
    let services: Vec<Service> = ROLES
        .iter()
        .map(|role| {
            let service = Service::tidemill()
                .unwrap()
                .args([role, "--nats", &broker.url(), "--data-dir", &bench.text("data")])
                .env("TIDEMILL_LOADER__CHECKPOINT_PATIENCE", "8s")
                .spawn()
                .unwrap();
            service.wait_for_line("ready", PATIENCE).unwrap();
            service
        })
        .collect();
    let whole = workspace().join("services/engine/tests/data/hf-sharded");
    let shard = "model-00002-of-00003.safetensors";
    let growing = bench.path("growing");
    copy(&whole, &growing, shard);
    let bytes = std::fs::read(whole.join(shard)).unwrap();
    std::fs::write(growing.join(shard), &bytes[..bytes.len() / 2]).unwrap();
    announce(&broker, &bench, &[&growing.display().to_string()]);
    let waiting = services[0]
        .wait_for_line("waiting for the checkpoint", PATIENCE)
        .unwrap();
    assert!(waiting.contains(shard), "{waiting}");
    std::fs::write(growing.join(shard), &bytes).unwrap();
    let result = wait_for_state(&broker, &bench, "final");
    assert_eq!(result["benchmarks"][0]["coverage"], 1.0, "{result}");

    let never = bench.path("never");
    copy(&whole, &never, shard);
    announce(&broker, &bench, &[&never.display().to_string()]);
    let given_up = services[0].wait_for_line("given up", PATIENCE).unwrap();
    assert!(given_up.contains(shard) && given_up.contains("missing"), "{given_up}");
    let doctor = tidemill(&["doctor", "--nats", &broker.url(), "--data-dir", &bench.text("data")]).unwrap();
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.output.contains(shard), "{}", doctor.output);
    let refused = wait_for_state(&broker, &bench, "invalid");
    let reason = refused["reason"].as_str().unwrap();
    assert!(
        reason.contains(shard) && reason.contains("announce it again"),
        "{refused}"
    );
}

/// Answers like a broker of the given version, as far as a client needs to look at it.
fn pretended_broker(version: &'static str, jetstream: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let info = serde_json::json!({
                "server_id": "x", "server_name": "x", "version": version, "proto": 1, "go": "x", "host": "127.0.0.1",
                "port": address.port(), "headers": true, "max_payload": 1_048_576, "jetstream": jetstream, "client_id": 1,
                "auth_required": false, "tls_required": false,
            });
            write!(stream, "INFO {info}\r\n").unwrap();
            let reader = BufReader::new(stream.try_clone().unwrap());
            for line in reader.lines().map_while(Result::ok) {
                if line.starts_with("PING") && stream.write_all(b"PONG\r\n").is_err() {
                    break;
                }
            }
        }
    });
    format!("nats://{address}")
}

#[test]
fn a_broker_too_old_or_without_jetstream_is_named_with_what_to_do() {
    for (version, jetstream, part) in [("2.9.25", true, "2.9.25"), ("2.15.1", false, "JetStream")] {
        let url = pretended_broker(version, jetstream);
        let data = tempfile::tempdir().unwrap();
        let ran = tidemill(&[
            "results",
            "--nats",
            &url,
            "--data-dir",
            &data.path().display().to_string(),
        ])
        .unwrap();
        assert_eq!(ran.code, Some(2), "{}", ran.log);
        assert!(ran.log.contains(part) && ran.log.contains(&url), "{}", ran.log);
        let ran = tidemill(&["grader", "--nats", &url]).unwrap();
        assert_eq!(ran.code, Some(69), "{}", ran.log);
    }
}

#[test]
fn ports_in_use_are_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = tempfile::tempdir().unwrap();
    let data = data.path().display().to_string();
    let up = tidemill(&["up", "--admin", &address, "--data-dir", &data]).unwrap();
    assert_eq!(up.code, Some(2), "{}", up.log);
    assert!(up.log.contains(&address), "{}", up.log);
    let grader = tidemill(&["grader", "--admin", &address, "--nats", "nats://127.0.0.1:1"]).unwrap();
    assert_eq!(grader.code, Some(78), "{}", grader.log);
    let checkpoint = workspace()
        .join("services/engine/tests/data/hf-single")
        .display()
        .to_string();
    let port = taken.local_addr().unwrap().port().to_string();
    let engine = tidemill(&["engine", "--checkpoint", &checkpoint, "--port", &port]).unwrap();
    assert_eq!(engine.code, Some(2), "{}", engine.log);
    assert!(engine.log.contains(&port), "{}", engine.log);
}

#[test]
fn a_broker_without_room_is_named_and_what_is_stored_stays() {
    let broker = Broker::start_with("jetstream { max_file_store: 64MB }").unwrap();
    let bench = Workbench::new(2).unwrap();
    let engine = FakeEngine::start().unwrap();
    let mut command = bench.evaluate(&engine.url(), engine.model());
    command.extend(["--nats".to_owned(), broker.url()]);
    let ran = tidemill(&command.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    assert_eq!(ran.code, Some(2), "{}", ran.log);
    assert!(ran.log.contains("insufficient storage"), "{}", ran.log);
}

#[test]
fn an_own_broker_ends_with_its_process_also_when_that_is_killed() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().display().to_string();
    let mut up = Service::tidemill()
        .unwrap()
        .args(["up", "--data-dir", &folder])
        .env_remove("NATS_URL")
        .spawn()
        .unwrap();
    up.wait_for_line("ready", PATIENCE).unwrap();
    let note = std::fs::read_to_string(data.path().join("broker.json")).unwrap();
    let note: serde_json::Value = serde_json::from_str(&note).unwrap();
    let address = note["url"]
        .as_str()
        .unwrap()
        .strip_prefix("nats://")
        .unwrap()
        .to_owned();
    assert!(TcpStream::connect(&address).is_ok());
    up.kill9().unwrap();
    let begun = std::time::Instant::now();
    while TcpStream::connect(&address).is_ok() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the broker outlived its owner"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let again = tidemill(&["results", "--json", "--data-dir", &folder]).unwrap();
    assert_eq!((again.code, again.output.trim()), (Some(0), "[]"), "{}", again.log);
}

#[test]
fn commands_with_a_broker_of_their_own_say_one_line_and_warn_of_nothing() {
    let bench = Workbench::new(1).unwrap();
    let data = bench.text("data");
    let ran = |arguments: &[&str]| tidemill(&[arguments, &["--data-dir", &data]].concat()).unwrap();
    let (planned, applied, checked) = (
        ran(&["streams", "plan"]),
        ran(&["streams", "apply"]),
        ran(&["streams", "check"]),
    );
    for (ran, said) in [
        (&planned, "DONE: is not there"),
        (&applied, "DONE: is not there"),
        (&checked, ""),
    ] {
        assert_eq!((ran.code, ran.log.lines().count()), (Some(0), 1), "{}", ran.log);
        assert!(
            ran.output.contains(said) && !ran.log.contains("WARN"),
            "{}{}",
            ran.output,
            ran.log
        );
    }
    assert!(
        checked.output.is_empty() && checked.log.contains("as declared"),
        "{}{}",
        checked.output,
        checked.log
    );
    let doctor = ran(&["doctor"]);
    assert!(!doctor.log.contains("WARN"), "{}", doctor.log);
}
