//! From one HTTP request to one HTTP response, or to a connection that ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use httpdate::HttpDate;
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ask::{Ask, Body as AskBody, Endpoint, Tokenize};
use super::ledger::{Left, Snapshot};
use super::replica::Replica;
use super::shape::{self, Choice, Usage};
use super::stream::{Streamed, frames};
use super::{metrics, scripted};
use crate::answers::{Answer, Question, Sampling, answer, length, prompt_hash};
use crate::bounds::Job;
use crate::config::complaint_of;
use crate::faults::{Fault, FaultKind};
use crate::model::{Arrival, Refusal, chain};
use crate::tokens;

/// Long enough for the bytes before it to leave, so that a client sees them and then the end.
const BEFORE_THE_END: Duration = Duration::from_millis(20);

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
type Outcome = Result<Response<Body>, Dropped>;

/// Tells the ledger how a request left, at the latest when it is dropped.
#[derive(Debug)]
pub(super) struct Leaving {
    replica: Arc<Replica>,
    how: Left,
    /// Kept when the answer was given.
    jobs: Vec<(u64, (u64, u64), Job)>,
    is_counted: bool,
}

impl Leaving {
    pub(super) fn answered(&mut self) {
        self.how = Left::Answered;
        if self.replica.config.keep_work {
            let mut ledger = self.replica.ledger();
            for (arrival, key, job) in self.jobs.drain(..) {
                ledger.job(arrival, key, job);
            }
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if self.is_counted {
            self.replica.ledger().leave(self.how);
        }
    }
}

pub(super) async fn respond(all: &[Arc<Replica>], replica: &Arc<Replica>, request: Request<Incoming>) -> Outcome {
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::POST, "/v1/completions") => generate(replica, Endpoint::Completions, request).await,
        (&Method::POST, "/v1/chat/completions") => generate(replica, Endpoint::Chat, request).await,
        (&Method::POST, "/generate") if replica.config.owned_by == "sglang" => sglang(replica, request).await,
        (_, path) if path.starts_with("/simulate/") => simulate(all, replica, request).await,
        _ => inform(replica, &path, request).await,
    }
}

async fn body_of(request: Request<Incoming>) -> Result<Bytes, Dropped> {
    Ok(request.into_body().collect().await.map_err(|_| Dropped)?.to_bytes())
}

async fn generate(replica: &Arc<Replica>, endpoint: Endpoint, request: Request<Incoming>) -> Outcome {
    let body = body_of(request).await?;
    let number = replica.number();
    let parsed: AskBody<'_> = match serde_json::from_slice(&body) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(bad_request(&error.to_string(), None)),
    };
    if parsed
        .model
        .as_ref()
        .is_some_and(|model| *model != replica.config.model)
    {
        let message = format!("The model `{}` does not exist.", parsed.model.unwrap_or_default());
        return Ok(refuse(404, "NotFoundError", &message, Some("model")));
    }
    let ask = match parsed.check(endpoint, replica.config.add_begin, number) {
        Ok(ask) => ask,
        Err((message, parameter)) => return Ok(bad_request(&message, Some(parameter))),
    };
    let (arrival, mut leaving) = enter(replica, &ask);
    let fault = ask
        .prompts
        .first()
        .and_then(|prompt| replica.fault(number, prompt_hash(prompt), ask.is_probe(), || tokens::text(prompt)));
    if let Some(fault) = &fault
        && let Some(outcome) = refuse_by_fault(replica, fault, &mut leaving).await
    {
        return outcome;
    }
    compute(replica, ask, fault.as_ref(), arrival, leaving, number).await
}

/// Counts a request in.
fn enter(replica: &Arc<Replica>, ask: &Ask) -> (u64, Leaving) {
    let is_counted = !ask.is_probe();
    let is_early = replica.is_early();
    let mut ledger = replica.ledger();
    if is_early {
        ledger.early();
    }
    if ask
        .prompts
        .iter()
        .any(|ids| ids.starts_with(&[tokens::BEGIN, tokens::BEGIN]))
    {
        ledger.double_begin();
    }
    let arrival = if is_counted {
        ledger.enter(ask.prompts.iter().map(|ids| prompt_hash(ids)))
    } else {
        ledger.probe();
        0
    };
    drop(ledger);
    let leaving = Leaving {
        replica: Arc::clone(replica),
        how: Left::Abandoned,
        jobs: Vec::new(),
        is_counted,
    };
    (arrival, leaving)
}

