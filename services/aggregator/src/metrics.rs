//! What samples add to the metrics of a benchmark, and what the metrics make of it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use tidemill_domain::{Aggregation, Average, Benchmark, Grade, Measured, Metric, MetricSource, Outcome};
use tidemill_statistics::{Pairs, Units, Vote, bits_per_weight, majority_at, pass_at, perplexity, voters};

use crate::estimate::{Effort, Estimate, Shape, mean, of_sums};

/// What is kept of a benchmark's metrics: nothing where it has none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measures {
    metrics: Vec<Metric>,
    samples: usize,
    /// One a metric.
    columns: Vec<Column>,
    /// What each sample votes for, 0 for nothing; empty unless a metric counts votes.
    votes: Vec<u64>,
    has_votes: bool,
}

/// What samples add to one metric: room is made when the first of them comes.
#[derive(Debug, Clone, PartialEq)]
enum Column {
    /// A metric that is made of scores.
    Unused,
    /// NaN where there is none.
    Values(Vec<f64>),
    /// Sum and weight; NaN where there is none.
    Sums(Vec<[f64; 2]>),
    /// True and predicted label.
    Labels(Vec<Option<[u32; 2]>>),
    Counts(Vec<Option<Box<[f64]>>>),
    /// Answer and value; a value of NaN where there is none.
    Votes(Vec<(u64, f64)>),
}

impl Measures {
    pub(crate) fn new(benchmark: &Benchmark) -> Self {
        Self::of(benchmark.metrics.clone(), benchmark.settings.samples as usize)
    }

    pub(crate) fn of(metrics: Vec<Metric>, samples: usize) -> Self {
        let of_votes = |metric: &Metric| matches!(metric.source, MetricSource::MajorityAt(_));
        Self {
            samples,
            columns: metrics.iter().map(Column::of).collect(),
            votes: Vec::new(),
            has_votes: metrics.iter().any(of_votes),
            metrics,
        }
    }

    pub(crate) fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// Keeps what a sample adds, of `all` samples.
    pub(crate) fn apply(&mut self, index: usize, all: usize, grade: &Grade) {
        let is_first = index.is_multiple_of(self.samples);
        let places = self.columns.iter_mut().zip(&self.metrics).zip(&grade.measures);
        for ((column, metric), measure) in places {
            let is_heard = is_first || metric.source != MetricSource::FirstMeasure;
            if let Some(measure) = measure.as_ref().filter(|_| is_heard) {
                column.put(index, all, measure);
            }
        }
        if self.has_votes {
            self.votes.resize(all, 0);
            self.votes[index] = vote(grade);
        }
    }

    /// The figure of one metric. `scores` are those of all samples, where they have one.
    pub(crate) fn estimate(
        &self,
        index: usize,
        items: usize,
        scores: &dyn Fn(usize) -> Option<f64>,
        shape: Shape<'_>,
        effort: Effort,
    ) -> Estimate {
        let metric = &self.metrics[index];
        let of_parts = Shape {
            is_binary: false,
            ..shape
        };
        match metric.source {
            MetricSource::PassAt(k) => {
                let chance = |item| self.pass(k, item, scores);
                over_items(items, &chance, of_parts, effort)
            }
            MetricSource::MajorityAt(k) => {
                let score = |item| self.majority(k, item, scores);
                over_items(items, &score, of_parts, effort)
            }
            MetricSource::VotedMeasure(k) => {
                let shape = match &self.columns[index] {
                    Column::Votes(votes) => shape_of(votes.iter().map(|(_, value)| *value), true, shape),
                    _ => of_parts,
                };
                over_items(items, &|item| self.voted(index, k, item), shape, effort)
            }
            MetricSource::Measure | MetricSource::FirstMeasure => self.measured(index, items, shape, effort),
        }
    }

    fn of_item(&self, item: usize) -> std::ops::Range<usize> {
        item * self.samples..(item + 1) * self.samples
    }

    /// What the samples of the first item give of a metric that is made of scores.
    pub(crate) fn over_samples(&self, index: usize, scores: &dyn Fn(usize) -> Option<f64>) -> Option<f64> {
        match self.metrics[index].source {
            MetricSource::PassAt(k) => self.pass(k, 0, scores),
            MetricSource::MajorityAt(k) => self.majority(k, 0, scores),
            MetricSource::Measure | MetricSource::FirstMeasure | MetricSource::VotedMeasure(_) => None,
        }
    }

    /// `None` unless every sample of the item has a score: their number was fixed in advance.
    fn pass(&self, k: u32, item: usize, scores: &dyn Fn(usize) -> Option<f64>) -> Option<f64> {
        let mut right = 0;
        for sample in self.of_item(item) {
            right += u32::from(scores(sample)? >= 1.0);
        }
        pass_at(k, self.samples as u32, right)
    }

