//! English sentences, as NLTK's `sent_tokenize` finds them.
//!
//! Source: Kiss and Strunk, "Unsupervised Multilingual Sentence Boundary Detection", 2006, with the trained parameters in
//! `data/punkt_english.txt`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::python::{is_digit, is_space, is_word_and_no_digit};

/// The sentences of a text, in order, as byte ranges.
#[must_use]
pub fn sentences(text: &str) -> Vec<std::ops::Range<usize>> {
    realigned(text, cut(text))
}

static PARAMETERS: LazyLock<Parameters> = LazyLock::new(|| Parameters::read(include_str!("../data/punkt_english.txt")));

const BEGINS_LOWER: u8 = 16;
const WITHIN_UPPER: u8 = 4;
const UPPER: u8 = 2 | 4 | 8;
const LOWER: u8 = 16 | 32 | 64;
const NUMBER: &str = "##number##";

#[derive(Default)]
struct Parameters {
    abbreviations: HashSet<&'static str>,
    collocations: HashSet<(&'static str, &'static str)>,
    starters: HashSet<&'static str>,
    words: HashMap<&'static str, u8>,
}

impl Parameters {
    fn read(text: &'static str) -> Self {
        let mut parameters = Self::default();
        let mut section = "";
        for line in text.lines().filter(|line| !line.starts_with("# ")) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name;
                continue;
            }
            let mut words = line.split(' ');
            match section {
                "abbreviations" => parameters.abbreviations.extend(words),
                "collocations" => parameters.collocations.extend(words.next().zip(words.next())),
                "starters" => parameters.starters.extend(words),
                _ => {
                    let contexts = words.next().and_then(|first| first.parse().ok()).unwrap_or(0);
                    parameters.words.extend(words.map(|word| (word, contexts)));
                }
            }
        }
        parameters
    }

    /// Also the three dots with spaces between them.
    fn is_abbreviation(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let last = word.rsplit('-').next().unwrap_or_default();
        word == ". . " || self.abbreviations.contains(word.as_str()) || self.abbreviations.contains(last)
    }

    fn contexts(&self, word: &str) -> u8 {
        self.words.get(word).copied().unwrap_or(0)
    }
}

/// Letters that end a word. A period does not.
const fn ends_word(letter: char) -> bool {
    matches!(
        letter,
        ')' | '"'
            | ';'
            | '}'
            | ']'
            | '*'
            | ':'
            | '@'
            | '\''
            | '('
            | '{'
            | '['
            | '‘'
            | '’'
            | '“'
            | '”'
            | '«'
            | '»'
            | '?'
            | '!'
    )
}

const fn starts_no_word(letter: char) -> bool {
    matches!(
        letter,
        '(' | '"' | '`' | '{' | '[' | ':' | ';' | '&' | '#' | '*' | '@' | ')' | '}' | ']' | '-' | ','
    )
}

/// A mark that may end a sentence, with the word before it and what follows it.
struct Candidate {
    word_start: usize,
    mark: usize,
    /// Where the context ends: after the mark that follows, or after the next word.
    context_end: usize,
    /// Where the next word starts, when white space is between.
    next_word: Option<usize>,
}

/// Of marks in one word, the last.
fn candidates(text: &str) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for (mark, _) in text.match_indices(['.', '?', '!']) {
        let Some((context_end, next_word)) = follows(text, mark + 1) else {
            continue;
        };
        let (from, last_mark) = found.last().map_or((0, 0), |last| (last.word_start, last.mark));
        // The letters since the last mark; a space at their very beginning does not count.
        let between = text[last_mark..mark].bytes().skip(1);
        let spaces = between.rev().position(|byte| matches!(byte, b' ' | b'\t'..=b'\r'));
        let word_start = spaces.map_or(from, |after| mark - after);
        if found.last().is_some_and(|last| word_start < last.mark) {
            found.pop();
        }
        found.push(Candidate {
            word_start,
            mark,
            context_end,
            next_word,
        });
    }
    found
}

fn follows(text: &str, at: usize) -> Option<(usize, Option<usize>)> {
    let rest = &text[at..];
    let first = rest.chars().next()?;
    if ends_word(first) {
        return Some((at + first.len_utf8(), None));
    }
    let word = rest.find(|letter| !is_space(letter)).filter(|&spaces| spaces > 0)?;
    let end = rest[word..].find(is_space).unwrap_or(rest.len() - word);
    Some((at + word + end, Some(at + word)))
}

