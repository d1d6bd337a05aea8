//! What makes no difference between an answer and a target.
//!
//! Normalisers are applied in an order of their own, whichever order a suite names them in: each leaves behind what the next one
//! can see.

use std::borrow::Cow;
use std::sync::LazyLock;

use ::regex::{Captures, Regex};
use icu_normalizer::ComposingNormalizerBorrowed;
use tidemill_domain::Normaliser;

use crate::answer::{fold, is_punctuation, trimmed};

/// Normalisers of one grader, in the order in which they are applied.
#[derive(Debug, Clone, Default)]
pub(crate) struct Normalisers(Vec<Normaliser>);

impl Normalisers {
    pub(crate) fn new(named: &[Normaliser]) -> Self {
        let mut ordered = named.to_vec();
        ordered.sort_unstable();
        ordered.dedup();
        Self(ordered)
    }

    /// The text as it is compared. White space and invisible marks at its ends never make a difference.
    pub(crate) fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut normal = Cow::Borrowed(trimmed(text));
        let keeps_numbers = self.0.contains(&Normaliser::Numbers);
        for normaliser in &self.0 {
            normal = Cow::Owned(match normaliser {
                Normaliser::Punctuation if keeps_numbers => without_punctuation_but_in_numbers(&normal),
                _ => applied(*normaliser, &normal),
            });
        }
        match normal {
            Cow::Borrowed(text) => Cow::Borrowed(text),
            Cow::Owned(text) => Cow::Owned(trimmed(&text).to_owned()),
        }
    }

    /// In words, for the reason of a grade.
    pub(crate) fn aside(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let names: Vec<&str> = self.0.iter().map(|normaliser| label(*normaliser)).collect();
        format!(", {} aside", names.join(", "))
    }
}

const fn label(normaliser: Normaliser) -> &'static str {
    match normaliser {
        Normaliser::Unicode => "Unicode forms",
        Normaliser::Latex => "LaTeX",
        Normaliser::Case => "case",
        Normaliser::Numbers => "forms of numbers",
        Normaliser::Punctuation => "punctuation",
        Normaliser::Articles => "articles",
        Normaliser::Whitespace => "white space",
    }
}

fn applied(normaliser: Normaliser, text: &str) -> String {
    match normaliser {
        Normaliser::Unicode => ComposingNormalizerBorrowed::new_nfkc().normalize(text).into_owned(),
        Normaliser::Latex => without_latex(text),
        Normaliser::Case => text.chars().flat_map(fold).collect(),
        Normaliser::Numbers => plain_numbers(text),
        Normaliser::Punctuation => text.chars().filter(|&letter| !is_punctuation(letter)).collect(),
        Normaliser::Articles => without_articles(text),
        Normaliser::Whitespace => text.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

fn without_latex(text: &str) -> String {
    static WRAPPED: LazyLock<Regex> = LazyLock::new(|| {
        compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|boxed|fbox|operatorname)\s*\{([^{}]*)\}")
    });
    static MARKS: LazyLock<Regex> =
        LazyLock::new(|| compile(r"\\(?:left|right|displaystyle|textstyle)(?-u:\b)\.?|\\[,;:!()\[\]]|\$|\\ "));
    let mut text = Cow::Borrowed(text);
    // Wrappers stand in each other at most so deep.
    for _ in 0..4 {
        match WRAPPED.replace_all(&text, "$1") {
            Cow::Borrowed(_) => break,
            Cow::Owned(inner) => text = Cow::Owned(inner),
        }
    }
    MARKS.replace_all(&text, "").into_owned()
}

fn plain_numbers(text: &str) -> String {
    let text = &text.replace('\u{2212}', "-");
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| compile(r"(?-u:\d)+(?:,(?-u:\d){3})*(?:\.(?-u:\d)+)?"));
    static THOUSANDS: LazyLock<Regex> = LazyLock::new(|| compile(r"^(?-u:\d){1,3}(?:,(?-u:\d){3})+(?:\.|$)"));
    let plain = |found: &Captures<'_>| {
        let number = &found[0];
        let joined = if THOUSANDS.is_match(number) {
            number.replace(',', "")
        } else {
            number.to_owned()
        };
        if joined.contains('.') && !joined.contains(',') {
            joined.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            joined
        }
    };
    NUMBER.replace_all(text, plain).into_owned()
}

