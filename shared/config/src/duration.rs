//! Durations written as `30s`, `5m`, `250ms`.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*duration))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|error| D::Error::custom(format!("{text:?} is not a duration such as 30s: {error}")))
}

/// Durations that must not be nothing: what waits for so long, or comes so often.
pub(crate) mod positive {
    use std::time::Duration;

    use serde::Deserializer;
    use serde::de::Error as _;

    pub(crate) use super::serialize;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        match super::deserialize(deserializer)? {
            Duration::ZERO => Err(D::Error::custom("0s is no duration to wait for: it must be longer")),
            duration => Ok(duration),
        }
    }
}
