//! The tally of one benchmark: a byte a sample, and more only where clusters, weights, subsets, metrics or partial credit need
//! it; order and repeats change nothing.

use tidemill_domain::{
    Benchmark, BenchmarkName, BenchmarkResult, Columns, Grade, ItemKey, JudgeUse, MetricResult, Outcome, OutcomeCounts,
    SubsetResult,
};
use tidemill_statistics::bounds;

use crate::estimate::{Effort, Estimate, Shape, mean};
use crate::metrics::Measures;

/// No outcome is known.
const MISSING: u8 = 0;
/// Set beside the outcome when the completion was cut.
const TRUNCATED: u8 = 0x80;
/// Set beside that when it held a right answer before the cut.
const RIGHT_BEFORE: u8 = 0x40;
const MARKS: u8 = TRUNCATED | RIGHT_BEFORE;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tally {
    name: BenchmarkName,
    items: usize,
    samples: usize,
    /// Clusters, subsets and weights, one an item where the benchmark has them.
    columns: Columns,
    /// One a sample, item by item: [`MISSING`], or 1 + the outcome with [`MARKS`].
    marks: Vec<u8>,
    /// One a sample, made when the first partial credit comes: other outcomes imply their scores.
    scores: Vec<f64>,
    measures: Measures,
    outcomes: OutcomeCounts,
    truncated_correct: u64,
    truncated_in_reasoning: u64,
    replaced: u64,
    requests: u64,
    cached: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    cached_prompt_tokens: Option<u64>,
    reusable_prompt_tokens: Option<u64>,
    continued: u64,
    judge: Option<JudgeUse>,
}

impl Tally {
    pub(crate) fn new(benchmark: &Benchmark, columns: Columns) -> Self {
        let (items, samples) = (benchmark.items as usize, benchmark.settings.samples as usize);
        Self {
            name: benchmark.name.clone(),
            items,
            samples,
            columns,
            marks: vec![MISSING; items * samples],
            scores: Vec::new(),
            measures: Measures::new(benchmark),
            outcomes: OutcomeCounts {
                missing: (items * samples) as u64,
                ..OutcomeCounts::default()
            },
            truncated_correct: 0,
            truncated_in_reasoning: 0,
            replaced: 0,
            requests: 0,
            cached: 0,
            prompt_tokens: 0,
            completion_tokens: 0,
            cached_prompt_tokens: None,
            reusable_prompt_tokens: None,
            continued: 0,
            judge: None,
        }
    }

    pub(crate) fn apply(&mut self, grade: &Grade) -> bool {
        // A score that is no number is a fault of whoever graded, whatever the outcome beside it says.
        let outcome = match grade.outcome {
            Outcome::Graded if !grade.score.is_finite() => Outcome::GraderError,
            outcome => outcome,
        };
        let Some(index) = self.mark(&grade.key, outcome, grade.truncated) else {
            return false;
        };
        if outcome == Outcome::Graded {
            self.scores.resize(self.marks.len(), 0.0);
            self.scores[index] = grade.score.clamp(0.0, 1.0);
        }
        if outcome.is_scored() {
            self.measures.apply(index, self.marks.len(), grade);
        }
        let was_right = grade.score_before_cut.is_some_and(|score| score >= 1.0);
        if outcome == Outcome::Truncated && was_right {
            self.truncated_correct += 1;
            self.marks[index] |= RIGHT_BEFORE;
        }
        self.truncated_in_reasoning += u64::from(outcome == Outcome::Truncated && grade.cut_in_reasoning);
        self.replaced += u64::from(grade.replaced);
        self.requests += u64::from(grade.requests);
        self.cached += u64::from(grade.cached);
        self.prompt_tokens += grade.prompt_tokens;
        self.completion_tokens += grade.completion_tokens;
        add(&mut self.cached_prompt_tokens, grade.served.cached_tokens);
        add(&mut self.reusable_prompt_tokens, grade.served.reusable_tokens);
        self.continued += u64::from(grade.served.continuations > 0);
        if let Some(cost) = &grade.judge {
            self.judge.get_or_insert_default().add(cost);
        }
        true
    }

