//! The engine as a client sees it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tidemill_simulated::answers::{Answers, Form};
use tidemill_simulated::config::Names;
use tidemill_simulated::model::Limits;
use tidemill_simulated::{Config, Fault, FaultKind, SimulatedEngine};

/// An engine that does not wait.
fn config() -> Config {
    Config {
        speed: 0.0,
        answers: Answers {
            median_tokens: 30.0,
            tail_share: 0.0,
            ..Answers::default()
        },
        ..Config::default()
    }
}

fn start(config: Config) -> SimulatedEngine {
    SimulatedEngine::start(config).unwrap()
}

/// Sends one request on a connection of its own and reads until the server ends it: status and the rest.
fn send(engine: &SimulatedEngine, method: &str, path: &str, body: &str) -> (u16, String) {
    let answer = String::from_utf8_lossy(&send_raw(&engine.url(), method, path, body)).into_owned();
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or(0);
    (status, answer)
}

fn send_raw(url: &str, method: &str, path: &str, body: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap_or_default();
    answer
}

fn body_of(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

fn post(engine: &SimulatedEngine, path: &str, body: &Value) -> Value {
    let (status, answer) = send(engine, "POST", path, &body.to_string());
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str(body_of(&answer)).unwrap()
}

fn complete(engine: &SimulatedEngine, body: &Value) -> Value {
    let mut whole =
        json!({ "model": "simulated", "prompt": "Q: one? [target: 7]\nA:", "max_tokens": 500, "temperature": 0 });
    for (key, value) in body.as_object().unwrap() {
        whole[key] = value.clone();
    }
    post(engine, "/v1/completions", &whole)
}

/// The JSON of every event of a stream, chunked transfer taken off.
fn events(answer: &str) -> Vec<Value> {
    let lines = body_of(answer).lines().filter_map(|line| line.strip_prefix("data: "));
    lines.filter_map(|event| serde_json::from_str(event).ok()).collect()
}

#[test]
fn a_greedy_answer_continues_from_its_ids_to_the_same_text() {
    let engine = start(config());
    let whole = complete(&engine, &json!({ "return_token_ids": true }));
    let choice = &whole["choices"][0];
    let ids = |value: &Value| serde_json::from_value::<Vec<u32>>(value.clone()).unwrap();
    let (prompt, tokens) = (ids(&choice["prompt_token_ids"]), ids(&choice["token_ids"]));
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(whole["usage"]["completion_tokens"], tokens.len());
    let joined = [&prompt[..], &tokens[..9]].concat();
    let rest = complete(&engine, &json!({ "prompt": joined, "return_token_ids": true }));
    assert_eq!(ids(&rest["choices"][0]["token_ids"]), tokens[9..]);
    let report = engine.report();
    assert_eq!(
        (
            report.requests,
            report.distinct_prompts,
            report.continued,
            report.foreign
        ),
        (2, 1, 1, 0)
    );
    let tokenized = post(&engine, "/tokenize", &json!({ "prompt": "Q: one? [target: 7]\nA:" }));
    assert_eq!(ids(&tokenized["tokens"]), prompt);
}

#[test]
fn a_stream_is_the_same_answer_in_pieces_with_usage_at_its_end() {
    let engine = start(config());
    let whole = complete(&engine, &json!({}));
    let body = json!({
        "model": "simulated", "prompt": "Q: one? [target: 7]\nA:", "max_tokens": 500, "temperature": 0, "stream": true,
        "stream_options": { "include_usage": true }, "return_token_ids": true,
    });
    let (_, answer) = send(&engine, "POST", "/v1/completions", &body.to_string());
    let events = events(&answer);
    let text: String = events
        .iter()
        .filter_map(|event| event["choices"][0]["text"].as_str())
        .collect();
    assert_eq!(text, whole["choices"][0]["text"].as_str().unwrap());
    assert!(events[0]["choices"][0]["prompt_token_ids"].is_array());
    let last = events.last().unwrap();
    assert_eq!(last["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
    assert!(answer.contains("data: [DONE]"));
    let ids: usize = events
        .iter()
        .filter_map(|event| Some(event["choices"][0]["token_ids"].as_array()?.len()))
        .sum();
    assert_eq!(ids as u64, whole["usage"]["completion_tokens"].as_u64().unwrap());
}

#[test]
fn chat_renders_a_template_and_answers_as_a_message() {
    let engine = start(Config {
        answers: Answers {
            form: Form::Bare,
            correct: 1.0,
            ..Answers::default()
        },
        ..config()
    });
    let messages = json!([{ "role": "user", "content": "one? [target: B]" }]);
    let body = json!({ "model": "simulated", "messages": messages, "temperature": 0, "return_token_ids": true });
    let answer = post(&engine, "/v1/chat/completions", &body);
    assert_eq!(answer["choices"][0]["message"]["content"], " B");
    let rendered = post(&engine, "/tokenize", &json!({ "messages": messages }));
    assert_eq!(rendered["tokens"], answer["prompt_token_ids"]);
}

#[test]
fn echoed_prompts_have_log_probabilities_but_for_their_first_token() {
    let engine = start(config());
    let scored = complete(
        &engine,
        &json!({ "prompt": "The sky is blue", "max_tokens": 0, "echo": true, "logprobs": 1 }),
    );
    let logprobs = &scored["choices"][0]["logprobs"];
    let list = logprobs["token_logprobs"].as_array().unwrap();
    assert!(list[0].is_null() && list[1..].iter().all(|logprob| logprob.as_f64().unwrap() < 0.0));
    assert_eq!(list.len(), logprobs["tokens"].as_array().unwrap().len());
    assert_eq!(scored["choices"][0]["text"], "The sky is blue");
    let prompt = complete(
        &engine,
        &json!({ "prompt": "The sky is blue", "prompt_logprobs": 0, "max_tokens": 2 }),
    );
    assert!(prompt["choices"][0]["prompt_logprobs"][0].is_null());
    assert_eq!(engine.report().prefix_queries, 0, "scoring does not read the cache");
}

#[test]
fn several_prompts_and_samples_are_choices_in_order() {
    let engine = start(config());
    let answer = complete(
        &engine,
        &json!({ "prompt": ["a", "b"], "n": 2, "temperature": 1.0, "seed": 5 }),
    );
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 4);
    assert_ne!(choices[0]["text"], choices[1]["text"]);
    assert_eq!(choices[3]["index"], 3);
}

#[test]
fn what_cannot_be_answered_is_refused_with_its_parameter() {
    let engine = start(config());
    for (body, status, parameter) in [
        (json!({ "model": "other", "prompt": "x" }), 404, "model"),
        (json!({ "model": "simulated", "prompt": "" }), 400, "prompt"),
        (
            json!({ "model": "simulated", "prompt": [4_000_000_000_u32] }),
            400,
            "prompt",
        ),
        (
            json!({ "model": "simulated", "prompt": "x", "max_tokens": 40_000 }),
            400,
            "input_tokens",
        ),
        (
            json!({ "model": "simulated", "prompt": "x", "temperature": -1 }),
            400,
            "temperature",
        ),
        (
            json!({ "model": "simulated", "prompt": "x", "logit_bias": { "x": 1 } }),
            400,
            "logit_bias",
        ),
    ] {
        let (got, answer) = send(&engine, "POST", "/v1/completions", &body.to_string());
        assert_eq!(got, status, "{body}: {answer}");
        assert!(answer.contains(parameter), "{body}: {answer}");
    }
    assert_eq!(send(&engine, "POST", "/v1/completions", "{").0, 400);
    assert_eq!(send(&engine, "GET", "/nothing", "").0, 404);
}

#[test]
fn metrics_come_under_the_names_of_each_engine_or_not_at_all() {
    for (names, expected) in [
        (Names::Vllm, "vllm:num_requests_running{"),
        (Names::Sglang, "sglang:num_queue_reqs{"),
        (Names::LlamaCpp, "llamacpp:requests_deferred 0"),
    ] {
        let engine = start(Config {
            metrics: names,
            ..config()
        });
        let (status, text) = send(&engine, "GET", "/metrics", "");
        assert!(status == 200 && text.contains(expected), "{text}");
    }
    let engine = start(Config {
        metrics: Names::None,
        ..config()
    });
    assert_eq!(send(&engine, "GET", "/metrics", "").0, 404);
}

#[test]
fn sglang_scores_from_the_place_it_is_told() {
    let engine = start(Config {
        owned_by: "sglang".to_owned(),
        ..config()
    });
    let body = json!({ "text": "one two three four", "sampling_params": { "max_new_tokens": 1 }, "return_logprob": true, "logprob_start_len": 2 });
    let answer = post(&engine, "/generate", &body);
    let scored = answer["meta_info"]["input_token_logprobs"].as_array().unwrap();
    assert!(scored[0][0].is_null() && scored[1][0].as_f64().unwrap() < 0.0);
    assert_eq!(
        scored.len() as u64,
        answer["meta_info"]["prompt_tokens"].as_u64().unwrap() - 2
    );
}

#[test]
fn a_closed_connection_frees_its_place() {
    let engine = start(config());
    engine.set_faults(&[Fault {
        containing: Some("stuck".to_owned()),
        ..Fault::new(FaultKind::Stall)
    }]);
    let body = json!({ "model": "simulated", "prompt": "stuck", "max_tokens": 9 }).to_string();
    let mut stream = TcpStream::connect(engine.url().strip_prefix("http://").unwrap()).unwrap();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let running = |engine: &SimulatedEngine| {
        send(engine, "GET", "/metrics", "")
            .1
            .contains("num_requests_running{model_name=\"simulated\",engine=\"0\"} 1")
    };
    wait_for(|| running(&engine));
    drop(stream);
    wait_for(|| !running(&engine));
    assert_eq!(engine.report().abandoned, 1);
}

/// Looks again until it holds; a failure is a test that does not end in time.
fn wait_for(holds: impl Fn() -> bool) {
    for _ in 0..5_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("it never held");
}

#[test]
fn a_replica_dies_with_its_connections_and_comes_back_on_its_port() {
    let engine = start(Config {
        replicas: 2,
        ..config()
    });
    let die = Fault {
        requests: Some([2, 2]),
        replica: Some(0),
        lasts: Some(Duration::from_millis(50)),
        ..Fault::new(FaultKind::Die)
    };
    engine.set_faults(&[die]);
    complete(&engine, &json!({}));
    let body = json!({ "model": "simulated", "prompt": "x" }).to_string();
    assert!(send_raw(&engine.url(), "POST", "/v1/completions", &body).is_empty());
    assert!(
        !send_raw(&engine.urls()[1], "POST", "/v1/completions", &body).is_empty(),
        "the other one lives"
    );
    assert_eq!(engine.report().deaths, 1);
    wait_for(|| TcpStream::connect(engine.url().strip_prefix("http://").unwrap()).is_ok());
    complete(&engine, &json!({}));
}

#[test]
fn a_stalled_engine_gives_no_token_until_it_goes_on() {
    let engine = start(config());
    engine.set_faults(&[Fault {
        times: Some(1),
        requests: Some([1, 9]),
        ..Fault::new(FaultKind::StallEngine)
    }]);
    let url = engine.url();
    let body = json!({ "model": "simulated", "prompt": "x", "max_tokens": 3 }).to_string();
    let asking = std::thread::spawn(move || send_raw(&url, "POST", "/v1/completions", &body));
    wait_for(|| {
        send(&engine, "GET", "/metrics", "")
            .1
            .contains("waiting{model_name=\"simulated\",engine=\"0\"} 1")
    });
    assert_eq!(send(&engine, "DELETE", "/simulate/faults", "").0, 200);
    assert!(
        String::from_utf8(asking.join().unwrap())
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
}

#[test]
fn faults_are_set_over_http_and_refused_with_their_reason() {
    let engine = start(config());
    let set = |body: &Value| send(&engine, "POST", "/simulate/faults", &body.to_string());
    assert_eq!(
        set(&json!({ "faults": [{ "kind": "overloaded", "retry_after": "7s", "times": 1 }] })).0,
        200
    );
    let body = json!({ "model": "simulated", "prompt": "x" }).to_string();
    let (status, answer) = send(&engine, "POST", "/v1/completions", &body);
    assert!(status == 429 && answer.contains("retry-after: 7"), "{answer}");
    assert_eq!(send(&engine, "POST", "/v1/completions", &body).0, 200);
    assert!(
        send(&engine, "GET", "/simulate/faults", "")
            .1
            .contains("[\"overloaded\",1]")
    );
    let (status, answer) = set(&json!({ "faults": [{ "kind": "die", "share": 2 }] }));
    assert!(status == 400 && answer.contains("share is 2"), "{answer}");
    assert_eq!(set(&json!({ "faults": [{ "kind": "explode" }] })).0, 400);
}

#[test]
fn a_full_queue_is_refused_with_the_status_that_is_set() {
    let engine = start(Config {
        full_status: 429,
        engine: Limits {
            max_waiting: Some(0),
            max_num_seqs: 1,
            ..Limits::default()
        },
        ..config()
    });
    engine.set_faults(&[Fault {
        containing: Some("stuck".to_owned()),
        ..Fault::new(FaultKind::Stall)
    }]);
    let url = engine.url();
    let stuck = json!({ "model": "simulated", "prompt": "stuck", "max_tokens": 9 }).to_string();
    std::thread::spawn(move || send_raw(&url, "POST", "/v1/completions", &stuck));
    wait_for(|| {
        send(&engine, "GET", "/metrics", "")
            .1
            .contains("num_requests_running{model_name=\"simulated\",engine=\"0\"} 1")
    });
    let body = json!({ "model": "simulated", "prompt": "x", "max_tokens": 9 }).to_string();
    assert_eq!(send(&engine, "POST", "/v1/completions", &body).0, 429);
}

#[test]
fn a_report_counts_prompts_and_probes_and_is_forgotten_on_demand() {
    let engine = start(config());
    complete(&engine, &json!({ "prompt": "Hello", "max_tokens": 1 }));
    for prompt in ["a", "b", "a"] {
        complete(&engine, &json!({ "prompt": prompt }));
    }
    let report = engine.report();
    assert_eq!((report.probes, report.requests, report.distinct_prompts), (1, 3, 2));
    assert_eq!((report.most_requests_of_a_prompt, report.jobs), (2, 2));
    assert!(report.bounds.longest_alone > 0.15 && report.bounds.first_come >= report.bounds.longest_alone);
    let (_, over_http) = send(&engine, "GET", "/simulate/report", "");
    let over_http: Value = serde_json::from_str(body_of(&over_http)).unwrap();
    assert_eq!(
        over_http["bounds"]["first_come"].as_f64(),
        Some(report.bounds.first_come)
    );
    assert_eq!(send(&engine, "POST", "/simulate/reset", "").0, 200);
    assert_eq!((engine.report().requests, engine.report().jobs), (0, 0));
}

#[test]
fn a_client_that_keeps_the_batch_full_meets_the_first_come_bound() {
    let engine = start(Config {
        speed: 20.0,
        engine: Limits {
            max_num_seqs: 8,
            ..Limits::default()
        },
        ..config()
    });
    let url = engine.url();
    let clients = (0..16).map(|client| {
        let url = url.clone();
        std::thread::spawn(move || {
            let body = json!({ "model": "simulated", "prompt": format!("item {client}"), "max_tokens": 500, "temperature": 0 });
            send_raw(&url, "POST", "/v1/completions", &body.to_string())
        })
    });
    for client in clients.collect::<Vec<_>>() {
        assert!(!client.join().unwrap().is_empty());
    }
    let report = engine.report();
    assert_eq!(report.jobs, 16);
    assert!(report.span >= 0.5 * report.bounds.longest_first, "{report:?}");
    assert!(
        report.mean_running <= 8.0 + 1e-9 && report.max_in_flight <= 16,
        "{report:?}"
    );
}

#[test]
fn requests_that_do_not_wait_as_they_were_asked_to_are_counted() {
    let engine = start(config());
    let overloaded = Fault {
        times: Some(1),
        retry_after: Some(Duration::from_secs(3_600)),
        ..Fault::new(FaultKind::Overloaded)
    };
    engine.set_faults(&[overloaded]);
    let body = json!({ "model": "simulated", "prompt": "x" }).to_string();
    let ask = || send(&engine, "POST", "/v1/completions", &body).0;
    assert_eq!((ask(), ask()), (429, 200));
    wait_for(|| {
        ask();
        engine.report().early > 0
    });
}
