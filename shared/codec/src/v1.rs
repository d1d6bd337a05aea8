//! Version 1 of what has changed since. Bodies of it are converted as long as retention keeps them.

use serde::{Deserialize, Serialize};
use tidemill_domain::{
    BenchmarkName, ChoiceScore, Digest, Ending, ItemKey, Normalise, Outcome, Prompt, Reuse, Served, Settings, SuiteRef,
    Take, Timestamp, WholeBenchmark, WholeManifest,
};

use crate::Wire;

/// A release, version 1: without a word about the generation cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// What to generate.
    pub key: ItemKey,
    /// The manifest that holds its prompt and settings.
    pub manifest: Digest,
    /// The item may have been released before.
    pub again: bool,
}

impl Wire for Release {
    const SCHEMA: u16 = 1;
    const VERSION: u16 = 1;
    const NAME: &'static str = "release";
}

impl From<Release> for tidemill_domain::Release {
    /// Who wrote it did not know whether its evaluation wants draws of its own, so the cache takes no part.
    fn from(old: Release) -> Self {
        let Release { key, manifest, again } = old;
        Self {
            key,
            manifest,
            again,
            reuse: Reuse::Never,
            expected_tokens: 0,
            prefix: 0,
        }
    }
}

impl From<&tidemill_domain::Release> for Release {
    fn from(new: &tidemill_domain::Release) -> Self {
        Self {
            key: new.key.clone(),
            manifest: new.manifest.clone(),
            again: new.again,
        }
    }
}

/// A completion, version 1: without the identity of its generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// What was asked for.
    pub key: ItemKey,
    /// The manifest that holds its prompt.
    pub manifest: Digest,
    /// How it ended.
    pub ending: Ending,
    /// The answer's text.
    pub text: String,
    /// Reasoning that the engine split off.
    pub reasoning: Option<String>,
    /// The engine's own word for the ending.
    pub finish_reason: Option<String>,
    /// The stop text that fired.
    pub stop_reason: Option<String>,
    /// Cut by the cap or the context.
    pub truncated: bool,
    /// One entry a choice of a likelihood benchmark.
    pub choices: Vec<ChoiceScore>,
    /// What went wrong.
    pub detail: Option<String>,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub completion_tokens: u64,
    /// Requests sent.
    pub requests: u32,
    /// Tries.
    pub attempts: u32,
    /// Taken from an earlier generation.
    pub cached: bool,
    /// The replica that answered.
    pub engine: String,
    /// When the first request was sent.
    pub started: Timestamp,
    /// When the ending was known.
    pub finished: Timestamp,
}

impl Wire for Completion {
    const SCHEMA: u16 = 2;
    const VERSION: u16 = 1;
    const NAME: &'static str = "completion";
}

impl From<Completion> for tidemill_domain::Completion {
    fn from(old: Completion) -> Self {
        Self {
            key: old.key,
            manifest: old.manifest,
            ending: old.ending,
            text: old.text,
            reasoning: old.reasoning,
            finish_reason: old.finish_reason,
            stop_reason: old.stop_reason,
            truncated: old.truncated,
            choices: old.choices,
            detail: old.detail,
            prompt_tokens: old.prompt_tokens,
            completion_tokens: old.completion_tokens,
            requests: old.requests,
            attempts: old.attempts,
            cached: old.cached,
            generation: None,
            served: Served::default(),
            engine: old.engine,
            started: old.started,
            finished: old.finished,
        }
    }
}

impl From<&tidemill_domain::Completion> for Completion {
    fn from(new: &tidemill_domain::Completion) -> Self {
        let new = new.clone();
        Self {
            key: new.key,
            manifest: new.manifest,
            ending: new.ending,
            text: new.text,
            reasoning: new.reasoning,
            finish_reason: new.finish_reason,
            stop_reason: new.stop_reason,
            truncated: new.truncated,
            choices: new.choices,
            detail: new.detail,
            prompt_tokens: new.prompt_tokens,
            completion_tokens: new.completion_tokens,
            requests: new.requests,
            attempts: new.attempts,
            cached: new.cached,
            engine: new.engine,
            started: new.started,
            finished: new.finished,
        }
    }
}

/// A grade, version 1: without how its completion was served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grade {
    /// What was graded.
    pub key: ItemKey,
    /// What became of it.
    pub outcome: Outcome,
    /// What the sample adds to the mean.
    pub score: f64,
    /// For a truncated sample, the score of an answer that was complete before the cut.
    pub score_before_cut: Option<f64>,
    /// The answer that the extractor found.
    pub extracted: Option<String>,
    /// Kind and version of the grader.
    pub grader: String,
    /// Why.
    pub reason: Option<String>,
    /// The completion was cut.
    pub truncated: bool,
    /// From the completion.
    pub prompt_tokens: u64,
    /// From the completion.
    pub completion_tokens: u64,
    /// From the completion.
    pub requests: u32,
    /// From the completion.
    pub cached: bool,
    /// When the first request was sent.
    pub started: Timestamp,
    /// When the completion ended.
    pub finished: Timestamp,
    /// When the grade was made.
    pub graded: Timestamp,
}

impl Wire for Grade {
    const SCHEMA: u16 = 3;
    const VERSION: u16 = 1;
    const NAME: &'static str = "grade";
}

