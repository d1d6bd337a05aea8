//! Dead letters against a real broker: held or recorded, retried or dropped, and never lost between.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{PullConsumer, pull};
use tidemill_config::Config;
use tidemill_domain::{
    Completion, Digest, Ending, EvaluationEvent, EvaluationId, EvaluationState, Grade, GroupId, ItemKey, Outcome,
    Release, Reuse, Served, Timestamp,
};
use tidemill_service::dead::{self, Dropped, Letter, Retried};
use tidemill_service::settle::{MOST_FAILURES, MOST_TIMES_LEFT};
use tidemill_service::{
    Context, Delivery, Failure, Follow, Published, Settled, Start, Ttl, connect, now, prepare, work,
};
use tidemill_storage::{Address, Store};
use tidemill_streams::{Durable, Released, StateChange, declared, durable, live, subject};
use tidemill_testkit::broker::Broker;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    broker: Broker,
    context: Context,
    folder: tempfile::TempDir,
}

async fn bench() -> Bench {
    let broker = Broker::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.service.newer_patience = Duration::from_millis(500);
    let connection = connect(&config, &broker.url(), "test").await.unwrap();
    let store = Store::open(Address::of_folder(folder.path())).unwrap();
    prepare(&connection, &config, &store, true).await.unwrap();
    let context = Context::new("generator", connection, store, Arc::new(config));
    let bench = Bench {
        broker,
        context,
        folder,
    };
    bench.announce(EvaluationState::Serving).await;
    bench
}

fn evaluation() -> EvaluationId {
    EvaluationId::from_digest(&Digest::of(b"evaluation"))
}

fn group() -> GroupId {
    GroupId::from_digest(&Digest::of(b"group"))
}

fn key(item: u32) -> ItemKey {
    ItemKey {
        evaluation: evaluation(),
        benchmark: 0,
        item,
        sample: 0,
    }
}

fn release(item: u32) -> Release {
    Release {
        key: key(item),
        manifest: Digest::of(b"manifest"),
        again: false,
        reuse: Reuse::Never,
        expected_tokens: 0,
        prefix: 0,
    }
}

fn completion(item: u32) -> Completion {
    Completion {
        key: key(item),
        manifest: Digest::of(b"manifest"),
        ending: Ending::Stop,
        text: "text".to_owned(),
        reasoning: None,
        finish_reason: None,
        stop_reason: None,
        truncated: false,
        choices: Vec::new(),
        detail: None,
        prompt_tokens: 1,
        completion_tokens: 1,
        requests: 3,
        attempts: 1,
        cached: false,
        served: Served::default(),
        generation: None,
        engine: String::new(),
        started: Timestamp(1),
        finished: Timestamp(2),
    }
}

/// A message of the next version, with a field that nobody here knows.
fn newer<T: tidemill_codec::Wire>(value: &T) -> Vec<u8> {
    let mut bytes = tidemill_codec::encode(value).unwrap();
    let version = (T::VERSION + 1).to_le_bytes();
    bytes[4..6].copy_from_slice(&version);
    bytes.extend(7_u64.to_le_bytes());
    bytes
}

/// A running work loop, stopped when told.
struct Working {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Working {
    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

impl Bench {
    async fn announce(&self, state: EvaluationState) {
        let digest = format!("blake3:{}", "0".repeat(64));
        let event: EvaluationEvent = serde_json::from_value(serde_json::json!({
            "schema": 1, "evaluation": evaluation(), "state": state, "at": now(), "run": "r",
            "step": 1, "team": "t", "checkpoint": digest, "manifest": digest, "group": group(),
            "suite": {"name": "s", "version": "1", "tier": "canary"}, "samples": 9,
            "source": {"checkpoint": {"uri": "/c"}}, "timeline": {},
        }))
        .unwrap();
        self.context.publisher.publish(&StateChange(event), None).await.unwrap();
    }

    /// Returns its place in the stream.
    async fn put<M: tidemill_streams::Message>(&self, subject: String, payload: Vec<u8>) -> u64 {
        let publisher = &self.context.publisher;
        let published = publisher.publish_bytes::<M>(subject, payload, None, Ttl::Stream, HeaderMap::new());
        match published.await.unwrap() {
            Published::Stored(sequence) => sequence,
            Published::AlreadyThere => panic!("its subject is taken"),
        }
    }

