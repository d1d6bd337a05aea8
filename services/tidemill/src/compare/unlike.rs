//! What two evaluations must share to be compared item by item.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use tidemill_domain::{Aggregation, Average, Metric, MetricSource, ResultState, counted};

use crate::compare::report::Named;
use crate::compare::side::{Scored, Scores, Settings, Side};
use crate::compare::value;

/// Every key under which a difference is refused, with what it means.
pub(crate) const KEYS: [(&str, &str); 14] = [
    ("state", "an evaluation that has not ended, or is invalid"),
    ("suite", "name or version of the suite"),
    (
        "engine",
        "one engine started for the checkpoint, the other running already",
    ),
    (
        "prompt",
        "what is sent for the same item: template, few-shot examples, system prompt, data",
    ),
    ("reference", "targets, choices or material of the same item"),
    ("grader", "kind or options of the grader"),
    ("grader-version", "version of the grader that made the grades"),
    (
        "metric",
        "how the metric that is compared is made of what samples add to it",
    ),
    ("reasoning", "how reasoning is told from the answer"),
    ("max-tokens", "the cap on the answer"),
    ("temperature", "sampling temperature"),
    ("top-p", "nucleus sampling"),
    ("stop", "stop texts"),
    ("penalties", "penalties of repeated tokens"),
];

/// A setting that the two sides do not share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Unlike {
    /// One of [`KEYS`].
    pub(crate) key: &'static str,
    /// `None` for one of the whole evaluation.
    pub(crate) benchmark: Option<String>,
    /// What of it differs, as suites write it: `max_tokens`, `grader tolerance`.
    pub(crate) setting: String,
    /// `None` for what is known by its digest alone.
    pub(crate) first: Option<String>,
    /// As `first`.
    pub(crate) second: Option<String>,
    /// Items that differ, where it is something of items.
    pub(crate) items: Option<Named>,
}

impl Unlike {
    /// For people.
    pub(crate) fn sentence(&self) -> String {
        let place = self
            .benchmark
            .as_ref()
            .map_or(String::new(), |name| format!("{name}: "));
        match (&self.first, &self.second, &self.items) {
            (Some(first), Some(second), _) => format!("{place}{} {first} against {second}", self.setting),
            (_, _, Some(items)) => format!("{place}the {} differ, of {}", self.setting, which(items)),
            _ => format!("{place}the {} differ", self.setting),
        }
    }
}

fn which(items: &Named) -> String {
    let first = items.items.first().map_or("", String::as_str);
    match items.count {
        0 | 1 => format!("item {first}"),
        count => format!("{}, {first} the first", counted(count, "item")),
    }
}

/// Everything that the sides do not share, the whole evaluations' first.
pub(crate) fn unlike(first: &Side, second: &Side) -> Vec<Unlike> {
    let mut found = Vec::new();
    let counts = |side: &Side| matches!(side.state, ResultState::Final | ResultState::Superseded);
    if !counts(first) || !counts(second) {
        found.push(Unlike {
            key: "state",
            benchmark: None,
            setting: "state".to_owned(),
            first: Some(first.state.label().to_owned()),
            second: Some(second.state.label().to_owned()),
            items: None,
        });
    }
    found.extend(differing(&first.settings, &second.settings, None));
    for one in &first.benchmarks {
        let Some(other) = second.benchmarks.iter().find(|other| other.name == one.name) else {
            continue;
        };
        found.extend(differing(&one.settings, &other.settings, Some(&one.name)));
        found.extend(of_metric(one, other));
        found.extend(of_items("prompt", one, other, |scores| scores.prompt.0));
        found.extend(of_items("reference", one, other, |scores| scores.reference.0));
    }
    found
}

fn differing(first: &Settings, second: &Settings, benchmark: Option<&str>) -> Vec<Unlike> {
    let keys: BTreeSet<&'static str> = first.keys().chain(second.keys()).copied().collect();
    let of = |settings: &Settings, key| settings.get(key).cloned().unwrap_or_default();
    keys.into_iter()
        .flat_map(|key| of_setting(key, &of(first, key), &of(second, key), benchmark))
        .collect()
}

/// What differs within a setting, one option each.
fn of_setting(key: &'static str, first: &Value, second: &Value, benchmark: Option<&str>) -> Vec<Unlike> {
    let differing = value::differing(&key.replace('-', "_"), first, second).into_iter();
    differing
        .map(|value::Differing { path, first, second }| Unlike {
            key,
            benchmark: benchmark.map(str::to_owned),
            setting: path,
            first: Some(first),
            second: Some(second),
            items: None,
        })
        .collect()
}

