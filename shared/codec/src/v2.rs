//! Version 2 of what has changed since. Bodies of it are converted as long as retention keeps them.

use serde::{Deserialize, Serialize};
use tidemill_domain::{
    BenchmarkName, BlockRef, ChoiceScore, ClustersRef, Continuation, Digest, Ending, GenerationKey, ItemKey, Outcome,
    Penalties, Reuse, Served, Settings, SuiteRef, Timestamp,
};

use crate::{Wire, v1, v3};

/// A release, version 2: without what is expected of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// What to generate.
    pub key: ItemKey,
    /// The manifest that holds its prompt and settings.
    pub manifest: Digest,
    /// The item may have been released before.
    pub again: bool,
    /// Whether an earlier generation may answer it.
    pub reuse: Reuse,
}

impl Wire for Release {
    const SCHEMA: u16 = 1;
    const VERSION: u16 = 2;
    const NAME: &'static str = "release";
}

impl From<Release> for tidemill_domain::Release {
    fn from(old: Release) -> Self {
        let Release {
            key,
            manifest,
            again,
            reuse,
        } = old;
        Self {
            key,
            manifest,
            again,
            reuse,
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
            reuse: new.reuse,
        }
    }
}

/// A completion, version 2: without how it was served.
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
    /// What the generation cache knows the answer by.
    pub generation: Option<GenerationKey>,
    /// The replica that answered.
    pub engine: String,
    /// When the first request was sent.
    pub started: Timestamp,
    /// When the ending was known.
    pub finished: Timestamp,
}

impl Wire for Completion {
    const SCHEMA: u16 = 2;
    const VERSION: u16 = 2;
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
            generation: old.generation,
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
            generation: new.generation,
            engine: new.engine,
            started: new.started,
            finished: new.finished,
        }
    }
}

/// A grade, version 2: without where it was cut, and whether anything was replaced.
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
    /// From the completion.
    pub served: Served,
    /// When the first request was sent.
    pub started: Timestamp,
    /// When the completion ended.
    pub finished: Timestamp,
    /// When the grade was made.
    pub graded: Timestamp,
}

impl Wire for Grade {
    const SCHEMA: u16 = 3;
    const VERSION: u16 = 2;
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
            grader: old.grader,
            reason: old.reason,
            truncated: old.truncated,
            cut_in_reasoning: false,
            replaced: false,
            extractor: None,
            span: None,
            canonical: None,
            measures: Vec::new(),
            judge: None,
            prompt_tokens: old.prompt_tokens,
            completion_tokens: old.completion_tokens,
            requests: old.requests,
            cached: old.cached,
            served: old.served,
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
            served: new.served,
            started: new.started,
            finished: new.finished,
            graded: new.graded,
        }
    }
}

/// A manifest, version 2: without penalties, continuation, spare samples and outlines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The suite it was rendered from.
    pub suite: SuiteRef,
    /// Share of failed samples above which an evaluation is invalid.
    pub max_failure_rate: f64,
    /// At least one.
    pub benchmarks: Vec<Benchmark>,
}

/// A benchmark of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    /// Its name.
    pub name: BenchmarkName,
    /// How completions are asked for.
    pub settings: Settings,
    /// How they are graded.
    pub grader: v1::GraderSpec,
    /// How many items it has.
    pub items: u32,
    /// The blocks that hold them.
    pub blocks: Vec<BlockRef>,
    /// Which items belong together.
    pub clusters: Option<ClustersRef>,
}

impl Wire for Manifest {
    const SCHEMA: u16 = 4;
    const VERSION: u16 = 2;
    const NAME: &'static str = "manifest";
}

impl From<Manifest> for v3::Manifest {
    fn from(old: Manifest) -> Self {
        Self {
            suite: old.suite,
            max_failure_rate: old.max_failure_rate,
            benchmarks: old.benchmarks.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Benchmark> for v3::Benchmark {
    fn from(old: Benchmark) -> Self {
        Self {
            name: old.name,
            settings: old.settings,
            grader: old.grader,
            items: old.items,
            blocks: old.blocks,
            clusters: old.clusters,
            penalties: Penalties::default(),
            continuation: Continuation::default(),
            spare_samples: 0,
            outlines: Vec::new(),
        }
    }
}