    pub(crate) fn apply_unreadable(&mut self, key: &ItemKey) -> bool {
        self.mark(key, Outcome::GraderError, false).is_some()
    }

    /// Notes the outcome of a sample that has none; the sample's index then.
    fn mark(&mut self, key: &ItemKey, outcome: Outcome, is_truncated: bool) -> Option<usize> {
        let (item, sample) = (key.item as usize, key.sample as usize);
        if item >= self.items || sample >= self.samples {
            return None;
        }
        let index = item * self.samples + sample;
        let mark = self.marks.get_mut(index).filter(|mark| **mark == MISSING)?;
        let cut = if is_truncated || outcome == Outcome::Truncated {
            TRUNCATED
        } else {
            0
        };
        *mark = (outcome as u8 + 1) | cut;
        *self.outcomes.slot(outcome) += 1;
        self.outcomes.missing -= 1;
        Some(index)
    }

    /// Bytes that it takes in memory.
    #[cfg(test)]
    pub(crate) fn state_bytes(&self) -> usize {
        let numbers = |column: Option<&Vec<u32>>| column.map_or(0, Vec::capacity) * size_of::<u32>();
        let columns = &self.columns;
        let weights = columns.weights.as_ref().map_or(0, |column| column.of_item.capacity());
        self.marks.capacity()
            + (self.scores.capacity() + weights) * size_of::<f64>()
            + numbers(columns.clusters.as_ref().map(|column| &column.of_item))
            + numbers(columns.subsets.as_ref().map(|column| &column.of_item))
            + self.measures.state_bytes()
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_str()
    }

    pub(crate) const fn declared(&self) -> u64 {
        self.marks.len() as u64
    }

    pub(crate) const fn outcomes(&self) -> OutcomeCounts {
        self.outcomes
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.outcomes.missing == 0
    }

    pub(crate) const fn is_unscored(&self) -> bool {
        self.declared() > 0 && self.outcomes.failed() == self.declared()
    }

    /// So many over the samples that have an outcome.
    fn rate(&self, count: u64) -> f64 {
        match self.declared() - self.outcomes.missing {
            0 => 0.0,
            known => count as f64 / known as f64,
        }
    }

    pub(crate) fn result(&self, effort: Effort) -> BenchmarkResult {
        let whole = self.part(None, effort);
        let is_partial = self.outcomes.graded > 0;
        let (interval, method) = split(whole.estimate);
        BenchmarkResult {
            name: self.name.clone(),
            metric: if is_partial { "score" } else { "accuracy" }.to_owned(),
            mean: whole.estimate.value,
            standard_error: whole.estimate.standard_error,
            interval,
            method,
            scored_items: whole.estimate.items,
            bounds: whole.bounds(),
            items: self.items as u64,
            samples: self.declared(),
            coverage: whole.coverage(),
            mean_excluding_truncated: whole.untruncated.value(),
            truncated_correct: self.truncated_correct,
            mean_counting_cut_answers: whole.as_answered.value(),
            truncated_in_reasoning: self.truncated_in_reasoning,
            truncated_in_reasoning_rate: self.rate(self.truncated_in_reasoning),
            replaced: self.replaced,
            outcomes: self.outcomes,
            requests: self.requests,
            cached: self.cached,
            cache_hit_rate: self.rate(self.cached),
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.completion_tokens,
            cached_prompt_tokens: self.cached_prompt_tokens,
            reusable_prompt_tokens: self.reusable_prompt_tokens,
            continued: self.continued,
            judge: self.judge,
            metrics: self.metrics(effort),
            subsets: self.subsets(effort),
        }
    }

