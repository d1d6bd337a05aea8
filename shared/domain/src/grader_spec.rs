//! How answers are graded, as manifests say it.

use serde::{Deserialize, Serialize};

use crate::JudgeSpec;

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
    /// The answer is a program, which is run in a sandbox and tested. Reads of an item's material, for Python: `prefix`,
    /// `prelude`, `tests`, `entry_point`; for a command: `prefix`, `input`, `expected`.
    Code {
        /// What the program is written in, and so how it is tested.
        language: CodeLanguage,
        /// Where in an answer it stands.
        program: ProgramPlace,
        /// What a run may use.
        limits: CodeLimits,
    },
    /// Another model says what the answer is worth. Reads of an item's material: `judge_prompt`, `judge_system`,
    /// `judge_reference`.
    Judge(JudgeSpec),
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
            Self::Code { .. } => "code",
            Self::Judge(_) => "judge",
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

/// What a program is written in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CodeLanguage {
    /// Python, tested by calls of its functions from another process.
    Python,
    /// Whatever a command takes, tested by what it prints.
    Command {
        /// The program's absolute path and its arguments; it starts in the folder of the file.
        argv: Vec<String>,
        /// The name of the file that holds the program.
        file: String,
    },
}

/// Where a program stands in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramPlace {
    /// In a fenced block, else the whole answer is it.
    Fenced,
    /// The answer goes on where the prefix ends.
    Continued,
}

/// What one run of a program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeLimits {
    /// CPU time of all its processes: more is wrong.
    pub cpu_seconds: u32,
    /// From start to end: a run that takes longer tells nothing, and is tried again.
    pub wall_seconds: u32,
    /// Memory of all its processes: more is wrong.
    pub memory_mib: u32,
}

impl Default for CodeLimits {
    fn default() -> Self {
        Self {
            cpu_seconds: 10,
            wall_seconds: 60,
            memory_mib: 1024,
        }
    }
}
