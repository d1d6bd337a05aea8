//! Something is full, or slow: producers wait, nothing is dropped, the operator sees why, and all goes on when it is over.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail this way, and says loudly what it could not try"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tidemill_testkit::{Broker, FakeEngine, Service, SmallDisk};
use tidemill_tests::{Pipeline, Setup, Workbench, tidemill};

const ITEMS: usize = 120;
const MIB: u64 = 1 << 20;
/// Warm-ups where leases, too, could not be renewed for a while.
const LEASE_MAY_BE_LOST: RangeInclusive<u64> = 1..=3;
const PATIENCE: Duration = Duration::from_secs(120);

/// The report that every disturbed run must reach; it does not depend on how long anything took.
fn undisturbed() -> &'static Value {
    static REPORT: OnceLock<Value> = OnceLock::new();
    REPORT.get_or_init(|| {
        let bench = Workbench::new(ITEMS).unwrap();
        let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
        let command = bench.evaluate(&engine.url(), engine.model());
        let ran = tidemill(&command.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.log);
        Workbench::comparable(&ran.json().unwrap())
    })
}

fn setup() -> Setup {
    Setup {
        items: ITEMS,
        in_flight: 8,
        latency: Duration::from_millis(80),
        ..Setup::default()
    }
}

/// Waits for the end: the undisturbed report, each request made once (and a warm-up each time that the loader has the group),
/// no process lost.
fn ends_as_undisturbed(pipeline: &mut Pipeline, warm_ups: RangeInclusive<u64>) {
    let result = pipeline.final_result().unwrap();
    assert_eq!(&Workbench::comparable(&result), undisturbed());
    let asked = pipeline.engine.stats().requests;
    let more = asked.saturating_sub(Workbench::requests(ITEMS));
    assert!(
        warm_ups.contains(&more),
        "{more} more requests: something finished was asked for again"
    );
    for (role, service) in &mut pipeline.services {
        assert!(service.poll().unwrap().is_none(), "the {role} waits, it does not end");
    }
}

