//! The lengths of earlier answers: read when an evaluation is taken up, written as its completions land.
//!
//! They lie under the digests of blocks, so that the next checkpoint's evaluation, whose items lie in the same blocks, finds them,
//! and so does one of another suite or version that shares a block. Nothing here is needed for a result: what cannot be read
//! or written costs order alone.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::kv::Store as Bucket;
use futures::{StreamExt as _, stream};
use tidemill_codec::Wire;
use tidemill_domain::{
    Benchmark, Digest, EvaluationId, Expectation, Known, Lengths, Manifest, Outline, RunId, Spread, expectation,
};
use tidemill_service::Context;
use tidemill_storage::Store;
use tidemill_streams::buckets;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::Runner;
use crate::dispatch::Learned;

/// How often what was learnt is written.
const WRITE_EVERY: Duration = Duration::from_secs(10);

/// How long the end of serving waits for what was learnt to be written.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// How long a look may take: what it did not read by then is unknown. An evaluation waits for the first one alone; another
/// one follows where it did not read all.
const LOOKS: [Duration; 2] = [Duration::from_millis(1_500), Duration::from_secs(20)];

/// How long an evaluation waits for what is known before it begins without.
pub(super) const BEGIN_WITHIN: Duration = Duration::from_secs(2);

/// Blocks of which something is read, or written, at once.
const AT_ONCE: usize = 64;

/// Evaluations of which something was read that may wait for the dispatcher: more are taken up in one look seldom.
const HEARD: usize = 64;

/// What was written last, and the reads and writes that are under way.
#[derive(Debug)]
pub(super) struct History {
    written: Option<Instant>,
    writing: JoinSet<Result<(), String>>,
    /// It was said that writing fails.
    has_failed: bool,
    reading: JoinSet<()>,
    say: Sender<Expected>,
    heard: Receiver<Expected>,
}

impl Default for History {
    fn default() -> Self {
        let (say, heard) = mpsc::channel(HEARD);
        Self {
            written: None,
            writing: JoinSet::new(),
            has_failed: false,
            reading: JoinSet::new(),
            say,
            heard,
        }
    }
}

/// What is expected of the items of an evaluation, benchmark by benchmark.
#[derive(Debug)]
pub(super) struct Expected {
    evaluation: EvaluationId,
    expectations: Vec<Expectation>,
}

impl History {
    /// What was read of an evaluation.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Option<Expected> {
        self.heard.recv().await
    }

    /// Looks at the writes that ended, and says once that they fail.
    fn look_at_writes(&mut self) {
        while let Some(written) = self.writing.try_join_next() {
            if let Ok(written) = written {
                self.note_written(written);
            }
        }
    }

    /// Returns whether this is the first failure since a write went well, which is said.
    fn note_written(&mut self, written: Result<(), String>) -> bool {
        let Err(reason) = written else {
            self.has_failed = false;
            return false;
        };
        if std::mem::replace(&mut self.has_failed, true) {
            tracing::debug!(reason, "lengths are still not written");
            return false;
        }
        let bucket = buckets::LENGTHS.name;
        tracing::warn!(
            bucket,
            reason,
            "lengths of answers are not written; the next checkpoint's order is the worse for it"
        );
        true
    }
}

/// Says what is expected of an evaluation's items: what is read at once, and what is read later where that was not all.
async fn read(context: Context, evaluation: EvaluationId, run: RunId, manifest: Arc<Manifest>, say: Sender<Expected>) {
    let begun = Instant::now();
    for look in LOOKS {
        let until = begun + look;
        let expectations = expected(&context, &run, &manifest, until).await;
        let is_whole = Instant::now() < until;
        let expected = Expected {
            evaluation: evaluation.clone(),
            expectations,
        };
        if say.send(expected).await.is_err() || is_whole {
            return;
        }
        tracing::warn!(evaluation_id = %evaluation, within = ?look, "not all that is known of lengths was read in time; the order goes without the rest");
    }
}

/// What is expected of the items of each benchmark of a manifest, by what earlier checkpoints of the run took, as far as it
/// is read by then.
async fn expected(context: &Context, run: &RunId, manifest: &Manifest, until: Instant) -> Vec<Expectation> {
    let bucket = by(until, bucket(context)).await.flatten();
    let mut expectations = Vec::with_capacity(manifest.benchmarks.len());
    for benchmark in &manifest.benchmarks {
        expectations.push(of_benchmark(context, bucket.as_ref(), run, benchmark, until).await);
    }
    expectations
}