/// Faults that come before anything is computed.
async fn refuse_by_fault(replica: &Arc<Replica>, fault: &Fault, leaving: &mut Leaving) -> Option<Outcome> {
    let refused = |leaving: &mut Leaving, status, kind, message| {
        leaving.how = Left::Refused;
        let mut response = refuse(status, kind, message, None);
        if let Some((wait, text)) = retry_after(fault, SystemTime::now()) {
            replica.ask_for_patience(wait);
            if let Ok(value) = HeaderValue::try_from(text) {
                response.headers_mut().insert(RETRY_AFTER, value);
            }
        }
        Some(Ok(response))
    };
    match fault.kind {
        FaultKind::Overloaded => refused(leaving, 429, "RateLimitError", "too many requests"),
        FaultKind::Unavailable => refused(leaving, 503, "ServiceUnavailableError", "the server is overloaded"),
        FaultKind::Internal => refused(leaving, 500, "InternalServerError", "EngineCore encountered an issue"),
        FaultKind::Reset if fault.after_tokens == 0 => Some(Err(Dropped)),
        FaultKind::StallEngine => {
            replica.stall(fault.lasts);
            None
        }
        FaultKind::Die => {
            let replica = Arc::clone(replica);
            let lasts = fault.lasts;
            // This connection ends with the replica, so somebody else has to bring it back.
            tokio::spawn(async move {
                replica.die();
                if let Some(lasts) = lasts {
                    tokio::time::sleep(lasts).await;
                    replica.rise();
                }
            });
            std::future::pending().await
        }
        _ => None,
    }
}

/// How long a fault asks for patience from `now` on, and in which words. A date has whole seconds: no more is asked for.
fn retry_after(fault: &Fault, now: SystemTime) -> Option<(Duration, String)> {
    let wait = fault.retry_after?;
    if !fault.as_date {
        return Some((wait, wait.as_secs_f64().ceil().to_string()));
    }
    let due = HttpDate::from(now + wait);
    let wait = SystemTime::from(due).duration_since(now).unwrap_or_default();
    Some((wait, due.to_string()))
}

async fn compute(
    replica: &Arc<Replica>,
    ask: Ask,
    fault: Option<&Fault>,
    arrival: u64,
    mut leaving: Leaving,
    number: u64,
) -> Outcome {
    if let Some(refusal) = too_long(replica, &ask) {
        leaving.how = Left::Refused;
        return Ok(refused(replica, &ask, refusal));
    }
    let answers = answers(replica, &ask, fault);
    count_continued(replica, &answers);
    let stalls = fault
        .filter(|fault| fault.kind == FaultKind::Stall)
        .map(|fault| fault.after_tokens);
    let places = answers
        .iter()
        .map(|(prompt, answer)| arrival_of(replica, &ask, prompt, answer, stalls));
    let mut ticket = match replica.submit(places.collect(), ask.stream) {
        Ok(ticket) => ticket,
        Err(refusal) => {
            leaving.how = Left::Refused;
            return Ok(refused(replica, &ask, refusal));
        }
    };
    leaving.jobs = jobs(replica, &ask, arrival, &answers);
    let id = format!("simulated-{number}");
    let damage = fault
        .map(|fault| fault.kind)
        .filter(|kind| scripted::changes_body(*kind));
    if ask.stream && damage.is_none() {
        let reset_after = fault
            .filter(|fault| fault.kind == FaultKind::Reset)
            .map(|fault| fault.after_tokens);
        let Some(answer) = answers.into_iter().next().map(|(_, answer)| answer) else {
            return Ok(bad_request("there is no prompt in the request", Some("prompt")));
        };
        let streamed = Streamed {
            model: replica.config.model.clone(),
            ask,
            id,
            answer,
            ticket,
            reset_after,
            leaving,
        };
        let body = BodyExt::boxed(StreamBody::new(frames(streamed)));
        return Ok(response(StatusCode::OK, "text/event-stream", body));
    }
    let finished = ticket.finished().await.map_err(|_| Dropped)?;
    let cached = finished.iter().map(|finished| u64::from(finished.cached)).sum();
    let choices: Vec<Choice<'_>> = answers
        .iter()
        .map(|(prompt, answer)| Choice { prompt, answer })
        .collect();
    let mut body = shape::body(
        &ask,
        &id,
        &replica.config.model,
        &choices,
        usage(&ask, &answers, cached),
    );
    if let Some(kind) = damage {
        body = scripted::damage(kind, ask.endpoint, &body);
    }
    leaving.answered();
    if ask.stream {
        return Ok(response(
            StatusCode::OK,
            "text/event-stream",
            whole(scripted::events(ask.endpoint, &body).into()),
        ));
    }
    if fault.is_some_and(|fault| fault.kind == FaultKind::Reset) {
        return Ok(cut_response(body.into()));
    }
    Ok(json_response(StatusCode::OK, body.into()))
}

