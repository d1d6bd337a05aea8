//! What a grader records.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ItemKey, JudgeCost, Served, Timestamp};

/// What became of one sample. The outcomes exclude each other and are all counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The answer is right.
    Correct,
    /// The answer is wrong.
    Incorrect,
    /// The answer has a score between wrong and right.
    Graded,
    /// A complete completion in which no answer was found.
    NoAnswer,
    /// Cut by the cap or the context; an answer found before the cut is kept beside it.
    Truncated,
    /// The engine or its filter refused to answer.
    Refused,
    /// The engine said success and sent nothing, repeatedly.
    Empty,
    /// The prompt, or prompt and cap, do not fit the context.
    ContextOverflow,
    /// The engine failed within the retry budget.
    EngineError,
    /// The grader failed.
    GraderError,
    /// The grader gave no verdict.
    Ungraded,
}

impl Outcome {
    /// Every outcome, in the order in which they are shown.
    pub const ALL: [Self; 11] = [
        Self::Correct,
        Self::Incorrect,
        Self::Graded,
        Self::NoAnswer,
        Self::Truncated,
        Self::Refused,
        Self::Empty,
        Self::ContextOverflow,
        Self::EngineError,
        Self::GraderError,
        Self::Ungraded,
    ];

    /// The outcome's name in JSON and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Correct => "correct",
            Self::Incorrect => "incorrect",
            Self::Graded => "graded",
            Self::NoAnswer => "no_answer",
            Self::Truncated => "truncated",
            Self::Refused => "refused",
            Self::Empty => "empty",
            Self::ContextOverflow => "context_overflow",
            Self::EngineError => "engine_error",
            Self::GraderError => "grader_error",
            Self::Ungraded => "ungraded",
        }
    }

    /// The model had its say, so the sample counts in the mean. The others are failures: a failure is never a score.
    #[must_use]
    pub const fn is_scored(self) -> bool {
        matches!(
            self,
            Self::Correct | Self::Incorrect | Self::Graded | Self::NoAnswer | Self::Truncated | Self::Refused
        )
    }
}

/// Where something stands in a text, in bytes of its UTF-8: from `start` up to `end`, which is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

/// What one sample adds to a metric; what metrics make of all samples is their [`crate::Aggregation`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Measured {
    /// A value of its own.
    Value(f64),
    /// A sum and what it is over, for instance a log-probability and the bytes that it covers.
    Weighted {
        /// The sum.
        value: f64,
        /// What it is over.
        weight: f64,
    },
    /// A class that was predicted, and the one that it is.
    Labels {
        /// The class that it is.
        truth: u32,
        /// The class that was predicted.
        predicted: u32,
    },
    /// Counts that add up over samples, for instance of matching n-grams.
    Counts(Vec<f64>),
    /// A value of its own that counts if most samples of the item vote for the same answer.
    Vote {
        /// Stands for the answer: equal answers have equal numbers.
        answer: u64,
        /// The value.
        value: f64,
    },
}

/// The grade of one sample, with all that the aggregator needs to fold, so that it reads nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grade {
    /// What was graded.
    pub key: ItemKey,
    /// What became of it.
    pub outcome: Outcome,
    /// 0 to 1; what the sample adds to the mean. 0 for a truncated one, whatever it held.
    pub score: f64,
    /// For a truncated sample, the score of an answer that was complete before the cut.
    pub score_before_cut: Option<f64>,
    /// The answer that the extractor found.
    pub extracted: Option<String>,
    /// Kind and version of what found the answer, for instance `last-number@1`.
    pub extractor: Option<String>,
    /// Where the answer stands in the completion's text.
    pub span: Option<Span>,
    /// The answer in a form that is the same for equal answers, at most 256 bytes: what samples vote by. None where only the
    /// answer itself tells.
    pub canonical: Option<String>,
    /// What the sample adds to each metric of its benchmark, in their order; none for a metric that it tells nothing of. Empty
    /// where the benchmark has no metrics, and for a sample that was not graded.
    pub measures: Vec<Option<Measured>>,
    /// What a judge took for it; `None` where none was asked.
    pub judge: Option<JudgeCost>,
    /// Kind and version of the grader, for instance `numeric@1`.
    pub grader: String,
    /// Why, where the outcome alone does not say.
    pub reason: Option<String>,
    /// The completion was cut.
    pub truncated: bool,
    /// It was cut inside its reasoning: the answer had not begun.
    pub cut_in_reasoning: bool,
    /// Its text or reasoning holds U+FFFD, which stands for bytes that were no text.
    pub replaced: bool,
    /// From the completion.
    pub prompt_tokens: u64,
    /// From the completion.
    pub completion_tokens: u64,
    /// From the completion.
    pub requests: u32,
    /// From the completion.
    pub cached: bool,
    /// From the completion.
    pub served: Served,
    /// When the first request was sent.
    pub started: Timestamp,
    /// When the completion ended.
    pub finished: Timestamp,
    /// When the grade was made.
    pub graded: Timestamp,
}
