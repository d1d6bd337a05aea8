//! English words and marks, as NLTK's `word_tokenize` separates them.

use std::sync::LazyLock;

use regex::Regex;

use crate::python::{is_word, split};
use crate::sentences::texts;

/// What is replaced in a sentence before quotes that begin words are looked for, in order.
const BEFORE: &[(&str, &str)] = &[
    ("([«“‘„]|[`]+)", " $1 "),
    ("^\"", "``"),
    ("(``)", " $1 "),
    (r#"([ \(\[{<])("|'{2})"#, "$1 `` "),
];

/// What is replaced after that.
const AFTER: &[(&str, &str)] = &[
    (r#"([^\.])(\.)([\]\)}>"'»”’ ]*)\s*$"#, "$1 $2 $3 "),
    (r"([:,])([^\d])", " $1 $2"),
    (r"([:,])$", " $1 "),
    (r"\.{2,}", " $0 "),
    (r"[;@#$%&]", " $0 "),
    ("[\u{2012}-\u{2015}]", " $0 "),
    (r#"([^\.])(\.)([\]\)}>"']*)\s*$"#, "$1 $2$3 "),
    (r"[?!]", " $0 "),
    (r"([^'])' ", "$1 ' "),
    (r"[*]", " $0 "),
    (r"[\]\[(){}<>]", " $0 "),
    (r"--", " -- "),
];

/// What is replaced after that, with a space at both ends.
const LAST: &[(&str, &str)] = &[
    (r"([»”’])", " $1 "),
    (r"''", " '' "),
    (r#"""#, " '' "),
    (r"\s+", " "),
    (r"([^' ])('[sS]|'[mM]|'[dD]|') ", "$1 $2 "),
    (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", "$1 $2 "),
    (r"(?i)\b(can)(not)\b", " $1 $2 "),
    (r"(?i)\b(d)('ye)\b", " $1 $2 "),
    (r"(?i)\b(gim)(me)\b", " $1 $2 "),
    (r"(?i)\b(gon)(na)\b", " $1 $2 "),
    (r"(?i)\b(got)(ta)\b", " $1 $2 "),
    (r"(?i)\b(lem)(me)\b", " $1 $2 "),
    (r"(?i)\b(more)('n)\b", " $1 $2 "),
    (r"(?i)\b(wan)(na)(\s)", " $1 $2 $3"),
    (r"(?i) ('t)(is)\b", " $1 $2 "),
    (r"(?i) ('t)(was)\b", " $1 $2 "),
];

static RULES: LazyLock<[Vec<(Regex, &'static str)>; 3]> =
    LazyLock::new(|| [compiled(BEFORE), compiled(AFTER), compiled(LAST)]);

fn compiled(rules: &'static [(&str, &str)]) -> Vec<(Regex, &'static str)> {
    // A test compiles each.
    let compile = |&(pattern, replacement): &(&str, &'static str)| Some((Regex::new(pattern).ok()?, replacement));
    rules.iter().filter_map(compile).collect()
}

/// How many words and marks of the text are as asked for.
pub(crate) fn count(text: &str, is_asked: impl Fn(&str) -> bool) -> usize {
    let of = |sentence| split(&separated(sentence)).filter(|token| is_asked(token)).count();
    texts(text).map(of).sum()
}

/// The words and marks of the text.
#[cfg(test)]
pub(crate) fn all(text: &str) -> Vec<String> {
    let of = |sentence| split(&separated(sentence)).map(str::to_owned).collect::<Vec<_>>();
    texts(text).flat_map(of).collect()
}

/// A sentence with spaces between words and marks.
fn separated(sentence: &str) -> String {
    let [before, after, last] = &*RULES;
    let text = replaced(sentence.to_owned(), before);
    let text = replaced(quotes_apart(&text), after);
    replaced(format!(" {text} "), last)
}

fn replaced(mut text: String, rules: &[(Regex, &str)]) -> String {
    for (pattern, replacement) in rules {
        if let std::borrow::Cow::Owned(changed) = pattern.replace_all(&text, *replacement) {
            text = changed;
        }
    }
    text
}

/// A space after an apostrophe that begins a word and no clitic.
fn quotes_apart(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut before = None;
    for (at, letter) in text.char_indices() {
        kept.push(letter);
        if letter == '\'' && !before.is_some_and(is_word) {
            let rest = &text[at + 1..];
            let word = &rest[..rest.find(|letter| !is_word(letter)).unwrap_or(rest.len())];
            let is_clitic = ["re", "ve", "ll", "m", "t", "s", "d", "n"]
                .iter()
                .any(|clitic| word.eq_ignore_ascii_case(clitic));
            if !word.is_empty() && !is_clitic {
                kept.push(' ');
            }
        }
        before = Some(letter);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_compiles() {
        let compiled = RULES.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(compiled, [BEFORE.len(), AFTER.len(), LAST.len()]);
    }

    #[test]
    fn marks_and_clitics_stand_apart() {
        let words = |text| {
            separated(text)
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words("DON'T say \"NO\"!"), ["DO", "N'T", "say", "``", "NO", "''", "!"]);
        assert_eq!(
            words("I cannot pay 'em $3.88 (USA)."),
            ["I", "can", "not", "pay", "'", "em", "$", "3.88", "(", "USA", ")", "."]
        );
    }
}
