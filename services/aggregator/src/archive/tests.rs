//! Archiving against a real broker, stopped between every two effects.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;
use tidemill_archive::{
    Error, Layout, Limits, Record, Records, Row, Samples, State, completions, item, purge, restore,
};
use tidemill_config::Config;
use tidemill_domain::{
    Completion, Digest, Ending, EvaluationEvent, EvaluationState, GroupId, Item, ItemKey, Manifest, Outcome, Prompt,
    RunId, Served, Source, Step, TeamId, Timeline, Timestamp, WholeBenchmark, WholeManifest,
};
use tidemill_service::{Context, Follow, Start, Ttl, connect, now, prepare};
use tidemill_storage::{Address, Store};
use tidemill_streams::{Message as _, StateChange, declared, subject};
use tidemill_testkit::Broker;

use super::steps;
use crate::fold::tests::{benchmark, grade, manifest};

/// Small enough that few samples fill several groups and files.
const SMALL: Limits = Limits {
    group_rows: 7,
    group_bytes: 1 << 20,
    file_rows: 20,
    file_bytes: 1 << 20,
};

struct Bench {
    _broker: Broker,
    context: Context,
    event: EvaluationEvent,
    folder: tempfile::TempDir,
}

impl Bench {
    /// An evaluation that ended invalid, with a completion and a grade for all but the last of `items` items.
    async fn start(items: u32) -> Self {
        let filled = Self::without_messages(items).await;
        let bench = &filled;
        let puts = (0..items - 1).map(|item| async move {
            let key = bench.key(item);
            bench.complete(&bench.completion(key, &format!("answer {item}"))).await;
            bench.context.publisher.publish(&grade_of(item), None).await.unwrap();
        });
        futures::stream::iter(puts.collect::<Vec<_>>())
            .buffer_unordered(128)
            .collect::<Vec<()>>()
            .await;
        filled
    }

    async fn without_messages(items: u32) -> Self {
        let broker = Broker::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = Config::default();
        let connection = connect(&config, &broker.url(), "test").await.unwrap();
        let store = Store::open(Address::of_folder(folder.path())).unwrap();
        prepare(&connection, &config, &store, true).await.unwrap();
        let context = Context::new("aggregator", connection, store, Arc::new(config));
        let event = event(&context, manifest(items, 1)).await;
        Self {
            _broker: broker,
            context,
            event,
            folder,
        }
    }

    fn key(&self, item: u32) -> ItemKey {
        ItemKey {
            evaluation: self.event.evaluation.clone(),
            benchmark: 0,
            item,
            sample: 0,
        }
    }

    fn completion(&self, key: ItemKey, text: &str) -> Completion {
        Completion {
            manifest: self.event.manifest.clone(),
            ending: Ending::Stop,
            text: text.to_owned(),
            reasoning: None,
            finish_reason: Some("stop".to_owned()),
            stop_reason: None,
            truncated: false,
            choices: Vec::new(),
            detail: None,
            prompt_tokens: 3,
            completion_tokens: 2,
            requests: 1,
            attempts: 1,
            cached: false,
            served: Served::default(),
            generation: None,
            engine: "http://engine".to_owned(),
            started: Timestamp(1),
            finished: Timestamp(2),
            key,
        }
    }

    async fn complete(&self, completion: &Completion) {
        let payload = completion.payload().unwrap();
        let payload = self
            .context
            .store
            .check_in::<Completion>(&completion.key, payload)
            .await
            .unwrap();
        self.put(completion.subject(), payload).await;
    }

    async fn put(&self, subject: String, payload: Vec<u8>) {
        let headers = async_nats::HeaderMap::new();
        let publisher = &self.context.publisher;
        publisher
            .publish_bytes::<Completion>(subject, payload, None, Ttl::Stream, headers)
            .await
            .unwrap();
    }

    /// Every sample's messages, read from wherever they are.
    async fn samples(&self) -> (Option<String>, Vec<(Option<Vec<u8>>, Option<Vec<u8>>)>) {
        let manifest = self.context.store.manifest(&self.event.manifest).await.unwrap();
        let mut samples = Samples::open(&self.context, &self.event, &manifest).await.unwrap();
        let mut read = Vec::new();
        while let Some(sample) = samples.next().await.unwrap() {
            read.push((sample.completion.map(Into::into), sample.grade.map(Into::into)));
        }
        (samples.folder().map(str::to_owned), read)
    }

