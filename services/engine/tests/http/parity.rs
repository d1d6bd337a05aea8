//! Agreement with the reference implementation on every sample.

use serde_json::{Value, json};

use crate::support::{Server, assert_close, expected, expected_of_sixteen_bits, numbers};

/// Greedy completions of the known prompts, with the prompts' own scores.
async fn choices(sample: &str) -> Vec<Value> {
    let server = Server::start(sample).await;
    let mut choices = Vec::new();
    for case in expected() {
        let body = json!({
            "model": sample, "prompt": case["prompt"], "max_tokens": 8, "temperature": 0, "logprobs": 1, "echo": true,
            "return_token_ids": true, "ignore_eos": true,
        });
        choices.push(server.complete(&body).await["choices"][0].clone());
    }
    server.stop().await;
    choices
}

/// Scores of the prompt and of the output.
fn scores(choice: &Value) -> (Vec<f64>, Vec<f64>) {
    let scores = numbers(&choice["logprobs"]["token_logprobs"]);
    let (prompt, output) = scores.split_at(choice["prompt_token_ids"].as_array().unwrap().len());
    (prompt.to_vec(), output.to_vec())
}

async fn agrees(sample: &str) {
    for (case, choice) in expected().iter().zip(choices(sample).await) {
        let (prompt, output) = scores(&choice);
        assert_eq!(choice["prompt_token_ids"], case["prompt_token_ids"]);
        assert_close(&prompt, &numbers(&case["prompt_logprobs"]), 1e-4);
        assert_eq!(choice["token_ids"], case["greedy_token_ids"]);
        assert_close(&output, &numbers(&case["greedy_logprobs"]), 1e-4);
        let text = format!(
            "{}{}",
            case["prompt"].as_str().unwrap(),
            case["greedy_text"].as_str().unwrap()
        );
        assert_eq!(choice["text"], text);
    }
}

#[tokio::test]
async fn single_file_agrees_with_the_reference() {
    agrees("hf-single").await;
}

#[tokio::test]
async fn sharded_checkpoint_agrees_with_the_reference() {
    agrees("hf-sharded").await;
}

#[tokio::test]
async fn sixteen_bit_weights_agree_with_exact_arithmetic_on_them() {
    let exact = expected_of_sixteen_bits();
    let choices = choices("hf-bf16-single").await;
    for ((case, exact), choice) in expected().iter().zip(exact).zip(choices) {
        let (prompt, _) = scores(&choice);
        assert_close(&prompt, &numbers(&exact), 1e-4);
        // Against the 32-bit weights the rounding of the weights shows: up to 0.032 even in exact arithmetic.
        assert_close(&prompt, &numbers(&case["prompt_logprobs"]), 0.033);
    }
}

#[tokio::test]
async fn echo_without_generation_scores_the_prompt() {
    let server = Server::start("hf-single").await;
    let case = &expected()[0];
    let body = json!({"prompt": case["prompt_token_ids"], "max_tokens": 0, "logprobs": 2, "echo": true});
    let answer = server.complete(&body).await;
    let choice = &answer["choices"][0];
    let logprobs = &choice["logprobs"];
    assert_close(
        &numbers(&logprobs["token_logprobs"]),
        &numbers(&case["prompt_logprobs"]),
        1e-4,
    );
    assert_eq!(
        (&choice["text"], &choice["finish_reason"]),
        (&case["prompt"], &json!("length"))
    );
    assert_eq!(logprobs["tokens"], json!(["T", "h", "e", " License"]));
    assert_eq!(logprobs["text_offset"], json!([0, 1, 2, 3]));
    assert!(logprobs["top_logprobs"][0].is_null());
    assert_eq!(
        logprobs["top_logprobs"][1].as_object().unwrap().len(),
        3,
        "two alternatives and the token itself"
    );
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 4, "completion_tokens": 0, "total_tokens": 4})
    );
    server.stop().await;
}
