//! An answer that is cut anywhere and continued from its tokens is the answer that was not cut.

use serde_json::{Value, json};

use crate::support::{Server, expected};

/// Text, tokens and prompt tokens of the first `count` chunks.
fn joined(chunks: &[Value], count: usize) -> (String, Vec<u64>, Vec<u64>) {
    let (mut text, mut tokens, mut prompt) = (String::new(), Vec::new(), Vec::new());
    let ids = |value: &Value| {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_u64)
            .collect::<Vec<_>>()
    };
    for chunk in &chunks[..count] {
        let choice = &chunk["choices"][0];
        text += choice["text"]
            .as_str()
            .or(choice["delta"]["content"].as_str())
            .unwrap_or_default();
        tokens.extend(ids(&choice["token_ids"]));
        prompt.extend(ids(&choice["prompt_token_ids"]));
        prompt.extend(ids(&chunk["prompt_token_ids"]));
    }
    (text, tokens, prompt)
}

/// Cuts the streamed answer to `body` after each chunk, and continues it.
async fn continues_at_every_cut(server: &Server, path: &str, body: Value) {
    let chunks = server.stream(path, &body).await;
    let (text, tokens, prompt) = joined(&chunks, chunks.len());
    assert!(tokens.len() > 3 && !prompt.is_empty(), "{chunks:?}");
    for cut in 1..chunks.len() {
        let (begun, told, _) = joined(&chunks, cut);
        let mut rest = body.clone();
        rest.as_object_mut().unwrap().remove("messages");
        rest["prompt"] = json!([prompt.as_slice(), &told].concat());
        rest["max_tokens"] = json!(body["max_tokens"].as_u64().unwrap() - told.len() as u64);
        if rest["max_tokens"] == 0 {
            continue;
        }
        let rest = server.stream("/v1/completions", &rest).await;
        let (went_on, more, _) = joined(&rest, rest.len());
        assert_eq!([told, more].concat(), tokens, "cut after {cut} chunks");
        assert_eq!(begun + &went_on, text, "cut after {cut} chunks");
    }
}

fn asked(temperature: f64) -> Value {
    json!({
        "max_tokens": 24, "temperature": temperature, "seed": 5, "stream": true, "return_token_ids": true, "ignore_eos": true,
    })
}

#[tokio::test]
async fn a_cut_answer_goes_on_as_if_it_were_not_cut() {
    let server = Server::start("hf-single").await;
    // The numbers that a seed draws depend on the position alone, so sampled answers go on too.
    for temperature in [0.0, 1.0] {
        for case in expected() {
            let mut body = asked(temperature);
            body["prompt"] = case["prompt"].clone();
            continues_at_every_cut(&server, "/v1/completions", body).await;
        }
        let mut body = asked(temperature);
        body["messages"] = json!([{ "role": "user", "content": "Hi" }]);
        continues_at_every_cut(&server, "/v1/chat/completions", body).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_stop_text_that_is_wanted_ends_the_text_and_holds_nothing_back() {
    let server = Server::start("hf-single").await;
    let case = &expected()[1];
    let mut body = json!({ "prompt": case["prompt"], "max_tokens": 8, "temperature": 0, "stop": ["\"at", "zzzz"] });
    assert_eq!(server.complete(&body).await["choices"][0]["text"], "k,5");
    (body["include_stop_str_in_output"], body["stream"]) = (json!(true), json!(true));
    let chunks = server.stream("/v1/completions", &body).await;
    assert_eq!(joined(&chunks, chunks.len()).0, "k,5\"at");
    assert_eq!(chunks.last().unwrap()["choices"][0]["stop_reason"], "\"at");
    assert_eq!(
        chunks[0]["choices"][0]["text"], "k",
        "the first token's text comes with the first token"
    );
    server.stop().await;
}
