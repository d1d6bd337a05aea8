//! Texts longer than the context: a server whose tokens are characters and whose likelihoods depend on the one before alone, so
//! that any windows with a token of context give the sum of the whole.

use super::*;

/// The server's context.
const CONTEXT: usize = 12;
/// What SGLang's scheduler calls the longest input, which must be shorter.
const INPUT_BELOW: usize = 10;
const TEXT: &str = "the tide comes in and the mill turns";

fn tokens(text: &str) -> Vec<u32> {
    // `^` is the start token.
    text.bytes().map(u32::from).collect()
}

/// The log-probability of a token after the one before; the first has none.
fn logprobs(tokens: &[u32]) -> Vec<Option<f64>> {
    let after = tokens
        .windows(2)
        .map(|pair| Some(-f64::from((pair[0] * 31 + pair[1] * 17) % 97 + 1) / 64.0));
    std::iter::once(None).chain(after).collect()
}

fn prompt(body: &Value) -> Vec<u32> {
    match &body["prompt"] {
        Value::String(text) => tokens(text),
        ids => serde_json::from_value(ids.clone()).unwrap(),
    }
}

/// Answers as vLLM does, with what a tokenizer adds before each text.
fn serve(added: &'static str) -> impl Fn(&str, &Value) -> Response + Send + Sync + 'static {
    move |path, body| match path {
        "/tokenize" => {
            let text = [added, body["prompt"].as_str().unwrap()].concat();
            ok(&json!({ "tokens": tokens(&text), "max_model_len": CONTEXT }))
        }
        "/generate" => native(body),
        "/server_info" => ok(&json!({ "max_req_input_len": INPUT_BELOW, "context_length": CONTEXT })),
        _ => echo(added, body),
    }
}

fn too_long(length: usize) -> Response {
    let message =
        format!("This model's maximum context length is {CONTEXT} tokens. However, you requested {length} tokens.");
    let body =
        json!({ "error": { "message": message, "type": "BadRequestError", "param": "input_tokens", "code": 400 } });
    (StatusCode::BAD_REQUEST, body.to_string()).into_response()
}

fn echo(added: &str, body: &Value) -> Response {
    let mut asked = prompt(body);
    if body["prompt"].is_string() {
        asked.splice(..0, tokens(added));
    }
    if asked.len() > CONTEXT {
        return too_long(asked.len());
    }
    let best: Vec<Value> = logprobs(&asked).iter().map(|logprob| json!({ "x": logprob })).collect();
    let texts: Vec<String> = asked.iter().map(|token| format!("t{token}")).collect();
    ok(&json!({
        "choices": [{ "text": "", "finish_reason": "length", "logprobs": {
            "tokens": texts, "token_logprobs": logprobs(&asked), "top_logprobs": best, "text_offset": [],
        } }],
        "usage": { "prompt_tokens": asked.len(), "completion_tokens": 0 },
    }))
}

/// SGLang's own endpoint.
fn native(body: &Value) -> Response {
    let asked = match body.get("input_ids") {
        Some(ids) => serde_json::from_value(ids.clone()).unwrap(),
        None => tokens(body["text"].as_str().unwrap()),
    };
    if asked.len() > CONTEXT {
        return too_long(asked.len());
    }
    if asked.len() >= INPUT_BELOW {
        let message = format!(
            "Input length ({} tokens) exceeds the maximum allowed length ({INPUT_BELOW} tokens). Use a shorter input or enable \
             --allow-auto-truncate.",
            asked.len()
        );
        return (
            StatusCode::BAD_REQUEST,
            json!({ "error": { "message": message } }).to_string(),
        )
            .into_response();
    }
    let start = body["logprob_start_len"].as_u64().unwrap() as usize;
    let mut entries: Vec<Value> = logprobs(&asked)[start..]
        .iter()
        .map(|logprob| json!([logprob, 1, null]))
        .collect();
    let top: Vec<Value> = entries.iter().map(|entry| json!([entry])).collect();
    entries[0] = json!([null, 1, null]);
    ok(&json!({ "text": "", "meta_info": {
        "prompt_tokens": asked.len(), "input_token_logprobs": entries, "input_top_logprobs": top,
    } }))
}

fn of_kind(server: &Server, kind: EngineKind) -> OpenAi {
    OpenAi::new(Client::new(&server.url(), &Options::default()).unwrap(), "tiny", kind)
}

async fn verdict(engine: &OpenAi, context: &str, choice: &str) -> Verdict<tidemill_inference::Scored> {
    engine
        .score(&mut Scoring::of_whole_text(context), choice, Connection::Kept)
        .await
        .verdict
}

#[tokio::test]
async fn a_whole_text_that_is_too_long_is_scored_in_windows() {
    let expected: f64 = logprobs(&tokens(&format!("^{TEXT}"))).iter().flatten().sum();
    for (kind, added, context) in [
        (EngineKind::Vllm, "", "^"),
        (EngineKind::Vllm, "^", ""),
        (EngineKind::Embedded, "", "^"),
        (EngineKind::Sglang, "", "^"),
    ] {
        let server = Server::start(serve(added)).await;
        let Verdict::Done(scored) = verdict(&of_kind(&server, kind), context, TEXT).await else {
            panic!("{kind:?}")
        };
        let sum = scored.choice.log_probability;
        assert!((sum - expected).abs() < 1e-9, "{kind:?}: {sum} for {expected}");
        assert_eq!(scored.choice.tokens as usize, TEXT.len());
        assert!(scored.choice.is_greedy);
        let bodies = server.bodies();
        let sent = bodies.iter().filter_map(|body| {
            body.get("input_ids")
                .or(Some(&body["prompt"]))
                .filter(|ids| ids.is_array())
        });
        let lengths: Vec<usize> = sent.map(|ids| ids.as_array().unwrap().len()).collect();
        let room = if kind == EngineKind::Sglang {
            vec![9; 5]
        } else {
            vec![11; 4]
        };
        assert_eq!(lengths, room, "{kind:?}");
    }
}

#[tokio::test]
async fn what_is_no_whole_text_stays_too_long() {
    for (kind, context) in [
        // More than start tokens.
        (EngineKind::Vllm, "Q: who"),
        // Nothing before the text: the likelihood of its first token is unknown.
        (EngineKind::Vllm, ""),
        // Takes no token ids.
        (EngineKind::OpenAi, "^"),
    ] {
        let server = Server::start(serve("")).await;
        let verdict = verdict(&of_kind(&server, kind), context, TEXT).await;
        assert_eq!(verdict.label(), "overflow", "{kind:?} {context:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_tokens_has_the_text_stay_too_long() {
    let server = Server::start(|path, body| match path {
        "/tokenize" => (StatusCode::NOT_FOUND, "{}").into_response(),
        _ => echo("", body),
    })
    .await;
    let verdict = verdict(&of_kind(&server, EngineKind::Vllm), "^", TEXT).await;
    assert_eq!(verdict.label(), "overflow");
}

#[tokio::test]
async fn an_answer_to_a_question_is_never_cut_however_short_the_question() {
    let server = Server::start(serve("")).await;
    let engine = of_kind(&server, EngineKind::Vllm);
    let attempt = engine.score(&mut Scoring::new("Q"), TEXT, Connection::Kept).await;
    assert_eq!((attempt.verdict.label(), attempt.requests), ("overflow", 1));
}

#[tokio::test]
async fn tokens_that_cannot_be_told_now_are_asked_for_again() {
    for (status, label) in [
        (503, "busy"),
        (429, "busy"),
        (500, "retry"),
        (405, "overflow"),
        (501, "overflow"),
    ] {
        for at in [0, 1] {
            let count = AtomicUsize::new(0);
            let server = Server::start(move |path, body| {
                if path == "/tokenize" && count.fetch_add(1, Ordering::Relaxed) == at {
                    return (StatusCode::from_u16(status).unwrap(), "{}").into_response();
                }
                serve("")(path, body)
            })
            .await;
            let verdict = verdict(&of_kind(&server, EngineKind::Vllm), "^", TEXT).await;
            assert_eq!(verdict.label(), label, "{status} at {at}");
        }
    }
}

#[tokio::test]
async fn a_window_that_fails_makes_no_score() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |path, body| {
        if path == "/v1/completions" && count.fetch_add(1, Ordering::Relaxed) == 2 {
            return (StatusCode::INTERNAL_SERVER_ERROR, "{}").into_response();
        }
        serve("")(path, body)
    })
    .await;
    let verdict = verdict(&of_kind(&server, EngineKind::Vllm), "^", TEXT).await;
    assert_eq!(verdict.label(), "retry");
}
