//! What stands at a place of a text: an option's text, or a letter that is no part of a word or formula and no article.

use std::ops::Range;

use super::Options;
use super::form::{Form, Same, continues_word, is_operator};

/// How far before the end of an announcement an option's text may begin, in bytes: its first words may be taken for the
/// announcement's last ones.
const ANNOUNCED_REACH: usize = 64;

/// What stands at a place.
pub(super) enum At {
    Nothing,
    Option { index: usize, written: Range<usize> },
    Several,
}

impl Options<'_> {
    /// What is said at a place: an option's text, which may begin with the announcement's last words and marks, else a letter
    /// that is no part of a word and no article.
    pub(super) fn at(&self, text: &str, end: usize, reaches_back: bool) -> At {
        let mut starts = if reaches_back {
            starts_before(text, end)
        } else {
            vec![end]
        };
        if text[end..].starts_with('+') && text[end + 1..].starts_with(|next: char| next.is_ascii_digit()) {
            starts.push(end + 1);
        }
        let by_text = |ignores_case: bool| {
            let mut longest: Option<(usize, Range<usize>)> = None;
            let mut is_only = true;
            for start in &starts {
                for (index, form) in self.forms.iter().enumerate() {
                    let Some(length) = form.begins(&text[*start..], ignores_case) else {
                        continue;
                    };
                    let written = *start..*start + length;
                    if written.end < end || written.is_empty() || !is_whole(text, &written, form) {
                        continue;
                    }
                    let rank = |written: &Range<usize>| (written.end, usize::MAX - written.start);
                    match longest.as_ref().map(|(_, longest)| rank(longest).cmp(&rank(&written))) {
                        Some(std::cmp::Ordering::Greater) => {}
                        Some(std::cmp::Ordering::Equal) => is_only = false,
                        _ => (longest, is_only) = (Some((index, written)), true),
                    }
                }
            }
            longest.map(|longest| (longest, is_only))
        };
        let by_text = by_text(false).or_else(|| by_text(true));
        let by_letter = self.letter_at(text, end);
        match (by_text, by_letter) {
            (None, None) => At::Nothing,
            (None, Some((index, written))) => At::Option { index, written },
            (Some(((index, written), _)), Some((letter, label)))
                if letter != index && written.end == label.end && written.len() <= 1 =>
            {
                let after = text[label.end..].chars().next();
                let dressed = if matches!(after, Some(')' | ']')) { ")" } else { "" };
                match self.letter_or_text(dressed, &text[label.clone()], letter, index) {
                    Same::One(index) => At::Option { index, written: label },
                    _ => At::Several,
                }
            }
            (Some((_, false)), _) => At::Several,
            // Of "Answer - 12" nobody knows whether that is a sign.
            (Some(((_, written), _)), _) if is_loosely_signed(&text[written.clone()]) => At::Several,
            (Some(((index, written), true)), _) => At::Option { index, written },
        }
    }

    /// The option whose text ends at a place with a letter that stands apart in it.
    pub(super) fn ending_at(&self, text: &str, end: usize) -> Option<(usize, Range<usize>)> {
        starts_before(text, end).into_iter().find_map(|start| {
            let of_length = |form: &Form| form.begins(&text[start..], true) == Some(end - start);
            let index = self.forms.iter().position(of_length)?;
            (end - start > 1).then_some((index, start..end))
        })
    }

    fn letter_at(&self, text: &str, place: usize) -> Option<(usize, Range<usize>)> {
        let mut letters = text[place..].chars();
        let letter = letters.next()?;
        let index = self.letter(letter)?;
        let rest = letters.as_str();
        let mut next = rest.chars();
        let (first, second) = (next.next(), next.next());
        let goes_on = match first {
            Some('#') => true,
            Some('+') => second == Some('+'),
            Some('-') => second.is_some_and(|second| second.is_ascii_digit()),
            Some('\'' | '’') => continues_word(second),
            first => continues_word(first),
        };
        (!goes_on && !is_article(letter, rest)).then_some((index, place..place + letter.len_utf8()))
    }
}

