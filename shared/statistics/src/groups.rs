//! Means over several benchmarks, taken to be independent of each other.

/// One benchmark of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Its mean.
    pub mean: f64,
    /// The standard error of that; `None` where it has too few items.
    pub standard_error: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// The items that the mean is over.
    pub items: u64,
    /// How much it, or each of its items, counts; 1 where nothing else is said.
    pub weight: f64,
}

/// The weighted mean of the benchmarks' means, and its error √(Σ w² SE²) / Σ w. `None` without weight; the error is `None`
/// where a part that counts has none.
#[must_use]
pub fn macro_mean(parts: &[Part]) -> Option<(f64, Option<f64>)> {
    weighted(parts, |part| part.weight)
}

/// The 95 % interval of [`macro_mean`]: the distances to the ends of the benchmarks' own intervals add up as errors do. So a
/// benchmark of few items, or one that shows no spread, takes as much room as it has by itself. `None` where a part that
/// counts has none.
///
/// Source: Zou and Donner, "Construction of confidence limits about effect measures: a general approach", 2008.
#[must_use]
pub fn macro_interval(parts: &[Part]) -> Option<[f64; 2]> {
    of_intervals(parts, |part| part.weight)
}

/// The 95 % interval of [`micro_mean`], as [`macro_interval`].
#[must_use]
pub fn micro_interval(parts: &[Part]) -> Option<[f64; 2]> {
    of_intervals(parts, |part| part.weight * part.items as f64)
}

/// The mean over all items of all benchmarks, each item by its benchmark's weight, and its error √(Σ w² n² SE²) / Σ w n: each
/// benchmark is a stratum, so that the distance between benchmarks' means adds nothing to it. `None` without items.
#[must_use]
pub fn micro_mean(parts: &[Part]) -> Option<(f64, Option<f64>)> {
    weighted(parts, |part| part.weight * part.items as f64)
}

/// The error that lm-evaluation-harness gives a group's score, whether the means are weighted by size or not:
/// √(Σ (n-1) n SE² / (Σ n - B) / Σ n) over B benchmarks.
///
/// It takes all items to have the same variance and is for comparisons with that tool alone. `None` where an error is
/// missing or there are no more items than benchmarks.
///
/// Source: lm-evaluation-harness, `pooled_sample_stderr`.
#[must_use]
pub fn pooled_standard_error(parts: &[Part]) -> Option<f64> {
    let items: f64 = parts.iter().map(|part| part.items as f64).sum();
    let free = items - parts.len() as f64;
    if free <= 0.0 {
        return None;
    }
    let squares = parts.iter().map(|part| {
        let (error, items) = (part.standard_error?, part.items as f64);
        Some((items - 1.0) * items * error * error)
    });
    let squares = squares.sum::<Option<f64>>()?;
    Some((squares / free / items).sqrt())
}

fn weighted(parts: &[Part], weight: impl Fn(&Part) -> f64) -> Option<(f64, Option<f64>)> {
    let parts: Vec<(f64, &Part)> = parts.iter().map(|part| (weight(part), part)).collect();
    let parts: Vec<(f64, &Part)> = parts.into_iter().filter(|(weight, _)| *weight > 0.0).collect();
    let total: f64 = parts.iter().map(|(weight, _)| weight).sum();
    if total <= 0.0 || !total.is_finite() {
        return None;
    }
    let mean = parts.iter().map(|(weight, part)| weight * part.mean).sum::<f64>() / total;
    let squares = parts
        .iter()
        .map(|(weight, part)| part.standard_error.map(|error| (weight * error).powi(2)));
    let error = squares.sum::<Option<f64>>().map(|squares| squares.sqrt() / total);
    Some((mean, error))
}

/// The degrees of freedom of the error of a sum of independent figures, from the variance that each adds and its own degrees
/// of freedom; `None` where nothing varies.
///
/// Source: Welch, "The Generalization of Student's Problem when Several Different Population Variances are Involved", 1947.
#[must_use]
pub fn welch_satterthwaite(parts: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let varying = parts.into_iter().filter(|(variance, _)| *variance > 0.0);
    let (sum, squares) = varying.fold((0.0, 0.0), |(sum, squares), (variance, free)| {
        (sum + variance, squares + variance * variance / free)
    });
    let free = sum * sum / squares;
    free.is_finite().then_some(free)
}