/// The metric of one name that is not the same one.
fn of_metric(first: &Scored, second: &Scored) -> Vec<Unlike> {
    let Some(((_, one), (_, other))) = first.metric.as_ref().zip(second.metric.as_ref()) else {
        return Vec::new();
    };
    let facts = |metric: &Metric| {
        json!({
            "of": source(metric.source),
            "made by": aggregation(metric.aggregation),
            "higher_is_better": metric.higher_is_better,
        })
    };
    of_setting("metric", &facts(one), &facts(other), Some(&first.name))
}

fn source(source: MetricSource) -> String {
    match source {
        MetricSource::Measure => "every sample".to_owned(),
        MetricSource::FirstMeasure => "the first sample of each item".to_owned(),
        MetricSource::PassAt(k) => format!("pass@{k}"),
        MetricSource::MajorityAt(k) => format!("maj@{k}"),
        MetricSource::VotedMeasure(k) => format!("a vote of {}", counted(u64::from(k), "sample")),
    }
}

const fn aggregation(aggregation: Aggregation) -> &'static str {
    match aggregation {
        Aggregation::Mean => "mean",
        Aggregation::WeightedMean => "weighted mean",
        Aggregation::Perplexity => "perplexity",
        Aggregation::BitsPerWeight => "bits per weight",
        Aggregation::F1(Average::Binary) => "binary F1",
        Aggregation::F1(Average::Macro) => "macro F1",
        Aggregation::F1(Average::Micro) => "micro F1",
        Aggregation::F1(Average::Weighted) => "weighted F1",
        Aggregation::Mcc => "MCC",
        Aggregation::Bleu => "BLEU",
        Aggregation::Chrf => "chrF",
    }
}

/// Items that both have and that are not the same, as one difference.
fn of_items(key: &'static str, first: &Scored, second: &Scored, print: impl Fn(&Scores) -> u64) -> Option<Unlike> {
    let common = first
        .items
        .iter()
        .filter_map(|(id, one)| Some((id, print(one), print(second.items.get(id)?))));
    let differing = Named::of(common.filter(|(_, one, other)| one != other).map(|(id, ..)| id));
    (differing.count > 0).then(|| Unlike {
        key,
        benchmark: Some(first.name.clone()),
        setting: format!("{key}s"),
        first: None,
        second: None,
        items: Some(differing),
    })
}

/// Why two evaluations are not compared, and what to do.
pub(crate) fn refusal(refused: &[Unlike], first: &Side, second: &Side) -> String {
    let each: String = refused
        .iter()
        .map(|unlike| format!("\n  {}", unlike.sentence()))
        .collect();
    let keys: BTreeSet<&str> = refused.iter().map(|unlike| unlike.key).collect();
    let keys: Vec<&str> = keys.into_iter().collect();
    let known_by_digest = refused.iter().find(|unlike| unlike.items.is_some());
    let look = known_by_digest.and_then(|unlike| {
        let benchmark = unlike.benchmark.as_ref()?;
        let items = |side: &Side| format!("`tidemill items {} --benchmark {benchmark} --json`", side.evaluation);
        Some(format!("\nthe texts are in {} and {}", items(first), items(second)))
    });
    format!(
        "the two are not alike, so a difference would not be the models':{each}{}\nto compare all the same: --allow {}",
        look.unwrap_or_default(),
        keys.join(" --allow ")
    )
}

/// Those that are not allowed, and those that are.
pub(crate) fn sorted(all: Vec<Unlike>, allowed: &[String]) -> (Vec<Unlike>, Vec<Unlike>) {
    all.into_iter()
        .partition(|unlike| !allowed.iter().any(|key| key == unlike.key))
}

/// What `--allow` takes, for its help.
pub(crate) fn keys() -> String {
    let each = KEYS.iter().map(|(key, meaning)| format!("\n  {key}: {meaning}"));
    format!(
        "Compare although this differs; may be given several times:{}",
        each.collect::<String>()
    )
}

/// A key as `--allow` takes it.
pub(crate) fn key(text: &str) -> Result<String, String> {
    if KEYS.iter().any(|(key, _)| *key == text) {
        return Ok(text.to_owned());
    }
    let known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
    Err(format!("there are {}", known.join(", ")))
}
