//! The adapters against an engine that runs: `make test-engines` starts one after the other and runs this on each.
//!
//! `TIDEMILL_ENGINE_URL`, `_MODEL` and `_KIND` say which; `TIDEMILL_ENGINE_EXPECTED` names the reference's answers, for an
//! engine that serves the sample checkpoint.

#![expect(clippy::print_stdout, reason = "what was found is shown beside whether it holds")]

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
        // llama.cpp's server ends a connection after a stream without a word, which shows when it is used again.
        let most = if self.kind == EngineKind::LlamaCpp { 2 } else { 1 };
        assert!(attempt.requests <= most, "nothing was refused: {:?}", attempt.verdict);
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

/// How long the answers are that are cut: llama.cpp serves a whole model on one thread.
const fn cap(kind: EngineKind) -> u32 {
    if matches!(kind, EngineKind::LlamaCpp) { 16 } else { 32 }
}

/// After how many events an answer is cut, one cut after the other. A stop text is looked for after every event where that is
/// cheap, because what matters is where in the stop text the cut falls.
fn cuts(kind: EngineKind, step: usize) -> impl Iterator<Item = usize> {
    let step = if kind == EngineKind::LlamaCpp { 3 } else { step };
    (2..cap(kind) as usize).step_by(step)
}

/// A way to the engine on which an answer ends after so many events, and on which all is kept that the engine is sent.
struct Way {
    engine: OpenAi,
    sent: Arc<Mutex<Vec<u8>>>,
    passing: tokio::task::JoinHandle<()>,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.passing.abort();
    }
}

impl Way {
    async fn open(real: &Real, events: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let upstream = real.engine.url().trim_start_matches("http://").to_owned();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&sent);
        let passing = tokio::spawn(async move {
            // The first connections carry what is asked beside the answer.
            while let Ok((client, _)) = listener.accept().await {
                let server = tokio::net::TcpStream::connect(&upstream).await.unwrap();
                tokio::spawn(pass(client, server, events, Arc::clone(&kept)));
            }
        });
        let client = Client::new(&url, &Options::default()).unwrap();
        Self {
            engine: OpenAi::new(client, real.engine.model(), real.kind),
            sent,
            passing,
        }
    }

    /// The bodies of the requests that were sent, in their order.
    fn bodies(&self) -> Vec<Value> {
        let sent = String::from_utf8(self.sent.lock().unwrap().clone()).unwrap();
        let parts = sent.split("\r\n\r\n").skip(1);
        parts
            .filter_map(|part| serde_json::Deserializer::from_str(part).into_iter().next()?.ok())
            .collect()
    }

    /// Those of them that generate.
    fn generations(&self) -> Vec<Value> {
        let generates = |body: &Value| body.get("prompt").is_some() || body.get("messages").is_some();
        self.bodies().into_iter().filter(generates).collect()
    }
}

/// What had arrived of the answer to a request when its connection ended after so many events; none when it was whole.
async fn beginning(real: &Real, request: &Request<'_>, events: usize) -> Option<Partial> {
    let way = Way::open(real, events).await;
    let mut partial = Partial::default();
    let attempt = way.engine.complete(request, Connection::New, &mut partial).await;
    (!matches!(attempt.verdict, Verdict::Done(_))).then_some(partial)
}

