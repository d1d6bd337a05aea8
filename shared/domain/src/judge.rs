//! What a model that judges answers is asked for, and what that cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a judge grades a benchmark. What it is shown of an item is in the item's material.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgeSpec {
    /// The name under which the graders' configuration holds the judge's address and model.
    pub judge: String,
    /// What it may say.
    pub verdicts: Verdicts,
    /// What stands before the verdict: the word of a line, or the key in an object.
    pub label: String,
    /// Where in a reply the verdict stands.
    pub form: VerdictForm,
    /// How many verdicts are asked for in each order; odd.
    pub votes: u32,
    /// Two answers are compared, in both orders, instead of one being judged.
    pub is_pair: bool,
    /// 0 is greedy.
    pub temperature: f64,
    /// The cap on a reply's length in tokens.
    pub max_tokens: u32,
}

impl JudgeSpec {
    /// What a reply must end with, for people and models.
    #[must_use]
    pub fn wanted(&self) -> String {
        let verdict = match &self.verdicts {
            Verdicts::Words(words) => {
                let words: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
                format!("one of {}", words.join(", "))
            }
            Verdicts::Scale { from, to } => format!("a number from {from} to {to}"),
        };
        match self.form {
            VerdictForm::Line => format!("a last line that is `{}: ` and {verdict}", self.label),
            VerdictForm::Json => format!("a JSON object at the end whose {:?} is {verdict}", self.label),
        }
    }
}

/// What a judge may say, and what it is worth from 0 to 1: to the answer, or to the first of two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdicts {
    /// One of these words, at least two.
    #[serde(alias = "Words")]
    Words(Vec<(String, f64)>),
    /// A number between these two, which are worth 0 and 1.
    #[serde(alias = "Scale")]
    Scale {
        /// The worst.
        from: f64,
        /// The best; above `from`.
        to: f64,
    },
}

/// Where in a judge's reply its verdict stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictForm {
    /// Its last line is `<label>: <verdict>`.
    #[default]
    Line,
    /// It ends with a JSON object that holds the label.
    Json,
}

impl VerdictForm {
    /// What a reply says behind the label as it is compared with verdicts: in a line, marks around it and a full stop behind it do
    /// not count.
    #[must_use]
    pub fn verdict(self, said: &str) -> &str {
        match self {
            Self::Line => unmarked(unmarked(said).trim_end_matches('.')),
            Self::Json => said.trim(),
        }
    }

    /// What may be the label as it is compared with it: in a line, what lists and headings begin with and marks around it do not
    /// count.
    #[must_use]
    pub fn label(self, said: &str) -> &str {
        match self {
            Self::Line => unmarked(said.trim_start_matches(['#', '>', '-', ' ', '\t'])),
            Self::Json => said,
        }
    }
}

/// A piece of a line without the marks of emphasis, quotation and brackets around it.
fn unmarked(text: &str) -> &str {
    text.trim_matches(|letter: char| {
        letter.is_whitespace()
            || matches!(letter, '*' | '_' | '`' | '"' | '\'' | '[' | ']' | '(' | ')')
            || matches!(
                letter,
                '“' | '”' | '„' | '‘' | '’' | '‚' | '«' | '»' | '「' | '」' | '『' | '』'
            )
            || matches!(letter, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
    })
}

/// The material that holds what a judge is asked, with [`ANSWER_MARK`] and its like where answers go.
pub const JUDGE_PROMPT: &str = "judge_prompt";

/// The material that holds a judge's system prompt.
pub const JUDGE_SYSTEM: &str = "judge_system";

/// The material that holds the answer that answers are compared with.
pub const JUDGE_REFERENCE: &str = "judge_reference";

/// Stands for the answer in what a judge is asked. U+FDD0 is no character, so no text of a row holds it.
pub const ANSWER_MARK: &str = "\u{fdd0}answer\u{fdd0}";

/// Stands for the first of two answers.
pub const FIRST_MARK: &str = "\u{fdd0}first\u{fdd0}";

/// Stands for the second of two answers.
pub const SECOND_MARK: &str = "\u{fdd0}second\u{fdd0}";

/// What the judging of one sample took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JudgeCost {
    /// Verdicts that were wanted.
    pub verdicts: u32,
    /// Those that were known from earlier requests, which cost none.
    pub cached: u32,
    /// Requests sent to the judge.
    pub requests: u32,
    /// Prompt tokens as the judge counted them.
    pub prompt_tokens: u64,
    /// Tokens of its replies.
    pub completion_tokens: u64,
    /// Replies that held no verdict.
    pub unreadable: u32,
    /// The two orders of a comparison had different winners.
    pub disagreed: bool,
}

impl JudgeCost {
    /// What two requests, or two groups of them, took together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            verdicts: self.verdicts + other.verdicts,
            cached: self.cached + other.cached,
            requests: self.requests + other.requests,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            completion_tokens: self.completion_tokens + other.completion_tokens,
            unreadable: self.unreadable + other.unreadable,
            disagreed: self.disagreed || other.disagreed,
        }
    }
}

/// What the judging of a benchmark took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct JudgeUse {
    /// Verdicts that were wanted.
    pub verdicts: u64,
    /// Those that were known from earlier requests, which cost none.
    pub cached: u64,
    /// `cached` over `verdicts`, 0 to 1; 0 while there is none.
    pub cache_hit_rate: f64,
    /// Requests sent to the judge.
    pub requests: u64,
    /// Prompt tokens as the judge counted them, without those of cached verdicts.
    pub prompt_tokens: u64,
    /// Tokens of its replies, without those of cached verdicts.
    pub completion_tokens: u64,
    /// Replies that held no verdict and were asked for again, or left their sample ungraded.
    pub unreadable: u64,
    /// Samples whose comparison had another winner in the other order, and so is a tie.
    pub disagreed: u64,
}

impl JudgeUse {
    /// Counts what one more sample took.
    pub fn add(&mut self, cost: &JudgeCost) {
        self.verdicts += u64::from(cost.verdicts);
        self.cached += u64::from(cost.cached);
        self.requests += u64::from(cost.requests);
        self.prompt_tokens += cost.prompt_tokens;
        self.completion_tokens += cost.completion_tokens;
        self.unreadable += u64::from(cost.unreadable);
        self.disagreed += u64::from(cost.disagreed);
        if self.verdicts > 0 {
            self.cache_hit_rate = self.cached as f64 / self.verdicts as f64;
        }
    }
}