/// Engines refuse by the cap, whatever the answer would need of it.
fn too_long(replica: &Replica, ask: &Ask) -> Option<Refusal> {
    let max_model_len = replica.config.engine.max_model_len;
    let prompt = ask.prompts.iter().map(Vec::len).max()? as u32;
    let wanted = prompt.saturating_add(ask.max_tokens.unwrap_or(1));
    (wanted > max_model_len).then_some(Refusal::TooLong { wanted, max_model_len })
}

/// Every prompt's answers, in the order of the choices.
fn answers<'a>(replica: &Replica, ask: &'a Ask, fault: Option<&Fault>) -> Vec<(&'a [u32], Answer)> {
    let config = &replica.config;
    let mut answers = Vec::with_capacity(ask.prompts.len() * ask.samples as usize);
    for prompt in &ask.prompts {
        let room = config.engine.max_model_len.saturating_sub(prompt.len() as u32);
        for sample in 0..ask.samples {
            let question = Question {
                ids: prompt,
                max_tokens: ask.max_tokens.unwrap_or(room),
                min_tokens: ask.min_tokens,
                ignore_eos: ask.ignore_eos || fault.is_some_and(|fault| fault.kind == FaultKind::StopAtCap),
                stop: &ask.stop,
                keep_stop: ask.keep_stop,
                sampling: Sampling {
                    seed: ask.sampling.seed.wrapping_add(u64::from(sample)),
                    ..ask.sampling.clone()
                },
            };
            answers.push((prompt.as_slice(), answer(&config.answers, config.checkpoint, &question)));
        }
    }
    answers
}

fn count_continued(replica: &Replica, answers: &[(&[u32], Answer)]) {
    for (_, answer) in answers.iter().filter(|(_, answer)| answer.continued > 0) {
        replica.ledger().continued(answer.is_foreign);
    }
}

fn arrival_of(replica: &Replica, ask: &Ask, prompt: &[u32], answer: &Answer, stalls_after: Option<u32>) -> Arrival {
    Arrival {
        chain: chain(prompt, replica.config.engine.block_size),
        prompt: prompt.len() as u32,
        // Even a request for no token computes one.
        output: (answer.tokens.len() as u32).max(1),
        reads_cache: !ask.scores_prompt(),
        stalls_after,
    }
}

/// What the bounds need of the answers: those continued count whole, with the prompt that was asked at first.
fn jobs(replica: &Replica, ask: &Ask, arrival: u64, answers: &[(&[u32], Answer)]) -> Vec<(u64, (u64, u64), Job)> {
    if arrival == 0 || !replica.config.keep_work {
        return Vec::new();
    }
    let is_drawn = ask.sampling.temperature > 0.0;
    let cap = ask.max_tokens.unwrap_or(u32::MAX);
    let job = |(at, (prompt, answer)): (usize, &(&[u32], Answer))| {
        let asked = tokens::split(prompt).0;
        let sample = (at % ask.samples as usize) as u64;
        let draw = if is_drawn {
            ask.sampling.seed.wrapping_add(sample)
        } else {
            sample
        };
        let job = Job {
            chain: chain(asked, replica.config.engine.block_size),
            prompt: asked.len() as u32,
            output: answer.continued + answer.tokens.len() as u32,
            before: replica
                .config
                .earlier
                .map(|earlier| length(&replica.config.answers, earlier, asked, cap)),
            reads_cache: !ask.scores_prompt(),
        };
        (arrival, (prompt_hash(prompt), draw), job)
    };
    answers.iter().enumerate().map(job).collect()
}

/// Prompts count once for all their samples, as their cached tokens do not.
fn usage(ask: &Ask, answers: &[(&[u32], Answer)], cached: u64) -> Usage {
    let prompt = ask.prompts.iter().map(|prompt| prompt.len() as u64).sum();
    let completion = answers.iter().map(|(_, answer)| answer.tokens.len() as u64).sum();
    Usage::new(prompt, completion, cached / u64::from(ask.samples.max(1)))
}

