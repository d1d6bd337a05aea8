//! Which domain types travel, under which schema number and version.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_domain::{
    Block, ClusterColumn, Completion, Generation, Grade, Lengths, Manifest, Outline, Parked, Release, Spread,
    SubsetColumn, WeightColumn,
};

use crate::envelope::{Body, Envelope, Error, header};
use crate::shift::{NEWER_FIELD, Shift, shift};
use crate::{binary, v1, v2, v3};

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

    /// Appends the body as the version before this one wrote it; `None` where there was none whose shape is kept. Nothing
    /// but a test of a rolling upgrade writes it.
    fn append_previous(&self, _body: &mut Vec<u8>) -> Option<Result<(), Error>> {
        None
    }

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
    const VERSION: u16 = 3;
    const NAME: &'static str = "release";

    fn append_previous(&self, body: &mut Vec<u8>) -> Option<Result<(), Error>> {
        Some(binary::append(&v2::Release::from(self), body))
    }

    fn decode_version(version: u16, body: &[u8]) -> Result<Self, Error> {
        match version {
            3 => binary::read(body),
            2 => binary::read::<v2::Release>(body).map(Self::from),
            1 => binary::read::<v1::Release>(body).map(Self::from),
            _ => Err(unknown::<Self>(version)),
        }
    }
}

impl Wire for Completion {
    const SCHEMA: u16 = 2;
    const VERSION: u16 = 3;
    const NAME: &'static str = "completion";

    fn append_previous(&self, body: &mut Vec<u8>) -> Option<Result<(), Error>> {
        Some(binary::append(&v2::Completion::from(self), body))
    }

    fn decode_version(version: u16, body: &[u8]) -> Result<Self, Error> {
        match version {
            3 => binary::read(body),
            2 => binary::read::<v2::Completion>(body).map(Self::from),
            1 => binary::read::<v1::Completion>(body).map(Self::from),
            _ => Err(unknown::<Self>(version)),
        }
    }
}

impl Wire for Grade {
    const SCHEMA: u16 = 3;
    const VERSION: u16 = 4;
    const NAME: &'static str = "grade";

    fn append_previous(&self, body: &mut Vec<u8>) -> Option<Result<(), Error>> {
        Some(binary::append(self, body))
    }

    fn decode_version(version: u16, body: &[u8]) -> Result<Self, Error> {
        match version {
            // Version 3 is this one without votes.
            4 | 3 => binary::read(body),
            2 => binary::read::<v2::Grade>(body).map(Self::from),
            1 => binary::read::<v1::Grade>(body).map(Self::from),
            _ => Err(unknown::<Self>(version)),
        }
    }
}

impl Wire for Manifest {
    const SCHEMA: u16 = 4;
    const VERSION: u16 = 5;
    const NAME: &'static str = "manifest";

    fn decode_version(version: u16, body: &[u8]) -> Result<Self, Error> {
        match version {
            // Version 4 is this one without the filters and metrics of task files, and what samples vote for.
            5 | 4 => binary::read(body),
            3 => binary::read::<v3::Manifest>(body).map(Self::from),
            2 => binary::read::<v2::Manifest>(body).map(|old| v3::Manifest::from(old).into()),
            _ => Err(unknown::<Self>(version)),
        }
    }
}

impl Wire for Generation {
    const SCHEMA: u16 = 8;
    const VERSION: u16 = 1;
    const NAME: &'static str = "generation";
}

impl Wire for Parked {
    const SCHEMA: u16 = 9;
    const VERSION: u16 = 1;
    const NAME: &'static str = "parked";
}

impl Wire for Outline {
    const SCHEMA: u16 = 10;
    const VERSION: u16 = 1;
    const NAME: &'static str = "outline";
}

impl Wire for Lengths {
    const SCHEMA: u16 = 11;
    const VERSION: u16 = 1;
    const NAME: &'static str = "lengths";
}

impl Wire for Spread {
    const SCHEMA: u16 = 12;
    const VERSION: u16 = 1;
    const NAME: &'static str = "spread";
}

impl Wire for Block {
    const SCHEMA: u16 = 5;
    const VERSION: u16 = 2;
    const NAME: &'static str = "block";

    fn decode_version(version: u16, body: &[u8]) -> Result<Self, Error> {
        match version {
            2 => binary::read(body),
            1 => binary::read::<v1::Block>(body).map(Self::from),
            _ => Err(unknown::<Self>(version)),
        }
    }
}

impl Wire for SubsetColumn {
    const SCHEMA: u16 = 13;
    const VERSION: u16 = 1;
    const NAME: &'static str = "subsets";
}

impl Wire for WeightColumn {
    const SCHEMA: u16 = 14;
    const VERSION: u16 = 1;
    const NAME: &'static str = "weights";
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
    encode_shifted(value, shift())
}

fn encode_shifted<T: Wire>(value: &T, shift: Shift) -> Result<Vec<u8>, Error> {
    if shift == Shift::Older {
        let mut bytes = header(T::SCHEMA, T::VERSION - 1, false);
        if let Some(appended) = value.append_previous(&mut bytes) {
            return appended.map(|()| bytes);
        }
    }
    let mut bytes = header(T::SCHEMA, written_version::<T>(shift), false);
    binary::append(value, &mut bytes)?;
    if shift == Shift::Newer {
        bytes.extend_from_slice(&NEWER_FIELD);
    }
    Ok(bytes)
}