    fn metrics(&self, effort: Effort) -> Vec<MetricResult> {
        let score = |sample| self.score(sample);
        let figure = |(index, metric): (usize, &tidemill_domain::Metric)| {
            let estimate = self.measures.estimate(index, self.items, &score, self.shape(), effort);
            let (interval, method) = split(estimate);
            MetricResult {
                name: metric.name.clone(),
                value: estimate.value.filter(|value| value.is_finite()),
                standard_error: estimate.standard_error.filter(|error| error.is_finite()),
                interval,
                method,
                higher_is_better: metric.higher_is_better,
                items: estimate.items,
                truncated: self.outcomes.truncated,
                failed: self.outcomes.failed() - self.outcomes.missing,
                missing: self.outcomes.missing,
            }
        };
        self.measures.metrics().iter().enumerate().map(figure).collect()
    }

    fn subsets(&self, effort: Effort) -> Vec<SubsetResult> {
        let names = self.columns.subsets.iter().flat_map(|column| &column.names);
        let figure = |(name, number): (&String, u32)| {
            let part = self.part(Some(number), effort);
            let (interval, method) = split(part.estimate);
            SubsetResult {
                name: name.clone(),
                mean: part.estimate.value,
                standard_error: part.estimate.standard_error,
                interval,
                method,
                bounds: part.bounds(),
                mean_excluding_truncated: part.untruncated.value(),
                items: part.items,
                samples: part.samples,
                coverage: part.coverage(),
                truncated: part.truncated,
                failed: part.samples - part.scored - part.missing,
                missing: part.missing,
            }
        };
        names.zip(0..).map(figure).collect()
    }

    fn shape(&self) -> Shape<'_> {
        Shape {
            clusters: self.columns.clusters.as_ref().map(|column| column.of_item.as_slice()),
            weights: self.columns.weights.as_ref().map(|column| column.of_item.as_slice()),
            is_binary: self.samples == 1 && self.outcomes.graded == 0,
            range: Some([0.0, 1.0]),
        }
    }

    fn weight(&self, item: usize) -> f64 {
        let weights = self.columns.weights.as_ref();
        weights
            .and_then(|column| column.of_item.get(item))
            .copied()
            .unwrap_or(1.0)
    }

    /// The items of a subset, or all.
    fn items_of(&self, subset: Option<u32>) -> impl Iterator<Item = usize> + Clone + '_ {
        let of_item = self.columns.subsets.as_ref().map(|column| column.of_item.as_slice());
        let is_in = move |item: &usize| match subset {
            None => true,
            Some(subset) => of_item.is_some_and(|of_item| of_item.get(*item) == Some(&subset)),
        };
        (0..self.items).filter(is_in)
    }

    /// Passes in the manifest's order, so that rounding does not depend on the order in which grades came.
    fn part(&self, subset: Option<u32>, effort: Effort) -> Part {
        let items = self.items_of(subset);
        let means = items.clone().filter_map(|item| Some((item, self.mean_of(item)?)));
        let mut part = Part {
            estimate: mean(means, self.shape(), effort),
            ..Part::default()
        };
        for item in items {
            let (mut whole, mut answered) = (Mean::default(), Mean::default());
            let (mut scored, mut sum) = (0, 0.0);
            for index in item * self.samples..(item + 1) * self.samples {
                part.missing += u64::from(self.marks[index] == MISSING);
                part.truncated += u64::from(self.outcome(index) == Some(Outcome::Truncated));
                let Some(score) = self.score(index) else { continue };
                scored += 1;
                sum += score;
                let is_right_before = self.marks[index] & RIGHT_BEFORE != 0;
                answered.push(if is_right_before { 1.0 } else { score }, 1.0);
                if self.marks[index] & TRUNCATED == 0 {
                    whole.push(score, 1.0);
                }
            }
            let weight = self.weight(item);
            part.items += 1;
            part.samples += self.samples as u64;
            part.scored += scored;
            part.known += weight * scored as f64;
            part.unknown += weight * (self.samples as u64 - scored) as f64;
            part.sum += weight * sum;
            if let Some(mean) = whole.value() {
                part.untruncated.push(mean, weight);
            }
            if let Some(mean) = answered.value() {
                part.as_answered.push(mean, weight);
            }
        }
        part
    }

    /// The mean over an item's scored samples; `None` without any.
    fn mean_of(&self, item: usize) -> Option<f64> {
        let mut mean = Mean::default();
        let samples = item * self.samples..(item + 1) * self.samples;
        samples
            .filter_map(|index| self.score(index))
            .for_each(|score| mean.push(score, 1.0));
        mean.value()
    }

    fn outcome(&self, index: usize) -> Option<Outcome> {
        let outcome = (self.marks[index] & !MARKS).checked_sub(1)?;
        Outcome::ALL.get(usize::from(outcome)).copied()
    }

    /// What a sample adds to the mean; `None` when it is missing or failed.
    fn score(&self, index: usize) -> Option<f64> {
        match self.outcome(index)? {
            Outcome::Correct => Some(1.0),
            Outcome::Graded => self.scores.get(index).copied(),
            outcome => outcome.is_scored().then_some(0.0),
        }
    }
}

