//! Means over several benchmarks.

use tidemill_domain::{BenchmarkResult, Group, GroupMean, GroupResult};
use tidemill_statistics::{Method, Part, clip, macro_mean, micro_mean, normal_interval};

/// The figure of a group over the benchmarks' results, which are in the manifest's order. Without a value where any of them
/// has none: a mean over some of the benchmarks is another figure.
pub(crate) fn result(group: &Group, results: &[BenchmarkResult]) -> GroupResult {
    let members: Vec<(&BenchmarkResult, f64)> = group
        .members
        .iter()
        .filter_map(|member| Some((results.get(member.benchmark as usize)?, member.weight)))
        .collect();
    let parts: Option<Vec<Part>> = members
        .iter()
        .map(|(benchmark, weight)| part(benchmark, group.metric.as_deref(), *weight))
        .collect();
    let parts = parts.filter(|parts| parts.len() == group.members.len());
    let figure = parts.and_then(|parts| match group.mean {
        GroupMean::Macro => macro_mean(&parts),
        GroupMean::Micro => micro_mean(&parts),
    });
    let interval = figure.and_then(|(value, error)| Some(normal_interval(value, error?)));
    let interval = interval.map(|interval| match group.metric {
        None => clip(interval, [0.0, 1.0]),
        Some(_) => interval,
    });
    let sum = |count: fn(&BenchmarkResult) -> u64| members.iter().map(|(benchmark, _)| count(benchmark)).sum();
    GroupResult {
        name: group.name.clone(),
        metric: group.metric.clone(),
        mean: match group.mean {
            GroupMean::Macro => "macro",
            GroupMean::Micro => "micro",
        }
        .to_owned(),
        benchmarks: members.iter().map(|(benchmark, _)| benchmark.name.clone()).collect(),
        value: figure.map(|(value, _)| value),
        standard_error: figure.and_then(|(_, error)| error),
        method: interval.map(|_| Method::Normal.label().to_owned()),
        interval,
        items: sum(|benchmark| benchmark.items),
        samples: sum(|benchmark| benchmark.samples),
        truncated: sum(|benchmark| benchmark.outcomes.truncated),
        failed: sum(|benchmark| benchmark.outcomes.failed() - benchmark.outcomes.missing),
        missing: sum(|benchmark| benchmark.outcomes.missing),
    }
}

fn part(benchmark: &BenchmarkResult, metric: Option<&str>, weight: f64) -> Option<Part> {
    let Some(name) = metric else {
        return Some(Part {
            mean: benchmark.mean?,
            standard_error: benchmark.standard_error,
            items: benchmark.scored_items,
            weight,
        });
    };
    let metric = benchmark.metrics.iter().find(|metric| metric.name == name)?;
    Some(Part {
        mean: metric.value?,
        standard_error: metric.standard_error,
        items: metric.items,
        weight,
    })
}
