//! The adapter against a real HTTP server whose answers are scripted.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of a test file, which is nothing but tests"
)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidemill_domain::{Ending, EngineKind, Partial, Penalties, Prompt};
use tidemill_inference::{
    Client, Connection, Engine, OpenAi, Options, ProbeError, Request, Scoring, Verdict, is_reachable, probe,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

mod cases;
mod exactness;
mod real;
mod streaming;
mod windows;

type Script = dyn Fn(&str, &Value) -> Response + Send + Sync;

/// A server that answers with a function of path and body, and remembers what it was sent.
#[derive(Clone)]
struct Server {
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<(String, Value, HeaderMap)>>>,
    /// The client's port of each request.
    ports: Arc<Mutex<Vec<u16>>>,
    address: SocketAddr,
}

impl Server {
    async fn start(script: impl Fn(&str, &Value) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            script: Arc::new(script),
            seen: Arc::default(),
            ports: Arc::default(),
            address: listener.local_addr().unwrap(),
        };
        let app = Router::new().fallback(answer).with_state(server.clone());
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        server
    }

    fn url(&self) -> String {
        format!("http://{}/v1/", self.address)
    }

    fn engine(&self) -> OpenAi {
        engine(&self.url())
    }

    fn bodies(&self) -> Vec<Value> {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .map(|(_, body, _)| body.clone())
            .collect()
    }

    fn paths(&self) -> Vec<String> {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .map(|(path, _, _)| path.clone())
            .collect()
    }
}

async fn answer(
    State(server): State<Server>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    server.ports.lock().unwrap().push(peer.port());
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let response = (server.script)(uri.path(), &body);
    server.seen.lock().unwrap().push((uri.path().to_owned(), body, headers));
    response
}

fn engine(url: &str) -> OpenAi {
    OpenAi::new(
        Client::new(url, &Options::default()).unwrap(),
        "tiny",
        EngineKind::OpenAi,
    )
}

fn ok(body: &Value) -> Response {
    (StatusCode::OK, body.to_string()).into_response()
}

