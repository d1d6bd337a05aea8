//! Text from a server, whatever bytes it holds.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};

/// A JSON string, borrowed where it can be.
///
/// Bytes that are no UTF-8 and surrogates without a partner are not refused: each is replaced by U+FFFD, which marks the
/// place and gives the same text, hence the same digest, every time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Text<'_> {
    pub(crate) fn into_string(self) -> String {
        self.0.into_owned()
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Asked for bytes, the JSON reader hands over what it cannot decode; asked for a string, it would fail.
        deserializer.deserialize_bytes(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Text<'de>, E> {
        Ok(Text(match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(with_replacements(bytes)),
        }))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(with_replacements(bytes))))
    }
}

/// One U+FFFD for each cut character or lone surrogate. The reader encodes a surrogate as three bytes of which the last two
/// look like stray continuations; these add nothing.
pub(crate) fn with_replacements(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut marked = false;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let Some(first) = chunk.invalid().first() else { break };
        let is_continuation = matches!(first, 0x80..=0xBF);
        if !(marked && is_continuation && chunk.valid().is_empty()) {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        marked = true;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &[u8]) -> String {
        serde_json::from_slice::<Text<'_>>(json).unwrap().into_string()
    }

    #[test]
    fn plain_text_is_borrowed_and_escapes_are_decoded() {
        let text: Text<'_> = serde_json::from_slice(b"\"plain\"").unwrap();
        assert!(matches!(text.0, Cow::Borrowed("plain")));
        assert_eq!(read(br#""a\n\ud83d\ude00""#), "a\n\u{1f600}");
    }

    #[test]
    fn each_damaged_character_is_marked_once() {
        for (json, text) in [
            (br#""a\ud800b""#.as_slice(), "a\u{fffd}b"),
            (br#""\udc00\ud800""#, "\u{fffd}\u{fffd}"),
            (b"\"caf\xc3\"", "caf\u{fffd}"),
            (b"\"\xe4\xbd end\"", "\u{fffd} end"),
            (b"\"\xff\xfe\"", "\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(read(json), text, "{}", String::from_utf8_lossy(json));
        }
    }
}
