//! How answers are graded, as manifests say it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Aggregation, JudgeSpec, Metric, MetricSource};

/// How an answer is found and compared. A change of what a kind means raises that kind's version in the grader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraderSpec {
    /// The whole answer equals a target, white space at both ends aside.
    #[serde(alias = "Exact")]
    Exact {
        /// Compare without regard to case.
        ignore_case: bool,
        /// Compare without punctuation.
        ignore_punctuation: bool,
    },
    /// A pattern finds the answer, which must equal a target.
    #[serde(alias = "Regex")]
    Regex {
        /// The pattern; its first group, else the whole match, is the answer.
        pattern: String,
        /// Which match counts.
        take: Take,
        /// Compare without regard to case.
        ignore_case: bool,
    },
    /// The last number of the answer equals the target as a number.
    #[serde(alias = "Numeric")]
    Numeric {
        /// Narrows where the number is looked for: the last match's first group.
        pattern: Option<String>,
        /// Largest absolute difference that still counts as equal.
        tolerance: f64,
    },
    /// A letter or an option's text names one of the choices.
    #[serde(alias = "Choice")]
    Choice {
        /// Narrows where the letter is looked for: the last match's first group.
        pattern: Option<String>,
    },
    /// The choice with the largest summed log-probability is the answer; nothing is generated.
    #[serde(alias = "Likelihood")]
    Likelihood {
        /// What the sums are divided by before they are compared.
        normalise: Normalise,
    },
    /// The answer is a program, which is run in a sandbox and tested. Reads of an item's material, for Python: `prefix`,
    /// `prelude`, `tests`, `entry_point`; for a command: `prefix`, `input`, `expected`.
    #[serde(alias = "Code")]
    Code {
        /// What the program is written in, and so how it is tested.
        language: CodeLanguage,
        /// Where in an answer it stands.
        program: ProgramPlace,
        /// What a run may use.
        limits: CodeLimits,
    },
    /// The whole answer equals a target once both are normalised.
    #[serde(alias = "ExactNormalised")]
    ExactNormalised {
        /// What makes no difference. Their order makes none either.
        normalisers: Vec<Normaliser>,
    },
    /// The first of several patterns that matches finds the answer, which equals a target once both are normalised.
    #[serde(alias = "RegexChain")]
    RegexChain {
        /// Tried one after the other, at least one.
        patterns: Vec<AnswerPattern>,
        /// What makes no difference. Their order makes none either.
        normalisers: Vec<Normaliser>,
    },
    /// The answer is a number, a formula or a collection of them, equal to a target as mathematics.
    #[serde(alias = "Math")]
    Math {
        /// Narrows where the answer is looked for: the last match's first group.
        pattern: Option<String>,
    },
    /// The words that the answer and its best target share.
    #[serde(alias = "F1")]
    F1 {
        /// How texts are made comparable.
        words: Words,
    },
    /// The words, pairs of words or longest common subsequence that the answer and its best target share.
    #[serde(alias = "Rouge")]
    Rouge {
        /// Which of them is the score.
        measure: RougeMeasure,
        /// Compare longer words by their stems.
        stem: bool,
    },
    /// The n-grams of words that the answer and its targets share.
    #[serde(alias = "Bleu")]
    Bleu {
        /// How texts become words.
        tokenise: Tokenise,
    },
    /// The n-grams of characters that the answer and its best target share.
    #[serde(alias = "Chrf")]
    Chrf {
        /// Also those of words, as chrF++ does.
        words: bool,
    },
    /// Instructions that a program can check. An item's material names them: `instructions` and `arguments`.
    #[serde(alias = "Instructions")]
    Instructions {
        /// The score is that of the checks that forgive a first line, a last line and asterisks.
        loose: bool,
    },
    /// JSON in the answer.
    #[serde(alias = "JsonSchema")]
    JsonSchema {
        /// What it must be.
        check: JsonCheck,
        /// The schema, as JSON, of all items. One without has its own as material: `schema`.
        schema: Option<String>,
    },
    /// A program outside grades. It runs only on graders whose configuration names it.
    #[serde(alias = "Command")]
    Command {
        /// The program and its arguments.
        command: Vec<String>,
        /// How long one answer may take, in seconds.
        seconds: u32,
    },
    /// Another model says what the answer is worth. Reads of an item's material: `judge_prompt`, `judge_system`,
    /// `judge_reference`.
    #[serde(alias = "Judge")]
    Judge(JudgeSpec),
    /// The filters and metrics of a task file of lm-evaluation-harness. Reads of an item's material, as JSON: `target` and
    /// `targets_are_lists` of a generated answer, `gold` of choices, `choices` of both.
    #[serde(alias = "Pipelines")]
    Pipelines {
        /// Filters and metrics, as the keys of a task file that say them.
        grading: String,
        /// Nothing is generated: log-probabilities are asked for.
        by_likelihood: bool,
    },
}