/// The places from which an option's text may reach past the end of an announcement: its end, and where words and marks before
/// it begin.
fn starts_before(text: &str, end: usize) -> Vec<usize> {
    let mut starts = vec![end];
    for (at, letter) in text[..end].char_indices().rev() {
        if end - at > ANNOUNCED_REACH {
            break;
        }
        let before = text[..at].chars().next_back();
        let is_start = !letter.is_alphanumeric() || !before.is_some_and(char::is_alphanumeric);
        if is_start && !letter.is_whitespace() {
            starts.push(at);
        }
    }
    starts
}

/// The part of the text is an option as it stands there: no part of a number, of a formula, or of a phrase that begins with an
/// article.
fn is_whole(text: &str, written: &Range<usize>, form: &Form) -> bool {
    let (before, option, after) = (&text[..written.start], &text[written.clone()], &text[written.end..]);
    let (Some(first), Some(last)) = (option.chars().next(), option.chars().next_back()) else {
        return false;
    };
    let before = before.chars().next_back();
    let is_signed = |mark: Option<char>| matches!(mark, Some('-' | '\u{2212}' | '\u{2013}' | '.'));
    if first.is_ascii_digit() && is_signed(before) {
        return false;
    }
    if last.is_ascii_digit() && matches!(before, Some('(' | '[' | '{')) {
        // The first of a tuple.
        let next = after.strip_prefix(',').map(str::trim_start);
        if next.is_some_and(|next| next.starts_with(|next: char| next.is_ascii_digit() || next == '-')) {
            return false;
        }
    }
    let rest = after.trim_start_matches([' ', '\t']);
    if !option.chars().any(char::is_alphanumeric) {
        // A mark that is an option is followed by nothing that it may belong to.
        return rest.is_empty() || rest.starts_with(['\n', '\r', '.', ',', ';', ')', '"', '\'', '*', '`', '$', '}']);
    }
    if (last.is_ascii_digit() || form.is_one_character()) && is_operand(rest, form.is_one_character()) {
        return false;
    }
    !(form.is_one_character() && matches!(first, 'a' | 'A' | 'I') && is_article(first, after))
}

/// White space stands between a minus sign and its number.
fn is_loosely_signed(option: &str) -> bool {
    let number = option.strip_prefix(['-', '\u{2212}']).unwrap_or_default();
    number.starts_with(char::is_whitespace) && number.trim_start().starts_with(|next: char| next.is_ascii_digit())
}

/// An operator and another operand: the option is the beginning of a formula.
fn is_operand(rest: &str, is_one_character: bool) -> bool {
    let mut letters = rest.chars();
    let Some(operator) = letters.next() else {
        return false;
    };
    let is_operator = matches!(operator, '*' | '-' | '\u{2212}' | '×' | '÷' | '·' | '≤' | '≥')
        || (is_operator(operator) && operator != '|' && operator != '#' && (operator != '=' || is_one_character));
    if !is_operator {
        return false;
    }
    let next = letters.as_str().trim_start_matches([' ', '\t']);
    let mut letters = next.chars();
    letters.next().is_some_and(|next| next.is_ascii_digit() || next == '(')
}

/// "The answer is a car", "A car moves", "I think": a small letter, an A or an I before a further word names no option,
/// unless that word gives a reason.
fn is_article(letter: char, rest: &str) -> bool {
    const REASONS: [&str; 10] = [
        "because", "since", "as", "and", "for", "is", "due", "which", "with", "given",
    ];
    if !(letter.is_lowercase() || matches!(letter, 'A' | 'I')) {
        return false;
    }
    let after = rest.trim_start_matches([' ', '\t']);
    if after.len() == rest.len() || !after.starts_with(char::is_lowercase) {
        return false;
    }
    let end = after
        .find(|letter: char| !letter.is_alphanumeric())
        .unwrap_or(after.len());
    !REASONS.contains(&&after[..end])
}
