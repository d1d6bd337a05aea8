//! The generation cache as generators meet it: a real broker, an engine that is counted, entries that are damaged or gone.

#![expect(clippy::unwrap_used, reason = "helpers of a test file, which is nothing but tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_codec::{encode, seal};
use tidemill_config::Config;
use tidemill_domain::{
    Asked, BenchmarkName, Completion, Digest, Ending, EngineKind, EvaluationId, Generation, GenerationKey, GraderSpec,
    GroupId, Item, ItemKey, Prompt, Release, Replica, Reuse, Served, ServerGroup, Settings, SuiteName, SuiteRef, Tier,
    WholeBenchmark, WholeManifest,
};
use tidemill_service::{Context, Follow, Start, connect, now, prepare};
use tidemill_storage::{Address, Store};
use tidemill_streams::{Released, buckets, declared, durable, live, subject};
use tidemill_testkit::engine::Request;
use tidemill_testkit::{Broker, FakeEngine, Reply};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const SLOTS: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(30);

/// A broker, a store, an engine, and generators that take the items of one manifest for several evaluations.
struct Bench {
    broker: Broker,
    folder: tempfile::TempDir,
    context: Context,
    manifest: Digest,
    engine: FakeEngine,
    generator: Option<(Context, JoinHandle<()>)>,
}

fn weights() -> Digest {
    Digest::of(b"weights")
}

fn group() -> GroupId {
    GroupId::from_digest(&weights())
}

fn key(evaluation: &str, item: u32) -> ItemKey {
    ItemKey {
        evaluation: EvaluationId::from_digest(&Digest::of(evaluation.as_bytes())),
        benchmark: 0,
        item,
        sample: 0,
    }
}

fn prompt(item: u32) -> String {
    format!("Question {item}\nAnswer:")
}

fn whole() -> WholeManifest {
    let item = |item: u32| Item {
        id: item.to_string(),
        prompt: Prompt::Text(prompt(item)),
        targets: vec!["1".to_owned()],
        choices: Vec::new(),
        correct_choice: None,
        cluster: None,
        subset: None,
        weight: 1.0,
        material: Vec::new(),
    };
    WholeManifest {
        suite: SuiteRef {
            name: SuiteName::try_new("s").unwrap(),
            version: "1".to_owned(),
            tier: Tier::Canary,
        },
        max_failure_rate: 0.0,
        benchmarks: vec![WholeBenchmark {
            name: BenchmarkName::try_new("b").unwrap(),
            settings: Settings {
                max_tokens: 1_000_000,
                temperature: 0.7,
                top_p: 1.0,
                stop: Vec::new(),
                seed: 5,
                samples: 1,
            },
            grader: GraderSpec::Exact {
                ignore_case: false,
                ignore_punctuation: false,
            },
            items: (0..32).map(item).collect(),
        }],
    }
}

async fn context(broker: &Broker, folder: &std::path::Path) -> Context {
    let mut config = Config::default();
    config.service.shutdown_grace = Duration::from_secs(1);
    let connection = connect(&config, &broker.url(), "test").await.unwrap();
    let store = Store::open(Address::of_folder(folder)).unwrap();
    prepare(&connection, &config, &store, true).await.unwrap();
    Context::new("generator", connection, store, Arc::new(config))
}

impl Bench {
    /// With a generator that serves an engine.
    async fn new(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let broker = Broker::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let context = context(&broker, folder.path()).await;
        let manifest = context.store.put_whole(whole()).await.unwrap();
        live::ensure(context.jetstream(), &durable::generator(&group(), SLOTS))
            .await
            .unwrap();
        let engine = FakeEngine::builder()
            .max_context(2_000_000)
            .respond(script)
            .start()
            .unwrap();
        let mut bench = Self {
            broker,
            folder,
            context,
            manifest,
            engine,
            generator: None,
        };
        bench.serve().await;
        bench.start().await;
        bench
    }

    /// A new generator in this process, in place of one that was dropped.
    async fn start(&mut self) {
        let context = context(&self.broker, self.folder.path()).await;
        let running = context.clone();
        let task = tokio::spawn(async move { tidemill_generator::run(running).await.unwrap() });
        self.generator = Some((context, task));
    }

    async fn drain(&mut self) {
        let (context, task) = self.generator.take().unwrap();
        context.draining.cancel();
        timeout(PATIENCE, task).await.unwrap().unwrap();
    }