impl GraderSpec {
    /// The kind's name as suites write it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Exact { .. } | Self::ExactNormalised { .. } => "exact",
            Self::Regex { .. } | Self::RegexChain { .. } => "regex",
            Self::Numeric { .. } => "numeric",
            Self::Choice { .. } => "choice",
            Self::Likelihood { .. } => "likelihood",
            Self::Code { .. } => "code",
            Self::Math { .. } => "math",
            Self::F1 { .. } => "f1",
            Self::Rouge { .. } => "rouge",
            Self::Bleu { .. } => "bleu",
            Self::Chrf { .. } => "chrf",
            Self::Instructions { .. } => "instructions",
            Self::JsonSchema { .. } => "json_schema",
            Self::Command { .. } => "command",
            Self::Judge(_) => "judge",
            Self::Pipelines { .. } => "pipelines",
        }
    }

    /// Nothing is generated: log-probabilities of continuations are asked for.
    #[must_use]
    pub const fn is_likelihood(&self) -> bool {
        matches!(
            self,
            Self::Likelihood { .. }
                | Self::Pipelines {
                    by_likelihood: true,
                    ..
                }
        )
    }

    /// What is scored by likelihood are whole texts, before which stands no question.
    #[must_use]
    pub fn scores_whole_texts(&self) -> bool {
        #[derive(serde::Deserialize)]
        struct Asked {
            output_type: String,
        }
        let Self::Pipelines {
            grading,
            by_likelihood: true,
        } = self
        else {
            return false;
        };
        serde_json::from_str(grading).is_ok_and(|asked: Asked| asked.output_type == "loglikelihood_rolling")
    }

    /// What a benchmark with this grader measures beside its score.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let means = |names: &[&str]| names.iter().map(|name| metric(name, Aggregation::Mean)).collect();
        match self {
            Self::Likelihood { .. } => means(&["accuracy_raw", "accuracy_per_byte", "accuracy_per_token"]),
            Self::F1 { .. } => means(&["exact_match"]),
            Self::Rouge { .. } => means(&["rouge1", "rouge2", "rougeL"]),
            Self::Bleu { .. } => vec![metric("bleu", Aggregation::Bleu)],
            Self::Chrf { .. } => vec![metric("chrf", Aggregation::Chrf)],
            Self::Instructions { .. } => vec![
                metric("prompt_level_strict_acc", Aggregation::Mean),
                metric("inst_level_strict_acc", Aggregation::WeightedMean),
                metric("prompt_level_loose_acc", Aggregation::Mean),
                metric("inst_level_loose_acc", Aggregation::WeightedMean),
            ],
            Self::JsonSchema { .. } => means(&["valid", "fits", "equal"]),
            _ => Vec::new(),
        }
    }
}

/// Something that makes no difference between an answer and a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Normaliser {
    /// Which of several code points write the same: NFKC, so that full-width letters, ligatures and superscripts are plain ones.
    Unicode,
    /// What only sets type in LaTeX: dollar signs, `\text{}`, `\left`, thin spaces.
    Latex,
    /// Small and capital letters.
    Case,
    /// Thousands separators, and zeros after a decimal point that say nothing.
    Numbers,
    /// Punctuation.
    Punctuation,
    /// The words "a", "an" and "the".
    Articles,
    /// White space: none at the ends, one space between words.
    Whitespace,
}

/// A pattern that finds an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerPattern {
    /// The pattern, without look-around and back-references.
    pub pattern: String,
    /// The number of the group that is the answer, 0 for the whole match; without it the first group, else the whole match.
    pub group: Option<u32>,
    /// Which match counts.
    pub take: Take,
}

fn metric(name: &str, aggregation: Aggregation) -> Metric {
    Metric {
        name: name.to_owned(),
        source: MetricSource::Measure,
        aggregation,
        higher_is_better: true,
    }
}

/// How words are made comparable before they are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Words {
    /// As SQuAD does: lower case, no punctuation, no English articles.
    Squad,
    /// As DROP does: besides, numbers by value, and every word once.
    Drop,
}

/// Which of the scores of ROUGE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RougeMeasure {
    /// Words.
    #[serde(rename = "rouge1")]
    One,
    /// Pairs of words.
    #[serde(rename = "rouge2")]
    Two,
    /// The longest common subsequence.
    #[serde(rename = "rougeL")]
    Longest,
}

/// How texts become words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tokenise {
    /// As `mteval-v13a` does.
    #[serde(rename = "13a")]
    V13a,
    /// Each character a word.
    #[serde(rename = "characters")]
    Characters,
    /// At white space alone.
    #[serde(rename = "none")]
    None,
}

/// What JSON must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JsonCheck {
    /// JSON at all.
    Valid,
    /// As the schema says.
    Schema,
    /// The same value as a target, and as the schema says where there is one.
    Equal,
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
#[serde(rename_all = "snake_case")]
pub enum CodeLanguage {
    /// Python, tested by calls of its functions from another process.
    #[serde(alias = "Python")]
    Python,
    /// Whatever a command takes, tested by what it prints.
    #[serde(alias = "Command")]
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Verdicts;

    #[test]
    fn documents_name_kinds_as_suites_do_and_those_of_earlier_versions_are_read() {
        let code = |kind: &str, language: &str| {
            let limits = CodeLimits::default();
            json!({ kind: { "language": language, "program": "fenced", "limits": limits } })
        };
        let of = |document| serde_json::from_value::<GraderSpec>(document).unwrap();
        let (earlier, now) = (code("Code", "Python"), code("code", "python"));
        assert_eq!(json!(of(earlier)), now);
        let scale = json!({ "Scale": { "from": 1.0, "to": 5.0 } });
        let scale: Verdicts = serde_json::from_value(scale).unwrap();
        assert_eq!(json!(scale), json!({ "scale": { "from": 1.0, "to": 5.0 } }));
        let metric = json!({ "name": "pass@4", "source": { "PassAt": 4 }, "aggregation": { "F1": "Macro" }, "higher_is_better": true });
        let metric: Metric = serde_json::from_value(metric).unwrap();
        assert_eq!(
            (json!(metric.source), json!(metric.aggregation)),
            (json!({ "pass_at": 4 }), json!({ "f1": "macro" }))
        );
        assert_eq!(
            json!(of(json!({ "ExactNormalised": { "normalisers": [] } }))),
            json!({ "exact_normalised": { "normalisers": [] } })
        );
    }
}
