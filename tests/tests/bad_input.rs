//! Bad input: one clear sentence, the documented exit code, nothing lost.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::path::Path;

use tidemill_testkit::{Broker, FakeEngine};
use tidemill_tests::{Ran, Workbench, tidemill, workspace};

fn refused(ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.code, Some(2), "{}{}", ran.output, ran.log);
    assert_eq!(ran.output, "", "a failure is not data");
    for part in parts {
        assert!(ran.log.contains(part), "{part:?} is missing in: {}", ran.log);
    }
    assert!(!ran.log.contains("panicked"), "{}", ran.log);
}

fn evaluate(bench: &Workbench, more: &[&str]) -> Ran {
    let (suite, data) = (bench.text("suite.toml"), bench.text("data"));
    let mut arguments = vec!["evaluate", "--suite", &suite, "--data-dir", &data];
    arguments.extend(more);
    tidemill(&arguments).unwrap()
}

#[test]
fn suites_that_are_wrong_are_refused_before_any_request() {
    let engine = FakeEngine::start().unwrap();
    let endpoint = ["--endpoint", &engine.url(), "--model", engine.model()];
    let bench = Workbench::new(3).unwrap();
    let good = std::fs::read_to_string(bench.path("suite.toml")).unwrap();
    let cases: [(&str, &str, &[&str]); 4] = [
        ("max_tokens = 8", "max_tokns = 8", &["suite.toml", "max_tokns"]),
        ("data = \"sums.jsonl\"", "data = \"none.jsonl\"", &["none.jsonl"]),
        ("{{ a }}+{{ b }}\\nA:", "{{ aa }}\\nA:", &["sums.jsonl", "1", "aa"]),
        ("kind = \"exact\"", "kind = \"exakt\"", &["exakt"]),
    ];
    for (from, to, parts) in cases {
        bench.write("suite.toml", &good.replacen(from, to, 1)).unwrap();
        refused(&evaluate(&bench, &endpoint), parts);
    }
    bench.write("suite.toml", &good).unwrap();
    bench.write("sums.jsonl", "").unwrap();
    refused(&evaluate(&bench, &endpoint), &["sums.jsonl"]);
    let row = r#"{"id": 1, "a": 1, "b": 2, "sum": 3, "choices": [" 3", " 4"], "right": 0}"#;
    bench
        .write(
            "sums.jsonl",
            &format!("{row}\n{}", row.replace("\"id\": 1", "\"id\": \"1\"")),
        )
        .unwrap();
    refused(&evaluate(&bench, &endpoint), &["sums.jsonl", "1", "2"]);
    assert_eq!(engine.stats().requests, 0);
    let missing = tidemill(&[
        "evaluate",
        "--suite",
        "/nowhere/suite.toml",
        "--endpoint",
        "http://127.0.0.1:1",
        "--model",
        "m",
    ])
    .unwrap();
    refused(&missing, &["/nowhere/suite.toml"]);
}

#[test]
fn a_suite_is_checked_and_shown_without_a_broker() {
    let bench = Workbench::new(3).unwrap();
    let file = bench.text("suite.toml");
    let checked = tidemill(&["suite", "check", &file, "--json"]).unwrap();
    let object = checked.json().unwrap();
    assert_eq!(
        (checked.code, &object["valid"]),
        (Some(0), &true.into()),
        "{}",
        checked.log
    );
    assert_eq!(object["totals"]["samples"], Workbench::samples(3));

    let good = std::fs::read_to_string(&file).unwrap();
    bench
        .write("suite.toml", &good.replacen("{{ a }}+{{ b }}\\nA:", "{{ aa }}\\nA:", 1))
        .unwrap();
    let ran = tidemill(&["suite", "check", &file]).unwrap();
    refused(
        &ran,
        &[
            "sums.jsonl row 1",
            "`aa` is undefined; the row has id, a, b",
            "3 errors",
        ],
    );
    let ran = tidemill(&["suite", "check", &file, "--json"]).unwrap();
    let error = &ran.json().unwrap()["errors"][0];
    assert_eq!(
        (ran.code, &error["row"], &error["field"]),
        (Some(2), &1.into(), &"prompt".into())
    );
    refused(&tidemill(&["suite", "show", &file]).unwrap(), &["`aa` is undefined"]);

    let demo = workspace().join("examples/demo");
    let (suite, tokenizer) = (demo.join("suite.toml"), demo.join("checkpoints/step-1200"));
    let (suite, tokenizer) = (suite.display().to_string(), tokenizer.display().to_string());
    let shown = |more: &[&str]| tidemill(&[&["suite", "show", &suite], more].concat()).unwrap();
    let chat = shown(&["chat", "chat-002", "--json"]).json().unwrap();
    assert_eq!(chat["prompt"][0]["content"], "Write unufil in capitals.");
    assert_eq!(
        (&chat["number"], &chat["graded"]["targets"][0]),
        (&1.into(), &"UNUFIL".into())
    );
    assert_eq!(
        (&chat["prompt_tokens"], &chat["settings"]["samples"]),
        (&serde_json::Value::Null, &4.into())
    );
    let counted = shown(&["chat", "1", "--json", "--tokenizer", &tokenizer])
        .json()
        .unwrap();
    assert_eq!(counted["item"], "chat-002");
    assert!(counted["prompt_tokens"].as_u64().unwrap() > 3, "{counted}");
    let all = shown(&[]).output;
    for part in [
        "--- user\n",
        "tokens unknown without --tokenizer",
        "choice 0: \" l\" (right)",
        "graded by numeric@",
    ] {
        assert!(all.contains(part), "{part:?} is missing in {all}");
    }
    refused(&shown(&["chat", "chat-999"]), &["chat-999", "by number from 0 to 89"]);
    refused(&shown(&["chatt"]), &["chatt", "arithmetic-easy"]);
}

