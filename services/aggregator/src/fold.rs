//! The fold of one evaluation: every grade counted once, whatever order and however often they come.

use tidemill_domain::{
    BenchmarkResult, Columns, Grade, Group, GroupResult, ItemKey, Manifest, OutcomeCounts, Timeline, Timestamp,
};

use crate::estimate::Effort;
use crate::groups;
use crate::tally::Tally;

/// What is known of one evaluation.
///
/// Takes one byte a declared sample, and more only in benchmarks that need it: eight for partial credit, four to eight an item
/// for clusters, subsets or weights, and what samples add to the metrics that are declared. The first grade of a key counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    benchmarks: Vec<Tally>,
    groups: Vec<Group>,
    first_request: Option<Timestamp>,
    last_completion: Option<Timestamp>,
    last_grade: Option<Timestamp>,
}

impl Fold {
    /// Makes room for every sample that a manifest declares. `columns` are those of its benchmarks, in its order; a
    /// benchmark beyond them has none.
    #[must_use]
    pub fn new(manifest: &Manifest, columns: Vec<Columns>) -> Self {
        let columns = columns.into_iter().chain(std::iter::repeat_with(Columns::default));
        let tallies = manifest.benchmarks.iter().zip(columns);
        Self {
            benchmarks: tallies
                .map(|(benchmark, columns)| Tally::new(benchmark, columns))
                .collect(),
            groups: manifest.groups.clone(),
            first_request: None,
            last_completion: None,
            last_grade: None,
        }
    }

    /// Counts a grade. False when it changes nothing: its key was counted before or is not declared.
    pub fn apply(&mut self, grade: &Grade) -> bool {
        let tally = self.benchmarks.get_mut(grade.key.benchmark as usize);
        if !tally.is_some_and(|tally| tally.apply(grade)) {
            return false;
        }
        self.first_request = Some(
            self.first_request
                .map_or(grade.started, |first| first.min(grade.started)),
        );
        self.last_completion = self.last_completion.max(Some(grade.finished));
        self.last_grade = self.last_grade.max(Some(grade.graded));
        true
    }

    /// Counts a sample whose grade cannot be read as a fault of the grader. False as for [`Fold::apply`].
    pub fn apply_unreadable(&mut self, key: &ItemKey) -> bool {
        let tally = self.benchmarks.get_mut(key.benchmark as usize);
        tally.is_some_and(|tally| tally.apply_unreadable(key))
    }

    /// How many benchmarks there are.
    #[must_use]
    pub const fn benchmarks(&self) -> usize {
        self.benchmarks.len()
    }

    /// The result of a benchmark as far as it is known; `None` for an index that is not declared.
    ///
    /// Costs a few passes over the benchmark's samples: meant for once a second, not for once a grade.
    #[must_use]
    pub fn benchmark_result(&self, index: usize) -> Option<BenchmarkResult> {
        let tally = self.benchmarks.get(index)?;
        Some(tally.result(Effort::Provisional))
    }

    /// The last results of all benchmarks, in the manifest's order.
    ///
    /// Intervals are resampled where that is better: tenths of a second a figure of thousands of items, on the calling thread.
    #[must_use]
    pub fn results(&self) -> Vec<BenchmarkResult> {
        self.benchmarks
            .iter()
            .map(|tally| tally.result(Effort::Final))
            .collect()
    }

    /// Means over several benchmarks, from the results of all.
    #[must_use]
    pub fn groups(&self, results: &[BenchmarkResult]) -> Vec<GroupResult> {
        self.groups.iter().map(|group| groups::result(group, results)).collect()
    }

    /// Every declared sample of the benchmark has an outcome.
    #[must_use]
    pub fn benchmark_complete(&self, index: usize) -> bool {
        self.benchmarks.get(index).is_some_and(Tally::is_complete)
    }

    /// Every declared sample of the evaluation has an outcome.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.benchmarks.iter().all(Tally::is_complete)
    }

    /// Declared samples over all benchmarks.
    #[must_use]
    pub fn declared(&self) -> u64 {
        self.benchmarks.iter().map(Tally::declared).sum()
    }

    /// Declared samples that have an outcome.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.declared() - self.outcomes().missing
    }

    /// Samples by outcome over all benchmarks.
    #[must_use]
    pub fn outcomes(&self) -> OutcomeCounts {
        let mut total = OutcomeCounts::default();
        for tally in &self.benchmarks {
            let mut counts = tally.outcomes();
            for outcome in tidemill_domain::Outcome::ALL {
                *total.slot(outcome) += *counts.slot(outcome);
            }
            total.missing += counts.missing;
        }
        total
    }

    /// Names of benchmarks in which samples ended but none could be scored.
    pub(crate) fn unscored(&self) -> impl Iterator<Item = &str> {
        self.benchmarks
            .iter()
            .filter(|tally| tally.is_unscored())
            .map(Tally::name)
    }

    /// Failed and missing samples over declared ones, 0 to 1.
    #[must_use]
    pub fn failure_rate(&self) -> f64 {
        match self.declared() {
            0 => 0.0,
            declared => self.outcomes().failed() as f64 / declared as f64,
        }
    }

    /// A timeline with the times that grades tell: the first request, the last completion, the last grade.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        Timeline {
            first_request: self.first_request,
            last_completion: self.last_completion,
            last_grade: self.last_grade,
            ..Timeline::default()
        }
    }
}

#[cfg(test)]
#[path = "fold_tests.rs"]
pub(crate) mod tests;