    async fn serve(&self) {
        let record = ServerGroup {
            schema: 1,
            group: group(),
            checkpoint: weights(),
            replicas: vec![Replica {
                url: self.engine.url(),
                model: self.engine.model().to_owned(),
                max_in_flight: SLOTS,
                kind: EngineKind::OpenAi,
                context_length: None,
                owned_by: None,
            }],
            context_length: None,
            updated: now(),
        };
        let groups = self
            .context
            .jetstream()
            .get_key_value(buckets::GROUPS.name)
            .await
            .unwrap();
        groups
            .put(group().as_str(), serde_json::to_vec(&record).unwrap().into())
            .await
            .unwrap();
    }

    async fn release(&self, key: ItemKey, reuse: Reuse, again: bool) {
        let release = Release {
            key,
            manifest: self.manifest.clone(),
            again,
            reuse,
            expected_tokens: 0,
            prefix: 0,
        };
        let released = Released {
            group: group(),
            release,
        };
        self.context.publisher.publish(&released, None).await.unwrap();
    }

    /// Releases the first `count` items for an evaluation and waits for their completions.
    async fn run(&self, evaluation: &str, count: u32, reuse: Reuse) -> BTreeMap<u32, Completion> {
        for item in 0..count {
            self.release(key(evaluation, item), reuse, false).await;
        }
        self.completions(evaluation, count).await
    }

    async fn completions(&self, evaluation: &str, count: u32) -> BTreeMap<u32, Completion> {
        let filter = subject::done_of_evaluation(&key(evaluation, 0).evaluation);
        let mut follow = Follow::open(&self.context, declared::DONE, filter, false, Start::Beginning).await;
        let mut completions = BTreeMap::new();
        let reading = async {
            while completions.len() < count as usize {
                let message = follow.next().await;
                let completion: Completion = self.context.store.check_out(&message.payload).await.unwrap();
                completions.insert(completion.key.item, completion);
            }
        };
        timeout(PATIENCE, reading).await.unwrap();
        completions
    }

    async fn generation(&self, item: u32) -> GenerationKey {
        let manifest = self.context.store.manifest(&self.manifest).await.unwrap();
        let item = self
            .context
            .store
            .item(&manifest, &key("", item))
            .await
            .unwrap()
            .unwrap();
        Asked::of(&weights(), &manifest.benchmarks[0], &item, 0).key()
    }

    async fn cache(&self) -> async_nats::jetstream::stream::Stream {
        self.context.jetstream().get_stream(declared::CACHE.name).await.unwrap()
    }

    async fn entries(&self) -> u64 {
        self.cache().await.cached_info().state.messages
    }

    /// Writes an item's entry as somebody else would.
    async fn write(&self, item: u32, payload: Vec<u8>) {
        let subject = subject::cache(&group(), &self.generation(item).await);
        let published = self.context.jetstream().publish(subject, payload.into()).await.unwrap();
        published.await.unwrap();
    }

    async fn entry(&self, item: u32) -> Vec<u8> {
        let subject = subject::cache(&group(), &self.generation(item).await);
        let message = self.cache().await.direct_get_last_for_subject(subject).await.unwrap();
        message.payload.to_vec()
    }
}

