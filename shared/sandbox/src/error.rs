//! Why there is no sandbox, or why a run in it says nothing.

use std::time::Duration;

/// There is no sandbox of the level that is asked for; nothing untrusted may run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no sandbox: {reason}; {remedy}")]
pub struct Unavailable {
    /// What is missing or wrong.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl Unavailable {
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: remedy.into(),
        }
    }
}

/// A run that says nothing of the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The sandbox could not be set up.
    #[error("set the sandbox up: {0}")]
    SetUp(String),
    /// The time ran out, of which the host did not run the program for much, though it could have run.
    #[error("finish within {wall:?}: the host was too busy to run it for {starved:?} of that, and ran it for {cpu:?}")]
    Wall {
        /// The limit.
        wall: Duration,
        /// What was used of the CPU.
        cpu: Duration,
        /// For how long it wanted a CPU and had none.
        starved: Duration,
    },
    /// The host took the sandbox away.
    #[error("keep the sandbox: {0}")]
    Host(String),
    /// The tests cannot be run, whatever the program.
    #[error("run the tests: {0}")]
    Tests(String),
}

impl Fault {
    /// Another attempt may go well.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        !matches!(self, Self::Tests(_))
    }
}
