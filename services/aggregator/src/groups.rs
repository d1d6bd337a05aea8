//! Means over several benchmarks.

use tidemill_domain::{BenchmarkResult, Group, GroupMean, GroupResult};
use tidemill_statistics::{Method, Part, clip, macro_interval, macro_mean, micro_interval, micro_mean};

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
    let figure = parts.as_deref().and_then(|parts| match group.mean {
        GroupMean::Macro => macro_mean(parts),
        GroupMean::Micro => micro_mean(parts),
    });
    let interval = parts.as_deref().and_then(|parts| match group.mean {
        GroupMean::Macro => macro_interval(parts),
        GroupMean::Micro => micro_interval(parts),
    });
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
        method: interval.map(|_| Method::Members.label().to_owned()),
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
            interval: benchmark.interval,
            items: benchmark.scored_items,
            weight,
        });
    };
    let metric = benchmark.metrics.iter().find(|metric| metric.name == name)?;
    Some(Part {
        mean: metric.value?,
        standard_error: metric.standard_error,
        interval: metric.interval,
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
    fn a_group_has_the_room_that_its_members_leave() {
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
        let halves = result_of(&[Outcome::Correct, Outcome::Incorrect]);
        let room = |member: &BenchmarkResult| member.mean.unwrap() - member.interval.unwrap()[0];
        let expected = 0.75 - room(&members[0]).hypot(room(&halves)) / 2.0;
        let found = result(&group(GroupMean::Macro), &[members[0].clone(), halves]);
        assert_eq!(found.method.as_deref(), Some("of_members"));
        let low = found.interval.unwrap()[0];
        assert!(
            (low - expected).abs() < 1e-12,
            "the one without spread leaves room too: {low}"
        );
    }
}