fn drawn(request: &Request) -> Reply {
    Reply::text(format!(" {}", request.body["seed"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_evaluation_generated_is_taken_over_with_its_text_and_without_a_request() {
    let mut bench = Bench::new(drawn).await;
    let first = bench.run("first", 8, Reuse::Unlikely).await;
    assert_eq!((bench.engine.stats().requests, bench.entries().await), (8, 8));
    // Also by a generator that was not there.
    bench.drain().await;
    bench.start().await;
    let second = bench.run("second", 12, Reuse::Likely).await;
    assert_eq!(bench.engine.stats().requests, 12, "eight were known, four were not");
    for (item, original) in &first {
        let taken = &second[item];
        assert!(!original.cached && taken.cached);
        assert_eq!((taken.requests, taken.attempts), (0, 0));
        assert_eq!(
            (&taken.text, taken.ending, taken.completion_tokens, &taken.engine),
            (
                &original.text,
                original.ending,
                original.completion_tokens,
                &original.engine
            )
        );
        assert_eq!(
            (taken.generation, taken.generation),
            (original.generation, Some(bench.generation(*item).await))
        );
        assert!(taken.started >= original.finished, "times are those of this evaluation");
    }
    assert!((8..12).all(|item| !second[&item].cached));
    assert_eq!(bench.entries().await, 12);
    bench.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_of_its_own_draws_neither_looks_nor_leaves_anything() {
    let mut bench = Bench::new(drawn).await;
    bench.run("own", 6, Reuse::Never).await;
    assert_eq!((bench.engine.stats().requests, bench.entries().await), (6, 0));
    bench.run("other", 6, Reuse::Likely).await;
    let own = bench.run("own again", 6, Reuse::Never).await;
    assert_eq!((bench.engine.stats().requests, bench.entries().await), (18, 6));
    assert!(
        own.values()
            .all(|completion| !completion.cached && completion.generation.is_none())
    );
    bench.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_whose_generator_died_before_it_recorded_the_answer_is_not_asked_for_again() {
    let mut bench = Bench::new(drawn).await;
    bench.run("first", 1, Reuse::Unlikely).await;
    // As after a kill between the cache and DONE: the answer is stored, its item is released once more.
    bench.release(key("killed", 0), Reuse::Unlikely, true).await;
    assert!(bench.completions("killed", 1).await[&0].cached);
    assert_eq!(bench.engine.stats().requests, 1);
    bench.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_evaluations_that_want_the_same_at_once_ask_once() {
    let mut bench = Bench::new(|request| drawn(request).after(Duration::from_millis(200))).await;
    for item in 0..4 {
        bench.release(key("first", item), Reuse::Unlikely, false).await;
        bench.release(key("second", item), Reuse::Unlikely, false).await;
    }
    let (first, second) = (
        bench.completions("first", 4).await,
        bench.completions("second", 4).await,
    );
    for item in 0..4 {
        assert_eq!(bench.engine.requests_for(&prompt(item)), 1);
        assert_eq!(first[&item].text, second[&item].text);
        assert!(first[&item].cached != second[&item].cached);
    }
    bench.drain().await;
}

/// How many looks into the cache the process's metrics count, with this result.
fn looks(result: &str) -> u64 {
    let metrics = tidemill_telemetry::render();
    let name = format!("tidemill_cache_lookups_total{{result=\"{result}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    assert!(line.is_some(), "{name}is missing in: {metrics}");
    line.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_or_foreign_entry_is_a_miss_and_is_replaced() {
    tidemill_telemetry::install();
    let mut bench = Bench::new(drawn).await;
    let first = bench.run("first", 6, Reuse::Unlikely).await;
    let mut flipped = bench.entry(0).await;
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    bench.write(0, flipped).await;
    bench.write(1, bench.entry(2).await).await;
    bench.write(2, Vec::new()).await;
    bench
        .write(3, b"not of ours, and long enough to hold a checksum".to_vec())
        .await;
    // Sealed, but of a kind that does not belong there.
    bench.write(4, seal(encode(&first[&4]).unwrap())).await;
    let second = bench.run("second", 6, Reuse::Likely).await;
    for item in 0..6 {
        assert_eq!(second[&item].text, first[&item].text, "never a wrong answer");
        assert_eq!(second[&item].cached, item == 5, "item {item}");
    }
    assert_eq!(bench.engine.stats().requests, 6 + 5);
    // The tests of this file share one process; of the others one finds one damaged entry.
    let counted = looks("damaged");
    assert!((5..=6).contains(&counted), "{counted}");
    assert!(looks("hit") >= 1);
    assert!(
        bench
            .run("third", 6, Reuse::Likely)
            .await
            .values()
            .all(|completion| completion.cached)
    );
    bench.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_gone_or_takes_nothing_holds_no_item_up() {
    let mut bench = Bench::new(drawn).await;
    bench.run("first", 4, Reuse::Unlikely).await;
    // Nothing fits: every store is refused.
    let mut config = bench.cache().await.cached_info().config.clone();
    config.max_message_size = 16;
    bench.context.jetstream().update_stream(config).await.unwrap();
    let full = bench.run("full", 8, Reuse::Likely).await;
    assert_eq!(
        full.values().filter(|completion| completion.cached).count(),
        4,
        "what is there is still found"
    );
    bench
        .context
        .jetstream()
        .delete_stream(declared::CACHE.name)
        .await
        .unwrap();
    let gone = bench.run("gone", 8, Reuse::Likely).await;
    assert!(
        gone.values()
            .all(|completion| completion.ending == Ending::Stop && !completion.cached)
    );
    assert_eq!(bench.engine.stats().requests, 4 + 4 + 8);
    bench.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_cache_lets_the_oldest_go() {
    let mut bench = Bench::new(|_| Reply::text(format!(" {}", "x".repeat(10_000)))).await;
    live::size_cache(bench.context.jetstream(), 100_000, true)
        .await
        .unwrap();
    for item in 0..20 {
        bench.release(key("first", item), Reuse::Unlikely, false).await;
        bench.completions("first", item + 1).await;
    }
    let kept = bench.entries().await;
    assert!((5..=10).contains(&kept), "{kept} entries of 10 kB in 100 kB");
    let second = bench.run("second", 20, Reuse::Likely).await;
    let cached: Vec<u32> = second
        .values()
        .filter(|completion| completion.cached)
        .map(|completion| completion.key.item)
        .collect();
    assert!(
        !cached.contains(&0) && !cached.contains(&1),
        "the oldest went first: {cached:?}"
    );
    assert!(bench.cache().await.cached_info().state.bytes <= 100_000);
    bench.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_lies_in_the_object_store_and_is_a_miss_when_it_is_not_there() {
    let mut bench = Bench::new(|_| Reply::text(format!(" {}", "word ".repeat(80_000)))).await;
    let first = bench.run("first", 2, Reuse::Unlikely).await;
    assert_eq!(
        bench.context.store.cached_bodies(Some(&group())).await.unwrap().len(),
        2
    );
    assert!(bench.entry(0).await.len() < 1_000, "the entry only says where");
    bench
        .context
        .store
        .remove_cached_body(&group(), &bench.generation(1).await)
        .await
        .unwrap();
    let second = bench.run("second", 2, Reuse::Likely).await;
    assert_eq!((second[&0].cached, second[&1].cached), (true, false));
    assert!(second[&0].text == first[&0].text && first[&0].text.len() > 300_000);
    assert_eq!(bench.engine.stats().requests, 3);
    bench.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_the_model_did_not_end_are_not_kept() {
    let mut bench = Bench::new(|request| {
        let number = request
            .prompt
            .trim_start_matches("Question ")
            .split('\n')
            .next()
            .unwrap();
        match number {
            "0" => Reply::text("").completion_tokens(0),
            "1" => Reply::raw(
                400,
                r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#,
            ),
            "2" => Reply::raw(500, "boom"),
            "3" => Reply::text(" no").finish_reason("content_filter"),
            "4" => Reply::text(" 1").finish_reason("length"),
            _ => Reply::text(" 1"),
        }
    })
    .await;
    bench.run("first", 6, Reuse::Unlikely).await;
    let second = bench.run("second", 6, Reuse::Likely).await;
    let cached: Vec<u32> = (0..6).filter(|item| second[item].cached).collect();
    assert_eq!((cached, second[&4].ending), (vec![4, 5], Ending::Length));
    bench.drain().await;
}

#[test]
fn an_entry_is_not_much_larger_than_its_answer() {
    let completion = Completion {
        key: key("e", 0),
        manifest: Digest::of(b"m"),
        ending: Ending::Stop,
        text: "x".repeat(1_000),
        reasoning: None,
        finish_reason: Some("stop".to_owned()),
        stop_reason: None,
        truncated: false,
        choices: Vec::new(),
        detail: None,
        prompt_tokens: 1,
        completion_tokens: 1,
        requests: 1,
        attempts: 1,
        cached: false,
        served: Served::default(),
        generation: Some("00112233445566778899aabbccddeeff".parse().unwrap()),
        engine: "http://127.0.0.1:8000".to_owned(),
        started: now(),
        finished: now(),
    };
    let bytes = seal(encode(&Generation::of(&completion).unwrap()).unwrap()).len();
    assert!(bytes <= 1_000 + 160, "{bytes} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_waits_for_anothers_generation_is_given_back_with_its_group() {
    let mut bench = Bench::new(|request| drawn(request).after(Duration::from_millis(500))).await;
    bench.release(key("first", 0), Reuse::Unlikely, false).await;
    bench.release(key("second", 0), Reuse::Unlikely, false).await;
    while bench.engine.stats().requests == 0 {
        sleep(Duration::from_millis(5)).await;
    }
    let groups = bench
        .context
        .jetstream()
        .get_key_value(buckets::GROUPS.name)
        .await
        .unwrap();
    groups.delete(group().as_str()).await.unwrap();
    sleep(Duration::from_millis(200)).await;
    bench.serve().await;
    let (first, second) = (
        bench.completions("first", 1).await,
        bench.completions("second", 1).await,
    );
    assert_eq!(first[&0].text, second[&0].text);
    assert_eq!(bench.engine.requests_for(&prompt(0)), 1);
    bench.drain().await;
}
