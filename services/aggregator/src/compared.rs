//! A metric of two evaluations on the same items: what each item adds to it, and the difference of two figures.

use tidemill_domain::{Aggregation, Grade, Measured, Metric, MetricSource, Outcome};
use tidemill_statistics::{Method, Pairs, Units, bits_per_weight, perplexity};

use crate::estimate::{Effort, Shape, of_sums};
use crate::metrics::{Measures, over_labels, winner};

/// What the samples of one item add to a metric.
#[derive(Debug, Clone, PartialEq)]
pub enum Contribution {
    /// The item's own figure, of which the metric is the mean over items.
    Figure(f64),
    /// What adds up over all items before anything is made of it.
    Sums(Vec<f64>),
    /// True and predicted labels, one pair a sample.
    Labels(Vec<(u32, u32)>),
}

/// What the samples of an item add to a metric, of whose benchmark it is the metric with this ordinal; `None` where it is not
/// known. `grades` are those of all its samples, in order, `None` for one without.
#[must_use]
pub fn contribution(metric: &Metric, ordinal: usize, grades: &[Option<Grade>]) -> Option<Contribution> {
    match metric.source {
        MetricSource::Measure => measured(metric.aggregation, ordinal, grades),
        MetricSource::FirstMeasure => measured(metric.aggregation, ordinal, grades.get(..1)?),
        MetricSource::VotedMeasure(k) => {
            let heard = grades.get(..k as usize)?.iter();
            let votes = heard.map(|grade| vote(grade.as_ref()?.measures.get(ordinal)?.as_ref()?));
            winner(&votes.collect::<Option<Vec<_>>>()?).map(Contribution::Figure)
        }
        MetricSource::PassAt(_) | MetricSource::MajorityAt(_) => {
            let mut measures = Measures::of(vec![metric.clone()], grades.len());
            for (index, grade) in grades.iter().enumerate() {
                measures.apply(index, grades.len(), grade.as_ref()?);
            }
            let scores = |sample: usize| score(grades[sample].as_ref()?);
            measures.over_samples(0, &scores).map(Contribution::Figure)
        }
    }
}

/// What a sample votes for, and what that is worth.
const fn vote(measure: &Measured) -> Option<(u64, f64)> {
    match measure {
        Measured::Vote { answer, value } => Some((*answer, *value)),
        _ => None,
    }
}

/// The score of a sample of which the model had its say.
fn score(grade: &Grade) -> Option<f64> {
    match grade.outcome {
        Outcome::Correct => Some(1.0),
        Outcome::Graded => grade.score.is_finite().then(|| grade.score.clamp(0.0, 1.0)),
        outcome => outcome.is_scored().then_some(0.0),
    }
}

fn measured(aggregation: Aggregation, ordinal: usize, grades: &[Option<Grade>]) -> Option<Contribution> {
    let scored = grades.iter().flatten().filter(|grade| grade.outcome.is_scored());
    let measures = scored.filter_map(|grade| grade.measures.get(ordinal)?.as_ref());
    match aggregation {
        Aggregation::Mean => {
            let values = measures.filter_map(|measure| match measure {
                Measured::Value(value) if !value.is_nan() => Some(*value),
                _ => None,
            });
            let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
            (count > 0).then(|| Contribution::Figure(sum / f64::from(count)))
        }
        Aggregation::WeightedMean | Aggregation::Perplexity | Aggregation::BitsPerWeight => {
            summed(measures, |measure| match measure {
                Measured::Weighted { value, weight } if *weight > 0.0 && !value.is_nan() => Some(vec![*value, *weight]),
                _ => None,
            })
        }
        Aggregation::Bleu | Aggregation::Chrf => summed(measures, |measure| match measure {
            Measured::Counts(counts) if counts.iter().all(|count| count.is_finite()) => Some(counts.clone()),
            _ => None,
        }),
        Aggregation::F1(_) | Aggregation::Mcc => {
            let labels = measures.filter_map(|measure| match measure {
                Measured::Labels { truth, predicted } => Some((*truth, *predicted)),
                _ => None,
            });
            let labels: Vec<(u32, u32)> = labels.collect();
            (!labels.is_empty()).then_some(Contribution::Labels(labels))
        }
    }
}

