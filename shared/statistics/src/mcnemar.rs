//! McNemar's test: did two models get the same items right?

use crate::distribution::{coin_at_most, coin_exactly};

/// Items that exactly one of two models got right. Items that both or neither got right tell nothing of which is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Discordant {
    /// Right in the first alone.
    pub first: u64,
    /// Right in the second alone.
    pub second: u64,
}

/// Which form of the test was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McNemarMethod {
    /// The exact binomial test, which errs on the side of no difference.
    Exact,
    /// The exact test with half the probability of what was seen.
    MidP,
}

impl McNemarMethod {
    /// Its name in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Exact => "mcnemar_exact",
            Self::MidP => "mcnemar_mid_p",
        }
    }
}

impl Discordant {
    /// Discordant items below which the exact test is used.
    pub const FEW: u64 = 25;

    /// Items that one model alone got right.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.first + self.second
    }

    /// The probability of so uneven a split or one more so, either way, when both models are equally good: the exact test
    /// below [`Discordant::FEW`] items, and mid-p from there on, where the exact one still finds too little and mid-p keeps
    /// its level.
    ///
    /// Source: McNemar 1947; Fagerland, Lydersen and Laake, "The McNemar test for binary matched-pairs data: mid-p and
    /// asymptotic are better than exact conditional", 2013.
    #[must_use]
    pub fn p(self) -> (f64, McNemarMethod) {
        if self.count() < Self::FEW {
            (self.p_exact(), McNemarMethod::Exact)
        } else {
            (self.p_mid(), McNemarMethod::MidP)
        }
    }

    /// Two-sided p of the exact binomial test; 1 without discordant items.
    #[must_use]
    pub fn p_exact(self) -> f64 {
        let fewer = self.first.min(self.second);
        (2.0 * coin_at_most(fewer, self.count())).min(1.0)
    }

    /// Two-sided mid-p; 1 without discordant items.
    #[must_use]
    pub fn p_mid(self) -> f64 {
        if self.count() == 0 {
            return 1.0;
        }
        let fewer = self.first.min(self.second);
        let at_most = coin_at_most(fewer, self.count());
        (2.0 * at_most - coin_exactly(fewer, self.count())).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_never_differ_are_not_told_apart() {
        assert_eq!(Discordant::default().p(), (1.0, McNemarMethod::Exact));
        assert_eq!(Discordant::default().p_mid(), 1.0);
    }

    #[test]
    fn which_model_comes_first_changes_nothing() {
        for (first, second) in [(1, 5), (0, 9), (40, 61), (7, 7)] {
            let (one, other) = (
                Discordant { first, second },
                Discordant {
                    first: second,
                    second: first,
                },
            );
            assert_eq!(one.p(), other.p());
        }
    }

    #[test]
    fn the_form_changes_at_25_discordant_items() {
        assert_eq!(Discordant { first: 10, second: 14 }.p().1, McNemarMethod::Exact);
        assert_eq!(Discordant { first: 10, second: 15 }.p().1, McNemarMethod::MidP);
    }
}
