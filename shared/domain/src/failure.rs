//! What kind of failure something is: the one question whose answer decides what happens to a message.

/// The class of a failure. `tidemill-service` turns it into what is sent to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// May pass by itself (overload, time-out, a store that is away): tried again after a pause, counted.
    Transient,
    /// Will not pass (undecodable, missing manifest entry): its outcome is recorded, then a dead letter with the reason.
    Permanent,
    /// Written by a newer version: left to newer processes for a while, then a dead letter without an outcome, which an
    /// operator retries when the right version runs.
    Newer,
    /// Work given back on purpose (drain, preemption): returned at once, not counted as a failure.
    Cancelled,
    /// A broken invariant of ours: nothing is sent, the broker redelivers, an operator is told.
    Bug,
}

impl Class {
    /// The label under which failures of this class are counted.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Newer => "newer",
            Self::Cancelled => "cancelled",
            Self::Bug => "bug",
        }
    }
}