/// Adds what is known; a sum of nothing that is known stays unknown.
fn add(sum: &mut Option<u64>, known: Option<u64>) {
    if let Some(known) = known {
        *sum = Some(sum.unwrap_or(0) + known);
    }
}

/// An estimate's interval and how it was made, where it is finite.
fn split(estimate: Estimate) -> (Option<[f64; 2]>, Option<String>) {
    let finite = estimate
        .interval
        .filter(|(interval, _)| interval.iter().all(|end| end.is_finite()));
    (
        finite.map(|(interval, _)| interval),
        finite.map(|(_, method)| method.label().to_owned()),
    )
}

/// A benchmark, or a subset of it.
#[derive(Default)]
struct Part {
    estimate: Estimate,
    untruncated: Mean,
    as_answered: Mean,
    items: u64,
    samples: u64,
    scored: u64,
    missing: u64,
    truncated: u64,
    /// By weight: samples with and without a score, and the scores.
    known: f64,
    unknown: f64,
    sum: f64,
}

impl Part {
    fn bounds(&self) -> [f64; 2] {
        bounds(self.sum, self.known, self.unknown, [0.0, 1.0]).unwrap_or([0.0, 0.0])
    }

    fn coverage(&self) -> f64 {
        match self.samples {
            0 => 0.0,
            samples => self.scored as f64 / samples as f64,
        }
    }
}

#[derive(Default)]
struct Mean {
    weight: f64,
    sum: f64,
}

impl Mean {
    fn push(&mut self, score: f64, weight: f64) {
        self.weight += weight;
        self.sum += weight * score;
    }

    fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

#[cfg(test)]
mod tests {
    use tidemill_domain::{ClusterColumn, JudgeCost, Served};

    use super::*;

    #[test]
    fn a_million_samples_take_a_byte_each_and_more_only_for_clusters_and_partial_credit() {
        let samples = 1_000_000;
        let benchmark = crate::fold::tests::benchmark(samples, 1);
        let mut tally = Tally::new(&benchmark, Columns::default());
        let grade = |item, outcome| crate::fold::tests::grade(item, 0, outcome);
        for item in (0..samples).step_by(7) {
            assert!(tally.apply(&grade(item, Outcome::Correct)));
        }
        let samples = samples as usize;
        assert!(tally.state_bytes() <= samples, "{}", tally.state_bytes());
        let clusters = Some(ClusterColumn {
            of_item: (0..benchmark.items).map(|item| item / 10).collect(),
            count: benchmark.items / 10,
        });
        let columns = Columns {
            clusters,
            ..Columns::default()
        };
        let mut tally = Tally::new(&benchmark, columns);
        assert!(tally.apply(&grade(0, Outcome::Graded)));
        assert!(tally.state_bytes() <= 13 * samples, "{}", tally.state_bytes());
    }

