//! The difference of two models on the same items.

use crate::interval::{Method, student_interval};
use crate::{Clusters, Resampling, Units, Weighted, is_rounding, student_p};

/// One item that both models were scored on, samples averaged within it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The first model's score.
    pub first: f64,
    /// The second model's.
    pub second: f64,
    /// How much the item counts; 1 where nothing else is said.
    pub weight: f64,
    /// Items of one cluster are not independent; `None` for one that is independent of all others.
    pub cluster: Option<u32>,
}

/// How much better the second model is than the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The (weighted) mean over items of the second score minus the first.
    pub mean: f64,
    /// Its standard error, from the items' differences or from those of clusters; `None` below two. 0 where all of these are
    /// alike but for rounding.
    pub standard_error: Option<f64>,
    /// Items or clusters less one.
    pub degrees_of_freedom: f64,
    /// How many items, or clusters, of equal weight tell as much as these.
    pub effective_units: f64,
    /// The 95 % interval, and how it was made.
    pub interval: Option<([f64; 2], Method)>,
    /// The probability of a difference this large, either way, where there is none; `None` where nothing varies.
    pub p: Option<f64>,
    /// Items on which the second is better.
    pub wins: u64,
    /// Items on which the first is better.
    pub losses: u64,
    /// Items on which they are equal.
    pub ties: u64,
}

impl Pair {
    /// The second score minus the first.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.second - self.first
    }
}

/// Compares two models on their common items by the errors of the items' differences; `None` without items that count.
///
/// How hard an item is moves both models' scores alike and falls out, so the error is smaller than that of two separate
/// means. Interval and p are those of the paired t-test, over clusters where any item has one.
///
/// Source: Miller, "Adding Error Bars to Evals", arXiv 2411.00640.
#[must_use]
pub fn difference(pairs: &[Pair]) -> Option<Difference> {
    let (mean, standard_error, degrees_of_freedom, effective_units) = if has_clusters(pairs) {
        let mut clusters = Clusters::default();
        for (pair, cluster) in pairs.iter().zip(cluster_of_each(pairs)) {
            clusters.push_weighted(cluster as usize, pair.difference(), pair.weight);
        }
        (
            clusters.mean()?,
            clusters.standard_error(),
            clusters.degrees_of_freedom(),
            clusters.effective_count(),
        )
    } else {
        let mut items = Weighted::default();
        for pair in pairs {
            items.push(pair.difference(), pair.weight);
        }
        let free = items.count().saturating_sub(1) as f64;
        (items.mean()?, items.standard_error(), free, items.effective_count())
    };
    let largest = pairs.iter().map(|pair| pair.first.abs().max(pair.second.abs()));
    let magnitude = largest.fold(0.0, f64::max);
    let standard_error = standard_error.map(|error| if is_rounding(error, magnitude) { 0.0 } else { error });
    let spread = standard_error.filter(|error| *error > 0.0);
    let interval = standard_error.and_then(|error| student_interval(mean, error, degrees_of_freedom));
    let [wins, losses, ties] = pairs.iter().fold([0; 3], |mut counts, pair| {
        counts[if pair.second > pair.first {
            0
        } else {
            usize::from(pair.second >= pair.first) + 1
        }] += 1;
        counts
    });
    Some(Difference {
        mean,
        standard_error,
        degrees_of_freedom,
        effective_units,
        interval: interval.map(|interval| (interval, Method::Student)),
        p: match spread {
            Some(error) => student_p(mean / error, degrees_of_freedom),
            None if wins + losses == 0 && ties > 0 => Some(1.0),
            None => None,
        },
        wins,
        losses,
        ties,
    })
}

/// The 95 % interval of the mean difference by resampling items, or clusters where any item has one, with both models'
/// scores kept together; `None` below [`Resampling::FEWEST_UNITS`] of them.
#[must_use]
pub fn difference_by_bootstrap(pairs: &[Pair], resampling: Resampling) -> Option<([f64; 2], Method)> {
    let mut units = Units::new(2);
    for pair in pairs {
        units.push(&[pair.weight * pair.difference(), pair.weight]);
    }
    if has_clusters(pairs) {
        units = units.merged(&cluster_of_each(pairs));
    }
    if units.len() < Resampling::FEWEST_UNITS {
        return None;
    }
    let mean = |sums: &[f64]| (sums[1] > 0.0).then(|| sums[0] / sums[1]);
    let resampled = units.bootstrap(resampling, &mean)?;
    Some(match units.jackknife(&mean) {
        Some(jackknife) => resampled.bca(&jackknife),
        None => (resampled.percentile(), Method::Percentile),
    })
}

