//! Sizes written as `64MiB`, `1GiB`.

use bytesize::ByteSize;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// The broker needs room for a few messages at least.
const SMALLEST: u64 = 64 << 10;

pub(crate) fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    let unit = [(30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")];
    let (shift, name) = unit
        .into_iter()
        .find(|(shift, _)| bytes.trailing_zeros() >= *shift)
        .unwrap_or((0, "B"));
    serializer.collect_str(&format_args!("{}{name}", bytes >> shift))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let ByteSize(bytes) = text
        .parse()
        .map_err(|error| D::Error::custom(format!("{text:?} is not a size such as 64MiB: {error}")))?;
    if !(SMALLEST..=i64::MAX as u64).contains(&bytes) {
        return Err(D::Error::custom(format!(
            "{text:?} is below the smallest size, 64KiB, or beyond any store"
        )));
    }
    Ok(bytes)
}
