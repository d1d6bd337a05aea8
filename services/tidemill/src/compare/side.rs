//! What a comparison reads of one evaluation: a score, or what is added to a metric, an item; and the settings that both must
//! share.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tidemill_aggregator::{Contribution, contribution};
use tidemill_archive::{Sample, Samples};
use tidemill_domain::{
    Aggregation, Benchmark, Digest, EvaluationEvent, EvaluationId, EvaluationState, Grade, GraderSpec, Group, Item,
    Manifest, Metric, MetricSource, Outcome, Reasoning, ResultState, RunId, Source, Step,
};
use tidemill_loader::intake::has_checkpoint;
use tidemill_service::Context;

use crate::regrade::{self, Stored};
use crate::view::{Following, Known};

/// One side as a person names it: an evaluation, or what a regrade of it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operand {
    pub(crate) name: Name,
    /// The how-many-th regrade; `None` for the first grades.
    pub(crate) regrade: Option<u32>,
}

/// What stands between an evaluation's name and the number of its regrade, as in the object store.
const REGRADE: &str = "/regrade-";

impl std::str::FromStr for Operand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbered = text.rsplit_once(REGRADE);
        let numbered = numbered.and_then(|(name, number)| Some((name, number.parse::<u32>().ok()?)));
        let (name, regrade) = match numbered {
            Some((name, number)) => (name, Some(number)),
            None => (text, None),
        };
        let name = name.parse()?;
        Ok(Self { name, regrade })
    }
}

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
                format!(
                    "{error}; an evaluation is named by its id or as RUN@STEP, as `tidemill results` shows them, and a regrade \
                     of it with /regrade-N behind that"
                )
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
    /// Whose grades they are; `None` for the first ones.
    pub(crate) regrade: Option<u32>,
    pub(crate) run: RunId,
    pub(crate) step: Step,
    pub(crate) state: ResultState,
    /// What is the same for all its benchmarks, by key.
    pub(crate) settings: Settings,
    pub(crate) benchmarks: Vec<Scored>,
    pub(crate) groups: Vec<Group>,
    /// Where scores are compared, what the benchmarks have of the metrics that groups are of, by the metric's name.
    pub(crate) beside: BTreeMap<String, Vec<Scored>>,
}

/// Settings by the key under which a difference is refused or allowed.
pub(crate) type Settings = BTreeMap<&'static str, Value>;

/// The option that says what all others of a setting are of.
pub(crate) const KIND: &str = "kind";

/// A benchmark of one side.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scored {
    pub(crate) name: String,
    /// Samples an item.
    pub(crate) samples: u32,
    pub(crate) settings: Settings,
    /// What it measures beside its score.
    pub(crate) metrics: Vec<Metric>,
    /// What is compared, with its ordinal: `None` for the score, or where it has no such metric.
    pub(crate) metric: Option<(usize, Metric)>,
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
    /// What they add to a figure of the whole corpus, where that is compared.
    pub(crate) added: Option<Contribution>,
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
    fn of(item: &Item) -> Self {
        Self {
            weight: item.weight,
            cluster: item.cluster.clone(),
            prompt: Print::of(&item.prompt),
            reference: Print::of(&(&item.targets, &item.choices, item.correct_choice, &item.material)),
            ..Self::default()
        }
    }

    /// The mean over the samples that have a score; `None` without any.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.scored > 0).then(|| self.sum / f64::from(self.scored))
    }

    /// The sum of the squared distances of the samples' scores to their mean.
    pub(crate) fn spread(&self) -> f64 {
        let mean = self.mean().unwrap_or(0.0);
        (self.squares - f64::from(self.scored) * mean * mean).max(0.0)
    }

    fn push(&mut self, value: f64) {
        self.scored += 1;
        self.sum += value;
        self.squares += value * value;
    }

    /// Takes in the samples of the item, for the score or for a metric of its benchmark.
    fn take(&mut self, samples: &[Read], metric: Option<&(usize, Metric)>) {
        for sample in samples {
            let grade = sample.grade();
            let is_cut = grade.is_some_and(|grade| grade.truncated || grade.outcome == Outcome::Truncated);
            self.truncated += u32::from(is_cut);
            self.missing += u32::from(matches!(sample, Read::Missing));
            // As for the aggregator, a grade that cannot be read is a fault of the grader.
            let is_scored = grade.is_some_and(|grade| grade.outcome.is_scored() && grade.score.is_finite());
            self.failed += u32::from(!is_scored && !matches!(sample, Read::Missing));
        }
        let scored = samples.iter().filter_map(Read::grade);
        let scored = scored.filter(|grade| grade.outcome.is_scored() && grade.score.is_finite());
        match metric {
            None => scored.for_each(|grade| self.push(grade.score.clamp(0.0, 1.0))),
            Some((ordinal, metric)) if is_mean_of_samples(metric) => {
                let values = scored.filter_map(|grade| contribution(metric, *ordinal, &[Some(grade.clone())]));
                values.for_each(|value| match value {
                    Contribution::Figure(value) => self.push(value),
                    Contribution::Sums(_) | Contribution::Labels(_) => {}
                });
            }
            Some((ordinal, metric)) => {
                let grades: Vec<Option<Grade>> = samples.iter().map(|sample| sample.grade().cloned()).collect();
                match contribution(metric, *ordinal, &grades) {
                    Some(Contribution::Figure(value)) => self.push(value),
                    added => self.added = added,
                }
            }
        }
    }

    /// There is something to compare.
    pub(crate) const fn is_known(&self) -> bool {
        self.scored > 0 || self.added.is_some()
    }
}

