//! The adapters against an engine that runs: `make test-engines` starts one after the other and runs this on each.
//!
//! `TIDEMILL_ENGINE_URL`, `_MODEL` and `_KIND` say which; `TIDEMILL_ENGINE_EXPECTED` names the reference's answers, for an
//! engine that serves the sample checkpoint.

use tidemill_inference::{Answer, Load, Probed};

use super::*;

/// What is known of the engine.
struct Real {
    engine: OpenAi,
    kind: EngineKind,
    expected: Option<Value>,
}

fn variable(name: &str) -> String {
    let name = format!("TIDEMILL_ENGINE_{name}");
    std::env::var(&name).unwrap_or_else(|_| panic!("{name} is not set: run `make test-engines`"))
}

async fn real() -> (Real, Probed) {
    let (url, model) = (variable("URL"), variable("MODEL"));
    let probed = probe(&url, &model, None).await.unwrap();
    let kind = probed.capabilities.kind;
    assert_eq!(kind.label(), variable("KIND"), "the kind is found");
    let expected = std::env::var("TIDEMILL_ENGINE_EXPECTED").ok();
    let expected = expected.map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap());
    let engine = OpenAi::new(Client::new(&url, &Options::default()).unwrap(), &model, kind);
    (Real { engine, kind, expected }, probed)
}

const PROMPTS: [&str; 3] = [
    "The License",
    "You may reproduce and distribute copies of the Work",
    "Copyright",
];

impl Real {
    async fn ask(&self, request: &Request<'_>, partial: &mut Partial) -> Answer {
        let attempt = self.engine.complete(request, Connection::Kept, partial).await;
        assert_eq!(attempt.requests, 1, "nothing was refused: {:?}", attempt.verdict);
        match attempt.verdict {
            Verdict::Done(answer) => answer,
            other => panic!("{other:?}"),
        }
    }
}

fn greedy<'a>(prompt: &'a Prompt, max_tokens: u32, stop: &'a [String]) -> Request<'a> {
    Request {
        prompt,
        max_tokens,
        stop,
        ..request(prompt)
    }
}

fn ids(value: &Value) -> Vec<u32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

#[tokio::test]
#[ignore = "needs an engine: make test-engines"]
async fn answers_are_those_of_the_reference_streamed_and_not() {
    let (real, _) = real().await;
    let cases = real
        .expected
        .as_ref()
        .map(|expected| expected["cases"].as_array().unwrap().clone());
    for (index, text) in PROMPTS.into_iter().enumerate() {
        let prompt = Prompt::Text(text.to_owned());
        let plain = real.ask(&greedy(&prompt, 8, &[]), &mut Partial::default()).await;
        let mut partial = Partial::default();
        let request = Request {
            stream: true,
            ..greedy(&prompt, 8, &[])
        };
        let streamed = real.ask(&request, &mut partial).await;
        println!("{text:?} -> {:?}", plain.text);
        assert_eq!((&streamed.text, streamed.ending), (&plain.text, plain.ending));
        assert_eq!(
            (streamed.prompt_tokens, streamed.completion_tokens),
            (plain.prompt_tokens, 8)
        );
        assert!(streamed.first_token_after.is_some());
        if let Some(cases) = &cases {
            // Of a character that is not whole at the end, some show a mark and some nothing.
            let expected = cases[index]["greedy_text"].as_str().unwrap();
            let unmarked = |text: &str| text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned();
            assert_eq!(unmarked(&plain.text), unmarked(expected));
            assert_eq!(partial.tokens, ids(&cases[index]["greedy_token_ids"]));
            assert_eq!(partial.prompt_tokens, ids(&cases[index]["prompt_token_ids"]));
        }
    }
}

#[tokio::test]
#[ignore = "needs an engine: make test-engines"]
async fn likelihoods_are_those_of_the_reference_or_refused() {
    let (real, probed) = real().await;
    if !real.engine.capabilities().prompt_logprobs {
        let attempt = real
            .engine
            .score(&mut Scoring::new("The sky is"), " blue", Connection::Kept)
            .await;
        assert_eq!(attempt.verdict.label(), "unsupported");
        assert!(probed.scoring_refusal().await.is_some());
        return;
    }
    assert_eq!(probed.scoring_refusal().await, None);
    let expected = real.expected.as_ref().unwrap();
    let tolerance = expected["tolerance"].as_f64().unwrap();
    for (case, context, choice, tokens) in [
        (0, "The", " License", 1),
        (1, "You may reproduce and distribute copies", " of the Work", 3),
        (1, "You may reproduce and", " distribute copies of the Work", 11),
        (2, "Copy", "right", 3),
    ] {
        let attempt = real
            .engine
            .score(&mut Scoring::new(context), choice, Connection::Kept)
            .await;
        let Verdict::Done(scored) = attempt.verdict else {
            panic!("{context:?} {choice:?}: {attempt:?}")
        };
        let logprobs = expected["cases"][case]["prompt_logprobs"].as_array().unwrap();
        let sum: f64 = logprobs[logprobs.len() - tokens..]
            .iter()
            .map(|logprob| logprob.as_f64().unwrap())
            .sum();
        println!("{context:?} {choice:?}: {} of {sum}", scored.choice.log_probability);
        assert_eq!(scored.choice.tokens as usize, tokens, "{context:?} {choice:?}");
        assert!((scored.choice.log_probability - sum).abs() < tolerance * tokens as f64);
    }
    let attempt = real
        .engine
        .score(&mut Scoring::new(""), "Copyright", Connection::Kept)
        .await;
    assert_eq!(
        attempt.verdict.label(),
        "rejected",
        "this tokenizer has no start token: {:?}",
        attempt.verdict
    );
}

