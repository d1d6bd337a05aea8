//! What a run left in the streams.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use async_nats::jetstream::{self, consumer::pull};
use futures::StreamExt as _;
use serde_json::Value;

use super::work::Sample;

/// The messages of one evaluation.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Completions: how many of each sample, and when the first was stored.
    pub(super) done: Stored,
    /// Grades, likewise.
    pub(super) graded: Stored,
    /// EVALUATION `final` and `invalid` messages.
    pub(super) ends: usize,
    /// Last results of each benchmark.
    pub(super) last_results: HashMap<String, usize>,
    /// Dead letters.
    pub(super) dead: usize,
}

/// First-write-wins messages by their sample.
#[derive(Debug, Default)]
pub(super) struct Stored(HashMap<Sample, (usize, SystemTime)>);

impl Stored {
    /// Different samples.
    pub(super) fn samples(&self) -> u64 {
        self.0.len() as u64
    }

    /// Messages beyond one a sample.
    pub(super) fn repeats(&self) -> u64 {
        self.0.values().map(|(count, _)| *count as u64 - 1).sum()
    }

    /// When the sample was first stored.
    pub(super) fn time(&self, sample: &Sample) -> Option<SystemTime> {
        self.0.get(sample).map(|(_, time)| *time)
    }

    fn note(&mut self, subject: &str, time: SystemTime) {
        if let Some(sample) = Sample::of_subject(subject) {
            let (count, first) = self.0.entry(sample).or_insert((0, time));
            *count += 1;
            *first = time.min(*first);
        }
    }
}

/// Reads what an evaluation left on the broker at `url`.
///
/// # Errors
/// When the broker does not answer.
pub(super) fn read(url: &str, evaluation: &str) -> Result<Evidence> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let jetstream = jetstream::new(async_nats::connect(url).await?);
        let mut evidence = Evidence::default();
        each(
            &jetstream,
            "DONE",
            &format!("tm.done.{evaluation}.>"),
            true,
            |subject, time, _| {
                evidence.done.note(subject, time);
            },
        )
        .await?;
        each(
            &jetstream,
            "GRADE",
            &format!("tm.grade.{evaluation}.>"),
            true,
            |subject, time, _| {
                evidence.graded.note(subject, time);
            },
        )
        .await?;
        for state in ["final", "invalid"] {
            let filter = format!("tm.evaluation.{evaluation}.{state}");
            each(&jetstream, "EVALUATION", &filter, true, |_, _, _| evidence.ends += 1).await?;
        }
        each(&jetstream, "RESULT", "tm.result.>", false, |subject, _, payload| {
            let told: Value = serde_json::from_slice(payload).unwrap_or_default();
            if told["provisional"] == false {
                *evidence.last_results.entry(subject.to_owned()).or_default() += 1;
            }
        })
        .await?;
        each(&jetstream, "DEAD", "tm.dead.>", true, |_, _, _| evidence.dead += 1).await?;
        Ok(evidence)
    })
}

/// Hands over every message that is there.
async fn each(
    jetstream: &jetstream::Context,
    stream: &str,
    filter: &str,
    headers_only: bool,
    mut take: impl FnMut(&str, SystemTime, &[u8]),
) -> Result<()> {
    let config = pull::OrderedConfig {
        filter_subject: filter.to_owned(),
        headers_only,
        ..pull::OrderedConfig::default()
    };
    let consumer = jetstream.create_consumer_on_stream(config, stream).await?;
    let mut left = consumer.cached_info().num_pending;
    let mut messages = consumer.messages().await?;
    while left > 0 {
        let next = tokio::time::timeout(Duration::from_secs(60), messages.next()).await;
        let message = next.with_context(|| format!("{stream} fell silent with {left} messages left"))?;
        let message = message.context("the reader ended")??;
        let info = message.info().map_err(|error| anyhow::anyhow!("{error}"))?;
        let (time, pending) = (SystemTime::from(info.published), info.pending);
        take(message.subject.as_str(), time, &message.payload);
        left = pending;
    }
    Ok(())
}

/// Waits until the broker has received `count` acknowledgements.
///
/// # Errors
/// When the broker does not answer.
pub(super) fn await_acks(url: &str, count: u64, patience: Duration) -> Result<()> {
    runtime()?.block_on(async {
        let client = async_nats::connect(url).await?;
        let acks = client.subscribe("$JS.ACK.>").await?;
        client.flush().await?;
        let seen = acks.take(usize::try_from(count)?).count();
        // Fewer come when the work ends; the moment is as good as another.
        tokio::time::timeout(patience, seen).await.ok();
        Ok(())
    })
}

/// Publishes bytes and waits until they are stored.
///
/// # Errors
/// When the broker does not answer.
pub(super) fn publish(url: &str, subject: &'static str, payload: &'static [u8]) -> Result<()> {
    runtime()?.block_on(async {
        let jetstream = jetstream::new(async_nats::connect(url).await?);
        jetstream.publish(subject, payload.into()).await?.await?;
        Ok(())
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// The evaluation that has ended, if one has.
///
/// # Errors
/// When the broker does not answer.
pub(super) fn ended(url: &str) -> Result<Option<String>> {
    runtime()?.block_on(async {
        let jetstream = jetstream::new(async_nats::connect(url).await?);
        let stream = jetstream.get_stream("EVALUATION").await?;
        for state in ["final", "invalid"] {
            let last = stream
                .get_last_raw_message_by_subject(&format!("tm.evaluation.*.{state}"))
                .await;
            if let Ok(message) = last {
                return Ok(message.subject.split('.').nth(2).map(str::to_owned));
            }
        }
        Ok(None)
    })
}

/// Messages that a stream holds.
///
/// # Errors
/// When the broker does not answer.
pub(super) fn messages(url: &str, stream: &str) -> Result<u64> {
    runtime()?.block_on(async {
        let jetstream = jetstream::new(async_nats::connect(url).await?);
        let mut stream = jetstream.get_stream(stream).await?;
        Ok(stream.info().await?.state.messages)
    })
}
