//! Errors and intervals of whatever is computed from sums over items: resampling them, and leaving each out in turn.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

use crate::distribution::normal_cdf;
use crate::interval::{CONFIDENCE, Method};
use crate::normal_quantile;

/// What each unit (an item or a cluster) adds to the sums that a figure is computed from.
///
/// A mean has the columns score and 1; a weighted one w s and w; corpus BLEU its counts; a comparison the columns of both
/// models, so that a draw keeps an item's two values together. Only what is not 0 is held.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Units {
    width: usize,
    entries: Vec<(u32, f64)>,
    /// Where the entries of each unit end.
    ends: Vec<usize>,
    totals: Vec<f64>,
}

/// How units are drawn again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resampling {
    /// How often; at least [`Resampling::FEWEST`] are made.
    pub draws: u32,
    /// The same seed gives the same draws on every machine.
    pub seed: u64,
}

/// Values of a figure over resampled units.
#[derive(Debug, Clone, PartialEq)]
pub struct Resampled {
    value: f64,
    /// In ascending order; at least two.
    draws: Vec<f64>,
    undefined: u32,
}

/// What leaving out each unit in turn tells of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jackknife {
    /// The standard error.
    pub standard_error: f64,
    /// How the error changes with the value: a sixth of the skewness of the units' influences. 0 for a symmetric figure.
    pub acceleration: f64,
}

impl Units {
    /// No units yet, of `width` columns.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self {
            width,
            totals: vec![0.0; width],
            ..Self::default()
        }
    }

    /// Adds a unit by its columns' values; what is beyond the width is left out.
    pub fn push(&mut self, row: &[f64]) {
        self.push_sparse(row.iter().copied().enumerate());
    }

    /// Adds a unit by the columns that are not 0; what is beyond the width is left out.
    pub fn push_sparse(&mut self, columns: impl IntoIterator<Item = (usize, f64)>) {
        for (column, value) in columns {
            if let Some(total) = self.totals.get_mut(column).filter(|_| value != 0.0) {
                *total += value;
                self.entries.push((column as u32, value));
            }
        }
        self.ends.push(self.entries.len());
    }

    /// How many units there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// There are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The sums over all units.
    #[must_use]
    pub fn totals(&self) -> &[f64] {
        &self.totals
    }

    /// The units with those of one cluster put together; `clusters` has one number a unit, in order. In the order of the
    /// clusters' numbers; units beyond the numbers are left out.
    #[must_use]
    pub fn merged(&self, clusters: &[u32]) -> Self {
        let mut order: Vec<usize> = (0..self.len().min(clusters.len())).collect();
        order.sort_by_key(|&unit| clusters[unit]);
        let mut merged = Self::new(self.width);
        for members in order.chunk_by(|&one, &next| clusters[one] == clusters[next]) {
            let entries = members.iter().flat_map(|&unit| self.row(unit));
            merged.push_sparse(entries.map(|&(column, value)| (column as usize, value)));
        }
        merged
    }

    /// The figure over all units.
    #[must_use]
    pub fn value(&self, figure: &dyn Fn(&[f64]) -> Option<f64>) -> Option<f64> {
        finite(figure(&self.totals))
    }

    /// Computes the figure with each unit left out in turn; `None` below two units, or where the figure is not defined
    /// without one of them.
    ///
    /// Source: Efron, "The Jackknife, the Bootstrap and Other Resampling Plans", 1982.
    #[must_use]
    pub fn jackknife(&self, figure: &dyn Fn(&[f64]) -> Option<f64>) -> Option<Jackknife> {
        if self.len() < 2 {
            return None;
        }
        let mut sums = self.totals.clone();
        let mut without = Vec::with_capacity(self.len());
        for unit in 0..self.len() {
            self.add(&mut sums, unit, -1.0);
            without.push(finite(figure(&sums))?);
            for &(column, _) in self.row(unit) {
                sums[column as usize] = self.totals[column as usize];
            }
        }
        let count = without.len() as f64;
        let mean = without.iter().sum::<f64>() / count;
        let (squares, cubes) = without.iter().fold((0.0, 0.0), |(squares, cubes), value| {
            let influence = mean - value;
            (influence.mul_add(influence, squares), cubes + influence.powi(3))
        });
        let scale = 6.0 * squares.powf(1.5);
        Some(Jackknife {
            standard_error: ((count - 1.0) / count * squares).sqrt(),
            acceleration: if scale > 0.0 { cubes / scale } else { 0.0 },
        })
    }

    /// Computes the figure over units drawn with replacement, as many as there are, again and again; `None` below two units
    /// or where the figure is not defined over all of them.
    ///
    /// Source: Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979; for comparisons Koehn, "Statistical
    /// Significance Tests for Machine Translation Evaluation", 2004.
    #[must_use]
    pub fn bootstrap(&self, resampling: Resampling, figure: &dyn Fn(&[f64]) -> Option<f64>) -> Option<Resampled> {
        let value = self.value(figure)?;
        if self.len() < 2 {
            return None;
        }
        let wanted = resampling.draws.max(Resampling::FEWEST);
        let mut random = ChaCha8Rng::seed_from_u64(resampling.seed);
        let mut draws = Vec::with_capacity(wanted as usize);
        let mut sums = vec![0.0; self.width];
        for _ in 0..wanted {
            sums.fill(0.0);
            for _ in 0..self.len() {
                let unit = below(self.len(), random.next_u64());
                self.add(&mut sums, unit, 1.0);
            }
            draws.extend(finite(figure(&sums)));
        }
        let undefined = wanted - draws.len() as u32;
        draws.sort_by(f64::total_cmp);
        (draws.len() > 1).then_some(Resampled {
            value,
            draws,
            undefined,
        })
    }

    fn add(&self, sums: &mut [f64], unit: usize, times: f64) {
        for &(column, value) in self.row(unit) {
            sums[column as usize] += times * value;
        }
    }

    fn row(&self, unit: usize) -> &[(u32, f64)] {
        let start = unit.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.entries[start..self.ends[unit]]
    }
}

