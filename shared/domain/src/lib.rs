//! Plain types and pure rules that every part of Tidemill shares.
//!
//! Nothing here is asynchronous, reads a clock, touches a disk or knows the broker: a rule in this crate can be tested by
//! calling it. What travels as JSON (checkpoint events, evaluation events, results) derives its published schema here;
//! what travels in binary (releases, completions, grades, manifests) is encoded by `tidemill-codec`, which is why those
//! types use no serde feature that a non-describing format lacks.

mod block;
mod checkpoint;
mod completion;
mod digest;
mod evaluation;
mod expect;
mod failure;
mod generation;
mod grade;
mod grader_spec;
mod group;
mod judge;
mod key;
mod length;
mod manifest;
mod metric;
mod name;
mod outline;
mod partial;
mod release;
mod result;
mod time;
mod trace;
mod whole;
mod words;

pub use block::{
    BLOCK_BYTES, BLOCK_ITEMS, Block, BlockRef, ClusterColumn, ClustersRef, Columns, ColumnsRef, Packer, SubsetColumn,
    WeightColumn,
};
pub use checkpoint::{CheckpointEvent, RolledBack, Source, Written};
pub use completion::{ChoiceScore, Completion, Ending, Served};
pub use digest::Digest;
pub use evaluation::{EvaluationEvent, EvaluationState, SuiteRef, Tier, Timeline};
pub use expect::{ANSWERS_OF_A_SPREAD, Expectation, Known, Lengths, Prefixes, Spread, answer_class, expectation};
pub use failure::Class;
pub use generation::{Asked, Generation, GenerationKey, InvalidGenerationKey, LANE, Question, Reuse};
pub use grade::{Grade, Measured, Outcome, Span};
pub use grader_spec::{
    AnswerPattern, CodeLanguage, CodeLimits, GraderSpec, JsonCheck, Normalise, Normaliser, ProgramPlace, RougeMeasure,
    Take, Tokenise, Words,
};
pub use group::{Capacity, EngineKind, Replica, ReplicaLoad, ServerGroup, Trouble, TroubleKind};
pub use judge::{
    ANSWER_MARK, FIRST_MARK, JUDGE_PROMPT, JUDGE_REFERENCE, JUDGE_SYSTEM, JudgeCost, JudgeSpec, JudgeUse, SECOND_MARK,
    VerdictForm, Verdicts,
};
pub use key::ItemKey;
pub use length::{AnswerLength, InvalidLength, class_length, length_class};
pub use manifest::{Benchmark, Continuation, Item, Manifest, Message, Penalties, Prompt, Settings};
pub use metric::{Aggregation, Average, Group, GroupMean, Member, Metric, MetricSource, Reasoning};
pub use name::{BenchmarkName, EvaluationId, GroupId, InvalidName, MAX_NAME_BYTES, RunId, Step, SuiteName, TeamId};
pub use outline::Outline;
pub use partial::{Mark, Parked, Partial};
pub use release::Release;
pub use result::{
    BenchmarkResult, EvaluationResult, GroupResult, MetricResult, OutcomeCounts, ResultMessage, ResultState,
    SubsetResult,
};
pub use time::Timestamp;
pub use trace::TraceContext;
pub use whole::{WholeBenchmark, WholeManifest};
pub use words::{counted, counted_as};
