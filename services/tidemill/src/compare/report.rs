//! What a comparison says: pure, from two sides that were read.

use std::collections::{BTreeSet, HashMap};

use anyhow::bail;
use serde::Serialize;
use tidemill_aggregator::{Both, difference_of_figures};
use tidemill_domain::{EvaluationId, Metric, RunId, Step};
use tidemill_statistics::{
    Design, Difference, Discordant, Method, Pair, Resampling, Spread, difference, difference_by_bootstrap, holm,
    student_interval, student_p, unseen_interval, unseen_share, within_variance,
};

use crate::compare::groups::{GroupRow, groups};
use crate::compare::side::{Scored, Scores, Side, is_of_corpus};
use crate::compare::unlike::Unlike;

/// A comparison of two evaluations, or of regrades of them. Differences are the second's figure minus the first's; scores are
/// from 0 to 1, metrics as results have them.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Version of this shape; 1.
    pub(crate) schema: u32,
    pub(crate) first: Compared,
    pub(crate) second: Compared,
    /// The metric that is compared; `None` for the score.
    pub(crate) metric: Option<String>,
    /// Settings that the two do not share, which were allowed.
    pub(crate) allowed: Vec<Unlike>,
    pub(crate) benchmarks: Vec<Row>,
    /// Those of what is compared; beside scores also those of metrics.
    pub(crate) groups: Vec<GroupRow>,
    /// Groups that are not compared: one side does not have them, or not alike, or a benchmark of them has no figure.
    pub(crate) groups_not_compared: Vec<String>,
    /// Benchmarks that the second does not have.
    pub(crate) only_in_first: Vec<String>,
    /// Benchmarks that the first does not have.
    pub(crate) only_in_second: Vec<String>,
    /// Benchmarks of both that do not have the metric on both sides.
    pub(crate) without_metric: Vec<String>,
    /// The largest drop that is accepted, where one was given.
    pub(crate) max_drop: Option<f64>,
    /// Benchmarks, and groups of what is compared, that are worse by more.
    pub(crate) dropped: Vec<String>,
}

/// Which evaluation was compared.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) evaluation: EvaluationId,
    /// Whose grades they are; `None` for the first ones.
    pub(crate) regrade: Option<u32>,
    pub(crate) run: RunId,
    pub(crate) step: Step,
    pub(crate) state: &'static str,
}

/// One benchmark on the items that both have.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) benchmark: String,
    /// False where a smaller figure is the better one, as of perplexity.
    pub(crate) higher_is_better: bool,
    /// The figure is made of what adds up over all items, so no item is won or lost.
    pub(crate) of_corpus: bool,
    /// Items that were compared: both have a score of them.
    pub(crate) items: u64,
    pub(crate) first: Half,
    pub(crate) second: Half,
    pub(crate) difference: Option<f64>,
    pub(crate) standard_error: Option<f64>,
    pub(crate) degrees_of_freedom: Option<f64>,
    /// 95 %, by Student's distribution from the differences of items, or of clusters; of differences that are all alike, what
    /// their number leaves open.
    pub(crate) interval: Option<[f64; 2]>,
    /// `student_t`, or `unseen_share` where nothing varies.
    pub(crate) method: Option<&'static str>,
    /// 95 %, by resampling items, or clusters, of both sides together; `None` where these are few, or nothing varies.
    pub(crate) bootstrap_interval: Option<[f64; 2]>,
    /// Of no difference: by McNemar's test where every item is right or wrong and independent, else by the paired t-test, or by
    /// the jackknife's error of a figure of the whole corpus.
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
    /// The error that it is computed from: where nothing varies, that of the differences that may have gone unseen.
    #[serde(skip)]
    pub(super) planning_error: Option<f64>,
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

/// Ids that are named of each kind.
const NAMED: usize = 100;

/// Refuses a metric that no benchmark has on both sides, and names those that there are.
pub(crate) fn require(metric: &str, first: &Side, second: &Side) -> anyhow::Result<()> {
    let is_there = |side: &Side, name: &str| {
        let benchmark = side.benchmarks.iter().find(|benchmark| benchmark.name == name);
        benchmark.is_some_and(|benchmark| benchmark.metric.is_some())
    };
    let mut benchmarks = first.benchmarks.iter();
    if benchmarks.any(|one| one.metric.is_some() && is_there(second, &one.name)) {
        return Ok(());
    }
    let of = |side: &Side| {
        let metrics = side.benchmarks.iter().flat_map(|benchmark| &benchmark.metrics);
        metrics.map(|metric| metric.name.clone()).collect::<BTreeSet<String>>()
    };
    let known: Vec<String> = of(first).intersection(&of(second)).cloned().collect();
    if known.is_empty() {
        bail!(
            "no benchmark has metric {metric} on both sides, nor any other; without --metric their scores are compared"
        );
    }
    bail!(
        "no benchmark has metric {metric} on both sides; there are {}",
        known.join(", ")
    )
}

