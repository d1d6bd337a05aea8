//! Processes as a test uses them, with the shell as the program.

use std::io::Write;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use tidemill_testkit::process::Launch;
use tidemill_testkit::{Broker, Service};

const SOON: Duration = Duration::from_secs(10);

fn shell(script: &str) -> Launch {
    Service::program("sh").args(["-c", script])
}

#[test]
fn lines_are_seen_while_the_process_runs_and_kept_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut service = shell("echo starting >&2; echo ready on 4222 >&2; sleep 60")
        .log_to(&log)
        .spawn()
        .unwrap();
    assert_eq!(service.wait_for_line("ready", SOON).unwrap(), "ready on 4222");
    assert_eq!(service.log(), ["starting", "ready on 4222"]);
    assert_eq!(service.poll().unwrap(), None);
    assert_eq!(fs::read_to_string(log).unwrap(), "starting\nready on 4222\n");
}

#[test]
fn output_and_log_are_kept_apart() {
    let mut service = shell("echo data; echo note >&2; echo \"$MOOD\"; exit 3")
        .env("MOOD", "more")
        .spawn()
        .unwrap();
    assert_eq!(service.wait(SOON).unwrap().code(), Some(3));
    assert_eq!(service.output(), "data\nmore\n");
    assert_eq!(service.log(), ["note"]);
}

#[test]
fn waiting_for_a_line_ends_with_the_process_and_shows_its_log() {
    let service = shell("echo cannot bind >&2; exit 1").spawn().unwrap();
    let started = Instant::now();
    let error = service
        .wait_for_line("ready", Duration::from_secs(600))
        .unwrap_err()
        .to_string();
    assert!(error.contains("cannot bind") && error.contains("ready"), "{error}");
    assert!(started.elapsed() < SOON);
}

#[test]
fn waiting_for_a_line_or_the_end_is_bounded() {
    let mut service = shell("sleep 60").spawn().unwrap();
    assert!(service.wait_for_line("ready", Duration::from_millis(50)).is_err());
    assert!(service.wait(Duration::from_millis(50)).is_err());
}

#[test]
fn terminate_lets_the_process_end_in_its_own_way() {
    let script = "trap 'echo draining >&2; exit 7' TERM; echo up >&2; while :; do sleep 0.01; done";
    let mut service = shell(script).spawn().unwrap();
    service.wait_for_line("up", SOON).unwrap();
    service.terminate().unwrap();
    assert_eq!(service.wait(SOON).unwrap().code(), Some(7));
    assert_eq!(service.log(), ["up", "draining"]);
}

#[test]
fn killed_process_ends_without_a_word() {
    let mut service = shell("trap 'echo draining >&2' TERM; echo up >&2; while :; do sleep 0.01; done")
        .spawn()
        .unwrap();
    service.wait_for_line("up", SOON).unwrap();
    service.kill9().unwrap();
    assert_eq!(service.wait(SOON).unwrap().code(), None);
    assert_eq!(service.log(), ["up"]);
}

#[test]
fn missing_program_is_named() {
    let error = Service::program("/no/such/program").spawn().unwrap_err();
    assert!(format!("{error:#}").contains("/no/such/program"), "{error:#}");
}

/// Runs twice: as the test, and, started by it and then killed, as the process that leaves a broker and a service behind.
#[test]
fn nothing_outlives_a_test_that_is_killed() {
    const ROLE: &str = "TIDEMILL_TESTKIT_LEAVES_CHILDREN";
    if env::var_os(ROLE).is_some() {
        let (broker, service) = (Broker::start().unwrap(), shell("sleep 600").spawn().unwrap());
        writeln!(std::io::stderr(), "children {} {}", broker.pid().unwrap(), service.id()).unwrap();
        thread::sleep(Duration::from_secs(600));
    }
    let name = "nothing_outlives_a_test_that_is_killed";
    let itself = Service::program(env::current_exe().unwrap()).args([name, "--exact", "--nocapture"]);
    let mut parent = itself.env(ROLE, "1").spawn().unwrap();
    let line = parent.wait_for_line("children", SOON).unwrap();
    let children: Vec<u32> = line.split(' ').skip(1).map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(children.len(), 2);
    assert!(children.iter().all(|pid| runs(*pid)));
    parent.kill9().unwrap();
    let deadline = Instant::now() + SOON;
    while children.iter().any(|pid| runs(*pid)) {
        assert!(Instant::now() < deadline, "a child of {children:?} still runs");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs; one that has ended but was not reaped does not.
fn runs(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .any(|line| line.starts_with("State:") && !line.contains('Z'))
}
