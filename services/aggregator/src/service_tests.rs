//! Evaluations followed to their end on a real broker: final, invalid, drained, superseded, and by two aggregators.

use std::sync::Arc;
use std::time::Duration;

use tidemill_config::Config;
use tidemill_domain::{
    Digest, EvaluationEvent, EvaluationResult, EvaluationState, Grade, GroupId, Manifest, Outcome, ResultMessage,
    ResultState, RunId, Source, Step, TeamId, Timeline, Timestamp,
};
use tidemill_service::{Follow, connect, now, prepare};
use tidemill_storage::{Address, Store};
use tidemill_streams::StateChange;
use tidemill_testkit::Broker;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::Fold;
use crate::fold::tests::{benchmark, grade, manifest};

const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    _broker: Broker,
    context: Context,
    event: EvaluationEvent,
    _folder: tempfile::TempDir,
}

struct Running {
    draining: CancellationToken,
    task: JoinHandle<Result<(), Fatal>>,
}

impl Running {
    async fn drain(self) {
        self.draining.cancel();
        self.task.await.unwrap().unwrap();
    }
}

impl Bench {
    async fn start(manifest: Manifest) -> Self {
        let broker = Broker::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.aggregator.publish_interval = Duration::from_millis(50);
        let connection = connect(&config, &broker.url(), "test").await.unwrap();
        let store = Store::open(Address::of_folder(folder.path())).unwrap();
        prepare(&connection, &config, &store, true).await.unwrap();
        let context = Context::new("aggregator", connection, store, Arc::new(config));
        let samples = manifest.samples();
        let suite = manifest.suite.clone();
        let digest = context.store.put_manifest(manifest).await.unwrap();
        let event = EvaluationEvent {
            schema: 1,
            evaluation: grade(0, 0, Outcome::Correct).key.evaluation,
            state: EvaluationState::Queued,
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
            reason: None,
            timeline: Timeline {
                written: Some(Timestamp(1)),
                ..Timeline::default()
            },
            result: None,
        };
        Self {
            _broker: broker,
            context,
            event,
            _folder: folder,
        }
    }

    /// Starts an aggregator that drains alone.
    fn aggregator(&self) -> Running {
        let mut context = self.context.role("aggregator");
        context.draining = CancellationToken::new();
        Running {
            draining: context.draining.clone(),
            task: tokio::spawn(run(context)),
        }
    }

    async fn enter(&self, state: EvaluationState, reason: Option<&str>) {
        let event = self.event.next(state, now(), reason.map(str::to_owned));
        self.context.publisher.publish(&StateChange(event), None).await.unwrap();
    }

    async fn grade(&self, grade: &Grade) {
        self.context.publisher.publish(grade, None).await.unwrap();
    }

    /// The event by which the evaluation ended.
    async fn end(&self) -> EvaluationEvent {
        let filter = "tm.evaluation.>".to_owned();
        let mut follow = Follow::open(&self.context, declared::EVALUATION, filter, false, Start::Beginning).await;
        let end = async {
            loop {
                let event: EvaluationEvent = serde_json::from_slice(&follow.next().await.payload).unwrap();
                if event.state.is_ended() {
                    return event;
                }
            }
        };
        tokio::time::timeout(PATIENCE, end).await.expect("the evaluation ends")
    }

    /// All results so far, in the order in which they were published.
    async fn results(&self) -> Vec<ResultMessage> {
        let filter = "tm.result.>".to_owned();
        let mut follow = Follow::open(&self.context, declared::RESULT, filter, false, Start::Beginning).await;
        let mut results = Vec::new();
        follow
            .each_known(|message| results.push(serde_json::from_slice(&message.payload).unwrap()))
            .await;
        results
    }

    async fn wait_for_result(&self, is_wanted: impl Fn(&ResultMessage) -> bool) -> ResultMessage {
        let filter = "tm.result.>".to_owned();
        let mut follow = Follow::open(&self.context, declared::RESULT, filter, false, Start::Beginning).await;
        let found = async {
            loop {
                let result: ResultMessage = serde_json::from_slice(&follow.next().await.payload).unwrap();
                if is_wanted(&result) {
                    return result;
                }
            }
        };
        tokio::time::timeout(PATIENCE, found)
            .await
            .expect("the result is published")
    }
}

