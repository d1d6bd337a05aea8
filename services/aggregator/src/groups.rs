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

#[cfg(test)]
mod tests {
    use tidemill_domain::{Columns, Member, Outcome};

    use super::*;
    use crate::estimate::Effort;
    use crate::fold::tests::{benchmark, grade};
    use crate::tally::Tally;

    fn result_of(outcomes: &[Outcome]) -> BenchmarkResult {
        let mut tally = Tally::new(&benchmark(outcomes.len() as u32, 1), Columns::default());
        for (item, outcome) in (0..).zip(outcomes) {
            assert!(tally.apply(&grade(item, 0, *outcome)));
        }
        tally.result(Effort::Final)
    }

    #[test]
    fn a_group_without_any_spread_has_the_room_that_its_members_leave() {
        let members = [result_of(&[Outcome::Correct; 10]), result_of(&[Outcome::Correct; 10])];
        let group = |mean| Group {
            name: "g".to_owned(),
            members: (0..2).map(|benchmark| Member { benchmark, weight: 1.0 }).collect(),
            mean,
            metric: None,
        };
        for mean in [GroupMean::Macro, GroupMean::Micro] {
            let found = result(&group(mean), &members);
            assert_eq!((found.value, found.standard_error), (Some(1.0), Some(0.0)));
            let [low, high] = found.interval.unwrap();
            // Wilson's lower end of 10 of 10 is 0.7225: the distance of two such means is a square root of two smaller.
            assert!(
                (low - (1.0 - 0.277_5 / 2_f64.sqrt())).abs() < 1e-3 && high == 1.0,
                "{low} {high}"
            );
        }
        let mixed = [members[0].clone(), result_of(&[Outcome::Correct, Outcome::Incorrect])];
        assert_eq!(
            result(&group(GroupMean::Macro), &mixed).method.as_deref(),
            Some("normal")
        );
    }
}
