//! Results as analysts read them. These types are the published JSON schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BenchmarkName, Digest, EvaluationId, JudgeUse, Outcome, RunId, Step, SuiteRef, TeamId, Timeline};

/// Whether the numbers count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultState {
    /// Samples are still missing.
    Serving,
    /// Complete.
    Final,
    /// Ended with too much missing or failed: not a score.
    Invalid,
    /// The run went back; kept, but no longer on the trend line.
    Superseded,
}

impl ResultState {
    /// The state's name in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Final => "final",
            Self::Invalid => "invalid",
            Self::Superseded => "superseded",
        }
    }
}

/// The result of one evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluationResult {
    /// Version of this shape; 1.
    pub schema: u32,
    /// The evaluation.
    pub evaluation: EvaluationId,
    /// Whether the numbers count.
    pub state: ResultState,
    /// Why, when they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The training run.
    pub run: RunId,
    /// The training step.
    pub step: Step,
    /// The team that pays.
    pub team: TeamId,
    /// Identity of the weights.
    pub checkpoint: Digest,
    /// The suite.
    pub suite: SuiteRef,
    /// One entry a benchmark, in the suite's order.
    pub benchmarks: Vec<BenchmarkResult>,
    /// Means over several benchmarks, where the suite names groups: of an ended evaluation, with all benchmarks at hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupResult>,
    /// When each stage was reached.
    pub timeline: Timeline,
}

/// A message of the RESULT stream: an evaluation's result with one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultMessage {
    /// More may come for this benchmark. Means over a part of the samples are to be read with `coverage` and `bounds`.
    pub provisional: bool,
    /// The result; `benchmarks` holds exactly one entry.
    #[serde(flatten)]
    pub result: EvaluationResult,
}

/// The result of one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchmarkResult {
    /// Its name.
    pub name: BenchmarkName,
    /// What `mean` is the mean of: `accuracy` or `score`.
    pub metric: String,
    /// Mean over items of the mean over their scored samples, truncated ones as wrong. Null while nothing is scored.
    pub mean: Option<f64>,
    /// Standard error of the mean over items, or over clusters where the benchmark names them. Null below two.
    pub standard_error: Option<f64>,
    /// 95 % interval of the mean.
    pub interval: Option<[f64; 2]>,
    /// How the interval was made: `wilson`, `student_t`, `normal`, `bootstrap_bca`, `bootstrap_percentile` or `unseen_share`.
    #[serde(default)]
    pub method: Option<String>,
    /// Items that the mean is over: those with a scored sample.
    #[serde(default)]
    pub scored_items: u64,
    /// The mean if all samples that are missing or failed were wrong, and if all were right.
    pub bounds: [f64; 2],
    /// Declared items.
    pub items: u64,
    /// Declared samples: items times samples per item.
    pub samples: u64,
    /// Scored samples over declared samples, 0 to 1.
    pub coverage: f64,
    /// The mean without truncated samples.
    pub mean_excluding_truncated: Option<f64>,
    /// Truncated samples that held a right answer before the cut.
    pub truncated_correct: u64,
    /// The mean if an answer that was complete before the cut counted as it was graded, instead of as wrong. Null while nothing
    /// is scored.
    #[serde(default)]
    pub mean_counting_cut_answers: Option<f64>,
    /// Truncated samples that were cut inside their reasoning, before an answer had begun.
    #[serde(default)]
    pub truncated_in_reasoning: u64,
    /// `truncated_in_reasoning` over the samples that have an outcome, 0 to 1; 0 while there is none.
    #[serde(default)]
    pub truncated_in_reasoning_rate: f64,
    /// Samples whose text or reasoning holds U+FFFD in place of bytes that were no text.
    #[serde(default)]
    pub replaced: u64,
    /// Samples by outcome.
    pub outcomes: OutcomeCounts,
    /// Requests sent to engines.
    pub requests: u64,
    /// Samples taken from earlier generations, which cost no request.
    pub cached: u64,
    /// `cached` over the samples that have an outcome, 0 to 1; 0 while there is none.
    #[serde(default)]
    pub cache_hit_rate: f64,
    /// Prompt tokens as engines counted them, those of cached samples included.
    pub prompt_tokens: u64,
    /// Tokens of the answers, those of cached samples included.
    pub completion_tokens: u64,
    /// Prompt tokens that engines had in their prefix caches. Null where no engine said, which is not 0.
    #[serde(default)]
    pub cached_prompt_tokens: Option<u64>,
    /// Prompt tokens that had been sent to an engine of the group before, which a prefix cache could have held. Null where it
    /// is not known.
    #[serde(default)]
    pub reusable_prompt_tokens: Option<u64>,
    /// Samples whose answers were interrupted and continued from their tokens.
    #[serde(default)]
    pub continued: u64,
    /// What judging took. Null where no judge was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeUse>,
    /// What is measured beside the mean, in the suite's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricResult>,
    /// The mean of parts of the benchmark, in the order in which they appear in its data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subsets: Vec<SubsetResult>,
}