    /// As [`Measures::pass`].
    fn majority(&self, k: u32, item: usize, scores: &dyn Fn(usize) -> Option<f64>) -> Option<f64> {
        let range = self.of_item(item);
        if range.clone().any(|sample| scores(sample).is_none()) {
            return None;
        }
        let heard = voters(k, self.samples as u32) as usize;
        let mut answers: Vec<(u64, u32, f64)> = Vec::new();
        let mut abstained = 0;
        for sample in range.take(heard) {
            let score = scores(sample)?;
            match self.votes.get(sample).copied().unwrap_or(0) {
                0 => abstained += 1,
                answer => match answers.iter_mut().find(|(known, ..)| *known == answer) {
                    Some((_, count, sum)) => {
                        *count += 1;
                        *sum += score;
                    }
                    None => answers.push((answer, 1, score)),
                },
            }
        }
        // In an order that is not that of the samples, so that rounding does not depend on it either.
        answers.sort_unstable_by_key(|(answer, ..)| *answer);
        let votes = answers.into_iter().map(|(_, count, sum)| Vote {
            count,
            score: sum / f64::from(count),
        });
        majority_at(k, &votes.collect::<Vec<Vote>>(), abstained)
    }

    /// What the winner of a vote is worth; `None` unless each of the first `k` samples has voted.
    fn voted(&self, index: usize, k: u32, item: usize) -> Option<f64> {
        let Column::Votes(votes) = &self.columns[index] else {
            return None;
        };
        winner(votes.get(self.of_item(item))?.get(..k as usize)?)
    }

    fn measured(&self, index: usize, items: usize, shape: Shape<'_>, effort: Effort) -> Estimate {
        let aggregation = self.metrics[index].aggregation;
        match &self.columns[index] {
            Column::Unused | Column::Votes(_) => Estimate::default(),
            Column::Values(values) => {
                let mean = |item| {
                    let known = self.of_item(item).filter_map(|sample| values.get(sample));
                    let known = known.filter(|value| !value.is_nan());
                    let (count, sum) = known.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
                    (count > 0).then(|| sum / f64::from(count))
                };
                let is_single = self.samples == 1 || self.metrics[index].source == MetricSource::FirstMeasure;
                over_items(items, &mean, shape_of(values.iter().copied(), is_single, shape), effort)
            }
            Column::Sums(sums) => {
                let known = |sample: usize| sums.get(sample).copied().filter(|sum| !sum[0].is_nan());
                let row = |sample: usize| known(sample).map(|[value, weight]| vec![(0, value), (1, weight)]);
                let figure: Figure = match aggregation {
                    Aggregation::Perplexity => Box::new(|sums| perplexity(sums[0], sums[1])),
                    Aggregation::BitsPerWeight => Box::new(|sums| bits_per_weight(sums[0], sums[1])),
                    _ => Box::new(|sums| (sums[1] > 0.0).then(|| sums[0] / sums[1])),
                };
                self.summed(2, items, &row, shape, &figure, effort)
            }
            Column::Labels(labels) => {
                let pairs = Pairs::of(labels.iter().flatten().map(|[truth, predicted]| (*truth, *predicted)));
                let known = |sample: usize| labels.get(sample).copied().flatten();
                let row = |sample: usize| {
                    let [truth, predicted] = known(sample)?;
                    Some(vec![(pairs.column((truth, predicted))?, 1.0)])
                };
                let figure: Figure = match aggregation {
                    Aggregation::F1(average) => {
                        let (pairs, average) = (&pairs, over_labels(average));
                        Box::new(move |counts| pairs.f1(counts, average))
                    }
                    _ => Box::new(|counts| pairs.matthews(counts)),
                };
                self.summed(pairs.width(), items, &row, shape, &figure, effort)
            }
            Column::Counts(counts) => {
                let width = counts.iter().flatten().map(|counts| counts.len()).max().unwrap_or(0);
                let row = |sample: usize| {
                    let counts = counts.get(sample)?.as_ref()?;
                    Some(counts.iter().copied().enumerate().collect())
                };
                let figure: Figure = match aggregation {
                    Aggregation::Bleu => Box::new(|sums| Some(tidemill_scoring::corpus_bleu(sums))),
                    _ => Box::new(|sums| Some(tidemill_scoring::corpus_chrf(sums))),
                };
                self.summed(width, items, &row, shape, &figure, effort)
            }
        }
    }

    /// A figure of the sums over all samples; each item with any is a unit.
    fn summed(
        &self,
        width: usize,
        items: usize,
        row: &dyn Fn(usize) -> Option<Vec<(usize, f64)>>,
        shape: Shape<'_>,
        figure: &dyn Fn(&[f64]) -> Option<f64>,
        effort: Effort,
    ) -> Estimate {
        let (mut units, mut numbers) = (Units::new(width), Vec::new());
        for item in 0..items {
            let mut rows = self.of_item(item).filter_map(row).peekable();
            if rows.peek().is_some() {
                units.push_sparse(rows.flatten());
                numbers.push(item);
            }
        }
        let shape = Shape { range: None, ..shape };
        of_sums(&units, &numbers, shape, figure, effort)
    }

