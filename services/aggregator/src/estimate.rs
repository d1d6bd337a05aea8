//! A figure with its error and its interval, from what items add to it.

use tidemill_statistics::{
    Clusters, Items, Method, Resampling, Units, Weighted, clip, is_rounding, normal_interval, student_interval,
    unseen_interval, wilson_interval, wilson_of_share,
};

/// Items or clusters up to which a final figure is resampled; with more, an interval by its error is as good.
const MOST_RESAMPLED: usize = 10_000;
/// Groups that the items are put into, to leave out one at a time, where there are more than [`MOST_RESAMPLED`] or time is
/// short.
const GROUPS_LEFT_OUT: usize = 1_000;

/// How much work a figure is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// It is computed again within a second: no resampling.
    Provisional,
    /// It stays.
    Final,
}

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Estimate {
    pub(crate) value: Option<f64>,
    pub(crate) standard_error: Option<f64>,
    pub(crate) interval: Option<([f64; 2], Method)>,
    /// Items that it is made of.
    pub(crate) items: u64,
}

/// What is known of items beside their scores: the columns of the benchmark.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shape<'a> {
    /// The cluster of each item.
    pub(crate) clusters: Option<&'a [u32]>,
    /// The weight of each item.
    pub(crate) weights: Option<&'a [f64]>,
    /// Each item is right or wrong, once.
    pub(crate) is_binary: bool,
    /// What the figure can be.
    pub(crate) range: Option<[f64; 2]>,
}

impl Shape<'_> {
    fn weight(&self, item: usize) -> f64 {
        self.weights
            .and_then(|weights| weights.get(item))
            .copied()
            .unwrap_or(1.0)
    }

    fn cluster(&self, item: usize) -> u32 {
        self.clusters
            .and_then(|clusters| clusters.get(item))
            .copied()
            .unwrap_or(0)
    }

    /// Every item counts the same, and on its own.
    const fn is_even(&self) -> bool {
        self.clusters.is_none() && self.weights.is_none()
    }

    fn is_share(&self) -> bool {
        self.range == Some([0.0, 1.0])
    }

    fn clipped(&self, interval: [f64; 2]) -> [f64; 2] {
        self.range.map_or(interval, |range| clip(interval, range))
    }
}

/// A mean over items, each of which comes once, in the manifest's order, with its number.
pub(crate) fn mean(items: impl Iterator<Item = (usize, f64)> + Clone, shape: Shape<'_>, effort: Effort) -> Estimate {
    let seen = Seen::over(items.clone(), &shape);
    let standard_error = seen.standard_error();
    let interval = seen.value().and_then(|value| {
        if shape.is_even() && shape.is_binary && shape.is_share() {
            return wilson_interval(seen.plain.sum() as u64, seen.plain.count())
                .map(|interval| (interval, Method::Wilson));
        }
        if seen.are_alike() {
            return seen.unseen(value, &shape);
        }
        let spread = Spread {
            value,
            standard_error: standard_error?,
            units: seen.units(),
        };
        if shape.clusters.is_none() && spread.is_resampled(effort) {
            return resampled_mean(items, &shape);
        }
        spread.interval(shape.clusters.is_some())
    });
    Estimate {
        value: seen.value(),
        standard_error,
        interval: interval.map(|(interval, method)| (shape.clipped(interval), method)),
        items: seen.plain.count(),
    }
}

/// What one pass over the items gathers.
struct Seen {
    plain: Items,
    weighted: Option<Weighted>,
    clusters: Option<Clusters>,
    lowest: f64,
    highest: f64,
}

