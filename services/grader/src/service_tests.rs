//! Completions on a real broker: one grade each, whatever is repeated, killed or damaged.

use std::path::Path;
use std::time::Duration;

use async_nats::HeaderMap;
use tidemill_config::Config;
use tidemill_domain::{
    BenchmarkName, Digest, Ending, EvaluationId, GraderSpec, ItemKey, Outcome, Served, Settings, SuiteName, SuiteRef,
    Tier, Timestamp, WholeBenchmark, WholeManifest,
};
use tidemill_service::{Follow, Loads, Published, Start, Ttl, connect, prepare};
use tidemill_storage::{Address, Store};
use tidemill_streams::declared;
use tidemill_testkit::Broker;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::answer::tests::item;
use crate::step::fault;

#[path = "judged_tests.rs"]
mod judged;

const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    broker: Broker,
    context: Context,
    manifest: Digest,
    folder: tempfile::TempDir,
}

struct Running {
    loads: Loads,
    draining: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), Fatal>>,
}

impl Running {
    async fn drain(self) {
        self.draining.cancel();
        self.task.await.unwrap().unwrap();
    }
}

impl Bench {
    async fn start(items: usize) -> Self {
        Self::start_with(items, Config::default()).await
    }

    async fn start_with(items: usize, config: Config) -> Self {
        Self::start_of(config, manifest(items)).await
    }

    async fn start_of(config: Config, manifest: WholeManifest) -> Self {
        let broker = Broker::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let context = context(&broker, folder.path(), config).await;
        let manifest = context.store.put_whole(manifest).await.unwrap();
        Self {
            broker,
            context,
            manifest,
            folder,
        }
    }

    fn completion(&self, item: u32, text: &str) -> Completion {
        Completion {
            key: key(item),
            manifest: self.manifest.clone(),
            ending: Ending::Stop,
            text: text.to_owned(),
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
            started: Timestamp(0),
            finished: now(),
        }
    }

    async fn finish(&self, item: u32, text: &str) {
        let completion = self.completion(item, text);
        self.context.publisher.publish(&completion, None).await.unwrap();
    }

    /// The digest of a manifest whose bytes are not what it says.
    fn damaged_manifest(&self) -> Digest {
        let digest = Digest::of(b"damaged");
        let path = self.folder.path().join(format!("manifests/{}.zst", digest.hex()));
        std::fs::write(path, b"not a manifest").unwrap();
        digest
    }

    async fn finish_raw(&self, item: u32, payload: Vec<u8>) {
        let publisher = &self.context.publisher;
        publisher
            .publish_bytes::<Completion>(subject::done(&key(item)), payload, None, Ttl::Stream, HeaderMap::new())
            .await
            .unwrap();
    }

    /// The first `count` grades, in the order of their items.
    async fn grades(&self, count: usize) -> Vec<Grade> {
        self.grades_of(&key(0).evaluation, count).await
    }

    async fn grades_of(&self, evaluation: &EvaluationId, count: usize) -> Vec<Grade> {
        let filter = subject::grade_of_evaluation(evaluation);
        let mut follow = Follow::open(&self.context, declared::GRADE, filter, false, Start::Beginning).await;
        let all = async {
            let mut grades: Vec<Grade> = Vec::new();
            while grades.len() < count {
                grades.push(tidemill_codec::decode(&follow.next().await.payload).unwrap());
            }
            grades
        };
        let mut grades = tokio::time::timeout(PATIENCE, all)
            .await
            .expect("every completion is graded");
        grades.sort_by_key(|grade| grade.key.item);
        grades
    }

    async fn messages(&self, stream: &str) -> u64 {
        let mut stream = self.context.jetstream().get_stream(stream).await.unwrap();
        stream.info().await.unwrap().state.messages
    }

    /// Starts a grader that drains alone.
    fn grader(&self) -> Running {
        let mut context = self.context.role("grader");
        context.draining = CancellationToken::new();
        context.loads = Loads::default();
        Running {
            loads: context.loads.clone(),
            draining: context.draining.clone(),
            task: tokio::spawn(run(context)),
        }
    }

    async fn dead_letter(&self) -> (String, String) {
        let filter = subject::dead("grader");
        let mut follow = Follow::open(&self.context, declared::DEAD, filter, false, Start::Beginning).await;
        let letter = tokio::time::timeout(PATIENCE, follow.next())
            .await
            .expect("a dead letter");
        let header = |name| letter.headers.as_ref().unwrap().get(name).unwrap().as_str().to_owned();
        (header("Tidemill-Subject"), header("Tidemill-Reason"))
    }