impl From<Grade> for tidemill_domain::Grade {
    fn from(old: Grade) -> Self {
        Self {
            key: old.key,
            outcome: old.outcome,
            score: old.score,
            score_before_cut: old.score_before_cut,
            extracted: old.extracted,
            extractor: None,
            span: None,
            canonical: None,
            measures: Vec::new(),
            judge: None,
            grader: old.grader,
            reason: old.reason,
            truncated: old.truncated,
            cut_in_reasoning: false,
            replaced: false,
            prompt_tokens: old.prompt_tokens,
            completion_tokens: old.completion_tokens,
            requests: old.requests,
            cached: old.cached,
            served: Served::default(),
            started: old.started,
            finished: old.finished,
            graded: old.graded,
        }
    }
}

impl From<&tidemill_domain::Grade> for Grade {
    fn from(new: &tidemill_domain::Grade) -> Self {
        let new = new.clone();
        Self {
            key: new.key,
            outcome: new.outcome,
            score: new.score,
            score_before_cut: new.score_before_cut,
            extracted: new.extracted,
            grader: new.grader,
            reason: new.reason,
            truncated: new.truncated,
            prompt_tokens: new.prompt_tokens,
            completion_tokens: new.completion_tokens,
            requests: new.requests,
            cached: new.cached,
            started: new.started,
            finished: new.finished,
            graded: new.graded,
        }
    }
}

/// A manifest, version 1: with its items in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The suite it was rendered from.
    pub suite: SuiteRef,
    /// Share of failed samples above which an evaluation is invalid.
    pub max_failure_rate: f64,
    /// At least one.
    pub benchmarks: Vec<Benchmark>,
}

/// A benchmark of it, with all its items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    /// Its name.
    pub name: BenchmarkName,
    /// How completions are asked for.
    pub settings: Settings,
    /// How they are graded.
    pub grader: GraderSpec,
    /// At least one.
    pub items: Vec<Item>,
}

/// A block of items, version 1: without subsets, weights and material.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// In the order of the benchmark.
    pub items: Vec<Item>,
}

/// An item, as blocks of version 1 hold it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// What is sent.
    pub prompt: Prompt,
    /// Accepted answers.
    pub targets: Vec<String>,
    /// The choices.
    pub choices: Vec<String>,
    /// Index of the right one.
    pub correct_choice: Option<u32>,
    /// The cluster that it belongs to.
    pub cluster: Option<String>,
}

/// How an answer is graded, as manifests up to version 3 say it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum GraderSpec {
    /// The whole answer equals a target.
    Exact {
        /// Without regard to case.
        ignore_case: bool,
        /// Without punctuation.
        ignore_punctuation: bool,
    },
    /// A pattern finds the answer.
    Regex {
        /// The pattern.
        pattern: String,
        /// Which match counts.
        take: Take,
        /// Without regard to case.
        ignore_case: bool,
    },
    /// The last number equals the target.
    Numeric {
        /// Narrows where the number is looked for.
        pattern: Option<String>,
        /// Largest difference that counts as equal.
        tolerance: f64,
    },
    /// A letter or an option's text names a choice.
    Choice {
        /// Narrows where the letter is looked for.
        pattern: Option<String>,
    },
    /// The most probable choice is the answer.
    Likelihood {
        /// What the sums are divided by.
        normalise: Normalise,
    },
}

impl Wire for Manifest {
    const SCHEMA: u16 = 4;
    const VERSION: u16 = 1;
    const NAME: &'static str = "manifest";
}

impl Wire for Block {
    const SCHEMA: u16 = 5;
    const VERSION: u16 = 1;
    const NAME: &'static str = "block";
}

impl From<Manifest> for WholeManifest {
    fn from(old: Manifest) -> Self {
        let benchmark = |old: Benchmark| WholeBenchmark {
            name: old.name,
            settings: old.settings,
            grader: old.grader.into(),
            items: old.items.into_iter().map(Into::into).collect(),
        };
        Self {
            suite: old.suite,
            max_failure_rate: old.max_failure_rate,
            benchmarks: old.benchmarks.into_iter().map(benchmark).collect(),
        }
    }
}

impl From<Block> for tidemill_domain::Block {
    fn from(old: Block) -> Self {
        Self {
            items: old.items.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Item> for tidemill_domain::Item {
    fn from(old: Item) -> Self {
        Self {
            id: old.id,
            prompt: old.prompt,
            targets: old.targets,
            choices: old.choices,
            correct_choice: old.correct_choice,
            cluster: old.cluster,
            subset: None,
            weight: 1.0,
            material: Vec::new(),
        }
    }
}

impl From<GraderSpec> for tidemill_domain::GraderSpec {
    fn from(old: GraderSpec) -> Self {
        match old {
            GraderSpec::Exact {
                ignore_case,
                ignore_punctuation,
            } => Self::Exact {
                ignore_case,
                ignore_punctuation,
            },
            GraderSpec::Regex {
                pattern,
                take,
                ignore_case,
            } => Self::Regex {
                pattern,
                take,
                ignore_case,
            },
            GraderSpec::Numeric { pattern, tolerance } => Self::Numeric { pattern, tolerance },
            GraderSpec::Choice { pattern } => Self::Choice { pattern },
            GraderSpec::Likelihood { normalise } => Self::Likelihood { normalise },
        }
    }
}
