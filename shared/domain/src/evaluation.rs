//! The life of an evaluation as its events tell it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Digest, EvaluationId, EvaluationResult, GroupId, RunId, Source, Step, SuiteName, TeamId, Timestamp};

/// How urgent a suite is: each tier has an objective of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Fixed prompts that must not change.
    Canary,
    /// Watches a training run.
    #[default]
    InTraining,
    /// Decides whether a checkpoint is promoted.
    Promotion,
    /// Sweeps and ablations.
    Ablation,
}

impl Tier {
    /// The tier's name as suites write it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Canary => "canary",
            Self::InTraining => "in-training",
            Self::Promotion => "promotion",
            Self::Ablation => "ablation",
        }
    }
}

/// Names a suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SuiteRef {
    /// Its name.
    pub name: SuiteName,
    /// Its version, as the suite file states it.
    pub version: String,
    /// Its tier.
    pub tier: Tier,
}

/// The state that an event announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationState {
    /// Rendered and waiting for engines.
    Queued,
    /// A loader has taken it.
    Admitted,
    /// Engines are starting or being attached.
    Starting,
    /// Items are released.
    Serving,
    /// Release is paused.
    Paused,
    /// Nothing more is released; what is known will be counted and the evaluation ends invalid with the reason.
    Draining,
    /// Every declared sample has an outcome and the result counts.
    Final,
    /// Ended, but too much is missing or failed for the numbers to count.
    Invalid,
    /// Ended or abandoned because the run went back.
    Superseded,
}

impl EvaluationState {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Admitted,
        Self::Starting,
        Self::Serving,
        Self::Paused,
        Self::Draining,
        Self::Final,
        Self::Invalid,
        Self::Superseded,
    ];

    /// The state's token in subjects and JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Admitted => "admitted",
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Final => "final",
            Self::Invalid => "invalid",
            Self::Superseded => "superseded",
        }
    }

    /// Nothing more will happen unless the evaluation is announced again.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Final | Self::Invalid | Self::Superseded)
    }
}

/// An event of the EVALUATION stream: a state change, with everything a service needs to take part.
///
/// The state of an evaluation is that of its newest event by stream sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluationEvent {
    /// Version of this shape; 1.
    pub schema: u32,
    /// The evaluation.
    pub evaluation: EvaluationId,
    /// Its new state.
    pub state: EvaluationState,
    /// When the state was entered.
    pub at: Timestamp,
    /// The training run.
    pub run: RunId,
    /// The training step.
    pub step: Step,
    /// The team that pays.
    pub team: TeamId,
    /// Identity of the weights: the content digest of a checkpoint in files, else one made from the server's name.
    pub checkpoint: Digest,
    /// The suite.
    pub suite: SuiteRef,
    /// Digest of the manifest, which is its key in the object store.
    pub manifest: Digest,
    /// The server group that answers.
    pub group: GroupId,
    /// Where the weights are.
    pub source: Source,
    /// The most requests in flight, when the announcement set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Its samples are drawn anew: the generation cache takes no part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_cache: bool,
    /// Declared samples over all benchmarks.
    pub samples: u64,
    /// Why, for draining, invalid and superseded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The times known so far.
    pub timeline: Timeline,
    /// The whole result, for final and invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<EvaluationResult>>,
}

impl EvaluationEvent {
    /// The next event of the same evaluation.
    #[must_use]
    pub fn next(&self, state: EvaluationState, at: Timestamp, reason: Option<String>) -> Self {
        let mut timeline = self.timeline.clone();
        timeline.enter(state, at);
        Self {
            state,
            at,
            reason,
            timeline,
            result: None,
            ..self.clone()
        }
    }
}

/// When each stage was reached; absent where it has not been yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub struct Timeline {
    /// The checkpoint's writer finished.
    pub written: Option<Timestamp>,
    /// The announcement reached a loader.
    pub seen: Option<Timestamp>,
    /// The evaluation was queued.
    pub queued: Option<Timestamp>,
    /// A loader took it.
    pub admitted: Option<Timestamp>,
    /// The engines answered a real request.
    pub serving: Option<Timestamp>,
    /// The first request of an item started.
    pub first_request: Option<Timestamp>,
    /// The last completion ended.
    pub last_completion: Option<Timestamp>,
    /// The last grade was made.
    pub last_grade: Option<Timestamp>,
    /// The final result was published.
    pub visible: Option<Timestamp>,
}

impl Timeline {
    /// Notes when a state was first entered.
    pub fn enter(&mut self, state: EvaluationState, at: Timestamp) {
        let slot = match state {
            EvaluationState::Queued => &mut self.queued,
            EvaluationState::Admitted => &mut self.admitted,
            EvaluationState::Serving => &mut self.serving,
            _ => return,
        };
        slot.get_or_insert(at);
    }
}