    /// Waits until nothing is left for graders, delivered or not.
    async fn settled(&self) {
        let settled = async {
            loop {
                let durable = durable::grader();
                let consumer = self
                    .context
                    .jetstream()
                    .get_consumer_from_stream::<async_nats::jetstream::consumer::pull::Config, _, _>(
                        &durable.name,
                        durable.stream.name,
                    )
                    .await
                    .unwrap();
                let info = consumer.cached_info();
                if info.num_pending == 0 && info.num_ack_pending == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, settled)
            .await
            .expect("everything is settled");
    }
}

async fn context(broker: &Broker, folder: &Path, config: Config) -> Context {
    let connection = connect(&config, &broker.url(), "test").await.unwrap();
    let store = Store::open(Address::of_folder(folder)).unwrap();
    prepare(&connection, &config, &store, true).await.unwrap();
    Context::new("grader", connection, store, Arc::new(config))
}

fn settings() -> Settings {
    Settings {
        max_tokens: 10,
        temperature: 0.0,
        top_p: 1.0,
        stop: Vec::new(),
        seed: 0,
        samples: 1,
    }
}

fn manifest(items: usize) -> WholeManifest {
    WholeManifest {
        suite: SuiteRef {
            name: SuiteName::try_new("suite").unwrap(),
            version: "1".to_owned(),
            tier: Tier::InTraining,
        },
        max_failure_rate: 0.0,
        benchmarks: vec![WholeBenchmark {
            name: BenchmarkName::try_new("benchmark").unwrap(),
            settings: settings(),
            grader: GraderSpec::Numeric {
                pattern: None,
                tolerance: 0.0,
            },
            items: (0..items).map(|index| item(&[&index.to_string()], &[])).collect(),
        }],
    }
}

fn key(item: u32) -> ItemKey {
    ItemKey {
        evaluation: EvaluationId::from_digest(&Digest::of(b"evaluation")),
        benchmark: 0,
        item,
        sample: 0,
    }
}

fn delivery(key: &ItemKey, payload: Vec<u8>) -> Delivery {
    Delivery {
        subject: subject::done(key),
        payload: payload.into(),
        trace: None,
        delivered: 5_000,
        sequence: 1,
        stopped: CancellationToken::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_are_graded_once_each_by_two_graders() {
    let bench = Bench::start(300).await;
    for item in 0..300 {
        bench.finish(item, &format!("It is {}", item - item % 2)).await;
    }
    let graders = [bench.grader(), bench.grader()];
    let grades = bench.grades(300).await;
    for grader in graders {
        grader.drain().await;
    }
    for (index, grade) in grades.iter().enumerate() {
        let expected = if index % 2 == 0 {
            Outcome::Correct
        } else {
            Outcome::Incorrect
        };
        assert_eq!((grade.key.item as usize, grade.outcome), (index, expected));
    }
    assert_eq!(bench.messages(declared::GRADE.name).await, 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redelivered_completion_keeps_its_first_grade() {
    let bench = Bench::start(2).await;
    let first = fault(key(0), "of an earlier grader".to_owned());
    assert!(matches!(
        bench.context.publisher.publish(&first, None).await.unwrap(),
        Published::Stored(_)
    ));
    bench.finish(0, "0").await;
    bench.finish(1, "1").await;
    let grader = bench.grader();
    bench.settled().await;
    grader.drain().await;
    let grades = bench.grades(2).await;
    assert_eq!(grades[0], first);
    assert_eq!(grades[1].outcome, Outcome::Correct);
    assert_eq!(bench.messages(declared::GRADE.name).await, 2);
    assert_eq!(bench.messages(declared::DEAD.name).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn grading_goes_on_after_the_broker_was_killed() {
    let mut bench = Bench::start(2).await;
    let grader = bench.grader();
    bench.finish(0, "0").await;
    assert_eq!(bench.grades(1).await.len(), 1);
    bench.broker.kill().unwrap();
    bench.broker.restart().unwrap();
    bench.finish(1, "1").await;
    assert_eq!(bench.grades(2).await[1].outcome, Outcome::Correct);
    grader.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_completion_is_a_dead_letter_and_a_fault_of_the_grader() {
    let bench = Bench::start(2).await;
    bench.finish_raw(0, b"not ours".to_vec()).await;
    bench.finish(1, "1").await;
    let grader = bench.grader();
    let (grades, (letter_subject, reason)) = (bench.grades(2).await, bench.dead_letter().await);
    bench.settled().await;
    grader.drain().await;
    assert_eq!(grades[0].outcome, Outcome::GraderError);
    assert_eq!(grades[1].outcome, Outcome::Correct);
    assert_eq!(letter_subject, subject::done(&key(0)));
    assert!(reason.contains("not a message of ours"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_of_a_newer_version_gets_no_grade_from_this_one() {
    let bench = Bench::start(1).await;
    let mut newer = tidemill_codec::encode(&bench.completion(0, "0")).unwrap();
    newer[4] = 99;
    let grading = Grading::new(&bench.context);
    let delivery = delivery(&key(0), newer);
    let failure = grading.handle(delivery).await.unwrap_err();
    assert_eq!(failure.class, Class::Newer);
    assert!(failure.reason.contains("version 99 is not known"), "{failure:?}");
    assert_eq!(bench.messages(declared::GRADE.name).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_manifest_is_a_dead_letter_and_a_fault_of_the_grader() {
    let bench = Bench::start(1).await;
    let completion = Completion {
        manifest: bench.damaged_manifest(),
        ..bench.completion(0, "0")
    };
    bench.context.publisher.publish(&completion, None).await.unwrap();
    let grader = bench.grader();
    let (grades, (letter_subject, reason)) = (bench.grades(1).await, bench.dead_letter().await);
    bench.settled().await;
    grader.drain().await;
    assert_eq!(
        (grades[0].outcome, grades[0].requests, grades[0].started),
        (Outcome::GraderError, 1, Timestamp(0))
    );
    assert!(grades[0].reason.as_ref().unwrap().contains("damaged"));
    assert_eq!(letter_subject, subject::done(&key(0)));
    assert!(reason.contains("damaged"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_its_manifest_does_not_declare_is_a_dead_letter() {
    let bench = Bench::start(1).await;
    bench.finish(7, "7").await;
    let grader = bench.grader();
    let (_, reason) = bench.dead_letter().await;
    grader.drain().await;
    assert!(reason.contains("is not declared"), "{reason}");
    assert_eq!(bench.messages(declared::GRADE.name).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_in_the_object_store_is_graded() {
    let bench = Bench::start(1).await;
    let long = bench.completion(0, &format!("{} so 0", "word ".repeat(100_000)));
    let message = tidemill_codec::encode(&long).unwrap();
    let store = &bench.context.store;
    let claim = store.check_in::<Completion>(&key(0), message).await.unwrap();
    assert!(claim.len() < 1_000);
    bench.finish_raw(0, claim).await;
    let grader = bench.grader();
    let grades = bench.grades(1).await;
    grader.drain().await;
    assert_eq!(grades[0].outcome, Outcome::Correct);
}

#[tokio::test]
async fn a_slow_grade_leaves_the_thread_to_others() {
    let bench = Bench::start(1).await;
    let grading = Grading::new(&bench.context);
    let completion = bench.completion(0, &format!("{} so 0", "word ".repeat(100_000)));
    let turn = grading.turn(&completion, &delivery(&key(0), Vec::new())).await.unwrap();
    assert!(turn.is_some(), "a long answer waits for its turn");
    let declared = grading.find(&completion).await.unwrap().unwrap();
    let mut grading = std::pin::pin!(grading.grade(declared, Box::new(completion), turn));
    // One thread: were the grade made on it, it would be there at the first look.
    tokio::select! { biased;
        graded = &mut grading => panic!("graded in place: {graded:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(grading.await.unwrap().grade().unwrap().outcome, Outcome::Correct);
}

#[tokio::test]
async fn a_short_grade_and_one_with_nothing_to_grade_wait_for_no_turn() {
    let bench = Bench::start(1).await;
    let grading = Grading::new(&bench.context);
    let short = bench.completion(0, "0");
    let refused = Completion {
        ending: Ending::Refused,
        ..bench.completion(0, &"word ".repeat(100_000))
    };
    for completion in [short, refused] {
        let turn = grading.turn(&completion, &delivery(&key(0), Vec::new())).await.unwrap();
        assert!(turn.is_none(), "{:?}", completion.ending);
    }
}

/// Graders each of whose grades takes so long, on one thread each, and which hold little.
fn slow(delay: Duration) -> Config {
    let grader = tidemill_config::Grader {
        max_in_flight: 20,
        threads: 1,
        delay,
        ..tidemill_config::Grader::default()
    };
    Config {
        grader,
        ..Config::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_graders_share_the_work_and_grade_all_of_it_once() {
    let bench = Bench::start_with(120, slow(Duration::from_millis(20))).await;
    for item in 0..120 {
        bench.finish(item, &item.to_string()).await;
    }
    let graders = [bench.grader(), bench.grader(), bench.grader()];
    let grades = bench.grades(120).await;
    bench.settled().await;
    let done = |grader: &Running| grader.loads.all().iter().map(|load| load.done).sum::<u64>();
    let told = async {
        while graders.iter().map(done).sum::<u64>() < 120 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told)
        .await
        .expect("each says what it has done");
    let shares: Vec<u64> = graders.iter().map(done).collect();
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
    for grader in graders {
        grader.drain().await;
    }
    assert!(grades.iter().all(|grade| grade.outcome == Outcome::Correct));
    assert_eq!(bench.messages(declared::GRADE.name).await, 120);
    assert_eq!(bench.messages(declared::DEAD.name).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_has_its_turns_before_the_sweep_that_came_first_is_graded() {
    let bench = Bench::start_with(400, slow(Duration::from_millis(50))).await;
    for item in 0..400 {
        bench.finish(item, &item.to_string()).await;
    }
    let late = EvaluationId::from_digest(&Digest::of(b"late"));
    for item in 0..5 {
        let mut completion = bench.completion(item, &item.to_string());
        completion.key.evaluation = late.clone();
        bench.context.publisher.publish(&completion, None).await.unwrap();
    }
    let grader = bench.grader();
    bench.grades_of(&late, 5).await;
    let graded = bench.messages(declared::GRADE.name).await;
    grader.drain().await;
    assert!(graded < 200, "{graded} were graded first");
}