    #[test]
    fn what_no_engine_says_of_its_prefix_cache_is_not_nought() {
        let mut tally = Tally::new(&crate::fold::tests::benchmark(3, 1), Columns::default());
        let graded = |item, served| Grade {
            served,
            ..crate::fold::tests::grade(item, 0, Outcome::Correct)
        };
        tally.apply(&graded(0, Served::default()));
        let result = tally.result(Effort::Final);
        assert_eq!(
            (result.cached_prompt_tokens, result.reusable_prompt_tokens),
            (None, None)
        );
        assert_eq!(result.continued, 0);
        let told = |cached, continuations| Served {
            cached_tokens: Some(cached),
            reusable_tokens: Some(10),
            continuations,
            ..Served::default()
        };
        tally.apply(&graded(1, told(0, 0)));
        tally.apply(&graded(2, told(7, 3)));
        let result = tally.result(Effort::Final);
        assert_eq!(
            (result.cached_prompt_tokens, result.reusable_prompt_tokens),
            (Some(7), Some(20))
        );
        assert_eq!(result.continued, 1, "samples, however often each was continued");
    }

    #[test]
    fn what_was_cut_counts_both_ways_and_where_it_was_cut_is_counted() {
        let mut tally = Tally::new(&crate::fold::tests::benchmark(4, 1), Columns::default());
        let grade = |item, outcome| crate::fold::tests::grade(item, 0, outcome);
        let cut = |item, before: Option<f64>, cut_in_reasoning| Grade {
            score_before_cut: before,
            cut_in_reasoning,
            replaced: item == 1,
            ..grade(item, Outcome::Truncated)
        };
        tally.apply(&grade(0, Outcome::Correct));
        tally.apply(&cut(1, Some(1.0), false));
        tally.apply(&cut(2, None, true));
        let result = tally.result(Effort::Final);
        assert_eq!(
            (
                result.mean,
                result.mean_excluding_truncated,
                result.mean_counting_cut_answers
            ),
            (Some(1.0 / 3.0), Some(1.0), Some(2.0 / 3.0))
        );
        assert_eq!(
            (
                result.truncated_in_reasoning,
                result.truncated_in_reasoning_rate,
                result.replaced
            ),
            (1, 1.0 / 3.0, 1)
        );
        // Neighbours: a wrong answer before the cut changes nothing, and a mark on another outcome is none.
        tally.apply(&cut(3, Some(0.0), false));
        let result = tally.result(Effort::Final);
        assert_eq!((result.mean, result.mean_counting_cut_answers), (Some(0.25), Some(0.5)));
        assert_eq!(
            (result.truncated_in_reasoning, result.truncated_in_reasoning_rate),
            (1, 0.25)
        );
    }

    #[test]
    fn what_judging_took_is_added_up_and_absent_where_no_judge_was_asked() {
        let mut tally = Tally::new(&crate::fold::tests::benchmark(3, 1), Columns::default());
        let grade = |item, outcome, judge| Grade {
            judge,
            ..crate::fold::tests::grade(item, 0, outcome)
        };
        tally.apply(&grade(0, Outcome::NoAnswer, None));
        assert_eq!(tally.result(Effort::Final).judge, None);
        let cost = JudgeCost {
            verdicts: 3,
            cached: 1,
            requests: 4,
            prompt_tokens: 100,
            completion_tokens: 10,
            unreadable: 2,
            disagreed: true,
        };
        tally.apply(&grade(1, Outcome::Correct, Some(cost)));
        let ungraded = JudgeCost {
            verdicts: 1,
            requests: 3,
            unreadable: 3,
            ..JudgeCost::default()
        };
        tally.apply(&grade(2, Outcome::Ungraded, Some(ungraded)));
        let result = tally.result(Effort::Final);
        let expected = JudgeUse {
            verdicts: 4,
            cached: 1,
            cache_hit_rate: 0.25,
            requests: 7,
            prompt_tokens: 100,
            completion_tokens: 10,
            unreadable: 5,
            disagreed: 1,
        };
        assert_eq!(result.judge, Some(expected));
        assert_eq!(
            (result.mean, result.outcomes.ungraded),
            (Some(0.5), 1),
            "no verdict is no score"
        );
    }

    #[test]
    fn outcomes_survive_as_marks() {
        for (position, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, position);
            assert_eq!((position as u8 + 1) & MARKS, 0);
        }
    }
}
