//! The aggregator: folds grades into results.
//!
//! The fold is pure: grades may come in any order and any number of times, and a new process that reads them from the
//! start reaches the same result, so nothing is kept but the streams. It reads grades alone, never completions.

mod fold;
mod tally;
mod verdict;

pub use fold::Fold;
pub use verdict::{Verdict, verdict};
