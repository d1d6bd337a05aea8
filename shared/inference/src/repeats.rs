//! Whether what a server says it has read is what it was sent.
//!
//! Tokenizers and their decoders change texts: white space is dropped or marked, characters are composed, and one that is cut
//! over two tokens shows as U+FFFD in both. So an echo, whose tokens are told one by one, is compared by its outline, which none
//! of that changes: a server that reads a part of a prompt is known by it. That is no proof that all was read; the text of all
//! tokens at once is.

use icu_normalizer::ComposingNormalizerBorrowed;

/// How a text that was told lies to the one that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeated {
    /// All of it was told.
    Whole,
    /// Its beginning or its end was told and nothing else.
    Cut,
    /// Something else was told.
    Other,
}

/// A part of an outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// A character of ASCII that is no white space.
    Plain(char),
    /// So many characters beyond ASCII in a row: not all of them may be known.
    Beyond { least: usize, most: usize },
}

/// What tokenizers show for white space.
const SPACE_MARKS: [char; 4] = ['\u{120}', '\u{10a}', '\u{109}', '\u{2581}'];

/// Accents that follow the letter on which they stand.
const COMBINING: std::ops::RangeInclusive<char> = '\u{300}'..='\u{36f}';

/// Compares what was `told` with what was `sent`; before the latter there may be more, as start tokens.
pub(crate) fn compare(told: &str, sent: &str) -> Repeated {
    if told.contains(sent) {
        return Repeated::Whole;
    }
    let (told, sent) = (outline(told), outline(sent));
    if told.len() >= sent.len() {
        let is_whole = sent.is_empty() || told.windows(sent.len()).any(|part| is_same(part, &sent));
        return if is_whole { Repeated::Whole } else { Repeated::Other };
    }
    let is_cut = is_same(&told, &sent[..told.len()]) || is_same(&told, &sent[sent.len() - told.len()..]);
    if is_cut && !told.is_empty() {
        Repeated::Cut
    } else {
        Repeated::Other
    }
}

/// `told`, which an engine made of all the tokens of a text at once, is `sent` and nothing else: as tokenizers compose characters
/// and decoders clean up white space.
pub(crate) fn is_equal(told: &str, sent: &str) -> bool {
    told == sent || cleaned(told) == cleaned(sent)
}

/// What the decoders of many tokenizers make of English punctuation (`clean_up_tokenization_spaces`).
const CLEANED: [(&str, &str); 10] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

/// The text with its characters composed, a space for all white space between two words, and none before punctuation.
fn cleaned(text: &str) -> String {
    let composed = ComposingNormalizerBorrowed::new_nfkc().normalize(text);
    let words: Vec<&str> = composed.split_whitespace().collect();
    CLEANED
        .iter()
        .fold(words.join(" "), |text, (written, clean)| text.replace(written, clean))
}

fn is_same(told: &[Mark], sent: &[Mark]) -> bool {
    told.len() == sent.len() && told.iter().zip(sent).all(|(told, sent)| told.covers(*sent))
}

impl Mark {
    /// It may stand for `sent`.
    fn covers(self, sent: Self) -> bool {
        match (self, sent) {
            (Self::Plain(told), Self::Plain(sent)) => told == sent,
            (Self::Beyond { least, most }, Self::Beyond { least: sent, .. }) => (least..=most).contains(&sent),
            _ => false,
        }
    }
}

fn outline(text: &str) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::with_capacity(text.len());
    for character in text.chars() {
        if character.is_whitespace() || SPACE_MARKS.contains(&character) {
            continue;
        }
        if character.is_ascii() {
            marks.push(Mark::Plain(character));
            continue;
        }
        if COMBINING.contains(&character) {
            // Alone or with its letter it is one character, as it is composed.
            if let Some(Mark::Plain(_)) = marks.last() {
                marks.pop();
                add(&mut marks, 1, 1);
            }
            continue;
        }
        // Parts of characters: each of them is told at least twice.
        let least = usize::from(character != char::REPLACEMENT_CHARACTER);
        add(&mut marks, least, 1);
    }
    marks
}

/// Adds to a row of characters beyond ASCII, or begins one.
fn add(marks: &mut Vec<Mark>, more: usize, at_most: usize) {
    match marks.last_mut() {
        Some(Mark::Beyond { least, most }) => {
            *least += more;
            *most += at_most;
        }
        _ => marks.push(Mark::Beyond {
            least: more.max(1),
            most: at_most,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tokenizers_change_makes_no_difference() {
        for (told, sent) in [
            ("The sky is blue", "The sky is blue"),
            ("<s> The sky is blue today", "The sky is blue"),
            ("The\u{120}sky\u{10a}is\u{2581}blue", "The sky\nis blue"),
            ("<s>Theskyisblue", " The sky is blue"),
            ("Gr\u{fffd}\u{fffd}\u{fffd}\u{fffd}e", "Größe"),
            ("\u{fffd}\u{fffd}\u{fffd}\u{fffd}!", "\u{1f600}!"),
            ("cafe\u{301} noir", "café noir"),
            ("café noir", "cafe\u{301} noir"),
            ("\u{fffd}", "\u{fffd}"),
            ("", ""),
            ("潮水 来了", "潮水来了"),
        ] {
            assert_eq!(compare(told, sent), Repeated::Whole, "{told:?} for {sent:?}");
        }
    }

    #[test]
    fn the_text_of_all_tokens_is_the_text() {
        for (told, sent) in [
            ("The sky is", " The sky is"),
            ("cafe\u{301} noir", "café noir"),
            ("It isn't blue, is it?", "It is n't blue , is it ?"),
            ("a b", "a\u{a0} b\n"),
            ("１２", "12"),
        ] {
            assert!(is_equal(told, sent), "{told:?} for {sent:?}");
        }
        for (told, sent) in [
            ("Theskyis", "The sky is"),
            ("<s>The sky is", "The sky is"),
            ("The sky is", "The sky is blue"),
            ("来了", "潮水"),
            ("\u{fffd}\u{fffd}", "潮水来了"),
            ("潮\u{fffd}\u{fffd}\u{fffd}", "潮水"),
        ] {
            assert!(!is_equal(told, sent), "{told:?} for {sent:?}");
        }
    }

    #[test]
    fn what_is_missing_is_seen() {
        for (told, sent, expected) in [
            ("sky is blue", "The sky is blue", Repeated::Cut),
            ("The sky", "The sky is blue", Repeated::Cut),
            ("The sky blue", "The sky is blue", Repeated::Other),
            ("<s>sky is blue", "The sky is blue", Repeated::Other),
            ("", "The sky is blue", Repeated::Other),
            ("today it is blue", "The sky is blue", Repeated::Other),
            ("t84t104t101", "The", Repeated::Other),
            ("来了", "潮水来了", Repeated::Other),
            ("潮水\u{fffd}", "潮水来了", Repeated::Other),
        ] {
            assert_eq!(compare(told, sent), expected, "{told:?} for {sent:?}");
        }
    }
}
