//! The scripted engine over HTTP: good answers, and each way of answering badly.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tidemill_testkit::engine::{prompt_hash, token_logprob};
use tidemill_testkit::{FakeEngine, Reply};

fn client() -> Client {
    // Nothing here uses TLS, but no client is built without a provider. The first test to come sets it.
    rustls::crypto::ring::default_provider().install_default().ok();
    Client::builder().no_proxy().build().unwrap()
}

async fn post(engine: &FakeEngine, path: &str, body: &Value) -> reqwest::Response {
    client()
        .post(format!("{}{path}", engine.url()))
        .json(body)
        .send()
        .await
        .unwrap()
}

async fn complete(engine: &FakeEngine, body: &Value) -> Value {
    post(engine, "/v1/completions", body).await.json().await.unwrap()
}

async fn get(engine: &FakeEngine, path: &str) -> String {
    client()
        .get(format!("{}{path}", engine.url()))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap()
}

fn prompt(text: &str) -> Value {
    json!({ "model": "fake", "prompt": text, "max_tokens": 16 })
}

fn scripted(reply: Reply) -> FakeEngine {
    FakeEngine::builder().respond(move |_| reply.clone()).start().unwrap()
}

#[tokio::test]
async fn unscripted_answer_depends_on_the_prompt_alone() {
    let engine = FakeEngine::start().unwrap();
    let first = complete(&engine, &prompt("2 + 2 =")).await;
    assert_eq!(first, complete(&engine, &prompt("2 + 2 =")).await);
    assert_eq!(
        first["choices"][0]["text"],
        format!(" {}", prompt_hash("2 + 2 =") % 1000)
    );
    assert_eq!(first["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        first["usage"],
        json!({ "prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5 })
    );
}

#[tokio::test]
async fn a_journal_tells_what_is_in_flight_what_was_answered_and_whose_client_left() {
    let slow = |request: &tidemill_testkit::engine::Request| {
        let delay = if request.prompt == "slow" { 3_600 } else { 0 };
        Reply::text(" a b").after(Duration::from_secs(delay))
    };
    let engine = FakeEngine::builder().respond(slow).keep_journal().start().unwrap();
    let mut body = prompt("quick");
    body["seed"] = json!(7);
    complete(&engine, &body).await;
    let journal = engine.journal();
    assert_eq!(
        (journal.len(), journal[0].prompt.as_str(), journal[0].seed),
        (1, "quick", Some(7))
    );
    assert_eq!(journal[0].ended.unwrap().answered, Some(2));
    assert!(journal[0].ended.unwrap().at >= journal[0].arrived);

    let body = prompt("slow");
    let leaving = tokio::time::timeout(Duration::from_millis(300), complete(&engine, &body));
    assert!(leaving.await.is_err());
    let left = || engine.journal().get(1).map(|asked| asked.ended);
    let begun = Instant::now();
    while left().flatten().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", left());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(left().flatten().unwrap().answered, None);
}

#[tokio::test]
async fn script_sees_the_prompt_and_the_attempt() {
    let engine = FakeEngine::builder()
        .respond(|request| match request.attempt {
            1 => Reply::raw(503, "busy").header("retry-after", "7"),
            attempt => Reply::text(format!("{} at {attempt}", request.prompt)),
        })
        .start()
        .unwrap();
    let refused = post(&engine, "/v1/completions", &prompt("p")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["retry-after"], "7");
    assert_eq!(refused.text().await.unwrap(), "busy");
    assert_eq!(complete(&engine, &prompt("p")).await["choices"][0]["text"], "p at 2");
    assert_eq!((engine.requests_for("p"), engine.requests_for("q")), (2, 0));
}

#[tokio::test]
async fn chat_answer_has_message_and_reasoning() {
    let engine = scripted(Reply::no_content().reasoning("let me think").finish_reason("length"));
    let request = json!({ "model": "fake", "messages": [{ "role": "user", "content": "hard" }] });
    let answer: Value = post(&engine, "/v1/chat/completions", &request)
        .await
        .json()
        .await
        .unwrap();
    let choice = &answer["choices"][0];
    assert_eq!(
        choice["message"],
        json!({ "role": "assistant", "content": null, "reasoning_content": "let me think" })
    );
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(engine.requests_for("hard"), 1);
}

#[tokio::test]
async fn prompts_in_a_list_and_samples_are_choices_in_order() {
    let engine = FakeEngine::builder()
        .respond(|request| Reply::text(request.prompt.clone()))
        .start()
        .unwrap();
    let answer = complete(&engine, &json!({ "model": "fake", "prompt": ["a", [7, 8]], "n": 2 })).await;
    let texts: Vec<&Value> = answer["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| &choice["text"])
        .collect();
    assert_eq!(texts, ["a", "a", "7 8", "7 8"]);
    assert_eq!(answer["choices"][3]["index"], 3);
}

#[tokio::test]
async fn echoed_logprobs_can_be_summed_over_a_continuation() {
    let engine = FakeEngine::start().unwrap();
    let request = json!({ "model": "fake", "prompt": "the cat sat", "echo": true, "logprobs": 1, "max_tokens": 0 });
    let logprobs = complete(&engine, &request).await["choices"][0]["logprobs"].clone();
    assert_eq!(
        logprobs["token_logprobs"],
        json!([null, token_logprob(" cat"), token_logprob(" sat")])
    );
}

#[tokio::test]
async fn logprobs_can_be_wrong_in_number_and_value() {
    let engine = scripted(Reply::text("").token_logprobs(vec![Some(0.0)]));
    let request = json!({ "model": "fake", "prompt": "the cat", "echo": true, "logprobs": 1, "max_tokens": 0 });
    assert_eq!(
        complete(&engine, &request).await["choices"][0]["logprobs"]["token_logprobs"],
        json!([0.0])
    );
}

#[tokio::test]
async fn usage_and_finish_reason_can_contradict_the_text() {
    let engine = scripted(Reply::text("").finish_reason("stop").completion_tokens(16));
    let answer = complete(&engine, &prompt("p")).await;
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["usage"]["completion_tokens"], 16);
}

#[tokio::test]
async fn body_may_be_anything() {
    let engine = scripted(Reply::raw(200, vec![b'{', 0xc3]));
    let answer = post(&engine, "/v1/completions", &prompt("p")).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.bytes().await.unwrap().as_ref(), [b'{', 0xc3]);
}

#[tokio::test]
async fn connection_ends_before_or_within_the_answer() {
    let before = scripted(Reply::dropped(0));
    let url = format!("{}/v1/completions", before.url());
    assert!(client().post(url).json(&prompt("p")).send().await.is_err());

    let within = scripted(Reply::dropped(20));
    let mut answer = post(&within, "/v1/completions", &prompt("p")).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.chunk().await.unwrap().unwrap().len(), 20);
    assert!(answer.chunk().await.is_err());
}

#[tokio::test]
async fn too_long_a_prompt_and_a_wrong_model_are_refused_as_vllm_does() {
    let engine = FakeEngine::builder().model("m").max_context(4).start().unwrap();
    let ask = async |body: Value| {
        let answer = post(&engine, "/v1/completions", &body).await;
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (status, body) = ask(json!({ "model": "m", "prompt": "one two three", "max_tokens": 2 })).await;
    assert_eq!((status, &body["error"]["param"]), (400, &json!("input_tokens")));
    let (status, body) = ask(json!({ "model": "other", "prompt": "one" })).await;
    assert_eq!((status, &body["error"]["type"]), (404, &json!("NotFoundError")));
    let (status, _) = ask(json!({ "model": "m", "prompt": "one two three", "max_tokens": 1 })).await;
    assert_eq!(status, 200);
    let models: Value = serde_json::from_str(&get(&engine, "/v1/models").await).unwrap();
    assert_eq!(
        (&models["data"][0]["id"], &models["data"][0]["max_model_len"]),
        (&json!("m"), &json!(4))
    );
}

#[tokio::test]
async fn streamed_answer_comes_in_tokens_and_ends_with_usage() {
    let engine = scripted(Reply::text("one two"));
    let mut request = prompt("p");
    request["stream"] = json!(true);
    request["stream_options"] = json!({ "include_usage": true });
    let text = post(&engine, "/v1/completions", &request).await.text().await.unwrap();
    let events: Vec<&str> = text
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .collect();
    assert_eq!(events.len(), 5);
    let event = |index: usize| serde_json::from_str::<Value>(events[index]).unwrap();
    assert_eq!(
        (&event(0)["choices"][0]["text"], &event(1)["choices"][0]["text"]),
        (&json!("one"), &json!(" two"))
    );
    assert_eq!(event(2)["choices"][0]["finish_reason"], "stop");
    assert_eq!(event(3)["usage"]["completion_tokens"], 2);
    assert_eq!(events[4], "[DONE]");
}

#[tokio::test]
async fn engine_that_is_down_refuses_and_comes_back_on_its_port() {
    let engine = FakeEngine::start().unwrap();
    let url = format!("{}/v1/completions", engine.url());
    // A client of its own each time: one that keeps a connection learns of its end in another way.
    let ask = async || client().post(&url).json(&prompt("p")).send().await;
    ask().await.unwrap();
    engine.set_down(true).unwrap();
    assert!(ask().await.unwrap_err().is_connect());
    engine.set_down(false).unwrap();
    assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn going_down_ends_requests_that_are_being_answered() {
    let engine = scripted(Reply::text("late").after(Duration::from_secs(600)));
    let (url, client) = (format!("{}/v1/completions", engine.url()), client());
    let request = tokio::spawn(client.post(url).json(&prompt("p")).send());
    while engine.stats().in_flight == 0 {
        tokio::task::yield_now().await;
    }
    engine.set_down(true).unwrap();
    assert!(request.await.unwrap().is_err());
    assert_eq!(engine.stats().in_flight, 0);
}

#[tokio::test]
async fn requests_prompts_and_the_most_in_flight_are_counted() {
    let engine = scripted(Reply::text("x").after(Duration::from_millis(100)));
    let started = Instant::now();
    let prompts = [prompt("a"), prompt("b"), prompt("a")];
    let asked = prompts.iter().map(|prompt| complete(&engine, prompt));
    futures::future::join_all(asked).await;
    assert!(started.elapsed() >= Duration::from_millis(100));
    let stats: Value = serde_json::from_str(&get(&engine, "/stats").await).unwrap();
    assert_eq!((&stats["requests"], &stats["distinct_prompts"]), (&json!(3), &json!(2)));
    assert_eq!((&stats["max_in_flight"], &stats["in_flight"]), (&json!(3), &json!(0)));
    assert!(
        get(&engine, "/metrics")
            .await
            .contains("vllm:generation_tokens_total{model_name=\"fake\"} 3\n")
    );
}

#[tokio::test]
async fn fixed_text_answers_plain_and_other_requests_alike() {
    let engine = FakeEngine::builder().fixed_text("yes").start().unwrap();
    let plain = complete(&engine, &prompt("p")).await;
    assert_eq!(
        (&plain["choices"][0]["text"], plain["choices"].as_array().unwrap().len()),
        (&json!("yes"), 1)
    );
    let request = json!({ "model": "fake", "messages": [{ "role": "user", "content": "p" }] });
    let chat: Value = post(&engine, "/v1/chat/completions", &request)
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(chat["choices"][0]["message"]["content"], "yes");
    let two = complete(&engine, &json!({ "model": "fake", "prompt": "p", "n": 2 })).await;
    assert_eq!(
        (&two["choices"][1]["text"], engine.requests_for("p")),
        (&json!("yes"), 3)
    );
}

#[test]
fn port_in_use_is_named() {
    let engine = FakeEngine::start().unwrap();
    let port: u16 = engine.url().rsplit(':').next().unwrap().parse().unwrap();
    let error = FakeEngine::builder().port(port).start().err().unwrap();
    assert!(format!("{error:#}").contains(&port.to_string()), "{error:#}");
}
