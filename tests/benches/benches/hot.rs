//! What each item costs, piece by piece: the rules and encodings that run once or more an item.
//!
//! Messages are those of the golden files, so that a new field is measured without a change here.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark may fail this way"
)]

use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tidemill_aggregator::Fold;
use tidemill_codec::{Wire, decode, encode};
use tidemill_domain::{
    ChoiceScore, Completion, Digest, Ending, EngineKind, EvaluationId, Grade, GraderSpec, Item, ItemKey, Manifest,
    Normalise, Normaliser, Outcome, Partial, Prompt, Reasoning, Release, Take, Timestamp,
};
use tidemill_grader::Grader;
use tidemill_inference::{Client, Connection, Engine as _, HttpOutcome, OpenAi, Options, Request, Verdict, classify};
use tidemill_loader::dispatch::Dispatcher;
use tidemill_scoring::{Instructions, Normalisation, Rouge, Schema, Tokenisation};
use tokio::time::Instant;

/// Items that the dispatcher and the fold get at a time.
const ITEMS: u32 = 1_000_000;

/// Slots of the dispatcher's group.
const SLOTS: usize = 256;

/// The newest golden message of a type.
fn golden<T: Wire>(name: &str) -> T {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/codec/tests/golden");
    let bytes = std::fs::read(folder.join(format!("{name}.v{}.bin", T::VERSION))).unwrap();
    decode(&bytes).unwrap()
}

fn id() -> EvaluationId {
    EvaluationId::from_digest(&Digest::of(b"evaluation"))
}

fn key(item: u32) -> ItemKey {
    ItemKey {
        evaluation: id(),
        benchmark: 0,
        item,
        sample: 0,
    }
}

/// One benchmark of so many items, one sample each. Which items these are does not matter to rules.
fn manifest(items: u32) -> Manifest {
    let mut manifest: Manifest = golden("manifest");
    manifest.benchmarks.truncate(1);
    let benchmark = &mut manifest.benchmarks[0];
    (benchmark.items, benchmark.settings.samples, benchmark.spare_samples) = (items, 1, 0);
    (benchmark.clusters, benchmark.blocks, benchmark.outlines) = (None, Vec::new(), Vec::new());
    manifest
}

fn encoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encoding");
    let (release, completion, grade): (Release, Completion, Grade) =
        (golden("release"), golden("completion"), golden("grade"));
    group.bench_function("a release, there and back", |bench| {
        bench.iter(|| decode::<Release>(&encode(black_box(&release)).unwrap()).unwrap());
    });
    group.bench_function("a completion, there and back", |bench| {
        bench.iter(|| decode::<Completion>(&encode(black_box(&completion)).unwrap()).unwrap());
    });
    group.bench_function("a grade, there and back", |bench| {
        bench.iter(|| decode::<Grade>(&encode(black_box(&grade)).unwrap()).unwrap());
    });
}

/// Releases all items of a manifest, each batch completed before the next.
fn release_all(manifest: &Arc<Manifest>, now: Instant) -> u32 {
    let mut dispatcher = Dispatcher::default();
    dispatcher.add(id(), Digest::of(b"manifest"), Arc::clone(manifest), &[], true);
    dispatcher.set_slots(SLOTS);
    let mut released = 0;
    while dispatcher.left() > 0 {
        for release in dispatcher.release(now) {
            dispatcher.complete(&release.key);
            released += 1;
        }
    }
    released
}

fn dispatching(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dispatching");
    let (manifest, now) = (Arc::new(manifest(ITEMS)), Instant::now());
    group.throughput(Throughput::Elements(u64::from(ITEMS))).sample_size(10);
    group.bench_function("a million items released and completed", |bench| {
        bench.iter(|| assert_eq!(release_all(&manifest, now), ITEMS));
    });
}