/// The version of a body that is written whole.
const fn written_version<T: Wire>(shift: Shift) -> u16 {
    match shift {
        Shift::Newer => T::VERSION + 1,
        Shift::None | Shift::Older => T::VERSION,
    }
}

/// Writes the envelope of a value whose encoded message lies in the object store under `key`.
#[must_use]
pub fn claim<T: Wire>(key: &str) -> Vec<u8> {
    let mut bytes = header(T::SCHEMA, written_version::<T>(shift()), true);
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
    decode_shifted(envelope.version, body, shift())
}

fn decode_shifted<T: Wire>(version: u16, body: &[u8], shift: Shift) -> Result<T, Error> {
    match shift {
        Shift::Newer if version == T::VERSION + 1 => match body.strip_suffix(&NEWER_FIELD) {
            Some(body) => T::decode_version(T::VERSION, body),
            None => Err(Error::Malformed("without the field that version has".to_owned())),
        },
        Shift::Older if version == T::VERSION => {
            let value = T::decode_version(version, body)?;
            // A type without an older shape is the same in both.
            match value.append_previous(&mut Vec::new()) {
                None => Ok(value),
                Some(_) => Err(Error::UnknownVersion {
                    name: T::NAME,
                    found: version,
                    known: T::VERSION - 1,
                }),
            }
        }
        Shift::None | Shift::Older | Shift::Newer => T::decode_version(version, body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::{Digest, EvaluationId, ItemKey};

    /// The second version of a type that had one field less.
    #[derive(Debug, Clone, PartialEq, Serialize, serde::Deserialize)]
    struct Second {
        kept: u32,
        added: u8,
    }

    impl Wire for Second {
        const SCHEMA: u16 = 900;
        const VERSION: u16 = 2;
        const NAME: &'static str = "second";

        fn append_previous(&self, body: &mut Vec<u8>) -> Option<Result<(), Error>> {
            Some(binary::append(&self.kept, body))
        }

        fn decode_version(version: u16, body: &[u8]) -> Result<Self, Error> {
            match version {
                1 => binary::read(body).map(|kept| Self { kept, added: 0 }),
                2 => binary::read(body),
                found => Err(Error::UnknownVersion {
                    name: Self::NAME,
                    found,
                    known: 2,
                }),
            }
        }
    }

    fn decode<T: Wire>(bytes: &[u8], shift: Shift) -> Result<T, Error> {
        let envelope = Envelope::open(bytes)?;
        match envelope.body {
            Body::Here(body) => decode_shifted(envelope.version, body, shift),
            Body::Claimed(_) => Err(Error::Malformed("claimed".to_owned())),
        }
    }

    #[test]
    fn each_version_reads_itself_and_those_before() {
        let value = Second { kept: 7, added: 9 };
        let written = |shift| encode_shifted(&value, shift).unwrap();
        let (older, same, newer) = (written(Shift::Older), written(Shift::None), written(Shift::Newer));
        assert_eq!([&older, &same, &newer].map(|bytes| bytes[4]), [1, 2, 3]);
        let cut = Second { kept: 7, added: 0 };
        for shift in [Shift::Older, Shift::None, Shift::Newer] {
            assert_eq!(decode::<Second>(&older, shift).unwrap(), cut, "{shift:?}");
        }
        assert_eq!(decode::<Second>(&same, Shift::None).unwrap(), value);
        assert_eq!(decode::<Second>(&same, Shift::Newer).unwrap(), value);
        assert_eq!(decode::<Second>(&newer, Shift::Newer).unwrap(), value);
    }

    #[test]
    fn each_version_names_the_later_ones_that_it_does_not_read() {
        let value = Second { kept: 7, added: 9 };
        let refused = |written, read| {
            let bytes = encode_shifted(&value, written).unwrap();
            match decode::<Second>(&bytes, read) {
                Err(Error::UnknownVersion { found, known, .. }) => (found, known),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(Shift::None, Shift::Older), (2, 1));
        assert_eq!(refused(Shift::Newer, Shift::None), (3, 2));
    }

    #[test]
    fn a_type_without_an_older_shape_is_the_same_in_both() {
        let key = ItemKey {
            evaluation: EvaluationId::from_digest(&Digest::of(b"e")),
            benchmark: 0,
            item: 1,
            sample: 2,
        };
        #[derive(Debug, Clone, PartialEq, Serialize, serde::Deserialize)]
        struct First(ItemKey);
        impl Wire for First {
            const SCHEMA: u16 = 901;
            const VERSION: u16 = 1;
            const NAME: &'static str = "first";
        }
        let bytes = encode_shifted(&First(key.clone()), Shift::Older).unwrap();
        assert_eq!(bytes, encode_shifted(&First(key.clone()), Shift::None).unwrap());
        assert_eq!(decode::<First>(&bytes, Shift::Older).unwrap(), First(key));
    }
}
