//! What a comparison reads of one evaluation: a score an item, and the settings that both must share.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use tidemill_archive::Samples;
use tidemill_domain::{
    Benchmark, Digest, EvaluationEvent, EvaluationId, Grade, Group, Item, Manifest, Outcome, ResultState, RunId,
    Source, Step,
};
use tidemill_service::Context;

use crate::view::{Following, Known};

/// How a person names an evaluation: by its id, or by its run and step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    /// `results` shows it.
    Id(EvaluationId),
    /// All suites of a checkpoint.
    Step(RunId, Step),
}

impl std::str::FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((run, step)) = text.rsplit_once('@') else {
            return text.parse().map(Self::Id).map_err(|error| {
                format!("{error}; an evaluation is named by its id or as RUN@STEP, as `tidemill results` shows them")
            });
        };
        let run = RunId::try_new(run).map_err(|error| error.to_string())?;
        let step = step.parse().map(Step);
        step.map(|step| Self::Step(run, step))
            .map_err(|_| format!("{text:?} has no step after the @"))
    }
}

/// One side of a comparison.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) evaluation: EvaluationId,
    pub(crate) run: RunId,
    pub(crate) step: Step,
    pub(crate) state: ResultState,
    /// What is the same for all its benchmarks, by key.
    pub(crate) settings: Settings,
    pub(crate) benchmarks: Vec<Scored>,
    pub(crate) groups: Vec<Group>,
}

/// Settings by the key under which a difference is refused or allowed, as people read them.
pub(crate) type Settings = BTreeMap<&'static str, String>;

/// A benchmark of one side.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scored {
    pub(crate) name: String,
    /// Samples an item.
    pub(crate) samples: u32,
    pub(crate) settings: Settings,
    /// By the item's id.
    pub(crate) items: BTreeMap<String, Scores>,
}

/// The samples of one item.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Scores {
    /// Samples with a score.
    pub(crate) scored: u32,
    /// Their scores' sum.
    pub(crate) sum: f64,
    /// Their squares' sum.
    pub(crate) squares: f64,
    /// Samples that failed.
    pub(crate) failed: u32,
    /// Samples without an outcome.
    pub(crate) missing: u32,
    /// Samples that were cut.
    pub(crate) truncated: u32,
    /// How much the item counts.
    pub(crate) weight: f64,
    pub(crate) cluster: Option<String>,
    /// Of what is sent.
    pub(crate) prompt: Print,
    /// Of what the answer is compared with.
    pub(crate) reference: Print,
}

/// The beginning of a digest, enough to tell two texts apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Print(pub(crate) u64);

impl Print {
    pub(crate) fn of(value: &impl serde::Serialize) -> Self {
        let text = serde_json::to_vec(value).unwrap_or_default();
        let digest = Digest::of(&text);
        Self(u64::from_str_radix(&digest.hex()[..16], 16).unwrap_or(0))
    }
}

impl Scores {
    /// The mean over the samples that have a score; `None` without any.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.scored > 0).then(|| self.sum / f64::from(self.scored))
    }

    /// The sum of the squared distances of the samples' scores to their mean.
    pub(crate) fn spread(&self) -> f64 {
        let mean = self.mean().unwrap_or(0.0);
        (self.squares - f64::from(self.scored) * mean * mean).max(0.0)
    }

    fn push(&mut self, grade: Option<&Grade>) {
        match grade {
            None => self.failed += 1,
            Some(grade) if !grade.outcome.is_scored() || !grade.score.is_finite() => self.failed += 1,
            Some(grade) => {
                let score = grade.score.clamp(0.0, 1.0);
                self.scored += 1;
                self.sum += score;
                self.squares += score * score;
            }
        }
        let is_cut = grade.is_some_and(|grade| grade.truncated || grade.outcome == Outcome::Truncated);
        self.truncated += u32::from(is_cut);
    }
}

/// The evaluations that a name means, of one suite where it is given.
pub(crate) fn find<'a>(following: &'a Following, name: &Name, suite: Option<&str>) -> anyhow::Result<Vec<&'a Known>> {
    let known = following.view.evaluations().into_iter();
    let found: Vec<&Known> = match name {
        Name::Id(id) => known.filter(|known| known.event.evaluation == *id).collect(),
        Name::Step(run, step) => known
            .filter(|known| known.event.run == *run && known.event.step == *step)
            .filter(|known| suite.is_none_or(|suite| known.event.suite.name.as_str() == suite))
            .collect(),
    };
    if found.is_empty() {
        let named = match name {
            Name::Id(id) => id.to_string(),
            Name::Step(run, step) => format!("of {run} at step {step}"),
        };
        let of_suite = suite.map_or(String::new(), |suite| format!(" with suite {suite}"));
        bail!("no evaluation {named}{of_suite} here; `tidemill results` lists them");
    }
    Ok(found)
}

