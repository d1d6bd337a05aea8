//! Suites: from a suite file and its data to a rendered [`Manifest`](tidemill_domain::Manifest) and
//! its blocks of items.
//!
//! Everything that can be wrong with a suite is found here, before anything is generated, and all of it is reported at
//! once: a misspelt field, a template that names a missing column, two rows with one id. A manifest that this crate hands
//! out needs no further checks. It is also where few-shot examples, ids and the forms of a target are settled, so that
//! generators and graders see finished texts only.
//!
//! Nothing here talks to an engine, counts tokens or compares answers. Reading is blocking: callers inside a runtime use a
//! blocking thread.
//!
//! [`SuiteFile`] documents every field of a suite and its default; [`load()`] documents how rows become items.

mod suite;

mod load;
mod material;

mod answer;
mod code_spec;
mod data;
mod decode;
mod error;
mod faults;
mod fields;
mod grader_spec;
mod groups;
mod ids;
mod judge_spec;
mod looked;
mod null;
mod options;
mod overrides;
mod render;
mod shots;
mod shots_spec;
mod sink;
mod task;
mod template;

pub use error::{BenchmarkLabel, Place, SuiteError, SuiteErrors, Warning};
pub use load::{LoadError, Loaded, load};
pub use looked::{Counted, Extent, Picked};
pub use overrides::{Overrides, misfit};
pub use sink::{Collected, Sink, Stopped};
pub use suite::{
    BenchmarkKind, BenchmarkTable, DefaultsTable, FewShotChoice, GraderTable, GroupTable, MeanName, MessageTable,
    ReasoningMarks, ReasoningName, ReasoningTable, SuiteFile, TaskTable, suite_schema,
};