fn metric(service: &Service, name: &str) -> Option<f64> {
    let line = service.wait_for_line("ready", PATIENCE).unwrap();
    let address = line.split("admin=").nth(1).unwrap().split_whitespace().next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nhost: tidemill\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let line = answer.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Set to 1 where no small disk can be mounted and tests that need one may be left out.
const MAY_LACK_DISK: &str = "TIDEMILL_TESTS_WITHOUT_SMALL_DISK";

/// A small disk; `None`, with a loud word, where there is none and none is asked for.
fn small_disk(bytes: u64) -> Option<SmallDisk> {
    let error = match SmallDisk::new(bytes) {
        Ok(disk) => return Some(disk),
        Err(error) => error,
    };
    let may_lack = std::env::var_os(MAY_LACK_DISK).is_some_and(|value| value == "1");
    assert!(
        may_lack,
        "{error:#}; {MAY_LACK_DISK}=1 leaves out the tests of a full disk"
    );
    eprintln!("NOT TESTED ON A REAL FULL DISK: {error:#}");
    None
}

/// Fills the disk to the last byte.
fn fill(disk: &SmallDisk, ballast: &Path) {
    let filled = disk
        .command("dd")
        .args(["if=/dev/zero", "bs=4096"])
        .arg(format!("of={}", ballast.display()))
        .output()
        .unwrap();
    assert!(!filled.status.success(), "dd ends when nothing more fits");
    assert_eq!(disk.free().unwrap(), 0);
}

#[test]
fn a_stream_at_its_limit_is_named_and_all_goes_on_when_it_is_raised() {
    let mut pipeline = Pipeline::start(setup()).unwrap();
    pipeline.announce().unwrap();
    for (part, stream, waits, limit) in [
        (6, "DONE", "generator", 4_096 * MIB),
        (3, "READY", "loader", 256 * MIB),
        (2, "GRADE", "grader", 2_048 * MIB),
    ] {
        pipeline.wait_for_requests(Workbench::requests(ITEMS) / part).unwrap();
        pipeline.limit_stream(stream, 1).unwrap();
        pipeline.wait_until_doctor_names(stream).unwrap();
        let found = &pipeline.doctor().unwrap()["processes"];
        assert!(found["detail"].as_str().unwrap().contains(waits), "{found}");
        let stalled = format!("tidemill_stalled_seconds{{on=\"{stream}\"}}");
        assert!(metric(&pipeline.services[waits], &stalled).unwrap() > 0.0);
        pipeline.limit_stream(stream, i64::try_from(limit).unwrap()).unwrap();
        pipeline.wait_until_nobody_waits().unwrap();
        assert_eq!(metric(&pipeline.services[waits], &stalled), Some(0.0));
    }
    ends_as_undisturbed(&mut pipeline, 1..=1);
}

#[test]
fn the_command_says_what_it_waits_for_and_goes_on() {
    let broker = Broker::start().unwrap();
    let bench = Workbench::new(ITEMS).unwrap();
    let slow =
        |request: &tidemill_testkit::engine::Request| Workbench::answer(request).after(Duration::from_millis(30));
    let engine = FakeEngine::builder().respond(slow).start().unwrap();
    let mut command = bench.evaluate(&engine.url(), engine.model());
    command.extend(["--nats", &broker.url(), "--max-in-flight", "8"].map(str::to_owned));
    let mut service = Service::tidemill().unwrap().args(&command).spawn().unwrap();
    while engine.stats().requests < Workbench::requests(ITEMS) / 4 {
        assert!(service.poll().unwrap().is_none(), "{:?}", service.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    tidemill_tests::limit_stream(&broker, "DONE", 1).unwrap();
    let said = service.wait_for_line("waiting on DONE", PATIENCE).unwrap();
    assert!(
        said.contains("maximum bytes exceeded") && said.contains("raise the stream's limit"),
        "{said}"
    );
    tidemill_tests::limit_stream(&broker, "DONE", 4 << 30).unwrap();
    service.wait_for_line("going on: DONE", PATIENCE).unwrap();
    assert!(service.wait(PATIENCE).unwrap().success(), "{:?}", service.log());
    let result: Value = serde_json::from_str(&service.output()).unwrap();
    assert_eq!(&Workbench::comparable(&result), undisturbed());
    assert_eq!(engine.stats().requests, Workbench::requests(ITEMS) + 1);
}

#[test]
fn a_broker_at_its_own_limit_is_waited_for() {
    let mut pipeline = Pipeline::start(setup()).unwrap();
    pipeline.announce().unwrap();
    pipeline.wait_for_requests(Workbench::requests(ITEMS) / 3).unwrap();
    pipeline
        .broker
        .restart_with("jetstream { max_file_store: 1KB }")
        .unwrap();
    pipeline.wait_until_doctor_names("DONE").unwrap();
    pipeline.broker.restart_with("").unwrap();
    ends_as_undisturbed(&mut pipeline, LEASE_MAY_BE_LOST);
}

#[test]
fn a_full_disk_of_the_broker_is_waited_for() {
    let Some(disk) = small_disk(32 * MIB) else { return };
    let ballast = disk.path().join("ballast");
    let mut pipeline = Pipeline::start(Setup {
        broker_disk: Some(disk),
        ..setup()
    })
    .unwrap();
    pipeline.announce().unwrap();
    pipeline.wait_for_requests(Workbench::requests(ITEMS) / 3).unwrap();
    fill(pipeline.broker.disk().unwrap(), &ballast);
    pipeline
        .service("generator")
        .unwrap()
        .wait_for_line("the broker does not take messages", PATIENCE)
        .unwrap();
    let disk = pipeline.broker.disk().unwrap();
    assert!(disk.command("rm").arg(&ballast).status().unwrap().success());
    // A server that met a full disk switches its streams off until it is started again.
    pipeline.broker.restart().unwrap();
    ends_as_undisturbed(&mut pipeline, LEASE_MAY_BE_LOST);
}

/// Chats answered at such length that their completions travel by the object store.
fn with_bodies(setup: Setup) -> Setup {
    Setup {
        reasoning_bytes: 300 << 10,
        ..setup
    }
}

#[test]
fn a_full_object_store_is_named_and_waited_for() {
    let Some(disk) = small_disk(16 * MIB) else { return };
    let mut pipeline = Pipeline::start(Setup {
        service_disk: Some(disk),
        ..with_bodies(setup())
    })
    .unwrap();
    pipeline.announce().unwrap();
    // 240 chats of 300 KiB each: the disk is full long before the end.
    pipeline
        .service("generator")
        .unwrap()
        .wait_for_line("the object store does not take a body", PATIENCE)
        .unwrap();
    pipeline.wait_until_doctor_names("object_store").unwrap();
    pipeline.disk.as_ref().unwrap().resize(256 * MIB).unwrap();
    ends_as_undisturbed(&mut pipeline, 1..=1);
}

#[test]
fn an_object_store_that_is_away_is_waited_for_by_everyone() {
    let mut pipeline = Pipeline::start(with_bodies(setup())).unwrap();
    let objects = pipeline.bench.path("data").join("objects");
    let away = |folder: &str| {
        std::fs::create_dir_all(objects.join(folder)).unwrap();
        std::fs::rename(objects.join(folder), objects.join(format!("{folder}-away"))).unwrap();
        std::fs::write(objects.join(folder), "no folder").unwrap();
    };
    let back = |folder: &str| {
        std::fs::remove_file(objects.join(folder)).unwrap();
        std::fs::rename(objects.join(format!("{folder}-away")), objects.join(folder)).unwrap();
    };
    away("manifests");
    pipeline.announce().unwrap();
    pipeline.wait_until_doctor_names("object_store").unwrap();
    back("manifests");
    // Early: the chats, whose bodies go to the store, are the longest and come first.
    pipeline.wait_for_requests(Workbench::requests(ITEMS) / 16).unwrap();
    for folder in ["manifests", "claims"] {
        away(folder);
    }
    // One that knows nothing yet must read the manifest.
    pipeline.spawn("loader").unwrap();
    let waits = |pipeline: &Pipeline, role: &str| {
        let found = pipeline.doctor().unwrap()["processes"]["detail"].to_string();
        found.contains(&format!("{role}-")) && found.contains("waits on object_store")
    };
    pipeline
        .wait_until(|| Ok(waits(&pipeline, "loader") && waits(&pipeline, "generator")))
        .unwrap();
    for folder in ["manifests", "claims"] {
        back(folder);
    }
    ends_as_undisturbed(&mut pipeline, 2..=2);
}

#[test]
fn graders_that_stop_hold_generation_up_at_the_bound_and_no_earlier() {
    const BOUND: u64 = 60;
    let mut pipeline = Pipeline::start(Setup {
        environment: vec![("TIDEMILL_LOADER__MAX_UNGRADED".to_owned(), BOUND.to_string())],
        ..setup()
    })
    .unwrap();
    pipeline.announce().unwrap();
    pipeline.wait_for_requests(Workbench::requests(ITEMS) / 6).unwrap();
    let signal = |pipeline: &Pipeline, name: &str| {
        let id = pipeline.services["grader"].id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    };
    signal(&pipeline, "-STOP");
    pipeline.wait_until_doctor_names("grading").unwrap();
    // What was out when the bound was reached comes in.
    let at_bound = |pipeline: &Pipeline| {
        let found = &pipeline.doctor().unwrap()["grading backlog"]["figures"];
        let ungraded = found["waiting"].as_u64().unwrap() + found["in_hand"].as_u64().unwrap();
        assert!(ungraded <= BOUND, "{found}");
        ungraded == BOUND
    };
    pipeline.wait_until(|| Ok(at_bound(&pipeline))).unwrap();
    let count = |pipeline: &Pipeline| (pipeline.engine.stats().requests, pipeline.messages("DONE").unwrap());
    let (asked, done) = count(&pipeline);
    assert!(done < Workbench::samples(ITEMS), "held up before the end");
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(200));
        assert!(at_bound(&pipeline));
        assert_eq!(count(&pipeline), (asked, done), "nothing more is released");
    }
    let found = &pipeline.doctor().unwrap()["processes"];
    let said = format!("{BOUND} completions wait for their grades");
    assert!(found["detail"].as_str().unwrap().contains(&said), "{found}");
    signal(&pipeline, "-CONT");
    ends_as_undisturbed(&mut pipeline, 1..=1);
}
