//! The first bytes of every internal message.
//!
//! ```text
//! offset 0  2  4  6  7
//!        TM schema version body kind   body
//! ```
//! `schema` and `version` are little-endian `u16`; the body kind is 0 for a body that follows and 1 for the key of a body
//! in the object store (claim check), in UTF-8.

const MAGIC: &[u8; 2] = b"TM";
const HEADER_BYTES: usize = 7;
const BODY_HERE: u8 = 0;
const BODY_CLAIMED: u8 = 1;

/// Why bytes are not the message that was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not written by Tidemill.
    #[error("not a message of ours: {length} bytes without the TM mark")]
    Foreign {
        /// How many bytes there were.
        length: usize,
    },
    /// A message of another kind.
    #[error("a message of schema {found}, where schema {expected} ({name}) belongs")]
    WrongSchema {
        /// The schema found.
        found: u16,
        /// The schema expected.
        expected: u16,
        /// The name of the expected one.
        name: &'static str,
    },
    /// Written by a newer (or a very old) Tidemill.
    #[error(
        "{name} version {found} is not known here (newest known: {known}); upgrade this service, then retry the message"
    )]
    UnknownVersion {
        /// The schema's name.
        name: &'static str,
        /// The version found.
        found: u16,
        /// The newest version this build reads.
        known: u16,
    },
    /// The body does not decode.
    #[error("malformed body: {0}")]
    Malformed(String),
    /// Bytes are left after the body.
    #[error("{extra} bytes after the end of the body")]
    TrailingBytes {
        /// How many.
        extra: usize,
    },
    /// A value that the format cannot hold.
    #[error("encode: {0}")]
    Encode(String),
    /// The body is in the object store and was not fetched.
    #[error("the body is in the object store under {key:?}")]
    Claimed {
        /// Its key.
        key: String,
    },
}

/// The opened envelope of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Which kind of message.
    pub schema: u16,
    /// Which version of that kind.
    pub version: u16,
    /// The body, or where it is.
    pub body: Body<'a>,
}

/// Where a message's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// Here.
    Here(&'a [u8]),
    /// In the object store, under this key.
    Claimed(&'a str),
}

impl<'a> Envelope<'a> {
    /// Opens the envelope of a message without decoding its body.
    ///
    /// # Errors
    /// [`Error::Foreign`] or [`Error::Malformed`].
    pub fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.len() < HEADER_BYTES || !bytes.starts_with(MAGIC) {
            return Err(Error::Foreign { length: bytes.len() });
        }
        let body = &bytes[HEADER_BYTES..];
        let body = match bytes[6] {
            BODY_HERE => Body::Here(body),
            BODY_CLAIMED => Body::Claimed(
                std::str::from_utf8(body).map_err(|error| Error::Malformed(format!("claim key: {error}")))?,
            ),
            kind => return Err(Error::Malformed(format!("body kind {kind}"))),
        };
        Ok(Self {
            schema: u16::from_le_bytes([bytes[2], bytes[3]]),
            version: u16::from_le_bytes([bytes[4], bytes[5]]),
            body,
        })
    }
}

pub(crate) fn header(schema: u16, version: u16, claimed: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&schema.to_le_bytes());
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.push(if claimed { BODY_CLAIMED } else { BODY_HERE });
    bytes
}
