//! The bare pipeline: release, completion, grade, result, by the same rules and on the same streams, and nothing else.
//!
//! Each hop has a connection of its own, takes with pulls for its free slots, stores its effect with "only if the subject is
//! empty", awaits that, and then acknowledges.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, ContextBuilder};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::PATIENCE;
use crate::latency::Latencies;

/// As many as Tidemill's generator keeps in flight.
const SLOTS: usize = 1_024;
/// As Tidemill's dispatcher.
const RELEASES_AT_ONCE: usize = 512;
const RELEASE_BYTES: usize = 150;
const GRADE_BYTES: usize = 300;
const RESULT_BYTES: usize = 2_000;
/// The rate at which latency is measured: nothing queues.
const CALM_RATE: u64 = 100;
const CALM_ITEMS: usize = 500;

/// Puts so many items through, as fast as it goes.
pub(crate) async fn run(url: &str, items: usize, completion_bytes: usize) -> Result<Duration> {
    let pipeline = Pipeline::start(url, completion_bytes).await?;
    let begun = Instant::now();
    let release = connect(url).await?;
    let releasing = stream::iter(0..items).map(|item| {
        let release = release.clone();
        async move { publish(&release, ready(item), stamped(begun, RELEASE_BYTES), false).await }
    });
    let released = releasing
        .buffer_unordered(RELEASES_AT_ONCE)
        .try_for_each(async |()| Ok(()));
    let (released, folded) = tokio::join!(released, timeout(PATIENCE, fold(url, items, begun)));
    released?;
    folded??;
    pipeline.stop();
    Ok(begun.elapsed())
}

/// The latency of each hop at a rate at which nothing queues: from the publish to the next one's hands.
pub(crate) async fn hops(url: &str, completion_bytes: usize) -> Result<Vec<(&'static str, Latencies)>> {
    let pipeline = Pipeline::start(url, completion_bytes).await?;
    let begun = pipeline.begun;
    let release = connect(url).await?;
    let releasing = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(1_000 / CALM_RATE));
        for item in 0..CALM_ITEMS {
            ticks.tick().await;
            publish(&release, ready(item), stamped(begun, RELEASE_BYTES), false).await?;
        }
        Ok::<(), anyhow::Error>(())
    };
    let (released, folded) = tokio::join!(releasing, timeout(PATIENCE, fold(url, CALM_ITEMS, begun)));
    released?;
    let third = folded??;
    let (first, second) = (pipeline.first.clone(), pipeline.second.clone());
    pipeline.stop();
    let taken = async |latencies: &Mutex<Latencies>| std::mem::take(&mut *latencies.lock().await);
    Ok(vec![
        ("release in the generator's hands", taken(&first).await),
        ("completion in the grader's hands", taken(&second).await),
        ("grade in the aggregator's hands", third),
    ])
}

/// The two middle hops, at work until stopped.
struct Pipeline {
    begun: Instant,
    first: Arc<Mutex<Latencies>>,
    second: Arc<Mutex<Latencies>>,
    hops: [JoinHandle<Result<()>>; 2],
}

impl Pipeline {
    async fn start(url: &str, completion_bytes: usize) -> Result<Self> {
        let begun = Instant::now();
        let (first, second) = <(Arc<Mutex<Latencies>>, Arc<Mutex<Latencies>>)>::default();
        let generator = connect(url).await?;
        let config = pull::Config {
            durable_name: Some("generator-bench".to_owned()),
            filter_subject: "tm.ready.bench.>".to_owned(),
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_secs(20),
            max_ack_pending: SLOTS as i64,
            max_waiting: 10_000,
            ..pull::Config::default()
        };
        let ready = generator.create_consumer_on_stream(config, "READY").await?;
        let grader = connect(url).await?;
        // The one that `streams apply` made.
        let done = grader
            .get_consumer_from_stream::<pull::Config, _, _>("grader", "DONE")
            .await?;
        let effect = move |subject: &str| (subject.replacen("tm.ready.bench", "tm.done", 1), completion_bytes);
        let graded = |subject: &str| (subject.replacen("tm.done", "tm.grade", 1), GRADE_BYTES);
        let hops = [
            tokio::spawn(hop(generator, ready, effect, begun, Arc::clone(&first))),
            tokio::spawn(hop(grader, done, graded, begun, Arc::clone(&second))),
        ];
        Ok(Self {
            begun,
            first,
            second,
            hops,
        })
    }

