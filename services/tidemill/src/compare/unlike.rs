//! What two evaluations must share to be compared item by item.

use std::collections::BTreeSet;

use serde::Serialize;
use tidemill_domain::ResultState;

use crate::compare::side::{Scored, Settings, Side};

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
    pub(crate) first: String,
    pub(crate) second: String,
}

impl Unlike {
    /// For people.
    pub(crate) fn sentence(&self) -> String {
        let place = self
            .benchmark
            .as_ref()
            .map_or(String::new(), |name| format!("{name}: "));
        format!("{place}{} is {} and {}", self.key, self.first, self.second)
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
            first: first.state.label().to_owned(),
            second: second.state.label().to_owned(),
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
    let value = |settings: &Settings, key| settings.get(key).cloned().unwrap_or_else(|| "nothing".to_owned());
    let pairs = keys.into_iter().map(|key| (key, value(first, key), value(second, key)));
    pairs
        .filter(|(_, first, second)| first != second)
        .map(|(key, first, second)| Unlike {
            key,
            benchmark: benchmark.map(str::to_owned),
            first,
            second,
        })
        .collect()
}

/// The metric of one name that is not the same one.
fn of_metric(first: &Scored, second: &Scored) -> Option<Unlike> {
    let ((_, one), (_, other)) = first.metric.as_ref().zip(second.metric.as_ref())?;
    let told = |metric: &tidemill_domain::Metric| format!("{:?} of {:?}", metric.aggregation, metric.source);
    (one != other).then(|| Unlike {
        key: "metric",
        benchmark: Some(first.name.clone()),
        first: told(one),
        second: told(other),
    })
}

/// Items that both have and that are not the same, as one difference.
fn of_items(
    key: &'static str,
    first: &Scored,
    second: &Scored,
    print: impl Fn(&crate::compare::side::Scores) -> u64,
) -> Option<Unlike> {
    let common = first
        .items
        .iter()
        .filter_map(|(id, one)| Some((id, print(one), print(second.items.get(id)?))));
    let mut differing = common.filter(|(_, one, other)| one != other);
    let (id, one, other) = differing.next()?;
    let count = 1 + differing.count();
    let told = |print: u64| format!("{print:016x} (item {id}, {count} of them)");
    Some(Unlike {
        key,
        benchmark: Some(first.name.clone()),
        first: told(one),
        second: told(other),
    })
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