/// The one evaluation of each name that is of the same suite as the other's.
pub(crate) fn pair<'a>(first: &[&'a Known], second: &[&'a Known]) -> anyhow::Result<(&'a Known, &'a Known)> {
    let mut pairs = Vec::new();
    for one in first {
        pairs.extend(
            second
                .iter()
                .filter(|other| same_suite(one, other))
                .map(|other| (*one, *other)),
        );
    }
    match (pairs.as_slice(), first, second) {
        ([pair], ..) => Ok(*pair),
        // Of different suites: what differs is said when both were read.
        ([], [one], [other]) => Ok((*one, *other)),
        _ => {
            let named = |side: &[&Known]| {
                let each = side.iter().map(|known| {
                    let event = &known.event;
                    format!("{} ({} {})", event.evaluation, event.suite.name, event.suite.version)
                });
                each.collect::<Vec<_>>().join(", ")
            };
            bail!(
                "it is not clear which evaluations to compare: the first may be {}; the second {}. Name them by id, or say --suite",
                named(first),
                named(second)
            )
        }
    }
}

fn same_suite(one: &Known, other: &Known) -> bool {
    one.event.suite.name == other.event.suite.name && one.event.evaluation != other.event.evaluation
}

/// Reads an evaluation's grades, from wherever they are.
pub(crate) async fn read(context: &Context, known: &Known) -> anyhow::Result<Side> {
    let event = &known.event;
    let manifest = context.store.manifest(&event.manifest).await?;
    let mut samples = Samples::open(context, event, &manifest).await?;
    let mut benchmarks: Vec<Scored> = manifest.benchmarks.iter().map(Scored::new).collect();
    let mut graders = vec![BTreeSet::new(); benchmarks.len()];
    while let Some(sample) = samples.next().await? {
        let found = tidemill_archive::item(&context.store, &manifest, &sample.key).await?;
        let (_, item) = found.with_context(|| format!("{} is not in the manifest", sample.key))?;
        let index = sample.key.benchmark as usize;
        let scores = benchmarks[index].scores(&item);
        match (&sample.grade, sample.grade()) {
            (None, _) => scores.missing += 1,
            (Some(_), Ok(Some(grade))) => {
                scores.push(Some(&grade));
                graders[index].insert(grade.grader.clone());
            }
            // As for the aggregator, a grade that cannot be read is a fault of the grader.
            (Some(_), _) => scores.push(None),
        }
    }
    for (benchmark, graders) in benchmarks.iter_mut().zip(graders) {
        let graders: Vec<String> = graders.into_iter().collect();
        benchmark.settings.insert("grader-version", graders.join(", "));
    }
    Ok(Side {
        evaluation: event.evaluation.clone(),
        run: event.run.clone(),
        step: event.step,
        state: known.result().state,
        settings: of_evaluation(event, &manifest),
        benchmarks,
        groups: manifest.groups.clone(),
    })
}

fn of_evaluation(event: &EvaluationEvent, manifest: &Manifest) -> Settings {
    let suite = &manifest.suite;
    let engine = match &event.source {
        Source::Checkpoint { .. } => "started for the checkpoint",
        Source::Endpoint { .. } => "a server that ran already",
    };
    Settings::from([
        ("suite", format!("{} {}", suite.name, suite.version)),
        ("engine", engine.to_owned()),
    ])
}

impl Scored {
    fn new(benchmark: &Benchmark) -> Self {
        let settings = &benchmark.settings;
        let penalties = benchmark.penalties;
        let mut facts = Settings::from([
            ("grader", json(&benchmark.grader)),
            ("reasoning", json(&benchmark.reasoning)),
        ]);
        // Nothing is drawn where likelihoods are asked for.
        if !benchmark.is_likelihood() {
            facts.extend([
                ("max-tokens", settings.max_tokens.to_string()),
                ("temperature", settings.temperature.to_string()),
                ("top-p", settings.top_p.to_string()),
                ("stop", json(&settings.stop)),
                (
                    "penalties",
                    format!(
                        "frequency {}, presence {}, repetition {}",
                        penalties.frequency, penalties.presence, penalties.repetition
                    ),
                ),
            ]);
        }
        Self {
            name: benchmark.name.to_string(),
            samples: settings.samples,
            settings: facts,
            items: BTreeMap::new(),
        }
    }

    fn scores(&mut self, item: &Item) -> &mut Scores {
        self.items.entry(item.id.clone()).or_insert_with(|| Scores {
            weight: item.weight,
            cluster: item.cluster.clone(),
            prompt: Print::of(&item.prompt),
            reference: Print::of(&(&item.targets, &item.choices, item.correct_choice, &item.material)),
            ..Scores::default()
        })
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