/// What a future gives by then.
async fn by<T>(until: Instant, future: impl Future<Output = T>) -> Option<T> {
    timeout_at(until, future).await.ok()
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

async fn of_benchmark(
    context: &Context,
    bucket: Option<&Bucket>,
    run: &RunId,
    benchmark: &Benchmark,
    until: Instant,
) -> Expectation {
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
            let digest = benchmark.outlines.get(index).cloned();
            known(lengths, keys, outline(context.store.clone(), digest), until)
        })
        .collect();
    let blocks: Vec<Known> = stream::iter(looks).buffered(AT_ONCE).collect().await;
    let spread = match bucket {
        Some(bucket) => {
            let key = buckets::spread_of_run(run, &benchmark.name);
            by(until, get::<Spread>(bucket, &key)).await.flatten()
        }
        None => None,
    };
    expectation(benchmark, &blocks, spread.as_ref())
}

/// What is known of a block by then: under the keys of its run's lengths and of anybody's, and in its outline.
async fn known(
    bucket: Option<Bucket>,
    keys: [String; 2],
    outline: impl Future<Output = Option<Outline>>,
    until: Instant,
) -> Known {
    let lengths = async |key: &str| match &bucket {
        Some(bucket) => by(until, get(bucket, key)).await.flatten(),
        None => None,
    };
    let [own, others] = &keys;
    let outline = async { by(until, outline).await.flatten() };
    let (own, others, outline) = futures::join!(lengths(own), lengths(others), outline);
    Known { own, others, outline }
}

