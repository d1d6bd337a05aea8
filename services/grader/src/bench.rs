//! What tests of graders share: a broker with a suite, completions, and graders that drain alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use tidemill_config::Config;
use tidemill_domain::{
    BenchmarkName, Completion, Digest, EvaluationId, Grade, GraderSpec, ItemKey, Settings, SuiteName, SuiteRef, Tier,
    WholeBenchmark, WholeManifest,
};
use tidemill_service::{Context, Delivery, Fatal, Follow, Loads, Start, Ttl, connect, now, prepare};
use tidemill_storage::{Address, Store};
use tidemill_streams::{declared, durable, subject};
use tidemill_testkit::Broker;
use tokio_util::sync::CancellationToken;

use crate::answer::tests::item;
use crate::grade::tests::completion;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A broker, an object store and a manifest.
pub(crate) struct Bench {
    pub(crate) broker: Broker,
    pub(crate) context: Context,
    manifest: Digest,
    folder: tempfile::TempDir,
}

/// A grader that runs.
pub(crate) struct Running {
    pub(crate) loads: Loads,
    draining: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), Fatal>>,
}

impl Running {
    pub(crate) async fn drain(self) {
        self.draining.cancel();
        self.task.await.unwrap().unwrap();
    }
}

impl Bench {
    pub(crate) async fn start(items: usize) -> Self {
        Self::start_with(items, Config::default()).await
    }

    pub(crate) async fn start_with(items: usize, config: Config) -> Self {
        Self::start_of(config, manifest(items)).await
    }

    pub(crate) async fn start_of(config: Config, manifest: WholeManifest) -> Self {
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

    pub(crate) fn completion(&self, item: u32, text: &str) -> Completion {
        self.completion_of(key(item), text)
    }

    fn completion_of(&self, key: ItemKey, text: &str) -> Completion {
        Completion {
            key,
            manifest: self.manifest.clone(),
            finished: now(),
            ..completion(text)
        }
    }

    pub(crate) async fn finish(&self, item: u32, text: &str) {
        self.finish_of(key(item), text).await;
    }

    pub(crate) async fn finish_of(&self, key: ItemKey, text: &str) {
        let completion = self.completion_of(key, text);
        self.context.publisher.publish(&completion, None).await.unwrap();
    }

    /// The digest of a manifest whose bytes are not what it says.
    pub(crate) fn damaged_manifest(&self) -> Digest {
        let digest = Digest::of(b"damaged");
        let path = self.folder.path().join(format!("manifests/{}.zst", digest.hex()));
        std::fs::write(path, b"not a manifest").unwrap();
        digest
    }

    pub(crate) async fn finish_raw(&self, item: u32, payload: Vec<u8>) {
        let publisher = &self.context.publisher;
        publisher
            .publish_bytes::<Completion>(subject::done(&key(item)), payload, None, Ttl::Stream, HeaderMap::new())
            .await
            .unwrap();
    }

    /// The first `count` grades, in the order of their benchmarks and items.
    pub(crate) async fn grades(&self, count: usize) -> Vec<Grade> {
        self.grades_of(&key(0).evaluation, count).await
    }

    pub(crate) async fn grades_of(&self, evaluation: &EvaluationId, count: usize) -> Vec<Grade> {
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
        grades.sort_by_key(|grade| (grade.key.benchmark, grade.key.item));
        grades
    }

    pub(crate) async fn messages(&self, stream: &str) -> u64 {
        let mut stream = self.context.jetstream().get_stream(stream).await.unwrap();
        stream.info().await.unwrap().state.messages
    }

    /// Starts a grader that drains alone.
    pub(crate) fn grader(&self) -> Running {
        let mut context = self.context.role("grader");
        context.draining = CancellationToken::new();
        context.loads = Loads::default();
        Running {
            loads: context.loads.clone(),
            draining: context.draining.clone(),
            task: tokio::spawn(crate::run(context)),
        }
    }

    pub(crate) async fn dead_letter(&self) -> (String, String) {
        let filter = subject::dead("grader");
        let mut follow = Follow::open(&self.context, declared::DEAD, filter, false, Start::Beginning).await;
        let letter = tokio::time::timeout(PATIENCE, follow.next())
            .await
            .expect("a dead letter");
        let header = |name| letter.headers.as_ref().unwrap().get(name).unwrap().as_str().to_owned();
        (header("Tidemill-Subject"), header("Tidemill-Reason"))
    }

    /// Waits until nothing is left for graders, delivered or not.
    pub(crate) async fn settled(&self) {
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

pub(crate) fn settings() -> Settings {
    Settings {
        max_tokens: 10,
        temperature: 0.0,
        top_p: 1.0,
        stop: Vec::new(),
        seed: 0,
        samples: 1,
    }
}

pub(crate) fn manifest(items: usize) -> WholeManifest {
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

/// The evaluation that a test calls so.
pub(crate) fn evaluation(name: &str) -> EvaluationId {
    EvaluationId::from_digest(&Digest::of(name.as_bytes()))
}

pub(crate) fn key(item: u32) -> ItemKey {
    ItemKey {
        evaluation: evaluation("evaluation"),
        benchmark: 0,
        item,
        sample: 0,
    }
}

pub(crate) fn delivery(key: &ItemKey, payload: Vec<u8>) -> Delivery {
    Delivery {
        subject: subject::done(key),
        payload: payload.into(),
        trace: None,
        delivered: 5_000,
        sequence: 1,
        stopped: CancellationToken::new(),
    }
}
