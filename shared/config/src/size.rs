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

#[cfg(test)]
mod tests {
    use crate::{Cache, Config, dump};

    fn read(max_bytes: &str) -> Result<Cache, toml::de::Error> {
        toml::from_str(&format!("max_bytes = {max_bytes:?}"))
    }

    #[test]
    fn sizes_are_read_in_binary_units_and_written_back() {
        for (text, bytes) in [
            ("64KiB", 64 << 10),
            ("3 MiB", 3 << 20),
            ("1GiB", 1 << 30),
            ("100001B", 100_001),
        ] {
            let cache = read(text).unwrap();
            assert_eq!(cache.max_bytes, bytes, "{text}");
            let config = Config {
                cache,
                ..Config::default()
            };
            assert_eq!(toml::from_str::<Config>(&dump(&config)).unwrap(), config);
        }
        assert!(dump(&Config::default()).contains("max_bytes = \"1GiB\""));
    }

    #[test]
    fn what_is_no_size_or_no_room_is_refused_with_an_example() {
        for text in ["", "much", "-1MiB", "1 parsec", "1KiB", "99999999999GiB"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("64"), "{text}: {error}");
        }
    }
}