/// The prompts whose answers the engine tells token by token.
fn continued(kind: EngineKind) -> Vec<Prompt> {
    let mut prompts: Vec<Prompt> = PROMPTS.map(|text| Prompt::Text(text.to_owned())).into();
    if matches!(kind, EngineKind::Vllm | EngineKind::Embedded) {
        prompts.push(Prompt::Chat(vec![tidemill_domain::Message {
            role: "user".to_owned(),
            content: "Hi".to_owned(),
        }]));
    }
    prompts
}

const CAP: u32 = 32;

/// What had arrived of the answer to a request when its connection ended after so many events; none when it was whole.
async fn beginning(real: &Real, request: &Request<'_>, events: usize) -> Option<Partial> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let upstream = real.engine.url().trim_start_matches("http://").to_owned();
    let passing = tokio::spawn(async move {
        // The first connections carry what is asked beside the answer.
        while let Ok((client, _)) = listener.accept().await {
            let server = tokio::net::TcpStream::connect(&upstream).await.unwrap();
            tokio::spawn(pass(client, server, events));
        }
    });
    let client = Client::new(&url, &Options::default()).unwrap();
    let engine = OpenAi::new(client, real.engine.model(), real.kind);
    let mut partial = Partial::default();
    let attempt = engine.complete(request, Connection::New, &mut partial).await;
    passing.abort();
    (!matches!(attempt.verdict, Verdict::Done(_))).then_some(partial)
}

/// Passes a request on, and of the answer the first so many events.
async fn pass(mut client: tokio::net::TcpStream, mut server: tokio::net::TcpStream, events: usize) {
    let (mut from_client, mut from_server) = (vec![0; 65_536], vec![0; 65_536]);
    let mut seen = Vec::new();
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => match read {
                Ok(1..) => server.write_all(&from_client[..read.unwrap_or(0)]).await.unwrap(),
                _ => return,
            },
            read = server.read(&mut from_server) => {
                let Ok(count @ 1..) = read else { return };
                let before = seen.len();
                seen.extend_from_slice(&from_server[..count]);
                let text = String::from_utf8_lossy(&seen);
                let ends: Vec<usize> = text.match_indices("data: ").map(|(at, _)| at).collect();
                // Lossy decoding moves nothing: what is streamed is JSON in UTF-8, and chunks end between characters.
                let Some(end) = ends.get(events) else {
                    client.write_all(&seen[before..]).await.unwrap();
                    continue;
                };
                if *end > before {
                    client.write_all(&seen[before..*end]).await.unwrap();
                }
                return;
            }
        }
    }
}

/// Continues the answer to `request` from every fourth token on; how often that could be done.
async fn continue_everywhere(real: &Real, request: &Request<'_>) -> usize {
    let mut uncut = Partial::default();
    let whole = real.ask(request, &mut uncut).await;
    let mut count = 0;
    for cut in (2..CAP as usize).step_by(3) {
        let Some(mut partial) = beginning(real, request, cut).await else {
            continue;
        };
        assert!(whole.text.starts_with(&partial.text));
        assert_eq!(partial.tokens, uncut.tokens[..partial.tokens.len()]);
        let joined = real.ask(request, &mut partial).await;
        assert_eq!(
            (&joined.text, joined.ending),
            (&whole.text, whole.ending),
            "cut after {cut} tokens"
        );
        assert_eq!(joined.stop_reason, whole.stop_reason, "cut after {cut} tokens");
        assert_eq!(joined.prompt_tokens, whole.prompt_tokens);
        if joined.stop_reason.is_none() {
            assert_eq!(partial.tokens, uncut.tokens, "cut after {cut} tokens");
        }
        count += partial.continuations as usize;
    }
    count
}

