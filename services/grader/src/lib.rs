//! The grader: takes completions from DONE as they land and writes their grades to GRADE.
//!
//! What an answer is worth is decided by pure functions, one module a family, each named and versioned: a grade says
//! `numeric@3`, so a change of what a family accepts is a new version and old grades stay explainable. Nothing here decides
//! which samples count or what their mean is; that is the aggregator's.

mod anchor;
mod answer;
mod backlog;
#[cfg(test)]
mod bench;
#[cfg(test)]
mod cases_tests;
mod choice;
mod code;
mod command;
mod error;
mod exact;
mod family;
mod grade;
mod instructions;
mod json_schema;
mod judge;
mod lanes;
mod likelihood;
mod load;
mod maths;
mod normal;
mod number;
mod numeric;
mod overlap;
mod pattern;
mod pipelines;
mod pool;
mod regex;
mod regrading;
mod runner;
mod service;
pub mod step;
mod suite;
mod turns;

pub use backlog::{Backlog, backlog};
pub use error::{Error, Postponed};
pub use grade::{Grader, grade};
pub use regrading::Regrading;
pub use runner::Runners;
pub use service::run;
pub use suite::Suite;
