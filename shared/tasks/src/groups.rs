//! Means over benchmarks: which benchmarks a group names, and how much they count.

use std::collections::BTreeMap;

use regex::Regex;
use tidemill_domain::{Benchmark, Group, GroupMean, Member, Metric};
use toml::Spanned;
use toml::de::DeValue;

use crate::decode::BenchmarkEntry;
use crate::error::{Place, Problems};
use crate::fields::{Fields, Located, any, nearest};
use crate::suite::MeanName;

/// A group as the file names it.
pub(crate) struct GroupEntry {
    place: Place,
    name: String,
    benchmarks: Located<Vec<String>>,
    mean: GroupMean,
    weights: Option<Located<BTreeMap<String, f64>>>,
    metric: Option<Located<String>>,
}

/// Reads every `[[group]]`.
pub(crate) fn decode(text: &str, suite: &mut Fields<'_, '_>) -> Vec<GroupEntry> {
    let Some(value) = suite.raw("group") else {
        return Vec::new();
    };
    let Some(tables) = value.get_ref().as_array() else {
        let line = suite.line(value);
        suite.error("group", line, "must be an array of tables, written [[group]]");
        return Vec::new();
    };
    let mut groups: Vec<GroupEntry> = Vec::new();
    for table in tables {
        groups.extend(group(text, table, &groups, suite));
    }
    groups
}

fn group<'i>(
    text: &str,
    value: &Spanned<DeValue<'i>>,
    earlier: &[GroupEntry],
    suite: &mut Fields<'_, 'i>,
) -> Option<GroupEntry> {
    let line = suite.line(value);
    let Some(table) = value.get_ref().as_table() else {
        suite.error("group", line, "is not a table");
        return None;
    };
    let place = suite.place().line(line);
    let mut fields = Fields::new(text, table, place.clone(), "group.", suite.problems());
    let name = fields.required("name", |name: &String| name_rule(name, earlier));
    let benchmarks = fields.required("benchmarks", |patterns: &Vec<String>| match patterns.is_empty() {
        true => Err("is empty: a group needs at least one benchmark".to_owned()),
        false => Ok(()),
    });
    let mean = fields.or_default("mean", MeanName::default(), any);
    let weights = fields.optional("weights", |weights: &BTreeMap<String, f64>| {
        match weights
            .iter()
            .find(|(_, weight)| !(weight.is_finite() && **weight > 0.0))
        {
            Some((pattern, weight)) => Err(format!("the weight of {pattern:?} must be above 0, but is {weight}")),
            None => Ok(()),
        }
    });
    let metric = fields.optional::<String>("metric", any);
    fields.finish(|_| None);
    Some(GroupEntry {
        place,
        name: name?.value,
        benchmarks: benchmarks?,
        mean: match mean {
            MeanName::Macro => GroupMean::Macro,
            MeanName::Micro => GroupMean::Micro,
        },
        weights,
        metric,
    })
}

fn name_rule(name: &str, earlier: &[GroupEntry]) -> Result<(), String> {
    if name.is_empty() || name.len() > tidemill_domain::MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(format!(
            "must have 1 to {} bytes and no control characters",
            tidemill_domain::MAX_NAME_BYTES
        ));
    }
    match earlier.iter().any(|group| group.name == name) {
        true => Err(format!("{name:?} is the name of another group already")),
        false => Ok(()),
    }
}

fn matches_some(pattern: &str, names: &[String]) -> Result<(), String> {
    if names.iter().any(|name| matches(pattern, name)) {
        return Ok(());
    }
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let hint = nearest(pattern, &known).map_or(String::new(), |nearest| format!("; did you mean {nearest:?}?"));
    Err(format!("{pattern:?} names no benchmark of the suite{hint}"))
}

/// Whether a name is meant by a pattern, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    if !pattern.contains('*') {
        return pattern == name;
    }
    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
    Regex::new(&format!("(?s)^{}$", parts.join(".*"))).is_ok_and(|pattern| pattern.is_match(name))
}

/// What groups can name, and what they cannot be named.
pub(crate) struct Known<'a> {
    /// The names that are written, also of benchmarks that could not be read.
    pub(crate) names: &'a [String],
    /// Benchmarks with data of their own.
    pub(crate) of_data: &'a [BenchmarkEntry],
    /// Benchmarks that task files describe.
    pub(crate) of_tasks: &'a [Benchmark],
    /// Groups that task files describe.
    pub(crate) groups: &'a [Group],
    /// Whether every task file could be read: else benchmarks are missing whose names are not known.
    pub(crate) is_whole: bool,
}

