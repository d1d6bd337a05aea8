//! One command from suite and endpoint to a result: right, resumed, and answered from what is stored.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tidemill_testkit::{FakeEngine, Reply, Service};
use tidemill_tests::{Workbench, tidemill};

fn run(arguments: &[String]) -> tidemill_tests::Ran {
    tidemill(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
}

/// Waits until the engine was asked so often, by a process that must not end before.
fn wait_for_requests(engine: &FakeEngine, count: u64, service: &mut Service) {
    while engine.stats().requests < count {
        std::thread::sleep(Duration::from_millis(5));
        assert!(service.poll().unwrap().is_none(), "ended early: {:?}", service.log());
    }
}

#[test]
fn an_evaluation_counts_every_sample_and_again_asks_nothing() {
    let bench = Workbench::new(50).unwrap();
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    let command = bench.evaluate(&engine.url(), engine.model());
    let first = run(&command);
    assert_eq!(first.code, Some(0), "{}", first.log);
    let result = first.json().unwrap();
    assert_eq!(result["state"], "final");
    let names: Vec<&str> = result["benchmarks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["exact", "chat", "likelihood"]);
    for benchmark in result["benchmarks"].as_array().unwrap() {
        assert_eq!(benchmark["coverage"], 1.0, "{benchmark}");
        let outcomes = benchmark["outcomes"].as_object().unwrap();
        let total: u64 = outcomes.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(total, benchmark["samples"].as_u64().unwrap());
    }
    // Sums 4n+1 that are multiples of 5 are answered wrong: n = 1, 6, 11, ... of 50.
    assert_eq!(result["benchmarks"][0]["outcomes"]["incorrect"], 10);
    assert_eq!(result["benchmarks"][0]["mean"], 0.8);
    assert_eq!(result["benchmarks"][1]["samples"], 100);
    for stage in [
        "written",
        "seen",
        "queued",
        "admitted",
        "serving",
        "first_request",
        "last_completion",
        "last_grade",
        "visible",
    ] {
        assert!(result["timeline"][stage].is_string(), "{stage}: {}", result["timeline"]);
    }
    let requests = engine.stats().requests;
    assert!(
        requests <= Workbench::requests(50) + 1,
        "one warm-up and one request a sample or choice, not {requests}"
    );

    let second = run(&command);
    assert_eq!(second.code, Some(0), "{}", second.log);
    assert_eq!(second.json().unwrap(), result);
    assert_eq!(engine.stats().requests, requests, "the second run asked the engine");
}

#[test]
fn a_killed_evaluation_goes_on_where_it_was() {
    let items = 120;
    let bench = Workbench::new(items).unwrap();
    let slow =
        |request: &tidemill_testkit::engine::Request| Workbench::answer(request).after(Duration::from_millis(40));
    let engine = FakeEngine::builder().respond(slow).start().unwrap();
    let mut command = bench.evaluate(&engine.url(), engine.model());
    command.extend(["--max-in-flight".to_owned(), "8".to_owned()]);
    let mut first = Service::tidemill()
        .unwrap()
        .args(&command)
        .env_remove("NATS_URL")
        .spawn()
        .unwrap();
    wait_for_requests(&engine, 150, &mut first);
    first.kill9().unwrap();
    let second = run(&command);
    assert_eq!(second.code, Some(0), "{}", second.log);
    let result = second.json().unwrap();
    assert_eq!(result["state"], "final");
    assert!(
        result["benchmarks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|benchmark| benchmark["coverage"] == 1.0)
    );
    let requests = engine.stats().requests;
    let most = Workbench::requests(items) + 8 * 4 + 2;
    assert!(
        requests <= most,
        "{requests} requests: what was finished was asked for again (at most {most})"
    );
}

#[test]
fn items_show_prompt_completion_and_outcome() {
    let bench = Workbench::new(10).unwrap();
    let engine = FakeEngine::builder().respond(Workbench::answer).start().unwrap();
    let evaluated = run(&bench.evaluate(&engine.url(), engine.model())).json().unwrap();
    let id = evaluated["evaluation"].as_str().unwrap();
    let data = bench.text("data");
    let items = tidemill(&["items", id, "--json", "--data-dir", &data]).unwrap();
    assert_eq!(items.code, Some(0), "{}", items.log);
    let rows: Vec<serde_json::Value> = items
        .output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len() as u64, Workbench::samples(10));
    let first = &rows[0];
    assert_eq!(first["prompt"], "Q: 0+1\nA:");
    assert_eq!(
        (first["completion"].as_str(), first["extracted"].as_str()),
        (Some(" 1"), Some("1"))
    );
    assert_eq!(
        (first["outcome"].as_str(), first["target"].as_str()),
        (Some("correct"), Some("1"))
    );
    assert_eq!(first["finish_reason"], "stop");
    let wrong = tidemill(&["items", id, "--json", "--data-dir", &data, "--outcome", "incorrect"]).unwrap();
    assert!(wrong.output.lines().count() > 0 && wrong.output.lines().all(|line| line.contains("\"incorrect\"")));
    let results = tidemill(&["results", "--format", "csv", "--data-dir", &data]).unwrap();
    assert_eq!(results.output.lines().count(), 1 + 3, "{}", results.output);
}

#[test]
fn an_engine_that_comes_back_costs_nothing() {
    let bench = Workbench::new(60).unwrap();
    let slow =
        |request: &tidemill_testkit::engine::Request| Workbench::answer(request).after(Duration::from_millis(30));
    let engine = FakeEngine::builder().respond(slow).start().unwrap();
    let mut command = bench.evaluate(&engine.url(), engine.model());
    command.extend(["--max-in-flight".to_owned(), "4".to_owned()]);
    let mut service = Service::tidemill()
        .unwrap()
        .args(&command)
        .env_remove("NATS_URL")
        .spawn()
        .unwrap();
    wait_for_requests(&engine, 60, &mut service);
    engine.set_down(true).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    engine.set_down(false).unwrap();
    assert!(
        service.wait(Duration::from_secs(90)).unwrap().success(),
        "{:?}",
        service.log()
    );
    let result: serde_json::Value = serde_json::from_str(&service.output()).unwrap();
    assert_eq!(result["state"], "final");
    for benchmark in result["benchmarks"].as_array().unwrap() {
        assert_eq!(benchmark["outcomes"]["engine_error"], 0, "{benchmark}");
    }
}

#[test]
fn an_engine_that_does_not_come_back_makes_the_evaluation_invalid_and_later_it_goes_on() {
    let bench = Workbench::new(40).unwrap();
    let slow =
        |request: &tidemill_testkit::engine::Request| Workbench::answer(request).after(Duration::from_millis(30));
    let engine = FakeEngine::builder().respond(slow).start().unwrap();
    let mut command = bench.evaluate(&engine.url(), engine.model());
    command.extend(["--max-in-flight", "4", "--engine-patience", "3s"].map(str::to_owned));
    let mut service = Service::tidemill()
        .unwrap()
        .args(&command)
        .env_remove("NATS_URL")
        .spawn()
        .unwrap();
    wait_for_requests(&engine, 60, &mut service);
    engine.set_down(true).unwrap();
    let status = service.wait(Duration::from_secs(60)).unwrap();
    assert_eq!(status.code(), Some(1), "{:?}", service.log());
    let result: serde_json::Value = serde_json::from_str(&service.output()).unwrap();
    assert_eq!(result["state"], "invalid");
    assert!(
        result["reason"].as_str().unwrap().contains("no engine"),
        "{}",
        result["reason"]
    );
    assert!(result["benchmarks"][0]["outcomes"]["missing"].as_u64().unwrap() > 0);
    let finished: u64 = engine.stats().requests;

    engine.set_down(false).unwrap();
    let again = run(&command);
    assert_eq!(again.code, Some(0), "{}", again.log);
    assert_eq!(again.json().unwrap()["state"], "final");
    assert!(engine.stats().requests - finished <= Workbench::requests(40) - finished + 4 * 4 + 3);
}

#[test]
fn bad_answers_are_outcomes_of_their_own_and_make_the_evaluation_invalid() {
    let bench = Workbench::new(20).unwrap();
    let is_well = Arc::new(AtomicBool::new(false));
    let got_well = Arc::clone(&is_well);
    let broken = move |request: &tidemill_testkit::engine::Request| {
        if request.prompt.contains("Q: 7+") && !got_well.load(Ordering::Relaxed) {
            Reply::raw(200, "{\"error\":{\"message\":\"boom\"}}")
        } else {
            Workbench::answer(request)
        }
    };
    let engine = FakeEngine::builder().respond(broken).start().unwrap();
    let ran = run(&bench.evaluate(&engine.url(), engine.model()));
    assert_eq!(
        ran.code,
        Some(0),
        "1 of 80 samples is below the suite's 2 %: {}",
        ran.log
    );
    let result = ran.json().unwrap();
    assert_eq!(result["benchmarks"][0]["outcomes"]["engine_error"], 1);
    assert_eq!(
        result["benchmarks"][0]["mean"].as_f64().unwrap(),
        15.0 / 19.0,
        "the failed one is not a wrong answer"
    );

    let strict = std::fs::read_to_string(bench.path("suite.toml"))
        .unwrap()
        .replace("version = \"1\"", "version = \"2\"\nmax_failure_rate = 0.001");
    bench.write("suite.toml", &strict).unwrap();
    let command = bench.evaluate(&engine.url(), engine.model());
    let failing = |ran: &tidemill_tests::Ran| {
        assert_eq!(ran.code, Some(1), "{}", ran.log);
        let result = ran.json().unwrap();
        assert_eq!(
            (&result["state"], &result["benchmarks"][0]["outcomes"]["engine_error"]),
            (&json!("invalid"), &json!(1)),
            "{result}"
        );
    };
    failing(&run(&command));
    // The same command asks for what failed, and for nothing else: here in vain, and then not.
    let asked = |command: &[String]| {
        let before = engine.stats().requests;
        (run(command), engine.stats().requests - before)
    };
    let (ran, in_vain) = asked(&command);
    failing(&ran);
    is_well.store(true, Ordering::Relaxed);
    let (ran, once) = asked(&command);
    assert_eq!(ran.code, Some(0), "{}", ran.log);
    let result = ran.json().unwrap();
    assert_eq!(result["state"], "final", "{result}");
    assert_eq!(result["benchmarks"][0]["outcomes"]["engine_error"], 0, "{result}");
    assert_eq!(result["benchmarks"][0]["coverage"], 1.0, "{result}");
    // Beside the sample: what a warm-up asks.
    assert!(
        once <= 4 && in_vain > once,
        "{once} requests, {in_vain} while it failed"
    );
    let (ran, nothing) = asked(&command);
    assert_eq!((ran.code, nothing), (Some(0), 0), "{}", ran.log);
}

/// One benchmark by the exact grader alone.
const ONE: &str = r#"
name = "one"
version = "1"

[[benchmark]]
name = "exact"
data = "sums.jsonl"
id = "id"
prompt = "Q: {{ a }}+{{ b }}\nA:"
target = "{{ sum }}"
max_tokens = 8
[benchmark.grader]
kind = "exact"
"#;

#[test]
fn an_evaluation_resumed_near_its_end_once_and_again_is_scored_over_all_its_samples() {
    let items = 1_000;
    let bench = Workbench::new(items).unwrap();
    bench.write("suite.toml", ONE).unwrap();
    let slow =
        |request: &tidemill_testkit::engine::Request| Workbench::answer(request).after(Duration::from_millis(20));
    let engine = FakeEngine::builder().respond(slow).start().unwrap();
    let mut command = bench.evaluate(&engine.url(), engine.model());
    command.extend(["--max-in-flight".to_owned(), "16".to_owned()]);
    for requests in [900, 960] {
        let mut killed = Service::tidemill()
            .unwrap()
            .args(&command)
            .env_remove("NATS_URL")
            .spawn()
            .unwrap();
        wait_for_requests(&engine, requests, &mut killed);
        killed.kill9().unwrap();
    }
    let before = engine.stats().requests;
    assert!(before < 1_000, "{before} requests: nothing is left to resume");
    let last = run(&command);
    assert_eq!(last.code, Some(0), "{}", last.log);
    let result = last.json().unwrap();
    let benchmark = &result["benchmarks"][0];
    assert_eq!(
        (result["state"].as_str(), benchmark["samples"].as_u64()),
        (Some("final"), Some(1_000))
    );
    assert_eq!(
        benchmark["outcomes"]["correct"], 800,
        "sums 4n+1 that are multiples of 5 are answered wrong"
    );
    assert_eq!(benchmark["outcomes"]["incorrect"], 200);
    assert_eq!(benchmark["mean"], 0.8);
    let asked = engine.stats().requests;
    assert!(
        asked <= 1_000 + 2 * 16 + 3,
        "{asked} requests: in flight at two kills, and three warm-ups"
    );
    let again = run(&command);
    assert_eq!(again.json().unwrap(), result);
    assert_eq!(engine.stats().requests, asked, "with nothing left nothing is asked");
}

/// A program in place of the engine, which the loader starts with the engine's arguments.
fn engine_program(bench: &Workbench, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = bench.write("engine.sh", script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// An evaluation of a checkpoint with the engine of a script, which is started twice at most.
fn evaluate_with(bench: &Workbench, script: &str) -> Service {
    let checkpoint = tidemill_tests::workspace().join("services/engine/tests/data/hf-single");
    let (suite, data) = (bench.text("suite.toml"), bench.text("data"));
    Service::tidemill()
        .unwrap()
        .args([
            "evaluate",
            "--json",
            "--suite",
            &suite,
            "--data-dir",
            &data,
            "--checkpoint",
        ])
        .arg(checkpoint)
        .env_remove("NATS_URL")
        .env("TIDEMILL_LOADER__ENGINE_STARTS", "2")
        .env("TIDEMILL_LOADER__ENGINE_PROGRAM", engine_program(bench, script))
        .env("TIDEMILL_GENERATOR__MAX_IN_FLIGHT", "1")
        .env("REAL_ENGINE", built())
        .spawn()
        .unwrap()
}

/// The `tidemill` program beside this test.
fn built() -> std::path::PathBuf {
    let test = std::env::current_exe().unwrap();
    std::env::var_os("TIDEMILL_BIN").map_or_else(|| test.ancestors().nth(2).unwrap().join("tidemill"), Into::into)
}

#[test]
fn an_engine_that_dies_half_way_each_time_makes_the_evaluation_invalid_and_never_a_low_score() {
    let bench = Workbench::new(4_000).unwrap();
    bench.write("suite.toml", ONE).unwrap();
    let mut service = evaluate_with(
        &bench,
        "#!/bin/sh\nexec timeout --signal KILL 6 \"$REAL_ENGINE\" \"$@\"\n",
    );
    let status = service.wait(Duration::from_secs(120)).unwrap();
    assert_eq!(status.code(), Some(1), "{:?}", service.log());
    let result: serde_json::Value = serde_json::from_str(&service.output()).unwrap();
    assert_eq!(result["state"], "invalid");
    let reason = result["reason"].as_str().unwrap();
    assert!(
        reason.contains("2 starts were tried") && reason.contains("samples are missing"),
        "{reason}"
    );
    let benchmark = &result["benchmarks"][0];
    let outcomes = &benchmark["outcomes"];
    assert!(
        outcomes["missing"].as_u64().unwrap() > 0 && benchmark["coverage"].as_f64().unwrap() < 1.0,
        "{benchmark}"
    );
    assert!(
        benchmark["coverage"].as_f64().unwrap() > 0.0,
        "it died before the first answer: {benchmark}"
    );
    assert_eq!(
        outcomes["engine_error"], 0,
        "what the dead engine had in hand is missing, not wrong: {benchmark}"
    );
}

#[test]
fn an_engine_that_dies_before_its_first_answer_is_named_and_gives_no_result() {
    let bench = Workbench::new(5).unwrap();
    bench.write("suite.toml", ONE).unwrap();
    let mut service = evaluate_with(&bench, "#!/bin/sh\necho no such device >&2\nexit 3\n");
    let status = service.wait(Duration::from_secs(60)).unwrap();
    assert_eq!(status.code(), Some(2), "{:?}", service.log());
    assert_eq!(service.output(), "");
    let said = service.log().join("\n");
    assert!(
        said.contains("2 starts were tried") && said.contains("no such device"),
        "{said}"
    );
}

/// Problems of HumanEval, asked for as text and as chat.
const PROGRAMS: &str = r#"
name = "programs"
version = "1"

[[benchmark]]
name = "right"
data = "problems.jsonl"
id = "task_id"
prompt = "{{ prompt }}"
target = "{{ canonical_solution }}"
max_tokens = 1024
[benchmark.grader]
kind = "code"
program = "continued"
prelude = "{{ prompt }}"
tests = "{{ test }}\ncheck({{ entry_point }})"
entry_point = "{{ entry_point }}"

[[benchmark]]
name = "wrong"
data = "problems.jsonl"
id = "task_id"
messages = [{ role = "user", content = "{{ prompt }}" }]
target = "{{ canonical_solution }}"
max_tokens = 1024
[benchmark.grader]
kind = "code"
prefix = "{{ prompt }}"
prelude = "{{ prompt }}"
tests = "{{ test }}\ncheck({{ entry_point }})"
entry_point = "{{ entry_point }}"
"#;

#[test]
fn programs_are_run_and_judged_and_graded_again() {
    let bench = Workbench::new(1).unwrap();
    bench.write("suite.toml", PROGRAMS).unwrap();
    let problems = std::fs::read_to_string(tidemill_tests::workspace().join("tests/testdata/humaneval/problems.jsonl"));
    let problems = problems.unwrap();
    bench.write("problems.jsonl", &problems).unwrap();
    let rows: Vec<serde_json::Value> = problems.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let text = |row: &serde_json::Value, field: &str| row[field].as_str().unwrap().to_owned();
    let solutions: std::collections::HashMap<String, String> = rows
        .iter()
        .map(|row| (text(row, "prompt"), text(row, "canonical_solution")))
        .collect();
    let answer = move |request: &tidemill_testkit::engine::Request| match request.endpoint {
        tidemill_testkit::engine::Endpoint::Completions => {
            Reply::text(solutions.get(&request.prompt).map_or("ready", String::as_str))
        }
        tidemill_testkit::engine::Endpoint::Chat => {
            Reply::text("It passes:\n```python\nimport os\nprint('PASS')\nos._exit(0)\n```\n")
        }
    };
    let engine = FakeEngine::builder().respond(answer).start().unwrap();
    let evaluated = run(&bench.evaluate(&engine.url(), engine.model()));
    assert_eq!(evaluated.code, Some(0), "{}", evaluated.log);
    let result = evaluated.json().unwrap();
    let counted = |index: usize| {
        let outcomes = &result["benchmarks"][index]["outcomes"];
        (
            outcomes["correct"].as_u64().unwrap(),
            outcomes["incorrect"].as_u64().unwrap(),
        )
    };
    assert_eq!(rows.len(), 5);
    assert_eq!((counted(0), counted(1)), ((5, 0), (0, 5)), "{result}");
    let id = result["evaluation"].as_str().unwrap();
    let again = tidemill(&["regrade", id, "--json", "--data-dir", &bench.text("data")]).unwrap();
    assert_eq!(again.code, Some(0), "{}", again.log);
    let again = again.json().unwrap();
    assert_eq!(
        (again["graded"].as_u64(), again["changed"].as_u64()),
        (Some(10), Some(0)),
        "{again}"
    );
}
