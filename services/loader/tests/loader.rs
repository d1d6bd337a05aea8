//! The loader against a real broker and a fake engine, without the other services.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::PullConsumer;
use futures::{StreamExt as _, TryStreamExt as _};
use tidemill_config::Config;
use tidemill_domain::{
    AnswerLength, CheckpointEvent, Class, Completion, Digest, Ending, EvaluationEvent, EvaluationState, GenerationKey,
    Grade, GroupId, ItemKey, Outcome, OutcomeCounts, Release, RolledBack, RunId, Served, ServerGroup, Step, Written,
};
use tidemill_loader::intake::Ahead;
use tidemill_loader::{Queued, Scope, claims, intake, run};
use tidemill_service::{Context, Ttl, connect, now, prepare};
use tidemill_storage::{Address, Store, cached_body};
use tidemill_streams::{CheckpointMessage, StateChange, buckets, declared, durable, live, subject};
use tidemill_testkit::{Broker, FakeEngine};
use tokio::time::{Instant, sleep};

const PATIENCE: Duration = Duration::from_secs(60);

const SUITE: &str = r#"
name = "sums"
version = "1"

[[benchmark]]
name = "exact"
data = "sums.jsonl"
id = "id"
prompt = "{{ a }}"
target = "{{ a }}"
max_tokens = 100
[benchmark.grader]
kind = "exact"
"#;

struct Bench {
    _broker: Broker,
    context: Context,
    folder: tempfile::TempDir,
}