/// Every sample has a figure of its own, of which the metric is the mean.
fn is_mean_of_samples(metric: &Metric) -> bool {
    metric.source == MetricSource::Measure && metric.aggregation == Aggregation::Mean
}

/// It is made of what adds up over the items; no item has a figure of its own.
pub(crate) fn is_of_corpus(metric: &Metric) -> bool {
    metric.source == MetricSource::Measure && metric.aggregation != Aggregation::Mean
}

/// A sample's grade, as far as it can be read.
#[derive(Debug)]
enum Read {
    Missing,
    Unreadable,
    Graded(Box<Grade>),
}

impl Read {
    fn of(sample: &Sample) -> Self {
        match (&sample.grade, sample.grade()) {
            (None, _) => Self::Missing,
            (Some(_), Ok(Some(grade))) => Self::Graded(Box::new(grade)),
            (Some(_), _) => Self::Unreadable,
        }
    }

    fn grade(&self) -> Option<&Grade> {
        match self {
            Self::Graded(grade) => Some(grade),
            Self::Missing | Self::Unreadable => None,
        }
    }
}

/// The evaluations that a name means, of one suite where it is given.
pub(crate) fn find<'a>(following: &'a Following, name: &Name, suite: Option<&str>) -> anyhow::Result<Vec<&'a Known>> {
    let known = following.view.evaluations().into_iter();
    let found: Vec<&Known> = match name {
        Name::Id(id) => known.filter(|known| known.event.evaluation == *id).collect(),
        Name::Step(run, step) => known
            .filter(|known| known.event.run == *run && known.event.step == *step && has_checkpoint(&known.event))
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
///
/// An evaluation is paired with itself only where `may_be_one` says so: of two different gradings.
pub(crate) fn pair<'a>(
    first: &[&'a Known],
    second: &[&'a Known],
    may_be_one: bool,
) -> anyhow::Result<(&'a Known, &'a Known)> {
    let mut pairs = Vec::new();
    for one in first {
        pairs.extend(
            second
                .iter()
                .filter(|other| same_suite(one, other, may_be_one))
                .map(|other| (*one, *other)),
        );
    }
    // One that ended without counting, as for a mistyped model, stands in no other's way.
    let counts = |known: &Known| known.event.state == EvaluationState::Final;
    prefer(&mut pairs, |(one, other)| counts(one) && counts(other));
    match (pairs.as_slice(), first, second) {
        ([pair], ..) => Ok(*pair),
        // Of different suites: what differs is said when both were read.
        ([], [one], [other]) => Ok((*one, *other)),
        _ => {
            let named = |side: &[&Known]| {
                let each = side.iter().map(|known| {
                    let event = &known.event;
                    let (suite, state) = (&event.suite, event.state.label());
                    format!("{} ({} {}, {state})", event.evaluation, suite.name, suite.version)
                });
                each.collect::<Vec<_>>().join(", ")
            };
            bail!(
                "it is not clear which evaluations to compare: the first may be {}; the second {}. Name them by id, or, where \
                 they are of suites of different names, say --suite",
                named(first),
                named(second)
            )
        }
    }
}

/// Leaves those of several that count, where any does.
fn prefer<T>(several: &mut Vec<T>, counts: impl Fn(&T) -> bool) {
    if several.iter().any(&counts) {
        several.retain(counts);
    }
}

fn same_suite(one: &Known, other: &Known, may_be_one: bool) -> bool {
    let is_one = one.event.evaluation == other.event.evaluation;
    one.event.suite.name == other.event.suite.name && (may_be_one || !is_one)
}

/// Reads an evaluation's grades, or those of a regrade, from wherever they are: for the score, or for a metric by its name.
pub(crate) async fn read(
    context: &Context,
    known: &Known,
    regrade: Option<u32>,
    metric: Option<&str>,
) -> anyhow::Result<Side> {
    let event = &known.event;
    let manifest = context.store.manifest(&event.manifest).await?;
    let mut state = known.result().state;
    let mut benchmarks = manifest.benchmarks.clone();
    let mut samples = match regrade {
        None => Samples::open(context, event, &manifest).await?,
        Some(number) => {
            let stored = Stored::read(context, &event.evaluation, number).await?;
            state = stored.state;
            benchmarks.iter_mut().for_each(|benchmark| stored.grades(benchmark));
            let folder = regrade::folder(&event.evaluation, number);
            Samples::of_folder(context, event, &manifest, &folder).await?
        }
    };
    let of = |metric: Option<&str>| -> Vec<Scored> {
        let benchmarks = benchmarks.iter();
        benchmarks.map(|benchmark| Scored::new(benchmark, metric)).collect()
    };
    let mut scored = of(metric);
    let of_groups = manifest.groups.iter().filter_map(|group| group.metric.as_ref());
    let of_groups = of_groups.filter(|_| metric.is_none());
    let mut beside: BTreeMap<String, Vec<Scored>> = of_groups.map(|name| (name.clone(), of(Some(name)))).collect();
    let mut graders = vec![BTreeSet::new(); scored.len()];
    let mut together: Vec<Read> = Vec::new();
    while let Some(sample) = samples.next().await? {
        let found = tidemill_archive::item(&context.store, &manifest, &sample.key).await?;
        let (benchmark, item) = found.with_context(|| format!("{} is not in the manifest", sample.key))?;
        let index = sample.key.benchmark as usize;
        let read = Read::of(&sample);
        graders[index].extend(read.grade().map(|grade| grade.grader.clone()));
        together.push(read);
        // Samples come in the manifest's order, so those of an item one after the other.
        if sample.key.sample + 1 >= benchmark.settings.samples {
            let fresh = Scores::of(&item);
            for scored in std::iter::once(&mut scored).chain(beside.values_mut()) {
                scored[index].take(&item.id, &fresh, &together);
            }
            together.clear();
        }
    }
    for (benchmark, graders) in scored.iter_mut().zip(graders) {
        benchmark.settings.insert("grader-version", json!(graders));
    }
    Ok(Side {
        evaluation: event.evaluation.clone(),
        regrade,
        run: event.run.clone(),
        step: event.step,
        state,
        settings: of_evaluation(event, &manifest),
        benchmarks: scored,
        groups: manifest.groups.clone(),
        beside,
    })
}

fn of_evaluation(event: &EvaluationEvent, manifest: &Manifest) -> Settings {
    let suite = &manifest.suite;
    let engine = match &event.source {
        Source::Checkpoint { .. } => "started for the checkpoint",
        Source::Endpoint { .. } => "a server that ran already",
    };
    Settings::from([
        ("suite", json!({ "name": suite.name, "version": suite.version })),
        ("engine", json!(engine)),
    ])
}

impl Scored {
    fn new(benchmark: &Benchmark, metric: Option<&str>) -> Self {
        let settings = &benchmark.settings;
        let penalties = benchmark.penalties;
        let mut facts = Settings::from([
            ("grader", grader(&benchmark.grader)),
            ("reasoning", reasoning(&benchmark.reasoning)),
        ]);
        // Nothing is drawn where likelihoods are asked for.
        if !benchmark.is_likelihood() {
            facts.extend([
                ("max-tokens", json!(settings.max_tokens)),
                ("temperature", json!(settings.temperature)),
                ("top-p", json!(settings.top_p)),
                ("stop", json!(settings.stop)),
                (
                    "penalties",
                    json!({
                        "frequency": penalties.frequency,
                        "presence": penalties.presence,
                        "repetition": penalties.repetition,
                    }),
                ),
            ]);
        }
        let metrics = benchmark.metrics.iter().cloned().enumerate();
        let mut wanted = metrics.filter(|(_, known)| metric == Some(known.name.as_str()));
        Self {
            name: benchmark.name.to_string(),
            samples: settings.samples,
            settings: facts,
            metric: wanted.next(),
            metrics: benchmark.metrics.clone(),
            items: BTreeMap::new(),
        }
    }

    /// Takes in the samples of an item, of which nothing is known yet but what `fresh` says.
    fn take(&mut self, id: &str, fresh: &Scores, samples: &[Read]) {
        let scores = self.items.entry(id.to_owned()).or_insert_with(|| fresh.clone());
        scores.take(samples, self.metric.as_ref());
    }
}

/// A grader's options beside the name of its kind.
pub(crate) fn grader(spec: &GraderSpec) -> Value {
    let mut facts = match serde_json::to_value(spec) {
        Ok(Value::Object(tagged)) => tagged.into_iter().next().map(|(_, options)| options),
        _ => None,
    }
    .unwrap_or_default();
    if let Some(facts) = facts.as_object_mut() {
        facts.insert(KIND.to_owned(), json!(spec.kind()));
        return Value::Object(std::mem::take(facts));
    }
    json!({ KIND: spec.kind() })
}

fn reasoning(reasoning: &Reasoning) -> Value {
    match reasoning {
        Reasoning::Think => json!("as usual"),
        Reasoning::Marks { open, close } => json!({ "open": open, "close": close }),
        Reasoning::None => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_count_are_preferred_and_others_stand_where_none_does() {
        for (several, left) in [
            (vec![2, 3], vec![2]),
            (vec![3], vec![3]),
            (vec![2, 4, 5], vec![2, 4]),
            (vec![3, 5], vec![3, 5]),
        ] {
            let mut preferred = several;
            prefer(&mut preferred, |number| number % 2 == 0);
            assert_eq!(preferred, left);
        }
    }
}
