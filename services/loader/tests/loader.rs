//! The loader against a real broker and a fake engine, without the other services.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::sync::Arc;
use std::time::Duration;

use tidemill_config::Config;
use tidemill_domain::{
    CheckpointEvent, EvaluationEvent, EvaluationState, GroupId, RolledBack, RunId, ServerGroup, Step, Written,
};
use tidemill_loader::{Scope, intake, run};
use tidemill_service::{Context, connect, now, prepare};
use tidemill_storage::{Address, Store};
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
        queued[0].event.clone()
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
