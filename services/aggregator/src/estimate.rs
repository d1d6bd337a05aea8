//! A figure with its error and its interval, from what items add to it.

use tidemill_statistics::{
    Clusters, Items, Method, Resampling, Units, Weighted, clip, normal_interval, student_interval, wilson_interval,
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

    fn clipped(&self, interval: [f64; 2]) -> [f64; 2] {
        self.range.map_or(interval, |range| clip(interval, range))
    }
}

/// A mean over items, each of which comes once, in the manifest's order, with its number.
pub(crate) fn mean(items: impl Iterator<Item = (usize, f64)> + Clone, shape: Shape<'_>, effort: Effort) -> Estimate {
    let (mut plain, mut weighted) = (Items::default(), Weighted::default());
    let mut clusters = shape.clusters.map(|_| Clusters::default());
    let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
    for (item, score) in items.clone() {
        plain.push(score);
        (lowest, highest) = (lowest.min(score), highest.max(score));
        match &mut clusters {
            Some(clusters) => clusters.push_weighted(shape.cluster(item) as usize, score, shape.weight(item)),
            None if shape.weights.is_some() => weighted.push(score, shape.weight(item)),
            None => {}
        }
    }
    let (value, standard_error) = match &clusters {
        Some(clusters) => (clusters.mean(), clusters.standard_error()),
        None if shape.weights.is_some() => (weighted.mean(), weighted.standard_error()),
        None => (plain.mean(), plain.standard_error()),
    };
    let count = plain.count();
    // All right or all wrong: whatever is drawn again shows no spread, and Wilson's interval is on the safe side.
    let is_extreme = lowest == highest && shape.range.is_some_and(|range| range.contains(&lowest));
    let is_even = clusters.is_none() && shape.weights.is_none();
    let interval = if let Some(clusters) = &clusters {
        let interval = value
            .zip(standard_error)
            .and_then(|(value, error)| student_interval(value, error, clusters.degrees_of_freedom()));
        interval.map(|interval| (shape.clipped(interval), Method::Student))
    } else if is_even && (shape.is_binary || is_extreme) && shape.range == Some([0.0, 1.0]) {
        wilson_interval(plain.sum() as u64, count).map(|interval| (interval, Method::Wilson))
    } else if effort == Effort::Final && count <= MOST_RESAMPLED as u64 {
        resampled_mean(items, &shape)
    } else {
        let interval = value
            .zip(standard_error)
            .map(|(value, error)| normal_interval(value, error));
        interval.map(|interval| (shape.clipped(interval), Method::Normal))
    };
    Estimate {
        value,
        standard_error,
        interval,
        items: count,
    }
}

fn resampled_mean(items: impl Iterator<Item = (usize, f64)>, shape: &Shape<'_>) -> Option<([f64; 2], Method)> {
    let mut units = Units::new(2);
    for (item, score) in items {
        let weight = shape.weight(item);
        units.push(&[weight * score, weight]);
    }
    let mean = |sums: &[f64]| (sums[1] > 0.0).then(|| sums[0] / sums[1]);
    resampled(&units, &mean).map(|(interval, method)| (shape.clipped(interval), method))
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
    let interval = if is_many {
        let free = independent.len().saturating_sub(1) as f64;
        standard_error.and_then(|error| match merged {
            Some(_) => student_interval(value, error, free).map(|interval| (interval, Method::Student)),
            None => Some((normal_interval(value, error), Method::Normal)),
        })
    } else {
        resampled(independent, figure)
    };
    Estimate {
        value: Some(value),
        standard_error,
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
        let scores = [0.0, 1.0, 0.5, 0.25, 1.0, 0.75];
        let binary = Shape {
            is_binary: true,
            ..SHARE
        };
        let (clusters, weights) = ([0, 0, 1, 1, 2, 2], [1.0, 2.0, 1.0, 1.0, 1.0, 3.0]);
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
            (SHARE, Effort::Provisional, Method::Normal),
            (binary, Effort::Final, Method::Wilson),
            (clustered, Effort::Final, Method::Student),
            (clustered, Effort::Provisional, Method::Student),
            (weighted, Effort::Final, Method::Bca),
        ] {
            assert_eq!(method(&of(&scores, shape, effort)), Some(expected), "{shape:?}");
        }
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
