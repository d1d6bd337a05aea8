//! Task files of lm-evaluation-harness, read as they are.
//!
//! A task file becomes a [`Task`]: everything that it says, resolved and checked, with nothing left to interpret. From a task
//! and its rows come the requests (the bytes that a model is asked), and from the answers the values of its metrics, both as
//! lm-evaluation-harness 0.4.13 makes them. What a file asks for and this crate does not do is refused by the key that asks
//! for it: a task that loads means the same here as there.
//!
//! No Python is run. Of the functions that task files name in Python modules beside them, a short list is known by the shape
//! of its source and done here: see [`native`].

pub mod file;
pub mod filter;
pub mod grading;
pub mod group;
pub mod index;
pub mod load_table;
pub mod metric;
pub mod native;
pub mod python;
pub mod random;
pub mod refusal;
pub mod request;
pub mod rows;
pub mod shots;
pub mod strict;
pub mod task;
pub mod yaml;

mod normalise;
mod pattern;
mod read;
mod template;

#[cfg(test)]
mod tests;

pub use grading::Grading;
pub use group::{AggregateMetric, Child, Group};
pub use index::{Entry, Index, Kind};
pub use refusal::{Place, Refusal};
pub use task::Task;