/// Compares what both have: their scores, or the metric of this name.
pub(crate) fn compare(
    first: &Side,
    second: &Side,
    metric: Option<&str>,
    allowed: Vec<Unlike>,
    max_drop: Option<f64>,
) -> Report {
    let (mut benchmarks, without_metric) = rows(&first.benchmarks, &second.benchmarks, metric);
    let p_values: Vec<Option<f64>> = benchmarks.iter().map(|row| row.p).collect();
    for (row, adjusted) in benchmarks.iter_mut().zip(holm(&p_values)) {
        row.p_holm = adjusted;
    }
    let (groups, groups_not_compared) = groups(first, second, metric, &benchmarks);
    let has_dropped = |difference: Option<f64>, higher_is_better: bool| {
        let worse = difference.map(|difference| if higher_is_better { -difference } else { difference });
        max_drop.zip(worse).is_some_and(|(most, worse)| worse > most)
    };
    let of_benchmarks = benchmarks
        .iter()
        .filter(|row| has_dropped(row.difference, row.higher_is_better))
        .map(|row| row.benchmark.clone());
    let of_groups = groups
        .iter()
        .filter(|row| row.metric.as_deref() == metric && has_dropped(row.difference, row.higher_is_better))
        .map(|row| row.group.clone());
    Report {
        schema: 1,
        first: compared(first),
        second: compared(second),
        metric: metric.map(str::to_owned),
        without_metric,
        allowed,
        dropped: of_benchmarks.chain(of_groups).collect(),
        groups,
        groups_not_compared,
        only_in_first: missing_in(first, second),
        only_in_second: missing_in(second, first),
        benchmarks,
        max_drop,
    }
}

/// Every benchmark of both, and the names of those that do not have the metric on both sides.
pub(super) fn rows<'a>(
    first: impl IntoIterator<Item = &'a Scored>,
    second: &[Scored],
    metric: Option<&str>,
) -> (Vec<Row>, Vec<String>) {
    let (mut rows, mut without_metric) = (Vec::new(), Vec::new());
    for one in first {
        let Some(other) = second.iter().find(|other| other.name == one.name) else {
            continue;
        };
        match (metric, &one.metric, &other.metric) {
            (None, ..) => rows.push(row(one, other, true)),
            (Some(_), Some((_, metric)), Some(_)) if is_of_corpus(metric) => {
                rows.push(corpus_row(metric, one, other));
            }
            (Some(_), Some((_, metric)), Some(_)) => rows.push(row(one, other, metric.higher_is_better)),
            _ => without_metric.push(one.name.clone()),
        }
    }
    (rows, without_metric)
}

