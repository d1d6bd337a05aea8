//! 95 % intervals that need no resampling.

use crate::student_quantile;

/// How often an interval holds what it is meant to hold.
pub const CONFIDENCE: f64 = 0.95;

/// The quantile of the normal distribution that leaves 2.5 % above it: the half-width of a 95 % interval in standard errors.
pub const Z_95: f64 = 1.959_963_984_540_054;

/// How an interval was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Wilson's score interval of a share.
    Wilson,
    /// The value plus and minus standard errors, by the normal distribution.
    Normal,
    /// The value plus and minus standard errors, by Student's distribution: few items, clusters, or a difference.
    Student,
    /// What values that were all alike leave open.
    Unseen,
    /// From the intervals of a group's members.
    Members,
    /// Quantiles of resampled values.
    Percentile,
    /// Quantiles of resampled values, corrected for bias and for an error that changes with the value.
    Bca,
}

impl Method {
    /// Its name in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Wilson => "wilson",
            Self::Normal => "normal",
            Self::Student => "student_t",
            Self::Unseen => "unseen_share",
            Self::Members => "of_members",
            Self::Percentile => "bootstrap_percentile",
            Self::Bca => "bootstrap_bca",
        }
    }
}

/// The 95 % interval of a share when each of `items` independent items is either right or wrong; `None` without items.
///
/// It keeps its coverage for few items and for shares near 0 and 1, where mean ± 1.96 standard errors does not.
///
/// Source: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927.
#[must_use]
pub fn wilson_interval(right: u64, items: u64) -> Option<[f64; 2]> {
    if items == 0 {
        return None;
    }
    Some(wilson_of_share(right as f64 / items as f64, items as f64))
}

/// As [`wilson_interval`], of a share of so many items as [`effective_count`](crate::effective_count) gives: a fraction, above 0.
#[must_use]
pub fn wilson_of_share(share: f64, count: f64) -> [f64; 2] {
    let z2 = Z_95 * Z_95;
    let scale = 1.0 + z2 / count;
    let centre = (share + z2 / (2.0 * count)) / scale;
    let half = Z_95 / scale * (share * (1.0 - share) / count + z2 / (4.0 * count * count)).sqrt();
    let low = if share <= 0.0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if share >= 1.0 { 1.0 } else { (centre + half).min(1.0) };
    [low, high]
}

/// The 95 % interval of a value by its standard error.
#[must_use]
pub fn normal_interval(value: f64, standard_error: f64) -> [f64; 2] {
    let half = Z_95 * standard_error;
    [value - half, value + half]
}

/// The 95 % interval of a value by its standard error with few degrees of freedom; `None` without one.
///
/// The errors of few clusters are themselves uncertain, which widens the interval: with 5 clusters 2.8 standard errors
/// instead of 2.0.
#[must_use]
pub fn student_interval(value: f64, standard_error: f64, degrees_of_freedom: f64) -> Option<[f64; 2]> {
    let half = student_quantile(0.5 + CONFIDENCE / 2.0, degrees_of_freedom) * standard_error;
    half.is_finite().then_some([value - half, value + half])
}

/// Cuts an interval to the range that its value can have.
#[must_use]
pub fn clip([low, high]: [f64; 2], [least, most]: [f64; 2]) -> [f64; 2] {
    [low.max(least).min(most), high.min(most).max(least)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_items_have_no_interval_and_all_right_or_wrong_end_at_the_range() {
        assert_eq!(wilson_interval(0, 0), None);
        assert_eq!(wilson_interval(0, 10).unwrap()[0], 0.0);
        assert_eq!(wilson_interval(10, 10).unwrap()[1], 1.0);
    }

    #[test]
    fn an_interval_is_cut_to_what_its_value_can_be() {
        assert_eq!(clip(normal_interval(0.99, 0.1), [0.0, 1.0])[1], 1.0);
        assert_eq!(clip(normal_interval(0.01, 0.1), [0.0, 1.0])[0], 0.0);
        let [low, high] = clip(normal_interval(0.5, 0.1), [0.0, 1.0]);
        assert!((low - 0.304_003_601_545_994_6).abs() < 1e-12);
        assert!((high - 0.695_996_398_454_005_4).abs() < 1e-12);
    }

    #[test]
    fn an_error_of_one_unit_alone_has_no_interval() {
        assert_eq!(student_interval(0.5, 0.1, 0.0), None);
        assert_eq!(student_interval(0.5, f64::NAN, 5.0), None);
        assert!(student_interval(0.5, 0.1, 1.0).is_some());
    }
}