    /// Bytes that it takes in memory.
    #[cfg(test)]
    pub(crate) fn state_bytes(&self) -> usize {
        let columns = self.columns.iter().map(|column| match column {
            Column::Unused => 0,
            Column::Values(values) => values.capacity() * size_of::<f64>(),
            Column::Sums(sums) => sums.capacity() * size_of::<[f64; 2]>(),
            Column::Labels(labels) => labels.capacity() * size_of::<Option<[u32; 2]>>(),
            Column::Counts(counts) => counts.capacity() * size_of::<Option<Box<[f64]>>>(),
            Column::Votes(votes) => votes.capacity() * size_of::<(u64, f64)>(),
        });
        columns.sum::<usize>() + self.votes.capacity() * size_of::<u64>()
    }
}

type Figure<'a> = Box<dyn Fn(&[f64]) -> Option<f64> + 'a>;

/// What is known of a mean of these values: where all are 0 or 1 it is a share, of items where each has a single one.
fn shape_of(mut values: impl Iterator<Item = f64>, is_single: bool, shape: Shape<'_>) -> Shape<'_> {
    let is_share = values.all(|value| value.is_nan() || value == 0.0 || value == 1.0);
    Shape {
        is_binary: is_share && is_single,
        range: is_share.then_some([0.0, 1.0]),
        ..shape
    }
}

/// The mean over items of what each has, where it has it.
fn over_items(items: usize, of_item: &dyn Fn(usize) -> Option<f64>, shape: Shape<'_>, effort: Effort) -> Estimate {
    let known = (0..items).filter_map(|item| Some((item, of_item(item)?)));
    mean(known, shape, effort)
}

pub(crate) const fn over_labels(average: Average) -> tidemill_statistics::Average {
    match average {
        Average::Binary => tidemill_statistics::Average::Binary(1),
        Average::Macro => tidemill_statistics::Average::Macro,
        Average::Micro => tidemill_statistics::Average::Micro,
        Average::Weighted => tidemill_statistics::Average::Weighted,
    }
}

/// What a sample votes for. One without an answer, cut, or refused votes for nothing.
fn vote(grade: &Grade) -> u64 {
    let says = matches!(grade.outcome, Outcome::Correct | Outcome::Incorrect | Outcome::Graded);
    let answer = grade.canonical.as_ref().or(grade.extracted.as_ref());
    let Some(answer) = answer.filter(|_| says && !grade.truncated) else {
        return 0;
    };
    let mut hasher = DefaultHasher::new();
    answer.hash(&mut hasher);
    hasher.finish().max(1)
}

/// What the answer with most votes is worth, the earliest of several; `None` unless each has voted, which those of NaN have not.
pub(crate) fn winner(votes: &[(u64, f64)]) -> Option<f64> {
    if votes.iter().any(|(_, value)| value.is_nan()) {
        return None;
    }
    let votes_for = |answer: u64| votes.iter().filter(|(other, _)| *other == answer).count();
    let most = votes.iter().map(|(answer, _)| votes_for(*answer)).max()?;
    let winner = votes.iter().find(|(answer, _)| votes_for(*answer) == most);
    winner.map(|(_, value)| *value)
}

impl Column {
    /// The shape that the metric's aggregation takes, whatever comes first.
    fn of(metric: &Metric) -> Self {
        match metric.source {
            MetricSource::Measure | MetricSource::FirstMeasure => {}
            MetricSource::VotedMeasure(_) => return Self::Votes(Vec::new()),
            MetricSource::PassAt(_) | MetricSource::MajorityAt(_) => return Self::Unused,
        }
        match metric.aggregation {
            Aggregation::Mean => Self::Values(Vec::new()),
            Aggregation::WeightedMean | Aggregation::Perplexity | Aggregation::BitsPerWeight => Self::Sums(Vec::new()),
            Aggregation::F1(_) | Aggregation::Mcc => Self::Labels(Vec::new()),
            Aggregation::Bleu | Aggregation::Chrf => Self::Counts(Vec::new()),
        }
    }

    /// A measure of another shape than the metric's is none.
    fn put(&mut self, index: usize, all: usize, measure: &Measured) {
        match (self, measure) {
            (Self::Values(values), Measured::Value(value)) => {
                values.resize(all, f64::NAN);
                values[index] = *value;
            }
            (Self::Sums(sums), Measured::Weighted { value, weight }) if *weight > 0.0 => {
                sums.resize(all, [f64::NAN; 2]);
                sums[index] = [*value, *weight];
            }
            (Self::Labels(labels), Measured::Labels { truth, predicted }) => {
                labels.resize(all, None);
                labels[index] = Some([*truth, *predicted]);
            }
            (Self::Counts(counts), Measured::Counts(numbers)) if numbers.iter().all(|number| number.is_finite()) => {
                counts.resize(all, None);
                counts[index] = Some(numbers.clone().into_boxed_slice());
            }
            (Self::Votes(votes), Measured::Vote { answer, value }) => {
                votes.resize(all, (0, f64::NAN));
                votes[index] = (*answer, *value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
