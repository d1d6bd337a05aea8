//! The aggregator: folds grades into results, and says when an evaluation is final.
//!
//! The fold is pure: grades may come in any order and any number of times, and a new process that reads them from the
//! start reaches the same result, so nothing is kept but the streams. It reads grades alone, never completions. One
//! aggregator at a time holds the lease; a second one would publish the same results again, which changes nothing.

mod compared;
mod estimate;
mod fold;
mod groups;
mod metrics;
mod tally;
mod verdict;

mod archive;
mod draining;
mod evaluation;
mod publish;
mod retraction;
mod service;

pub use archive::archive_now;
pub use compared::{Both, Contribution, FigureDifference, contribution, difference_of_figures};
pub use draining::Draining;
pub use fold::Fold;
pub use service::run;
pub use verdict::{Verdict, verdict, verdict_of_regrade};
