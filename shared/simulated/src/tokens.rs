//! Token ids and the text they stand for.
//!
//! No table is learnt: an id *is* its text. A word of the answers' vocabulary is one token; any other text is cut into pieces
//! of at most three bytes, each packed into its id, never across the white space before a word; a character of four bytes is a
//! token of its own. So ids and text turn into each other anywhere, also on another replica.
//!
//! What the engine generates has [`GENERATED`] set in its ids, and the same text. An engine that is given a prompt's ids and
//! the first ids of its answer thus knows where the answer began, and goes on with it. Tokenising an answer's text does not
//! give these ids: as with real engines, only ids continue exactly.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

/// Ends an answer; has no text.
pub const END: u32 = 0;
/// Stands in front of a prompt where the engine adds it; has no text.
pub const BEGIN: u32 = 1;
/// Set in the ids of what was generated.
pub const GENERATED: u32 = 1 << 25;

const WORD: u32 = 16;
const ONE_BYTE: u32 = 1 << 10;
const TWO_BYTES: u32 = ONE_BYTE + (1 << 8);
const THREE_BYTES: u32 = TWO_BYTES + (1 << 16);
const CHARACTER: u32 = THREE_BYTES + (1 << 24);
/// Ids from here on, without [`GENERATED`], are none.
pub const VOCABULARY: u32 = CHARACTER + 0x11_0000;

/// What answers are made of besides the answer proper.
pub(crate) const WORDS: [&str; 64] = [
    " the", " of", " and", " to", " a", " in", " is", " that", " it", " we", " so", " as", " with", " for", " then",
    " first", " next", " let", " us", " take", " sum", " from", " both", " sides", " gives", " which", " means",
    " because", " since", " each", " term", " must", " be", " less", " than", " more", " now", " check", " this",
    " step", " again", " value", " two", " three", " case", " holds", " when", " all", " at", " one", " part", " left",
    " right", " hence", " follows", " by", " same", " rule", " also", " can", " not", " if", " there", " find",
];

static WORD_IDS: LazyLock<HashMap<&'static str, u32>> =
    LazyLock::new(|| (WORD..).zip(WORDS).map(|(id, word)| (word, id)).collect());

/// The id of the vocabulary's word at `index`, counted around.
pub(crate) const fn word(index: u64) -> u32 {
    // Below 64.
    WORD + (index % WORDS.len() as u64) as u32
}

/// The ids of a text.
#[must_use]
pub fn tokenize(text: &str) -> Vec<u32> {
    let mut ids = Vec::with_capacity(text.len() / 3 + 1);
    let (mut start, mut in_word) = (0, false);
    for (at, character) in text.char_indices() {
        if character.is_whitespace() && in_word {
            push_word(&text[start..at], &mut ids);
            start = at;
        }
        in_word = !character.is_whitespace();
    }
    push_word(&text[start..], &mut ids);
    ids
}

fn push_word(word: &str, ids: &mut Vec<u32>) {
    if let Some(id) = WORD_IDS.get(word) {
        ids.push(*id);
        return;
    }
    let mut piece = (0_u32, 0_u32);
    for character in word.chars() {
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).as_bytes();
        if piece.1 as usize + bytes.len() > 3 {
            push_piece(&mut piece, ids);
        }
        if bytes.len() == 4 {
            ids.push(CHARACTER + u32::from(character));
            continue;
        }
        for byte in bytes {
            piece = ((piece.0 << 8) | u32::from(*byte), piece.1 + 1);
        }
    }
    push_piece(&mut piece, ids);
}

fn push_piece(piece: &mut (u32, u32), ids: &mut Vec<u32>) {
    let (packed, bytes) = std::mem::take(piece);
    match bytes {
        1 => ids.push(ONE_BYTE + packed),
        2 => ids.push(TWO_BYTES + packed),
        3 => ids.push(THREE_BYTES + packed),
        _ => {}
    }
}

/// Whether an id stands for something.
#[must_use]
pub const fn is_known(id: u32) -> bool {
    (id & !GENERATED) < VOCABULARY
}

/// Writes the text of one token to `text`. Bytes that are no text, which only made-up ids hold, become the replacement character.
pub fn write_text(id: u32, text: &mut String) {
    let id = id & !GENERATED;
    if let Some(word) = id.checked_sub(WORD).and_then(|index| WORDS.get(index as usize)) {
        text.push_str(word);
        return;
    }
    let (packed, length) = match id {
        CHARACTER..VOCABULARY => {
            text.push(char::from_u32(id - CHARACTER).unwrap_or(char::REPLACEMENT_CHARACTER));
            return;
        }
        THREE_BYTES.. => (id - THREE_BYTES, 3),
        TWO_BYTES.. => (id - TWO_BYTES, 2),
        ONE_BYTE.. => (id - ONE_BYTE, 1),
        _ => return,
    };
    text.push_str(&String::from_utf8_lossy(&packed.to_be_bytes()[4 - length..]));
}

/// The text of a sequence of tokens.
#[must_use]
pub fn text(ids: &[u32]) -> String {
    let mut text = String::with_capacity(ids.len() * 5);
    for id in ids {
        write_text(*id, &mut text);
    }
    text
}

/// A prompt's ids cut where its answer began: what was asked, without a [`BEGIN`] in front, and what was generated so far.
#[must_use]
pub fn split(ids: &[u32]) -> (&[u32], &[u32]) {
    let ids = ids.strip_prefix(&[BEGIN]).unwrap_or(ids);
    let generated = ids.iter().rev().take_while(|id| **id & GENERATED != 0).count();
    ids.split_at(ids.len() - generated)
}

/// One token's text, as log-probabilities name it.
pub(crate) struct Piece(pub(crate) u32);

impl fmt::Display for Piece {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_text(self.0, &mut text);
        formatter.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_its_ids() {
        for sample in [
            "",
            " ",
            "Q: 1 +  2\nA:",
            " the sum of it",
            "käse – à\n",
            "日本語 x 🦀🦀 y",
            "\u{feff}a\r\n\tb",
        ] {
            let ids = tokenize(sample);
            assert!(ids.iter().all(|id| is_known(*id) && id & GENERATED == 0), "{sample}");
            assert_eq!(text(&ids), sample);
            let generated: Vec<u32> = ids.iter().map(|id| id | GENERATED).collect();
            assert_eq!(text(&generated), sample);
        }
    }

    #[test]
    fn a_continuation_after_a_space_is_its_own_tokens() {
        let (context, whole) = (tokenize("Q: who\nA:"), tokenize("Q: who\nA: the cat"));
        assert_eq!(whole[..context.len()], context);
        assert_eq!(tokenize(" the"), [word(0)]);
    }

    #[test]
    fn the_answer_so_far_is_the_generated_end_of_the_ids() {
        let ids = [BEGIN, 20, 21, 22 | GENERATED, 23 | GENERATED];
        assert_eq!(split(&ids), (&ids[1..3], &ids[3..]));
        assert_eq!(split(&ids[1..3]), (&ids[1..3], &[][..]));
    }
}
