//! Clients that go away, and the end of the server.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tidemill_engine::Options;

use crate::support::{Server, data};

#[tokio::test]
async fn a_client_that_leaves_a_stream_frees_its_slots() {
    let server = Server::start("hf-single").await;
    let stream = server.keep_busy(16, 0).await;
    drop(stream);
    server
        .wait_for("request_success_total", "abort", |aborted| aborted >= 1.0)
        .await;
    server
        .wait_for("num_requests_running", "", |running| running == 0.0)
        .await;
    server.complete(&json!({"prompt": "a"})).await;
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_stops_waiting_frees_its_slots() {
    let server = Server::start("hf-single").await;
    let mut body = Server::long(100);
    body["stream"] = json!(false);
    let request = tokio::spawn(server.client.post(server.url("/v1/completions")).json(&body).send());
    server
        .wait_for("num_requests_waiting", "", |waiting| waiting > 0.0)
        .await;
    assert!(!request.is_finished());
    request.abort();
    server
        .wait_for("request_success_total", "abort", |aborted| aborted >= 1.0)
        .await;
    server
        .wait_for("num_requests_running", "", |running| running == 0.0)
        .await;
    server.complete(&json!({"prompt": "a"})).await;
    server.stop().await;
}

#[tokio::test]
async fn a_drain_refuses_new_requests_and_finishes_running_ones() {
    let server = Server::start("hf-single").await;
    // Unread, the stream cannot complete before the refusals below were seen.
    let stream = server.open_stream(&Server::long(32)).await;
    server.shutdown.cancel();
    let (status, answer) = loop {
        let (status, answer) = server.post("/v1/completions", &json!({"prompt": "a"})).await;
        if status != 200 {
            break (status, answer);
        }
    };
    assert_eq!(
        (status, &answer["error"]["type"]),
        (503, &json!("ServiceUnavailableError"))
    );
    let health = server.client.get(server.url("/health")).send().await.unwrap();
    assert_eq!(health.status(), 503);
    let text = stream.text().await.unwrap();
    assert_eq!(text.matches("\"finish_reason\":\"length\"").count(), 32);
    assert!(text.ends_with("data: [DONE]\n\n"));
    server.ended().await.unwrap();
}

#[tokio::test]
async fn what_outlasts_the_grace_is_aborted() {
    let mut options = Options::new(data().join("hf-single"));
    (options.shutdown_grace, options.max_num_seqs) = (Duration::ZERO, 1);
    let server = Server::start_with(options).await;
    let stream = server.open_stream(&Server::long(100)).await;
    server
        .wait_for("num_requests_running", "", |running| running == 1.0)
        .await;
    server.shutdown.cancel();
    let text = stream.text().await.unwrap();
    assert!(text.contains("\"finish_reason\":\"abort\"") && text.ends_with("data: [DONE]\n\n"));
    server.ended().await.unwrap();
}

fn engine(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill-engine"));
    command
        .arg("--checkpoint")
        .arg(data().join("hf-single"))
        .args(["--port", "0"])
        .args(arguments);
    command.stderr(Stdio::piped());
    command
}

/// Reads log lines until the one that says where the engine listens.
fn wait_until_ready(child: &mut Child) -> impl Read + use<> {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("serving hf-single on http://127.0.0.1:") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "ended before it was ready");
    }
    lines
}

#[test]
fn the_process_ends_with_success_on_a_signal() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut child = engine(&[]).spawn().unwrap();
        let mut rest = wait_until_ready(&mut child);
        kill_process(Pid::from_child(&child), signal).unwrap();
        rest.read_to_string(&mut String::new()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn the_process_ends_with_its_parent() {
    let mut shell = Command::new("sh");
    let script = "\"$0\" \"$@\" & read line";
    let engine = engine(&["--exit-with-parent"]);
    shell
        .arg("-c")
        .arg(script)
        .arg(engine.get_program())
        .args(engine.get_args());
    let mut shell = shell.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut rest = wait_until_ready(&mut shell);
    drop(shell.stdin.take());
    shell.wait().unwrap();
    // The pipe reaches its end when the engine has ended too.
    let mut log = String::new();
    rest.read_to_string(&mut log).unwrap();
    assert!(log.contains("draining"), "{log}");
}

#[test]
fn the_process_explains_in_one_line_why_it_cannot_start() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill-engine"));
    let output = command
        .arg("--checkpoint")
        .arg(data().join("broken/hf-nan"))
        .args(["--port", "0"])
        .output()
        .unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), log.lines().count()), (Some(2), 1), "{log}");
    assert!(log.contains("not a finite number"), "{log}");
}
