//! What a comparison says: pure, from two sides that were read.

use std::collections::HashMap;

use serde::Serialize;
use tidemill_domain::{EvaluationId, Group, GroupMean, RunId, Step};
use tidemill_statistics::{
    Design, Difference, Discordant, Pair, Part, Resampling, Spread, difference, difference_by_bootstrap, holm,
    macro_mean, micro_mean, normal_interval, normal_p, within_variance,
};

use crate::compare::side::{Scored, Scores, Side};
use crate::compare::unlike::Unlike;

/// A comparison of two evaluations. Differences are the second's score minus the first's; scores are from 0 to 1.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Version of this shape; 1.
    pub(crate) schema: u32,
    pub(crate) first: Compared,
    pub(crate) second: Compared,
    /// Settings that the two do not share, which were allowed.
    pub(crate) allowed: Vec<Unlike>,
    pub(crate) benchmarks: Vec<Row>,
    pub(crate) groups: Vec<GroupRow>,
    /// Benchmarks that the second does not have.
    pub(crate) only_in_first: Vec<String>,
    /// Benchmarks that the first does not have.
    pub(crate) only_in_second: Vec<String>,
    /// The largest drop that is accepted, where one was given.
    pub(crate) max_drop: Option<f64>,
    /// Benchmarks and groups that dropped by more.
    pub(crate) dropped: Vec<String>,
}

/// Which evaluation was compared.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) evaluation: EvaluationId,
    pub(crate) run: RunId,
    pub(crate) step: Step,
    pub(crate) state: &'static str,
}

/// One benchmark on the items that both have.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) benchmark: String,
    /// Items that were compared: both have a score of them.
    pub(crate) items: u64,
    pub(crate) first: Half,
    pub(crate) second: Half,
    pub(crate) difference: Option<f64>,
    pub(crate) standard_error: Option<f64>,
    pub(crate) degrees_of_freedom: Option<f64>,
    /// 95 %, by Student's distribution from the differences of items, or of clusters.
    pub(crate) interval: Option<[f64; 2]>,
    /// 95 %, by resampling items, or clusters.
    pub(crate) bootstrap_interval: Option<[f64; 2]>,
    /// Of no difference: by McNemar's test where every item is right or wrong and independent, else by the paired t-test.
    pub(crate) p: Option<f64>,
    pub(crate) test: Option<&'static str>,
    /// `p` corrected for all benchmarks of this comparison.
    pub(crate) p_holm: Option<f64>,
    /// Items on which the second is better.
    pub(crate) wins: u64,
    /// Items on which the first is better.
    pub(crate) losses: u64,
    pub(crate) ties: u64,
    pub(crate) mcnemar: Option<McNemar>,
    /// The smallest difference that such a comparison sees with a power of 80 % at 5 % false alarms.
    pub(crate) minimum_detectable: Option<f64>,
    /// Where the variance of the differences comes from, as far as several samples tell.
    pub(crate) noise: Option<Noise>,
    pub(crate) only_in_first: Named,
    pub(crate) only_in_second: Named,
    /// Items without a score on either side, which are not compared.
    pub(crate) without_score: Named,
}

/// One side of a benchmark on the items compared.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Half {
    pub(crate) mean: Option<f64>,
    /// Samples an item.
    pub(crate) samples: u32,
    /// Samples that were cut, and count as wrong, of the items that both have.
    pub(crate) truncated: u64,
    /// Samples that failed, of the items that both have.
    pub(crate) failed: u64,
    /// Samples without an outcome, of the items that both have.
    pub(crate) missing: u64,
}

/// McNemar's test of items that are right or wrong.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct McNemar {
    /// Items that the first alone got right.
    pub(crate) first_only: u64,
    /// Items that the second alone got right.
    pub(crate) second_only: u64,
    pub(crate) p_exact: f64,
    pub(crate) p_mid: f64,
}