fn answers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("answers");
    let text = "The answer follows from what was said before, step by step. ".repeat(34);
    let body = serde_body(&text);
    group.throughput(Throughput::Bytes(body.len() as u64));
    let outcome = HttpOutcome::Answered {
        status: 200,
        retry_after: None,
        body: body.into(),
    };
    let prompt = Prompt::Text("Question".to_owned());
    let request = request(&prompt, false);
    group.bench_function("an answer of 2,000 characters classified", |bench| {
        bench.iter(|| classify(black_box(&outcome), &request));
    });
}

fn request(prompt: &Prompt, stream: bool) -> Request<'_> {
    Request {
        prompt,
        max_tokens: 1_024,
        temperature: 0.0,
        top_p: 1.0,
        stop: &[],
        seed: None,
        penalties: Default::default(),
        stream,
        stall_timeout: Duration::from_secs(120),
    }
}

/// Tokens of a streamed answer.
const STREAMED: u64 = 512;

/// Streamed answers, from the socket to the verdict: events found in the bytes, taken apart and put together. A thread stands
/// for the engine and sends bytes that were made before. With many events at once nearly all of the time is the parse; one at a
/// time, as an engine sends them that generates slowly, each costs a read of the socket too.
fn streaming(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("streaming");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let prompt = Prompt::Text("Question".to_owned());
    let request = request(&prompt, true);
    for (name, events_at_once) in [("64 events at once", 64), ("one event at a time", 1)] {
        let (chunks, bytes) = streamed_answer(events_at_once);
        let client = Client::new(&serve(chunks), &Options::default()).unwrap();
        let engine = OpenAi::new(client, "m", EngineKind::Vllm);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("an answer of {STREAMED} tokens, {name}"), |bench| {
            bench.iter(|| {
                let mut partial = Partial::default();
                let attempt = runtime.block_on(engine.complete(&request, Connection::Kept, &mut partial));
                let Verdict::Done(answer) = attempt.verdict else {
                    panic!("{:?}", attempt.verdict)
                };
                assert_eq!(
                    (answer.completion_tokens, partial.tokens.len() as u64),
                    (STREAMED, STREAMED)
                );
            });
        });
    }
    group.finish();
}

/// An answer as vLLM streams it, in chunks of so many events; and how many bytes it is.
fn streamed_answer(events_at_once: usize) -> (Vec<Vec<u8>>, usize) {
    let event = |token: u64| {
        let (prompt, reason) = (
            if token == 0 { "[1,2,3]" } else { "null" },
            if token + 1 == STREAMED { "\"length\"" } else { "null" },
        );
        format!(
            r#"data: {{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{{"index":0,"text":" word","logprobs":null,"finish_reason":{reason},"stop_reason":null,"prompt_token_ids":{prompt},"token_ids":[{token}]}}],"usage":null}}"#
        ) + "\n\n"
    };
    let mut events: Vec<String> = (0..STREAMED).map(event).collect();
    events.push(format!(
        r#"data: {{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[],"usage":{{"prompt_tokens":3,"total_tokens":{},"completion_tokens":{STREAMED}}}}}"#,
        STREAMED + 3
    ) + "\n\n");
    events.push("data: [DONE]\n\n".to_owned());
    let bytes = events.iter().map(String::len).sum();
    let chunk = |events: &[String]| {
        let data = events.concat();
        format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
    };
    let mut chunks: Vec<Vec<u8>> = events.chunks(events_at_once).map(chunk).collect();
    chunks.push(b"0\r\n\r\n".to_vec());
    (chunks, bytes)
}

/// Serves the same streamed answer to every request, each chunk with a write of its own. Its address.
fn serve(chunks: Vec<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // Its client ends it, which may be in the middle of an answer when the benchmark ends.
            drop(answer_all(connection, &chunks));
        }
    });
    url
}

fn answer_all(mut connection: TcpStream, chunks: &[Vec<u8>]) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut requests = BufReader::new(connection.try_clone()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if requests.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        requests.read_exact(&mut vec![0; length])?;
        connection
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
        for chunk in chunks {
            connection.write_all(chunk)?;
        }
    }
}

