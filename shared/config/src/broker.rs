//! What a deployment's durability is chosen with.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// When the command's own broker makes the disk keep what it has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncInterval {
    /// Before each acknowledgement.
    Always,
    /// So often; a loss of power loses what was acknowledged since.
    Every(Duration),
}

impl fmt::Display for SyncInterval {
    /// As the server's configuration has it, too.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => formatter.write_str("always"),
            Self::Every(interval) if interval.subsec_millis() == 0 => write!(formatter, "{}s", interval.as_secs()),
            Self::Every(interval) => write!(formatter, "{}ms", interval.as_millis()),
        }
    }
}

impl Serialize for SyncInterval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SyncInterval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "always" {
            return Ok(Self::Always);
        }
        match humantime::parse_duration(&text) {
            Ok(interval) if interval >= Duration::from_millis(1) => Ok(Self::Every(interval)),
            _ => Err(D::Error::custom(format!(
                "{text:?} is neither \"always\" nor a duration such as 30s"
            ))),
        }
    }
}

/// Reads the name of an engine, or none.
pub(crate) fn engine_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    const KINDS: [&str; 6] = ["", "openai", "vllm", "sglang", "llamacpp", "embedded"];
    let kind = String::deserialize(deserializer)?;
    if KINDS.contains(&kind.as_str()) {
        return Ok(kind);
    }
    let known = KINDS[1..].join(", ");
    Err(D::Error::custom(format!(
        "engine_kind is {kind:?}, which is none of {known}"
    )))
}

/// Reads a number of things of which there must be some.
pub(crate) fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Err(D::Error::custom("0 is too few: it must be at least 1")),
        number => Ok(number),
    }
}

/// Reads a number of copies.
pub(crate) fn replicas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        replicas @ (1 | 3 | 5) => Ok(replicas),
        other => Err(D::Error::custom(format!(
            "replicas is {other}: 1, 3 or 5 copies can be kept, since more than half of them must agree"
        ))),
    }
}