fn refused(replica: &Replica, ask: &Ask, refusal: Refusal) -> Response<Body> {
    match refusal {
        Refusal::Full { .. } => {
            let (status, kind) = match replica.config.full_status {
                429 => (429, "RateLimitError"),
                _ => (503, "ServiceUnavailableError"),
            };
            refuse(status, kind, &refusal.to_string(), None)
        }
        Refusal::TooLong { max_model_len, .. } => {
            let prompt = ask.prompts.iter().map(Vec::len).max().unwrap_or(0);
            let message = format!(
                "This model's maximum context length is {max_model_len} tokens. However, you requested {} tokens ({prompt} in the \
                 prompt, {} for the completion).",
                prompt + ask.max_tokens.unwrap_or(1) as usize,
                ask.max_tokens.unwrap_or(1)
            );
            bad_request(&message, Some("input_tokens"))
        }
    }
}

#[derive(Deserialize)]
struct SglangBody {
    input_ids: Option<Vec<u32>>,
    text: Option<String>,
    #[serde(default)]
    sampling_params: SglangSampling,
    logprob_start_len: Option<i64>,
}

#[derive(Default, Deserialize)]
struct SglangSampling {
    max_new_tokens: Option<u32>,
}

/// SGLang's own endpoint, as far as it scores prompts: greedy, not streamed.
async fn sglang(replica: &Arc<Replica>, request: Request<Incoming>) -> Outcome {
    let body = body_of(request).await?;
    let number = replica.number();
    let asked: SglangBody = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(error) => return Ok(bad_request(&error.to_string(), None)),
    };
    let ids = asked
        .input_ids
        .unwrap_or_else(|| tokens::tokenize(asked.text.as_deref().unwrap_or_default()));
    let start = asked
        .logprob_start_len
        .and_then(|start| usize::try_from(start).ok())
        .unwrap_or(ids.len());
    let echoed = json!({
        "prompt": ids, "max_tokens": asked.sampling_params.max_new_tokens.unwrap_or(128), "temperature": 0, "echo": true,
    });
    let echoed = echoed.to_string();
    let Ok(parsed) = serde_json::from_str::<AskBody<'_>>(&echoed) else {
        return Ok(bad_request("input_ids or text must be there", Some("input_ids")));
    };
    let ask = match parsed.check(Endpoint::Completions, false, number) {
        Ok(ask) => ask,
        Err((message, parameter)) => return Ok(bad_request(&message, Some(parameter))),
    };
    let (_, mut leaving) = enter(replica, &ask);
    let answers = answers(replica, &ask, None);
    let Some((prompt, answer)) = answers.first() else {
        return Ok(bad_request("there is no prompt", Some("input_ids")));
    };
    let mut place = arrival_of(replica, &ask, prompt, answer, None);
    // Only what stands before the first scored token is read from the cache.
    let readable = start / replica.config.engine.block_size as usize;
    place.chain = place.chain[..readable.min(place.chain.len())].into();
    let mut ticket = match replica.submit(vec![place], false) {
        Ok(ticket) => ticket,
        Err(refusal) => return Ok(refused(replica, &ask, refusal)),
    };
    let finished = ticket.finished().await.map_err(|_| Dropped)?;
    let cached = finished.first().map_or(0, |finished| finished.cached);
    leaving.answered();
    let scores = shape::sglang_scores(prompt, answer, start, cached);
    Ok(json_response(StatusCode::OK, scores.to_string().into()))
}