/// The variance of one item's difference, split.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Noise {
    /// What more samples do not lower.
    pub(crate) between_items: f64,
    /// The first's samples' variance over their number; `None` where one sample was drawn.
    pub(crate) first_sampling: Option<f64>,
    /// The second's.
    pub(crate) second_sampling: Option<f64>,
}

/// Items by their ids: all counted, the first of them named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Named {
    pub(crate) count: u64,
    pub(crate) items: Vec<String>,
}

/// The mean difference over the benchmarks of a group, which are taken to be independent.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GroupRow {
    pub(crate) group: String,
    /// Over benchmarks, or over the items of all.
    pub(crate) mean: &'static str,
    pub(crate) benchmarks: Vec<String>,
    pub(crate) difference: Option<f64>,
    pub(crate) standard_error: Option<f64>,
    /// 95 %, by the normal distribution.
    pub(crate) interval: Option<[f64; 2]>,
    pub(crate) p: Option<f64>,
    pub(crate) minimum_detectable: Option<f64>,
}

/// Ids that are named of each kind.
const NAMED: usize = 100;

/// Compares what both have.
pub(crate) fn compare(first: &Side, second: &Side, allowed: Vec<Unlike>, max_drop: Option<f64>) -> Report {
    let mut benchmarks: Vec<Row> = first
        .benchmarks
        .iter()
        .filter_map(|one| Some(row(one, second.benchmarks.iter().find(|other| other.name == one.name)?)))
        .collect();
    let p_values: Vec<Option<f64>> = benchmarks.iter().map(|row| row.p).collect();
    for (row, adjusted) in benchmarks.iter_mut().zip(holm(&p_values)) {
        row.p_holm = adjusted;
    }
    let groups = groups(first, second, &benchmarks);
    let has_dropped = |difference: Option<f64>| {
        max_drop
            .zip(difference)
            .is_some_and(|(most, difference)| -difference > most)
    };
    let of_benchmarks = benchmarks
        .iter()
        .filter(|row| has_dropped(row.difference))
        .map(|row| row.benchmark.clone());
    let of_groups = groups
        .iter()
        .filter(|row| has_dropped(row.difference))
        .map(|row| row.group.clone());
    Report {
        schema: 1,
        first: compared(first),
        second: compared(second),
        allowed,
        dropped: of_benchmarks.chain(of_groups).collect(),
        groups,
        only_in_first: missing_in(first, second),
        only_in_second: missing_in(second, first),
        benchmarks,
        max_drop,
    }
}

fn compared(side: &Side) -> Compared {
    Compared {
        evaluation: side.evaluation.clone(),
        run: side.run.clone(),
        step: side.step,
        state: side.state.label(),
    }
}

fn missing_in(side: &Side, other: &Side) -> Vec<String> {
    let is_there = |name: &str| other.benchmarks.iter().any(|benchmark| benchmark.name == name);
    let names = side.benchmarks.iter().map(|benchmark| benchmark.name.clone());
    names.filter(|name| !is_there(name)).collect()
}