impl Known<'_> {
    fn names(&self) -> Vec<String> {
        let of_data = self.of_data.iter().map(|benchmark| benchmark.name.to_string());
        let of_tasks = self.of_tasks.iter().map(|benchmark| benchmark.name.to_string());
        self.names.iter().cloned().chain(of_data).chain(of_tasks).collect()
    }

    /// The names of benchmarks that lack a metric.
    fn without(&self, metric: &str) -> impl Iterator<Item = &str> {
        let of_data = self
            .of_data
            .iter()
            .filter(move |benchmark| !has(&benchmark.metrics, metric) && !has(&benchmark.grader.metrics(), metric));
        let of_tasks = self.of_tasks.iter();
        let of_tasks = of_tasks.filter(move |benchmark| !has(&benchmark.metrics, metric));
        let of_data = of_data.map(|benchmark| benchmark.name.as_str());
        of_data.chain(of_tasks.map(|benchmark| benchmark.name.as_str()))
    }
}

/// The checks that need the benchmarks.
pub(crate) fn check(groups: &[GroupEntry], known: &Known<'_>, problems: &mut Problems) {
    let names = known.names();
    for group in groups {
        if names.contains(&group.name) {
            let message = format!("{:?} is the name of a benchmark already", group.name);
            problems.error(group.place.field("group.name"), message);
        }
        if known.groups.iter().any(|other| other.name == group.name) {
            let message = format!("{:?} is the name of a group of a task file already", group.name);
            problems.error(group.place.field("group.name"), message);
        }
        if known.is_whole {
            group.check_patterns(&names, problems);
        }
        group.check_metric(known, problems);
    }
}

fn has(metrics: &[Metric], name: &str) -> bool {
    metrics.iter().any(|metric| metric.name == name)
}

/// The groups of a manifest with these benchmarks.
pub(crate) fn resolve(groups: &[GroupEntry], benchmarks: &[Benchmark]) -> Vec<Group> {
    groups.iter().map(|group| group.resolve(benchmarks)).collect()
}

impl GroupEntry {
    fn means(&self, name: &str) -> bool {
        self.benchmarks.value.iter().any(|pattern| matches(pattern, name))
    }

    fn check_patterns(&self, names: &[String], problems: &mut Problems) {
        let weighted = self
            .weights
            .as_ref()
            .map(|weights| (weights.line, weights.value.keys().collect::<Vec<_>>()));
        let named = (self.benchmarks.line, self.benchmarks.value.iter().collect());
        let fields = [("group.benchmarks", Some(named)), ("group.weights", weighted)];
        for (field, patterns) in fields {
            let Some((line, patterns)) = patterns else { continue };
            for pattern in patterns {
                if let Err(message) = matches_some(pattern, names) {
                    problems.error(self.place.line(line).field(field), message);
                }
            }
        }
    }

    fn check_metric(&self, known: &Known<'_>, problems: &mut Problems) {
        let Some(metric) = &self.metric else { return };
        for benchmark in known.without(&metric.value).filter(|name| self.means(name)) {
            let place = self.place.line(metric.line).field("group.metric");
            let message = format!(
                "benchmark {benchmark:?} has no metric {:?}: add it to the benchmark's metrics, or leave the benchmark out",
                metric.value
            );
            problems.error(place, message);
        }
    }

    fn resolve(&self, benchmarks: &[Benchmark]) -> Group {
        let members = (0_u32..)
            .zip(benchmarks)
            .filter(|(_, benchmark)| self.means(benchmark.name.as_str()));
        let member = |(ordinal, benchmark): (u32, &Benchmark)| Member {
            benchmark: ordinal,
            weight: self.weight(benchmark.name.as_str()),
        };
        Group {
            name: self.name.clone(),
            members: members.map(member).collect(),
            mean: self.mean,
            metric: self.metric.as_ref().map(|metric| metric.value.clone()),
        }
    }

    fn weight(&self, name: &str) -> f64 {
        let Some(weights) = self.weights.as_ref().map(|weights| &weights.value) else {
            return 1.0;
        };
        let by_pattern = || {
            weights
                .iter()
                .find(|(pattern, _)| matches(pattern, name))
                .map(|(_, weight)| weight)
        };
        weights.get(name).or_else(by_pattern).copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_everything_else_for_itself() {
        for (pattern, name, expected) in [
            ("mmlu_*", "mmlu_anatomy", true),
            ("mmlu_*", "mmlu_", true),
            ("mmlu_*", "xmmlu_anatomy", false),
            ("*", "anything (at) all", true),
            ("*_a*b", "x_a.b", true),
            ("*_a*b", "x_a.bc", false),
            ("a.c", "abc", false),
            ("a.*", "a.c", true),
            ("a.*", "abc", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
