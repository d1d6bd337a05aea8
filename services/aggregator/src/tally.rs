//! The tally of one benchmark: a byte a sample, and more only where clusters or partial credit need it; order and
//! repeats change nothing.

use tidemill_domain::statistics::{Clusters, Items, normal_interval, wilson_interval};
use tidemill_domain::{
    Benchmark, BenchmarkName, BenchmarkResult, ClusterColumn, Grade, ItemKey, JudgeUse, Outcome, OutcomeCounts,
};

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
    /// The cluster of each item; empty when the benchmark names none.
    clusters: Vec<u32>,
    cluster_count: usize,
    /// One a sample, item by item: [`MISSING`], or 1 + the outcome with [`MARKS`].
    marks: Vec<u8>,
    /// One a sample, made when the first partial credit comes: other outcomes imply their scores.
    scores: Vec<f64>,
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
    pub(crate) fn new(benchmark: &Benchmark, clusters: Option<ClusterColumn>) -> Self {
        let (items, samples) = (benchmark.items as usize, benchmark.settings.samples as usize);
        let cluster_count = clusters.as_ref().map_or(0, |column| column.count as usize);
        let mut clusters = clusters.map_or_else(Vec::new, |column| column.of_item);
        if cluster_count > 0 {
            clusters.resize(items, 0);
        }
        Self {
            name: benchmark.name.clone(),
            items,
            samples,
            clusters,
            cluster_count,
            marks: vec![MISSING; items * samples],
            scores: Vec::new(),
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
    pub(crate) const fn state_bytes(&self) -> usize {
        self.marks.capacity() + self.scores.capacity() * size_of::<f64>() + self.clusters.capacity() * size_of::<u32>()
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

    pub(crate) fn result(&self) -> BenchmarkResult {
        let sums = self.sums();
        let declared = self.declared();
        let unknown = declared - sums.scored;
        let share = |right: f64| if declared == 0 { 0.0 } else { right / declared as f64 };
        let mean = sums.items.mean();
        let standard_error = match &sums.clusters {
            Some(clusters) => clusters.standard_error(),
            None => sums.items.standard_error(),
        };
        let is_partial = self.outcomes.graded > 0;
        let interval = if self.samples == 1 && sums.clusters.is_none() && !is_partial {
            wilson_interval(self.outcomes.correct, sums.scored)
        } else {
            mean.zip(standard_error)
                .map(|(mean, error)| normal_interval(mean, error))
        };
        BenchmarkResult {
            name: self.name.clone(),
            metric: if is_partial { "score" } else { "accuracy" }.to_owned(),
            mean,
            standard_error,
            interval,
            bounds: [share(sums.score), share(sums.score + unknown as f64)],
            items: self.items as u64,
            samples: declared,
            coverage: share(sums.scored as f64),
            mean_excluding_truncated: sums.untruncated.mean(),
            truncated_correct: self.truncated_correct,
            mean_counting_cut_answers: sums.as_answered.mean(),
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
        }
    }

    /// One pass in the manifest's order, so that rounding does not depend on the order in which grades came.
    fn sums(&self) -> Sums {
        let mut sums = Sums {
            items: Items::default(),
            untruncated: Items::default(),
            as_answered: Items::default(),
            clusters: (self.cluster_count > 0).then(|| Clusters::new(self.cluster_count)),
            scored: 0,
            score: 0.0,
        };
        for item in 0..self.items {
            let (mut all, mut whole, mut answered) = (Mean::default(), Mean::default(), Mean::default());
            for index in item * self.samples..(item + 1) * self.samples {
                let Some(score) = self.score(index) else { continue };
                all.push(score);
                let is_right_before = self.marks[index] & RIGHT_BEFORE != 0;
                answered.push(if is_right_before { 1.0 } else { score });
                if self.marks[index] & TRUNCATED == 0 {
                    whole.push(score);
                }
            }
            sums.scored += all.count;
            sums.score += all.sum;
            if let Some(mean) = whole.value() {
                sums.untruncated.push(mean);
            }
            if let Some(mean) = answered.value() {
                sums.as_answered.push(mean);
            }
            let Some(mean) = all.value() else { continue };
            sums.items.push(mean);
            if let Some(clusters) = &mut sums.clusters {
                clusters.push(self.clusters[item] as usize, mean);
            }
        }
        sums
    }

    /// What a sample adds to the mean; `None` when it is missing or failed.
    fn score(&self, index: usize) -> Option<f64> {
        let outcome = (self.marks[index] & !MARKS).checked_sub(1)?;
        let outcome = Outcome::ALL[usize::from(outcome)];
        match outcome {
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

struct Sums {
    items: Items,
    untruncated: Items,
    as_answered: Items,
    clusters: Option<Clusters>,
    scored: u64,
    score: f64,
}

#[derive(Default)]
struct Mean {
    count: u64,
    sum: f64,
}

impl Mean {
    fn push(&mut self, score: f64) {
        self.count += 1;
        self.sum += score;
    }

    fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

#[cfg(test)]
mod tests {
    use tidemill_domain::{JudgeCost, Served};

    use super::*;

    #[test]
    fn a_million_samples_take_a_byte_each_and_more_only_for_clusters_and_partial_credit() {
        let samples = 1_000_000;
        let benchmark = crate::fold::tests::benchmark(samples, 1);
        let mut tally = Tally::new(&benchmark, None);
        let grade = |item, outcome| crate::fold::tests::grade(item, 0, outcome);
        for item in (0..samples).step_by(7) {
            assert!(tally.apply(&grade(item, Outcome::Correct)));
        }
        let samples = samples as usize;
        assert!(tally.state_bytes() <= samples, "{}", tally.state_bytes());
        let column = ClusterColumn {
            of_item: (0..benchmark.items).map(|item| item / 10).collect(),
            count: benchmark.items / 10,
        };
        let mut tally = Tally::new(&benchmark, Some(column));
        assert!(tally.apply(&grade(0, Outcome::Graded)));
        assert!(tally.state_bytes() <= 13 * samples, "{}", tally.state_bytes());
    }

    #[test]
    fn what_no_engine_says_of_its_prefix_cache_is_not_nought() {
        let mut tally = Tally::new(&crate::fold::tests::benchmark(3, 1), None);
        let graded = |item, served| Grade {
            served,
            ..crate::fold::tests::grade(item, 0, Outcome::Correct)
        };
        tally.apply(&graded(0, Served::default()));
        let result = tally.result();
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
        let result = tally.result();
        assert_eq!(
            (result.cached_prompt_tokens, result.reusable_prompt_tokens),
            (Some(7), Some(20))
        );
        assert_eq!(result.continued, 1, "samples, however often each was continued");
    }

    #[test]
    fn what_was_cut_counts_both_ways_and_where_it_was_cut_is_counted() {
        let mut tally = Tally::new(&crate::fold::tests::benchmark(4, 1), None);
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
        let result = tally.result();
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
        let result = tally.result();
        assert_eq!((result.mean, result.mean_counting_cut_answers), (Some(0.25), Some(0.5)));
        assert_eq!(
            (result.truncated_in_reasoning, result.truncated_in_reasoning_rate),
            (1, 0.25)
        );
    }

    #[test]
    fn what_judging_took_is_added_up_and_absent_where_no_judge_was_asked() {
        let mut tally = Tally::new(&crate::fold::tests::benchmark(3, 1), None);
        let grade = |item, outcome, judge| Grade {
            judge,
            ..crate::fold::tests::grade(item, 0, outcome)
        };
        tally.apply(&grade(0, Outcome::NoAnswer, None));
        assert_eq!(tally.result().judge, None);
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
        let result = tally.result();
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
