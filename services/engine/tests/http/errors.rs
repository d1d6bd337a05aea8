//! Refusals, in vLLM's shape.

use serde_json::{Value, json};
use tidemill_engine::Options;

use crate::support::{Server, data};

/// Asserts the shape of an error and returns its message.
fn check(answer: &Value, code: u16, kind: &str, param: Option<&str>) -> String {
    let error = &answer["error"];
    assert_eq!(
        (&error["code"], &error["type"], &error["param"]),
        (&json!(code), &json!(kind), &json!(param)),
        "{answer}"
    );
    error["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn another_model_is_not_found() {
    let server = Server::start("hf-single").await;
    for (path, body) in [
        ("/v1/completions", json!({"model": "other", "prompt": "a"})),
        (
            "/v1/chat/completions",
            json!({"model": "other", "messages": [{"role": "user", "content": "a"}]}),
        ),
    ] {
        let (status, answer) = server.post(path, &body).await;
        assert_eq!(status, 404);
        assert!(check(&answer, 404, "NotFoundError", Some("model")).contains("`other`"));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_refused_with_both_numbers() {
    let server = Server::start("hf-single").await;
    let (status, answer) = server
        .post("/v1/completions", &json!({"prompt": "The License", "max_tokens": 600}))
        .await;
    let message = check(&answer, 400, "BadRequestError", Some("input_tokens"));
    assert_eq!(status, 400);
    assert!(
        message.contains("maximum context length is 512 tokens") && message.contains("total of 604"),
        "{message}"
    );
    let long: Vec<u32> = vec![70; 520];
    let (_, answer) = server.post("/v1/completions", &json!({"prompt": long})).await;
    assert!(check(&answer, 400, "BadRequestError", Some("input_tokens")).contains("520 input tokens"));
    // Nothing to generate makes a prompt no shorter.
    let echo = json!({"prompt": long, "max_tokens": 0, "echo": true, "logprobs": 1});
    let (_, answer) = server.post("/v1/completions", &echo).await;
    assert!(check(&answer, 400, "BadRequestError", Some("input_tokens")).contains("520 input tokens"));
    let echo = json!({"prompt": &long[..512], "max_tokens": 0, "echo": true, "logprobs": 1});
    let (status, _) = server.post("/v1/completions", &echo).await;
    assert_eq!(status, 200, "a prompt without output may fill the context");
    let (status, _) = server
        .post("/v1/completions", &json!({"prompt": "The License", "max_tokens": 508}))
        .await;
    assert_eq!(status, 200, "prompt and output may fill the context");
    server.stop().await;
}

#[tokio::test]
async fn wrong_fields_are_named() {
    let server = Server::start("hf-single").await;
    for (body, param) in [
        (json!({"prompt": "a", "temperature": "hot"}), "temperature"),
        (json!({"prompt": "a", "temperature": -1}), "temperature"),
        (json!({"prompt": "a", "top_p": 0}), "top_p"),
        (json!({"prompt": "a", "n": 0}), "n"),
        (json!({"prompt": "a", "max_tokens": 0}), "max_tokens"),
        (json!({"prompt": "a", "max_tokens": -1}), "max_tokens"),
        (json!({"prompt": "a", "stop": [""]}), "stop"),
        (json!({"prompt": "a", "logprobs": 21}), "logprobs"),
        (json!({"prompt": "a", "temprature": 1}), "temprature"),
        (json!({"prompt": "a", "min_p": 0.5}), "min_p"),
        (json!({"prompt": {"text": "a"}}), "prompt"),
        (json!({"prompt": [400]}), "prompt"),
        (json!({"prompt": ""}), "prompt"),
        (json!({"prompt": []}), "prompt"),
        (json!({}), "prompt"),
    ] {
        let (status, answer) = server.post("/v1/completions", &body).await;
        assert_eq!(status, 400, "{body}");
        check(&answer, 400, "BadRequestError", Some(param));
    }
    for (body, param) in [
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"content": "a"}]}), "messages"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            "messages",
        ),
        (
            json!({"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2}),
            "top_logprobs",
        ),
        (
            json!({"messages": [{"role": "user", "content": "a"}], "tools": [{}]}),
            "tools",
        ),
    ] {
        let (_, answer) = server.post("/v1/chat/completions", &body).await;
        check(&answer, 400, "BadRequestError", Some(param));
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_not_json_is_refused() {
    let server = Server::start("hf-single").await;
    for body in ["{\"prompt\": \"a\"", "[1]", "", "{\"prompt\": \"\\ud800\"}"] {
        let response = server
            .client
            .post(server.url("/v1/completions"))
            .body(body)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 400, "{body}");
        check(&response.json().await.unwrap(), 400, "BadRequestError", None);
    }
    server.stop().await;
}

#[tokio::test]
async fn unknown_paths_and_methods_are_not_found() {
    let server = Server::start("hf-single").await;
    let get = |path: &str| server.client.get(server.url(path)).send();
    for path in ["/v1/embeddings", "/v1/completions"] {
        let response = get(path).await.unwrap();
        check(&response.json().await.unwrap(), 404, "NotFoundError", None);
    }
    server.stop().await;
}

#[tokio::test]
async fn chat_without_a_template_is_refused_and_completions_work() {
    let checkpoint = crate::loading::copy_of("hf-single");
    std::fs::remove_file(checkpoint.path().join("chat_template.jinja")).unwrap();
    let server = Server::start_with(Options::new(checkpoint.path())).await;
    let body = json!({"messages": [{"role": "user", "content": "Hi"}]});
    let (_, answer) = server.post("/v1/chat/completions", &body).await;
    assert!(check(&answer, 400, "BadRequestError", Some("messages")).contains("no chat template"));
    server.complete(&json!({"prompt": "Hi"})).await;
    server.stop().await;
}

#[tokio::test]
async fn a_served_name_replaces_the_directory_name() {
    let mut options = Options::new(data().join("hf-single"));
    options.served_model_name = Some("tiny".to_owned());
    let server = Server::start_with(options).await;
    server.complete(&json!({"model": "tiny", "prompt": "a"})).await;
    let (status, _) = server
        .post("/v1/completions", &json!({"model": "hf-single", "prompt": "a"}))
        .await;
    assert_eq!(status, 404);
    server.stop().await;
}