fn summed<'g>(
    measures: impl Iterator<Item = &'g Measured>,
    of: impl Fn(&Measured) -> Option<Vec<f64>>,
) -> Option<Contribution> {
    let mut rows = measures.filter_map(of);
    let mut sums = rows.next()?;
    for row in rows {
        sums.resize(sums.len().max(row.len()), 0.0);
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    Some(Contribution::Sums(sums))
}

/// What both sides add to a metric by one item.
#[derive(Debug, Clone, Copy)]
pub struct Both<'a> {
    /// The first side's.
    pub first: &'a Contribution,
    /// The second side's.
    pub second: &'a Contribution,
    /// The item's cluster, where the benchmark has any.
    pub cluster: Option<u32>,
}

/// A figure of the whole corpus on either side, and the second minus the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureDifference {
    /// The first side's.
    pub first: f64,
    /// The second side's.
    pub second: f64,
    /// The second minus the first.
    pub difference: f64,
    /// By leaving out one item, or cluster, after the other on both sides.
    pub standard_error: Option<f64>,
    /// 95 %, by drawing items, or clusters, for both sides together; by the error where there are too many to draw.
    pub interval: Option<([f64; 2], Method)>,
    /// Items, or clusters, less one.
    pub degrees_of_freedom: f64,
}