fn has_clusters(pairs: &[Pair]) -> bool {
    pairs.iter().any(|pair| pair.cluster.is_some())
}

/// Clusters numbered from 0 in the order in which they come, items without one as clusters of their own.
fn cluster_of_each(pairs: &[Pair]) -> Vec<u32> {
    let mut numbers = std::collections::HashMap::new();
    let mut next = 0;
    let mut number = || {
        next += 1;
        next - 1
    };
    pairs
        .iter()
        .map(|pair| match pair.cluster {
            Some(cluster) => *numbers.entry(cluster).or_insert_with(&mut number),
            None => number(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(scores: &[(f64, f64)]) -> Vec<Pair> {
        let pair = |&(first, second)| Pair {
            first,
            second,
            weight: 1.0,
            cluster: None,
        };
        scores.iter().map(pair).collect()
    }

    #[test]
    fn equal_models_differ_by_nothing_for_certain() {
        let same = difference(&pairs(&[(1.0, 1.0), (0.0, 0.0), (0.5, 0.5)])).unwrap();
        assert_eq!((same.mean, same.standard_error, same.p), (0.0, Some(0.0), Some(1.0)));
        assert_eq!((same.wins, same.losses, same.ties), (0, 0, 3));
    }

    #[test]
    fn wins_losses_and_ties_are_those_of_the_second() {
        let seen = difference(&pairs(&[(0.0, 1.0), (0.2, 0.4), (1.0, 0.0), (0.5, 0.5)])).unwrap();
        assert_eq!((seen.wins, seen.losses, seen.ties), (2, 1, 1));
        assert!((seen.mean - 0.05).abs() < 1e-15);
    }

    #[test]
    fn one_item_or_the_same_shift_of_all_has_no_p() {
        let one = difference(&pairs(&[(0.0, 1.0)])).unwrap();
        assert_eq!(
            (one.mean, one.standard_error, one.interval, one.p),
            (1.0, None, None, None)
        );
        assert_eq!(difference(&pairs(&[(0.0, 1.0), (0.0, 1.0)])).unwrap().p, None);
        let shifted: Vec<(f64, f64)> = (1..40)
            .map(|item| (f64::from(item) / 50.0, f64::from(item) / 50.0 + 0.1))
            .collect();
        let rounded = difference(&pairs(&shifted)).unwrap();
        assert_eq!(
            (rounded.standard_error, rounded.p),
            (Some(0.0), None),
            "rounding is no spread"
        );
        assert_eq!(difference(&[]), None);
    }

    #[test]
    fn items_of_one_cluster_are_one_observation() {
        let scores = [
            (0.0, 1.0),
            (1.0, 0.0),
            (0.0, 0.5),
            (0.5, 0.5),
            (0.25, 1.0),
            (1.0, 1.0),
            (0.0, 0.25),
            (0.75, 0.5),
        ];
        let mut repeated = pairs(&scores);
        let alone = difference(&repeated).unwrap();
        for (index, pair) in repeated.iter_mut().enumerate() {
            pair.cluster = Some(index as u32 * 10);
        }
        let once = repeated.clone();
        for _ in 0..9 {
            repeated.extend_from_slice(&once);
        }
        let clustered = difference(&repeated).unwrap();
        assert!((clustered.standard_error.unwrap() - alone.standard_error.unwrap()).abs() < 1e-15);
        assert_eq!(clustered.degrees_of_freedom, 7.0);
        assert!((clustered.effective_units - 8.0).abs() < 1e-12);
        let resampling = Resampling::default();
        let (of_clusters, _) = difference_by_bootstrap(&repeated, resampling).unwrap();
        let (of_items, _) = difference_by_bootstrap(&pairs(&scores), resampling).unwrap();
        assert!((of_clusters[0] - of_items[0]).abs() < 1e-12 && (of_clusters[1] - of_items[1]).abs() < 1e-12);
        assert_eq!(
            difference_by_bootstrap(&pairs(&scores[1..]), resampling),
            None,
            "too few to draw from"
        );
    }
}