impl Bench {
    async fn start() -> Self {
        let broker = Broker::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("suite.toml"), SUITE).unwrap();
        let rows: Vec<String> = (0..100)
            .map(|row| format!(r#"{{"id": "{row}", "a": "{row}"}}"#))
            .collect();
        std::fs::write(folder.path().join("sums.jsonl"), rows.join("\n")).unwrap();
        let mut config = Config::default();
        config.loader.max_in_flight = 4;
        let connection = connect(&config, &broker.url(), "test").await.unwrap();
        let store = Store::open(Address::of_folder(folder.path())).unwrap();
        prepare(&connection, &config, &store, true).await.unwrap();
        Self {
            _broker: broker,
            context: Context::new("loader", connection, store, Arc::new(config)),
            folder,
        }
    }

    fn load(&self) {
        tokio::spawn(run(self.context.clone(), Scope::All));
    }

    async fn announce(&self, engine: &FakeEngine, max_in_flight: Option<u32>) -> EvaluationEvent {
        self.queued(engine, max_in_flight).await.event
    }

    async fn queued(&self, engine: &FakeEngine, max_in_flight: Option<u32>) -> Queued {
        let written = Written {
            schema: 1,
            run: RunId::try_new("run").unwrap(),
            step: Step(2),
            uri: engine.url(),
            written_at: None,
            team: None,
            suites: vec![self.folder.path().join("suite.toml").display().to_string()],
            decision_value: None,
            model: Some(engine.model().to_owned()),
            replicas: Vec::new(),
            no_cache: false,
            max_in_flight,
        };
        let queued = intake::queue(&self.context, &written, Duration::ZERO).await.unwrap();
        queued[0].clone()
    }

    async fn value(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        let bucket = self.context.jetstream().get_key_value(bucket).await.unwrap();
        bucket.get(key).await.unwrap().map(Into::into)
    }

    async fn delete(&self, bucket: &str, key: &str) {
        let bucket = self.context.jetstream().get_key_value(bucket).await.unwrap();
        bucket.delete(key).await.unwrap();
    }

    /// Waits for a record of the group that is as wanted.
    async fn record(&self, group: &GroupId, wanted: impl Fn(&ServerGroup) -> bool) -> ServerGroup {
        let begun = Instant::now();
        loop {
            let bytes = self.value(buckets::GROUPS.name, group.as_str()).await;
            let record: Option<ServerGroup> = bytes.map(|bytes| serde_json::from_slice(&bytes).unwrap());
            if let Some(record) = record.filter(&wanted) {
                return record;
            }
            assert!(begun.elapsed() < PATIENCE, "no such record");
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn newest(&self, event: &EvaluationEvent) -> EvaluationEvent {
        let stream = self
            .context
            .jetstream()
            .get_stream(declared::EVALUATION.name)
            .await
            .unwrap();
        let filter = subject::evaluation_events(&event.evaluation);
        let message = stream.get_last_raw_message_by_subject(&filter).await.unwrap();
        serde_json::from_slice(&message.payload).unwrap()
    }

    async fn wait_for_state(&self, event: &EvaluationEvent, state: EvaluationState) -> EvaluationEvent {
        let begun = Instant::now();
        loop {
            let newest = self.newest(event).await;
            if newest.state == state {
                return newest;
            }
            assert!(begun.elapsed() < PATIENCE, "not {state:?}: {newest:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn wait_for_released(&self, wanted: impl Fn(u64) -> bool) {
        let begun = Instant::now();
        loop {
            let mut stream = self.context.jetstream().get_stream(declared::READY.name).await.unwrap();
            let released = stream.info().await.unwrap().state.messages;
            if wanted(released) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{released} released");
            sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_that_many_queue_at_once_begins_one_life() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    for (round, known) in [(0, 0), (1, 1)] {
        let queued = futures::future::join_all((0..16).map(|_| bench.queued(&engine, None))).await;
        let lives: std::collections::BTreeSet<_> = queued.iter().map(|queued| queued.event.life()).collect();
        assert_eq!(lives.len(), 1, "round {round}: {lives:?}");
        let new = queued.iter().filter(|queued| !queued.known).count();
        assert_eq!(new, 1, "round {round}");
        let event = &queued[0].event;
        let on = subject::evaluation(&event.evaluation, EvaluationState::Queued);
        let js = bench.context.jetstream();
        let stream = js.get_stream(declared::EVALUATION.name).await.unwrap();
        let mut subjects = stream.info_with_subjects(on).await.unwrap();
        let mut events = 0;
        while let Some(Ok((_, count))) = subjects.next().await {
            events += count;
        }
        assert_eq!(events, known + 1, "round {round}");
        // The next round opens it again.
        let superseded = event.next(EvaluationState::Superseded, tidemill_service::now(), None);
        let superseded = tidemill_streams::StateChange(superseded);
        bench.context.publisher.publish(&superseded, None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_lease_was_lost_is_served_again() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    bench.load();
    let event = bench.announce(&engine, None).await;
    let first = bench.record(&event.group, |_| true).await;
    bench
        .delete(buckets::LEASES.name, &format!("group.{}", event.group))
        .await;
    bench
        .record(&event.group, |record| record.updated > first.updated)
        .await;
    let lease = bench
        .value(buckets::LEASES.name, &format!("group.{}", event.group))
        .await;
    assert!(lease.is_some_and(|holder| !holder.is_empty()));
    bench.wait_for_state(&event, EvaluationState::Serving).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_overwritten_or_taken_away_is_written_again() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    bench.load();
    let event = bench.announce(&engine, None).await;
    let ours = bench.record(&event.group, |_| true).await;
    // As by a loader that stood still, came back, and did not know yet that its lease was lost.
    let mut stale = ours.clone();
    stale.replicas[0].url = "http://127.0.0.1:1".to_owned();
    let groups = bench.context.jetstream().get_key_value(buckets::GROUPS.name).await;
    let bytes = serde_json::to_vec(&stale).unwrap();
    groups.unwrap().put(event.group.as_str(), bytes.into()).await.unwrap();
    bench.record(&event.group, |record| *record == ours).await;
    bench.delete(buckets::GROUPS.name, event.group.as_str()).await;
    bench.record(&event.group, |record| *record == ours).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_cannot_be_opened_yet_keeps_its_evaluations() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    let event = bench.announce(&engine, None).await;
    let jetstream = bench.context.jetstream();
    jetstream.delete_key_value(buckets::GROUPS.name).await.unwrap();
    bench.load();
    // The consumer is made right before the record, which has no place: made twice means that opening failed and was tried again.
    let name = durable::generator(&event.group, 1).name;
    for _ in 0..2 {
        let begun = Instant::now();
        while jetstream
            .delete_consumer_from_stream(&name, declared::READY.name)
            .await
            .is_err()
        {
            assert!(begun.elapsed() < PATIENCE, "no consumer");
            sleep(Duration::from_millis(20)).await;
        }
    }
    let (broker, store) = (&bench.context.broker, &bench.context.store);
    prepare(broker, &bench.context.config, store, true).await.unwrap();
    bench.record(&event.group, |_| true).await;
    let serving = bench.wait_for_state(&event, EvaluationState::Serving).await;
    assert_eq!(serving.reason, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_follows_its_server_to_another_port_and_takes_another_limit() {
    let bench = Bench::start().await;
    let (first, second) = (FakeEngine::start().unwrap(), FakeEngine::start().unwrap());
    bench.load();
    let event = bench.announce(&first, None).await;
    let record = bench.record(&event.group, |_| true).await;
    assert_eq!(record.slots(), 4);
    bench.wait_for_released(|released| released == 8).await;
    first.set_down(true).unwrap();
    let moved = bench.announce(&second, None).await;
    assert_eq!(moved.evaluation, event.evaluation);
    bench
        .record(&event.group, |record| record.replicas[0].url == second.url())
        .await;
    bench.announce(&second, Some(7)).await;
    let record = bench.record(&event.group, |record| record.slots() == 7).await;
    assert_eq!(record.replicas[0].url, second.url());
    // What was out stays out, and the new slots are filled.
    bench.wait_for_released(|released| released == 14).await;
    assert_eq!(second.stats().requests, 1, "another limit needs no other warm-up");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_checkpoint_of_a_run_is_released_longest_first() {
    let bench = Bench::start().await;
    let (first, second) = (FakeEngine::start().unwrap(), FakeEngine::start().unwrap());
    bench.load();
    let before = bench.announce(&first, None).await;
    bench.record(&before.group, |_| true).await;
    let manifest = bench.context.store.manifest(&before.manifest).await.unwrap();
    // Item 60 is cut at the cap, and after it come 31, 32, 33: the others take a tenth of that.
    let tokens = |item: u32| match item {
        31..=33 => (90 - item).to_string(),
        60 => "100+".to_owned(),
        _ => "6".to_owned(),
    };
    for key in manifest.keys(&before.evaluation) {
        let mut headers = HeaderMap::new();
        headers.insert(AnswerLength::HEADER, tokens(key.item).as_str());
        let subject = subject::done(&key);
        let publisher = &bench.context.publisher;
        let published = publisher.publish_bytes::<Completion>(subject, Vec::new(), None, Ttl::Stream, headers);
        published.await.unwrap();
    }
    // The first evaluation is done, and its lengths are written.
    let lengths = bench
        .context
        .jetstream()
        .get_key_value(buckets::LENGTHS.name)
        .await
        .unwrap();
    let begun = Instant::now();
    let spread = buckets::spread_of_run(&before.run, &manifest.benchmarks[0].name);
    while lengths.get(&spread).await.unwrap().is_none() {
        assert!(begun.elapsed() < PATIENCE, "lengths are not written");
        sleep(Duration::from_millis(20)).await;
    }

    let mut written = bench.written(&second, &bench.file("suite.toml"));
    (written.step, written.max_in_flight) = (Step(3), None);
    let next = intake::queue(&bench.context, &written, Duration::ZERO).await.unwrap()[0]
        .event
        .clone();
    bench.record(&next.group, |_| true).await;
    let begun = Instant::now();
    let mut released = Vec::new();
    let (mut ready, mut sequence) = (
        bench
            .context
            .jetstream()
            .get_stream(declared::READY.name)
            .await
            .unwrap(),
        1,
    );
    // Eight are released at once, and their publishes may overtake each other.
    while released.len() < 8 {
        if sequence > ready.info().await.unwrap().state.last_sequence {
            assert!(begun.elapsed() < PATIENCE, "{released:?}");
            sleep(Duration::from_millis(20)).await;
            continue;
        }
        let message = ready.get_raw_message(sequence).await.unwrap();
        let release: Release = tidemill_codec::decode(&message.payload).unwrap();
        if release.key.evaluation == next.evaluation {
            released.push((release.key.item, release.expected_tokens));
        }
        sequence += 1;
    }
    released.sort_unstable_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
    let items: Vec<u32> = released[..4].iter().map(|(item, _)| *item).collect();
    assert_eq!(items, [60, 31, 32, 33], "{released:?}");
    assert!(
        (92..=108).contains(&released[0].1) && released[3].1 < 62,
        "{released:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_that_was_given_up_is_opened_again_by_its_announcement() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    let event = bench.announce(&engine, None).await;
    let given_up = event.next(EvaluationState::Draining, now(), Some("a reason".to_owned()));
    bench
        .context
        .publisher
        .publish(&StateChange(given_up), None)
        .await
        .unwrap();
    bench.load();
    bench.announce(&engine, None).await;
    bench.record(&event.group, |_| true).await;
    bench.wait_for_state(&event, EvaluationState::Serving).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_shorter_than_an_answer_ends_the_evaluation_with_both_lengths() {
    let bench = Bench::start().await;
    let engine = FakeEngine::builder().max_context(99).start().unwrap();
    bench.load();
    let event = bench.announce(&engine, None).await;
    let ended = bench.wait_for_state(&event, EvaluationState::Draining).await;
    let reason = ended.reason.unwrap();
    for part in [engine.url().as_str(), "99", "exact", "100"] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_not_there_ends_its_evaluation_with_the_reason_until_it_is_announced_again() {
    let mut bench = Bench::start().await;
    let mut config = (*bench.context.config).clone();
    config.loader.checkpoint_patience = Duration::ZERO;
    bench.context.config = Arc::new(config);
    bench.load();
    let engine = FakeEngine::start().unwrap();
    let mut written = bench.written(&engine, &bench.file("suite.toml"));
    written.uri = format!("file://{}/nowhere", bench.folder.path().display());
    let announced = CheckpointMessage(CheckpointEvent::Written(written.clone()));
    bench.context.publisher.publish(&announced, None).await.unwrap();
    let begun = Instant::now();
    let refused = loop {
        let stream = bench
            .context
            .jetstream()
            .get_stream(declared::EVALUATION.name)
            .await
            .unwrap();
        if let Ok(message) = stream.get_last_raw_message_by_subject("tm.evaluation.>").await {
            break serde_json::from_slice::<EvaluationEvent>(&message.payload).unwrap();
        }
        assert!(begun.elapsed() < PATIENCE, "the announcement left no trace");
        sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(
        (refused.state, &refused.run, refused.step),
        (EvaluationState::Draining, &written.run, written.step)
    );
    let reason = refused.reason.clone().unwrap();
    assert!(reason.contains("nowhere is not complete"), "{reason}");
    // Once more: it is the same evaluation, in a later life. Then where something is.
    bench.context.publisher.publish(&announced, None).await.unwrap();
    let again = loop {
        let newest = bench.newest(&refused).await;
        if newest.life() > refused.life() {
            break newest;
        }
        assert!(begun.elapsed() < PATIENCE, "not refused again");
        sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(again.reason, refused.reason);
    written.uri = engine.url();
    let queued = intake::queue(&bench.context, &written, Duration::ZERO).await.unwrap();
    assert_ne!(queued[0].event.evaluation, refused.evaluation);
    assert!(intake::has_checkpoint(&queued[0].event) && !intake::has_checkpoint(&refused));
    let taken_back = bench.wait_for_state(&refused, EvaluationState::Superseded).await;
    assert!(taken_back.reason.unwrap().contains("announced again"));
}

#[tokio::test(flavor = "multi_thread")]
async fn superseding_takes_back_what_was_released() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    bench.load();
    let event = bench.announce(&engine, None).await;
    bench.wait_for_released(|released| released == 8).await;
    let back = RolledBack {
        schema: 1,
        run: event.run.clone(),
        to_step: Step(1),
    };
    let message = CheckpointMessage(CheckpointEvent::RolledBack(back));
    bench.context.publisher.publish(&message, None).await.unwrap();
    bench.wait_for_state(&event, EvaluationState::Superseded).await;
    bench.wait_for_released(|released| released == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loader_that_starts_removes_what_ended_groups_left() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    let alive = bench.announce(&engine, None).await;
    let ended: GroupId = "0123456789abcdef".parse().unwrap();
    let groups = bench
        .context
        .jetstream()
        .get_key_value(buckets::GROUPS.name)
        .await
        .unwrap();
    groups.put(ended.as_str(), "{}".into()).await.unwrap();
    for group in [&ended, &alive.group] {
        live::ensure(bench.context.jetstream(), &durable::generator(group, 1))
            .await
            .unwrap();
    }
    bench.load();
    bench.record(&alive.group, |_| true).await;
    let ready = bench
        .context
        .jetstream()
        .get_stream(declared::READY.name)
        .await
        .unwrap();
    assert!(groups.get(ended.as_str()).await.unwrap().is_none());
    assert!(ready.consumer_info(durable::generator(&ended, 1).name).await.is_err());
    assert!(
        ready
            .consumer_info(durable::generator(&alive.group, 1).name)
            .await
            .is_ok()
    );
}

impl Bench {
    fn written(&self, engine: &FakeEngine, suite: &str) -> Written {
        Written {
            schema: 1,
            run: RunId::try_new("run").unwrap(),
            step: Step(2),
            uri: engine.url(),
            written_at: None,
            team: None,
            suites: vec![suite.to_owned()],
            decision_value: None,
            model: Some(engine.model().to_owned()),
            replicas: Vec::new(),
            no_cache: false,
            max_in_flight: None,
        }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    async fn queue(&self, engine: &FakeEngine, suite: &str) -> Result<EvaluationEvent, String> {
        let queued = intake::queue(&self.context, &self.written(engine, suite), Duration::ZERO).await;
        queued
            .map(|queued| queued[0].event.clone())
            .map_err(|error| error.to_string())
    }

    /// READY holds a release of the evaluation.
    async fn is_released(&self, event: &EvaluationEvent) -> bool {
        let ready = self.context.jetstream().get_stream(declared::READY.name).await.unwrap();
        let filter = subject::ready_of_evaluation(&event.group, &event.evaluation);
        ready.get_last_raw_message_by_subject(&filter).await.is_ok()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_waits_for_a_missing_block_while_another_goes_on() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    let waits = bench.announce(&engine, None).await;
    let manifest = bench.context.store.manifest(&waits.manifest).await.unwrap();
    let block = manifest.benchmarks[0].blocks[0].digest.clone();
    std::fs::write(
        bench.file("other.toml"),
        SUITE
            .replace("sums\"\nversion", "other\"\nversion")
            .replace("{{ a }}", "{{ a }}?"),
    )
    .unwrap();
    let other = bench.queue(&engine, &bench.file("other.toml")).await.unwrap();
    assert_eq!(other.group, waits.group, "one engine serves both");
    let path = bench.folder.path().join(format!("blocks/{}.zst", block.hex()));
    let kept = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bench.load();
    bench.wait_for_state(&other, EvaluationState::Serving).await;
    bench.wait_for_released(|released| released == 8).await;
    let newest = bench.newest(&waits).await;
    assert_eq!(newest.state, EvaluationState::Starting);
    let reason = newest.reason.unwrap();
    assert!(
        reason.contains(block.hex()) && reason.contains(waits.manifest.hex()),
        "{reason}"
    );
    assert!(bench.is_released(&other).await && !bench.is_released(&waits).await);
    std::fs::write(&path, kept).unwrap();
    let serving = bench.wait_for_state(&waits, EvaluationState::Serving).await;
    assert_eq!(serving.reason, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_manifest_is_waited_for() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    let event = bench.announce(&engine, None).await;
    let path = bench
        .folder
        .path()
        .join(format!("manifests/{}.zst", event.manifest.hex()));
    let kept = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // The bench's store keeps what it wrote.
    let store = Store::open(Address::of_folder(bench.folder.path())).unwrap();
    let mut context = bench.context.clone();
    context.store = store;
    tokio::spawn(run(context, Scope::All));
    let begun = Instant::now();
    while !bench
        .newest(&event)
        .await
        .reason
        .is_some_and(|reason| reason.contains(event.manifest.hex()))
    {
        assert!(begun.elapsed() < PATIENCE, "no reason");
        sleep(Duration::from_millis(50)).await;
    }
    bench.wait_for_released(|released| released == 0).await;
    std::fs::write(&path, kept).unwrap();
    bench.wait_for_state(&event, EvaluationState::Serving).await;
    bench.wait_for_released(|released| released == 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_and_version_stand_for_one_content() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    let first = bench.announce(&engine, None).await;
    let copy = bench.file("copy.toml");
    std::fs::write(&copy, SUITE.replace("max_tokens = 100", "max_tokens = 50")).unwrap();
    let refused = bench.queue(&engine, &copy).await.unwrap_err();
    for part in [
        "\"sums\"",
        "\"1\"",
        &bench.file("suite.toml"),
        &copy,
        "max_tokens 100 became 50",
        "raise `version`",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let stream = bench
        .context
        .jetstream()
        .get_stream(declared::EVALUATION.name)
        .await
        .unwrap();
    assert_eq!(stream.cached_info().state.messages, 1, "nothing was queued");
    let again = bench.announce(&engine, None).await;
    assert_eq!(again.evaluation, first.evaluation);
    std::fs::write(
        &copy,
        SUITE
            .replace("max_tokens = 100", "max_tokens = 50")
            .replace("\"1\"", "\"2\""),
    )
    .unwrap();
    let raised = bench.queue(&engine, &copy).await.unwrap();
    assert_ne!(raised.evaluation, first.evaluation);
    // Other rows are another content too.
    let rows = std::fs::read_to_string(bench.file("sums.jsonl")).unwrap();
    std::fs::write(bench.file("sums.jsonl"), rows.replace("\"a\": \"7\"", "\"a\": \"8\"")).unwrap();
    let refused = bench.queue(&engine, &bench.file("suite.toml")).await.unwrap_err();
    assert!(refused.contains("first of an item from 0 to 99"), "{refused}");
    // Of the first content nothing was ever generated: it may be corrected, and then the correction stands.
    let mut unusable = invalid(&first, 100);
    let result = unusable.result.as_mut().unwrap();
    result.benchmarks[0].completion_tokens = 0;
    bench
        .context
        .publisher
        .publish(&StateChange(unusable), None)
        .await
        .unwrap();
    let corrected = bench.queue(&engine, &bench.file("suite.toml")).await.unwrap();
    std::fs::write(bench.file("sums.jsonl"), rows).unwrap();
    let suite = bench.file("suite.toml");
    assert!(
        bench
            .queue(&engine, &suite)
            .await
            .unwrap_err()
            .contains("raise `version`"),
        "it may be generating"
    );
    let generated = StateChange(invalid(&corrected, 1));
    bench.context.publisher.publish(&generated, None).await.unwrap();
    assert!(
        bench
            .queue(&engine, &suite)
            .await
            .unwrap_err()
            .contains("raise `version`"),
        "it has generated"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_configured_files_of_one_name_are_refused_with_both() {
    let (mut bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    std::fs::write(bench.file("newer.toml"), SUITE.replace("\"1\"", "\"2\"")).unwrap();
    let mut config = Config::clone(&bench.context.config);
    // The folder holds both, and one of them is listed by itself too.
    config.loader.suites = vec![bench.folder.path().to_owned(), bench.file("suite.toml").into()];
    bench.context.config = Arc::new(config);
    let refused = bench.queue(&engine, "sums").await.unwrap_err();
    for part in [
        "2 suite files",
        "suite.toml (version 1)",
        "newer.toml (version 2)",
        "give the path",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    std::fs::remove_file(bench.file("newer.toml")).unwrap();
    bench.queue(&engine, "sums").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_no_completion_names_are_collected_and_no_other() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    let event = bench.announce(&engine, None).await;
    let store = &bench.context.store;
    let body = |item: u32, text: &str| {
        let mut completion = completion_of(&event, item);
        completion.text = text.repeat(100_000);
        completion
    };
    let check_in = async |completion: &Completion| {
        let message = tidemill_codec::encode(completion).unwrap();
        store.check_in::<Completion>(&completion.key, message).await.unwrap()
    };
    // Item 0: the winner's body and one of a slower attempt. Item 1: a body whose publish may still come.
    let (winner, loser, pending) = (body(0, "right"), body(0, "wrong"), body(1, "later"));
    let message = check_in(&winner).await;
    check_in(&loser).await;
    check_in(&pending).await;
    let publisher = &bench.context.publisher;
    publisher
        .publish_bytes::<Completion>(
            subject::done(&winner.key),
            message.clone(),
            None,
            Ttl::Stream,
            HeaderMap::new(),
        )
        .await
        .unwrap();
    let round = claims::collect(&bench.context, Duration::ZERO).await.unwrap();
    assert_eq!((round.looked, round.collected), (3, 1));
    assert!(round.bytes > 256 << 10);
    assert_eq!(store.check_out::<Completion>(&message).await.unwrap(), winner);
    // Ended, but young: its publish might be under way.
    let ended = event.next(EvaluationState::Invalid, now(), Some("a reason".to_owned()));
    publisher.publish(&StateChange(ended), None).await.unwrap();
    let round = claims::collect(&bench.context, Duration::from_secs(3600))
        .await
        .unwrap();
    assert_eq!((round.looked, round.collected), (2, 0));
    let round = claims::collect(&bench.context, Duration::ZERO).await.unwrap();
    assert_eq!((round.looked, round.collected), (2, 1));
    assert_eq!(store.check_out::<Completion>(&message).await.unwrap(), winner);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_round_removes_the_bodies_of_evicted_generations_once_they_are_old() {
    let bench = Bench::start().await;
    let store = &bench.context.store;
    let group = GroupId::from_digest(&Digest::of(b"weights"));
    let [kept, evicted, young] = ["aa", "bb", "cc"].map(|digits| digits.repeat(16).parse::<GenerationKey>().unwrap());
    for key in [&kept, &evicted, &young] {
        store.put(&cached_body(&group, key), b"body".to_vec()).await.unwrap();
    }
    let jetstream = bench.context.jetstream();
    let entry = jetstream
        .publish(subject::cache(&group, &kept), "an entry".into())
        .await;
    entry.unwrap().await.unwrap();
    let make_old = |key: &GenerationKey| {
        let path = bench.folder.path().join(cached_body(&group, key));
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(2 * 3600))
            .unwrap();
    };
    let left = async || {
        let bodies = store.cached_bodies(Some(&group)).await.unwrap();
        bodies
            .into_iter()
            .map(|body| body.key.to_string())
            .collect::<BTreeSet<_>>()
    };
    make_old(&kept);
    make_old(&evicted);
    claims::collect(&bench.context, Duration::ZERO).await.unwrap();
    assert_eq!(left().await, BTreeSet::from([kept.to_string(), young.to_string()]));
    make_old(&young);
    claims::collect(&bench.context, Duration::ZERO).await.unwrap();
    assert_eq!(left().await, BTreeSet::from([kept.to_string()]));
}

/// As the aggregator ends an evaluation, with so many samples missing.
fn invalid(event: &EvaluationEvent, missing: u64) -> EvaluationEvent {
    let mut ended = event.next(EvaluationState::Invalid, now(), Some("a reason".to_owned()));
    let outcomes = OutcomeCounts {
        correct: 100 - missing,
        missing,
        ..OutcomeCounts::default()
    };
    let benchmark = serde_json::json!({
        "name": "exact", "metric": "accuracy", "mean": null, "standard_error": null, "interval": null, "bounds": [0, 1],
        "items": 100, "samples": 100, "coverage": 0.0, "mean_excluding_truncated": null, "truncated_correct": 0,
        "outcomes": outcomes, "requests": 100, "cached": 0, "prompt_tokens": 100, "completion_tokens": 100,
    });
    let result = serde_json::json!({
        "schema": 1, "evaluation": event.evaluation, "state": "invalid", "run": event.run, "step": event.step,
        "team": event.team, "checkpoint": event.checkpoint, "suite": event.suite, "benchmarks": [benchmark],
        "timeline": event.timeline,
    });
    ended.result = Some(serde_json::from_value(result).unwrap());
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_evaluation_with_a_missing_grade_is_opened_again_and_that_completion_alone_is_graded_again() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    let event = bench.announce(&engine, None).await;
    let (context, publisher) = (&bench.context, &bench.context.publisher);
    for item in 0..100 {
        let completion = completion_of(&event, item);
        publisher.publish(&completion, None).await.unwrap();
        if item != 7 {
            publisher.publish(&grade_of(&completion), None).await.unwrap();
        }
    }
    publisher.publish(&StateChange(invalid(&event, 1)), None).await.unwrap();
    let again = bench.announce(&engine, None).await;
    assert_eq!(again.state, EvaluationState::Queued);
    assert_eq!(bench.newest(&event).await.state, EvaluationState::Queued);
    let jetstream = context.jetstream();
    let mut done = jetstream.get_stream(declared::DONE.name).await.unwrap();
    assert_eq!(done.cached_info().state.messages, 101);
    let last = done.get_raw_message(101).await.unwrap();
    let seventh = completion_of(&event, 7).key;
    assert_eq!(last.subject.as_str(), subject::done(&seventh));
    let first = done.get_raw_message(8).await.unwrap();
    assert_eq!(last.payload, first.payload);
    // Announced once more it is left to the graders while they have something to do, and brought back when they have not: as
    // after a loader that died between queueing it and that.
    bench.announce(&engine, None).await;
    assert_eq!(done.info().await.unwrap().state.messages, 101);
    let grader = durable::grader();
    live::ensure(jetstream, &grader).await.unwrap();
    let consumer: PullConsumer = done.get_consumer(&grader.name).await.unwrap();
    let mut messages = consumer.fetch().max_messages(101).messages().await.unwrap();
    while let Some(message) = messages.next().await {
        message.unwrap().double_ack().await.unwrap();
    }
    bench.announce(&engine, None).await;
    assert_eq!(done.info().await.unwrap().state.messages, 102);
    // It is one completion still.
    assert_eq!(tidemill_archive::completions(context, &event).await.unwrap(), 100);

    // With a grade for each it is as it ended, and stays so.
    publisher
        .publish(&grade_of(&completion_of(&event, 7)), None)
        .await
        .unwrap();
    publisher.publish(&StateChange(invalid(&again, 0)), None).await.unwrap();
    let again = bench.announce(&engine, None).await;
    assert_eq!(again.state, EvaluationState::Invalid);
    assert_eq!(done.info().await.unwrap().state.messages, 102);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_grader_failed_is_graded_again_and_no_engine_is_needed_for_it() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    let event = bench.announce(&engine, None).await;
    let (context, publisher) = (&bench.context, &bench.context.publisher);
    for item in 0..100 {
        let completion = completion_of(&event, item);
        publisher.publish(&completion, None).await.unwrap();
        let outcome = match item {
            3 => Outcome::GraderError,
            4 => Outcome::Ungraded,
            _ => Outcome::Correct,
        };
        let grade = Grade {
            outcome,
            ..grade_of(&completion)
        };
        publisher.publish(&grade, None).await.unwrap();
    }
    let mut ended = invalid(&event, 0);
    let outcomes = &mut ended.result.as_mut().unwrap().benchmarks[0].outcomes;
    (outcomes.correct, outcomes.grader_error, outcomes.ungraded) = (98, 1, 1);
    publisher.publish(&StateChange(ended), None).await.unwrap();
    engine.set_down(true).unwrap();
    let again = bench.queued(&engine, None).await;
    assert_eq!((again.event.state, again.known), (EvaluationState::Queued, false));
    assert_eq!((again.again, again.graded_again), (0, 2));
    let mut grades = context.jetstream().get_stream(declared::GRADE.name).await.unwrap();
    assert_eq!(grades.info().await.unwrap().state.messages, 98);
    let done = context.jetstream().get_stream(declared::DONE.name).await.unwrap();
    for (sequence, item) in [(101, 3), (102, 4)] {
        let brought = done.get_raw_message(sequence).await.unwrap();
        assert_eq!(
            brought.subject.as_str(),
            subject::done(&completion_of(&event, item).key)
        );
    }
    // The engine is gone, and nothing is asked of it: what is graded is folded all the same.
    bench.load();
    let serving = bench.wait_for_state(&event, EvaluationState::Serving).await;
    assert!(serving.life() > event.life());
    assert_eq!(engine.stats().requests, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_in_a_bucket_is_refused_with_its_key_and_what_to_do() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    let event = bench.announce(&engine, None).await;
    let written = bench.written(&engine, &bench.file("suite.toml"));
    let refusal = async |key: &str, bucket: &str| {
        let bytes = bench.value(bucket, key).await;
        let jetstream = bench.context.jetstream();
        let store = jetstream.get_key_value(bucket).await.unwrap();
        store.put(key, "{garbage".into()).await.unwrap();
        let refused = intake::queue(&bench.context, &written, Duration::ZERO)
            .await
            .unwrap_err();
        assert_eq!(refused.class(), Class::Permanent);
        let reason = refused.to_string();
        assert!(reason.contains(&format!("nats kv del {bucket} {key}")), "{reason}");
        match bytes {
            Some(bytes) => drop(store.put(key, bytes.into()).await.unwrap()),
            None => store.delete(key).await.unwrap(),
        }
    };
    let suites = bench.context.jetstream().get_key_value(buckets::SUITES.name).await;
    let keys: Vec<String> = suites.unwrap().keys().await.unwrap().try_collect().await.unwrap();
    assert_eq!(keys.len(), 1);
    refusal(&keys[0], buckets::SUITES.name).await;
    let publisher = &bench.context.publisher;
    publisher.publish(&StateChange(invalid(&event, 0)), None).await.unwrap();
    refusal(event.evaluation.as_str(), buckets::ARCHIVE.name).await;
    let again = intake::queue(&bench.context, &written, Duration::ZERO).await.unwrap();
    assert_eq!(again[0].event.evaluation, event.evaluation);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suite_that_was_rendered_ahead_makes_the_same_evaluation_and_one_that_was_not_stored_is_rendered_again() {
    let (bench, engine) = (Bench::start().await, FakeEngine::start().unwrap());
    let written = bench.written(&engine, &bench.file("suite.toml"));
    let (context, config) = (&bench.context, &bench.context.config.loader);
    let queue = async |ahead| intake::queue_rendered(context, &written, Duration::ZERO, ahead).await;

    // A folder that is no store takes nothing.
    let nowhere = Store::open(Address::of_folder(&bench.folder.path().join("nowhere"))).unwrap();
    std::fs::remove_dir_all(bench.folder.path().join("nowhere")).unwrap();
    std::fs::write(bench.folder.path().join("nowhere"), "").unwrap();
    let first = queue(Ahead::begin(&nowhere, config, &written.suites)).await.unwrap();
    let manifest = context.store.manifest(&first[0].event.manifest).await.unwrap();
    assert_eq!(manifest.samples(), first[0].event.samples);

    let second = queue(Ahead::begin(&context.store, config, &written.suites))
        .await
        .unwrap();
    assert!(second[0].known);
    assert_eq!(second[0].event, first[0].event);

    std::fs::write(bench.folder.path().join("suite.toml"), "name = 1").unwrap();
    let wrong = queue(Ahead::begin(&context.store, config, &written.suites))
        .await
        .unwrap_err();
    assert_eq!(wrong.class(), Class::Permanent, "{wrong}");
}

fn grade_of(completion: &Completion) -> Grade {
    Grade {
        key: completion.key.clone(),
        outcome: Outcome::Correct,
        score: 1.0,
        score_before_cut: None,
        extracted: None,
        grader: "exact".to_owned(),
        reason: None,
        truncated: false,
        cut_in_reasoning: false,
        replaced: false,
        prompt_tokens: 1,
        completion_tokens: 1,
        requests: 1,
        cached: false,
        served: Served::default(),
        started: completion.started,
        finished: completion.finished,
        graded: now(),
        extractor: None,
        span: None,
        canonical: None,
        measures: Vec::new(),
        judge: None,
    }
}

fn completion_of(event: &EvaluationEvent, item: u32) -> Completion {
    Completion {
        key: ItemKey {
            evaluation: event.evaluation.clone(),
            benchmark: 0,
            item,
            sample: 0,
        },
        manifest: event.manifest.clone(),
        ending: Ending::Stop,
        text: String::new(),
        reasoning: None,
        finish_reason: None,
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
        generation: None,
        engine: String::new(),
        started: now(),
        finished: now(),
    }
}
