//! Content digests: the identity of checkpoints, manifests and prompts.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A BLAKE3 digest, written `blake3:` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Digest(String);

/// A text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a digest: expected blake3: and 64 hexadecimal digits")]
pub struct InvalidDigest(String);

const PREFIX: &str = "blake3:";

impl Digest {
    /// Digests bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(blake3::hash(bytes))
    }

    /// Digests a list of parts; each is preceded by its length, so that no two lists run together.
    #[must_use]
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self::from_hash(hasher.finalize())
    }

    /// Takes a hash that was computed elsewhere, for instance over a file.
    #[must_use]
    pub fn from_hash(hash: blake3::Hash) -> Self {
        Self(format!("{PREFIX}{}", hash.to_hex()))
    }

    /// The 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.0[PREFIX.len()..]
    }

    /// The whole text, prefix included.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        match text.strip_prefix(PREFIX) {
            Some(hex) if hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => Ok(Self(text)),
            _ => Err(InvalidDigest(text)),
        }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(
            Digest::of_parts([b"ab".as_slice(), b"c"]),
            Digest::of_parts([b"a".as_slice(), b"bc"])
        );
    }

    #[test]
    fn only_whole_digests_parse() {
        let digest = Digest::of(b"weights");
        assert_eq!(Digest::try_from(digest.to_string()).unwrap(), digest);
        assert!(Digest::try_from("blake3:12".to_owned()).is_err());
        assert!(Digest::try_from(digest.hex().to_owned()).is_err());
    }
}