async fn outline(store: Store, digest: Option<Digest>) -> Option<Outline> {
    let outline = store.outline(&digest?).await;
    outline
        .inspect_err(|error| tracing::debug!(%error, "an outline is not read"))
        .ok()
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
///
/// # Errors
/// Why something of it was not written, as where the bucket is full; everything else was.
async fn write(context: Context, run: RunId, learned: Learned) -> Result<(), String> {
    let Some(bucket) = bucket(&context).await else {
        return Ok(());
    };
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
    let mut written = stream::iter(writes)
        .buffer_unordered(AT_ONCE)
        .fold(Ok(()), async |all: Result<(), String>, one| all.and(one))
        .await;
    for (name, spread) in &learned.spreads {
        written = written.and(put(&bucket, &buckets::spread_of_run(&run, name), spread).await);
    }
    written
}

/// Adds lengths to those under each key: what these do not know of stays.
async fn merge(bucket: Bucket, keys: [String; 2], lengths: Lengths) -> Result<(), String> {
    let mut written = Ok(());
    for key in keys {
        let merged = match get::<Lengths>(&bucket, &key).await {
            Some(known) => known.with_newer(&lengths),
            None => lengths.clone(),
        };
        written = written.and(put(&bucket, &key, &merged).await);
    }
    written
}

async fn put<T: Wire>(bucket: &Bucket, key: &str, value: &T) -> Result<(), String> {
    let bytes = tidemill_codec::encode(value).map_err(|error| error.to_string())?;
    let put = bucket.put(key, bytes.into()).await;
    put.map(drop).map_err(|error| format!("{key}: {error}"))
}

impl Runner {
    /// Begins to read what is known of an evaluation that the dispatcher has; nothing of it is released before that is there, or
    /// a moment passed.
    pub(super) fn read_lengths(&mut self, evaluation: &EvaluationId, run: &RunId, manifest: Arc<Manifest>) {
        self.dispatcher.hold_back(evaluation, Instant::now() + BEGIN_WITHIN);
        let (context, say) = (self.context.clone(), self.history.say.clone());
        while self.history.reading.try_join_next().is_some() {}
        let reading = read(context, evaluation.clone(), run.clone(), manifest, say);
        self.history.reading.spawn(reading);
    }

    /// Takes in what was read.
    pub(super) fn note_lengths(&mut self, expected: Expected) {
        self.dispatcher.expect(&expected.evaluation, expected.expectations);
    }

    /// Writes what was learnt, when that was a while ago, beside everything else.
    pub(super) fn keep_lengths_now_and_then(&mut self) {
        self.history.look_at_writes();
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
        let Ok(written) = timeout(LAST_WRITE, writing.join_all()).await else {
            tracing::debug!(group = %self.group, "what was learnt of lengths is not written in time");
            return;
        };
        for written in written {
            self.history.note_written(written);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_config::Config;
    use tidemill_domain::{BlockRef, length_class};
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

    async fn known_of(context: &Context, run: &RunId, manifest: &Manifest) -> Vec<Expectation> {
        expected(context, run, manifest, Instant::now() + LOOKS[1]).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_outline_that_does_not_come_is_unknown_and_so_is_nothing_else() {
        let until = Instant::now() + LOOKS[0];
        let keys = || [String::new(), String::new()];
        let outline = Outline {
            prompts: vec![40],
            prefixes: vec![7],
        };
        let lost = known(None, keys(), std::future::pending(), until);
        let came = known(None, keys(), std::future::ready(Some(outline.clone())), until);
        let (lost, came) = futures::join!(lost, came);
        assert_eq!((lost.outline, came.outline), (None, Some(outline)));
        assert_eq!(Instant::now(), until);
    }

    #[tokio::test]
    async fn that_lengths_are_not_written_is_said_once() {
        let (broker, folder) = (Broker::start().unwrap(), tempfile::tempdir().unwrap());
        let config = Config::default();
        let connection = connect(&config, &broker.url(), "test").await.unwrap();
        let store = Store::open(Address::of_folder(folder.path())).unwrap();
        prepare(&connection, &config, &store, true).await.unwrap();
        let context = Context::new("loader", connection, store, Arc::new(config));
        let full = format!("KV_{}", buckets::LENGTHS.name);
        let mut stream = context.jetstream().get_stream(&full).await.unwrap();
        let mut settings = stream.info().await.unwrap().config.clone();
        settings.max_bytes = 1;
        context.jetstream().update_stream(settings).await.unwrap();
        let learned = || learned(&Digest::of(b"block"), |_| true, |_| 9);
        let mut history = History::default();
        for is_said in [true, false] {
            let written = write(context.clone(), run("ours"), learned()).await;
            assert!(written.is_err());
            assert_eq!(history.note_written(written), is_said);
        }
        assert!(!history.note_written(Ok(())) && history.note_written(Err("again".to_owned())));
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
        assert_eq!(known_of(&context, &ours, &manifest).await, [Expectation::default()]);

        // An outline is all that is known of the first checkpoint's items.
        let outline = Outline {
            prompts: vec![40; ITEMS as usize],
            prefixes: vec![7; ITEMS as usize],
        };
        let mut writer = context.store.block_writer();
        manifest.benchmarks[0].outlines = vec![writer.outline(&outline).await.unwrap()];
        writer.finish().await.unwrap();
        let first = known_of(&context, &ours, &manifest).await.remove(0);
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
        .await
        .unwrap();
        write(
            context.clone(),
            ours.clone(),
            learned(&digest, |item| item % 2 == 1 && item < 30, class),
        )
        .await
        .unwrap();
        let own = known_of(&context, &ours, &manifest).await.remove(0);
        assert_eq!(own.known, 35);
        assert!(
            (0..30).all(|item| own.classes[item as usize] == class(item)),
            "{:?}",
            own.classes
        );

        // Another run has the items' ranks, and reads them on its own distribution once it has one.
        let other = known_of(&context, &theirs, &manifest).await.remove(0);
        assert_eq!((other.known, other.classes[4]), (0, class(4)));
        let mut counts = [0; 256];
        (100..140).for_each(|class| counts[class] = 1);
        let spread = Spread::of(&counts).unwrap();
        let learned = Learned {
            blocks: Vec::new(),
            spreads: vec![(manifest.benchmarks[0].name.clone(), spread)],
        };
        write(context.clone(), theirs.clone(), learned).await.unwrap();
        manifest.benchmarks[0].settings.max_tokens = 1_000_000;
        let other = known_of(&context, &theirs, &manifest).await.remove(0);
        assert!(
            (100..105).contains(&other.classes[0]) && (125..140).contains(&other.classes[28]),
            "{:?}",
            other.classes
        );
    }
}
