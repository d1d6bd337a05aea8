//! How answers are graded, as manifests say it.

use serde::{Deserialize, Serialize};

/// How an answer is found and compared. A change of what a kind means raises that kind's version in the grader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum GraderSpec {
    /// The whole answer equals a target, white space at both ends aside.
    Exact {
        /// Compare without regard to case.
        ignore_case: bool,
        /// Compare without punctuation.
        ignore_punctuation: bool,
    },
    /// A pattern finds the answer, which must equal a target.
    Regex {
        /// The pattern; its first group, else the whole match, is the answer.
        pattern: String,
        /// Which match counts.
        take: Take,
        /// Compare without regard to case.
        ignore_case: bool,
    },
    /// The last number of the answer equals the target as a number.
    Numeric {
        /// Narrows where the number is looked for: the last match's first group.
        pattern: Option<String>,
        /// Largest absolute difference that still counts as equal.
        tolerance: f64,
    },
    /// A letter or an option's text names one of the choices.
    Choice {
        /// Narrows where the letter is looked for: the last match's first group.
        pattern: Option<String>,
    },
    /// The choice with the largest summed log-probability is the answer; nothing is generated.
    Likelihood {
        /// What the sums are divided by before they are compared.
        normalise: Normalise,
    },
}

impl GraderSpec {
    /// The kind's name as suites write it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Exact { .. } => "exact",
            Self::Regex { .. } => "regex",
            Self::Numeric { .. } => "numeric",
            Self::Choice { .. } => "choice",
            Self::Likelihood { .. } => "likelihood",
        }
    }
}

/// Which of several matches is the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Take {
    /// The first.
    First,
    /// The last: models correct themselves.
    Last,
}

/// What a choice's summed log-probability is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalise {
    /// Nothing.
    None,
    /// The choice's length in bytes.
    Bytes,
    /// The choice's length in tokens.
    Tokens,
}
