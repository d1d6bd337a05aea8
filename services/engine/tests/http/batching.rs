//! Continuous batching, and that it does not show in the results.

use futures::future::join_all;
use serde_json::{Value, json};
use tidemill_engine::Options;

use crate::support::{Server, data, numbers};

fn sampled(prompt: &str, seed: u64) -> Value {
    json!({"prompt": prompt, "seed": seed, "max_tokens": 40, "logprobs": 5, "return_token_ids": true, "ignore_eos": true})
}

#[tokio::test]
async fn a_request_gets_the_same_tokens_and_scores_alone_and_among_fifteen_others() {
    let server = Server::start("hf-single").await;
    let request = sampled("You may reproduce and distribute copies of the Work", 11);
    let alone = server.complete(&request).await["choices"].clone();
    for others in [1, 7, 15] {
        let company = server.keep_busy(others, 0).await;
        assert_eq!(
            server.complete(&request).await["choices"],
            alone,
            "among {others} others"
        );
        drop(company);
        server
            .wait_for("num_requests_running", "", |running| running == 0.0)
            .await;
    }
    server.stop().await;
}

#[tokio::test]
async fn requests_that_arrive_together_get_what_they_get_alone() {
    let server = Server::start("hf-single").await;
    let prompts = [
        "The License",
        "Copyright",
        "You may reproduce",
        "a",
        "Work or Derivative Works thereof",
    ];
    let requests: Vec<_> = (0..15)
        .map(|number| sampled(prompts[number % 5], number as u64))
        .collect();
    let mut alone = Vec::new();
    for request in &requests {
        alone.push(server.complete(request).await["choices"].clone());
    }
    let together = join_all(requests.iter().map(|request| server.complete(request))).await;
    assert_eq!(
        together
            .iter()
            .map(|answer| answer["choices"].clone())
            .collect::<Vec<_>>(),
        alone
    );
    server.stop().await;
}

#[tokio::test]
async fn scores_of_generated_tokens_equal_their_scores_as_a_prompt() {
    let server = Server::start("hf-single").await;
    let answer = server.complete(&sampled("The License", 3)).await;
    let choice = &answer["choices"][0];
    let whole = [
        choice["prompt_token_ids"].as_array().unwrap().clone(),
        choice["token_ids"].as_array().unwrap().clone(),
    ];
    let body = json!({"prompt": whole.concat(), "max_tokens": 0, "echo": true, "logprobs": 5});
    let scored = server.complete(&body).await;
    let as_prompt = numbers(&scored["choices"][0]["logprobs"]["token_logprobs"]);
    assert_eq!(as_prompt[4..], numbers(&choice["logprobs"]["token_logprobs"]));
    server.stop().await;
}

#[tokio::test]
async fn a_continued_sample_draws_the_tokens_of_the_uninterrupted_one() {
    let server = Server::start("hf-single").await;
    let whole = server.complete(&sampled("The License", 5)).await;
    let ids = |answer: &Value, name: &str| answer["choices"][0][name].as_array().unwrap().clone();
    let tokens = ids(&whole, "token_ids");
    let prompt = [ids(&whole, "prompt_token_ids"), tokens[..15].to_vec()].concat();
    let mut body = sampled("", 5);
    (body["prompt"], body["max_tokens"]) = (json!(prompt), json!(25));
    assert_eq!(ids(&server.complete(&body).await, "token_ids"), tokens[15..]);
    server.stop().await;
}

#[tokio::test]
async fn sequences_beyond_the_slots_wait_and_are_served() {
    let mut options = Options::new(data().join("hf-single"));
    options.max_num_seqs = 2;
    let server = Server::start_with(options).await;
    let body = sampled("Copyright", 1);
    let alone = server.complete(&body).await["choices"].clone();
    let busy = server.keep_busy(6, 4).await;
    assert_eq!(server.metric("num_requests_running", "").await, 2.0);
    assert!(server.metric("kv_cache_usage_perc", "").await > 0.0);
    drop(busy);
    let together = join_all((0..9).map(|_| server.complete(&body))).await;
    assert!(together.iter().all(|answer| answer["choices"] == alone));
    assert_eq!(server.metric("num_requests_waiting", "").await, 0.0);
    server.stop().await;
}

#[tokio::test]
async fn a_prompt_longer_than_a_step_is_computed_like_a_short_one() {
    let server = Server::start("hf-single").await;
    let tokens: Vec<u32> = (0..500).map(|at| 5 + (at * 37) % 370).collect();
    let score = async |count: usize| {
        let body = json!({"prompt": tokens[..count], "max_tokens": 0, "echo": true, "logprobs": 0});
        numbers(&server.complete(&body).await["choices"][0]["logprobs"]["token_logprobs"])
    };
    let (long, short) = (score(500).await, score(100).await);
    assert_eq!((long.len(), &long[1..100]), (500, &short[1..]));
    server.stop().await;
}
