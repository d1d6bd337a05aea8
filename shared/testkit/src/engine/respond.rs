//! From one HTTP request to one HTTP response, or to a connection that ends.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::answer::{Choice, Settings, body, usage};
use super::reply::{Kind, Raw, Reply, Text};
use super::request::{Endpoint, Request, prompts};
use super::server::Shared;
use super::stream::events;
use super::tokens::{prompt_hash, split_tokens};

/// Long enough for the bytes before it to leave, so that a client sees them and then the end.
const BEFORE_THE_END: Duration = Duration::from_millis(20);

/// How often an answer that is held looks whether it still is.
const POLL: Duration = Duration::from_millis(5);

/// The connection is to end here.
#[derive(Debug)]
pub(super) struct Dropped;

impl std::fmt::Display for Dropped {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the connection was dropped on purpose")
    }
}

impl std::error::Error for Dropped {}

type Body = BoxBody<Bytes, Dropped>;
type Answer = Result<Response<Body>, Dropped>;

pub(super) async fn respond(shared: &Shared, request: hyper::Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let endpoint = match path.as_str() {
        "/v1/completions" => Endpoint::Completions,
        "/v1/chat/completions" => Endpoint::Chat,
        _ => return inform(shared, &path, request).await,
    };
    let _in_flight = shared.counts.enter();
    let body = request.into_body().collect().await.map_err(|_| Dropped)?.to_bytes();
    if !shared.latency.is_zero() {
        tokio::time::sleep(shared.latency).await;
    }
    if let Some((body, hash, tokens)) = shared.ready.as_ref().and_then(|ready| ready.answer(endpoint, &body)) {
        shared.counts.prompt(hash);
        shared.counts.answered(1, tokens);
        return Ok(json_response(StatusCode::OK, body));
    }
    match serde_json::from_slice(&body) {
        Ok(body) => generate(shared, endpoint, &body).await,
        Err(error) => Ok(refuse(
            StatusCode::BAD_REQUEST,
            "BadRequestError",
            &error.to_string(),
            None,
        )),
    }
}

async fn generate(shared: &Shared, endpoint: Endpoint, request: &Value) -> Answer {
    let settings = Settings::read(endpoint, request);
    let prompts = prompts(endpoint, request);
    if let Some(refusal) = refusal(shared, &settings, &prompts) {
        return Ok(refusal);
    }
    let mut choices = Vec::new();
    let mut entries = Vec::new();
    for prompt in prompts {
        let hash = prompt_hash(&prompt);
        let attempt = shared.counts.prompt(hash);
        let journal = shared.journal.as_ref();
        entries.extend(journal.map(|journal| journal.enter(&prompt, hash, request["seed"].as_u64())));
        let before = choices.len();
        for _ in 0..settings.samples {
            let asked = Request {
                endpoint,
                prompt: prompt.clone(),
                attempt,
                body: request.clone(),
            };
            let Reply { delay, held, kind } = (shared.script)(&asked);
            wait(delay, held.as_deref()).await;
            match kind {
                Kind::Text(text) => choices.push(Choice::new(&prompt, text, &settings)),
                // One broken answer among several breaks the whole response, as it would on the wire.
                Kind::Raw(raw) => return Ok(raw_response(raw)),
                Kind::Dropped { after_bytes, text } => return drop_after(after_bytes, &prompt, text, &settings),
            }
        }
        if let Some(entry) = entries.last_mut() {
            entry.answer(choices[before..].iter().map(Choice::completion_tokens).sum());
        }
    }
    let (prompt_tokens, completion_tokens) = usage(&choices, settings.samples);
    shared.counts.answered(prompt_tokens, completion_tokens);
    Ok(if settings.stream {
        stream_response(&choices, &settings)
    } else {
        whole_response(&choices, &settings)
    })
}

/// Waits as long as a script says.
async fn wait(delay: Duration, held: Option<&AtomicBool>) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    while held.is_some_and(|held| held.load(Ordering::Relaxed)) {
        tokio::time::sleep(POLL).await;
    }
}

/// What vLLM says to a request it will not run.
fn refusal(shared: &Shared, settings: &Settings, prompts: &[String]) -> Option<Response<Body>> {
    if settings.model != shared.model {
        let message = format!("The model `{}` does not exist.", settings.model);
        return Some(refuse(StatusCode::NOT_FOUND, "NotFoundError", &message, Some("model")));
    }
    if prompts.is_empty() {
        return Some(refuse(
            StatusCode::BAD_REQUEST,
            "BadRequestError",
            "no prompt in the request",
            Some("prompt"),
        ));
    }
    let longest = prompts
        .iter()
        .map(|prompt| split_tokens(prompt).len())
        .max()
        .unwrap_or(0);
    let wanted = longest + settings.max_tokens.unwrap_or(0);
    (wanted > shared.max_context).then(|| {
        let message = format!(
            "This model's maximum context length is {} tokens. However, you requested {wanted} tokens ({longest} in the prompt).",
            shared.max_context
        );
        refuse(StatusCode::BAD_REQUEST, "BadRequestError", &message, Some("input_tokens"))
    })
}

