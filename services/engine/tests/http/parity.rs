//! Agreement with the reference implementation on every sample.

use serde_json::json;

use crate::support::{Server, assert_close, expected, numbers};

async fn agrees(sample: &str, tolerance: f64, is_exact: bool) {
    let server = Server::start(sample).await;
    for case in expected() {
        let body = json!({
            "model": sample, "prompt": case["prompt"], "max_tokens": 8, "temperature": 0, "logprobs": 1, "echo": true,
            "return_token_ids": true, "ignore_eos": true,
        });
        let answer = server.complete(&body).await;
        let choice = &answer["choices"][0];
        assert_eq!(choice["prompt_token_ids"], case["prompt_token_ids"]);
        let scores = numbers(&choice["logprobs"]["token_logprobs"]);
        let (prompt, output) = scores.split_at(case["prompt_token_ids"].as_array().unwrap().len());
        assert_close(prompt, &numbers(&case["prompt_logprobs"]), tolerance);
        if is_exact {
            assert_eq!(choice["token_ids"], case["greedy_token_ids"]);
            assert_close(output, &numbers(&case["greedy_logprobs"]), tolerance);
            let text = format!("{}{}", case["prompt"].as_str().unwrap(), case["greedy_text"].as_str().unwrap());
            assert_eq!(choice["text"], text);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn single_file_agrees_with_the_reference() {
    agrees("hf-single", 1e-4, true).await;
}

#[tokio::test]
async fn sharded_checkpoint_agrees_with_the_reference() {
    agrees("hf-sharded", 1e-4, true).await;
}

#[tokio::test]
async fn sixteen_bit_weights_agree_as_far_as_they_can() {
    agrees("hf-bf16-single", 0.03, false).await;
}

#[tokio::test]
async fn echo_without_generation_scores_the_prompt() {
    let server = Server::start("hf-single").await;
    let case = &expected()[0];
    let body = json!({"prompt": case["prompt_token_ids"], "max_tokens": 0, "logprobs": 2, "echo": true});
    let answer = server.complete(&body).await;
    let choice = &answer["choices"][0];
    assert_close(
        &numbers(&choice["logprobs"]["token_logprobs"]),
        &numbers(&case["prompt_logprobs"]),
        1e-4,
    );
    assert_eq!(choice["text"], case["prompt"]);
    assert!(choice["logprobs"]["top_logprobs"][0].is_null());
    assert!(choice["logprobs"]["top_logprobs"][1].as_object().unwrap().len() >= 2);
    assert_eq!(choice["logprobs"]["text_offset"], offsets(choice));
    assert_eq!(answer["usage"]["completion_tokens"], 0);
    server.stop().await;
}

/// Offsets recomputed from the token texts.
fn offsets(choice: &serde_json::Value) -> serde_json::Value {
    let mut at = 0;
    let tokens = choice["logprobs"]["tokens"].as_array().unwrap();
    let offsets = tokens.iter().map(|token| {
        let start = at;
        at += token.as_str().unwrap().chars().count();
        start
    });
    offsets.collect()
}
