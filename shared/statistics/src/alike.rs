//! What values that were all alike leave open: they show no spread, which is no proof that there is none.

use crate::interval::CONFIDENCE;

/// The largest share of units of another kind that `units` independent ones, none of which was of it, leave likely:
/// 1 - 0.05^(1/n), about 3/n. It is 1 without units; they may be a fraction, as [`effective_count`] gives.
///
/// Source: Hanley and Lippman-Hand, "If Nothing Goes Wrong, Is Everything All Right?", 1983.
#[must_use]
pub fn unseen_share(units: f64) -> f64 {
    if units > 0.0 {
        -((1.0 - CONFIDENCE).ln() / units).exp_m1()
    } else {
        1.0
    }
}

/// The 95 % interval of the mean of `units` values that all were `value`, of which others could be as far off as the ends
/// of `range`: the share that may have gone unseen lies at one end of it, or at the other.
#[must_use]
pub fn unseen_interval(value: f64, units: f64, [least, most]: [f64; 2]) -> [f64; 2] {
    let unseen = unseen_share(units);
    [value - unseen * (value - least), value + unseen * (most - value)]
}

/// A standard error that is none but for rounding, of values no further from 0 than `magnitude`.
#[must_use]
pub fn is_rounding(error: f64, magnitude: f64) -> bool {
    error <= 1e-12 * magnitude
}

/// How many units of equal weight tell as much as units of these weights, (Σ w)² / Σ w²; 0 without any.
///
/// Source: Kish, "Survey Sampling", 1965.
#[must_use]
pub fn effective_count(weights: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, squares) = weights.into_iter().fold((0.0, 0.0), |(sum, squares), weight| {
        (sum + weight, weight.mul_add(weight, squares))
    });
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By Python: `-math.expm1(math.log(0.05) / n)`.
    #[test]
    fn what_none_of_n_showed_may_be_about_three_of_n() {
        for (units, expected) in [
            (1.0, 0.95),
            (2.0, 0.776_393_202_250_021),
            (10.0, 0.258_865_550_893_052_3),
            (100.0, 0.029_513_049_607_039_95),
            (1e6, 2.995_727_786_352_544e-6),
        ] {
            let found = unseen_share(units);
            assert!(
                (found / expected - 1.0).abs() < 1e-9,
                "{units}: {found} is not {expected}"
            );
        }
        assert_eq!((unseen_share(0.0), unseen_share(f64::NAN)), (1.0, 1.0));
    }

    #[test]
    fn the_room_that_is_left_reaches_towards_both_ends() {
        let unseen = unseen_share(20.0);
        assert_eq!(unseen_interval(0.0, 20.0, [-1.0, 1.0]), [-unseen, unseen]);
        let [low, high] = unseen_interval(0.25, 20.0, [0.0, 1.0]);
        assert!((low - (0.25 - 0.25 * unseen)).abs() < 1e-15 && (high - (0.25 + 0.75 * unseen)).abs() < 1e-15);
        assert_eq!(unseen_interval(1.0, 20.0, [0.0, 1.0])[1], 1.0);
    }

    #[test]
    fn equal_weights_count_each_and_a_heavy_one_alone_counts_once() {
        assert_eq!(effective_count([3.0; 7]), 7.0);
        assert_eq!(effective_count([2.0, 1.0, 1.0]), 16.0 / 6.0);
        assert!(effective_count([1e9, 1.0, 1.0]) < 1.1);
        assert_eq!(effective_count([]), 0.0);
    }
}
