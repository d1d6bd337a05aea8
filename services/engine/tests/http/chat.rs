//! `/v1/chat/completions`.

use serde_json::{Value, json};
use tidemill_engine::Options;

use crate::support::{Server, data};

fn question() -> Value {
    json!({
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "temperature": 0, "max_tokens": 12, "logprobs": true, "top_logprobs": 2,
    })
}

#[tokio::test]
async fn chat_is_the_completion_of_the_rendered_template() {
    let server = Server::start("hf-single").await;
    let (status, answer) = server.post("/v1/chat/completions", &question()).await;
    assert_eq!(
        (status, &answer["object"]),
        (200, &json!("chat.completion")),
        "{answer}"
    );
    let rendered = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    let plain = server
        .complete(&json!({"prompt": rendered, "temperature": 0, "max_tokens": 12}))
        .await;
    let choice = &answer["choices"][0];
    assert_eq!(
        choice["message"],
        json!({"role": "assistant", "content": plain["choices"][0]["text"]})
    );
    assert_eq!(answer["usage"], plain["usage"]);
    let content = choice["logprobs"]["content"].as_array().unwrap();
    assert_eq!(content.len(), 12);
    let (first, top) = (&content[0], content[0]["top_logprobs"].as_array().unwrap());
    assert_eq!(
        (top.len(), &top[0]["token"], &top[0]["logprob"]),
        (2, &first["token"], &first["logprob"])
    );
    assert_eq!(first["bytes"], json!(first["token"].as_str().unwrap().as_bytes()));
    server.stop().await;
}

#[tokio::test]
async fn a_streamed_chat_opens_with_the_role_and_ends_with_a_reason() {
    let server = Server::start("hf-single").await;
    let mut body = question();
    let (_, whole) = server.post("/v1/chat/completions", &body).await;
    (body["stream"], body["n"]) = (json!(true), json!(2));
    let chunks = server.stream("/v1/chat/completions", &body).await;
    for index in 0..2 {
        let choices = chunks
            .iter()
            .map(|chunk| &chunk["choices"][0])
            .filter(|choice| choice["index"] == index);
        let choices: Vec<_> = choices.collect();
        assert_eq!(choices[0]["delta"], json!({"role": "assistant", "content": ""}));
        let text: String = choices
            .iter()
            .filter_map(|choice| choice["delta"]["content"].as_str())
            .collect();
        assert_eq!(text, whole["choices"][0]["message"]["content"].as_str().unwrap());
        assert_eq!(choices.last().unwrap()["finish_reason"], "length");
    }
    server.stop().await;
}

#[tokio::test]
async fn chat_without_a_limit_may_fill_the_context() {
    let mut options = Options::new(data().join("hf-single"));
    options.max_model_len = Some(64);
    let server = Server::start_with(options).await;
    let body = json!({"messages": [{"role": "user", "content": "Hi"}], "ignore_eos": true});
    let (_, answer) = server.post("/v1/chat/completions", &body).await;
    assert_eq!(
        (&answer["usage"]["total_tokens"], &answer["choices"][0]["finish_reason"]),
        (&json!(64), &json!("length"))
    );
    server.stop().await;
}