impl Seen {
    fn over(items: impl Iterator<Item = (usize, f64)>, shape: &Shape<'_>) -> Self {
        let has_weights = shape.clusters.is_none() && shape.weights.is_some();
        let mut seen = Self {
            plain: Items::default(),
            weighted: has_weights.then(Weighted::default),
            clusters: shape.clusters.map(|_| Clusters::default()),
            lowest: f64::INFINITY,
            highest: f64::NEG_INFINITY,
        };
        for (item, score) in items {
            seen.plain.push(score);
            seen.lowest = seen.lowest.min(score);
            seen.highest = seen.highest.max(score);
            if let Some(weighted) = &mut seen.weighted {
                weighted.push(score, shape.weight(item));
            }
            if let Some(clusters) = &mut seen.clusters {
                clusters.push_weighted(shape.cluster(item) as usize, score, shape.weight(item));
            }
        }
        seen
    }

    fn value(&self) -> Option<f64> {
        match (&self.clusters, &self.weighted) {
            (Some(clusters), _) => clusters.mean(),
            (None, Some(weighted)) => weighted.mean(),
            (None, None) => self.plain.mean(),
        }
    }

    /// `None` below two units; 0 where all are alike, since rounding is no spread.
    fn standard_error(&self) -> Option<f64> {
        let error = match (&self.clusters, &self.weighted) {
            (Some(clusters), _) => clusters.standard_error(),
            (None, Some(weighted)) => weighted.standard_error(),
            (None, None) => self.plain.standard_error(),
        };
        let magnitude = self.lowest.abs().max(self.highest.abs());
        error.map(|error| if is_rounding(error, magnitude) { 0.0 } else { error })
    }

    /// Items, or clusters, show no spread.
    fn are_alike(&self) -> bool {
        self.lowest == self.highest || self.standard_error() == Some(0.0)
    }

    /// Independent units.
    fn units(&self) -> u64 {
        match (&self.clusters, &self.weighted) {
            (Some(clusters), _) => clusters.count(),
            (None, Some(weighted)) => weighted.count(),
            (None, None) => self.plain.count(),
        }
    }

    /// Units of equal weight that tell as much.
    fn effective_units(&self) -> f64 {
        match (&self.clusters, &self.weighted) {
            (Some(clusters), _) => clusters.effective_count(),
            (None, Some(weighted)) => weighted.effective_count(),
            (None, None) => self.plain.count() as f64,
        }
    }

    /// What units that are all alike leave open. All right or all wrong is a share, whose interval is Wilson's; of what has no
    /// range nothing is known.
    fn unseen(&self, value: f64, shape: &Shape<'_>) -> Option<([f64; 2], Method)> {
        let (range, units) = (shape.range?, self.effective_units());
        if shape.is_share() && self.lowest == self.highest && range.contains(&self.lowest) {
            return Some((wilson_of_share(self.lowest, units), Method::Wilson));
        }
        (self.units() > 1).then(|| (unseen_interval(value, units, range), Method::Unseen))
    }
}

/// A figure whose units differ.
struct Spread {
    value: f64,
    standard_error: f64,
    /// Independent items, or clusters.
    units: u64,
}

impl Spread {
    fn is_resampled(&self, effort: Effort) -> bool {
        effort == Effort::Final && (Resampling::FEWEST_UNITS..=MOST_RESAMPLED).contains(&(self.units as usize))
    }

    /// By the error, which is itself uncertain where there are few units, and always taken to be of clusters.
    fn interval(&self, are_clusters: bool) -> Option<([f64; 2], Method)> {
        if self.units > MOST_RESAMPLED as u64 && !are_clusters {
            return Some((normal_interval(self.value, self.standard_error), Method::Normal));
        }
        let free = self.units.saturating_sub(1) as f64;
        student_interval(self.value, self.standard_error, free).map(|interval| (interval, Method::Student))
    }
}

fn resampled_mean(items: impl Iterator<Item = (usize, f64)>, shape: &Shape<'_>) -> Option<([f64; 2], Method)> {
    let mut units = Units::new(2);
    for (item, score) in items {
        let weight = shape.weight(item);
        units.push(&[weight * score, weight]);
    }
    let mean = |sums: &[f64]| (sums[1] > 0.0).then(|| sums[0] / sums[1]);
    resampled(&units, &mean)
}