fn row(first: &Scored, second: &Scored) -> Row {
    let common: Vec<(&String, &Scores, &Scores)> = first
        .items
        .iter()
        .filter_map(|(id, one)| Some((id, one, second.items.get(id)?)))
        .collect();
    let pairs = pairs(&common);
    let found = difference(&pairs);
    let standard_error = found.and_then(|found| found.standard_error);
    let is_binary = first.samples == 1 && second.samples == 1 && pairs.iter().all(is_right_or_wrong);
    let discordant = (is_binary && !pairs.is_empty()).then(|| discordant(&pairs));
    let (p, test) = p(found.as_ref(), discordant, &pairs);
    Row {
        benchmark: first.name.clone(),
        items: pairs.len() as u64,
        first: half(
            first.samples,
            &pairs,
            |pair| pair.first,
            common.iter().map(|(_, one, _)| *one),
        ),
        second: half(
            second.samples,
            &pairs,
            |pair| pair.second,
            common.iter().map(|(_, _, other)| *other),
        ),
        difference: found.map(|found| found.mean),
        standard_error,
        degrees_of_freedom: found.map(|found| found.degrees_of_freedom),
        interval: found.and_then(|found| found.interval).map(|(interval, _)| interval),
        bootstrap_interval: bootstrap(&pairs),
        p,
        test,
        p_holm: None,
        wins: found.map_or(0, |found| found.wins),
        losses: found.map_or(0, |found| found.losses),
        ties: found.map_or(0, |found| found.ties),
        mcnemar: discordant.map(|discordant| McNemar {
            first_only: discordant.first,
            second_only: discordant.second,
            p_exact: discordant.p_exact(),
            p_mid: discordant.p_mid(),
        }),
        minimum_detectable: standard_error.map(|error| Design::default().detectable(error)),
        noise: noise(&pairs, &common),
        only_in_first: Named::of(first.items.keys().filter(|id| !second.items.contains_key(*id))),
        only_in_second: Named::of(second.items.keys().filter(|id| !first.items.contains_key(*id))),
        without_score: Named::of(
            common
                .iter()
                .filter(|(_, one, other)| !both(one, other))
                .map(|(id, ..)| *id),
        ),
    }
}

fn both(one: &Scores, other: &Scores) -> bool {
    one.scored > 0 && other.scored > 0
}

fn pairs(common: &[(&String, &Scores, &Scores)]) -> Vec<Pair> {
    let mut clusters: HashMap<&str, u32> = HashMap::new();
    let mut pairs = Vec::with_capacity(common.len());
    for (_, one, other) in common {
        let (Some(first), Some(second)) = (one.mean(), other.mean()) else {
            continue;
        };
        let next = clusters.len() as u32;
        pairs.push(Pair {
            first,
            second,
            weight: one.weight,
            cluster: one.cluster.as_deref().map(|name| *clusters.entry(name).or_insert(next)),
        });
    }
    pairs
}

fn is_right_or_wrong(pair: &Pair) -> bool {
    [pair.first, pair.second]
        .iter()
        .all(|score| *score == 0.0 || *score == 1.0)
}

fn discordant(pairs: &[Pair]) -> Discordant {
    let count = |is_one: fn(&&Pair) -> bool| pairs.iter().filter(is_one).count() as u64;
    Discordant {
        first: count(|pair| pair.first > pair.second),
        second: count(|pair| pair.second > pair.first),
    }
}

/// McNemar's test takes items to be independent and to count the same.
fn p(
    found: Option<&Difference>,
    discordant: Option<Discordant>,
    pairs: &[Pair],
) -> (Option<f64>, Option<&'static str>) {
    let are_alike = pairs
        .iter()
        .all(|pair| pair.cluster.is_none() && pair.weight == pairs[0].weight);
    match (discordant, found.and_then(|found| found.p)) {
        (Some(discordant), _) if are_alike => {
            let (p, method) = discordant.p();
            (Some(p), Some(method.label()))
        }
        (_, Some(p)) => (Some(p), Some("paired_t")),
        (_, None) => (None, None),
    }
}

/// Items, or clusters, times draws, above which no draws are made: the interval by the error is as good then.
const MOST_DRAWN: usize = 20_000_000;

fn bootstrap(pairs: &[Pair]) -> Option<[f64; 2]> {
    let affordable = (MOST_DRAWN / pairs.len().max(1)) as u32;
    if affordable < Resampling::FEWEST {
        return None;
    }
    let resampling = Resampling {
        draws: affordable.min(10_000),
        ..Resampling::default()
    };
    difference_by_bootstrap(pairs, resampling).map(|(interval, _)| interval)
}

fn half<'a>(
    samples: u32,
    pairs: &[Pair],
    score: impl Fn(&Pair) -> f64,
    common: impl Iterator<Item = &'a Scores>,
) -> Half {
    let weight: f64 = pairs.iter().map(|pair| pair.weight).sum();
    let sum: f64 = pairs.iter().map(|pair| pair.weight * score(pair)).sum();
    let mut half = Half {
        mean: (weight > 0.0).then(|| sum / weight),
        samples,
        truncated: 0,
        failed: 0,
        missing: 0,
    };
    for scores in common {
        half.truncated += u64::from(scores.truncated);
        half.failed += u64::from(scores.failed);
        half.missing += u64::from(scores.missing);
    }
    half
}