    async fn in_streams(&self) -> (u64, u64) {
        let count = async |stream, filter| {
            let follow = Follow::open(&self.context, stream, filter, true, Start::Beginning).await;
            follow.backlog()
        };
        let id = &self.event.evaluation;
        (
            count(declared::DONE, subject::done_of_evaluation(id)).await,
            count(declared::GRADE, subject::grade_of_evaluation(id)).await,
        )
    }

    async fn record(&self) -> Option<Record> {
        let records = Records::open(&self.context).await.unwrap();
        records
            .get(&self.event.evaluation)
            .await
            .unwrap()
            .map(|known| known.record)
    }

    fn folders(&self) -> Vec<String> {
        names(&self.folder.path().join("archive").join(self.event.evaluation.as_str()))
    }
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// The same manifest with its items in memory.
fn whole(manifest: Manifest) -> WholeManifest {
    let item = |index: u32| Item {
        id: format!("item-{index}"),
        prompt: Prompt::Text(format!("question {index}")),
        targets: vec!["answer 1".to_owned()],
        choices: Vec::new(),
        correct_choice: None,
        cluster: None,
        subset: None,
        weight: 1.0,
        material: Vec::new(),
    };
    let benchmarks = manifest.benchmarks.into_iter().map(|benchmark| WholeBenchmark {
        name: benchmark.name,
        settings: benchmark.settings,
        grader: benchmark.grader,
        items: (0..benchmark.items).map(item).collect(),
    });
    WholeManifest {
        suite: manifest.suite,
        max_failure_rate: manifest.max_failure_rate,
        benchmarks: benchmarks.collect(),
    }
}

async fn event(context: &Context, manifest: Manifest) -> EvaluationEvent {
    let (samples, suite) = (manifest.samples(), manifest.suite.clone());
    let digest = context.store.put_whole(whole(manifest)).await.unwrap();
    EvaluationEvent {
        schema: 1,
        evaluation: grade(0, 0, Outcome::Correct).key.evaluation,
        state: EvaluationState::Invalid,
        at: now(),
        run: RunId::try_new("run").unwrap(),
        step: Step(1),
        team: TeamId::try_new("team").unwrap(),
        checkpoint: Digest::of(b"weights"),
        decision_value: None,
        suite,
        manifest: digest,
        group: GroupId::from_digest(&Digest::of(b"group")),
        source: Source::Endpoint {
            urls: Vec::new(),
            model: "model".to_owned(),
        },
        max_in_flight: None,
        no_cache: false,
        samples,
        reason: Some("1 of them is missing".to_owned()),
        timeline: Timeline {
            queued: Some(Timestamp(7)),
            ..Timeline::default()
        },
        result: None,
    }
}

fn grade_of(item: u32) -> tidemill_domain::Grade {
    grade(
        item,
        0,
        if item.is_multiple_of(3) {
            Outcome::Correct
        } else {
            Outcome::Incorrect
        },
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_items_fill_several_files_and_read_back_as_they_were() {
    let bench = Bench::start(5_000).await;
    let other = tidemill_domain::EvaluationId::from_digest(&Digest::of(b"other"));
    let foreign = ItemKey {
        evaluation: other.clone(),
        ..bench.key(0)
    };
    bench
        .complete(&bench.completion(foreign, "of another evaluation"))
        .await;
    let (from, before) = bench.samples().await;
    assert_eq!((from, before.len()), (None, 5_000));
    let limits = Limits {
        group_rows: 300,
        file_rows: 1_000,
        ..SMALL
    };
    let known = steps::archive(&bench.context, &bench.event, limits).await.unwrap();
    let stored = known.record.stored.unwrap();
    assert_eq!((stored.rows, stored.completions), (5_000, 4_999));
    let files = names(&bench.folder.path().join(&stored.folder).join("items"));
    assert_eq!(files.len(), 5, "four groups of 300 a file: {files:?}");
    assert_eq!(bench.in_streams().await, (4_999, 4_999), "nothing is purged yet");
    let (from, archived) = bench.samples().await;
    assert_eq!(from.as_deref(), Some(stored.folder.as_str()));
    assert!(archived == before, "the archive holds what the streams hold");

    // It comes after the archive was made: no purge of it may take this.
    bench.complete(&bench.completion(bench.key(4_999), "late")).await;
    let known = steps::purge_archived(&bench.context, &bench.event).await.unwrap();
    assert_eq!(known.record.state, State::Purged);
    assert_eq!(bench.in_streams().await, (1, 0));
    let follow = Follow::open(
        &bench.context,
        declared::DONE,
        subject::done_of_evaluation(&other),
        true,
        Start::Beginning,
    );
    assert_eq!(follow.await.backlog(), 1, "another evaluation is left alone");
    assert!(bench.samples().await.1 == before, "the archive alone holds the same");
    assert_eq!(completions(&bench.context, &bench.event).await.unwrap(), 4_999);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_any_two_effects_loses_nothing_and_is_made_good() {
    let bench = Bench::start(30).await;
    let (context, event) = (&bench.context, &bench.event);
    let before = bench.samples().await.1;
    let records = Records::open(context).await.unwrap();

    // Files without an index, as a crash leaves them; then all files, and no record.
    let torn = format!("{}/torn", tidemill_archive::folder(&event.evaluation));
    context
        .store
        .put(&format!("{torn}/items/00000.parquet"), b"PAR1".to_vec())
        .await
        .unwrap();
    let whole = format!("{}/whole", tidemill_archive::folder(&event.evaluation));
    Box::pin(steps::write(context, event, &whole, SMALL))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        bench.samples().await,
        (None, before.clone()),
        "what is not committed does not count"
    );

    // The record, and no purge.
    let known = steps::archive(context, event, SMALL).await.unwrap();
    let stored = known.record.stored.clone().unwrap();
    let place = stored.folder.rsplit('/').next().unwrap();
    assert_eq!(bench.folders(), [place], "what crashed tries left is swept");
    assert!(bench.samples().await == (Some(stored.folder.clone()), before.clone()));
    let again = steps::archive(context, event, SMALL).await.unwrap();
    assert_eq!(again, known, "an archive is made once");

    // The purge has been said; then a part of it was done.
    let purging = records
        .put(known.record.enter(State::Purging, now()), Some(&known))
        .await
        .unwrap();
    assert!(bench.samples().await.1 == before);
    let done = context.jetstream().get_stream(declared::DONE.name).await.unwrap();
    done.purge()
        .filter(subject::done_of_evaluation(&event.evaluation))
        .await
        .unwrap();
    assert_eq!(bench.in_streams().await, (0, 29));
    assert!(bench.samples().await.1 == before);

    // All of it was done, and not said.
    purge(context, &event.evaluation, &stored).await.unwrap();
    assert_eq!(
        (bench.in_streams().await, purging.record.state),
        ((0, 0), State::Purging)
    );
    let purged = steps::purge_archived(context, event).await.unwrap();
    assert_eq!(purged.record.state, State::Purged);
    assert_eq!(steps::purge_archived(context, event).await.unwrap(), purged);
    assert!(bench.samples().await.1 == before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_under_way_goes_over_to_the_archive() {
    let bench = Bench::start(200).await;
    let before = bench.samples().await.1;
    let manifest = bench.context.store.manifest(&bench.event.manifest).await.unwrap();
    let mut samples = Samples::open(&bench.context, &bench.event, &manifest).await.unwrap();
    let mut read = Vec::new();
    for _ in 0..10 {
        let sample = samples.next().await.unwrap().unwrap();
        read.push((sample.completion.map(Into::into), sample.grade.map(Into::into)));
    }
    assert_eq!(samples.folder(), None);
    steps::archive(&bench.context, &bench.event, SMALL).await.unwrap();
    steps::purge_archived(&bench.context, &bench.event).await.unwrap();
    while let Some(sample) = samples.next().await.unwrap() {
        read.push((sample.completion.map(Into::into), sample.grade.map(Into::into)));
    }
    assert!(samples.folder().is_some());
    assert!(read == before);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_archivers_one_writes_the_record() {
    let bench = Bench::start(40).await;
    let one = bench.context.role("aggregator");
    let mut other = bench.context.clone();
    other.holder = "another".into();
    let (one, other) = tokio::join!(
        steps::archive(&one, &bench.event, SMALL),
        steps::archive(&other, &bench.event, SMALL)
    );
    let wins = [&one, &other].into_iter().filter(|archived| archived.is_ok()).count();
    for lost in [&one, &other]
        .into_iter()
        .filter_map(|archived| archived.as_ref().err())
    {
        assert!(matches!(lost, Error::Outrun { .. } | Error::Storage(_)), "{lost}");
    }
    assert!(wins >= 1);
    let stored = bench.record().await.unwrap().stored.unwrap();
    tidemill_archive::verify(&bench.context.store, &stored).await.unwrap();
    assert_eq!(bench.folders(), [stored.folder.rsplit('/').next().unwrap()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_takes_nothing_is_waited_for_and_nothing_is_purged() {
    let bench = Bench::start(10).await;
    let (context, event) = (&bench.context, &bench.event);
    // A file where the folder should be: nothing can be written below it.
    let blocked = bench.folder.path().join("archive");
    std::fs::write(&blocked, b"").unwrap();
    let error = steps::archive(context, event, SMALL).await.unwrap_err();
    steps::note_failure(context, event, &error.to_string()).await.unwrap();
    let record = bench.record().await.unwrap();
    assert_eq!(record.state, State::Waiting);
    assert!(record.failure.unwrap().contains("archive/"), "{error}");
    let waiting = steps::purge_archived(context, event).await.unwrap();
    assert_eq!(
        (waiting.record.state, bench.in_streams().await),
        (State::Waiting, (9, 9))
    );
    std::fs::remove_file(&blocked).unwrap();
    let known = steps::archive(context, event, SMALL).await.unwrap();
    assert_eq!((known.record.state, known.record.failure), (State::Archived, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_is_not_whole_is_written_anew_before_anything_is_purged() {
    let bench = Bench::start(30).await;
    let (context, event) = (&bench.context, &bench.event);
    let known = steps::archive(context, event, SMALL).await.unwrap();
    let stored = known.record.stored.unwrap();
    for spoil in [b"PAR1 other bytes".as_slice(), b""] {
        let stored = bench.record().await.unwrap().stored.unwrap_or(stored.clone());
        context
            .store
            .put(&format!("{}/items/00001.parquet", stored.folder), spoil.to_vec())
            .await
            .unwrap();
        let known = steps::purge_archived(context, event).await.unwrap();
        assert_eq!(
            (known.record.state, bench.in_streams().await),
            (State::Waiting, (29, 29))
        );
        assert!(known.record.failure.unwrap().contains("00001.parquet"));
        steps::archive(context, event, SMALL).await.unwrap();
    }
    assert_eq!(
        steps::purge_archived(context, event).await.unwrap().record.state,
        State::Purged
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_announced_again_has_its_messages_back_and_no_late_purge_takes_them() {
    let bench = Bench::start(30).await;
    let (context, event) = (&bench.context, &bench.event);
    // A body too large for a message, and a message that is none of ours: both come back as they were.
    let large = "x".repeat(600 << 10);
    let key = bench.key(29);
    bench.complete(&bench.completion(key, &large)).await;
    let foreign = subject::grade(&bench.key(29));
    context
        .jetstream()
        .publish(foreign, "not a grade".into())
        .await
        .unwrap()
        .await
        .unwrap();
    let before = bench.samples().await.1;
    let claims = bench.folder.path().join("claims").join(event.evaluation.as_str());
    assert_eq!(names(&claims).len(), 1);
    let known = steps::archive(context, event, SMALL).await.unwrap();
    let stored = known.record.stored.clone().unwrap();
    assert!(bench.samples().await.1 == before);
    steps::purge_archived(context, event).await.unwrap();
    assert_eq!(bench.in_streams().await, (0, 0));
    assert!(names(&claims).is_empty(), "the claimed body is in the archive alone");

    restore(context, event).await.unwrap();
    assert_eq!(bench.record().await.unwrap().state, State::Reopened);
    assert!(
        bench.samples().await == (None, before.clone()),
        "the streams hold everything again"
    );
    // An archiver that stood still all the while does what it was about to do.
    purge(context, &event.evaluation, &stored).await.unwrap();
    assert!(bench.samples().await == (None, before.clone()));
    restore(context, event).await.unwrap();
    assert!(bench.samples().await == (None, before.clone()));

    // Its next life ends too.
    let mut next = event.clone();
    next.timeline.queued = Some(Timestamp(8));
    assert_eq!(completions(context, &next).await.unwrap(), 30);
    let known = steps::archive(context, &next, SMALL).await.unwrap();
    assert_eq!(
        (known.record.state, known.record.queued),
        (State::Archived, Timestamp(8))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_announced_again_before_the_purge_is_not_purged() {
    let bench = Bench::start(10).await;
    let (context, event) = (&bench.context, &bench.event);
    steps::archive(context, event, SMALL).await.unwrap();
    restore(context, event).await.unwrap();
    let known = steps::purge_archived(context, event).await.unwrap();
    assert_eq!(
        (known.record.state, bench.in_streams().await),
        (State::Reopened, (9, 9))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_without_messages_needs_no_archive() {
    let bench = Bench::without_messages(3).await;
    let known = steps::archive(&bench.context, &bench.event, SMALL).await.unwrap();
    assert_eq!((known.record.state, known.record.stored), (State::Empty, None));
    assert!(bench.folders().is_empty());
    assert_eq!(bench.samples().await, (None, vec![(None, None); 3]));
}

#[tokio::test(flavor = "multi_thread")]
async fn ordinals_name_the_samples_of_a_manifest_in_its_order() {
    let bench = Bench::without_messages(3).await;
    let mut manifest = manifest(3, 2);
    manifest.benchmarks.push(benchmark(2, 3));
    let event = event(&bench.context, manifest).await;
    let manifest = bench.context.store.manifest(&event.manifest).await.unwrap();
    let layout = Layout::new(&event.evaluation, &manifest);
    let keys: Vec<ItemKey> = manifest.keys(&event.evaluation).collect();
    assert_eq!(layout.samples(), keys.len() as u64);
    for (ordinal, key) in (0..).zip(&keys) {
        assert_eq!(
            (layout.key(ordinal).as_ref(), layout.ordinal(key)),
            (Some(key), Some(ordinal))
        );
        let (benchmark, item) = item(&bench.context.store, &manifest, key).await.unwrap().unwrap();
        let sample = tidemill_archive::Sample {
            key: key.clone(),
            completion: None,
            grade: None,
        };
        assert_eq!(Row::new(&event, benchmark, &item, sample).outcome(), "missing");
    }
    assert_eq!(layout.key(keys.len() as u64), None);
    let undeclared = ItemKey {
        sample: 2,
        ..keys[0].clone()
    };
    assert_eq!(layout.ordinal(&undeclared), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_was_left_over_leaves_with_its_evaluation() {
    let bench = Bench::start(5).await;
    let (context, event) = (&bench.context, &bench.event);
    let other = tidemill_domain::EvaluationId::from_digest(&Digest::of(b"other"));
    for evaluation in [&event.evaluation, &other] {
        let key = ItemKey {
            evaluation: evaluation.clone(),
            ..bench.key(0)
        };
        let release = subject::ready(&event.group, &key);
        let published = context.jetstream().publish(release, "a release".into()).await.unwrap();
        published.await.unwrap();
    }
    steps::archive(context, event, SMALL).await.unwrap();
    steps::purge_archived(context, event).await.unwrap();
    let ready = context.jetstream().get_stream(declared::READY.name).await.unwrap();
    assert_eq!(ready.cached_info().state.messages, 1, "that of the other evaluation");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grade_that_comes_after_an_archive_without_grades_stays() {
    let bench = Bench::without_messages(3).await;
    let (context, event) = (&bench.context, &bench.event);
    bench.complete(&bench.completion(bench.key(0), "an answer")).await;
    let known = steps::archive(context, event, SMALL).await.unwrap();
    assert_eq!(known.record.stored.unwrap().grade_through, 0);
    context.publisher.publish(&grade_of(0), None).await.unwrap();
    steps::purge_archived(context, event).await.unwrap();
    assert_eq!(bench.in_streams().await, (0, 1));
}

fn is_outrun<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Outrun { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_announced_again_while_its_first_archive_is_written_keeps_its_messages() {
    let bench = Bench::start(10).await;
    let (context, event) = (&bench.context, &bench.event);
    let records = Records::open(context).await.unwrap();
    let before = records.get(&event.evaluation).await.unwrap();
    assert_eq!(before, None);
    let place = format!("{}/late", tidemill_archive::folder(&event.evaluation));
    let written = Box::pin(steps::write(context, event, &place, SMALL)).await.unwrap();

    restore(context, event).await.unwrap();
    assert!(is_outrun(
        &steps::commit(&records, event, before.as_ref(), written).await
    ));
    // Whoever begins after the mark and before the evaluation is queued, and whoever begins later with an old event.
    assert!(is_outrun(&steps::archive(context, event, SMALL).await));
    let mut next = event.next(EvaluationState::Queued, now(), None);
    next.timeline.queued = Some(Timestamp(8));
    context.publisher.publish(&StateChange(next), None).await.unwrap();
    let mut config = Config::clone(&context.config);
    config.archive.after = std::time::Duration::ZERO;
    let mut hasty = context.clone();
    hasty.config = Arc::new(config);
    assert!(is_outrun(&steps::archive(&hasty, event, SMALL).await));
    let known = steps::purge_archived(context, event).await.unwrap();
    assert_eq!(
        (known.record.state, bench.in_streams().await),
        (State::Reopened, (9, 9))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_announcement_outruns_whoever_read_the_record_before_it() {
    let bench = Bench::start(3).await;
    let (context, event) = (&bench.context, &bench.event);
    let records = Records::open(context).await.unwrap();
    steps::note_failure(context, event, "no room").await.unwrap();
    for state in [State::Waiting, State::Reopened] {
        let before = records.get(&event.evaluation).await.unwrap().unwrap();
        assert_eq!(before.record.state, state);
        restore(context, event).await.unwrap();
        assert!(is_outrun(&steps::commit(&records, event, Some(&before), None).await));
    }
    // A record of the life before this one is none of this one's.
    let mut next = event.clone();
    next.timeline.queued = Some(Timestamp(8));
    restore(context, &next).await.unwrap();
    let record = bench.record().await.unwrap();
    assert_eq!((record.state, record.queued), (State::Reopened, Timestamp(8)));
    // And who knows only the life before changes nothing any more.
    assert!(is_outrun(&steps::archive(context, event, SMALL).await));
    assert!(is_outrun(&restore(context, event).await));
    steps::note_failure(context, event, "late").await.unwrap();
    assert_eq!(bench.record().await.unwrap(), record);
}

#[test]
fn an_archive_whose_record_may_have_been_written_keeps_its_files() {
    let evaluation = tidemill_domain::EvaluationId::from_digest(&Digest::of(b"e"));
    assert!(steps::is_void(&Error::Outrun { evaluation }));
    assert!(!steps::is_void(&Error::Broker {
        action: "write the record of evaluation",
        what: "e".to_owned(),
        reason: "timed out".to_owned()
    }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_above_three_quarters_of_its_limit_is_tight() {
    let bench = Bench::start(20).await;
    let context = &bench.context;
    assert!(!super::service::Room::default().is_tight(context).await);
    for stream in [declared::DONE, declared::GRADE] {
        let found = context.jetstream().get_stream(stream.name).await.unwrap();
        let bytes = i64::try_from(found.cached_info().state.bytes).unwrap();
        for (limit, is_tight) in [(bytes * 5 / 4, true), (bytes * 2, false)] {
            let mut config = stream.config(1);
            config.max_bytes = limit;
            context.jetstream().update_stream(config).await.unwrap();
            assert_eq!(super::service::Room::default().is_tight(context).await, is_tight);
        }
    }
}
