//! A checksum behind a message whose loss is cheap and whose corruption is not.

use crate::Error;

const SEAL_BYTES: usize = 16;

/// Appends the first 16 bytes of the message's BLAKE3 hash.
#[must_use]
pub fn seal(mut message: Vec<u8>) -> Vec<u8> {
    let hash = blake3::hash(&message);
    message.extend_from_slice(&hash.as_bytes()[..SEAL_BYTES]);
    message
}

/// The message before its seal.
///
/// # Errors
/// [`Error::Malformed`] when a bit is other than it was sealed.
pub fn unseal(sealed: &[u8]) -> Result<&[u8], Error> {
    let broken = || Error::Malformed("the checksum does not fit the content".to_owned());
    let length = sealed.len().checked_sub(SEAL_BYTES).ok_or_else(broken)?;
    let (message, seal) = sealed.split_at(length);
    if blake3::hash(message).as_bytes()[..SEAL_BYTES] == *seal {
        Ok(message)
    } else {
        Err(broken())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_breaks_the_seal() {
        let sealed = seal(b"answer".to_vec());
        assert_eq!(unseal(&sealed).unwrap(), b"answer");
        for bit in 0..8 * sealed.len() {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(&flipped).is_err(), "bit {bit}");
        }
        assert!(unseal(&sealed[..sealed.len() - 1]).is_err());
        assert!(unseal(b"short").is_err());
    }
}