fn cut(text: &str) -> Vec<(usize, usize)> {
    let mut start = 0;
    let mut slices = Vec::new();
    for candidate in candidates(text) {
        if breaks(&text[candidate.word_start..candidate.context_end]) {
            let end = candidate.mark + 1;
            slices.push((start, end));
            start = candidate.next_word.unwrap_or(end);
        }
    }
    slices.push((start, text.trim_end_matches(is_space).len().max(start)));
    slices
}

/// Closing marks and quotes go to the sentence before.
fn realigned(text: &str, slices: Vec<(usize, usize)>) -> Vec<std::ops::Range<usize>> {
    let mut sentences = Vec::new();
    let mut moved = 0;
    for (index, &(start, end)) in slices.iter().enumerate() {
        let start = start + moved;
        moved = 0;
        let closing = slices.get(index + 1).and_then(|&(next, next_end)| {
            let (marks, all) = closing_marks(&text[next..next_end])?;
            Some((next + marks, all))
        });
        if let Some((end, all)) = closing {
            sentences.push(start..end.max(start));
            moved = all;
        } else if start < end {
            sentences.push(start..end);
        }
    }
    sentences
}

/// The length of the closing marks that a text begins with, and with the white space after them.
fn closing_marks(text: &str) -> Option<(usize, usize)> {
    let is_closing = |letter| matches!(letter, '"' | '\'' | ')' | ']' | '}' | '‘' | '’' | '“' | '”' | '«' | '»');
    let marks = text.find(|letter| !is_closing(letter)).unwrap_or(text.len());
    let rest = &text[marks..];
    let spaces = rest.find(|letter| !is_space(letter)).unwrap_or(rest.len());
    let ends = spaces > 0 || rest.is_empty() || rest.starts_with("--");
    (marks > 0 && ends).then_some((marks, marks + spaces))
}

/// A sentence ends somewhere in the text, and not with it.
fn breaks(text: &str) -> bool {
    let tokens: Vec<Token<'_>> = text.split('\n').flat_map(words).map(Token::new).collect();
    let pairs = tokens.windows(2);
    pairs
        .into_iter()
        .any(|pair| matches!(pair, [one, next] if one.ends_sentence_before(next)))
}

/// Words, with their periods, and marks.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let length = several_marks(rest).unwrap_or_else(|| {
            let length = first.len_utf8();
            if starts_no_word(first) {
                length
            } else {
                length + word_length(&rest[length..])
            }
        });
        let (word, after) = rest.split_at(length);
        words.push(word);
        rest = after.trim_start_matches(is_space);
    }
    words
}

fn word_length(text: &str) -> usize {
    let ends = |rest: &str| match rest.chars().next() {
        None => true,
        Some(letter) => is_space(letter) || ends_word(letter) || begins_with_marks(rest),
    };
    let found = text.char_indices().find(|&(at, letter)| {
        let rest = &text[at..];
        ends(rest) || (letter == ',' && ends(&rest[1..]))
    });
    found.map_or(text.len(), |(at, _)| at)
}

/// Hyphens, periods, or periods with a white space each between them.
fn begins_with_marks(text: &str) -> bool {
    text.starts_with("--") || text.starts_with("..") || spaced_periods(text, 3).is_some()
}

fn several_marks(text: &str) -> Option<usize> {
    for mark in ['-', '.'] {
        let length = text.find(|letter| letter != mark).unwrap_or(text.len());
        if length >= 2 {
            return Some(length);
        }
    }
    spaced_periods(text, usize::MAX)
}

/// The length of at least three periods, of at most `most`, with one white space between each and the next.
fn spaced_periods(text: &str, most: usize) -> Option<usize> {
    let mut length = 0;
    let mut periods = 0;
    let mut letters = text.chars();
    while periods < most && letters.next() == Some('.') {
        periods += 1;
        let end = text.len() - letters.as_str().len();
        if periods >= 3 {
            length = end;
        }
        if !letters.next().is_some_and(is_space) {
            break;
        }
    }
    (length > 0).then_some(length)
}