fn resampled(units: &Units, figure: &dyn Fn(&[f64]) -> Option<f64>) -> Option<([f64; 2], Method)> {
    let drawn = units.bootstrap(Resampling::default(), figure)?;
    Some(match units.jackknife(figure) {
        Some(jackknife) => drawn.bca(&jackknife),
        None => (drawn.percentile(), Method::Percentile),
    })
}

/// A figure of sums over items; `numbers` are the items of the units, in order.
pub(crate) fn of_sums(
    units: &Units,
    numbers: &[usize],
    shape: Shape<'_>,
    figure: &dyn Fn(&[f64]) -> Option<f64>,
    effort: Effort,
) -> Estimate {
    let Some(value) = units.value(figure) else {
        return Estimate {
            items: units.len() as u64,
            ..Estimate::default()
        };
    };
    let merged = shape.clusters.map(|_| {
        let of_unit: Vec<u32> = numbers.iter().map(|item| shape.cluster(*item)).collect();
        units.merged(&of_unit)
    });
    let independent = merged.as_ref().unwrap_or(units);
    let is_many = independent.len() > MOST_RESAMPLED || effort == Effort::Provisional;
    let grouped = (is_many && independent.len() > GROUPS_LEFT_OUT).then(|| {
        let groups: Vec<u32> = (0..independent.len()).map(scattered).collect();
        independent.merged(&groups)
    });
    let jackknife = grouped.as_ref().unwrap_or(independent).jackknife(figure);
    let standard_error = jackknife.map(|jackknife| jackknife.standard_error);
    // What shows no spread says nothing of the spread that there is, and such a figure is no share of anything.
    let error = standard_error.filter(|error| !is_rounding(*error, value.abs()));
    let interval = error.and_then(|standard_error| {
        let spread = Spread {
            value,
            standard_error,
            units: independent.len() as u64,
        };
        if spread.is_resampled(effort) {
            return resampled(independent, figure);
        }
        spread.interval(merged.is_some())
    });
    Estimate {
        value: Some(value),
        standard_error: standard_error.map(|error| if is_rounding(error, value.abs()) { 0.0 } else { error }),
        interval: interval.map(|(interval, method)| (shape.clipped(interval), method)),
        items: units.len() as u64,
    }
}

