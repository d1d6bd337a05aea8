//! Long answers that are interrupted: by a drain, and by the death of their generator.

use tidemill_domain::{Continuation, Manifest};
use tidemill_simulated::answers::Answers;
use tidemill_simulated::model::Limits;
use tidemill_simulated::{Config as Simulation, SimulatedEngine};

use super::*;

const ITEMS: u32 = 6;

/// Tokens of each answer.
const TOKENS: u64 = 150;

/// An engine that takes about a second for an answer.
fn slow_engine() -> SimulatedEngine {
    SimulatedEngine::start(Simulation {
        engine: Limits {
            step: Duration::from_millis(6),
            step_per_sequence: Duration::ZERO,
            first_token: Duration::ZERO,
            ..Limits::default()
        },
        answers: Answers {
            median_tokens: TOKENS as f64,
            spread: 0.0,
            tail_share: 0.0,
            ..Answers::default()
        },
        ..Simulation::default()
    })
    .unwrap()
}

/// Six items with long greedy answers.
async fn long_manifest(bench: &Bench, continuation: Continuation) -> Digest {
    let mut whole = manifest(ITEMS);
    whole.benchmarks.truncate(1);
    whole.benchmarks[0].settings.max_tokens = 4_000;
    whole.benchmarks[0].settings.temperature = 0.0;
    whole.benchmarks[0].settings.stop.clear();
    let digest = bench.context.store.put_whole(whole).await.unwrap();
    let mut manifest: Manifest = (*bench.context.store.manifest(&digest).await.unwrap()).clone();
    manifest.benchmarks[0].continuation = continuation;
    bench.context.store.put_manifest(manifest).await.unwrap()
}

async fn serve(bench: &Bench, engine: &SimulatedEngine) {
    let record = ServerGroup {
        schema: 1,
        group: group(),
        checkpoint: Digest::of(b"weights"),
        replicas: vec![Replica {
            url: format!("{}/v1/", engine.url().trim_end_matches('/')),
            model: engine.model().to_owned(),
            max_in_flight: SLOTS,
            kind: EngineKind::Vllm,
            context_length: None,
            owned_by: None,
        }],
        context_length: None,
        updated: now(),
    };
    let bytes = serde_json::to_vec(&record).unwrap();
    bench.groups().await.put(group().as_str(), bytes.into()).await.unwrap();
}

/// Starts a generator that saves every 20 tokens.
async fn start(bench: &Bench) -> Generator {
    let mut context = context(&bench.broker, bench.folder.path()).await;
    let mut config = (*context.config).clone();
    config.generator.park_every_tokens = 20;
    // Enough to finish what is under way, for what cannot be continued.
    config.service.shutdown_grace = Duration::from_secs(20);
    context.config = Arc::new(config);
    let running = context.clone();
    let task = tokio::spawn(async move { tidemill_generator::run(running).await.unwrap() });
    Generator { context, task }
}

async fn generated(engine: &SimulatedEngine, tokens: u64) {
    let waiting = async {
        while engine.report().generated_tokens < tokens {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap();
}

/// Entries of the bucket.
pub(super) async fn parked(bench: &Bench) -> u64 {
    let bucket = buckets::PARKED.stream();
    let mut stream = bench.context.jetstream().get_stream(bucket).await.unwrap();
    stream.info().await.unwrap().state.messages
}

/// How a generator ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Drained,
    /// Without a word; its group is opened again, as a loader does.
    Killed,
}

/// The answers and what the engine was asked, of a run whose generator ends this way when most is generated.
async fn run(continuation: Continuation, end: Option<End>) -> (Vec<Completion>, tidemill_simulated::server::Report) {
    let bench = Bench::new(ITEMS).await;
    let engine = slow_engine();
    let manifest = long_manifest(&bench, continuation).await;
    let generator = start(&bench).await;
    serve(&bench, &engine).await;
    for item in 0..ITEMS {
        // As after a dispatcher's restart: a consumer made anew does not know what was delivered before.
        bench.release_of(manifest.clone(), key(0, item), true).await;
    }
    let generator = match end {
        None => generator,
        Some(end) => {
            generated(&engine, u64::from(ITEMS) * TOKENS * 6 / 10).await;
            match end {
                End::Drained => generator.drain().await,
                End::Killed => {
                    generator.task.abort();
                    let ended = generator.task.await;
                    assert!(ended.is_err_and(|error| error.is_cancelled()));
                    let consumer = durable::generator(&group(), SLOTS);
                    let ready = bench
                        .context
                        .jetstream()
                        .get_stream(declared::READY.name)
                        .await
                        .unwrap();
                    ready.delete_consumer(&consumer.name).await.unwrap();
                    live::ensure(bench.context.jetstream(), &consumer).await.unwrap();
                }
            }
            start(&bench).await
        }
    };
    let completions = bench.completions(ITEMS as usize).await;
    bench.wait_for_nothing_in_hand().await;
    assert_eq!(parked(&bench).await, 0, "what is recorded is saved no longer");
    generator.drain().await;
    (completions.into_values().collect(), engine.report())
}

fn texts(completions: &[Completion]) -> Vec<&str> {
    completions.iter().map(|completion| completion.text.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_answers_are_continued_from_their_tokens_and_end_like_undisturbed_ones() {
    let exact = Continuation::Exact;
    let ((whole, undisturbed), (drained, by_drain), (killed, by_kill)) = tokio::join!(
        run(exact, None),
        run(exact, Some(End::Drained)),
        run(exact, Some(End::Killed))
    );
    let tokens: u64 = whole.iter().map(|completion| completion.completion_tokens).sum();
    assert_eq!((undisturbed.continued, undisturbed.generated_tokens), (0, tokens));
    for (completions, report) in [(&drained, by_drain), (&killed, by_kill)] {
        assert_eq!(texts(completions), texts(&whole));
        let continued = completions.iter().filter(|one| one.served.continuations > 0).count();
        assert_eq!(continued, ITEMS as usize);
        assert_eq!((report.continued, report.foreign), (u64::from(ITEMS), 0));
        assert_eq!(report.requests, 2 * u64::from(ITEMS));
        // Asked for from the start, the six tenths that there were would have been generated twice.
        let twice = report.generated_tokens - tokens;
        assert!(twice < tokens / 3, "{twice} of {tokens} tokens were generated twice");
        let usage: u64 = completions.iter().map(|completion| completion.completion_tokens).sum();
        assert_eq!(usage, tokens, "each token of an answer counts once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_must_not_be_continued_are_asked_for_anew_or_finished() {
    let never = Continuation::Never;
    let ((killed, by_kill), (drained, by_drain)) =
        tokio::join!(run(never, Some(End::Killed)), run(never, Some(End::Drained)));
    assert_eq!(texts(&killed), texts(&drained));
    assert!(killed.iter().all(|completion| completion.served.continuations == 0));
    assert_eq!((by_kill.continued, by_kill.requests), (0, 2 * u64::from(ITEMS)));
    assert_eq!((by_drain.continued, by_drain.requests), (0, u64::from(ITEMS)));
}