/// A whole answer as vLLM sends it.
fn serde_body(text: &str) -> String {
    format!(
        r#"{{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{{"index":0,"text":"{text}","logprobs":null,"finish_reason":"stop","stop_reason":null}}],"usage":{{"prompt_tokens":120,"total_tokens":620,"completion_tokens":500,"prompt_tokens_details":{{"cached_tokens":64}}}}}}"#
    )
}

/// An answer of some 2,000 characters that ends so.
fn ending(end: &str) -> String {
    "The answer follows from what was said before, step by step. ".repeat(33) + end
}

/// What one grade costs, per family: reading, comparing, and saying where and why.
fn grading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("grading");
    group.throughput(Throughput::Elements(1));
    let golden: Completion = golden("completion");
    let completion = |text: &str| Completion {
        ending: Ending::Stop,
        text: text.to_owned(),
        completion_tokens: 500,
        truncated: false,
        choices: Vec::new(),
        ..golden.clone()
    };
    let scored = Completion {
        ending: Ending::Scored,
        choices: [-4.0, -3.0, -5.0, -6.0]
            .map(|log_probability| ChoiceScore {
                log_probability,
                tokens: 3,
                is_greedy: false,
            })
            .to_vec(),
        ..completion("")
    };
    let numeric = GraderSpec::Numeric {
        pattern: None,
        tolerance: 0.0,
    };
    let likelihood = GraderSpec::Likelihood {
        normalise: Normalise::None,
    };
    let normalised = GraderSpec::ExactNormalised {
        normalisers: vec![Normaliser::Case, Normaliser::Punctuation, Normaliser::Whitespace],
    };
    let pattern = GraderSpec::Regex {
        pattern: r"#### (\S+)".to_owned(),
        take: Take::Last,
        ignore_case: false,
    };
    let (choice, math) = (GraderSpec::Choice { pattern: None }, GraderSpec::Math { pattern: None });
    let cases = [
        (
            "exact, a word",
            GraderSpec::Exact {
                ignore_case: false,
                ignore_punctuation: false,
            },
            "Paris",
            completion("Paris"),
        ),
        (
            "exact, 2,000 characters normalised",
            normalised,
            "Paris",
            completion(&ending("Paris")),
        ),
        ("regex", pattern, "42", completion(&ending("#### 42"))),
        (
            "numeric, right",
            numeric.clone(),
            "9500",
            completion(&ending("It is $9{,}500.")),
        ),
        (
            "numeric, wrong",
            numeric,
            "9501",
            completion(&ending("It is $9{,}500.")),
        ),
        (
            "choice",
            choice,
            "B",
            completion(&ending("Answer: A. No, the answer is (B).")),
        ),
        (
            "math, a fraction",
            math.clone(),
            r"\frac{1}{2}",
            completion(&ending(r"So $\boxed{\frac{2}{4}}$.")),
        ),
        (
            "math, a root",
            math.clone(),
            r"\frac{\sqrt{2}}{2}",
            completion(&ending(r"So $\boxed{\frac{1}{\sqrt{2}}}$.")),
        ),
        (
            "math, a polynomial",
            math.clone(),
            "(x+1)^3",
            completion(&ending(r"So $\boxed{x^3+3x^2+3x+1}$.")),
        ),
        (
            "math, by value",
            math,
            r"2\sin x\cos x",
            completion(&ending(r"So $\boxed{\sin 2x}$.")),
        ),
        ("likelihood, four choices", likelihood, "", scored),
    ];
    for (name, spec, target, completion) in cases {
        let grader = Grader::new(&spec, &Reasoning::default());
        let item = Item {
            id: "1".to_owned(),
            prompt: Prompt::Text("?".to_owned()),
            targets: vec![target.to_owned()],
            choices: ["one", "two", "three", "four"].map(str::to_owned).to_vec(),
            correct_choice: matches!(spec, GraderSpec::Likelihood { .. } | GraderSpec::Choice { .. }).then_some(1),
            cluster: None,
            subset: None,
            weight: 1.0,
            material: Vec::new(),
        };
        let right = name != "numeric, wrong" && !name.starts_with("exact, 2,000");
        let grade = grader.grade(&item, &completion, Timestamp(1));
        assert_eq!(grade.outcome == Outcome::Correct, right, "{name}: {grade:?}");
        group.bench_function(name, |bench| {
            bench.iter(|| grader.grade(black_box(&item), black_box(&completion), Timestamp(1)));
        });
    }
    group.finish();
}