/// A figure beside the mean of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricResult {
    /// Its name.
    pub name: String,
    /// Null while nothing is known of it, or where it has no finite value.
    pub value: Option<f64>,
    /// Standard error over items, or over clusters.
    pub standard_error: Option<f64>,
    /// 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// How the interval was made, as for the mean.
    pub method: Option<String>,
    /// Larger is better.
    pub higher_is_better: bool,
    /// Items that it is made of; the others have no sample that tells anything of it, or, for a figure of several samples, one
    /// that failed or is missing.
    pub items: u64,
    /// Truncated samples of the benchmark.
    pub truncated: u64,
    /// Failed samples of the benchmark.
    pub failed: u64,
    /// Samples of the benchmark without an outcome.
    pub missing: u64,
}

/// The mean of a part of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubsetResult {
    /// Its name.
    pub name: String,
    /// As for the benchmark.
    pub mean: Option<f64>,
    /// As for the benchmark.
    pub standard_error: Option<f64>,
    /// As for the benchmark.
    pub interval: Option<[f64; 2]>,
    /// How the interval was made, as for the benchmark.
    pub method: Option<String>,
    /// The mean if all samples that are missing or failed were wrong, and if all were right.
    pub bounds: [f64; 2],
    /// The mean without truncated samples.
    pub mean_excluding_truncated: Option<f64>,
    /// Declared items.
    pub items: u64,
    /// Declared samples.
    pub samples: u64,
    /// Scored samples over declared samples, 0 to 1.
    pub coverage: f64,
    /// Truncated samples.
    pub truncated: u64,
    /// Failed samples.
    pub failed: u64,
    /// Samples without an outcome.
    pub missing: u64,
}

/// A mean over several benchmarks, which are taken to be independent of each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupResult {
    /// Its name.
    pub name: String,
    /// The metric that it is the mean of; absent for the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// `macro`: over benchmarks; `micro`: over the items of all.
    pub mean: String,
    /// What it is made of.
    pub benchmarks: Vec<BenchmarkName>,
    /// Null where a benchmark has no value.
    pub value: Option<f64>,
    /// Standard error.
    pub standard_error: Option<f64>,
    /// 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// How the interval was made: `of_members`, from those of its benchmarks; `normal` or `wilson` in results of older versions.
    pub method: Option<String>,
    /// Declared items.
    pub items: u64,
    /// Declared samples.
    pub samples: u64,
    /// Truncated samples.
    pub truncated: u64,
    /// Failed samples.
    pub failed: u64,
    /// Samples without an outcome.
    pub missing: u64,
}

/// Samples by outcome. `missing` are the declared ones without any; all together are the declared samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub struct OutcomeCounts {
    /// The answer is right.
    pub correct: u64,
    /// The answer is wrong.
    pub incorrect: u64,
    /// Scored between wrong and right.
    #[serde(default)]
    pub graded: u64,
    /// No answer was found in a complete completion.
    pub no_answer: u64,
    /// Cut by the cap or the context.
    pub truncated: u64,
    /// Refused by the engine or its filter.
    pub refused: u64,
    /// Success without content.
    pub empty: u64,
    /// Does not fit the context.
    pub context_overflow: u64,
    /// The engine failed.
    pub engine_error: u64,
    /// The grader failed.
    pub grader_error: u64,
    /// The grader gave no verdict.
    pub ungraded: u64,
    /// Declared, but no outcome is known yet.
    #[serde(default)]
    pub missing: u64,
}

impl OutcomeCounts {
    /// The counter of an outcome.
    pub fn slot(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::Correct => &mut self.correct,
            Outcome::Incorrect => &mut self.incorrect,
            Outcome::Graded => &mut self.graded,
            Outcome::NoAnswer => &mut self.no_answer,
            Outcome::Truncated => &mut self.truncated,
            Outcome::Refused => &mut self.refused,
            Outcome::Empty => &mut self.empty,
            Outcome::ContextOverflow => &mut self.context_overflow,
            Outcome::EngineError => &mut self.engine_error,
            Outcome::GraderError => &mut self.grader_error,
            Outcome::Ungraded => &mut self.ungraded,
        }
    }

    /// Samples that have no score: failed ones of every kind and missing ones.
    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.empty + self.context_overflow + self.engine_error + self.grader_error + self.ungraded + self.missing
    }
}
