//! What a mean over a part of the samples can still become.

/// The mean if everything that is missing or failed had the lowest score, and if it had the highest; `None` when nothing is
/// declared.
///
/// `known` is the weight of what is scored and `sum` its weighted scores; `unknown` the weight of the rest; `range` the
/// scores that are possible. These bounds hold whatever decides which samples are missing, an interval does not: it takes
/// the missing ones to be like the others.
///
/// Source: Manski, "Nonparametric Bounds on Treatment Effects", 1990.
#[must_use]
pub fn bounds(sum: f64, known: f64, unknown: f64, [least, most]: [f64; 2]) -> Option<[f64; 2]> {
    let declared = known + unknown;
    (declared > 0.0).then(|| [(sum + unknown * least) / declared, (sum + unknown * most) / declared])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_half_may_be_all_wrong_or_all_right() {
        assert_eq!(bounds(4.0, 5.0, 5.0, [0.0, 1.0]), Some([0.4, 0.9]));
        assert_eq!(bounds(4.0, 5.0, 0.0, [0.0, 1.0]), Some([0.8, 0.8]));
        assert_eq!(bounds(0.0, 0.0, 5.0, [-1.0, 1.0]), Some([-1.0, 1.0]));
        assert_eq!(bounds(0.0, 0.0, 0.0, [0.0, 1.0]), None);
    }
}
