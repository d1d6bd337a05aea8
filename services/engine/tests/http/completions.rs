//! `/v1/completions` and the small endpoints.

use serde_json::{Value, json};

use crate::support::{Server, expected};

fn text(answer: &Value) -> String {
    answer["choices"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn health_models_and_tokenize_answer() {
    let server = Server::start("hf-single").await;
    let health = server.client.get(server.url("/health")).send().await.unwrap();
    assert_eq!(health.status(), 200);
    let models: Value = server
        .client
        .get(server.url("/v1/models"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let model = &models["data"][0];
    assert_eq!(
        (&model["id"], &model["max_model_len"]),
        (&json!("hf-single"), &json!(512))
    );
    let (status, answer) = server.post("/tokenize", &json!({"prompt": "The License"})).await;
    assert_eq!(status, 200);
    assert_eq!(
        (&answer["tokens"], &answer["count"]),
        (&expected()[0]["prompt_token_ids"], &json!(4))
    );
    let (status, text) = server.post("/detokenize", &json!({"tokens": answer["tokens"]})).await;
    assert_eq!((status, &text["prompt"]), (200, &json!("The License")));
    let (status, error) = server.post("/detokenize", &json!({"tokens": [100_000_000]})).await;
    assert_eq!(status, 400);
    assert!(error.to_string().contains("out of vocabulary"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn an_answer_has_the_shape_of_the_protocol() {
    let server = Server::start("hf-single").await;
    let body = json!({"model": "hf-single", "prompt": "The License", "temperature": 0, "logprobs": 3});
    let answer = server.complete(&body).await;
    assert_eq!(answer["object"], "text_completion");
    assert_eq!(answer["model"], "hf-single");
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 4, "completion_tokens": 16, "total_tokens": 20})
    );
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["index"], &choice["finish_reason"]),
        (&json!(0), &json!("length"))
    );
    for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(choice["logprobs"][list].as_array().unwrap().len(), 16, "{list}");
    }
    let plain = server
        .complete(&json!({"prompt": "The License", "temperature": 0}))
        .await;
    assert!(plain["choices"][0]["logprobs"].is_null());
    assert_eq!(text(&plain), text(&answer));
    server.stop().await;
}

#[tokio::test]
async fn a_stop_string_cuts_the_text_wherever_tokens_end() {
    let server = Server::start("hf-single").await;
    // Greedy text: "ce\u{fffd}\u{fffd}veontribuve...", from tokens such as "ve" and "ontribu".
    let body = |stop: Value| json!({"prompt": "The License", "temperature": 0, "max_tokens": 16, "stop": stop});
    for (stop, fired) in [
        (json!("eont"), "eont"),
        (json!(["never", "veon"]), "veon"),
        (json!("uve"), "uve"),
    ] {
        let whole = text(&server.complete(&body(Value::Null)).await);
        let answer = server.complete(&body(stop)).await;
        assert_eq!(text(&answer), whole[..whole.find(fired).unwrap()]);
        let choice = &answer["choices"][0];
        assert_eq!(
            (&choice["finish_reason"], &choice["stop_reason"]),
            (&json!("stop"), &json!(fired))
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_stream_carries_what_the_whole_answer_would() {
    let server = Server::start("hf-single").await;
    for stop in [Value::Null, json!("eontrib")] {
        let mut body = json!({
            "prompt": "The License", "temperature": 0, "max_tokens": 24, "logprobs": 1, "echo": true, "stop": stop,
            "return_token_ids": true,
        });
        let whole = server.complete(&body).await;
        (body["stream"], body["stream_options"]) = (json!(true), json!({"include_usage": true}));
        let mut chunks = server.stream("/v1/completions", &body).await;
        let last = chunks.pop().unwrap();
        assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &whole["usage"]));
        let join = |path: &str| {
            chunks
                .iter()
                .filter_map(|chunk| chunk.pointer(path).cloned())
                .collect::<Vec<_>>()
        };
        let texts: String = join("/choices/0/text")
            .iter()
            .map(|text| text.as_str().unwrap())
            .collect();
        assert_eq!(texts, text(&whole));
        for list in ["logprobs/token_logprobs", "logprobs/text_offset", "token_ids"] {
            let parts = join(&format!("/choices/0/{list}"));
            let joined: Vec<_> = parts.iter().flat_map(|part| part.as_array().unwrap().clone()).collect();
            assert_eq!(Some(&json!(joined)), whole.pointer(&format!("/choices/0/{list}")));
        }
        assert_eq!(
            chunks.last().unwrap()["choices"][0]["finish_reason"],
            whole["choices"][0]["finish_reason"]
        );
        assert!(chunks.len() > 2);
    }
    server.stop().await;
}

#[tokio::test]
async fn samples_of_a_prompt_differ_and_repeat() {
    let server = Server::start("hf-single").await;
    let ask = async |prompt: Value, samples: usize| {
        let body = json!({"prompt": prompt, "n": samples, "seed": 9, "temperature": 0.9, "top_p": 0.95});
        let answer = server.complete(&body).await;
        let choices = answer["choices"].as_array().unwrap().clone();
        choices
            .iter()
            .map(|choice| choice["text"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let three = ask(json!("Copyright"), 3).await;
    assert!(three[0] != three[1] && three[1] != three[2] && three[0] != three[2]);
    assert_eq!(ask(json!("Copyright"), 3).await, three);
    assert_eq!(ask(json!("Copyright"), 1).await, three[..1]);
    // A list of prompts gives for each prompt what it gets by itself.
    let listed = ask(json!(["The License", "Copyright"]), 3).await;
    assert_eq!((listed.len(), &listed[3..]), (6, &three[..]));
    server.stop().await;
}

#[tokio::test]
async fn without_a_seed_answers_differ() {
    let server = Server::start("hf-single").await;
    let body = json!({"prompt": "Copyright"});
    assert_ne!(text(&server.complete(&body).await), text(&server.complete(&body).await));
    server.stop().await;
}

#[tokio::test]
async fn lists_of_token_ids_are_prompts_too() {
    let server = Server::start("hf-single").await;
    let cases = expected();
    let ids: Vec<_> = cases.iter().map(|case| case["prompt_token_ids"].clone()).collect();
    let body = json!({"prompt": ids, "temperature": 0, "max_tokens": 8, "ignore_eos": true});
    let answer = server.complete(&body).await;
    for (choice, case) in answer["choices"].as_array().unwrap().iter().zip(&cases) {
        assert_eq!(choice["text"], case["greedy_text"]);
    }
    server.stop().await;
}

#[tokio::test]
async fn the_end_of_sequence_token_ends_with_stop_and_is_not_text() {
    let server = Server::start("hf-single").await;
    let body = json!({"prompt": "The License", "max_tokens": 508, "n": 16, "seed": 1, "temperature": 1.5, "return_token_ids": true});
    let answer = server.complete(&body).await;
    let choices = answer["choices"].as_array().unwrap();
    let stopped: Vec<_> = choices
        .iter()
        .filter(|choice| choice["finish_reason"] == "stop")
        .collect();
    assert!(!stopped.is_empty(), "some of sixteen samples meet the token");
    for choice in stopped {
        assert_eq!(choice["token_ids"].as_array().unwrap().last(), Some(&json!(4)));
        assert!(!choice["text"].as_str().unwrap().contains("<|im_end|>"));
        assert!(choice["stop_reason"].is_null());
    }
    server.stop().await;
}

#[tokio::test]
async fn metrics_count_what_was_done() {
    let server = Server::start("hf-single").await;
    server
        .complete(&json!({"prompt": "The License", "temperature": 0, "max_tokens": 8}))
        .await;
    let label = "model_name=\"hf-single\"";
    assert_eq!(server.metric("prompt_tokens_total", label).await, 4.0);
    assert_eq!(server.metric("generation_tokens_total", label).await, 8.0);
    assert_eq!(
        server
            .metric("request_success_total", "finished_reason=\"length\"")
            .await,
        1.0
    );
    assert_eq!(server.metric("time_to_first_token_seconds_count", label).await, 1.0);
    assert_eq!(server.metric("e2e_request_latency_seconds_count", label).await, 1.0);
    assert_eq!(server.metric("num_preemptions_total", label).await, 0.0);
    server.stop().await;
}
