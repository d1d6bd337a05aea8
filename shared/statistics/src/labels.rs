//! Measures of classification: F1 and Matthews' correlation, from counts of pairs of a true and a predicted label.

use std::collections::{BTreeMap, BTreeSet};

/// What F1 is averaged over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Average {
    /// No average: F1 of this one label.
    Binary(u32),
    /// The mean over the labels that occur, true or predicted.
    Macro,
    /// The mean over the labels that occur, weighted by how often each is true.
    Weighted,
    /// From hits and misses over all labels together: accuracy, where each item has one label.
    Micro,
}

/// Numbers the pairs of labels that occur, so that their counts are one row of numbers which can be summed and resampled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pairs {
    columns: BTreeMap<(u32, u32), usize>,
    /// The pairs by column.
    pairs: Vec<(u32, u32)>,
}

impl Pairs {
    /// Numbers every pair of the iterator, in the order of the labels, whatever order they come in.
    #[must_use]
    pub fn of(pairs: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let pairs: Vec<(u32, u32)> = pairs.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        Self {
            columns: pairs.iter().enumerate().map(|(column, pair)| (*pair, column)).collect(),
            pairs,
        }
    }

    /// The column of a pair (true label, predicted label); `None` when it was not numbered.
    #[must_use]
    pub fn column(&self, pair: (u32, u32)) -> Option<usize> {
        self.columns.get(&pair).copied()
    }

    /// How many columns there are.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.pairs.len()
    }

    /// F1 from the counts of the pairs, one a column; `None` when nothing was counted.
    ///
    /// A label without any hit, true or predicted, has an F1 of 0, as in scikit-learn with `zero_division=0`; one that has
    /// no count at all is not averaged over.
    #[must_use]
    pub fn f1(&self, counts: &[f64], average: Average) -> Option<f64> {
        let labels = self.by_label(counts);
        let total: f64 = labels.values().map(|label| label.truly).sum();
        if total <= 0.0 {
            return None;
        }
        let mean = |weight: fn(&Label) -> f64| {
            let (sum, weights) = labels.values().fold((0.0, 0.0), |(sum, weights), label| {
                (sum + weight(label) * label.f1(), weights + weight(label))
            });
            sum / weights
        };
        Some(match average {
            Average::Binary(label) => labels.get(&label).map_or(0.0, Label::f1),
            Average::Macro => mean(|_| 1.0),
            Average::Weighted => mean(|label| label.truly),
            Average::Micro => labels.values().map(|label| label.hits).sum::<f64>() / total,
        })
    }

    /// Matthews' correlation of true and predicted labels, -1 to 1; `None` when nothing was counted. 0 where either side is
    /// always the same label.
    ///
    /// Source: Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient", 2004.
    #[must_use]
    pub fn matthews(&self, counts: &[f64]) -> Option<f64> {
        let labels = self.by_label(counts);
        let total: f64 = labels.values().map(|label| label.truly).sum();
        if total <= 0.0 {
            return None;
        }
        let sum = |part: fn(&Label) -> f64| labels.values().map(part).sum::<f64>();
        let hits = sum(|label| label.hits);
        let covariance = hits * total - sum(|label| label.truly * label.predicted);
        let truly = total * total - sum(|label| label.truly * label.truly);
        let predicted = total * total - sum(|label| label.predicted * label.predicted);
        let spread = (truly * predicted).max(0.0).sqrt();
        Some(if spread > 0.0 { covariance / spread } else { 0.0 })
    }

    fn by_label(&self, counts: &[f64]) -> BTreeMap<u32, Label> {
        let mut labels: BTreeMap<u32, Label> = BTreeMap::new();
        for (&(truth, predicted), &count) in self.pairs.iter().zip(counts) {
            if count <= 0.0 {
                continue;
            }
            labels.entry(truth).or_default().truly += count;
            labels.entry(predicted).or_default().predicted += count;
            if truth == predicted {
                labels.entry(truth).or_default().hits += count;
            }
        }
        labels
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Label {
    hits: f64,
    truly: f64,
    predicted: f64,
}

impl Label {
    fn f1(&self) -> f64 {
        2.0 * self.hits / (self.truly + self.predicted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_counted_is_no_measure() {
        let pairs = Pairs::of([(0, 1), (1, 1)]);
        assert_eq!(pairs.f1(&[0.0, 0.0], Average::Macro), None);
        assert_eq!(pairs.matthews(&[0.0, 0.0]), None);
        assert_eq!(Pairs::default().f1(&[], Average::Micro), None);
    }

    #[test]
    fn one_label_alone_correlates_with_nothing() {
        let pairs = Pairs::of([(1, 1)]);
        assert_eq!(pairs.matthews(&[5.0]), Some(0.0));
        assert_eq!(pairs.f1(&[5.0], Average::Binary(1)), Some(1.0));
        assert_eq!(
            pairs.f1(&[5.0], Average::Binary(0)),
            Some(0.0),
            "a label that nobody said"
        );
    }

    #[test]
    fn columns_follow_the_labels_whatever_order_they_come_in() {
        assert_eq!(Pairs::of([(1, 0), (0, 0), (1, 0)]), Pairs::of([(0, 0), (1, 0)]));
        assert_eq!(Pairs::of([(1, 0), (0, 0)]).column((1, 0)), Some(1));
        assert_eq!(Pairs::of([(1, 0)]).column((0, 1)), None);
    }
}