async fn inform(replica: &Arc<Replica>, path: &str, request: Request<Incoming>) -> Outcome {
    let config = &replica.config;
    Ok(match path {
        "/health" => json_response(StatusCode::OK, Bytes::new()),
        "/version" => json_response(
            StatusCode::OK,
            json!({ "version": env!("CARGO_PKG_VERSION") }).to_string().into(),
        ),
        "/v1/models" => {
            let is_other = replica.holds(FaultKind::OtherModel);
            let name = if is_other {
                format!("{}-other", config.model)
            } else {
                config.model.clone()
            };
            let context = config.engine.max_model_len / if replica.holds(FaultKind::SmallerContext) { 4 } else { 1 };
            let model = json!({ "id": name, "object": "model", "created": 0, "owned_by": config.owned_by, "max_model_len": context });
            json_response(
                StatusCode::OK,
                json!({ "object": "list", "data": [model] }).to_string().into(),
            )
        }
        "/metrics" => match metrics::text(config.metrics, &config.model, &replica.load()) {
            Some(text) => response(StatusCode::OK, "text/plain; version=0.0.4", whole(text.into())),
            None => not_found(),
        },
        "/tokenize" => {
            let body = body_of(request).await?;
            let Ok(asked) = serde_json::from_slice::<Tokenize>(&body) else {
                return Ok(bad_request("prompt or messages must be there", Some("prompt")));
            };
            let ids = asked.ids(config.add_begin);
            let answer = json!({ "count": ids.len(), "max_model_len": config.engine.max_model_len, "tokens": ids });
            json_response(StatusCode::OK, answer.to_string().into())
        }
        "/detokenize" => {
            let body: Value = serde_json::from_slice(&body_of(request).await?).unwrap_or_default();
            let ids: Vec<u32> = serde_json::from_value(body["tokens"].clone()).unwrap_or_default();
            json_response(
                StatusCode::OK,
                json!({ "prompt": tokens::text(&ids) }).to_string().into(),
            )
        }
        _ => not_found(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultsBody {
    faults: Vec<Fault>,
}

async fn simulate(all: &[Arc<Replica>], replica: &Arc<Replica>, request: Request<Incoming>) -> Outcome {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let set = |faults: &[Fault]| all.iter().for_each(|replica| replica.set_faults(faults));
    Ok(match (method, path.as_str()) {
        (Method::GET, "/simulate/report") => {
            let config = Arc::clone(&replica.config);
            let snapshot = Snapshot::take(all, &config);
            let report = tokio::task::spawn_blocking(move || snapshot.report(&config)).await;
            let report = report.map(|report| serde_json::to_vec(&report).unwrap_or_default());
            json_response(StatusCode::OK, report.unwrap_or_default().into())
        }
        (Method::POST, "/simulate/reset") => {
            all.iter().for_each(|replica| replica.reset());
            replica.ledger().reset();
            json_response(StatusCode::OK, Bytes::from_static(b"{}"))
        }
        (Method::GET, "/simulate/faults") => {
            let met: Vec<_> = all.iter().map(|replica| replica.faults_met()).collect();
            json_response(StatusCode::OK, json!({ "met": met }).to_string().into())
        }
        (Method::DELETE, "/simulate/faults") => {
            set(&[]);
            json_response(StatusCode::OK, Bytes::from_static(b"{}"))
        }
        (Method::POST, "/simulate/faults") => match serde_json::from_slice::<FaultsBody>(&body_of(request).await?) {
            Ok(body) => match complaint_of(&body.faults, replica.config.replicas) {
                Some(complaint) => bad_request(&complaint.to_string(), Some("faults")),
                None => {
                    set(&body.faults);
                    json_response(StatusCode::OK, Bytes::from_static(b"{}"))
                }
            },
            Err(error) => bad_request(&error.to_string(), Some("faults")),
        },
        _ => not_found(),
    })
}

/// Promises a whole body, sends half of it, and ends the connection.
fn cut_response(full: Bytes) -> Response<Body> {
    let part = full.slice(..full.len() / 2);
    let frames = stream::once(async { Ok(Frame::data(part)) }).chain(stream::once(async {
        tokio::time::sleep(BEFORE_THE_END).await;
        Err(Dropped)
    }));
    let mut cut = response(
        StatusCode::OK,
        "application/json",
        BodyExt::boxed(StreamBody::new(frames)),
    );
    cut.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(full.len()));
    cut
}

fn not_found() -> Response<Body> {
    refuse(404, "NotFoundError", "Not Found", None)
}

fn bad_request(message: &str, param: Option<&str>) -> Response<Body> {
    refuse(400, "BadRequestError", message, param)
}

fn refuse(status: u16, kind: &str, message: &str, param: Option<&str>) -> Response<Body> {
    let body = shape::error(status, kind, message, param);
    json_response(
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        body.into(),
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_patience_is_asked_for_than_is_said() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(784_111_770_400);
        let mut fault = Fault {
            retry_after: Some(Duration::from_secs(7)),
            as_date: true,
            ..Fault::new(FaultKind::Overloaded)
        };
        let said = "Sun, 06 Nov 1994 08:49:37 GMT".to_owned();
        assert_eq!(retry_after(&fault, now), Some((Duration::from_millis(6_600), said)));
        fault.as_date = false;
        assert_eq!(retry_after(&fault, now), Some((Duration::from_secs(7), "7".to_owned())));
    }
}
