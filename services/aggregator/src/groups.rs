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
    let interval = figure.and_then(|(value, error)| match error? {
        0.0 => Some((of_intervals(value, group, &members)?, Method::Wilson)),
        error => Some((normal_interval(value, error), Method::Normal)),
    });
    let method = interval.map(|(_, method)| method.label().to_owned());
    let interval = interval.map(|(interval, _)| match group.metric {
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
        method,
        interval,
        items: sum(|benchmark| benchmark.items),
        samples: sum(|benchmark| benchmark.samples),
        truncated: sum(|benchmark| benchmark.outcomes.truncated),
        failed: sum(|benchmark| benchmark.outcomes.failed() - benchmark.outcomes.missing),
        missing: sum(|benchmark| benchmark.outcomes.missing),
    }
}

/// The interval of a mean whose members show no spread, as when all items are right: the distances to the ends of their own
/// intervals add up as errors do. `None` where a member has none.
///
/// Source: Zou and Donner, "Construction of confidence limits about effect measures: a general approach", 2008.
fn of_intervals(value: f64, group: &Group, members: &[(&BenchmarkResult, f64)]) -> Option<[f64; 2]> {
    let (mut below, mut above, mut total) = (0.0, 0.0, 0.0);
    for (benchmark, weight) in members {
        let part = part(benchmark, group.metric.as_deref(), *weight)?;
        let [low, high] = match group.metric.as_deref() {
            None => benchmark.interval?,
            Some(name) => benchmark.metrics.iter().find(|metric| metric.name == name)?.interval?,
        };
        let share = match group.mean {
            GroupMean::Macro => part.weight,
            GroupMean::Micro => part.weight * part.items as f64,
        };
        below += (share * (part.mean - low)).powi(2);
        above += (share * (high - part.mean)).powi(2);
        total += share;
    }
    (total > 0.0).then(|| [value - below.sqrt() / total, value + above.sqrt() / total])
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