/// `None` where neither side drew more than one sample: the noise of sampling cannot be told from the items' then.
fn noise(pairs: &[Pair], common: &[(&String, &Scores, &Scores)]) -> Option<Noise> {
    let of = |side: fn(&(&String, &Scores, &Scores)) -> (u64, f64)| {
        let items: Vec<(u64, f64)> = common.iter().map(side).collect();
        let variance = within_variance(items.iter().copied())?;
        let samples = items.iter().map(|(count, _)| *count as f64).sum::<f64>() / items.len() as f64;
        Some((variance, samples))
    };
    let first = of(|(_, one, _)| (u64::from(one.scored), one.spread()));
    let second = of(|(_, _, other)| (u64::from(other.scored), other.spread()));
    if first.is_none() && second.is_none() || pairs.len() < 2 {
        return None;
    }
    let mean = pairs.iter().map(Pair::difference).sum::<f64>() / pairs.len() as f64;
    let squares: f64 = pairs.iter().map(|pair| (pair.difference() - mean).powi(2)).sum();
    let spread = Spread::of(squares / (pairs.len() - 1) as f64, first, second);
    Some(Noise {
        between_items: spread.between_items,
        first_sampling: first.map(|_| spread.first),
        second_sampling: second.map(|_| spread.second),
    })
}

impl Named {
    fn of<'a>(ids: impl Iterator<Item = &'a String>) -> Self {
        let mut named = Self::default();
        for id in ids {
            named.count += 1;
            if named.items.len() < NAMED {
                named.items.push(id.clone());
            }
        }
        named
    }
}

/// Groups of scores that both define alike, of which every benchmark was compared.
fn groups(first: &Side, second: &Side, rows: &[Row]) -> Vec<GroupRow> {
    let defined = |side: &Side, group: &Group| -> Vec<(String, u64)> {
        let members = group.members.iter().filter_map(|member| {
            let benchmark = side.benchmarks.get(member.benchmark as usize)?;
            Some((benchmark.name.clone(), member.weight.to_bits()))
        });
        members.collect()
    };
    let alike = first
        .groups
        .iter()
        .filter(|group| group.metric.is_none())
        .filter_map(|group| {
            let members = defined(first, group);
            let other = second.groups.iter().find(|other| other.name == group.name)?;
            let is_alike = other.metric.is_none() && other.mean == group.mean && defined(second, other) == members;
            is_alike.then_some((group, members))
        });
    alike
        .filter_map(|(group, members)| group_row(group, &members, rows))
        .collect()
}

fn group_row(group: &Group, members: &[(String, u64)], rows: &[Row]) -> Option<GroupRow> {
    let parts = members.iter().map(|(name, weight)| {
        let row = rows.iter().find(|row| row.benchmark == *name)?;
        Some(Part {
            mean: row.difference?,
            standard_error: row.standard_error,
            items: row.items,
            weight: f64::from_bits(*weight),
        })
    });
    let parts: Vec<Part> = parts.collect::<Option<_>>()?;
    let (label, (mean, error)) = match group.mean {
        GroupMean::Macro => ("macro", macro_mean(&parts)?),
        GroupMean::Micro => ("micro", micro_mean(&parts)?),
    };
    Some(GroupRow {
        group: group.name.clone(),
        mean: label,
        benchmarks: members.iter().map(|(name, _)| name.clone()).collect(),
        difference: Some(mean),
        standard_error: error,
        interval: error.map(|error| normal_interval(mean, error)),
        p: error.filter(|error| *error > 0.0).map(|error| normal_p(mean / error)),
        minimum_detectable: error.map(|error| Design::default().detectable(error)),
    })
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
