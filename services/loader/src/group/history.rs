//! The lengths of earlier answers: read when an evaluation is taken up, written as its completions land.
//!
//! They lie under the digests of blocks, so that the next checkpoint's evaluation, whose items lie in the same blocks, finds them,
//! and so does one of another suite or version that shares a block. Nothing here is needed for a result: what cannot be read
//! or written costs order alone.

use std::time::Duration;

use async_nats::jetstream::kv::Store as Bucket;
use futures::{StreamExt as _, stream};
use tidemill_codec::Wire;
use tidemill_domain::{
    Benchmark, Digest, EvaluationId, Expectation, Known, Lengths, Manifest, RunId, Spread, expectation,
};
use tidemill_service::Context;
use tidemill_storage::Store;
use tidemill_streams::buckets;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::Runner;
use crate::dispatch::Learned;

/// How often what was learnt is written.
const WRITE_EVERY: Duration = Duration::from_secs(10);

/// How long the end of serving waits for what was learnt to be written.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// How long an evaluation waits for what is known before it begins without.
const READ_WITHIN: Duration = Duration::from_secs(20);

/// Blocks of which something is read, or written, at once.
const AT_ONCE: usize = 64;

/// What was written last, and the writes that are under way.
#[derive(Debug, Default)]
pub(super) struct History {
    written: Option<Instant>,
    writing: JoinSet<()>,
}

/// What is expected of the items of each benchmark of a manifest, by what earlier checkpoints of the run took.
pub(super) async fn expected(context: &Context, run: &RunId, manifest: &Manifest) -> Vec<Expectation> {
    let reading = async {
        let bucket = bucket(context).await;
        let mut expectations = Vec::with_capacity(manifest.benchmarks.len());
        for benchmark in &manifest.benchmarks {
            expectations.push(of_benchmark(context, bucket.as_ref(), run, benchmark).await);
        }
        expectations
    };
    timeout(READ_WITHIN, reading).await.unwrap_or_else(|_| {
        tracing::warn!("what is known of lengths is not read in time; the order is that of a first checkpoint");
        Vec::new()
    })
}

async fn bucket(context: &Context) -> Option<Bucket> {
    match context.jetstream().get_key_value(buckets::LENGTHS.name).await {
        Ok(bucket) => Some(bucket),
        Err(error) => {
            tracing::warn!(%error, "earlier lengths are not known");
            None
        }
    }
}

async fn of_benchmark(context: &Context, bucket: Option<&Bucket>, run: &RunId, benchmark: &Benchmark) -> Expectation {
    // Each look owns what it needs: a future that is sent elsewhere may not borrow through a closure.
    let looks: Vec<_> = benchmark
        .blocks
        .iter()
        .enumerate()
        .map(|(index, block)| {
            let lengths = bucket.filter(|_| !benchmark.is_likelihood()).cloned();
            let keys = [
                buckets::lengths_of_run(run, &block.digest),
                buckets::lengths(&block.digest),
            ];
            let outline = benchmark.outlines.get(index).cloned();
            known(context.store.clone(), lengths, keys, outline)
        })
        .collect();
    let blocks: Vec<Known> = stream::iter(looks).buffered(AT_ONCE).collect().await;
    let spread = match bucket {
        Some(bucket) => get::<Spread>(bucket, &buckets::spread_of_run(run, &benchmark.name)).await,
        None => None,
    };
    expectation(benchmark, &blocks, spread.as_ref())
}

/// What is known of a block: under the keys of its run's lengths and of anybody's, and in its outline.
async fn known(store: Store, bucket: Option<Bucket>, keys: [String; 2], outline: Option<Digest>) -> Known {
    let [own, others] = keys;
    let read = async {
        match outline {
            Some(digest) => store
                .outline(&digest)
                .await
                .inspect_err(|error| tracing::debug!(%error, "an outline is not read"))
                .ok(),
            None => None,
        }
    };
    let Some(bucket) = bucket else {
        return Known {
            outline: read.await,
            ..Known::default()
        };
    };
    let (own, others, outline) = futures::join!(get(&bucket, &own), get(&bucket, &others), read);
    Known { own, others, outline }
}