#[test]
fn endpoints_that_are_down_or_serve_another_model_are_named() {
    let bench = Workbench::new(3).unwrap();
    let down = evaluate(
        &bench,
        &[
            "--endpoint",
            "http://127.0.0.1:1",
            "--model",
            "m",
            "--engine-patience",
            "1s",
        ],
    );
    refused(&down, &["http://127.0.0.1:1"]);
    let engine = FakeEngine::builder().model("right-name").start().unwrap();
    let wrong = evaluate(&bench, &["--endpoint", &engine.url(), "--model", "wrong-name"]);
    refused(&wrong, &["wrong-name", "right-name"]);
    assert_eq!(engine.stats().requests, 0);
}

#[test]
fn checkpoints_that_cannot_be_evaluated_are_named() {
    let bench = Workbench::new(3).unwrap();
    let whole = workspace().join("services/engine/tests/data/hf-sharded");
    let copy = |name: &str| {
        let to = bench.path(name);
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(&whole).unwrap().flatten() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        to
    };
    let missing = copy("missing");
    std::fs::remove_file(missing.join("model-00002-of-00003.safetensors")).unwrap();
    let short = copy("short");
    let shard = short.join("model-00003-of-00003.safetensors");
    std::fs::write(&shard, &std::fs::read(&shard).unwrap()[..40_000]).unwrap();
    let bare = copy("bare");
    std::fs::remove_file(bare.join("tokenizer.json")).unwrap();
    let early = copy("early");
    std::fs::remove_file(early.join("model.safetensors.index.json")).unwrap();
    let cases: [(&Path, &[&str]); 4] = [
        (&missing, &["model-00002-of-00003.safetensors", "missing"]),
        (&short, &["model-00003-of-00003.safetensors", "bytes"]),
        (&bare, &["tokenizer.json"]),
        (&early, &["model.safetensors.index.json", "still being written"]),
    ];
    for (folder, parts) in cases {
        refused(
            &evaluate(&bench, &["--checkpoint", &folder.display().to_string()]),
            parts,
        );
    }
    refused(
        &evaluate(&bench, &["--checkpoint", "/nowhere/step-1"]),
        &["/nowhere/step-1"],
    );
    let other = copy_with_config(
        &bench,
        &workspace().join("services/engine/tests/data/hf-single"),
        "LlamaForCausalLM",
        "MambaForCausalLM",
    );
    refused(&evaluate(&bench, &["--checkpoint", &other]), &["MambaForCausalLM"]);
}

fn copy_with_config(bench: &Workbench, from: &Path, old: &str, new: &str) -> String {
    let to = bench.path("changed");
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    let config = std::fs::read_to_string(to.join("config.json"))
        .unwrap()
        .replace(old, new);
    std::fs::write(to.join("config.json"), config).unwrap();
    to.display().to_string()
}

#[test]
fn brokers_that_cannot_be_used_are_named() {
    let bench = Workbench::new(3).unwrap();
    let engine = FakeEngine::start().unwrap();
    let endpoint = ["--endpoint", &engine.url(), "--model", engine.model()];
    let with = |url: &str| {
        let mut arguments = endpoint.to_vec();
        arguments.extend(["--nats", url]);
        evaluate(&bench, &arguments)
    };
    // `connect_timeout` bounds how long nobody is waited for; the default of 10 s is for people.
    refused(&with("nats://127.0.0.1:1"), &["nats://127.0.0.1:1"]);
    assert_eq!(engine.stats().requests, 0);
}

#[test]
fn a_second_owner_of_a_data_directory_is_told_who_has_it() {
    let bench = Workbench::new(3).unwrap();
    let data = bench.text("data");
    let first = tidemill_testkit::Service::tidemill()
        .unwrap()
        .args(["up", "--data-dir", &data])
        .env_remove("NATS_URL")
        .spawn()
        .unwrap();
    first
        .wait_for_line("ready", std::time::Duration::from_secs(60))
        .unwrap();
    let second = evaluate(&bench, &["--endpoint", "http://127.0.0.1:1", "--model", "m"]);
    refused(&second, &["in use", &first.id().to_string(), "--nats"]);
    // Reading goes through the owner's broker.
    let results = tidemill(&["results", "--json", "--data-dir", &data]).unwrap();
    assert_eq!(
        (results.code, results.output.trim()),
        (Some(0), "[]"),
        "{}",
        results.log
    );
}

#[test]
fn a_service_without_streams_says_what_to_do() {
    let broker = Broker::start().unwrap();
    let bench = Workbench::new(1).unwrap();
    let data = bench.text("data");
    let ran = tidemill(&["grader", "--nats", &broker.url(), "--data-dir", &data]).unwrap();
    assert_eq!(ran.code, Some(69), "{}", ran.log);
    assert!(ran.log.contains("streams apply"), "{}", ran.log);
    let applied = tidemill(&["streams", "apply", "--nats", &broker.url()]).unwrap();
    assert_eq!(applied.code, Some(0), "{}", applied.log);
    let checked = tidemill(&["streams", "check", "--json", "--nats", &broker.url()]).unwrap();
    assert_eq!(
        (checked.code, checked.output.trim()),
        (Some(0), "[]"),
        "{}",
        checked.log
    );
}

#[test]
fn wrong_usage_is_explained() {
    for arguments in [
        &["evaluate"][..],
        &["evaluate", "--suite", "s.toml"],
        &["items", "xyz"],
        &["results", "--format", "xml"],
        &["nonsense"],
    ] {
        let ran = tidemill(arguments).unwrap();
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.log);
        assert!(ran.log.contains("--help") || ran.log.contains("error:"), "{}", ran.log);
    }
}
