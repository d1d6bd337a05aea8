//! What is evaluated, and what the engine answers: the same for the same key, whoever asks and however often.

use std::sync::Arc;

use tidemill_aggregator::Fold;
use tidemill_domain::{
    Benchmark, BenchmarkName, BenchmarkResult, Completion, Continuation, Digest, Ending, EvaluationId, Expectation,
    GraderSpec, Item, ItemKey, Manifest, Penalties, Prompt, Reasoning, Served, Settings, SuiteName, SuiteRef, TeamId,
    Tier, Timestamp, length_class,
};
use tidemill_grader::Suite;
use tidemill_grader::step;

/// The evaluations of a run.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) ids: Vec<EvaluationId>,
    pub(crate) manifests: Vec<Arc<Manifest>>,
    pub(crate) digests: Vec<Digest>,
    /// Who pays for each.
    pub(crate) teams: Vec<TeamId>,
    suites: Vec<Arc<Suite>>,
}

impl Declared {
    pub(crate) fn new(seed: u64, evaluations: usize, items: u32) -> Self {
        let name = |index: usize| format!("{seed}/{index}");
        let manifests: Vec<Arc<Manifest>> = (0..evaluations).map(|_| Arc::new(manifest(items))).collect();
        Self {
            ids: (0..evaluations)
                .map(|index| EvaluationId::from_digest(&Digest::of(name(index).as_bytes())))
                .collect(),
            suites: manifests
                .iter()
                .map(|manifest| Arc::new(Suite::new(Arc::clone(manifest))))
                .collect(),
            manifests,
            digests: (0..evaluations)
                .map(|index| Digest::of(format!("m{index}").as_bytes()))
                .collect(),
            teams: (0..evaluations)
                .map(|index| self::name(TeamId::try_new(format!("team {index}"))))
                .collect(),
        }
    }

    /// What is expected of an evaluation's items: of every other one what its answers take, of the rest nothing.
    pub(crate) fn expected(&self, evaluation: usize) -> Vec<Expectation> {
        let manifest = &self.manifests[evaluation];
        let benchmarks = (0_u32..).zip(&manifest.benchmarks);
        let expected = benchmarks.map(|(benchmark, declared)| {
            let keys = (0..declared.items).map(|item| ItemKey {
                evaluation: self.ids[evaluation].clone(),
                benchmark,
                item,
                sample: 0,
            });
            Expectation {
                classes: keys
                    .map(|key| length_class(self.completion(&key).completion_tokens))
                    .collect(),
                known: declared.items,
                ..Expectation::default()
            }
        });
        expected.filter(|_| evaluation.is_multiple_of(2)).collect()
    }

    pub(crate) fn index(&self, id: &EvaluationId) -> usize {
        self.ids.iter().position(|known| known == id).unwrap_or(0)
    }

    pub(crate) fn keys(&self) -> Vec<ItemKey> {
        let both = self.ids.iter().zip(&self.manifests);
        both.flat_map(|(id, manifest)| manifest.keys(id)).collect()
    }

    /// The engine's answer.
    pub(crate) fn completion(&self, key: &ItemKey) -> Completion {
        let draw = Digest::of(key.to_string().as_bytes())
            .hex()
            .bytes()
            .map(u32::from)
            .sum::<u32>();
        let (ending, text) = match draw % 10 {
            0 => (Ending::EngineError, String::new()),
            1 => (Ending::Length, "it is 4".to_owned()),
            2 | 3 => (Ending::Stop, "it is 5".to_owned()),
            4 => (Ending::Stop, "no idea".to_owned()),
            _ => (Ending::Stop, "it is 4".to_owned()),
        };
        Completion {
            key: key.clone(),
            manifest: self.digests[self.index(&key.evaluation)].clone(),
            truncated: ending == Ending::Length,
            ending,
            text,
            reasoning: None,
            finish_reason: None,
            stop_reason: None,
            choices: Vec::new(),
            detail: None,
            prompt_tokens: 7,
            completion_tokens: u64::from(draw % 50),
            requests: 1,
            attempts: 1,
            cached: false,
            served: Served::default(),
            generation: None,
            engine: "engine".to_owned(),
            started: Timestamp(1),
            finished: Timestamp(2),
        }
    }

    /// The item of a key with its suite, as the object store has it.
    pub(crate) fn find(&self, key: &ItemKey) -> step::Declared {
        let evaluation = self.index(&key.evaluation);
        let target = TARGETS[key.benchmark as usize];
        step::Declared {
            suite: Arc::clone(&self.suites[evaluation]),
            item: item(key.item, target).into(),
        }
    }

    /// The result when nothing goes wrong: each answer graded and counted once.
    pub(crate) fn undisturbed(&self, evaluation: usize) -> Vec<BenchmarkResult> {
        let manifest = &self.manifests[evaluation];
        let mut fold = Fold::new(manifest, Vec::new());
        for key in manifest.keys(&self.ids[evaluation]) {
            if let Some(grade) = step::graded(&self.find(&key), &self.completion(&key), Timestamp(3)).grade() {
                fold.apply(grade);
            }
        }
        fold.results()
    }
}

/// The right answer to the items of each benchmark.
const TARGETS: [&str; 2] = ["4", "it is 4"];

fn manifest(items: u32) -> Manifest {
    let numeric = GraderSpec::Numeric {
        pattern: None,
        tolerance: 0.0,
    };
    let exact = GraderSpec::Exact {
        ignore_case: true,
        ignore_punctuation: true,
    };
    Manifest {
        suite: SuiteRef {
            name: name(SuiteName::try_new("simulated")),
            version: "1".to_owned(),
            tier: Tier::Canary,
        },
        max_failure_rate: 1.0,
        benchmarks: vec![
            benchmark("numbers", items, 2, numeric),
            benchmark("words", items, 1, exact),
        ],
        groups: Vec::new(),
    }
}

fn item(index: u32, target: &str) -> Item {
    Item {
        id: index.to_string(),
        prompt: Prompt::Text("2 + 2".to_owned()),
        targets: vec![target.to_owned()],
        choices: Vec::new(),
        correct_choice: None,
        cluster: None,
        subset: None,
        weight: 1.0,
        material: Vec::new(),
    }
}

fn benchmark(title: &str, items: u32, samples: u32, grader: GraderSpec) -> Benchmark {
    Benchmark {
        name: name(BenchmarkName::try_new(title)),
        settings: Settings {
            max_tokens: 16 * samples,
            temperature: 1.0,
            top_p: 1.0,
            stop: Vec::new(),
            seed: 0,
            samples,
        },
        grader,
        items,
        // The items are made where they are needed.
        blocks: Vec::new(),
        clusters: None,
        penalties: Penalties::default(),
        continuation: Continuation::default(),
        // Of those that are drawn several times the last is spare.
        spare_samples: samples - 1,
        outlines: Vec::new(),
        reasoning: Reasoning::default(),
        metrics: Vec::new(),
        subsets: None,
        weights: None,
    }
}

/// A name that is written above, so that it is a good one.
fn name<T, E: std::fmt::Debug>(name: Result<T, E>) -> T {
    match name {
        Ok(name) => name,
        Err(error) => unreachable!("{error:?}"),
    }
}
