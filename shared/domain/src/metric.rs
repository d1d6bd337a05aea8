//! What a benchmark measures beside its score, and means over benchmarks.

use serde::{Deserialize, Serialize};

/// How reasoning is told from the answer. Reasoning holds no answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// Between `<think>` and `</think>`, or `<thinking>` and `</thinking>`.
    #[default]
    #[serde(alias = "Think")]
    Think,
    /// Between these two marks.
    #[serde(alias = "Marks")]
    Marks {
        /// What begins it.
        open: String,
        /// What ends it.
        close: String,
    },
    /// All of the text is the answer.
    #[serde(alias = "None")]
    None,
}

/// Something measured beside the score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name, unique in the benchmark.
    pub name: String,
    /// Of what it is made.
    pub source: MetricSource,
    /// How.
    pub aggregation: Aggregation,
    /// Larger is better.
    pub higher_is_better: bool,
}

/// Of what a metric is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricSource {
    /// The grades' measures at the metric's place.
    #[serde(alias = "Measure")]
    Measure,
    /// The chance that one of so many samples of an item is right.
    #[serde(alias = "PassAt")]
    PassAt(u32),
    /// The answer that most of so many samples of an item give.
    #[serde(alias = "MajorityAt")]
    MajorityAt(u32),
    /// The measure at the metric's place of each item's first sample alone.
    #[serde(alias = "FirstMeasure")]
    FirstMeasure,
    /// The measure at the metric's place of the sample that most of so many vote with, of several the first: see
    /// [`Measured::Vote`](crate::Measured::Vote).
    #[serde(alias = "VotedMeasure")]
    VotedMeasure(u32),
}

impl MetricSource {
    /// It is made of the grades' measures, not of their scores.
    #[must_use]
    pub const fn is_measure(self) -> bool {
        matches!(self, Self::Measure | Self::FirstMeasure | Self::VotedMeasure(_))
    }
}

/// What a metric makes of what all samples add to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// The mean over items of the mean over their samples.
    #[serde(alias = "Mean")]
    Mean,
    /// The sum of the values over the sum of the weights.
    #[serde(alias = "WeightedMean")]
    WeightedMean,
    /// e to the power of minus the sum of the log-probabilities over the sum of the weights.
    #[serde(alias = "Perplexity")]
    Perplexity,
    /// Minus the sum of the log-probabilities over the sum of the weights, in bits.
    #[serde(alias = "BitsPerWeight")]
    BitsPerWeight,
    /// The harmonic mean of precision and recall.
    #[serde(alias = "F1")]
    F1(Average),
    /// The correlation of predicted and true classes, by Matthews.
    #[serde(alias = "Mcc")]
    Mcc,
    /// BLEU of the whole corpus.
    #[serde(alias = "Bleu")]
    Bleu,
    /// chrF of the whole corpus.
    #[serde(alias = "Chrf")]
    Chrf,
}

/// How a figure of each class becomes one of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Average {
    /// Class 1 alone.
    #[serde(alias = "Binary")]
    Binary,
    /// Every class the same.
    #[serde(alias = "Macro")]
    Macro,
    /// Every sample the same.
    #[serde(alias = "Micro")]
    Micro,
    /// Each class by how often it is true.
    #[serde(alias = "Weighted")]
    Weighted,
}

/// A mean over several benchmarks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its name, unique in the suite.
    pub name: String,
    /// What it is made of, at least one.
    pub members: Vec<Member>,
    /// How.
    pub mean: GroupMean,
    /// The metric of that name instead of the score; every member has it.
    pub metric: Option<String>,
}

/// A benchmark of a group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its ordinal in the manifest.
    pub benchmark: u32,
    /// How much it counts, above 0.
    pub weight: f64,
}

/// How benchmarks become one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupMean {
    /// The mean of the benchmarks' means, each by its weight.
    #[serde(alias = "Macro")]
    Macro,
    /// The mean over the items of all, each by its benchmark's weight.
    #[serde(alias = "Micro")]
    Micro,
}
