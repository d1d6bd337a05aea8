//! Several tests at once.

/// Adjusts the p-values of several tests so that any of them below a level is below it by chance, over all tests together, no
/// more often than that level says; in the order given, `None` where there was none, which also is no test to correct for.
///
/// Holm's step-down method asks nothing of how the tests depend on each other.
///
/// Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979.
#[must_use]
pub fn holm(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut tests: Vec<(usize, f64)> = p_values
        .iter()
        .enumerate()
        .filter_map(|(index, p)| p.filter(|p| !p.is_nan()).map(|p| (index, p)))
        .collect();
    tests.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let count = tests.len();
    let mut adjusted = vec![None; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, (index, p)) in tests.into_iter().enumerate() {
        largest = largest.max((count - rank) as f64 * p).min(1.0);
        adjusted[index] = Some(largest);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_tested_is_not_corrected_for() {
        assert_eq!(holm(&[Some(0.02), None, Some(0.5)]), [Some(0.04), None, Some(0.5)]);
        assert_eq!(holm(&[Some(0.02)]), [Some(0.02)]);
        assert_eq!(holm(&[None, Some(f64::NAN)]), [None, None]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn adjusted_values_never_fall_with_rank_and_never_pass_one() {
        assert_eq!(
            holm(&[Some(0.6), Some(0.5), Some(0.01)]),
            [Some(1.0), Some(1.0), Some(0.03)]
        );
    }
}
