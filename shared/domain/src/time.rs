//! Points in time as they are stored and shown.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Microseconds since the Unix epoch, UTC. RFC 3339 in JSON, an integer in binary formats.
///
/// Reading the clock is left to the callers, so that rules which use time stay pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String", extend("format" = "date-time"))]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Seconds from `earlier` to this time; negative when `earlier` is later.
    #[must_use]
    pub fn seconds_since(self, earlier: Self) -> f64 {
        (self.0 - earlier.0) as f64 / 1e6
    }

    /// The time that is so much later.
    #[must_use]
    pub fn later_by(self, duration: std::time::Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// The time as RFC 3339 text in UTC.
    #[must_use]
    pub fn rfc3339(self) -> String {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000)
            .ok()
            .and_then(|time| time.format(&Rfc3339).ok())
            .unwrap_or_else(|| format!("@{}us", self.0))
    }

    /// Reads RFC 3339 text.
    ///
    /// # Errors
    /// When the text is not a time in RFC 3339.
    pub fn parse(text: &str) -> Result<Self, time::error::Parse> {
        let time = OffsetDateTime::parse(text, &Rfc3339)?;
        Ok(Self(
            i64::try_from(time.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX),
        ))
    }
}

impl From<std::time::SystemTime> for Timestamp {
    fn from(time: std::time::SystemTime) -> Self {
        let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&self.rfc3339())
        } else {
            serializer.serialize_i64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
        } else {
            i64::deserialize(deserializer).map(Self)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_shows_rfc_3339_and_reads_it_back() {
        let time = Timestamp(1_764_424_800_123_456);
        assert_eq!(serde_json::to_string(&time).unwrap(), "\"2025-11-29T14:00:00.123456Z\"");
        assert_eq!(
            serde_json::from_str::<Timestamp>("\"2025-11-29T15:00:00.123456+01:00\"").unwrap(),
            time
        );
    }
}