fn of_intervals(parts: &[Part], weight: impl Fn(&Part) -> f64) -> Option<[f64; 2]> {
    let (mean, _) = weighted(parts, &weight)?;
    let (mut below, mut above, mut total) = (0.0_f64, 0.0_f64, 0.0);
    for part in parts.iter().filter(|part| weight(part) > 0.0) {
        let ([low, high], share) = (part.interval?, weight(part));
        below = below.hypot(share * (part.mean - low));
        above = above.hypot(share * (high - part.mean));
        total += share;
    }
    Some([mean - below / total, mean + above / total])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(mean: f64, standard_error: Option<f64>, items: u64, weight: f64) -> Part {
        Part {
            mean,
            standard_error,
            interval: standard_error.map(|error| crate::normal_interval(mean, error)),
            items,
            weight,
        }
    }

    #[test]
    fn degrees_of_freedom_add_up_where_variances_are_even_and_are_those_of_the_largest_else() {
        assert_eq!(welch_satterthwaite([(2.0, 5.0), (2.0, 5.0)]), Some(10.0));
        assert_eq!(welch_satterthwaite([(2.0, 5.0), (0.0, 1.0)]), Some(5.0));
        // By hand: (1 + 3)² / (1/4 + 9/9).
        assert_eq!(welch_satterthwaite([(1.0, 4.0), (3.0, 9.0)]), Some(12.8));
        assert_eq!(welch_satterthwaite([(0.0, 4.0)]), None);
        assert_eq!(welch_satterthwaite([]), None);
    }

    #[test]
    fn even_intervals_give_that_of_the_groups_error_and_others_the_room_that_they_have() {
        let parts = [part(0.2, Some(0.03), 100, 1.0), part(0.8, Some(0.04), 300, 2.0)];
        for (mean, interval) in [
            (macro_mean(&parts), macro_interval(&parts)),
            (micro_mean(&parts), micro_interval(&parts)),
        ] {
            let (mean, error) = mean.unwrap();
            let (found, expected) = (interval.unwrap(), crate::normal_interval(mean, error.unwrap()));
            assert!((found[0] - expected[0]).abs() < 1e-12 && (found[1] - expected[1]).abs() < 1e-12);
        }
        let all_right = Part {
            interval: crate::wilson_interval(10, 10),
            ..part(1.0, Some(0.0), 10, 1.0)
        };
        // Wilson's lower end of 10 of 10 is 0.7225.
        let [low, high] = macro_interval(&[all_right, all_right]).unwrap();
        assert!(
            (low - (1.0 - 0.277_533 / 2_f64.sqrt())).abs() < 1e-5 && high == 1.0,
            "{low} {high}"
        );
        let unknown = Part {
            interval: None,
            ..all_right
        };
        assert_eq!(macro_interval(&[all_right, unknown]), None);
        let weightless = Part { weight: 0.0, ..unknown };
        assert_eq!(macro_interval(&[all_right, weightless]), macro_interval(&[all_right]));
    }

    #[test]
    fn a_macro_mean_counts_benchmarks_and_a_micro_mean_items() {
        let parts = [part(0.2, Some(0.03), 100, 1.0), part(0.8, Some(0.04), 300, 1.0)];
        let (mean, error) = macro_mean(&parts).unwrap();
        assert!((mean - 0.5).abs() < 1e-15 && (error.unwrap() - 0.025).abs() < 1e-15);
        let (mean, error) = micro_mean(&parts).unwrap();
        assert!((mean - 0.65).abs() < 1e-15 && (error.unwrap() - (0.0075_f64.hypot(0.03))).abs() < 1e-15);
    }

    #[test]
    fn a_benchmark_without_weight_or_items_does_not_count_and_one_without_an_error_takes_the_groups() {
        let parts = [part(0.2, Some(0.03), 100, 2.0), part(0.8, None, 1, 0.0)];
        assert_eq!(macro_mean(&parts), Some((0.2, Some(0.03))));
        assert_eq!(micro_mean(&parts), Some((0.2, Some(0.03))));
        assert_eq!(micro_mean(&[parts[0], part(0.8, None, 1, 1.0)]).unwrap().1, None);
        assert_eq!(macro_mean(&[]), None);
        assert_eq!(micro_mean(&[part(0.5, None, 0, 1.0)]), None);
        assert_eq!(pooled_standard_error(&parts), None, "it has no weights");
        assert_eq!(pooled_standard_error(&[]), None);
    }
}