impl Resampling {
    /// Below this many draws the ends of an interval are those of chance.
    pub const FEWEST: u32 = 2_000;
    /// With fewer units than this there are so few different draws that their quantiles claim too much: 7 units that are
    /// each 0 or 1 have 8 means. Whoever has an interval by the error takes it.
    pub const FEWEST_UNITS: usize = 8;
}

impl Default for Resampling {
    fn default() -> Self {
        Self {
            draws: Self::FEWEST,
            seed: 0,
        }
    }
}

impl Resampled {
    /// The figure over the units as they are.
    #[must_use]
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// Draws for which the figure is not defined, a mean over no weight for instance. They are left out.
    #[must_use]
    pub const fn undefined(&self) -> u32 {
        self.undefined
    }

    /// The standard deviation of the draws.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        let count = self.draws.len() as f64;
        let mean = self.draws.iter().sum::<f64>() / count;
        let squares: f64 = self.draws.iter().map(|draw| (draw - mean).powi(2)).sum();
        (squares / (count - 1.0)).sqrt()
    }

    /// The 95 % interval between quantiles of the draws.
    #[must_use]
    pub fn percentile(&self) -> [f64; 2] {
        let outside = (1.0 - CONFIDENCE) / 2.0;
        [self.quantile(outside), self.quantile(1.0 - outside)]
    }

    /// The 95 % interval between quantiles that are moved by the draws' bias and by how the error changes with the value.
    /// Plain quantiles where that is not defined: no draw lies on one side of the value.
    ///
    /// Source: Efron, "Better Bootstrap Confidence Intervals", 1987.
    #[must_use]
    pub fn bca(&self, jackknife: &Jackknife) -> ([f64; 2], Method) {
        let outside = (1.0 - CONFIDENCE) / 2.0;
        let bias = normal_quantile(self.share_below_value());
        let moved = |z: f64| {
            let shifted = bias + z;
            normal_cdf(bias + shifted / (1.0 - jackknife.acceleration * shifted))
        };
        let (low, high) = (moved(normal_quantile(outside)), moved(normal_quantile(1.0 - outside)));
        if !bias.is_finite() || !low.is_finite() || !high.is_finite() || low >= high {
            return (self.percentile(), Method::Percentile);
        }
        ([self.quantile(low), self.quantile(high)], Method::Bca)
    }

    /// Draws that equal the value count half.
    fn share_below_value(&self) -> f64 {
        let below = self.draws.partition_point(|draw| *draw < self.value);
        let up_to = self.draws.partition_point(|draw| *draw <= self.value);
        (below + up_to) as f64 / 2.0 / self.draws.len() as f64
    }

    /// With straight lines between the draws.
    fn quantile(&self, p: f64) -> f64 {
        let place = p * (self.draws.len() - 1) as f64;
        let (low, share) = (place.floor() as usize, place.fract());
        let below = self.draws[low.min(self.draws.len() - 1)];
        let above = self.draws[(low + 1).min(self.draws.len() - 1)];
        share.mul_add(above - below, below)
    }
}

