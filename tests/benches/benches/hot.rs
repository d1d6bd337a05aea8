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
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tidemill_aggregator::Fold;
use tidemill_codec::{Wire, decode, encode};
use tidemill_domain::{Completion, Digest, EvaluationId, Grade, ItemKey, Manifest, Outcome, Prompt, Release};
use tidemill_inference::{HttpOutcome, Request, classify};
use tidemill_loader::dispatch::Dispatcher;
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
    let request = Request {
        prompt: &prompt,
        max_tokens: 1_024,
        temperature: 0.0,
        top_p: 1.0,
        stop: &[],
        seed: None,
        penalties: Default::default(),
        stream: false,
        stall_timeout: Duration::from_secs(120),
    };
    group.bench_function("an answer of 2,000 characters classified", |bench| {
        bench.iter(|| classify(black_box(&outcome), &request));
    });
}

/// A whole answer as vLLM sends it.
fn serde_body(text: &str) -> String {
    format!(
        r#"{{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{{"index":0,"text":"{text}","logprobs":null,"finish_reason":"stop","stop_reason":null}}],"usage":{{"prompt_tokens":120,"total_tokens":620,"completion_tokens":500,"prompt_tokens_details":{{"cached_tokens":64}}}}}}"#
    )
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

criterion_group!(hot, encoding, dispatching, answers, folding);
criterion_main!(hot);
