//! The whole service against a real broker and an engine that answers as it is told.

#![expect(clippy::unwrap_used, reason = "helpers of a test file, which is nothing but tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::Subscriber;
use futures::StreamExt as _;
use tidemill_config::Config;
use tidemill_domain::{
    AnswerLength, BenchmarkName, Capacity, ChoiceScore, Completion, Digest, Ending, EngineKind, EvaluationId,
    GraderSpec, GroupId, Item, ItemKey, Normalise, Prompt, Release, Replica, Reuse, ServerGroup, Settings, SuiteName,
    SuiteRef, Tier, WholeBenchmark, WholeManifest,
};
use tidemill_service::{Context, Follow, Published, Start, connect, now, prepare};
use tidemill_storage::{Address, Store};
use tidemill_streams::{Released, buckets, declared, durable, live, subject};
use tidemill_testkit::engine::{Request, token_logprob};
use tidemill_testkit::{Broker, FakeEngine, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

#[path = "generator/parking.rs"]
mod parking;

const SLOTS: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(30);

/// A broker, a store and a manifest with `items` items of a generated and `items` of a likelihood benchmark.
struct Bench {
    broker: Broker,
    folder: tempfile::TempDir,
    context: Context,
    manifest: Digest,
    items: u32,
}

/// A generator that runs in this process.
struct Generator {
    context: Context,
    task: JoinHandle<()>,
}

impl Bench {
    async fn new(items: u32) -> Self {
        let broker = Broker::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let context = context(&broker, folder.path()).await;
        let manifest = context.store.put_whole(manifest(items)).await.unwrap();
        let consumer = durable::generator(&group(), SLOTS);
        live::ensure(context.jetstream(), &consumer).await.unwrap();
        Self {
            broker,
            folder,
            context,
            manifest,
            items,
        }
    }

    async fn start(&self) -> Generator {
        let context = context(&self.broker, self.folder.path()).await;
        let running = context.clone();
        let task = tokio::spawn(async move { tidemill_generator::run(running).await.unwrap() });
        Generator { context, task }
    }

    async fn serve(&self, engines: &[&FakeEngine]) {
        let urls: Vec<String> = engines.iter().map(|engine| engine.url()).collect();
        self.serve_at(&urls, engines[0].model()).await;
    }

    async fn serve_at(&self, urls: &[String], model: &str) {
        self.serve_described(urls, model, None).await;
    }

    /// With what each replica said of its context when it joined.
    async fn serve_described(&self, urls: &[String], model: &str, context_length: Option<u32>) {
        let replica = |url: &String| Replica {
            url: url.clone(),
            model: model.to_owned(),
            max_in_flight: SLOTS / urls.len() as u32,
            kind: EngineKind::OpenAi,
            context_length,
            owned_by: context_length.map(|_| "tidemill".to_owned()),
        };
        let record = ServerGroup {
            schema: 1,
            group: group(),
            checkpoint: Digest::of(b"weights"),
            replicas: urls.iter().map(replica).collect(),
            context_length: None,
            updated: now(),
        };
        let bytes = serde_json::to_vec(&record).unwrap();
        self.groups().await.put(group().as_str(), bytes.into()).await.unwrap();
    }

    async fn withdraw(&self) {
        self.groups().await.delete(group().as_str()).await.unwrap();
    }

    /// Why the only replica takes nothing, once the generator says so with a reason.
    async fn trouble(&self) -> String {
        let bucket = self.context.jetstream().get_key_value(buckets::CAPACITY.name).await;
        let mut told = bucket.unwrap().watch_with_history(">").await.unwrap();
        let reason = async {
            while let Some(entry) = told.next().await {
                let Ok(capacity) = serde_json::from_slice::<Capacity>(&entry.unwrap().value) else {
                    continue;
                };
                let troubles = capacity.replicas.into_iter().filter_map(|replica| replica.trouble);
                if let Some(reason) = troubles.filter_map(|trouble| trouble.reason).next() {
                    return reason;
                }
            }
            unreachable!("the bucket is gone")
        };
        tokio::time::timeout(PATIENCE, reason).await.unwrap()
    }

    async fn groups(&self) -> async_nats::jetstream::kv::Store {
        self.context
            .jetstream()
            .get_key_value(buckets::GROUPS.name)
            .await
            .unwrap()
    }

    async fn release(&self, benchmark: u32, item: u32, again: bool) {
        self.release_of(self.manifest.clone(), key(benchmark, item), again)
            .await;
    }

    async fn release_of(&self, manifest: Digest, key: ItemKey, again: bool) {
        let release = Release {
            key,
            manifest,
            again,
            reuse: Reuse::Never,
            expected_tokens: 0,
            prefix: 0,
        };
        let released = Released {
            group: group(),
            release,
        };
        self.context.publisher.publish(&released, None).await.unwrap();
    }

    async fn release_generated(&self) {
        for item in 0..self.items {
            self.release(0, item, false).await;
        }
    }

    /// The completions, once there are so many.
    async fn completions(&self, count: usize) -> BTreeMap<(u32, u32), Completion> {
        let filter = subject::done_of_evaluation(&evaluation());
        let mut follow = Follow::open(&self.context, declared::DONE, filter, false, Start::Beginning).await;
        let mut completions = BTreeMap::new();
        let reading = async {
            while completions.len() < count {
                let message = follow.next().await;
                let completion: Completion = self.context.store.check_out(&message.payload).await.unwrap();
                let told = message
                    .headers
                    .as_ref()
                    .and_then(|headers| headers.get(AnswerLength::HEADER));
                let length = AnswerLength::of(&completion).map(|length| length.to_string());
                assert_eq!(
                    told.map(|told| told.as_str().to_owned()),
                    length,
                    "what the dispatcher learns"
                );
                completions.insert((completion.key.benchmark, completion.key.item), completion);
            }
        };
        timeout(PATIENCE, reading).await.unwrap();
        completions
    }

    /// The digest of a manifest whose bytes are not what it says.
    fn damaged_manifest(&self) -> Digest {
        let digest = Digest::of(b"damaged");
        let path = self.folder.path().join(format!("manifests/{}.zst", digest.hex()));
        std::fs::write(path, b"not a manifest").unwrap();
        digest
    }

    /// The subjects and reasons of the first `count` dead letters.
    async fn dead_letters(&self, count: usize) -> BTreeMap<String, String> {
        let filter = subject::dead("generator");
        let mut follow = Follow::open(&self.context, declared::DEAD, filter, false, Start::Beginning).await;
        let mut letters = BTreeMap::new();
        let reading = async {
            while letters.len() < count {
                let headers = follow.next().await.headers.unwrap();
                let header = |name| headers.get(name).unwrap().as_str().to_owned();
                letters.insert(header("Tidemill-Subject"), header("Tidemill-Reason"));
            }
        };
        timeout(PATIENCE, reading).await.unwrap();
        letters
    }

    /// Messages that are delivered and not acknowledged, and those that wait.
    async fn pending(&self) -> (usize, u64) {
        let consumer = durable::generator(&group(), SLOTS);
        let stream = self.context.jetstream().get_stream(declared::READY.name).await.unwrap();
        let info = stream.consumer_info(&consumer.name).await.unwrap();
        (info.num_ack_pending, info.num_pending)
    }

    /// What the broker says of items that a generator gives back, from now on.
    async fn given_back(&self) -> Subscriber {
        let advisories = format!("$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.{}.*", declared::READY.name);
        let client = &self.context.broker.client;
        let given_back = client.subscribe(advisories).await.unwrap();
        // So that the broker knows of the subscription before it has something to say.
        client.flush().await.unwrap();
        given_back
    }

    async fn wait_for_nothing_in_hand(&self) {
        let waiting = async {
            while self.pending().await.0 > 0 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap();
    }
}

/// Waits until so many items were given back.
async fn all_of(given_back: Subscriber, items: usize) {
    let all = timeout(PATIENCE, given_back.take(items).collect::<Vec<_>>());
    assert_eq!(all.await.unwrap().len(), items);
}

impl Generator {
    async fn drain(self) {
        self.context.draining.cancel();
        timeout(PATIENCE, self.task).await.unwrap().unwrap();
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

fn group() -> GroupId {
    GroupId::from_digest(&Digest::of(b"group"))
}

fn evaluation() -> EvaluationId {
    EvaluationId::from_digest(&Digest::of(b"evaluation"))
}

fn key(benchmark: u32, item: u32) -> ItemKey {
    ItemKey {
        evaluation: evaluation(),
        benchmark,
        item,
        sample: 0,
    }
}

fn prompt(item: u32) -> String {
    format!("Question {item}\nAnswer:")
}

fn manifest(items: u32) -> WholeManifest {
    let benchmark = |name: &str, grader: GraderSpec| WholeBenchmark {
        name: BenchmarkName::try_new(name).unwrap(),
        settings: Settings {
            max_tokens: 16,
            temperature: 0.7,
            top_p: 1.0,
            stop: vec!["\n".to_owned()],
            seed: 5,
            samples: 1,
        },
        grader,
        items: (0..items)
            .map(|item| Item {
                id: item.to_string(),
                prompt: Prompt::Text(prompt(item)),
                targets: vec!["1".to_owned()],
                choices: vec![" red fish".to_owned(), " blue".to_owned()],
                correct_choice: Some(0),
                cluster: None,
                subset: None,
                weight: 1.0,
                material: Vec::new(),
            })
            .collect(),
    };
    let exact = GraderSpec::Exact {
        ignore_case: false,
        ignore_punctuation: false,
    };
    let likelihood = GraderSpec::Likelihood {
        normalise: Normalise::None,
    };
    WholeManifest {
        suite: SuiteRef {
            name: SuiteName::try_new("s").unwrap(),
            version: "1".to_owned(),
            tier: Tier::Canary,
        },
        max_failure_rate: 0.0,
        benchmarks: vec![benchmark("generated", exact), benchmark("scored", likelihood)],
    }
}

fn engine(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> FakeEngine {
    FakeEngine::builder().respond(script).start().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_item_is_asked_once_and_recorded_with_its_answer() {
    let bench = Bench::new(20).await;
    let engine = engine(|request| Reply::text(format!(" {}", request.body["seed"])));
    let generator = bench.start().await;
    bench.serve(&[&engine]).await;
    bench.release_generated().await;
    for item in 0..20 {
        bench.release(1, item, false).await;
    }
    let completions = bench.completions(40).await;
    bench.wait_for_nothing_in_hand().await;
    let seeds: std::collections::BTreeSet<&str> = (0..20).map(|item| completions[&(0, item)].text.as_str()).collect();
    assert_eq!(seeds.len(), 20, "each item is drawn with a seed of its own");
    for item in 0..20 {
        let generated = &completions[&(0, item)];
        assert_eq!(
            (generated.ending, generated.requests, generated.attempts),
            (Ending::Stop, 1, 1)
        );
        assert_eq!(generated.engine, engine.url());
        assert!(generated.started <= generated.finished);
        let scored = &completions[&(1, item)];
        assert_eq!((scored.ending, scored.requests), (Ending::Scored, 2));
        let sums: Vec<f64> = scored.choices.iter().map(|choice| choice.log_probability).collect();
        let expected = [token_logprob(" red") + token_logprob(" fish"), token_logprob(" blue")];
        assert_eq!(sums, expected);
    }
    assert_eq!(engine.stats().requests, 20 + 2 * 20);
    assert!(engine.stats().max_in_flight <= u64::from(SLOTS));
    assert_eq!(bench.pending().await, (0, 0));
    generator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn choices_with_contexts_of_their_own_are_scored_each_after_its_own() {
    let bench = Bench::new(1).await;
    let mut manifest = manifest(1);
    let item = &mut manifest.benchmarks[1].items[0];
    let contexts = ["red fish, one fish", "two", "blue fish"];
    item.prompt = Prompt::of_contexts(contexts.map(str::to_owned).to_vec());
    item.choices = vec![" red fish".to_owned(); 3];
    let digest = bench.context.store.put_whole(manifest).await.unwrap();
    let engine = FakeEngine::builder().keep_journal().start().unwrap();
    let generator = bench.start().await;
    bench.serve(&[&engine]).await;
    bench.release_of(digest, key(1, 0), false).await;
    let completions = bench.completions(1).await;
    let completion = &completions[&(1, 0)];
    assert_eq!(completion.ending, Ending::Scored, "{completion:?}");
    let sum = token_logprob(" red") + token_logprob(" fish");
    let is_whole = |choice: &ChoiceScore| choice.tokens == 2 && (choice.log_probability - sum).abs() < 1e-9;
    assert!(
        completion.choices.len() == 3 && completion.choices.iter().all(is_whole),
        "{completion:?}"
    );
    let asked: Vec<String> = engine.journal().into_iter().map(|asked| asked.prompt).collect();
    for context in contexts {
        assert!(asked.contains(&format!("{context} red fish")), "{asked:?}");
    }
    generator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_is_recorded_is_not_asked_for_again() {
    let bench = Bench::new(4).await;
    let engine = engine(|_| Reply::text(" 1"));
    let generator = bench.start().await;
    bench.serve(&[&engine]).await;
    bench.release(0, 0, false).await;
    bench.completions(1).await;
    bench.wait_for_nothing_in_hand().await;
    // Left by another generator, which saved it and then lost the item.
    let bucket = bench
        .context
        .jetstream()
        .get_key_value(buckets::PARKED.name)
        .await
        .unwrap();
    bucket.put(subject::parked(&key(0, 0)), "tokens".into()).await.unwrap();
    bench.release(0, 0, true).await;
    bench.release(0, 1, true).await;
    bench.completions(2).await;
    bench.wait_for_nothing_in_hand().await;
    assert_eq!(parking::parked(&bench).await, 0, "nobody goes on with it");
    assert_eq!(engine.requests_for(&prompt(0)), 1);
    assert_eq!(engine.requests_for(&prompt(1)), 1);
    generator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_can_never_be_asked_ends_as_a_failure_and_a_dead_letter() {
    let bench = Bench::new(1).await;
    let engine = engine(|_| Reply::text(" 1"));
    let generator = bench.start().await;
    bench.serve(&[&engine]).await;
    bench.release_of(bench.damaged_manifest(), key(0, 0), false).await;
    bench.release(0, 7, false).await;
    let (completions, letters) = (bench.completions(2).await, bench.dead_letters(2).await);
    for (item, reason) in [(0, "damaged"), (7, "declares no")] {
        let completion = &completions[&(0, item)];
        assert_eq!((completion.ending, completion.requests), (Ending::EngineError, 0));
        let detail = completion.detail.as_ref().unwrap();
        assert!(detail.contains(reason), "{detail}");
        let letter = &letters[&subject::ready(&group(), &key(0, item))];
        assert!(letter.contains(reason), "{letter}");
    }
    bench.wait_for_nothing_in_hand().await;
    assert_eq!(bench.pending().await, (0, 0));
    assert_eq!(engine.stats().requests, 0);
    generator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_answer_is_recorded_as_what_it_was() {
    let bench = Bench::new(7).await;
    let engine = engine(|request| {
        let overflow = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
        match request
            .prompt
            .trim_start_matches("Question ")
            .split('\n')
            .next()
            .unwrap()
        {
            "0" => Reply::text("").completion_tokens(0),
            "1" => Reply::raw(400, overflow),
            "2" => Reply::raw(500, "boom"),
            "3" => Reply::text(" no").finish_reason("content_filter"),
            "4" => Reply::text(" 1").finish_reason("stop").completion_tokens(16),
            "5" if request.attempt < 3 => Reply::raw(200, "{\"choices\":["),
            "6" if request.attempt < 2 => Reply::dropped(0),
            _ => Reply::text(" 1"),
        }
    });
    let generator = bench.start().await;
    bench.serve(&[&engine]).await;
    bench.release_generated().await;
    let completions = bench.completions(7).await;
    let expected = [
        (Ending::Empty, 3),
        (Ending::ContextOverflow, 1),
        (Ending::EngineError, 5),
        (Ending::Refused, 1),
        (Ending::Length, 1),
        (Ending::Stop, 3),
        (Ending::Stop, 2),
    ];
    for (item, (ending, requests)) in (0..).zip(expected) {
        let completion = &completions[&(0, item)];
        assert_eq!(
            (completion.ending, completion.requests),
            (ending, requests),
            "item {item}"
        );
        assert_eq!(engine.requests_for(&prompt(item)), u64::from(requests), "item {item}");
        let has_answer = matches!(ending, Ending::Stop | Ending::Length | Ending::Refused);
        assert_eq!(completion.detail.is_none(), has_answer, "item {item}");
    }
    assert!(completions[&(0, 4)].truncated);
    assert!(completions[&(0, 2)].detail.as_ref().unwrap().contains("boom"));
    generator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_before_a_reset_never_counts_and_a_late_result_of_the_old_attempt_changes_nothing() {
    /// From before the first byte to far into the answer's text.
    const CUTS: [usize; 4] = [0, 1, 100, 200];
    let bench = Bench::new(5).await;
    let engine = engine(|request| {
        let item: usize = request.prompt["Question ".len()..][..1].parse().unwrap();
        match CUTS.get(item) {
            Some(after_bytes) if request.attempt < 2 => Reply::dropped(*after_bytes),
            Some(_) => Reply::text(" 1"),
            None => Reply::dropped(100),
        }
    });
    let generator = bench.start().await;
    bench.serve(&[&engine]).await;
    bench.release_generated().await;
    let completions = bench.completions(5).await;
    for item in 0..4 {
        let completion = &completions[&(0, item)];
        assert_eq!(
            (completion.ending, completion.text.as_str()),
            (Ending::Stop, " 1"),
            "item {item}"
        );
        assert_eq!(completion.requests, 2, "item {item} is redone once");
        assert_eq!(engine.requests_for(&prompt(item)), 2, "item {item}");
    }
    let hopeless = &completions[&(0, 4)];
    assert_eq!((hopeless.ending, hopeless.text.as_str()), (Ending::EngineError, ""));
    assert!(!hopeless.truncated && hopeless.detail.is_some());
    assert!((3..=5).contains(&hopeless.requests), "{} requests", hopeless.requests);

    let late = Completion {
        text: "an answer that is cut".to_owned(),
        ..completions[&(0, 0)].clone()
    };
    let published = bench.context.publisher.publish(&late, None).await.unwrap();
    assert_eq!(published, Published::AlreadyThere);
    assert_eq!(bench.completions(5).await, completions);
    generator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn items_outlive_an_engine_that_dies_and_comes_back() {
    let bench = Bench::new(24).await;
    let engine = engine(|_| Reply::text(" 1").after(Duration::from_millis(50)));
    let generator = bench.start().await;
    bench.serve(&[&engine]).await;
    bench.release_generated().await;
    bench.completions(4).await;
    engine.set_down(true).unwrap();
    sleep(Duration::from_millis(300)).await;
    engine.set_down(false).unwrap();
    let completions = bench.completions(24).await;
    assert!(completions.values().all(|completion| completion.ending == Ending::Stop));
    generator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_comes_back_with_a_shorter_context_gets_nothing_until_it_has_its_own() {
    let bench = Bench::new(24).await;
    let slowly = |_: &Request| Reply::text(" 1").after(Duration::from_millis(50));
    let with = |context, port| {
        let engine = FakeEngine::builder().max_context(context).port(port);
        engine.respond(slowly).start().unwrap()
    };
    let first = with(8_192, 0);
    let (url, model) = (first.url(), first.model().to_owned());
    let port = url.rsplit(':').next().unwrap().parse().unwrap();
    let generator = bench.start().await;
    bench
        .serve_described(std::slice::from_ref(&url), &model, Some(8_192))
        .await;
    bench.release_generated().await;
    bench.completions(4).await;
    drop(first);
    sleep(Duration::from_millis(300)).await;
    let shorter = with(2_048, port);
    let reason = bench.trouble().await;
    for part in [url.as_str(), "2048", "8192"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(shorter.stats().requests, 0, "it was asked something");
    drop(shorter);
    let _its_own = with(8_192, port);
    let completions = bench.completions(24).await;
    assert!(completions.values().all(|completion| completion.ending == Ending::Stop));
    generator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_replica_takes_the_items_of_a_dead_one() {
    let bench = Bench::new(24).await;
    let (dead, alive) = (engine(|_| Reply::text(" 1")), engine(|_| Reply::text(" 1")));
    dead.set_down(true).unwrap();
    let generator = bench.start().await;
    bench.serve(&[&dead, &alive]).await;
    bench.release_generated().await;
    let completions = bench.completions(24).await;
    assert!(
        completions
            .values()
            .all(|completion| completion.ending == Ending::Stop && completion.engine == alive.url())
    );
    generator.drain().await;
}

/// A host that lists its model, takes requests and never answers them. When it is dropped it vanishes: nobody is there any
/// more, and no connection is closed.
struct Host {
    url: String,
    requests: Arc<Mutex<Vec<TcpStream>>>,
    accepting: JoinHandle<()>,
}

impl Host {
    async fn start(model: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (taken, list) = (Arc::clone(&requests), format!(r#"{{"data":[{{"id":"{model}"}}]}}"#));
        let accepting = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 4];
                stream.read_exact(&mut head).await.unwrap();
                if &head == b"POST" {
                    taken.lock().unwrap().push(stream);
                    continue;
                }
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length:";
                let answer = format!("{head} {}\r\n\r\n{list}", list.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Self {
            url,
            requests,
            accepting,
        }
    }

    async fn has_taken(&self, count: usize) {
        while self.requests.lock().unwrap().len() < count {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_flight_at_a_host_that_vanished_is_answered_by_a_replica_that_joins() {
    let bench = Bench::new(SLOTS).await;
    let engine = engine(|_| Reply::text(" 1"));
    let host = Host::start(engine.model()).await;
    let generator = bench.start().await;
    bench.serve_at(std::slice::from_ref(&host.url), engine.model()).await;
    bench.release_generated().await;
    timeout(PATIENCE, host.has_taken(SLOTS as usize)).await.unwrap();
    host.accepting.abort();
    bench.serve_at(&[host.url.clone(), engine.url()], engine.model()).await;
    let completions = bench.completions(SLOTS as usize).await;
    for completion in completions.values() {
        assert_eq!((completion.ending, completion.attempts), (Ending::Stop, 2));
        assert_eq!(completion.engine, engine.url());
    }
    assert_eq!(
        host.requests.lock().unwrap().len(),
        SLOTS as usize,
        "its connections are open"
    );
    let capacity = bench
        .context
        .jetstream()
        .get_key_value(buckets::CAPACITY.name)
        .await
        .unwrap();
    let told = async {
        loop {
            let key = capacity.keys().await.unwrap().next().await.unwrap().unwrap();
            let told: Capacity = serde_json::from_slice(&capacity.get(key).await.unwrap().unwrap()).unwrap();
            let away: Vec<bool> = told.replicas.iter().map(|replica| replica.is_away).collect();
            if away == [true, false] {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, told).await.unwrap();
    generator.drain().await;
    assert!(
        capacity.keys().await.unwrap().next().await.is_none(),
        "it takes nothing any more"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn items_are_given_back_when_their_group_is_withdrawn() {
    let bench = Bench::new(6).await;
    let engine = engine(|_| Reply::text(" 1"));
    engine.set_down(true).unwrap();
    let generator = bench.start().await;
    bench.serve(&[&engine]).await;
    bench.release_generated().await;
    let taken = async {
        while bench.pending().await.0 == 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, taken).await.unwrap();
    let in_hand = bench.pending().await.0;
    let given_back = bench.given_back().await;
    bench.withdraw().await;
    // Before, the generator need not have heard of it.
    all_of(given_back, in_hand).await;
    engine.set_down(false).unwrap();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(engine.stats().requests, 0, "a group that is withdrawn is sent nothing");
    bench.serve(&[&engine]).await;
    let completions = bench.completions(6).await;
    assert!(completions.values().all(|completion| completion.ending == Ending::Stop));
    assert_eq!(engine.stats().requests, 6);
    generator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_gives_long_requests_back_within_the_grace_and_another_generator_finishes_them() {
    let bench = Bench::new(5).await;
    let engine = engine(|request| {
        let is_first = request.attempt == 1;
        // Far beyond any patience of this test: whoever waits for it fails.
        Reply::text(" 1").after(if is_first {
            Duration::from_secs(600)
        } else {
            Duration::ZERO
        })
    });
    let generator = bench.start().await;
    bench.serve(&[&engine]).await;
    bench.release_generated().await;
    let asked = async {
        while engine.stats().requests < 5 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, asked).await.unwrap();
    let given_back = bench.given_back().await;
    generator.drain().await;
    assert_eq!(engine.stats().completion_tokens, 0, "no answer was waited for");
    // Not left to the broker's clock for the next generator.
    all_of(given_back, 5).await;
    let second = bench.start().await;
    let completions = bench.completions(5).await;
    assert!(completions.values().all(|completion| completion.ending == Ending::Stop));
    second.drain().await;
}