/// Passes a request on, and of the answer the first so many events.
async fn pass(
    mut client: tokio::net::TcpStream,
    mut server: tokio::net::TcpStream,
    events: usize,
    sent: Arc<Mutex<Vec<u8>>>,
) {
    let (mut from_client, mut from_server) = (vec![0; 65_536], vec![0; 65_536]);
    let mut seen = Vec::new();
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => match read {
                Ok(count @ 1..) => {
                    sent.lock().unwrap().extend_from_slice(&from_client[..count]);
                    server.write_all(&from_client[..count]).await.unwrap();
                }
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

/// Continues the answer to `request` after every third event; how often that could be done.
async fn continue_everywhere(real: &Real, request: &Request<'_>) -> usize {
    let mut uncut = Partial::default();
    let whole = real.ask(request, &mut uncut).await;
    let mut count = 0;
    for cut in cuts(real.kind, 3) {
        let Some(mut partial) = beginning(real, request, cut).await else {
            continue;
        };
        assert!(whole.text.starts_with(&partial.text));
        assert_eq!(partial.tokens, uncut.tokens[..partial.tokens.len()]);
        let joined = ask_for_the_rest(real, request, &mut partial).await;
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

/// Asks for the rest of an answer and looks at how that is done: from token ids, which are those of the prompt as the engine
/// told them and of the answer so far, with a cap that counts what is there. Nothing is tokenized or decorated again.
async fn ask_for_the_rest(real: &Real, request: &Request<'_>, partial: &mut Partial) -> Answer {
    let way = Way::open(real, usize::MAX).await;
    let (before, begun) = (
        partial.continuations,
        [&partial.prompt_tokens[..], &partial.tokens[..]].concat(),
    );
    let prompt_tokens = partial.prompt_tokens.len();
    let attempt = way.engine.complete(request, Connection::New, partial).await;
    let Verdict::Done(answer) = attempt.verdict else {
        panic!("{:?}", attempt.verdict)
    };
    let generations = way.generations();
    if partial.continuations > before
        && let Some(body) = generations.last()
    {
        let prompt = ids(&body["prompt"]);
        assert!(begun.starts_with(&prompt) && prompt.len() > prompt_tokens, "{body}");
        let generated = prompt.len() - prompt_tokens;
        assert_eq!(capped(body), u64::from(request.max_tokens) - generated as u64, "{body}");
    }
    answer
}

/// The cap that a request states.
fn capped(body: &Value) -> u64 {
    let cap = body.get("max_tokens").or_else(|| body.get("n_predict"));
    cap.and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("no cap, which leaves it to the engine: {body}"))
}

#[tokio::test]
#[ignore = "needs an engine: make test-engines"]
async fn every_request_states_its_cap_and_neutral_settings_and_the_engine_takes_them() {
    const FEW: u32 = 5;
    let (real, _) = real().await;
    let way = Way::open(&real, usize::MAX).await;
    let chat = Prompt::Chat(vec![tidemill_domain::Message {
        role: "user".to_owned(),
        content: "Hi".to_owned(),
    }]);
    for prompt in [Prompt::Text(PROMPTS[1].to_owned()), chat] {
        for stream in [false, true] {
            let request = Request {
                stream,
                ..greedy(&prompt, FEW, &[])
            };
            let attempt = way
                .engine
                .complete(&request, Connection::New, &mut Partial::default())
                .await;
            let Verdict::Done(answer) = attempt.verdict else {
                panic!("{prompt:?}: {:?}", attempt.verdict)
            };
            assert_eq!(
                (answer.completion_tokens, answer.ending),
                (u64::from(FEW), Ending::Length),
                "{prompt:?} {stream}"
            );
        }
    }
    let bodies = way.generations();
    assert_eq!(bodies.len(), 4, "one request each, and none was refused: {bodies:?}");
    for body in &bodies {
        assert_eq!(capped(body), u64::from(FEW), "{body}");
        // What would otherwise come from the checkpoint's generation_config.json or the server's command line.
        let neutral = match real.kind {
            EngineKind::LlamaCpp => json!({ "repeat_penalty": 1.0, "repeat_last_n": 0, "mirostat": 0,
                "samplers": ["penalties", "temperature", "top_p"] }),
            _ => json!({ "repetition_penalty": 1.0, "top_k": -1, "min_p": 0.0 }),
        };
        let all = json!({ "temperature": 0.0, "top_p": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0 });
        for (name, value) in neutral.as_object().unwrap().iter().chain(all.as_object().unwrap()) {
            assert_eq!(&body[name], value, "{name} of {body}");
        }
    }
}

#[tokio::test]
#[ignore = "needs an engine: make test-engines"]
async fn a_prompt_begins_as_its_tokenizer_has_it_and_with_no_second_start_token() {
    /// Gemma's start token. The sample checkpoint's tokenizer has none.
    const GEMMA_START: u32 = 2;
    let (real, _) = real().await;
    let prompt = Prompt::Text(PROMPTS[1].to_owned());
    let plain = real.ask(&greedy(&prompt, 4, &[]), &mut Partial::default()).await;
    let request = Request {
        stream: true,
        ..greedy(&prompt, 4, &[])
    };
    let mut partial = Partial::default();
    let streamed = real.ask(&request, &mut partial).await;
    println!("prompt {:?}", partial.prompt_tokens);
    // The engine counts as many when it makes the tokens of the text as when it is handed them.
    assert_eq!(plain.prompt_tokens, partial.prompt_tokens.len() as u64);
    assert_eq!(streamed.prompt_tokens, plain.prompt_tokens);
    let starts = partial.prompt_tokens.iter().filter(|id| **id == GEMMA_START).count();
    if real.kind == EngineKind::LlamaCpp {
        assert_eq!((partial.prompt_tokens[0], starts), (GEMMA_START, 1));
    }
}

#[tokio::test]
#[ignore = "needs an engine: make test-engines"]
async fn a_context_that_choices_share_is_computed_again_only_where_the_engine_must() {
    let (real, probed) = real().await;
    if probed.scoring_refusal().await.is_some() {
        return;
    }
    let way = Way::open(&real, usize::MAX).await;
    let context = PROMPTS[1].repeat(8);
    let mut scoring = Scoring::new(&context);
    let before = real.engine.load().await.unwrap();
    let mut tokens = Vec::new();
    for choice in [" of the Work", " License"] {
        let attempt = way.engine.score(&mut scoring, choice, Connection::New).await;
        let Verdict::Done(scored) = attempt.verdict else {
            panic!("{choice:?}: {attempt:?}")
        };
        tokens.push((scored.prompt_tokens, u64::from(scored.choice.tokens)));
    }
    let bodies = way.bodies();
    let after = real.engine.load().await.unwrap();
    println!("{tokens:?}: {before:?} to {after:?}");
    match real.kind {
        EngineKind::Sglang => {
            // One request counts the context, and each choice is asked for from its last token on.
            let starts: Vec<u64> = bodies
                .iter()
                .filter_map(|body| body["logprob_start_len"].as_u64())
                .collect();
            let wanted: Vec<u64> = tokens.iter().map(|(all, choice)| all - choice - 1).collect();
            assert_eq!((starts, bodies.len()), (wanted, 3), "{bodies:?}");
            let hits = after.prefix_hit_tokens.unwrap_or(0) - before.prefix_hit_tokens.unwrap_or(0);
            assert!(hits >= tokens[1].0 - tokens[1].1 - 1, "{hits} of {tokens:?}");
        }
        EngineKind::Vllm => {
            // Its prompt log-probabilities pass the prefix cache by, and its counters too.
            assert_eq!(after.prefix_query_tokens, before.prefix_query_tokens);
            assert_eq!(after.prefix_hit_tokens, before.prefix_hit_tokens);
        }
        _ => {}
    }
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
            ..greedy(prompt, cap(real.kind), &[])
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
            ..greedy(prompt, cap(real.kind), &[])
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
        assert_eq!(streamed.text, whole.text, "{stop:?}");
        // llama.cpp does not say over OpenAI's API which stop text fired: at the cap it looks like the cap.
        assert!(
            streamed.ending == whole.ending || real.kind == EngineKind::LlamaCpp,
            "{stop:?}"
        );
        assert!(
            text.starts_with(&whole.text) && !whole.text.contains(&stop),
            "{stop:?} in {:?}",
            whole.text
        );
        for cut in cuts(real.kind, 1) {
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
        ..greedy(&prompt, cap(real.kind), &[])
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
    println!(
        "{:?} context {:?}",
        probed.capabilities, probed.described.context_length
    );
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

#[tokio::test]
#[ignore = "needs an engine: make test-engines"]
async fn a_text_longer_than_the_context_is_scored_in_windows() {
    let (real, probed) = real().await;
    if !real.engine.capabilities().prompt_logprobs {
        return;
    }
    let context = probed.described.context_length.unwrap();
    // A single token, as a start token is.
    let start = "T";
    let text = " License and the Work".repeat(context as usize / 3);
    let attempt = real
        .engine
        .score(&mut Scoring::of_whole_text(start), &text, Connection::Kept)
        .await;
    let Verdict::Done(scored) = attempt.verdict else {
        panic!("{attempt:?}")
    };
    println!(
        "{} tokens for a context of {context}: {:?}",
        scored.choice.tokens, scored.choice
    );
    assert!(scored.choice.tokens > context);
    assert!(scored.choice.log_probability < 0.0);
    // Of each window one token is read and not scored.
    let (room, told) = match real.kind {
        // The context's tokens are counted first, its scheduler is asked how long an input may be, and of which text the tokens are.
        EngineKind::Sglang => (context - 7, 3),
        _ => (context - 1, 0),
    };
    let windows = (scored.choice.tokens).div_ceil(room - 1);
    assert_eq!(
        attempt.requests,
        1 + 2 + told + windows,
        "refused once, cut into tokens twice, and asked in windows"
    );
    // Each window after the first begins with the last token before it.
    assert_eq!(
        scored.prompt_tokens,
        u64::from(scored.choice.tokens) + u64::from(windows) + reach(&scored, room, windows)
    );
}

/// How many tokens the last window reads again beyond the one before what it scores.
fn reach(scored: &tidemill_inference::Scored, room: u32, windows: u32) -> u64 {
    let scored_last = scored.choice.tokens - (windows - 1) * (room - 1);
    u64::from(room - 1 - scored_last)
}
