//! What Python means by white space, words and case, where Rust means something else.

use unicode_general_category::{GeneralCategory, get_general_category};

/// `str.isspace`: white space and the four separators of ASCII.
pub(crate) fn is_space(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\u{1c}'..='\u{1f}')
}

/// `str.strip()`.
pub(crate) fn stripped(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// The beginning of a text of at most `bytes` bytes.
pub(crate) fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `str.split()`.
pub(crate) fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// `" ".join(str.split())`.
pub(crate) fn joined(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for word in split(text) {
        if !kept.is_empty() {
            kept.push(' ');
        }
        kept.push_str(word);
    }
    kept
}

/// `\w`: letters, numbers and the low line, but no combining mark.
pub(crate) fn is_word(letter: char) -> bool {
    use GeneralCategory as Of;
    if letter.is_ascii() {
        return letter.is_ascii_alphanumeric() || letter == '_';
    }
    matches!(
        get_general_category(letter),
        Of::UppercaseLetter
            | Of::LowercaseLetter
            | Of::TitlecaseLetter
            | Of::ModifierLetter
            | Of::OtherLetter
            | Of::DecimalNumber
            | Of::LetterNumber
            | Of::OtherNumber
    )
}

/// `\d`.
pub(crate) fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit() || (!letter.is_ascii() && get_general_category(letter) == GeneralCategory::DecimalNumber)
}

/// `[^\W\d]`.
pub(crate) fn is_word_and_no_digit(letter: char) -> bool {
    is_word(letter) && !is_digit(letter)
}

/// `str.isupper`: at least one letter with a case, and none in another.
pub(crate) fn is_upper(text: &str) -> bool {
    text.chars().any(char::is_uppercase) && !text.chars().any(|letter| letter.is_lowercase() || is_title(letter))
}

/// `str.islower`.
pub(crate) fn is_lower(text: &str) -> bool {
    text.chars().any(char::is_lowercase) && !text.chars().any(|letter| letter.is_uppercase() || is_title(letter))
}

fn is_title(letter: char) -> bool {
    !letter.is_ascii() && get_general_category(letter) == GeneralCategory::TitlecaseLetter
}

/// The parts between and in runs of [word](is_word) characters, in order: `(is_word, part)`.
pub(crate) fn runs(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let kind = is_word(first);
        let end = rest.find(|letter| is_word(letter) != kind).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        Some((kind, run))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_combining_marks_and_case_needs_a_letter() {
        let words = |text| -> Vec<_> { runs(text).filter(|(is, _)| *is).map(|(_, run)| run).collect() };
        assert_eq!(words("a\u{300}b c_1"), ["a", "b", "c_1"]);
        assert_eq!(words("½ ²x 漢字"), ["½", "²x", "漢字"]);
        assert!(is_upper("A1!") && !is_upper("1!") && !is_upper("Aa") && !is_upper("\u{1c5}"));
        assert!(is_lower("ß1") && !is_lower("") && !is_lower("aB"));
        assert_eq!(joined(" a\u{1f}b\u{85}c "), "a b c");
    }
}