/// Takes away punctuation, but no sign, point or operator of a number; numbers stay apart where it stood between them.
fn without_punctuation_but_in_numbers(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut plain = String::with_capacity(text.len());
    for (at, &letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| letters.get(before)).copied();
        let after = letters.get(at + 1).copied();
        if !is_punctuation(letter) || belongs_to_number(before, letter, after) {
            // `1,2` is not `12`.
            let fuses = letter.is_ascii_digit()
                && plain.ends_with(|last: char| last.is_ascii_digit())
                && before.is_some_and(is_punctuation);
            if fuses {
                plain.push(' ');
            }
            plain.push(letter);
        }
    }
    plain
}

fn belongs_to_number(before: Option<char>, mark: char, after: Option<char>) -> bool {
    let is_digit = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_digit());
    let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let starts = is_digit(after) || matches!(after, Some('.' | '$' | '€' | '£'));
    match mark {
        '<' | '>' | '=' => true,
        '!' => after == Some('='),
        '.' => is_digit(after) && (is_digit(before) || !is_word(before)),
        '-' => starts && (is_digit(before) || !is_word(before)),
        '+' => is_digit(after) && is_word(before),
        '^' => is_word(before) && (is_digit(after) || after == Some('-')),
        '*' | '/' | ':' => is_digit(before) && is_digit(after),
        _ => false,
    }
}

fn without_articles(text: &str) -> String {
    static ARTICLES: LazyLock<Regex> = LazyLock::new(|| compile(r"(?i)(?-u:\b)(?:a|an|the)(?-u:\b)"));
    ARTICLES.replace_all(text, " ").into_owned()
}

#[expect(
    clippy::expect_used,
    reason = "the patterns above are constants, and the tests below compile them"
)]
fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}

#[cfg(test)]
mod tests {
    use super::*;
    use Normaliser::{Articles, Case, Latex, Numbers, Punctuation, Unicode, Whitespace};

    #[test]
    fn each_normaliser_takes_away_what_it_is_named_for() {
        for (normalisers, text, expected) in [
            (&[][..], " Paris\n", "Paris"),
            (&[Unicode], "ﬁｎｅ x²", "fine x2"),
            (&[Latex], r"$\text{about }\left(\mathrm{5\,cm}\right)$", "about (5cm)"),
            (&[Latex], r"\(\frac{1}{2}\)", r"\frac{1}{2}"),
            (&[Case], "STRASSE", "strasse"),
            (&[Numbers], "1,234,567.50 and 5.0 of 1,23", "1234567.5 and 5 of 1,23"),
            (&[Numbers], "v1.20.300", "v1.2.300"),
            (&[Punctuation], "-5, 1.5", "5 15"),
            (&[Numbers, Punctuation], "-5", "-5"),
            (&[Numbers, Punctuation], "\u{2212}5!", "-5"),
            (&[Numbers, Punctuation], "-$5", "-5"),
            (&[Numbers, Punctuation], "1.50.", "1.5"),
            (&[Numbers, Punctuation], "1,500 (about).", "1500 about"),
            (&[Numbers, Punctuation], "x<3", "x<3"),
            (&[Numbers, Punctuation], "x>3", "x>3"),
            (&[Numbers, Punctuation], "1,2", "1 2"),
            (&[Numbers, Punctuation], "1/2, 10^3, 3:4", "1/2 10^3 3:4"),
            (&[Numbers, Punctuation], "well-known «facts», no?", "wellknown facts no"),
            (&[Punctuation], "It's «fine», no?", "Its fine no"),
            (&[Articles, Whitespace], "The cat and an owl", "cat and owl"),
            (&[Articles, Whitespace], "than a theory", "than theory"),
            (&[Whitespace], "a \t b\n\nc", "a b c"),
            (&[Whitespace, Articles, Punctuation, Case], "The U.S.A.!", "usa"),
        ] {
            assert_eq!(Normalisers::new(normalisers).apply(text), expected, "{text}");
        }
    }

    #[test]
    fn the_order_in_which_they_are_named_makes_no_difference() {
        let one = Normalisers::new(&[Whitespace, Articles, Punctuation, Numbers, Case, Latex, Unicode]);
        let other = Normalisers::new(&[Unicode, Latex, Case, Numbers, Punctuation, Articles, Whitespace, Case]);
        let text = r"  The \textbf{Ａnswer} is, $1{,}000.50$ — an   owl";
        assert_eq!(one.apply(text), other.apply(text));
        assert_eq!(one.apply(&one.apply(text)), one.apply(text));
    }
}