fn folding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("folding");
    let manifest = manifest(ITEMS);
    let grade: Grade = golden("grade");
    let grades = |item| Grade {
        key: key(item),
        outcome: if item % 3 == 0 {
            Outcome::Incorrect
        } else {
            Outcome::Correct
        },
        ..grade.clone()
    };
    let some: Vec<Grade> = (0..10_000).map(grades).collect();
    group.throughput(Throughput::Elements(some.len() as u64));
    group.bench_function("ten thousand grades of a million items", |bench| {
        bench.iter_batched_ref(
            || Fold::new(&manifest, Vec::new()),
            |fold| some.iter().filter(|grade| fold.apply(grade)).count(),
            BatchSize::LargeInput,
        );
    });
    let mut fold = Fold::new(&manifest, Vec::new());
    assert!(some.iter().all(|grade| fold.apply(grade)), "each of another item");
    group.bench_function("the result of ten thousand grades", |bench| {
        bench.iter(|| fold.results())
    });
}

/// Scores of an answer of about 2,000 characters, and what each instruction of IFEval's costs.
fn scoring(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scoring");
    let target = "The harbour master wrote that the tide had turned at half past five. Nobody on board disagreed! ";
    let target = target.repeat(2);
    let text =
        "It follows that the tide had turned when the harbour master wrote. Mr. Lee, on board, agreed. ".repeat(21);
    let targets = [target.as_str()];
    group.throughput(Throughput::Elements(1));
    group.bench_function("f1", |bench| {
        bench.iter(|| tidemill_scoring::token_match(black_box(&text), &targets, Normalisation::Squad));
    });
    for stem in [false, true] {
        let name = if stem { "rouge with stems" } else { "rouge" };
        group.bench_function(name, |bench| {
            bench.iter(|| Rouge { stem }.score(black_box(&text), &targets).unwrap());
        });
    }
    group.bench_function("bleu", |bench| {
        bench.iter(|| tidemill_scoring::bleu_counts(black_box(&text), &targets, Tokenisation::V13a).unwrap());
    });
    group.bench_function("chrf++", |bench| {
        bench.iter(|| tidemill_scoring::chrf_counts(black_box(&text), &targets, true).unwrap());
    });
    let schema = Schema::try_new(&serde_json::json!({"type": "object", "required": ["answer"]})).unwrap();
    let json = format!("{text}\n```json\n{{\"answer\": [1, 2, 3], \"why\": {text:?}}}\n```");
    group.bench_function("json_schema", |bench| {
        bench.iter(|| schema.faults(&tidemill_scoring::find_json(black_box(&json)).unwrap().value));
    });
    for (id, arguments) in [
        (
            "length_constraints:number_sentences",
            r#"{"relation": "at least", "num_sentences": 9}"#,
        ),
        (
            "change_case:capital_word_frequency",
            r#"{"capital_relation": "at least", "capital_frequency": 9}"#,
        ),
        ("language:response_language", r#"{"language": "de"}"#),
        ("keywords:forbidden_words", r#"{"forbidden_words": ["storm", "rain"]}"#),
    ] {
        let checks = Instructions::from_json(&format!("[{id:?}]"), &format!("[{arguments}]")).unwrap();
        group.bench_function(id, |bench| bench.iter(|| checks.check(black_box(&text)).unwrap()));
    }
}

criterion_group!(
    hot,
    encoding,
    dispatching,
    answers,
    streaming,
    grading,
    folding,
    scoring
);
criterion_main!(hot);
