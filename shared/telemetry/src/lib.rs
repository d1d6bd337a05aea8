//! Logs and metrics: every metric's name is in [`metric`], every log line goes through `tracing`.
//!
//! Label values come from closed sets; run, evaluation and item ids go to logs, never to labels.

mod logs;
pub mod metric;
mod recorder;
mod repeats;

pub use logs::{LogFormat, init_logs};
pub use metric::Metric;
pub use recorder::{add, count, install, observe, render, set};
pub use repeats::{Warning, is_said, say_rest};
