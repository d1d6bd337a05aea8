//! Why a text has no score.

/// The longest target that is compared, in bytes: its n-grams are kept in memory.
pub const MAX_TARGET_BYTES: usize = 1 << 20;

/// A fault of what was given, never of the text that is scored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A target is longer than [`MAX_TARGET_BYTES`].
    #[error("compare with a target of {bytes} bytes: at most {MAX_TARGET_BYTES}; shorten it")]
    LongTarget {
        /// Its length.
        bytes: usize,
    },
    /// There is no target.
    #[error("compare without a target: give at least one")]
    NoTarget,
    /// No instruction has this id.
    #[error("check the instruction {id:?}: unknown; did you mean {nearest:?}?")]
    Instruction {
        /// As it was given.
        id: String,
        /// The id that is spelt most like it.
        nearest: &'static str,
    },
    /// An argument of an instruction is missing or of another kind.
    #[error("check {id}: {argument} must be {wanted}, but is {found}")]
    Argument {
        /// The instruction.
        id: &'static str,
        /// Its argument.
        argument: &'static str,
        /// What it must be.
        wanted: &'static str,
        /// What was given.
        found: String,
    },
    /// As many arguments as instructions are needed.
    #[error("check instructions: {ids} ids, but {arguments} sets of arguments")]
    Arguments {
        /// Instructions.
        ids: usize,
        /// Sets of arguments.
        arguments: usize,
    },
    /// What should be JSON of some form is not.
    #[error("read {what}: must be {wanted}, but {reason}")]
    Json {
        /// What is read.
        what: &'static str,
        /// The form that is wanted.
        wanted: &'static str,
        /// What is the matter.
        reason: String,
    },
    /// A pattern does not compile within its bounds.
    #[error("compile the pattern {pattern:?}: {reason}")]
    Pattern {
        /// As it was given.
        pattern: String,
        /// What the engine says.
        reason: String,
    },
    /// A schema cannot be used.
    #[error("use the JSON schema: {reason}")]
    Schema {
        /// What is wrong with it.
        reason: String,
    },
    /// The language cannot be told, because the profiles cannot be read.
    #[error("read the language profiles")]
    Profiles,
}

/// Refuses targets that are none or too long to compare with.
///
/// # Errors
/// No target, or one longer than [`MAX_TARGET_BYTES`].
pub fn comparable<T: AsRef<str>>(targets: &[T]) -> Result<(), Error> {
    if targets.is_empty() {
        return Err(Error::NoTarget);
    }
    match targets.iter().map(|target| target.as_ref().len()).max() {
        Some(bytes) if bytes > MAX_TARGET_BYTES => Err(Error::LongTarget { bytes }),
        _ => Ok(()),
    }
}