/// Which of `count` units a random number stands for: its place in the whole range.
fn below(count: usize, random: u64) -> usize {
    ((u128::from(random) * count as u128) >> 64) as usize
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(sums: &[f64]) -> Option<f64> {
        (sums[1] > 0.0).then(|| sums[0] / sums[1])
    }

    fn units(scores: &[f64]) -> Units {
        scores.iter().fold(Units::new(2), |mut units, &score| {
            units.push(&[score, 1.0]);
            units
        })
    }

    #[test]
    fn the_same_seed_gives_the_same_draws_and_another_one_others() {
        let units = units(&[0.0, 1.0, 0.5, 0.25, 1.0, 0.75]);
        let with = |seed| units.bootstrap(Resampling { draws: 0, seed }, &mean).unwrap();
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
        assert_eq!(with(1).draws.len(), 2_000, "never fewer");
    }

    #[test]
    fn the_order_of_sums_does_not_drift_while_units_are_left_out() {
        let scores: Vec<f64> = (0..1_000).map(|item| 1e9 + f64::from(item % 7) * 0.1).collect();
        let jackknife = units(&scores).jackknife(&mean).unwrap();
        let mut items = crate::Items::default();
        for score in &scores {
            items.push(*score);
        }
        let expected = items.standard_error().unwrap();
        assert!((jackknife.standard_error / expected - 1.0).abs() < 1e-3);
    }

    #[test]
    fn clusters_are_drawn_whole() {
        let merged = units(&[1.0, 0.0, 1.0, 1.0]).merged(&[7, 3, 7, 3]);
        assert_eq!(merged.len(), 2);
        assert_eq!(merged.totals(), [3.0, 4.0]);
        let resampled = merged.bootstrap(Resampling::default(), &mean).unwrap();
        let mut values = resampled.draws;
        values.dedup();
        assert_eq!(values, [0.5, 0.75, 1.0], "3 twice, one of each, 7 twice");
    }

    #[test]
    fn draws_without_a_value_are_left_out_and_counted() {
        let mut units = Units::new(2);
        units.push(&[1.0, 1.0]);
        units.push(&[0.0, 0.0]);
        let resampled = units.bootstrap(Resampling::default(), &mean).unwrap();
        assert!((400..600).contains(&resampled.undefined()), "{}", resampled.undefined());
        assert_eq!(units.jackknife(&mean), None);
    }

    #[test]
    fn one_unit_has_no_spread_and_nothing_no_value() {
        assert_eq!(units(&[1.0]).bootstrap(Resampling::default(), &mean), None);
        assert_eq!(units(&[1.0]).jackknife(&mean), None);
        assert_eq!(units(&[]).value(&mean), None);
        assert_eq!(units(&[1.0]).value(&mean), Some(1.0));
        assert_eq!(units(&[f64::NAN, 1.0]).bootstrap(Resampling::default(), &mean), None);
    }

    #[test]
    fn equal_units_have_an_interval_of_one_point() {
        let units = units(&[0.5; 10]);
        let jackknife = units.jackknife(&mean).unwrap();
        let resampled = units.bootstrap(Resampling::default(), &mean).unwrap();
        assert_eq!((jackknife.standard_error, resampled.standard_error()), (0.0, 0.0));
        assert_eq!(resampled.bca(&jackknife).0, [0.5, 0.5]);
    }

    #[test]
    fn every_unit_is_drawn_and_none_beyond() {
        assert_eq!((below(3, 0), below(3, u64::MAX)), (0, 2));
        assert_eq!((below(3, u64::MAX / 2), below(1, u64::MAX)), (1, 0));
    }
}