fn compared(side: &Side) -> Compared {
    Compared {
        evaluation: side.evaluation.clone(),
        regrade: side.regrade,
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

type Common<'a> = Vec<(&'a String, &'a Scores, &'a Scores)>;

fn common<'a>(first: &'a Scored, second: &'a Scored) -> Common<'a> {
    let items = first.items.iter();
    items
        .filter_map(|(id, one)| Some((id, one, second.items.get(id)?)))
        .collect()
}

fn row(first: &Scored, second: &Scored, higher_is_better: bool) -> Row {
    let common = common(first, second);
    let pairs = pairs(&common);
    let found = difference(&pairs).map(|found| match higher_is_better {
        true => found,
        false => Difference {
            wins: found.losses,
            losses: found.wins,
            ..found
        },
    });
    let standard_error = found.and_then(|found| found.standard_error);
    let are_shares = pairs.iter().all(is_right_or_wrong);
    let is_binary = first.samples == 1 && second.samples == 1 && are_shares;
    let room = Room::of(found.as_ref(), first.metric.is_none() || are_shares);
    let discordant = (is_binary && !pairs.is_empty()).then(|| discordant(&pairs));
    let (p, test) = p(found.as_ref(), discordant, &pairs);
    Row {
        benchmark: first.name.clone(),
        higher_is_better,
        of_corpus: false,
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
        interval: room.interval.map(|(interval, _)| interval),
        method: room.interval.map(|(_, method)| method.label()),
        bootstrap_interval: standard_error
            .filter(|error| *error > 0.0)
            .and_then(|_| bootstrap(&pairs)),
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
        minimum_detectable: room.planning_error.map(|error| Design::default().detectable(error)),
        planning_error: room.planning_error,
        noise: noise(&pairs, &common),
        only_in_first: Named::only_in(first, second),
        only_in_second: Named::only_in(second, first),
        without_score: Named::unknown(&common),
    }
}

/// What a difference leaves open: its interval, and the error by which it is said what could have been seen.
struct Room {
    interval: Option<([f64; 2], Method)>,
    planning_error: Option<f64>,
}

impl Room {
    /// Differences that are all alike, as when both agree on every item, show no spread; a share of others may have gone
    /// unseen. How far those would be off is known of scores and shares alone, `are_shares`: from -1 to 1.
    fn of(found: Option<&Difference>, are_shares: bool) -> Self {
        let varying = Self {
            interval: found.and_then(|found| found.interval),
            planning_error: found.and_then(|found| found.standard_error),
        };
        match found {
            Some(found) if found.standard_error == Some(0.0) => Self::unseen(found).filter(are_shares),
            _ => varying,
        }
    }

    fn unseen(found: &Difference) -> Self {
        let units = found.effective_units;
        Self {
            interval: Some((unseen_interval(found.mean, units, [-1.0, 1.0]), Method::Unseen)),
            planning_error: Some((unseen_share(units) / units).sqrt()),
        }
    }

    const fn filter(self, is_known: bool) -> Self {
        if is_known {
            return self;
        }
        Self {
            interval: None,
            planning_error: None,
        }
    }
}

/// A figure of each whole corpus, over the items that both have.
fn corpus_row(metric: &Metric, first: &Scored, second: &Scored) -> Row {
    let common = common(first, second);
    let mut clusters: HashMap<&str, u32> = HashMap::new();
    let mut items = Vec::with_capacity(common.len());
    for (_, one, other) in &common {
        if let (Some(first), Some(second)) = (&one.added, &other.added) {
            let next = clusters.len() as u32;
            let cluster = one.cluster.as_deref().map(|name| *clusters.entry(name).or_insert(next));
            items.push(Both { first, second, cluster });
        }
    }
    let found = difference_of_figures(metric, &items);
    let error = found.and_then(|found| found.standard_error);
    // What shows no spread says nothing of the spread that there is.
    let spread = error.filter(|error| *error > 0.0);
    let p = found.zip(error).and_then(|(found, error)| match error > 0.0 {
        true => student_p(found.difference / error, found.degrees_of_freedom),
        false => (found.difference == 0.0).then_some(1.0),
    });
    let interval = found
        .zip(spread)
        .and_then(|(found, error)| student_interval(found.difference, error, found.degrees_of_freedom));
    Row {
        benchmark: first.name.clone(),
        higher_is_better: metric.higher_is_better,
        of_corpus: true,
        items: items.len() as u64,
        first: Half {
            mean: found.map(|found| found.first),
            ..half(first.samples, &[], |_| 0.0, common.iter().map(|(_, one, _)| *one))
        },
        second: Half {
            mean: found.map(|found| found.second),
            ..half(second.samples, &[], |_| 0.0, common.iter().map(|(_, _, other)| *other))
        },
        difference: found.map(|found| found.difference),
        standard_error: error,
        degrees_of_freedom: found.map(|found| found.degrees_of_freedom),
        interval,
        method: interval.map(|_| Method::Student.label()),
        bootstrap_interval: found
            .and_then(|found| found.interval)
            .filter(|(_, method)| *method != Method::Student)
            .map(|(interval, _)| interval),
        p,
        test: p.map(|_| "jackknife_t"),
        p_holm: None,
        wins: 0,
        losses: 0,
        ties: 0,
        mcnemar: None,
        minimum_detectable: spread.map(|error| Design::default().detectable(error)),
        planning_error: spread,
        noise: None,
        only_in_first: Named::only_in(first, second),
        only_in_second: Named::only_in(second, first),
        without_score: Named::unknown(&common),
    }
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
    fn only_in(side: &Scored, other: &Scored) -> Self {
        Self::of(side.items.keys().filter(|id| !other.items.contains_key(*id)))
    }

    /// Items of which a side has no figure.
    fn unknown(common: &[(&String, &Scores, &Scores)]) -> Self {
        let unknown = common
            .iter()
            .filter(|(_, one, other)| !one.is_known() || !other.is_known());
        Self::of(unknown.map(|(id, ..)| *id))
    }

    pub(crate) fn of<'a>(ids: impl Iterator<Item = &'a String>) -> Self {
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

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