/// The group of a unit, as if drawn: neighbours in a data set are alike, and groups that take every n-th unit would then be
/// more alike than chance has it.
///
/// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014, for the mixing.
const fn scattered(unit: usize) -> u32 {
    let mut mixed = (unit as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % GROUPS_LEFT_OUT as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Shape<'static> = Shape {
        clusters: None,
        weights: None,
        is_binary: false,
        range: Some([0.0, 1.0]),
    };

    fn of(scores: &[f64], shape: Shape<'_>, effort: Effort) -> Estimate {
        mean(scores.iter().copied().enumerate(), shape, effort)
    }

    fn method(estimate: &Estimate) -> Option<Method> {
        estimate.interval.map(|(_, method)| method)
    }

    #[test]
    fn each_shape_has_its_interval() {
        let scores = [0.0, 1.0, 0.5, 0.25, 1.0, 0.75, 0.0, 1.0];
        let binary = Shape {
            is_binary: true,
            ..SHARE
        };
        let (clusters, weights) = ([0, 0, 1, 1, 2, 2, 3, 3], [1.0, 2.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0]);
        let clustered = Shape {
            clusters: Some(&clusters),
            ..binary
        };
        let weighted = Shape {
            weights: Some(&weights),
            ..binary
        };
        for (shape, effort, expected) in [
            (SHARE, Effort::Final, Method::Bca),
            (SHARE, Effort::Provisional, Method::Student),
            (binary, Effort::Final, Method::Wilson),
            (clustered, Effort::Final, Method::Student),
            (clustered, Effort::Provisional, Method::Student),
            (weighted, Effort::Final, Method::Bca),
        ] {
            assert_eq!(method(&of(&scores, shape, effort)), Some(expected), "{shape:?}");
        }
        let few = of(&scores[..7], SHARE, Effort::Final);
        assert_eq!(method(&few), Some(Method::Student), "too few to draw from");
        let many = [0.5, 1.0].repeat(MOST_RESAMPLED);
        assert_eq!(method(&of(&many, SHARE, Effort::Final)), Some(Method::Normal));
    }

    #[test]
    fn all_right_is_no_proof_of_perfection() {
        for effort in [Effort::Final, Effort::Provisional] {
            let estimate = of(&[1.0; 10], SHARE, effort);
            assert_eq!((estimate.value, method(&estimate)), (Some(1.0), Some(Method::Wilson)));
            assert!(estimate.interval.unwrap().0[0] < 0.73);
            assert!(of(&[0.0; 10], SHARE, effort).interval.unwrap().0[1] > 0.27);
        }
    }

    /// By hand: sd √(1/2) of two, so an error of 1/2, and t(0.975) of 12.706205 with one degree of freedom.
    #[test]
    fn few_items_take_students_interval() {
        let free = Shape::default();
        for effort in [Effort::Final, Effort::Provisional] {
            let ([low, high], method) = of(&[2.0, 3.0], free, effort).interval.unwrap();
            assert_eq!(method, Method::Student);
            assert!((low - (2.5 - 6.353_102)).abs() < 1e-5 && (high - (2.5 + 6.353_102)).abs() < 1e-5);
            let weights = [1.0, 1.0];
            let weighted = Shape {
                weights: Some(&weights),
                ..free
            };
            let ([same, _], method) = of(&[2.0, 3.0], weighted, effort).interval.unwrap();
            assert!((same - low).abs() < 1e-9 && method == Method::Student);
            let mut units = Units::new(2);
            [2.0, 3.0].iter().for_each(|score| units.push(&[*score, 1.0]));
            let ratio = |sums: &[f64]| (sums[1] > 0.0).then(|| sums[0] / sums[1]);
            let ([same, _], method) = of_sums(&units, &[0, 1], free, &ratio, effort).interval.unwrap();
            assert!((same - low).abs() < 1e-9 && method == Method::Student);
        }
    }

    /// Wilson's lower end of 2 of 2 is 0.342372, of 3 of 3 0.438494.
    #[test]
    fn clusters_and_weights_that_are_all_right_count_as_often_as_they_are_independent() {
        let (clusters, weights) = ([0, 0, 0, 1, 1, 1], [1.0; 6]);
        let clustered = Shape {
            clusters: Some(&clusters),
            is_binary: true,
            ..SHARE
        };
        let heavy = [9.0, 9.0, 9.0, 1e-9, 1e-9, 1e-9];
        for (weights, clusters, expected) in [
            (None, Some(&clusters), 0.342_372),
            (Some(&heavy), None, 0.438_494),
            (Some(&weights), Some(&clusters), 0.342_372),
        ] {
            let shape = Shape {
                clusters: clusters.map(<[u32; 6]>::as_slice),
                weights: weights.map(<[f64; 6]>::as_slice),
                ..clustered
            };
            for effort in [Effort::Final, Effort::Provisional] {
                let estimate = of(&[1.0; 6], shape, effort);
                let ([low, high], method) = estimate.interval.unwrap();
                assert!((low - expected).abs() < 1e-5 && high == 1.0, "{low} is not {expected}");
                assert_eq!((estimate.standard_error, method), (Some(0.0), Method::Wilson));
                let wrong = of(&[0.0; 6], shape, effort).interval.unwrap().0;
                assert!(wrong[0] == 0.0 && (wrong[1] - (1.0 - expected)).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn values_that_are_all_alike_leave_what_their_range_and_number_leave() {
        let ([low, high], method) = of(&[0.3; 10], SHARE, Effort::Final).interval.unwrap();
        let unseen = 1.0 - 0.05_f64.powf(0.1);
        assert!((low - 0.3 * (1.0 - unseen)).abs() < 1e-12 && (high - (0.3 + 0.7 * unseen)).abs() < 1e-12);
        assert_eq!(method, Method::Unseen);
        // Clusters that are alike although their items are not.
        let clusters = [0, 0, 1, 1, 2, 2];
        let clustered = Shape {
            clusters: Some(&clusters),
            ..SHARE
        };
        let alike = of(&[0.0, 1.0, 1.0, 0.0, 0.0, 1.0], clustered, Effort::Final);
        let ([low, high], method) = alike.interval.unwrap();
        let unseen = 1.0 - 0.05_f64.powf(1.0 / 3.0);
        assert!((low - 0.5 * (1.0 - unseen)).abs() < 1e-12 && (high - 0.5 * (1.0 + unseen)).abs() < 1e-12);
        assert_eq!(method, Method::Unseen);
        // Without a range nothing is known, whatever rounding makes of the error.
        let weights: Vec<f64> = (0..50).map(|item| 0.1 + f64::from(item) / 7.0).collect();
        let weighted = Shape {
            weights: Some(&weights),
            ..Shape::default()
        };
        for shape in [Shape::default(), weighted] {
            let estimate = of(&[3.1; 50], shape, Effort::Final);
            assert_eq!((estimate.standard_error, estimate.interval), (Some(0.0), None));
        }
        let mut units = Units::new(2);
        weights.iter().for_each(|weight| units.push(&[3.1 * weight, *weight]));
        let numbers: Vec<usize> = (0..50).collect();
        let ratio = |sums: &[f64]| (sums[1] > 0.0).then(|| sums[0] / sums[1]);
        let estimate = of_sums(&units, &numbers, Shape::default(), &ratio, Effort::Final);
        assert_eq!((estimate.standard_error, estimate.interval), (Some(0.0), None));
    }

    #[test]
    fn weights_move_the_mean_and_nothing_is_made_of_nothing() {
        let weights = [3.0, 1.0];
        let shape = Shape {
            weights: Some(&weights),
            ..SHARE
        };
        assert_eq!(of(&[1.0, 0.0], shape, Effort::Provisional).value, Some(0.75));
        assert_eq!(of(&[], SHARE, Effort::Final), Estimate::default());
        assert_eq!(of(&[0.5], SHARE, Effort::Final).interval, None);
    }

    #[test]
    fn sums_give_the_error_of_the_mean_that_they_are_of() {
        let scores: Vec<f64> = (0..5_000).map(|item| f64::from(item % 7) / 7.0).collect();
        let mut units = Units::new(2);
        scores.iter().for_each(|score| units.push(&[*score, 1.0]));
        let numbers: Vec<usize> = (0..scores.len()).collect();
        let ratio = |sums: &[f64]| (sums[1] > 0.0).then(|| sums[0] / sums[1]);
        let plain = of(&scores, SHARE, Effort::Provisional).standard_error.unwrap();
        let exact = of_sums(&units, &numbers, SHARE, &ratio, Effort::Final);
        assert!((exact.standard_error.unwrap() / plain - 1.0).abs() < 1e-9);
        assert_eq!(method(&exact), Some(Method::Bca));
        let grouped = of_sums(&units, &numbers, SHARE, &ratio, Effort::Provisional);
        assert!(
            (grouped.standard_error.unwrap() / plain - 1.0).abs() < 0.1,
            "{grouped:?} {plain}"
        );
        let clusters: Vec<u32> = (0..5_000).map(|item| item / 1_000).collect();
        let shape = Shape {
            clusters: Some(&clusters),
            ..SHARE
        };
        let clustered = of_sums(&units, &numbers, shape, &ratio, Effort::Provisional);
        let expected = of(&scores, shape, Effort::Provisional);
        assert!((clustered.standard_error.unwrap() - expected.standard_error.unwrap()).abs() < 1e-9);
        assert_eq!(method(&clustered), Some(Method::Student));
        assert_eq!((clustered.items, exact.items), (5_000, 5_000));
    }
}