fn refused(status: u16, message: &str) -> Response {
    let body = json!({ "error": { "message": message, "type": "invalid_request_error" } });
    (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}

fn four() -> Value {
    json!({ "choices": [{ "text": " 4", "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 5, "completion_tokens": 2 } })
}

fn models(names: &[&str]) -> Value {
    let data: Vec<Value> = names
        .iter()
        .map(|name| json!({ "id": name, "object": "model", "owned_by": "vllm", "max_model_len": 1024 }))
        .collect();
    json!({ "object": "list", "data": data })
}

fn request(prompt: &Prompt) -> Request<'_> {
    Request {
        prompt,
        max_tokens: 16,
        temperature: 0.0,
        top_p: 1.0,
        stop: &[],
        seed: None,
        penalties: Penalties::default(),
        stream: false,
        stall_timeout: Duration::from_secs(60),
    }
}

fn text() -> Prompt {
    Prompt::Text("2+2=".to_owned())
}

#[tokio::test]
async fn a_completion_comes_back_with_its_counts() {
    let server = Server::start(|_, _| ok(&four())).await;
    let attempt = server
        .engine()
        .complete(&request(&text()), Connection::Kept, &mut Partial::default())
        .await;
    let Verdict::Done(answer) = attempt.verdict else {
        panic!("{attempt:?}")
    };
    assert_eq!(
        (answer.text.as_str(), answer.ending, attempt.requests),
        (" 4", Ending::Stop, 1)
    );
    assert_eq!((answer.prompt_tokens, answer.completion_tokens), (5, 2));
    assert_eq!(server.paths(), ["/v1/completions"]);
    assert_eq!(server.bodies()[0]["repetition_penalty"], 1.0);
}

#[tokio::test]
async fn a_chat_prompt_goes_to_the_chat_endpoint() {
    let server = Server::start(|_, _| {
        ok(
            &json!({ "choices": [{ "message": { "content": "4" }, "finish_reason": "stop" }],
            "usage": { "completion_tokens": 1 } }),
        )
    })
    .await;
    let prompt = Prompt::Chat(vec![]);
    let attempt = server
        .engine()
        .complete(&request(&prompt), Connection::New, &mut Partial::default())
        .await;
    assert_eq!(attempt.verdict.label(), "done");
    assert_eq!(server.paths(), ["/v1/chat/completions"]);
}

#[tokio::test]
async fn a_server_that_refuses_other_sampling_fields_is_asked_without_them_from_then_on() {
    let server = Server::start(|_, body| match body.get("top_k") {
        Some(_) => refused(400, "Unrecognized request argument supplied: top_k"),
        None => ok(&four()),
    })
    .await;
    let engine = server.engine();
    let first = engine
        .complete(&request(&text()), Connection::Kept, &mut Partial::default())
        .await;
    let second = engine
        .clone()
        .complete(&request(&text()), Connection::Kept, &mut Partial::default())
        .await;
    assert_eq!((first.verdict.label(), first.requests), ("done", 2));
    assert_eq!((second.verdict.label(), second.requests), ("done", 1));
}

#[tokio::test]
async fn a_refusal_that_quotes_the_whole_request_teaches_nothing() {
    let server = Server::start(|_, body| match body["seed"].as_u64() {
        Some(13) => {
            let quoted = json!({ "detail": [{ "loc": ["body", "seed"], "msg": "unlucky", "input": body }] });
            (StatusCode::UNPROCESSABLE_ENTITY, quoted.to_string()).into_response()
        }
        _ => ok(&four()),
    })
    .await;
    let (engine, prompt) = (server.engine(), text());
    let with_seed = |seed| Request {
        seed: Some(seed),
        temperature: 1.0,
        ..request(&prompt)
    };
    for (seed, stream, label) in [
        (13, false, "rejected"),
        (13, true, "rejected"),
        (7, false, "done"),
        (7, true, "done"),
    ] {
        let request = Request {
            stream,
            ..with_seed(seed)
        };
        let attempt = engine
            .complete(&request, Connection::Kept, &mut Partial::default())
            .await;
        assert_eq!(attempt.verdict.label(), label);
    }
    let bodies = server.bodies();
    let [.., whole, streamed] = bodies.as_slice() else {
        panic!("{bodies:?}")
    };
    assert!(
        whole.get("top_k").is_some() && streamed.get("top_k").is_some(),
        "{bodies:?}"
    );
    assert!(streamed.get("stream_options").is_some(), "{streamed}");
}

/// Dies of its first request: connection and listener are closed.
async fn mortal() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        drop(listener);
        drop(stream);
    });
    url
}

#[tokio::test]
async fn a_request_that_kills_its_engine_was_sent_although_nobody_listens_any_more() {
    for stream in [false, true] {
        let engine = engine(&mortal().await);
        let prompt = text();
        let request = Request {
            stream,
            ..request(&prompt)
        };
        let killing = engine
            .complete(&request, Connection::Kept, &mut Partial::default())
            .await;
        assert!(
            matches!(killing.verdict, Verdict::Down { sent: true, .. }),
            "{killing:?}"
        );
        assert_eq!(killing.requests, 1);
    }
}

#[tokio::test]
async fn overload_keeps_what_the_server_asked_for() {
    let server =
        Server::start(|_, _| (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")], "").into_response()).await;
    let attempt = server
        .engine()
        .complete(&request(&text()), Connection::Kept, &mut Partial::default())
        .await;
    let Verdict::Busy { retry_after, .. } = attempt.verdict else {
        panic!("{attempt:?}")
    };
    assert_eq!(retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn a_dead_server_is_down_and_the_request_was_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let attempt = engine(&url)
        .complete(&request(&text()), Connection::Kept, &mut Partial::default())
        .await;
    let Verdict::Down { sent, why } = attempt.verdict else {
        panic!("{attempt:?}")
    };
    assert!(!sent);
    assert!(why.to_lowercase().contains("refused"), "{why}");
}

/// Accepts connections, reads each one's request and writes `answers` in turn before closing it.
async fn raw_server(answers: &'static [&'static str]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = answers[count.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1)];
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, served)
}

#[tokio::test]
async fn a_connection_that_was_closed_under_the_request_is_replaced_once() {
    const ANSWER: &str =
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"choices\":[{\"text\":\"4\",\"finish_reason\":\"stop\"}]}";
    let (url, served) = raw_server(&["", ANSWER]).await;
    let attempt = engine(&url)
        .complete(&request(&text()), Connection::Kept, &mut Partial::default())
        .await;
    assert_eq!((attempt.verdict.label(), attempt.requests), ("done", 2));
    assert_eq!(served.load(Ordering::SeqCst), 2);

    let (url, _) = raw_server(&[""]).await;
    let attempt = engine(&url)
        .complete(&request(&text()), Connection::Kept, &mut Partial::default())
        .await;
    assert!(
        matches!(attempt.verdict, Verdict::Down { sent: true, .. }),
        "{attempt:?}"
    );
    assert_eq!(attempt.requests, 2);
}

#[tokio::test]
async fn half_a_response_is_retried_on_a_new_connection() {
    let (url, _) = raw_server(&["HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"choices\":[{\"text\":\"The"]).await;
    let attempt = engine(&url)
        .complete(&request(&text()), Connection::Kept, &mut Partial::default())
        .await;
    assert!(
        matches!(
            attempt.verdict,
            Verdict::Retry {
                on_new_connection: true,
                ..
            }
        ),
        "{attempt:?}"
    );
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_given_up_after_the_time_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let options = Options {
        request_timeout: Duration::from_millis(50),
        ..Options::default()
    };
    let engine = OpenAi::new(Client::new(&url, &options).unwrap(), "tiny", EngineKind::OpenAi);
    let attempt = engine
        .complete(&request(&text()), Connection::Kept, &mut Partial::default())
        .await;
    assert_eq!((attempt.verdict.label(), attempt.requests), ("retry", 1));
    drop(listener);
}

/// Echoes words with a log-probability of minus their number; refuses `max_tokens: 0` when told to.
fn word_echo(body: &Value, refuses_zero: bool) -> Response {
    let max_tokens = body["max_tokens"].as_u64().unwrap();
    if refuses_zero && max_tokens == 0 {
        return refused(400, "max_tokens must be at least 1, got 0.");
    }
    let prompt = body["prompt"].as_str().unwrap();
    let mut tokens: Vec<String> = prompt.split_inclusive(' ').map(|word| word.trim().to_owned()).collect();
    let prompt_tokens = tokens.len();
    let usage = json!({ "prompt_tokens": prompt_tokens, "completion_tokens": max_tokens });
    if body.get("echo").is_none() {
        return ok(&json!({ "choices": [{ "text": "", "finish_reason": "length" }], "usage": usage }));
    }
    tokens.extend((0..max_tokens).map(|_| "more".to_owned()));
    let logprobs: Vec<Value> = (0..tokens.len())
        .map(|index| {
            if index == 0 {
                Value::Null
            } else {
                json!(-(index as f64))
            }
        })
        .collect();
    let best: Vec<Value> = logprobs.iter().map(|logprob| json!({ "more": logprob })).collect();
    ok(
        &json!({ "choices": [{ "text": prompt, "finish_reason": "length", "logprobs": { "tokens": tokens,
        "token_logprobs": logprobs, "top_logprobs": best, "text_offset": vec![-1; tokens.len()] } }], "usage": usage }),
    )
}

#[tokio::test]
async fn one_request_scores_a_choice_and_the_context_is_counted_once() {
    let server = Server::start(|_, body| word_echo(body, false)).await;
    let engine = server.engine();
    let mut scoring = Scoring::new("the sky is ");
    let blue = engine.score(&mut scoring, "light blue", Connection::Kept).await;
    let red = engine.score(&mut scoring, "red", Connection::Kept).await;
    let (Verdict::Done(blue_score), Verdict::Done(red_score)) = (blue.verdict, red.verdict) else {
        panic!("expected two scores")
    };
    assert_eq!((blue_score.choice.log_probability, blue_score.choice.tokens), (-7.0, 2));
    assert_eq!((red_score.choice.log_probability, red_score.choice.tokens), (-3.0, 1));
    assert_eq!((blue.requests, red.requests), (2, 1));
    let bodies = server.bodies();
    assert_eq!(bodies[0]["prompt"], "the sky is light blue");
    assert_eq!(
        (&bodies[0]["echo"], &bodies[0]["max_tokens"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(bodies[1]["prompt"], "the sky is");
}

#[tokio::test]
async fn a_server_that_refuses_zero_tokens_is_asked_for_one_that_is_ignored() {
    let server = Server::start(|_, body| word_echo(body, true)).await;
    let engine = server.engine();
    let mut scoring = Scoring::new("the sky is");
    let blue = engine.score(&mut scoring, " blue", Connection::Kept).await;
    let red = engine.score(&mut scoring, " red", Connection::Kept).await;
    let (Verdict::Done(blue_score), Verdict::Done(red_score)) = (blue.verdict, red.verdict) else {
        panic!("expected two scores")
    };
    assert_eq!((blue_score.choice.log_probability, blue_score.choice.tokens), (-3.0, 1));
    assert_eq!(red_score.choice, blue_score.choice);
    assert_eq!((blue.requests, red.requests), (3, 1));
}

#[tokio::test]
async fn a_warm_engine_is_probed_with_a_real_request() {
    let server = Server::start(|path, body| match path {
        "/v1/models" => ok(&models(&["other", "tiny"])),
        _ if body["max_tokens"] == 1 => {
            ok(&json!({ "choices": [{ "text": "!", "finish_reason": "length" }], "usage": { "completion_tokens": 1 } }))
        }
        _ => word_echo(body, false),
    })
    .await;
    let probed = probe(&server.url(), "tiny", None).await.unwrap();
    assert_eq!(probed.described.context_length, Some(1024));
    assert!(probed.capabilities.metrics && probed.capabilities.prompt_logprobs);
    assert_eq!(server.paths(), ["/v1/models", "/v1/completions"]);
    server.engine().alive().await.unwrap();
    assert!(is_reachable(&server.url()).await);
}

async fn probe_error(script: impl Fn(&str, &Value) -> Response + Send + Sync + 'static) -> ProbeError {
    let server = Server::start(script).await;
    probe(&server.url(), "tiny", None).await.unwrap_err()
}

#[tokio::test]
async fn each_wrong_server_is_refused_with_its_own_reason() {
    let wrong_model = probe_error(|_, _| ok(&models(&["small", "large"]))).await;
    assert!(
        wrong_model
            .to_string()
            .ends_with("does not serve \"tiny\"; it serves \"small\", \"large\""),
        "{wrong_model}"
    );
    let html = probe_error(|_, _| (StatusCode::OK, "<html>hello</html>").into_response()).await;
    assert!(matches!(html, ProbeError::NotOpenAi { .. }), "{html}");
    let missing = probe_error(|_, _| StatusCode::NOT_FOUND.into_response()).await;
    assert!(matches!(missing, ProbeError::NotOpenAi { .. }), "{missing}");
    let locked = probe_error(|_, _| StatusCode::UNAUTHORIZED.into_response()).await;
    assert!(
        matches!(locked, ProbeError::Unauthorised { status: 401, .. }),
        "{locked}"
    );
    let starting = probe_error(|_, _| StatusCode::SERVICE_UNAVAILABLE.into_response()).await;
    assert!(matches!(starting, ProbeError::Unready { .. }), "{starting}");
    let broken = probe_error(|path, _| match path {
        "/v1/models" => ok(&models(&["tiny"])),
        _ => refused(500, "kernel missing"),
    })
    .await;
    assert!(broken.to_string().contains("status 500: kernel missing"), "{broken}");
    let nobody = probe("http://127.0.0.1:9", "tiny", None).await.unwrap_err();
    assert!(matches!(nobody, ProbeError::Unreachable { .. }), "{nobody}");
    assert!(nobody.is_passing() && starting.is_passing() && broken.is_passing());
    assert!(!wrong_model.is_passing() && !html.is_passing() && !locked.is_passing());
    assert!(!is_reachable("http://127.0.0.1:9").await);
    let no_address = probe("ftp://x", "tiny", None).await.unwrap_err();
    assert!(matches!(no_address, ProbeError::Client(_)), "{no_address}");
}

#[tokio::test]
async fn a_server_without_prompt_log_probabilities_fails_the_scoring_check() {
    let server = Server::start(|path, _| match path {
        "/v1/models" => ok(&models(&["tiny"])),
        _ => ok(&json!({ "choices": [{ "text": "!", "finish_reason": "length" }],
            "usage": { "prompt_tokens": 4, "completion_tokens": 1 } })),
    })
    .await;
    let probed = probe(&server.url(), "tiny", None).await.unwrap();
    let error = probed.check_scoring().await.unwrap_err();
    assert!(matches!(error, ProbeError::NoPromptLogprobs { .. }), "{error}");
}

#[tokio::test]
async fn a_server_with_the_chat_endpoint_alone_passes_without_scoring() {
    let server = Server::start(|path, _| match path {
        "/v1/models" => ok(&models(&["tiny"])),
        "/v1/chat/completions" => {
            ok(&json!({ "choices": [{ "message": { "content": "!" }, "finish_reason": "length" }] }))
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    })
    .await;
    let probed = probe(&server.url(), "tiny", None).await.unwrap();
    assert!(!probed.capabilities.prompt_logprobs);
}

#[tokio::test]
async fn the_api_key_is_sent_and_never_shown() {
    let server = Server::start(|_, _| ok(&four())).await;
    let options = Options {
        api_key: Some("secret".to_owned()),
        ..Options::default()
    };
    let client = Client::new(&server.url(), &options).unwrap();
    let shown = format!("{options:?} {client:?}");
    let engine = OpenAi::new(client, "tiny", EngineKind::OpenAi);
    engine
        .complete(&request(&text()), Connection::Kept, &mut Partial::default())
        .await;
    let headers = server.seen.lock().unwrap()[0].2.clone();
    assert_eq!(headers["authorization"], "Bearer secret");
    assert!(!shown.contains("secret"), "{shown}");
}