    /// Has a message that is not understood left almost as often as it may be: all of it takes half a minute.
    async fn left_often(&self, stream: &str, sequence: u64) {
        let bucket = self.context.jetstream().get_key_value("tm_failures").await.unwrap();
        let left = (MOST_TIMES_LEFT - 3).to_string();
        bucket.put(format!("{stream}.{sequence}"), left.into()).await.unwrap();
    }

    /// Releases an item in the next version, left often already.
    async fn release_newer(&self, item: u32) {
        let payload = newer(&release(item));
        let sequence = self
            .put::<Released>(subject::ready(&group(), &key(item)), payload)
            .await;
        self.left_often("READY", sequence).await;
    }

    /// The same for the bytes of a completion.
    async fn done_newer(&self, item: u32, payload: Vec<u8>) {
        let sequence = self.put::<Completion>(subject::done(&key(item)), payload).await;
        self.left_often("DONE", sequence).await;
    }

    async fn release(&self, item: u32, payload: Vec<u8>) {
        self.put::<Released>(subject::ready(&group(), &key(item)), payload)
            .await;
    }

    async fn done(&self, item: u32, payload: Vec<u8>) {
        self.put::<Completion>(subject::done(&key(item)), payload).await;
    }

    fn working<H, F>(&self, durable: Durable, handler: H) -> Working
    where
        H: Fn(Delivery) -> F + Send + Sync + 'static,
        F: Future<Output = Settled> + Send + 'static,
    {
        let (context, stop) = (self.context.clone(), CancellationToken::new());
        let stopped = stop.clone();
        Working {
            stop,
            task: tokio::spawn(async move { work(&context, &durable, 8, &stopped, handler).await }),
        }
    }

    /// Decodes releases and completes them, as a generator does.
    fn generating(&self) -> Working {
        let publisher = self.context.publisher.clone();
        self.working(soon(durable::generator(&group(), 8)), move |delivery| {
            let publisher = publisher.clone();
            async move {
                let release: Release = tidemill_codec::decode(&delivery.payload)?;
                publisher.publish(&completion(release.key.item), None).await?;
                Ok(())
            }
        })
    }

