//! The binary format, behind two functions. The crate is unmaintained upstream and pinned; see `docs/decisions`.

use bincode::config::{Configuration, Fixint, LittleEndian};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// Integers as they are, little endian: a golden file can be read by eye, and no length depends on a value.
const FORMAT: Configuration<LittleEndian, Fixint> = bincode::config::standard().with_fixed_int_encoding();

pub(crate) fn append<T: Serialize>(value: &T, bytes: &mut Vec<u8>) -> Result<(), Error> {
    bincode::serde::encode_into_std_write(value, bytes, FORMAT).map_err(|error| Error::Encode(error.to_string()))?;
    Ok(())
}

pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let (value, used) =
        bincode::serde::decode_from_slice(bytes, FORMAT).map_err(|error| Error::Malformed(error.to_string()))?;
    if used == bytes.len() {
        Ok(value)
    } else {
        Err(Error::TrailingBytes {
            extra: bytes.len() - used,
        })
    }
}