struct Token<'a> {
    text: &'a str,
    /// Lower case, and one for all numbers.
    kind: String,
    is_break: bool,
    is_abbreviation: bool,
    is_ellipsis: bool,
}

impl<'a> Token<'a> {
    fn new(text: &'a str) -> Self {
        let kind = if is_number(text) {
            NUMBER.to_owned()
        } else {
            text.to_lowercase()
        };
        let mut token = Self {
            text,
            kind,
            is_break: false,
            is_abbreviation: false,
            is_ellipsis: text.len() > 1 && text.bytes().all(|byte| byte == b'.'),
        };
        if matches!(text, "." | "?" | "!") {
            token.is_break = true;
        } else if let Some(word) = text
            .strip_suffix('.')
            .filter(|word| !token.is_ellipsis && !word.ends_with('.'))
        {
            token.is_abbreviation = PARAMETERS.is_abbreviation(word);
            token.is_break = !token.is_abbreviation;
        }
        token
    }

    fn ends_sentence_before(&self, next: &Self) -> bool {
        if !self.text.ends_with('.') {
            return self.is_break;
        }
        let kind = self.without_period();
        let next_kind = next.without_sentence_period();
        if PARAMETERS.collocations.contains(&(kind, next_kind)) {
            return false;
        }
        let starts = next.starts_sentence();
        let is_initial = self.is_initial();
        if (self.is_abbreviation || self.is_ellipsis)
            && !is_initial
            && (starts == Some(true) || (next.is_upper() && PARAMETERS.starters.contains(next_kind)))
        {
            return true;
        }
        if is_initial || kind == NUMBER {
            let is_never_lower = || PARAMETERS.contexts(next_kind) & LOWER == 0;
            if starts == Some(false) || (starts.is_none() && is_initial && next.is_upper() && is_never_lower()) {
                return false;
            }
        }
        self.is_break
    }

    /// What is known of the word says whether it starts a sentence.
    fn starts_sentence(&self) -> Option<bool> {
        if matches!(self.text, ";" | ":" | "," | "." | "!" | "?") {
            return Some(false);
        }
        let contexts = PARAMETERS.contexts(self.without_sentence_period());
        if self.is_upper() && contexts & LOWER != 0 && contexts & WITHIN_UPPER == 0 {
            return Some(true);
        }
        let is_lower = self.text.chars().next().is_some_and(char::is_lowercase);
        (is_lower && (contexts & UPPER != 0 || contexts & BEGINS_LOWER == 0)).then_some(false)
    }

    fn without_period(&self) -> &str {
        match self.kind.strip_suffix('.') {
            Some(kind) if !kind.is_empty() => kind,
            _ => &self.kind,
        }
    }

    fn without_sentence_period(&self) -> &str {
        if self.is_break {
            self.without_period()
        } else {
            &self.kind
        }
    }

    fn is_upper(&self) -> bool {
        self.text.chars().next().is_some_and(char::is_uppercase)
    }

    fn is_initial(&self) -> bool {
        let mut letters = self.text.chars();
        letters.next().is_some_and(is_word_and_no_digit) && letters.as_str() == "."
    }
}

/// Perhaps a minus, perhaps a mark, a digit, and then digits and marks.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let text = text.strip_prefix(['.', ',']).unwrap_or(text);
    text.starts_with(is_digit)
        && text
            .chars()
            .all(|letter| is_digit(letter) || matches!(letter, ',' | '.' | '-'))
}

/// The texts of the sentences; for the words in them.
pub(crate) fn texts(text: &str) -> impl Iterator<Item = &str> {
    sentences(text).into_iter().filter_map(move |range| text.get(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_numbers_and_quotes_do_not_end_sentences() {
        let of = |text| -> Vec<_> { texts(text).collect() };
        assert_eq!(
            of("Mr. Smith paid $3.50. \"He left.\" Then, at 5 p.m. on Monday, he came back!"),
            [
                "Mr. Smith paid $3.50.",
                "\"He left.\"",
                "Then, at 5 p.m. on Monday, he came back!"
            ]
        );
        assert_eq!(of(""), [""; 0]);
        assert_eq!(of("no end"), ["no end"]);
    }
}