    /// Letters, once there are so many.
    async fn letters(&self, count: usize) -> Vec<Letter> {
        let all = async {
            loop {
                let letters = dead::letters(&self.context).await.unwrap();
                if letters.len() >= count {
                    return letters;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, all).await.expect("dead letters")
    }

    async fn messages(&self, stream: &str) -> u64 {
        let stream = self.context.jetstream().get_stream(stream).await.unwrap();
        stream.cached_info().state.messages
    }

    async fn completion(&self, item: u32) -> Completion {
        let filter = subject::done(&key(item));
        let mut follow = Follow::open(&self.context, declared::DONE, filter, false, Start::Beginning).await;
        let message = tokio::time::timeout(PATIENCE, follow.next())
            .await
            .expect("a completion");
        tidemill_codec::decode(&message.payload).unwrap()
    }

    async fn retry(&self, sequence: u64) -> Retried {
        let (letter, payload) = dead::letter(&self.context, sequence).await.unwrap().unwrap();
        dead::retry(&self.context, &letter, payload).await.unwrap()
    }

    async fn discard(&self, sequence: u64) -> Dropped {
        let (letter, payload) = dead::letter(&self.context, sequence).await.unwrap().unwrap();
        dead::discard(&self.context, &letter, &payload, "of no use")
            .await
            .unwrap()
    }

    async fn consumer(&self, durable: &Durable) -> PullConsumer {
        let jetstream = self.context.jetstream();
        jetstream
            .get_consumer_from_stream::<pull::Config, _, _>(&durable.name, durable.stream.name)
            .await
            .unwrap()
    }
}

fn soon(durable: Durable) -> Durable {
    Durable {
        ack_wait: Duration::from_millis(600),
        ..durable
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupted_release_ends_its_item_before_it_is_buried() {
    let bench = bench().await;
    let good = tidemill_codec::encode(&release(2)).unwrap();
    bench.release(0, b"not ours".to_vec()).await;
    bench.release(1, good[..good.len() - 3].to_vec()).await;
    bench.release(2, good).await;
    let working = bench.generating();
    let letters = bench.letters(2).await;
    for (item, reason) in [(0, "not a message of ours"), (1, "malformed")] {
        let completion = bench.completion(item).await;
        assert_eq!((completion.ending, completion.requests), (Ending::EngineError, 0));
        assert!(completion.detail.unwrap().contains(reason));
        let letter = letters.iter().find(|letter| letter.key() == Some(key(item))).unwrap();
        assert!(letter.reason.contains(reason) && !letter.is_held, "{letter:?}");
        assert_eq!(
            (letter.class.as_str(), letter.stage.as_str()),
            ("permanent", "generator")
        );
    }
    assert_eq!(bench.completion(2).await.ending, Ending::Stop);
    assert!(dead::held(&bench.context).await.unwrap().is_empty());
    assert!(
        matches!(bench.retry(letters[0].sequence).await, Retried::NoEffect(reason) if reason.contains("completion"))
    );
    assert_eq!(
        bench.messages("DEAD").await,
        2,
        "a retry without effect keeps the letter"
    );
    assert!(matches!(bench.discard(letters[0].sequence).await, Dropped::Removed(reason) if reason.contains("stands")));
    assert_eq!(bench.messages("DEAD").await, 1);
    working.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_an_unknown_evaluation_is_buried_without_an_outcome() {
    let bench = bench().await;
    let stranger = ItemKey {
        evaluation: EvaluationId::from_digest(&Digest::of(b"nobody's")),
        ..key(0)
    };
    bench
        .put::<Released>(subject::ready(&group(), &stranger), b"not ours".to_vec())
        .await;
    let working = bench.generating();
    let letters = bench.letters(1).await;
    assert_eq!(bench.messages("DONE").await, 0);
    let retried = bench.retry(letters[0].sequence).await;
    assert!(matches!(retried, Retried::NoEffect(reason) if reason.contains("not known")));
    working.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_release_is_held_open_and_a_retry_brings_it_to_who_understands_it() {
    let bench = bench().await;
    bench.release_newer(0).await;
    let old = bench.generating();
    let letters = bench.letters(1).await;
    let known = <Release as tidemill_codec::Wire>::VERSION;
    for part in [
        format!("version {}", known + 1),
        format!("newest known: {known}"),
        "upgrade".to_owned(),
    ] {
        assert!(letters[0].reason.contains(&part), "{}", letters[0].reason);
    }
    assert!(letters[0].is_held && letters[0].class == "newer");
    assert_eq!(letters[0].failures, MOST_TIMES_LEFT);
    assert_eq!(bench.messages("DONE").await, 0);
    assert_eq!(dead::held(&bench.context).await.unwrap(), HashSet::from([key(0)]));
    let mut held = dead::Held::default();
    assert!(held.look_among(&bench.context, |key| key.item != 0).await.unwrap());
    assert!(held.items().is_empty(), "it is not asked about");
    assert!(!held.look(&bench.context).await.unwrap(), "no letter came or went");
    held.forget();
    assert!(held.look(&bench.context).await.unwrap());
    assert_eq!(*held.items(), HashSet::from([key(0)]));
    while bench.messages("READY").await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    old.end().await;

    let publisher = bench.context.publisher.clone();
    let upgraded = bench.working(soon(durable::generator(&group(), 8)), move |delivery| {
        let publisher = publisher.clone();
        async move {
            let key = subject::key_of(&delivery.subject).unwrap();
            assert_eq!(delivery.payload, newer(&release(key.item)), "the bytes as they came");
            publisher.publish(&completion(key.item), None).await?;
            Ok(())
        }
    });
    assert_eq!(bench.retry(letters[0].sequence).await, Retried::Published);
    assert_eq!(bench.completion(0).await.ending, Ending::Stop);
    assert_eq!(bench.messages("DEAD").await, 0);
    assert!(dead::held(&bench.context).await.unwrap().is_empty());
    upgraded.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_completion_is_delivered_once_more_and_doing_it_twice_is_doing_it_once() {
    let bench = bench().await;
    bench.done_newer(0, newer(&completion(0))).await;
    let grader = Durable {
        ack_wait: Duration::from_millis(600),
        ..durable::grader()
    };
    let old = bench.working(grader.clone(), |delivery| async move {
        tidemill_codec::decode::<Completion>(&delivery.payload)?;
        Ok(())
    });
    let letters = bench.letters(1).await;
    assert!(letters[0].is_held);
    old.end().await;
    let (letter, payload) = dead::letter(&bench.context, letters[0].sequence)
        .await
        .unwrap()
        .unwrap();
    // Two operators at once, or a command that was killed before the letter was deleted.
    for _ in 0..2 {
        assert_eq!(
            dead::retry(&bench.context, &letter, payload.clone()).await.unwrap(),
            Retried::Published
        );
    }
    assert_eq!(bench.messages("DONE").await, 2, "once behind the first one");
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let upgraded = bench.working(grader.clone(), move |delivery| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            assert_eq!(delivery.payload, newer(&completion(0)));
            Ok(())
        }
    });
    let settled = async {
        loop {
            let info = bench.consumer(&grader).await;
            let info = info.cached_info();
            if info.num_pending == 0 && info.num_ack_pending == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.expect("settled");
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    assert_eq!(bench.messages("DEAD").await, 0);
    upgraded.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_letter_ends_its_item_with_the_operators_reason() {
    let bench = bench().await;
    bench.release_newer(0).await;
    bench.done_newer(1, newer(&completion(1))).await;
    let generating = bench.generating();
    let grading = bench.working(soon(durable::grader()), |delivery| async move {
        tidemill_codec::decode::<Completion>(&delivery.payload)?;
        Ok(())
    });
    let letters = bench.letters(2).await;
    for letter in &letters {
        assert_eq!(bench.discard(letter.sequence).await, Dropped::Recorded);
    }
    let completion = bench.completion(0).await;
    assert_eq!(completion.ending, Ending::EngineError);
    let detail = completion.detail.unwrap();
    assert!(detail.contains("dropped by the operator: of no use"), "{detail}");
    let stream = bench.context.jetstream().get_stream("GRADE").await.unwrap();
    let grade = stream
        .get_last_raw_message_by_subject(&subject::grade(&key(1)))
        .await
        .unwrap();
    let grade: Grade = tidemill_codec::decode(&grade.payload).unwrap();
    assert_eq!(grade.outcome, Outcome::GraderError);
    assert!(grade.reason.unwrap().contains("dropped by the operator"));
    assert_eq!(bench.messages("DEAD").await, 0);
    generating.end().await;
    grading.end().await;
}

/// The objects of large letters.
fn bodies(bench: &Bench) -> usize {
    fn files(folder: &std::path::Path) -> usize {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return 0;
        };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
    }
    files(&bench.folder.path().join("dead"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_letters_bytes_go_with_the_last_letter_that_names_them() {
    let bench = bench().await;
    let mut large = newer(&completion(0));
    large.extend(vec![7; 300 << 10]);
    for item in 0..2 {
        bench.done_newer(item, large.clone()).await;
    }
    let grading = bench.working(soon(durable::grader()), |delivery| async move {
        tidemill_codec::decode::<Completion>(&delivery.payload)?;
        Ok(())
    });
    let letters = bench.letters(2).await;
    grading.end().await;
    assert_eq!(bodies(&bench), 2);
    // A second letter that names the bytes of the first.
    let jetstream = bench.context.jetstream();
    let stream = jetstream.get_stream("DEAD").await.unwrap();
    let first = stream.get_raw_message(letters[0].sequence).await.unwrap();
    let mut headers = first.headers.clone();
    headers.insert("Nats-Msg-Id", "another");
    let sent = jetstream.publish_with_headers(first.subject.clone(), headers, first.payload.clone());
    let copy = sent.await.unwrap().await.unwrap().sequence;
    bench.discard(letters[0].sequence).await;
    assert_eq!(bodies(&bench), 2, "the copy names it");
    bench.discard(copy).await;
    assert_eq!(bodies(&bench), 1);
    assert_eq!(bench.retry(letters[1].sequence).await, Retried::Published);
    assert_eq!((bodies(&bench), bench.messages("DEAD").await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_for_an_ended_evaluation_has_no_effect_and_says_so() {
    let bench = bench().await;
    bench.release_newer(0).await;
    let working = bench.generating();
    let letters = bench.letters(1).await;
    bench.announce(EvaluationState::Invalid).await;
    let retried = bench.retry(letters[0].sequence).await;
    assert!(matches!(retried, Retried::NoEffect(reason) if reason.contains("has ended (invalid)")));
    assert_eq!(bench.messages("DEAD").await, 1);
    working.end().await;
}

/// A consumer that delivers twice, and a handler that takes its process with it each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_delivered_no_more_is_seen_and_can_be_retried_or_dropped() {
    let bench = bench().await;
    let durable = Durable {
        max_deliver: 2,
        ..soon(durable::generator(&group(), 8))
    };
    for item in 0..2 {
        bench
            .release(item, tidemill_codec::encode(&release(item)).unwrap())
            .await;
    }
    let consumer = live::ensure(bench.context.jetstream(), &durable).await.unwrap();
    let taking = async {
        while bench.messages("DEAD").await < 2 {
            // Taken and never answered, as by processes that die of it.
            use futures::StreamExt as _;
            let mut batch = consumer
                .fetch()
                .max_messages(8)
                .expires(Duration::from_millis(200))
                .messages()
                .await
                .unwrap();
            while batch.next().await.is_some() {}
        }
    };
    tokio::time::timeout(PATIENCE, taking).await.expect("advisories");
    let letters = bench.letters(2).await;
    for letter in &letters {
        assert!(letter.is_advisory && letter.is_held, "{letter:?}");
        assert_eq!((letter.stage.as_str(), letter.deliveries), ("generator", 2));
        assert!(letter.reason.contains("delivered 2 times"), "{}", letter.reason);
    }
    let held: HashSet<ItemKey> = letters.iter().filter_map(Letter::key).collect();
    assert_eq!(held, HashSet::from([key(0), key(1)]));
    assert_eq!(dead::held(&bench.context).await.unwrap(), held);

    let (retried, dropped) = (&letters[0], &letters[1]);
    let working = bench.generating();
    assert_eq!(bench.retry(retried.sequence).await, Retried::Published);
    assert_eq!(bench.discard(dropped.sequence).await, Dropped::Recorded);
    let endings = [retried, dropped].map(|letter| letter.key().unwrap().item);
    assert_eq!(bench.completion(endings[0]).await.ending, Ending::Stop);
    assert_eq!(bench.completion(endings[1]).await.ending, Ending::EngineError);
    while bench.messages("READY").await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(bench.messages("DEAD").await, 0);
    working.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_durable_gets_the_declared_limit_and_keeps_its_place() {
    let bench = bench().await;
    for item in 0..4 {
        bench
            .done(item, tidemill_codec::encode(&completion(item)).unwrap())
            .await;
    }
    let (grader, js) = (durable::grader(), bench.context.jetstream());
    let unlimited = Durable {
        max_deliver: -1,
        ..grader.clone()
    };
    let consumer = live::ensure(js, &unlimited).await.unwrap();
    let mut batch = consumer.fetch().max_messages(3).messages().await.unwrap();
    use futures::StreamExt as _;
    for _ in 0..2 {
        batch.next().await.unwrap().unwrap().double_ack().await.unwrap();
    }
    let differences = live::plan(js, 1).await.unwrap();
    assert!(
        differences.iter().any(|difference| difference.field == "max_deliver"),
        "{differences:?}"
    );
    live::apply(js, 1).await.unwrap();
    assert!(live::plan(js, 1).await.unwrap().is_empty());
    let after = bench.consumer(&grader).await;
    let info = after.cached_info();
    assert_eq!(info.config.max_deliver, durable::MAX_DELIVER);
    assert_eq!(
        (info.ack_floor.stream_sequence, info.num_ack_pending, info.num_pending),
        (2, 1, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_that_were_lost_bring_a_message_no_nearer_to_its_end() {
    let bench = bench().await;
    bench.release(0, tidemill_codec::encode(&release(0)).unwrap()).await;
    let durable = soon(durable::generator(&group(), 8));
    // Preempted far more often than a message may fail.
    let given_back = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&given_back);
    let preempted = bench.working(durable.clone(), move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Err(Failure::cancelled()) }
    });
    while given_back.load(Ordering::SeqCst) < 10 * MOST_FAILURES as usize {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    preempted.end().await;
    // It fails once less than it may, in processes that come and go: the count outlives each of them.
    let deliveries = Arc::new(AtomicUsize::new(0));
    for failure in 1..MOST_FAILURES {
        let seen = Arc::clone(&deliveries);
        let failed = Arc::new(tokio::sync::Notify::new());
        let told = Arc::clone(&failed);
        let working = bench.working(durable.clone(), move |delivery| {
            seen.store(delivery.delivered as usize, Ordering::SeqCst);
            told.notify_one();
            async { panic!("once more") }
        });
        failed.notified().await;
        working.end().await;
        assert_eq!(bench.messages("DEAD").await, 0, "failure {failure}");
    }
    assert!(deliveries.load(Ordering::SeqCst) > 10 * MOST_FAILURES as usize);
    let bucket = bench.context.jetstream().get_key_value("tm_failures").await.unwrap();
    let counted = bucket.get("READY.1").await.unwrap().unwrap();
    assert_eq!(counted, (MOST_FAILURES - 1).to_string().as_bytes());
    let last = bench.working(durable, |_| async { panic!("once more") });
    let letters = bench.letters(1).await;
    assert_eq!((letters[0].failures, letters[0].class.as_str()), (MOST_FAILURES, "bug"));
    assert_eq!(bench.completion(0).await.ending, Ending::EngineError);
    last.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settling_that_waits_holds_up_no_other_messages_progress() {
    let bench = bench().await;
    let js = bench.context.jetstream();
    // Without its stream a dead letter waits.
    js.delete_stream("DEAD").await.unwrap();
    bench.release(0, b"not ours".to_vec()).await;
    bench.release(1, tidemill_codec::encode(&release(1)).unwrap()).await;
    let deliveries = Arc::new(AtomicUsize::new(0));
    let (counted, publisher) = (Arc::clone(&deliveries), bench.context.publisher.clone());
    let durable = soon(durable::generator(&group(), 8));
    let ack_wait = durable.ack_wait;
    let working = bench.working(durable, move |delivery| {
        let (counted, publisher) = (Arc::clone(&counted), publisher.clone());
        async move {
            let release: Release = tidemill_codec::decode(&delivery.payload)?;
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(4 * ack_wait).await;
            assert!(!delivery.stopped.is_cancelled());
            publisher.publish(&completion(release.key.item), None).await?;
            Ok(())
        }
    });
    assert_eq!(bench.completion(1).await.ending, Ending::Stop);
    assert_eq!(deliveries.load(Ordering::SeqCst), 1, "it was never delivered again");
    js.create_stream(declared::DEAD.config(1)).await.unwrap();
    assert_eq!(bench.letters(1).await.len(), 1);
    working.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_stopped_when_the_broker_cannot_be_told_of_it_and_comes_back_later() {
    let mut bench = bench().await;
    bench.release(0, tidemill_codec::encode(&release(0)).unwrap()).await;
    let tries = Arc::new(AtomicUsize::new(0));
    let begun = Arc::new(tokio::sync::Notify::new());
    let stopped = Arc::new(tokio::sync::Notify::new());
    let (counted, publisher) = (Arc::clone(&tries), bench.context.publisher.clone());
    let (says_begun, says_stopped) = (Arc::clone(&begun), Arc::clone(&stopped));
    let working = bench.working(soon(durable::generator(&group(), 8)), move |delivery| {
        let (first, publisher) = (counted.fetch_add(1, Ordering::SeqCst) == 0, publisher.clone());
        let (begun, stopped) = (Arc::clone(&says_begun), Arc::clone(&says_stopped));
        async move {
            if first {
                begun.notify_one();
                delivery.stopped.cancelled().await;
                stopped.notify_one();
                return Err(Failure::cancelled());
            }
            publisher.publish(&completion(0), None).await?;
            Ok(())
        }
    });
    begun.notified().await;
    bench.broker.kill().unwrap();
    tokio::time::timeout(PATIENCE, stopped.notified())
        .await
        .expect("the work is stopped");
    bench.broker.restart().unwrap();
    assert_eq!(bench.completion(0).await.ending, Ending::Stop);
    working.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_newer_format_is_refused_with_both_versions() {
    let bench = bench().await;
    let meta = bench.context.jetstream().get_key_value("tm_meta").await.unwrap();
    for found in ["2 (Tidemill 9.1.0)", "what is this"] {
        meta.put("format", found.into()).await.unwrap();
        let (broker, store) = (&bench.context.broker, &bench.context.store);
        let refused = prepare(broker, &Config::default(), store, false)
            .await
            .unwrap_err()
            .to_string();
        for part in [found, env!("CARGO_PKG_VERSION"), "knows format 1", "upgrade"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }
    assert!(!bench.broker.url().is_empty());
}
