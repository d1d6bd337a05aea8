//! Texts longer than the context: a server whose tokens are characters and whose likelihoods depend on the one before alone, so
//! that any windows with a token of context give the sum of the whole.

use tidemill_inference::Described;

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

/// The text of tokens.
fn text_of(tokens: &[u32]) -> String {
    let bytes: Vec<u8> = tokens.iter().map(|token| *token as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A server as vLLM and SGLang are, and what is wrong with it.
#[derive(Clone, Copy)]
struct Fake {
    /// What its tokenizer puts before each text.
    added: &'static str,
    /// What it tells of the tokens of a text.
    told: fn(Vec<u32>) -> Vec<u32>,
    /// What it says beside of their number, more or less.
    count: usize,
    /// What it reads of token ids that it is sent.
    read: fn(Vec<u32>) -> Vec<u32>,
    /// How it shows a token.
    shown: fn(u32) -> String,
    /// The status of `/detokenize`.
    detokenizes: u16,
    /// It reads a part of a text that is too long: vLLM's way the last part, SGLang's the first.
    cuts: bool,
    /// The status of `/server_info`.
    informs: u16,
}

/// Nothing is wrong.
const SOUND: Fake = Fake {
    added: "",
    told: |tokens| tokens,
    count: 0,
    read: |tokens| tokens,
    shown: |token| text_of(&[token]),
    detokenizes: 200,
    cuts: false,
    informs: 200,
};

/// Tokens show as nothing that is known.
const OPAQUE: Fake = Fake {
    shown: |token| format!("t{token}"),
    ..SOUND
};

fn with(status: u16, body: &Value) -> Response {
    (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}

fn serve(fake: Fake) -> impl Fn(&str, &Value) -> Response + Send + Sync + 'static {
    move |path, body| match path {
        "/tokenize" => {
            let text = [fake.added, body["prompt"].as_str().unwrap()].concat();
            let tokens = (fake.told)(tokens(&text));
            ok(&json!({ "tokens": tokens, "count": tokens.len() + fake.count, "max_model_len": CONTEXT }))
        }
        "/detokenize" => {
            assert_eq!(body["skip_special_tokens"], false, "a text may hold special tokens");
            let tokens: Vec<u32> = serde_json::from_value(body["tokens"].clone()).unwrap();
            with(fake.detokenizes, &json!({ "prompt": text_of(&tokens) }))
        }
        "/generate" => fake.native(body),
        "/server_info" => with(
            fake.informs,
            &json!({ "max_req_input_len": INPUT_BELOW, "context_length": CONTEXT, "allow_auto_truncate": fake.cuts }),
        ),
        _ => fake.echo(body),
    }
}

fn too_long(length: usize) -> Response {
    let message =
        format!("This model's maximum context length is {CONTEXT} tokens. However, you requested {length} tokens.");
    let body =
        json!({ "error": { "message": message, "type": "BadRequestError", "param": "input_tokens", "code": 400 } });
    with(400, &body)
}

impl Fake {
    /// What it reads of a prompt.
    fn asked(&self, prompt: &Value) -> Vec<u32> {
        match prompt.as_str() {
            Some(text) => tokens(&[self.added, text].concat()),
            None => (self.read)(serde_json::from_value(prompt.clone()).unwrap()),
        }
    }

    fn echo(&self, body: &Value) -> Response {
        let mut asked = self.asked(&body["prompt"]);
        if self.cuts && asked.len() > CONTEXT {
            asked.drain(..asked.len() - CONTEXT + 1);
        }
        if asked.len() > CONTEXT {
            return too_long(asked.len());
        }
        let best: Vec<Value> = logprobs(&asked).iter().map(|logprob| json!({ "x": logprob })).collect();
        let texts: Vec<String> = asked.iter().map(|token| (self.shown)(*token)).collect();
        ok(&json!({
            "choices": [{ "text": text_of(&asked), "finish_reason": "length", "logprobs": {
                "tokens": texts, "token_logprobs": logprobs(&asked), "top_logprobs": best, "text_offset": [],
            } }],
            "usage": { "prompt_tokens": asked.len(), "completion_tokens": 0 },
        }))
    }

    /// SGLang's own endpoint.
    fn native(&self, body: &Value) -> Response {
        let mut asked = self.asked(body.get("input_ids").unwrap_or(&body["text"]));
        if self.cuts {
            asked.truncate(INPUT_BELOW);
        } else if asked.len() > CONTEXT {
            return too_long(asked.len());
        } else if asked.len() >= INPUT_BELOW {
            let message = format!(
                "Input length ({} tokens) exceeds the maximum allowed length ({INPUT_BELOW} tokens). Use a shorter input or \
                 enable --allow-auto-truncate.",
                asked.len()
            );
            return with(400, &json!({ "error": { "message": message } }));
        }
        let start = body["logprob_start_len"].as_u64().unwrap() as usize;
        let mut entries: Vec<Value> = logprobs(&asked)
            .iter()
            .skip(start)
            .map(|logprob| json!([logprob, 1, null]))
            .collect();
        let top: Vec<Value> = entries.iter().map(|entry| json!([entry])).collect();
        if let Some(first) = entries.first_mut() {
            *first = json!([null, 1, null]);
        }
        ok(&json!({ "text": "", "meta_info": {
            "prompt_tokens": asked.len(), "input_token_logprobs": entries, "input_top_logprobs": top,
        } }))
    }
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
        (EngineKind::Sglang, "^", ""),
    ] {
        let server = Server::start(serve(Fake { added, ..SOUND })).await;
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
        let server = Server::start(serve(SOUND)).await;
        let verdict = verdict(&of_kind(&server, kind), context, TEXT).await;
        assert_eq!(verdict.label(), "overflow", "{kind:?} {context:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_tokens_has_the_text_stay_too_long() {
    let server = Server::start(|path, body| match path {
        "/tokenize" => (StatusCode::NOT_FOUND, "{}").into_response(),
        _ => SOUND.echo(body),
    })
    .await;
    let verdict = verdict(&of_kind(&server, EngineKind::Vllm), "^", TEXT).await;
    assert_eq!(verdict.label(), "overflow");
}

#[tokio::test]
async fn an_answer_to_a_question_is_never_cut_however_short_the_question() {
    let server = Server::start(serve(SOUND)).await;
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
                serve(SOUND)(path, body)
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
        serve(SOUND)(path, body)
    })
    .await;
    let verdict = verdict(&of_kind(&server, EngineKind::Vllm), "^", TEXT).await;
    assert_eq!(verdict.label(), "retry");
}

/// The sum of a whole text after its start token.
fn sum(text: &str) -> f64 {
    logprobs(&tokens(&format!("^{text}"))).iter().flatten().sum()
}

#[tokio::test]
async fn windows_of_anything_but_the_text_are_no_score() {
    let faults = [
        (
            "only the start token",
            Fake {
                told: |tokens| tokens[..1].to_vec(),
                ..SOUND
            },
        ),
        (
            "cut at the context",
            Fake {
                told: |tokens| tokens.into_iter().take(CONTEXT).collect(),
                ..SOUND
            },
        ),
        (
            "the last one missing",
            Fake {
                told: without_last,
                ..SOUND
            },
        ),
        (
            "some of the middle left out",
            Fake {
                told: without_middle,
                ..SOUND
            },
        ),
        (
            "white space dropped",
            Fake {
                told: |tokens| tokens.into_iter().filter(|token| *token != 32).collect(),
                ..SOUND
            },
        ),
        (
            "half of what shows as parts of characters",
            Fake {
                told: |tokens| tokens[..tokens.len().div_ceil(2)].to_vec(),
                shown: |token| {
                    if token == 94 {
                        "^".to_owned()
                    } else {
                        "\u{fffd}".to_owned()
                    }
                },
                ..SOUND
            },
        ),
        ("a count that differs", Fake { count: 1, ..SOUND }),
        (
            "one more in front of ids",
            Fake {
                read: |tokens| [vec![94], tokens].concat(),
                ..SOUND
            },
        ),
        (
            "the first id dropped",
            Fake {
                read: |tokens| tokens[1..].to_vec(),
                ..SOUND
            },
        ),
        (
            "ids cut",
            Fake {
                read: |tokens| tokens[tokens.len().saturating_sub(6)..].to_vec(),
                ..SOUND
            },
        ),
    ];
    for kind in [EngineKind::Vllm, EngineKind::Sglang] {
        for (what, fault) in faults {
            for fault in [
                fault,
                Fake {
                    shown: OPAQUE.shown,
                    ..fault
                },
            ] {
                let server = Server::start(serve(fault)).await;
                let verdict = verdict(&of_kind(&server, kind), "^", TEXT).await;
                // A full window and one more are too long where nothing is kept for the answer.
                let is_refused = kind == EngineKind::Sglang && what == "one more in front of ids";
                let expected = if is_refused { "overflow" } else { "retry" };
                assert_eq!(verdict.label(), expected, "{kind:?}, {what}: {verdict:?}");
            }
        }
    }
}

/// Of a whole text; the start token is a text of its own.
fn without_last(mut tokens: Vec<u32>) -> Vec<u32> {
    if tokens.len() > 1 {
        tokens.pop();
    }
    tokens
}

fn without_middle(mut tokens: Vec<u32>) -> Vec<u32> {
    if tokens.len() > 1 {
        tokens.drain(5..15);
    }
    tokens
}

#[tokio::test]
async fn the_text_of_the_tokens_is_asked_for_where_it_does_not_show() {
    for (kind, fake, text, label, asked) in [
        (EngineKind::Vllm, SOUND, TEXT, "done", 0),
        // Characters that are cut over two tokens.
        (EngineKind::Vllm, SOUND, "the tide comes in über die Mühle", "done", 1),
        (EngineKind::Vllm, OPAQUE, TEXT, "done", 1),
        (EngineKind::Sglang, SOUND, TEXT, "done", 1),
        (
            EngineKind::Vllm,
            Fake {
                detokenizes: 404,
                ..OPAQUE
            },
            TEXT,
            "overflow",
            1,
        ),
        (
            EngineKind::Sglang,
            Fake {
                detokenizes: 404,
                ..SOUND
            },
            TEXT,
            "overflow",
            1,
        ),
        (
            EngineKind::Vllm,
            Fake {
                detokenizes: 503,
                ..OPAQUE
            },
            TEXT,
            "busy",
            1,
        ),
    ] {
        let server = Server::start(serve(fake)).await;
        let attempt = of_kind(&server, kind)
            .score(&mut Scoring::of_whole_text("^"), text, Connection::Kept)
            .await;
        assert_eq!(attempt.verdict.label(), label, "{kind:?} {text}: {attempt:?}");
        let paths = server.paths();
        let found = paths.iter().filter(|path| *path == "/detokenize").count();
        assert_eq!(
            (found, attempt.requests as usize),
            (asked, paths.len()),
            "{kind:?} {text}"
        );
        if let Verdict::Done(scored) = attempt.verdict {
            assert!(
                (scored.choice.log_probability - sum(text)).abs() < 1e-9,
                "{kind:?} {text}"
            );
        }
    }
}

#[tokio::test]
async fn a_prompt_that_a_server_cuts_silently_is_too_long() {
    let cuts = Fake { cuts: true, ..SOUND };
    for (kind, fake) in [
        (EngineKind::Vllm, cuts),
        (EngineKind::OpenAi, cuts),
        (EngineKind::Sglang, cuts),
        // What its scheduler takes is not told: its context is known.
        (EngineKind::Sglang, Fake { informs: 404, ..cuts }),
    ] {
        for (context, choice) in [("the", " tide comes in"), ("the tide in", " and out")] {
            let server = Server::start(serve(fake)).await;
            let engine = of_kind(&server, kind).described(Described {
                context_length: Some(CONTEXT as u32),
                owned_by: None,
            });
            let attempt = engine.score(&mut Scoring::new(context), choice, Connection::Kept).await;
            assert_eq!(attempt.verdict.label(), "overflow", "{kind:?} {context:?}: {attempt:?}");
            assert_eq!(attempt.requests as usize, server.paths().len());
        }
    }
    for kind in [EngineKind::Vllm, EngineKind::OpenAi, EngineKind::Sglang] {
        let server = Server::start(serve(cuts)).await;
        let engine = of_kind(&server, kind);
        // As long as the longest that is read as a whole.
        let attempt = engine.score(&mut Scoring::new("the"), " tide ", Connection::Kept).await;
        assert_eq!(attempt.verdict.label(), "done", "{kind:?}: {attempt:?}");
        if kind != EngineKind::OpenAi {
            let Verdict::Done(scored) = verdict(&engine, "^", TEXT).await else {
                panic!("{kind:?}")
            };
            assert!((scored.choice.log_probability - sum(TEXT)).abs() < 1e-9, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn the_start_token_that_sglang_puts_before_a_text_is_counted_once() {
    let server = Server::start(serve(Fake { added: "^", ..SOUND })).await;
    let engine = of_kind(&server, EngineKind::Sglang);
    for text in ["the tide", "comes in"] {
        let Verdict::Done(scored) = verdict(&engine, "", text).await else {
            panic!("{text}")
        };
        assert!((scored.choice.log_probability - sum(text)).abs() < 1e-9, "{text}");
        assert_eq!(scored.choice.tokens as usize, text.len());
    }
    assert_eq!(server.paths(), ["/tokenize", "/generate", "/server_info", "/generate"]);

    for (status, label) in [(200, "rejected"), (404, "rejected"), (503, "busy")] {
        let server = Server::start(move |path, body| match path {
            "/tokenize" if status != 200 => with(status, &json!({})),
            _ => serve(SOUND)(path, body),
        })
        .await;
        let verdict = verdict(&of_kind(&server, EngineKind::Sglang), "", "the tide").await;
        assert_eq!(verdict.label(), label, "{status}: {verdict:?}");
    }
}

/// An SGLang that answers what it read of a prompt.
fn answering(cuts: bool, prompt_tokens: usize) -> impl Fn(&str, &Value) -> Response + Send + Sync + 'static {
    let told = serve(Fake { cuts, ..SOUND });
    move |path, body| match path {
        "/v1/completions" => ok(&json!({
            "choices": [{ "text": "a mill", "finish_reason": "stop" }],
            "usage": { "prompt_tokens": prompt_tokens, "completion_tokens": 2 },
        })),
        _ => told(path, body),
    }
}

#[tokio::test]
async fn an_answer_to_a_prompt_that_was_cut_is_none() {
    let prompt = Prompt::Text(TEXT.to_owned());
    for (kind, cuts, read, is_answer) in [
        (EngineKind::Sglang, true, INPUT_BELOW, false),
        (EngineKind::Sglang, true, INPUT_BELOW - 1, true),
        (EngineKind::Sglang, false, INPUT_BELOW, true),
        (EngineKind::Vllm, true, INPUT_BELOW, true),
    ] {
        let server = Server::start(answering(cuts, read)).await;
        let engine = of_kind(&server, kind);
        let request = request(&prompt);
        let attempt = engine
            .complete(&request, Connection::Kept, &mut Partial::default())
            .await;
        let said = format!("{kind:?} {cuts} {read}: {:?}", attempt.verdict);
        match attempt.verdict {
            Verdict::Done(answer) => assert!(is_answer && answer.text == "a mill", "{said}"),
            Verdict::Overflow { detail } => assert!(!is_answer && detail.contains("cut the prompt"), "{said}"),
            _ => panic!("{said}"),
        }
    }
}

/// An SGLang for which the tokens of a prompt from `certain` on are certain.
fn sure(certain: usize) -> impl Fn(&str, &Value) -> Response + Send + Sync + 'static {
    move |path, body| {
        if path != "/generate" {
            return serve(SOUND)(path, body);
        }
        let count = body["text"]
            .as_str()
            .map_or_else(|| body["input_ids"].as_array().unwrap().len(), str::len);
        let start = body["logprob_start_len"].as_u64().unwrap() as usize;
        let logprob = |place| if place >= certain { 0.0 } else { -1.5 };
        let mut entries: Vec<Value> = (start..count).map(|place| json!([logprob(place), 1, null])).collect();
        let top: Vec<Value> = entries.iter().map(|entry| json!([entry])).collect();
        entries[0] = json!([null, 1, null]);
        ok(&json!({ "meta_info": {
            "prompt_tokens": count, "input_token_logprobs": entries, "input_top_logprobs": top,
        } }))
    }
}

#[tokio::test]
async fn sglang_may_be_certain_of_a_continuation_but_not_of_everything() {
    for (certain, label) in [(3, "done"), (2, "done"), (1, "retry"), (0, "retry"), (9, "done")] {
        let server = Server::start(sure(certain)).await;
        let engine = of_kind(&server, EngineKind::Sglang);
        let attempt = engine.score(&mut Scoring::new("2+2"), " 4", Connection::Kept).await;
        assert_eq!(attempt.verdict.label(), label, "{certain}: {:?}", attempt.verdict);
        if let (3, Verdict::Done(scored)) = (certain, &attempt.verdict) {
            assert_eq!((scored.choice.log_probability, scored.choice.tokens), (0.0, 2));
            assert!(scored.choice.is_greedy);
        }
    }
}

#[tokio::test]
async fn a_response_that_never_ends_is_not_read_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            tokio::spawn(async move {
                let asked = connection.read(&mut [0; 1 << 12]).await;
                assert!(asked.is_ok_and(|bytes| bytes > 0));
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"choices\":[{\"text\":\"";
                connection.write_all(head.as_bytes()).await.ok();
                while connection.write_all(&[b'x'; 1 << 16]).await.is_ok() {}
            });
        }
    });
    let engine = OpenAi::new(
        Client::new(&url, &Options::default()).unwrap(),
        "tiny",
        EngineKind::Vllm,
    );
    let prompt = Prompt::Text("hello".to_owned());
    let attempt = engine
        .complete(&request(&prompt), Connection::Kept, &mut Partial::default())
        .await;
    let Verdict::Retry { why, .. } = attempt.verdict else {
        panic!("{:?}", attempt.verdict)
    };
    assert!(why.contains("longer than"), "{why}");
}