/// A value of the bucket; `None` also where it cannot be read.
async fn get<T: Wire>(bucket: &Bucket, key: &str) -> Option<T> {
    match bucket.get(key).await {
        Ok(bytes) => decoded(&bytes?, key),
        Err(error) => {
            tracing::debug!(key, %error, "lengths are not read");
            None
        }
    }
}

fn decoded<T: Wire>(bytes: &[u8], key: &str) -> Option<T> {
    tidemill_codec::decode(bytes)
        .inspect_err(|error| tracing::warn!(key, %error, "lengths cannot be read; they are learnt anew"))
        .ok()
}

/// Adds what was learnt to what is known.
async fn write(context: Context, run: RunId, learned: Learned) {
    let Some(bucket) = bucket(&context).await else { return };
    let blocks = learned.blocks.into_iter();
    let writes: Vec<_> = blocks
        .map(|block| {
            let keys = [
                buckets::lengths_of_run(&run, &block.digest),
                buckets::lengths(&block.digest),
            ];
            merge(bucket.clone(), keys, block.lengths)
        })
        .collect();
    stream::iter(writes).buffer_unordered(AT_ONCE).collect::<()>().await;
    for (name, spread) in &learned.spreads {
        put(&bucket, &buckets::spread_of_run(&run, name), spread).await;
    }
}

/// Adds lengths to those under each key: what these do not know of stays.
async fn merge(bucket: Bucket, keys: [String; 2], lengths: Lengths) {
    for key in keys {
        let merged = match get::<Lengths>(&bucket, &key).await {
            Some(known) => known.with_newer(&lengths),
            None => lengths.clone(),
        };
        put(&bucket, &key, &merged).await;
    }
}

