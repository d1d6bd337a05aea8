//! Which domain types travel, under which schema number and version.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_domain::{Block, ClusterColumn, Completion, Generation, Grade, Manifest, Release, WholeManifest};

use crate::envelope::{Body, Envelope, Error, header};
use crate::{binary, v1};

/// A type that travels in an envelope.
///
/// When a type changes, its version is raised, and the old shape moves to the module of its version ([`crate::v1`]) and is
/// converted in `decode_version` for as long as retention keeps messages of it. Golden files in `tests/golden` hold every
/// released version.
pub trait Wire: Serialize + DeserializeOwned {
    /// The number of the schema, never used again for another type.
    const SCHEMA: u16;
    /// The version that is written.
    const VERSION: u16;
    /// The name used in errors.
    const NAME: &'static str;

    /// Decodes a body of any version that is still read.
    ///
    /// # Errors
    /// [`Error::UnknownVersion`] or [`Error::Malformed`].
    fn decode_version(version: u16, body: &[u8]) -> Result<Self, Error> {
        if version == Self::VERSION {
            binary::read(body)
        } else {
            Err(unknown::<Self>(version))
        }
    }
}

const fn unknown<T: Wire>(found: u16) -> Error {
    Error::UnknownVersion {
        name: T::NAME,
        found,
        known: T::VERSION,
    }
}

impl Wire for Release {
    const SCHEMA: u16 = 1;
    const VERSION: u16 = 2;
    const NAME: &'static str = "release";

    fn decode_version(version: u16, body: &[u8]) -> Result<Self, Error> {
        match version {
            2 => binary::read(body),
            1 => binary::read::<v1::Release>(body).map(Self::from),
            _ => Err(unknown::<Self>(version)),
        }
    }
}

impl Wire for Completion {
    const SCHEMA: u16 = 2;
    const VERSION: u16 = 2;
    const NAME: &'static str = "completion";

    fn decode_version(version: u16, body: &[u8]) -> Result<Self, Error> {
        match version {
            2 => binary::read(body),
            1 => binary::read::<v1::Completion>(body).map(Self::from),
            _ => Err(unknown::<Self>(version)),
        }
    }
}

impl Wire for Grade {
    const SCHEMA: u16 = 3;
    const VERSION: u16 = 1;
    const NAME: &'static str = "grade";
}

impl Wire for Manifest {
    const SCHEMA: u16 = 4;
    const VERSION: u16 = 2;
    const NAME: &'static str = "manifest";
}

/// Version 1 of the manifest, which held its items. What it becomes has to be stored, so `tidemill-storage` converts it.
impl Wire for WholeManifest {
    const SCHEMA: u16 = 4;
    const VERSION: u16 = 1;
    const NAME: &'static str = "manifest";
}

impl Wire for Generation {
    const SCHEMA: u16 = 8;
    const VERSION: u16 = 1;
    const NAME: &'static str = "generation";
}

impl Wire for Block {
    const SCHEMA: u16 = 5;
    const VERSION: u16 = 1;
    const NAME: &'static str = "block";
}

impl Wire for ClusterColumn {
    const SCHEMA: u16 = 6;
    const VERSION: u16 = 1;
    const NAME: &'static str = "clusters";
}

/// Encodes a value with its envelope.
///
/// # Errors
/// [`Error::Encode`], which no value of these types causes.
pub fn encode<T: Wire>(value: &T) -> Result<Vec<u8>, Error> {
    let mut bytes = header(T::SCHEMA, T::VERSION, false);
    binary::append(value, &mut bytes)?;
    Ok(bytes)
}

/// Writes the envelope of a value whose encoded message lies in the object store under `key`.
#[must_use]
pub fn claim<T: Wire>(key: &str) -> Vec<u8> {
    let mut bytes = header(T::SCHEMA, T::VERSION, true);
    bytes.extend_from_slice(key.as_bytes());
    bytes
}

/// Decodes a message whose body is in it.
///
/// # Errors
/// Every variant of [`Error`] but `Encode`; [`Error::Claimed`] names the key under which the whole message lies.
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T, Error> {
    let envelope = Envelope::open(bytes)?;
    match envelope.body {
        Body::Here(body) => decode_body(envelope, body),
        Body::Claimed(key) => Err(Error::Claimed { key: key.to_owned() }),
    }
}

/// Decodes a body under the schema and version of its envelope.
///
/// # Errors
/// As [`decode`].
pub fn decode_body<T: Wire>(envelope: Envelope<'_>, body: &[u8]) -> Result<T, Error> {
    if envelope.schema != T::SCHEMA {
        return Err(Error::WrongSchema {
            found: envelope.schema,
            expected: T::SCHEMA,
            name: T::NAME,
        });
    }
    T::decode_version(envelope.version, body)
}
