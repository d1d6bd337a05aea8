//! The mean over independent items and its error, in one pass that holds a few numbers.
//!
//! Source: Miller, "Adding Error Bars to Evals", arXiv 2411.00640.

/// Collects the scores of independent items.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Items {
    count: u64,
    /// Kept beside the running mean because it is exact for scores of 0 and 1.
    sum: f64,
    running_mean: f64,
    squares: f64,
}

impl Items {
    /// Adds the score of one item.
    pub fn push(&mut self, score: f64) {
        self.count += 1;
        self.sum += score;
        let from_old_mean = score - self.running_mean;
        self.running_mean += from_old_mean / self.count as f64;
        self.squares += from_old_mean * (score - self.running_mean);
    }

    /// How many items were added.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The sum of the scores.
    #[must_use]
    pub const fn sum(&self) -> f64 {
        self.sum
    }

    /// The mean score; `None` without items.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The standard error of the mean, sd/√n with n - 1 degrees of freedom; `None` below two items.
    ///
    /// Source of the running sum of squares: Welford, "Note on a Method for Calculating Corrected Sums", 1962.
    #[must_use]
    pub fn standard_error(&self) -> Option<f64> {
        let count = self.count as f64;
        (self.count > 1).then(|| (self.squares.max(0.0) / (count - 1.0) / count).sqrt())
    }
}

/// Collects the scores of independent items that count by weights.
///
/// With equal weights it gives what [`Items`] gives.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weighted {
    count: u64,
    weight: f64,
    sum: f64,
    /// The first score. What is squared is the distance to it, so that scores far from 0 lose nothing.
    origin: f64,
    /// Over items: w², w² d and w² d², with d the distance to the origin.
    squares: [f64; 3],
}

impl Weighted {
    /// Adds the score of one item. A weight that is not positive or not finite adds nothing.
    pub fn push(&mut self, score: f64, weight: f64) {
        if !weight.is_finite() || weight <= 0.0 {
            return;
        }
        if self.count == 0 {
            self.origin = score;
        }
        self.count += 1;
        self.weight += weight;
        self.sum += weight * score;
        let (square, distance) = (weight * weight, score - self.origin);
        self.squares[0] += square;
        self.squares[1] += square * distance;
        self.squares[2] += square * distance * distance;
    }

    /// How many items were added.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The sum of the weights.
    #[must_use]
    pub const fn weight(&self) -> f64 {
        self.weight
    }

    /// How many items of equal weight tell as much as these: (Σ w)² / Σ w², as [`crate::effective_count`]; 0 without items.
    #[must_use]
    pub fn effective_count(&self) -> f64 {
        if self.count > 0 {
            self.weight * self.weight / self.squares[0]
        } else {
            0.0
        }
    }

    /// The weighted mean, Σ w s / Σ w; `None` without items.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.weight)
    }

    /// The standard error of the weighted mean when the weights are part of what was drawn, with n - 1 degrees of freedom:
    /// √(n/(n-1) Σ w² (s - mean)²) / Σ w; `None` below two items.
    ///
    /// It is the error of a weighted regression on a constant that is robust to unequal variances (HC1).
    #[must_use]
    pub fn standard_error(&self) -> Option<f64> {
        let mean = self.mean()?;
        if self.count < 2 {
            return None;
        }
        let count = self.count as f64;
        let shift = mean - self.origin;
        let [weights, distances, squares] = self.squares;
        let around_mean = (squares - 2.0 * shift * distances + shift * shift * weights).max(0.0);
        Some((count / (count - 1.0) * around_mean).sqrt() / self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(scores: &[f64]) -> Items {
        scores.iter().fold(Items::default(), |mut items, &score| {
            items.push(score);
            items
        })
    }

    #[test]
    fn one_item_has_a_mean_and_no_standard_error() {
        assert_eq!(items(&[]).mean(), None);
        assert_eq!(items(&[0.3]).mean(), Some(0.3));
        assert_eq!(items(&[0.3]).standard_error(), None);
    }

    #[test]
    fn equal_scores_have_no_spread_and_binary_means_are_exact() {
        assert_eq!(items(&[0.3; 1000]).standard_error(), Some(0.0));
        let binary: Vec<f64> = (0..100).map(|item| f64::from(u8::from(item < 81))).collect();
        assert_eq!(items(&binary).mean(), Some(0.81));
    }

    #[test]
    fn equal_weights_are_none_whatever_their_size() {
        let scores = [0.0, 1.0, 0.5, 0.25, 1.0, 0.75];
        for weight in [1.0, 7.0, 1e-3] {
            let mut weighted = Weighted::default();
            for score in scores {
                weighted.push(score, weight);
            }
            let plain = items(&scores);
            assert!((weighted.mean().unwrap() - plain.mean().unwrap()).abs() < 1e-15);
            assert!((weighted.standard_error().unwrap() - plain.standard_error().unwrap()).abs() < 1e-15);
        }
    }

    #[test]
    fn what_weighs_nothing_is_not_there() {
        let mut weighted = Weighted::default();
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            weighted.push(1.0, weight);
        }
        assert_eq!(
            (weighted.count(), weighted.mean(), weighted.standard_error()),
            (0, None, None)
        );
        assert_eq!(weighted.effective_count(), 0.0);
        weighted.push(0.25, 3.0);
        assert_eq!((weighted.mean(), weighted.standard_error()), (Some(0.25), None));
        assert_eq!(weighted.effective_count(), 1.0);
        weighted.push(0.25, 1.0);
        assert_eq!(weighted.effective_count(), 1.6);
    }

    /// Log-likelihoods of long documents lie far from 0 and close to each other.
    #[test]
    fn scores_far_from_zero_keep_their_spread() {
        let (mut near, mut far) = (Weighted::default(), Weighted::default());
        for (score, weight) in [(0.25, 1.0), (0.5, 2.0), (1.0, 0.5), (0.75, 3.0)] {
            near.push(score, weight);
            far.push(score - 1e9, weight);
        }
        assert!((near.standard_error().unwrap() - far.standard_error().unwrap()).abs() < 1e-7);
    }
}