fn refuse(status: StatusCode, kind: &str, message: &str, param: Option<&str>) -> Response<Body> {
    let error = json!({ "message": message, "type": kind, "param": param, "code": status.as_u16() });
    json_response(status, json!({ "error": error }).to_string().into())
}

async fn inform(shared: &Shared, path: &str, request: hyper::Request<Incoming>) -> Answer {
    let stats = shared.counts.stats();
    Ok(match path {
        "/health" => json_response(StatusCode::OK, Bytes::new()),
        "/v1/models" => {
            let model = json!({ "id": shared.model, "object": "model", "owned_by": "tidemill", "max_model_len": shared.max_context });
            json_response(
                StatusCode::OK,
                json!({ "object": "list", "data": [model] }).to_string().into(),
            )
        }
        "/stats" => json_response(StatusCode::OK, serde_json::to_vec(&stats).unwrap_or_default().into()),
        "/metrics" => {
            let label = format!("{{model_name=\"{}\"}}", shared.model);
            let text = format!(
                "vllm:num_requests_running{label} {}\nvllm:num_requests_waiting{label} 0\nvllm:kv_cache_usage_perc{label} 0\n\
                 vllm:prompt_tokens_total{label} {}\nvllm:generation_tokens_total{label} {}\n",
                stats.in_flight, stats.prompt_tokens, stats.completion_tokens
            );
            response(StatusCode::OK, "text/plain; version=0.0.4", whole(text.into()))
        }
        "/tokenize" => {
            let body = request.into_body().collect().await.map_err(|_| Dropped)?.to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let tokens = split_tokens(body["prompt"].as_str().unwrap_or_default());
            let ids: Vec<u64> = tokens.iter().map(|token| prompt_hash(token) % 100_000).collect();
            let answer = json!({ "count": ids.len(), "max_model_len": shared.max_context, "tokens": ids });
            json_response(StatusCode::OK, answer.to_string().into())
        }
        _ => refuse(StatusCode::NOT_FOUND, "NotFoundError", "Not Found", None),
    })
}

fn whole_response(choices: &[Choice], settings: &Settings) -> Response<Body> {
    json_response(StatusCode::OK, body(choices, settings).to_string().into())
}

fn stream_response(choices: &[Choice], settings: &Settings) -> Response<Body> {
    let frames = stream::iter(events(choices, settings)).map(|event| Ok(Frame::data(event)));
    response(
        StatusCode::OK,
        "text/event-stream",
        BodyExt::boxed(StreamBody::new(frames)),
    )
}

/// Sends the first `after` bytes of a normal answer, then ends the connection.
fn drop_after(after: usize, prompt: &str, text: Text, settings: &Settings) -> Answer {
    if after == 0 {
        return Err(Dropped);
    }
    let choices = [Choice::new(prompt, text, settings)];
    let (kind, full) = if settings.stream {
        ("text/event-stream", Bytes::from(events(&choices, settings).concat()))
    } else {
        ("application/json", Bytes::from(body(&choices, settings).to_string()))
    };
    let part = full.slice(..after.min(full.len()));
    let frames = stream::once(async { Ok(Frame::data(part)) }).chain(stream::once(async {
        tokio::time::sleep(BEFORE_THE_END).await;
        Err(Dropped)
    }));
    let mut cut = response(StatusCode::OK, kind, BodyExt::boxed(StreamBody::new(frames)));
    if !settings.stream {
        // Promises the whole, so that the end cannot pass for the end of the answer.
        cut.headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from(full.len() + 1));
    }
    Ok(cut)
}

fn raw_response(raw: Raw) -> Response<Body> {
    let status = StatusCode::from_u16(raw.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = json_response(status, raw.body);
    for (name, value) in raw.headers {
        if let (Ok(name), Ok(value)) = (hyper::header::HeaderName::try_from(name), HeaderValue::try_from(value)) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

fn json_response(status: StatusCode, body: Bytes) -> Response<Body> {
    response(status, "application/json", whole(body))
}

fn whole(body: Bytes) -> Body {
    Full::new(body).map_err(|never: Infallible| match never {}).boxed()
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