/// Compares two figures of whole corpora on their common items; `None` where one of them is not defined.
///
/// Source: Koehn, "Statistical Significance Tests for Machine Translation Evaluation", 2004, for drawing both sides together.
#[must_use]
pub fn difference_of_figures(metric: &Metric, items: &[Both<'_>]) -> Option<FigureDifference> {
    let corpus = Corpus::of(metric.aggregation, items);
    let width = corpus.width;
    let mut units = Units::new(2 * width);
    for item in items {
        let moved = corpus
            .row(item.second)
            .into_iter()
            .map(|(column, value)| (width + column, value));
        units.push_sparse(corpus.row(item.first).into_iter().chain(moved));
    }
    let figures = |sums: &[f64]| Some((corpus.figure(&sums[..width])?, corpus.figure(&sums[width..])?));
    let difference = |sums: &[f64]| figures(sums).map(|(first, second)| second - first);
    let (first, second) = figures(units.totals())?;
    let clusters: Option<Vec<u32>> = items.iter().map(|item| item.cluster).collect();
    let independent = clusters.as_ref().map_or(items.len(), |clusters| {
        clusters.iter().collect::<std::collections::BTreeSet<_>>().len()
    });
    let shape = Shape {
        clusters: clusters.as_deref(),
        ..Shape::default()
    };
    let numbers: Vec<usize> = (0..items.len()).collect();
    let estimate = of_sums(&units, &numbers, shape, &difference, Effort::Final);
    Some(FigureDifference {
        first,
        second,
        difference: estimate.value?,
        standard_error: estimate.standard_error,
        interval: estimate.interval,
        degrees_of_freedom: independent.saturating_sub(1) as f64,
    })
}

/// How sums over items become a figure.
struct Corpus {
    aggregation: Aggregation,
    width: usize,
    /// The pairs of labels that either side has.
    pairs: Pairs,
}

impl Corpus {
    fn of(aggregation: Aggregation, items: &[Both<'_>]) -> Self {
        let both = || items.iter().flat_map(|item| [item.first, item.second]);
        let labels = both().flat_map(|contribution| match contribution {
            Contribution::Labels(labels) => labels.as_slice(),
            _ => &[],
        });
        let pairs = Pairs::of(labels.copied());
        let widths = both().map(|contribution| match contribution {
            Contribution::Figure(_) => 2,
            Contribution::Sums(sums) => sums.len(),
            Contribution::Labels(_) => pairs.width(),
        });
        Self {
            aggregation,
            width: widths.max().unwrap_or(0),
            pairs,
        }
    }

    fn row(&self, contribution: &Contribution) -> Vec<(usize, f64)> {
        match contribution {
            Contribution::Figure(value) => vec![(0, *value), (1, 1.0)],
            Contribution::Sums(sums) => sums.iter().copied().enumerate().collect(),
            Contribution::Labels(labels) => {
                let columns = labels.iter().filter_map(|pair| self.pairs.column(*pair));
                columns.map(|column| (column, 1.0)).collect()
            }
        }
    }

    fn figure(&self, sums: &[f64]) -> Option<f64> {
        match self.aggregation {
            Aggregation::Mean | Aggregation::WeightedMean => (sums[1] > 0.0).then(|| sums[0] / sums[1]),
            Aggregation::Perplexity => perplexity(sums[0], sums[1]),
            Aggregation::BitsPerWeight => bits_per_weight(sums[0], sums[1]),
            Aggregation::F1(average) => self.pairs.f1(sums, over_labels(average)),
            Aggregation::Mcc => self.pairs.matthews(sums),
            Aggregation::Bleu => Some(tidemill_scoring::corpus_bleu(sums)),
            Aggregation::Chrf => Some(tidemill_scoring::corpus_chrf(sums)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::tests::grade;

    fn metric(source: MetricSource, aggregation: Aggregation) -> Metric {
        Metric {
            name: "m".to_owned(),
            source,
            aggregation,
            higher_is_better: true,
        }
    }

    fn graded(outcome: Outcome, measures: &[Option<Measured>], canonical: &str) -> Option<Grade> {
        Some(Grade {
            measures: measures.to_vec(),
            canonical: Some(canonical.to_owned()),
            ..grade(0, 0, outcome)
        })
    }

    #[test]
    fn of_several_samples_the_first_counts_or_the_vote() {
        let measures = |answer, value| vec![Some(Measured::Value(value)), Some(Measured::Vote { answer, value })];
        let samples = [
            graded(Outcome::Incorrect, &measures(1, 0.0), ""),
            graded(Outcome::Correct, &measures(2, 1.0), ""),
            graded(Outcome::Correct, &measures(2, 1.0), ""),
        ];
        let first = metric(MetricSource::FirstMeasure, Aggregation::Mean);
        assert_eq!(contribution(&first, 0, &samples), Some(Contribution::Figure(0.0)));
        let of_vote = |k, samples: &[Option<Grade>]| {
            contribution(&metric(MetricSource::VotedMeasure(k), Aggregation::Mean), 1, samples)
        };
        assert_eq!(of_vote(3, &samples), Some(Contribution::Figure(1.0)));
        assert_eq!(
            of_vote(2, &samples),
            Some(Contribution::Figure(0.0)),
            "the earliest on a tie"
        );
        let missing = [samples[0].clone(), None, samples[2].clone()];
        assert_eq!(of_vote(3, &missing), None);
    }

    #[test]
    fn what_an_item_adds_is_what_the_result_is_made_of() {
        let (right, wrong) = (Outcome::Correct, Outcome::Incorrect);
        let samples = [
            graded(right, &[], "a"),
            graded(wrong, &[], "b"),
            graded(right, &[], "a"),
        ];
        let pass = metric(MetricSource::PassAt(2), Aggregation::Mean);
        // One minus the chance that both of two are the wrong one of three: 1 - C(1,2)/C(3,2).
        assert_eq!(contribution(&pass, 0, &samples), Some(Contribution::Figure(1.0)));
        let one = metric(MetricSource::PassAt(1), Aggregation::Mean);
        let Some(Contribution::Figure(share)) = contribution(&one, 0, &samples) else {
            panic!("a figure")
        };
        assert!((share - 2.0 / 3.0).abs() < 1e-12);
        let majority = metric(MetricSource::MajorityAt(3), Aggregation::Mean);
        assert_eq!(contribution(&majority, 0, &samples), Some(Contribution::Figure(1.0)));
        let failed = [graded(right, &[], "a"), graded(Outcome::EngineError, &[], "b")];
        assert_eq!(contribution(&one, 0, &failed), None, "fewer samples than were fixed");
        assert_eq!(contribution(&one, 0, &[None]), None);

        let measures = |value| [None, Some(Measured::Value(value))];
        let mean = metric(MetricSource::Measure, Aggregation::Mean);
        let samples = [
            graded(right, &measures(0.5), ""),
            graded(wrong, &measures(1.0), ""),
            None,
        ];
        assert_eq!(contribution(&mean, 1, &samples), Some(Contribution::Figure(0.75)));
        assert_eq!(contribution(&mean, 0, &samples), None);
    }

    fn both<'a>(first: &'a [Contribution], second: &'a [Contribution]) -> Vec<Both<'a>> {
        let pairs = first.iter().zip(second);
        pairs
            .map(|(first, second)| Both {
                first,
                second,
                cluster: None,
            })
            .collect()
    }

    /// A figure that is a mean has the error of the paired difference of means.
    #[test]
    fn the_error_of_a_difference_is_that_of_the_pairs() {
        let figures = |values: &[f64]| {
            values
                .iter()
                .map(|value| Contribution::Figure(*value))
                .collect::<Vec<_>>()
        };
        let (first, second) = ([0.0, 1.0, 0.5, 0.25, 1.0], [1.0, 1.0, 0.75, 0.0, 0.5]);
        let (one, other) = (figures(&first), figures(&second));
        let found =
            difference_of_figures(&metric(MetricSource::Measure, Aggregation::Mean), &both(&one, &other)).unwrap();
        let pairs: Vec<tidemill_statistics::Pair> = first
            .iter()
            .zip(&second)
            .map(|(first, second)| tidemill_statistics::Pair {
                first: *first,
                second: *second,
                weight: 1.0,
                cluster: None,
            })
            .collect();
        let expected = tidemill_statistics::difference(&pairs).unwrap();
        assert!((found.difference - expected.mean).abs() < 1e-12);
        assert!((found.standard_error.unwrap() - expected.standard_error.unwrap()).abs() < 1e-12);
        assert_eq!(found.degrees_of_freedom, 4.0);
    }

    /// By hand: e to the power of 3/2 and of 5/2.
    #[test]
    fn figures_of_whole_corpora_are_compared_as_they_are() {
        let sums = |values: &[[f64; 2]]| {
            values
                .iter()
                .map(|sum| Contribution::Sums(sum.to_vec()))
                .collect::<Vec<_>>()
        };
        let one = sums(&[[-1.0, 1.0], [-2.0, 1.0]]);
        let other = sums(&[[-2.0, 1.0], [-3.0, 1.0]]);
        let perplexity = metric(MetricSource::Measure, Aggregation::Perplexity);
        let found = difference_of_figures(&perplexity, &both(&one, &other)).unwrap();
        assert!((found.first - 1.5_f64.exp()).abs() < 1e-9 && (found.second - 2.5_f64.exp()).abs() < 1e-9);
        assert!((found.difference - (2.5_f64.exp() - 1.5_f64.exp())).abs() < 1e-9);
        assert!(found.interval.is_some() && found.standard_error.unwrap() > 0.0);
        // The same on both sides differs in nothing, however the items are drawn.
        let none = difference_of_figures(&perplexity, &both(&one, &one)).unwrap();
        assert_eq!((none.difference, none.standard_error), (0.0, Some(0.0)));

        let labels = |pairs: &[(u32, u32)]| {
            pairs
                .iter()
                .map(|pair| Contribution::Labels(vec![*pair]))
                .collect::<Vec<_>>()
        };
        let (right, wrong) = (labels(&[(0, 0), (1, 1), (1, 1)]), labels(&[(0, 1), (1, 1), (1, 0)]));
        let mcc = metric(MetricSource::Measure, Aggregation::Mcc);
        let found = difference_of_figures(&mcc, &both(&wrong, &right)).unwrap();
        assert!((found.second - 1.0).abs() < 1e-12 && found.first < 0.0, "{found:?}");
        assert_eq!(difference_of_figures(&mcc, &[]), None);
    }
}
