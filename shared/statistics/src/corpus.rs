//! Measures of a whole corpus from its sums: no mean of what single items have.

/// `exp(-Σ log-likelihood / Σ weight)`, with natural logarithms; weights are tokens, words, bytes or documents. `None` without
/// weight.
#[must_use]
pub fn perplexity(log_likelihood: f64, weight: f64) -> Option<f64> {
    (weight > 0.0).then(|| (-log_likelihood / weight).exp())
}

/// `-Σ log-likelihood / Σ weight / ln 2`: bits per byte where the weights are bytes. `None` without weight.
#[must_use]
pub fn bits_per_weight(log_likelihood: f64, weight: f64) -> Option<f64> {
    (weight > 0.0).then(|| -log_likelihood / weight / std::f64::consts::LN_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fair_coin_has_one_bit_and_a_perplexity_of_two() {
        let log_likelihood = 10.0 * 0.5_f64.ln();
        assert!((perplexity(log_likelihood, 10.0).unwrap() - 2.0).abs() < 1e-15);
        assert!((bits_per_weight(log_likelihood, 10.0).unwrap() - 1.0).abs() < 1e-15);
        assert_eq!((perplexity(-1.0, 0.0), bits_per_weight(-1.0, 0.0)), (None, None));
    }
}