async fn put<T: Wire>(bucket: &Bucket, key: &str, value: &T) {
    let put = match tidemill_codec::encode(value) {
        Ok(bytes) => bucket
            .put(key, bytes.into())
            .await
            .map(drop)
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(reason) = put {
        tracing::debug!(
            key,
            reason,
            "lengths are not written; the next checkpoint's order is the worse for it"
        );
    }
}

impl Runner {
    /// Writes what was learnt, when that was a while ago, beside everything else.
    pub(super) fn keep_lengths_now_and_then(&mut self) {
        while self.history.writing.try_join_next().is_some() {}
        let is_due = self
            .history
            .written
            .is_none_or(|written| written.elapsed() >= WRITE_EVERY);
        if is_due && self.history.writing.is_empty() {
            self.history.written = Some(Instant::now());
            self.write_lengths();
        }
    }

    fn write_lengths(&mut self) {
        for event in self.live.clone() {
            self.keep_lengths_of(&event.evaluation, &event.run);
        }
    }

    /// Begins to write what was learnt of an evaluation.
    pub(super) fn keep_lengths_of(&mut self, evaluation: &EvaluationId, run: &RunId) {
        let learned = self.dispatcher.learnt(evaluation);
        if !learned.blocks.is_empty() {
            let writing = write(self.context.clone(), run.clone(), learned);
            self.history.writing.spawn(writing);
        }
    }

    /// Writes what was learnt of all evaluations, and waits for it: serving ends.
    pub(super) async fn keep_lengths(&mut self) {
        self.write_lengths();
        let writing = std::mem::take(&mut self.history.writing);
        if timeout(LAST_WRITE, writing.join_all()).await.is_err() {
            tracing::debug!(group = %self.group, "what was learnt of lengths is not written in time");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidemill_config::Config;
    use tidemill_domain::{BlockRef, Outline, length_class};
    use tidemill_service::{connect, prepare};
    use tidemill_storage::Address;
    use tidemill_testkit::Broker;

    use super::*;
    use crate::dispatch::LearnedBlock;
    use crate::dispatch::tests::manifest_of;

    const ITEMS: u32 = 40;

    fn run(name: &str) -> RunId {
        RunId::try_new(name).unwrap()
    }

    /// Lengths of the items of a block whose answers came, a different one for each.
    fn learned(digest: &Digest, came: impl Fn(u32) -> bool, class: impl Fn(u32) -> u8) -> Learned {
        let mut lengths = Lengths::unknown(ITEMS as usize);
        let items = (0..ITEMS).filter(|item| came(*item));
        items.for_each(|item| lengths.set(item as usize, class(item), false));
        Learned {
            blocks: vec![LearnedBlock {
                digest: digest.clone(),
                lengths,
            }],
            spreads: Vec::new(),
        }
    }

    #[tokio::test]
    async fn what_one_checkpoint_took_is_expected_of_the_next() {
        let (broker, folder) = (Broker::start().unwrap(), tempfile::tempdir().unwrap());
        let config = Config::default();
        let connection = connect(&config, &broker.url(), "test").await.unwrap();
        let store = Store::open(Address::of_folder(folder.path())).unwrap();
        prepare(&connection, &config, &store, true).await.unwrap();
        let context = Context::new("loader", connection, store, Arc::new(config));
        let mut manifest = manifest_of(&[("b", ITEMS, 1, 4_000)]);
        let digest = Digest::of(b"block");
        let block = BlockRef {
            digest: digest.clone(),
            end: ITEMS,
        };
        manifest.benchmarks[0].blocks = vec![block];
        let (ours, theirs) = (run("ours/*"), run("theirs"));
        assert_eq!(expected(&context, &ours, &manifest).await, [Expectation::default()]);

        // An outline is all that is known of the first checkpoint's items.
        let outline = Outline {
            prompts: vec![40; ITEMS as usize],
            prefixes: vec![7; ITEMS as usize],
        };
        let mut writer = context.store.block_writer();
        manifest.benchmarks[0].outlines = vec![writer.outline(&outline).await.unwrap()];
        writer.finish().await.unwrap();
        let first = expected(&context, &ours, &manifest).await.remove(0);
        let cap = length_class(4_000);
        assert_eq!(
            (first.known, &first.classes[..2], first.prefixes.of(0)),
            (0, &[cap, cap][..], 7)
        );

        // Written in two parts, of which the second does not know of the first.
        let class = |item: u32| 20 + item as u8;
        write(
            context.clone(),
            ours.clone(),
            learned(&digest, |item| item % 2 == 0, class),
        )
        .await;
        write(
            context.clone(),
            ours.clone(),
            learned(&digest, |item| item % 2 == 1 && item < 30, class),
        )
        .await;
        let own = expected(&context, &ours, &manifest).await.remove(0);
        assert_eq!(own.known, 35);
        assert!(
            (0..30).all(|item| own.classes[item as usize] == class(item)),
            "{:?}",
            own.classes
        );

        // Another run has the items' ranks, and reads them on its own distribution once it has one.
        let other = expected(&context, &theirs, &manifest).await.remove(0);
        assert_eq!((other.known, other.classes[4]), (0, class(4)));
        let mut counts = [0; 256];
        (100..140).for_each(|class| counts[class] = 1);
        let spread = Spread::of(&counts).unwrap();
        let learned = Learned {
            blocks: Vec::new(),
            spreads: vec![(manifest.benchmarks[0].name.clone(), spread)],
        };
        write(context.clone(), theirs.clone(), learned).await;
        manifest.benchmarks[0].settings.max_tokens = 1_000_000;
        let other = expected(&context, &theirs, &manifest).await.remove(0);
        assert!(
            (100..105).contains(&other.classes[0]) && (125..140).contains(&other.classes[28]),
            "{:?}",
            other.classes
        );
    }
}
