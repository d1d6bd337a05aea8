//! What kind of failure something is: the one question whose answer decides what happens to a message.

/// The class of a failure. `tidemill-service` turns it into what is sent to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// May pass by itself (overload, time-out, a store that is away): tried again after a pause, counted.
    Transient,
    /// Will not pass (undecodable, unknown version, missing manifest entry): a dead letter with the reason.
    Permanent,
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
            Self::Cancelled => "cancelled",
            Self::Bug => "bug",
        }
    }
}