#[tokio::test]
#[ignore = "needs an engine: make test-engines"]
async fn a_cut_answer_is_continued_as_if_it_were_not_cut() {
    let (real, _) = real().await;
    assert!(real.engine.capabilities().continues);
    let mut count = 0;
    for prompt in &continued(real.kind) {
        let request = Request {
            stream: true,
            ..greedy(prompt, CAP, &[])
        };
        count += continue_everywhere(&real, &request).await;
    }
    println!("continued {count} times");
    assert!(count >= 6, "{count}");
}

#[tokio::test]
#[ignore = "needs an engine: make test-engines"]
async fn a_stop_text_ends_a_continued_answer_wherever_it_was_cut() {
    let (real, _) = real().await;
    let mut count = 0;
    for prompt in &continued(real.kind) {
        let free = Request {
            stream: true,
            ..greedy(prompt, CAP, &[])
        };
        let text = real.ask(&free, &mut Partial::default()).await.text;
        // A text of six characters near the end, which lies over the border of some tokens.
        let characters: Vec<char> = text.chars().collect();
        let window = (4..characters.len().saturating_sub(8)).rev().find_map(|at| {
            let stop = characters.get(at..at + 6)?;
            stop.iter().all(char::is_ascii).then(|| stop.iter().collect::<String>())
        });
        let Some(stop) = window else { continue };
        let stops = ["never to be seen".to_owned(), stop.clone()];
        let request = Request { stop: &stops, ..free };
        let plain = Request {
            stream: false,
            ..request
        };
        let whole = real.ask(&plain, &mut Partial::default()).await;
        let streamed = real.ask(&request, &mut Partial::default()).await;
        assert_eq!(
            (&streamed.text, streamed.ending),
            (&whole.text, whole.ending),
            "{stop:?}"
        );
        assert!(
            text.starts_with(&whole.text) && !whole.text.contains(&stop),
            "{stop:?} in {:?}",
            whole.text
        );
        for cut in 2..CAP as usize {
            let Some(mut partial) = beginning(&real, &request, cut).await else {
                continue;
            };
            let joined = real.ask(&request, &mut partial).await;
            assert_eq!(joined.text, whole.text, "stop at {stop:?}, cut after {cut} events");
            assert_eq!(joined.stop_reason, streamed.stop_reason);
            count += partial.continuations;
        }
    }
    println!("continued {count} times");
    assert!(count > 0);
}

#[tokio::test]
#[ignore = "needs an engine: make test-engines"]
async fn a_frequency_penalty_goes_on_where_it_was() {
    let (real, _) = real().await;
    let prompt = Prompt::Text(PROMPTS[1].to_owned());
    let request = Request {
        stream: true,
        penalties: Penalties {
            frequency: 1.5,
            ..Penalties::default()
        },
        ..greedy(&prompt, CAP, &[])
    };
    let free = Request {
        penalties: Penalties::default(),
        ..request
    };
    if matches!(real.kind, EngineKind::Embedded | EngineKind::LlamaCpp) {
        let attempt = real
            .engine
            .complete(&request, Connection::Kept, &mut Partial::default())
            .await;
        assert_eq!(attempt.verdict.label(), "unsupported");
        return;
    }
    let (mut without, mut with) = (Partial::default(), Partial::default());
    real.ask(&free, &mut without).await;
    real.ask(&request, &mut with).await;
    println!("without: {:?}\nwith:    {:?}", without.text, with.text);
    assert!(continue_everywhere(&real, &request).await > 0);
}

#[tokio::test]
#[ignore = "needs an engine: make test-engines"]
async fn what_the_engine_says_of_itself_is_read() {
    let (real, probed) = real().await;
    println!("{:?} context {:?}", probed.capabilities, probed.context_length);
    let prompt = Prompt::Text(PROMPTS[1].repeat(8));
    let answer = real.ask(&greedy(&prompt, 2, &[]), &mut Partial::default()).await;
    println!("cached of {}: {:?}", answer.prompt_tokens, answer.cached_tokens);
    let load: Load = real.engine.load().await.unwrap();
    println!("{load:?}");
    assert!(load.running.is_some() && load.waiting.is_some());
    let (has_kv, has_preemptions, has_prefixes) = match real.kind {
        EngineKind::Vllm | EngineKind::Embedded | EngineKind::Sglang => (true, true, true),
        _ => (false, false, true),
    };
    assert_eq!(load.kv_use.is_some(), has_kv);
    // SGLang counts retracted requests once there was one.
    assert!(load.preemptions.is_some() == has_preemptions || real.kind == EngineKind::Sglang);
    assert_eq!(load.prefix_query_tokens.is_some(), has_prefixes);
    let long = Prompt::Text(PROMPTS[1].repeat(2000));
    let attempt = real
        .engine
        .complete(&greedy(&long, 2, &[]), Connection::Kept, &mut Partial::default())
        .await;
    assert_eq!(attempt.verdict.label(), "overflow", "{:?}", attempt.verdict);
}