fn finals(results: &[ResultMessage]) -> Vec<&EvaluationResult> {
    let finals = results.iter().filter(|message| !message.provisional);
    finals.map(|message| &message.result).collect()
}

fn two_benchmarks() -> Manifest {
    let mut manifest = manifest(4, 1);
    let mut second = benchmark(1, 1);
    second.name = tidemill_domain::BenchmarkName::try_new("second").unwrap();
    manifest.benchmarks.push(second);
    manifest
}

fn second(outcome: Outcome) -> Grade {
    let mut grade = grade(0, 0, outcome);
    grade.key.benchmark = 1;
    grade
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_ends_final_with_its_whole_result() {
    let bench = Bench::start(two_benchmarks()).await;
    let aggregator = bench.aggregator();
    bench.enter(EvaluationState::Serving, None).await;
    bench.grade(&grade(0, 0, Outcome::Correct)).await;
    let provisional = bench.wait_for_result(|message| message.provisional).await.result;
    assert_eq!(
        (provisional.state, provisional.benchmarks.len()),
        (ResultState::Serving, 1)
    );
    assert_eq!(provisional.benchmarks[0].bounds, [0.25, 1.0]);
    for item in 1..4 {
        bench.grade(&grade(item, 0, Outcome::Incorrect)).await;
    }
    bench.grade(&second(Outcome::Correct)).await;
    let end = bench.end().await;
    assert_eq!((end.state, &end.reason), (EvaluationState::Final, &None));
    let result = end.result.unwrap();
    assert_eq!(result.benchmarks[0].mean, Some(0.25));
    assert_eq!(result.benchmarks[1].mean, Some(1.0));
    assert_eq!(result.timeline.written, Some(Timestamp(1)));
    assert_eq!(result.timeline.first_request, Some(Timestamp(1_000)));
    assert_eq!(result.timeline.last_grade, Some(Timestamp(3_300)));
    assert!(result.timeline.visible.is_some());
    aggregator.drain().await;
    let results = bench.results().await;
    let names: Vec<&str> = finals(&results)
        .iter()
        .map(|result| result.benchmarks[0].name.as_str())
        .collect();
    assert_eq!(names, ["benchmark", "second"]);
    assert!(finals(&results).iter().all(|result| result.state == ResultState::Final));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_failures_end_it_invalid() {
    let bench = Bench::start(manifest(2, 1)).await;
    let aggregator = bench.aggregator();
    bench.enter(EvaluationState::Serving, None).await;
    bench.grade(&grade(0, 0, Outcome::Correct)).await;
    bench.grade(&grade(1, 0, Outcome::EngineError)).await;
    let end = bench.end().await;
    assert_eq!(end.state, EvaluationState::Invalid);
    assert!(
        end.reason
            .unwrap()
            .starts_with("50 % of samples failed (1 engine_error of 2)")
    );
    assert_eq!(end.result.unwrap().benchmarks[0].mean, Some(1.0));
    aggregator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_aggregator_reaches_the_same_result() {
    let bench = Bench::start(manifest(3, 1)).await;
    bench.enter(EvaluationState::Serving, None).await;
    let first = bench.aggregator();
    bench.grade(&grade(0, 0, Outcome::Correct)).await;
    bench.wait_for_result(|message| message.provisional).await;
    first.drain().await;
    bench.grade(&grade(2, 0, Outcome::Correct)).await;
    let second = bench.aggregator();
    bench.grade(&grade(1, 0, Outcome::Incorrect)).await;
    let end = bench.end().await;
    second.drain().await;
    assert_eq!(end.state, EvaluationState::Final);
    assert_eq!(end.result.unwrap().benchmarks[0].mean, Some(2.0 / 3.0));
    let third = bench.aggregator();
    third.drain().await;
    assert_eq!(finals(&bench.results().await).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_that_drains_counts_what_is_graded_and_ends_invalid() {
    let bench = Bench::start(manifest(4, 1)).await;
    let aggregator = bench.aggregator();
    bench.enter(EvaluationState::Serving, None).await;
    bench.grade(&grade(0, 0, Outcome::Correct)).await;
    bench
        .enter(EvaluationState::Draining, Some("the engine never came back"))
        .await;
    let end = bench.end().await;
    assert_eq!(end.state, EvaluationState::Invalid);
    assert_eq!(
        end.reason.unwrap(),
        "the engine never came back; 3 of 4 samples are missing"
    );
    let result = end.result.unwrap();
    assert_eq!(
        (result.benchmarks[0].coverage, result.benchmarks[0].bounds),
        (0.25, [0.25, 1.0])
    );
    aggregator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_that_drained_to_the_last_sample_is_final() {
    let bench = Bench::start(manifest(1, 1)).await;
    bench.enter(EvaluationState::Draining, Some("stopped")).await;
    bench.grade(&grade(0, 0, Outcome::Correct)).await;
    let aggregator = bench.aggregator();
    assert_eq!(bench.end().await.state, EvaluationState::Final);
    aggregator.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_whose_fold_dies_each_time_ends_invalid_without_another_event() {
    let bench = Bench::start(manifest(1, 1)).await;
    bench.enter(EvaluationState::Serving, None).await;
    let filter = "tm.evaluation.>".to_owned();
    let mut events = Follow::open(&bench.context, declared::EVALUATION, filter, false, Start::Beginning).await;
    let mut live = Live::new(bench.context.clone(), |_, _| Box::pin(async { panic!("broken") }));
    live.note(&events.next().await);
    live.start();
    let mut ends = 0;
    while let Some(ended) = live.tasks.join_next_with_id().await {
        ends += 1;
        live.note_end(ended);
    }
    assert_eq!(ends, MOST_DEATHS + 1, "each death, and the end");
    let end = bench.end().await;
    assert_eq!(end.state, EvaluationState::Invalid);
    assert!(end.reason.as_ref().unwrap().contains("broken"), "{:?}", end.reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fold_that_died_once_begins_anew() {
    static DEATHS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let bench = Bench::start(manifest(1, 1)).await;
    bench.enter(EvaluationState::Serving, None).await;
    bench.grade(&grade(0, 0, Outcome::Correct)).await;
    let filter = "tm.evaluation.>".to_owned();
    let mut events = Follow::open(&bench.context, declared::EVALUATION, filter, false, Start::Beginning).await;
    let mut live = Live::new(bench.context.clone(), |context, newest| {
        Box::pin(async move {
            assert!(DEATHS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0, "broken");
            evaluation::follow(context, newest).await;
        })
    });
    while live
        .newest
        .values()
        .all(|newest| !newest.borrow().event.state.is_ended())
    {
        tokio::select! {
            Some(ended) = live.tasks.join_next_with_id() => live.note_end(ended),
            event = events.next() => {
                live.note(&event);
                live.start();
            }
        }
    }
    assert_eq!(bench.end().await.state, EvaluationState::Final);
}

/// Folds an evaluation whose one grade is there, until its end is published. Returns what it is told, and its task.
async fn fold_to_the_end(bench: &Bench) -> (watch::Sender<Newest>, JoinHandle<()>) {
    bench.grade(&grade(0, 0, Outcome::Correct)).await;
    let event = bench.event.next(EvaluationState::Serving, now(), None);
    let (told, newest) = watch::channel(Newest { sequence: 1, event });
    let task = tokio::spawn(evaluation::follow(bench.context.clone(), newest));
    assert_eq!(bench.end().await.state, EvaluationState::Final);
    (told, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_came_just_before_the_end_is_said_in_the_results() {
    let bench = Bench::start(manifest(1, 1)).await;
    let (told, task) = fold_to_the_end(&bench).await;
    // Its own end would come next.
    let event = bench.event.next(EvaluationState::Superseded, now(), None);
    told.send_replace(Newest { sequence: 2, event });
    task.await.unwrap();
    let results = bench.results().await;
    let states: Vec<ResultState> = finals(&results).iter().map(|result| result.state).collect();
    assert_eq!(states, [ResultState::Final, ResultState::Superseded]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_queued_again_just_before_its_end_is_folded_on() {
    let bench = Bench::start(manifest(1, 1)).await;
    let (told, task) = fold_to_the_end(&bench).await;
    let mut event = bench.event.next(EvaluationState::Serving, now(), None);
    event.timeline.queued = Some(Timestamp(2));
    told.send_replace(Newest { sequence: 2, event });
    let filter = "tm.evaluation.>".to_owned();
    let mut events = Follow::open(&bench.context, declared::EVALUATION, filter, false, Start::Beginning).await;
    let second_life = async {
        loop {
            let event: EvaluationEvent = serde_json::from_slice(&events.next().await.payload).unwrap();
            if event.life() == Timestamp(2) {
                return event;
            }
        }
    };
    let end = tokio::time::timeout(PATIENCE, second_life).await.expect("it ends");
    assert_eq!(end.state, EvaluationState::Final);
    told.send_replace(Newest {
        sequence: 4,
        event: end,
    });
    task.await.unwrap();
}

/// An aggregator that dies before its end is heard leaves the next one what a loader that took over has said since.
#[tokio::test(flavor = "multi_thread")]
async fn a_life_ends_once_whatever_is_said_of_it_before_its_end_is_heard() {
    let bench = Bench::start(manifest(1, 1)).await;
    let manifest = manifest(1, 1);
    let columns = bench.context.store.columns(&manifest).await.unwrap();
    let mut fold = Fold::new(&manifest, columns);
    fold.apply(&grade(0, 0, Outcome::Correct));
    let outlet = Outlet::new(bench.context.clone());
    for (sequence, life) in [(1, 1), (2, 1), (3, 2)] {
        let mut event = bench.event.next(EvaluationState::Serving, now(), None);
        event.timeline.queued = Some(Timestamp(life));
        let (timeline, results) = (event.timeline.clone(), (fold.results(), Vec::new()));
        let newest = Newest { sequence, event };
        let verdict = (ResultState::Final, None);
        assert!(outlet.ended(&newest, verdict, timeline, results).await);
    }
    let filter = "tm.evaluation.>".to_owned();
    let mut events = Follow::open(&bench.context, declared::EVALUATION, filter, false, Start::Beginning).await;
    let mut ends = Vec::new();
    while let Some(message) = events.next_known().await {
        let event: EvaluationEvent = serde_json::from_slice(&message.payload).unwrap();
        ends.push(event.life());
    }
    assert_eq!(ends, [Timestamp(1), Timestamp(2)]);
    let results = bench.results().await;
    let told: Vec<_> = finals(&results).iter().map(|result| result.timeline.queued).collect();
    assert_eq!(told, [Some(Timestamp(1)), Some(Timestamp(2))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_event_serves_nothing_that_ended() {
    use EvaluationState::{Final, Serving, Superseded};
    let bench = Bench::start(manifest(1, 1)).await;
    let filter = "tm.evaluation.>".to_owned();
    let mut events = Follow::open(&bench.context, declared::EVALUATION, filter, false, Start::Beginning).await;
    let mut live = Live::new(bench.context.clone(), |_, _| Box::pin(async { panic!("folded") }));
    let evaluation = &bench.event.evaluation;
    for (said, newest) in [
        (Final, Final),
        (Serving, Final),
        (Superseded, Superseded),
        (Final, Superseded),
    ] {
        bench.enter(said, None).await;
        live.note(&events.next().await);
        live.start();
        assert!(live.tasks.is_empty());
        let known = tidemill_service::outcome::newest_event(&bench.context, evaluation).await;
        assert_eq!(known.unwrap().unwrap().state, newest);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_superseded_while_it_is_served_is_said_in_the_results() {
    let bench = Bench::start(two_benchmarks()).await;
    let aggregator = bench.aggregator();
    bench.enter(EvaluationState::Serving, None).await;
    bench.grade(&grade(0, 0, Outcome::Correct)).await;
    bench.wait_for_result(|message| message.provisional).await;
    bench
        .enter(EvaluationState::Superseded, Some("the run went back"))
        .await;
    let last = bench.wait_for_result(|message| !message.provisional).await.result;
    assert_eq!(
        (last.state, last.reason.as_deref()),
        (ResultState::Superseded, Some("the run went back"))
    );
    assert_eq!(last.benchmarks[0].coverage, 0.25);
    aggregator.drain().await;
    assert_eq!(
        finals(&bench.results().await).len(),
        1,
        "nothing was known of the second"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_superseded_after_its_end_is_said_once() {
    let bench = Bench::start(two_benchmarks()).await;
    let first = bench.aggregator();
    bench.enter(EvaluationState::Serving, None).await;
    for item in 0..4 {
        bench.grade(&grade(item, 0, Outcome::Correct)).await;
    }
    bench.grade(&second(Outcome::Correct)).await;
    let end = bench.end().await;
    first.drain().await;
    // No aggregator runs when the run goes back.
    let mut next = end.next(EvaluationState::Superseded, now(), Some("the run went back".to_owned()));
    next.result = end.result;
    let change = StateChange(next.clone());
    let published = bench.context.publisher.publish(&change, None).await.unwrap();
    let tidemill_service::Published::Stored(sequence) = published else {
        panic!("{published:?}")
    };
    let aggregator = bench.aggregator();
    let is_first = |message: &ResultMessage| {
        message.result.state == ResultState::Superseded && message.result.benchmarks[0].name.as_str() == "benchmark"
    };
    bench.wait_for_result(is_first).await;
    aggregator.drain().await;
    retraction::retract(bench.context.clone(), vec![Newest { sequence, event: next }]).await;
    let results = bench.results().await;
    let retracted = finals(&results)
        .into_iter()
        .filter(|result| result.state == ResultState::Superseded);
    assert_eq!(retracted.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_served_is_left_alone() {
    let mut bench = Bench::start(manifest(1, 1)).await;
    bench.grade(&grade(0, 0, Outcome::Correct)).await;
    // This one was served and superseded since: its newest event counts, not its old ones.
    bench.enter(EvaluationState::Serving, None).await;
    bench.enter(EvaluationState::Superseded, None).await;
    let superseded = bench.event.evaluation.clone();
    let aggregator = bench.aggregator();
    bench.event.evaluation = tidemill_domain::EvaluationId::from_digest(&Digest::of(b"other"));
    bench.enter(EvaluationState::Serving, None).await;
    let mut other = grade(0, 0, Outcome::Correct);
    other.key.evaluation = bench.event.evaluation.clone();
    bench.grade(&other).await;
    bench.wait_for_result(|message| !message.provisional).await;
    aggregator.drain().await;
    let results = bench.results().await;
    assert!(results.iter().all(|message| message.result.evaluation != superseded));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_aggregators_say_everything_once() {
    let bench = Bench::start(manifest(20, 1)).await;
    let both = [bench.aggregator(), bench.aggregator()];
    bench.enter(EvaluationState::Serving, None).await;
    for item in 0..20 {
        bench.grade(&grade(item, 0, Outcome::Correct)).await;
    }
    let end = bench.end().await;
    assert_eq!(end.result.unwrap().benchmarks[0].outcomes.correct, 20);
    for aggregator in both {
        aggregator.drain().await;
    }
    assert_eq!(finals(&bench.results().await).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_queued_again_while_its_fold_still_tells_its_end_is_folded_again() {
    let bench = Bench::start(manifest(1, 1)).await;
    // The first fold ends when it is told anything, with the word for its own life alone.
    let mut live = Live::new(bench.context.clone(), |_, mut newest| {
        Box::pin(async move { newest.changed().await.unwrap() })
    });
    let serving = bench.event.next(EvaluationState::Serving, now(), None);
    let mut again = serving.clone();
    again.timeline.queued = Some(Timestamp(serving.life().0 + 1));
    let id = serving.evaluation.clone();
    live.newest.insert(
        id.clone(),
        watch::Sender::new(Newest {
            sequence: 1,
            event: serving,
        }),
    );
    live.changed.push(id.clone());
    live.start();
    live.newest[&id].send_replace(Newest {
        sequence: 2,
        event: again,
    });
    let ended = live.tasks.join_next_with_id().await.unwrap();
    live.note_end(ended);
    live.start();
    assert_eq!(live.tasks.len(), 1, "its new life is folded");
    live.stop().await;
}
