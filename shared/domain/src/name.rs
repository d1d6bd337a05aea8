//! Names and ids as types of their own, so that a run is never passed where a team is meant.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Digest;

/// A name that cannot be used: empty, too long, or holding a control character.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} must have {rule}, but {name:?} does not")]
pub struct InvalidName {
    kind: &'static str,
    rule: &'static str,
    name: String,
}

/// The longest name accepted, in bytes; percent-encoded threefold it still fits a broker subject.
pub const MAX_NAME_BYTES: usize = 200;

const NAME_RULE: &str = "1 to 200 bytes and no control characters";
const ID_RULE: &str = "16 hexadecimal digits";

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $type(String);

        impl $type {
            /// Takes a name of 1 to [`MAX_NAME_BYTES`] bytes without control characters.
            ///
            /// # Errors
            /// [`InvalidName`] otherwise.
            pub fn try_new(name: impl Into<String>) -> Result<Self, InvalidName> {
                let name = name.into();
                if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
                    return Err(InvalidName { kind: concat!("a ", $kind, " name"), rule: NAME_RULE, name });
                }
                Ok(Self(name))
            }

            /// The name as written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;
            fn try_from(name: String) -> Result<Self, InvalidName> {
                Self::try_new(name)
            }
        }

        impl std::str::FromStr for $type {
            type Err = InvalidName;
            fn from_str(name: &str) -> Result<Self, InvalidName> {
                Self::try_new(name)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }
    };
}

name!(
    /// A training run.
    RunId,
    "run"
);
name!(
    /// The team that pays for an evaluation.
    TeamId,
    "team"
);
name!(
    /// A suite: a named, versioned set of benchmarks.
    SuiteName,
    "suite"
);
name!(
    /// A benchmark within its suite.
    BenchmarkName,
    "benchmark"
);

/// A training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Step(pub u64);

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

macro_rules! short_id {
    ($(#[$doc:meta])* $type:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $type(String);

        impl $type {
            /// Shortens a digest to the 16 hexadecimal digits of an id.
            #[must_use]
            pub fn from_digest(digest: &Digest) -> Self {
                Self(digest.hex()[..16].to_owned())
            }

            /// The 16 hexadecimal digits.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;
            fn try_from(id: String) -> Result<Self, InvalidName> {
                let well_formed = id.len() == 16 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
                if well_formed { Ok(Self(id)) } else { Err(InvalidName { kind: $kind, rule: ID_RULE, name: id }) }
            }
        }

        impl std::str::FromStr for $type {
            type Err = InvalidName;
            fn from_str(id: &str) -> Result<Self, InvalidName> {
                Self::try_from(id.to_owned())
            }
        }

        impl From<$type> for String {
            fn from(id: $type) -> String {
                id.0
            }
        }
    };
}

short_id!(
    /// An evaluation: one checkpoint measured by one suite. Made from what is evaluated, so the same request has the same id.
    EvaluationId,
    "an evaluation id"
);
short_id!(
    /// A server group: the engine replicas that hold one checkpoint.
    GroupId,
    "a group id"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_control_names_are_refused() {
        assert!(RunId::try_new("").is_err());
        assert!(RunId::try_new("a\nb").is_err());
        assert!(RunId::try_new("x".repeat(MAX_NAME_BYTES + 1)).is_err());
        assert_eq!(RunId::try_new("llama 3.1/лед").unwrap().as_str(), "llama 3.1/лед");
    }

    #[test]
    fn an_id_has_sixteen_hexadecimal_digits() {
        let id = EvaluationId::from_digest(&Digest::of(b"x"));
        assert_eq!(id.as_str().len(), 16);
        assert_eq!(id.as_str().parse::<EvaluationId>().unwrap(), id);
        let refused = "0123456789ABCDEF".parse::<EvaluationId>().unwrap_err().to_string();
        assert!(
            refused.starts_with("an evaluation id must have 16 hexadecimal digits"),
            "{refused}"
        );
        let refused = RunId::try_new("").unwrap_err().to_string();
        assert!(refused.starts_with("a run name must have 1 to 200 bytes"), "{refused}");
    }
}
