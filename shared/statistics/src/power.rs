//! What a comparison could have shown, and how many items it takes.

use crate::normal_quantile;

/// How sure a comparison is to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Design {
    /// How often a difference is seen where there is none, on either side together.
    pub false_alarms: f64,
    /// How often a difference of the size in question is seen.
    pub power: f64,
}

impl Default for Design {
    /// 5 % and 80 %.
    fn default() -> Self {
        Self {
            false_alarms: 0.05,
            power: 0.8,
        }
    }
}

/// Where the variance of a paired difference comes from.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spread {
    /// ω²: the variance over items of the difference of the two models' expected scores. No number of samples lowers it.
    pub between_items: f64,
    /// σ²_A / K_A: the first model's variance within an item over its samples per item.
    pub first: f64,
    /// σ²_B / K_B.
    pub second: f64,
}

impl Spread {
    /// The variance of one item's difference.
    #[must_use]
    pub const fn variance(&self) -> f64 {
        self.between_items + self.first + self.second
    }

    /// Splits the variance that items' differences were seen to have; what is left between items is at least 0.
    ///
    /// `first` and `second` are each model's variance within an item and its samples per item; `None` where one sample was
    /// drawn, whose noise then cannot be told from the items' own.
    #[must_use]
    pub fn of(variance_of_differences: f64, first: Option<(f64, f64)>, second: Option<(f64, f64)>) -> Self {
        let part = |model: Option<(f64, f64)>| model.map_or(0.0, |(variance, samples)| variance / samples);
        let (first, second) = (part(first), part(second));
        Self {
            between_items: (variance_of_differences - first - second).max(0.0),
            first,
            second,
        }
    }
}

impl Design {
    /// The smallest difference that is seen with the design's power by a comparison with this standard error.
    #[must_use]
    pub fn detectable(&self, standard_error: f64) -> f64 {
        self.quantiles() * standard_error
    }

    /// The smallest difference that `items` items show, √((z_{α/2} + z_β)² (ω² + σ²_A/K_A + σ²_B/K_B) / n).
    ///
    /// Source: Miller, "Adding Error Bars to Evals", arXiv 2411.00640.
    #[must_use]
    pub fn detectable_with(&self, items: f64, spread: &Spread) -> f64 {
        self.detectable((spread.variance() / items).sqrt())
    }

    /// The items that it takes to see a difference; infinite for none at all.
    #[must_use]
    pub fn items_for(&self, difference: f64, spread: &Spread) -> f64 {
        (self.quantiles() * self.quantiles() * spread.variance() / (difference * difference)).ceil()
    }

    fn quantiles(&self) -> f64 {
        normal_quantile(1.0 - self.false_alarms / 2.0) + normal_quantile(self.power)
    }
}

/// The variance within items, pooled over those with at least two samples; `None` without any.
///
/// `items` are each item's number of samples and the sum of their squared distances to the item's mean.
#[must_use]
pub fn within_variance(items: impl IntoIterator<Item = (u64, f64)>) -> Option<f64> {
    let (free, squares) = items
        .into_iter()
        .filter(|(samples, _)| *samples > 1)
        .fold((0_u64, 0.0), |(free, sum), (samples, squares)| {
            (free + samples - 1, sum + squares)
        });
    (free > 0).then(|| squares / free as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_samples_lower_the_noise_and_not_what_lies_between_items() {
        let one = Spread::of(0.3, Some((0.1, 1.0)), Some((0.1, 1.0)));
        assert!((one.between_items - 0.1).abs() < 1e-15 && (one.variance() - 0.3).abs() < 1e-15);
        let many = Spread {
            first: 0.1 / 10.0,
            second: 0.1 / 10.0,
            ..one
        };
        assert!((many.variance() - 0.12).abs() < 1e-15);
        let design = Design::default();
        assert!(design.detectable_with(500.0, &many) < design.detectable_with(500.0, &one));
        assert_eq!(Spread::of(0.1, Some((1.0, 2.0)), None).between_items, 0.0);
    }

    #[test]
    fn what_the_items_show_takes_those_items() {
        let (design, spread) = (Design::default(), Spread::of(0.2, None, None));
        let difference = design.detectable_with(1_000.0, &spread);
        assert_eq!(design.items_for(difference * (1.0 + 1e-9), &spread), 1_000.0);
        assert_eq!(design.items_for(0.0, &spread), f64::INFINITY);
    }

    #[test]
    fn items_with_one_sample_tell_nothing_of_the_noise_within() {
        assert_eq!(within_variance([(1, 0.0), (1, 0.0)]), None);
        assert_eq!(within_variance([(1, 0.0), (3, 0.5), (2, 0.5)]), Some(1.0 / 3.0));
    }
}