    fn stop(&self) {
        self.hops.iter().for_each(JoinHandle::abort);
    }
}

/// Takes, stores the effect, acknowledges.
async fn hop(
    js: jetstream::Context,
    consumer: PullConsumer,
    effect: impl Fn(&str) -> (String, usize) + Send + 'static,
    begun: Instant,
    latencies: Arc<Mutex<Latencies>>,
) -> Result<()> {
    let slots = Arc::new(Semaphore::new(SLOTS));
    let mut running = JoinSet::new();
    let mut messages = consumer.stream().max_messages_per_batch(SLOTS / 2).messages().await?;
    while let Some(message) = messages.next().await {
        let message = message?;
        latencies.lock().await.add(age(begun, &message.payload));
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let (js, (subject, bytes)) = (js.clone(), effect(&message.subject));
        running.spawn(async move {
            let _slot = slot;
            publish(&js, subject, stamped(begun, bytes), true).await?;
            message.ack().await.map_err(|error| anyhow!("{error}"))
        });
        while let Some(ended) = running.try_join_next() {
            ended??;
        }
    }
    Ok(())
}

/// Reads the grades from the beginning and publishes what they amount to once a second and at the end.
async fn fold(url: &str, items: usize, begun: Instant) -> Result<Latencies> {
    let js = connect(url).await?;
    let config = pull::OrderedConfig {
        filter_subject: "tm.grade.>".to_owned(),
        ..pull::OrderedConfig::default()
    };
    let consumer = js.create_consumer_on_stream(config, "GRADE").await?;
    let mut grades = consumer.messages().await?;
    let (mut latencies, mut published) = (Latencies::default(), Instant::now());
    for count in 1..=items {
        let grade = grades.next().await.context("the grades ended")??;
        latencies.add(age(begun, &grade.payload));
        if published.elapsed() > Duration::from_secs(1) || count == items {
            publish(&js, "tm.result.t.r.s.b".to_owned(), stamped(begun, RESULT_BYTES), false).await?;
            published = Instant::now();
        }
    }
    Ok(latencies)
}

async fn connect(url: &str) -> Result<jetstream::Context> {
    let client = async_nats::connect(url.split(',').collect::<Vec<_>>()).await?;
    Ok(ContextBuilder::new()
        .timeout(Duration::from_secs(30))
        .max_ack_inflight(4_000)
        .backpressure_on_inflight(true)
        .build(client))
}

async fn publish(js: &jetstream::Context, subject: String, payload: Bytes, first_write_wins: bool) -> Result<()> {
    let mut message = PublishMessage::build().payload(payload);
    if first_write_wins {
        message = message.expected_last_subject_sequence(0);
    }
    js.send_publish(subject, message).await?.await?;
    Ok(())
}

fn ready(item: usize) -> String {
    format!("tm.ready.bench.0123456789abcdef.0.{item}.0")
}

/// So many bytes that begin with the time.
fn stamped(begun: Instant, bytes: usize) -> Bytes {
    let now = begun.elapsed().as_nanos() as u64;
    let mut payload = now.to_le_bytes().to_vec();
    payload.resize(bytes, b'x');
    payload.into()
}

fn age(begun: Instant, payload: &[u8]) -> Duration {
    let stamp = payload.first_chunk().map_or(0, |stamp| u64::from_le_bytes(*stamp));
    begun.elapsed().saturating_sub(Duration::from_nanos(stamp))
}
