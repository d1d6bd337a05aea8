//! One answer, read once and compared any number of times.

use crate::boxed::unwrapped;
use crate::canonical::canonical;
use crate::characters::plain;
use crate::node::Node;
use crate::parser::{Fault, parse};
use crate::stated;
use crate::steps::Steps;
use crate::unit::letter_is_unit;

/// Longer texts are not read: equal letter by letter or, if they may be mathematics, undecided.
pub const MAX_BYTES: usize = 4_096;

/// The longest canonical form.
pub const MAX_CANONICAL_BYTES: usize = 200;

/// A text that was read as an answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(crate) source: Source,
    pub(crate) node: Option<Node>,
    /// The value that it states of something whose name is more than a letter, as in `m + n = 113`.
    pub(crate) stated: Option<Node>,
    /// The letter of the option that stands before it, as in `\textbf{(B)}\ 12`.
    pub(crate) option: Option<char>,
    /// It may be mathematics, and is nested deeper or is longer than the budget allows to read.
    pub(crate) is_beyond: bool,
}

/// The text as it is compared where mathematics does not help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Without spaces and without what only sets type.
    pub(crate) squeezed: String,
    /// The words in small letters, one space between.
    pub(crate) words: String,
    /// A letter that may be a unit or a variable stands behind a number and a space: `5 m`.
    pub(crate) sets_letter_apart: bool,
}

impl Answer {
    /// Reads a text; one that is no mathematics, or too long, or nested too deep, is an answer in words.
    #[must_use]
    pub fn read(text: &str) -> Self {
        Self::read_within(text, &mut Steps::default())
    }

    /// Reads a text on a budget.
    #[must_use]
    pub fn read_within(text: &str, steps: &mut Steps) -> Self {
        let text = text.trim();
        if text.len() > MAX_BYTES {
            let source = Source {
                squeezed: text.to_owned(),
                words: String::new(),
                sets_letter_apart: false,
            };
            return Self {
                source,
                node: None,
                stated: None,
                option: None,
                is_beyond: !is_prose(text),
            };
        }
        let inner = unwrapped(unlabelled(unwrapped(text)));
        let excepting = excepting(inner);
        let inner = excepting.as_deref().unwrap_or(inner);
        let (option, inner) = match optional(inner) {
            Some((letter, rest)) => (Some(letter), unwrapped(rest)),
            None => (None, inner),
        };
        let source = Source::of(inner);
        if is_words(inner) {
            let node = match source.words.as_str() {
                "all real numbers" | "all reals" => Node::reals(),
                words => Node::Text(words.to_owned()),
            };
            return Self {
                node: Some(node),
                source,
                stated: None,
                option,
                is_beyond: false,
            };
        }
        let stated = stated::value(inner, steps);
        // What the parser does not understand stays a text, and so does what opens brackets and never closes them.
        let (node, is_beyond) = match parse(inner, steps) {
            Ok(node) => (Some(node), false),
            Err(Fault::Exhausted) => (None, is_balanced(inner)),
            Err(Fault::Syntax) => (None, false),
        };
        Self {
            source,
            node,
            stated,
            option,
            is_beyond,
        }
    }

    /// It is this letter, in brackets or not.
    pub(crate) fn is_letter(&self, letter: char) -> bool {
        let bare = self.source.squeezed.trim_matches(['(', ')', '{', '}']);
        bare.chars().eq([letter])
    }

    /// It was understood as a number, a formula, or a collection of them, with no words in it but units.
    #[must_use]
    pub fn is_mathematics(&self) -> bool {
        let is_words = |node: &Node| node.any(&|part| matches!(part, Node::Text(_)));
        self.node
            .as_ref()
            .or(self.stated.as_ref())
            .is_some_and(|node| !is_words(node))
    }

    /// It says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.source.squeezed.is_empty()
    }

    /// A short text that is the same for answers that are equal; at most [`MAX_CANONICAL_BYTES`].
    ///
    /// Units that are left out make no difference, but for percent and degrees: of `50%` and `50` one alone may be right. Answers
    /// that are equal by conversion (`1 m` and `100 cm`, `50%` and `0.5`) or by an identity of functions of variables keep forms of their own.
    #[must_use]
    pub fn canonical(&self) -> String {
        canonical(self, &mut Steps::default())
    }
}

impl Source {
    fn of(text: &str) -> Self {
        const SPACING: [&str; 16] = [
            r"\left",
            r"\right",
            r"\displaystyle",
            r"\text",
            r"\mathrm",
            r"\mathbf",
            r"\textbf",
            r"\,",
            r"\;",
            r"\:",
            r"\!",
            r"\ ",
            r"\quad",
            "$",
            "~",
            "\"",
        ];
        let mut squeezed = plain(text).replace(r"\dfrac", r"\frac").replace(r"\tfrac", r"\frac");
        for spacing in SPACING {
            squeezed = squeezed.replace(spacing, " ");
        }
        let words = words(&squeezed);
        let squeezed = unspaced(&squeezed).trim_end_matches(['.', ',', ';']).to_owned();
        Self {
            squeezed,
            words,
            sets_letter_apart: sets_letter_apart(text),
        }
    }
}

/// Without the word that announces what follows: `\text{Answer: }5`.
fn unlabelled(text: &str) -> &str {
    const LABELS: [&str; 4] = [r"\text{Answer:", r"\textbf{Answer:", "Answer:", "answer:"];
    let Some((label, rest)) = LABELS
        .iter()
        .find_map(|label| Some((label, text.strip_prefix(label)?.trim_start())))
    else {
        return text;
    };
    if label.starts_with('\\') {
        rest.strip_prefix('}').unwrap_or(text)
    } else {
        rest
    }
}

/// All real numbers but some, said in words, as a set.
fn excepting(text: &str) -> Option<String> {
    const WORDS: [&str; 6] = [
        "all real numbers except",
        "all reals except",
        "all real numbers excluding",
        "all real numbers other than",
        "all real numbers but",
        "all real numbers besides",
    ];
    let inner = text.strip_prefix(r"\text{").unwrap_or(text).trim_start();
    let words = WORDS.iter().find(|words| {
        inner
            .get(..words.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(words))
    })?;
    let rest = inner[words.len()..].trim().trim_end_matches('.');
    let rest = rest.strip_prefix("for ").unwrap_or(rest);
    let rest = if inner.len() < text.len() {
        rest.strip_prefix('}')?
    } else {
        rest
    };
    let is_value = rest.contains(|letter: char| letter.is_ascii_digit() || letter == '\\');
    is_value.then(|| format!(r"\mathbb{{R}} \setminus \{{{rest}\}}"))
}

/// The text without white space, but between digits, where it sets numbers apart.
fn unspaced(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let are_numbers = squeezed.ends_with(|last: char| last.is_ascii_digit())
            && word.starts_with(|first: char| first.is_ascii_digit());
        if are_numbers {
            squeezed.push(' ');
        }
        squeezed.push_str(word);
    }
    squeezed
}

/// A third of the text or more are words of three letters or more.
fn is_prose(text: &str) -> bool {
    let words = text.split(|letter: char| !letter.is_alphabetic());
    let is_command = |word: &str| text[..word.as_ptr().addr() - text.as_ptr().addr()].ends_with('\\');
    let said = words.filter(|word| word.chars().count() > 2 && !is_command(word));
    said.map(str::len).sum::<usize>() * 3 >= text.len()
}

/// As many brackets close as open, and none before one opened.
fn is_balanced(text: &str) -> bool {
    let mut depth = 0_i64;
    for byte in text.bytes() {
        depth += i64::from(matches!(byte, b'(' | b'[' | b'{')) - i64::from(matches!(byte, b')' | b']' | b'}'));
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

/// Such a letter stands behind a numeral that is no argument of a command, as the `12` of `\frac12 g` is.
fn sets_letter_apart(text: &str) -> bool {
    let spaced = text.replace(r"\,", " ").replace(r"\ ", " ").replace('~', " ");
    let is_numeral = |word: &str| {
        let numeral = word.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric() && letter != '\\');
        numeral.starts_with(|first: char| first.is_ascii_digit())
            && numeral.ends_with(|last: char| last.is_ascii_digit())
    };
    let is_unit = |word: &str| {
        letter_is_unit(
            word.split(|letter: char| !letter.is_alphabetic())
                .next()
                .unwrap_or_default(),
        )
    };
    let words: Vec<&str> = spaced.split_whitespace().collect();
    words.windows(2).any(|pair| is_numeral(pair[0]) && is_unit(pair[1]))
}

/// The letter of an option and the answer behind it: `\textbf{(B)}\ 12`, `(B) 12`.
fn optional(text: &str) -> Option<(char, &str)> {
    const TEXTS: [&str; 7] = [
        r"\textbf", r"\text", r"\mathrm", r"\mathbf", r"\textrm", r"\textit", r"\mbox",
    ];
    const SPACES: [&str; 7] = [r"\qquad", r"\quad", r"\ ", r"\,", r"\;", "~", " "];
    let bracketed = |text: &str| {
        let letter = text.strip_prefix('(')?.strip_suffix(')')?;
        letter.parse::<char>().ok().filter(|letter| matches!(letter, 'A'..='J'))
    };
    let set = TEXTS.iter().find_map(|command| {
        let (content, rest) = text
            .strip_prefix(command)?
            .trim_start()
            .strip_prefix('{')?
            .split_once('}')?;
        Some((bracketed(content.trim_matches([' ', '~']))?, rest))
    });
    let (letter, mut rest) = match set {
        Some((letter, rest)) => (letter, rest),
        None => {
            let (head, rest) = text.split_at_checked(3)?;
            let is_apart = SPACES.iter().any(|space| rest.starts_with(space));
            let is_formula = rest
                .trim_start()
                .starts_with(['+', '-', '*', '/', '=', '<', '>', '^', '_', '|']);
            (bracketed(head).filter(|_| is_apart && !is_formula)?, rest)
        }
    };
    while let Some(next) = SPACES.iter().find_map(|space| rest.strip_prefix(space)) {
        rest = next;
    }
    // Several options are no option and its value, nor is what an operator joins to one.
    const JOINING: [&str; 14] = [
        ",",
        ";",
        "^",
        "_",
        "+",
        "=",
        ")",
        "}",
        "and",
        "or",
        "&",
        r"\text{and",
        r"\text{ and",
        r"\cup",
    ];
    let is_joined = JOINING.iter().any(|joining| rest.starts_with(joining)) || rest.starts_with(r"\text{ or");
    let is_several = rest
        .match_indices('(')
        .any(|(at, _)| rest.get(at..at + 3).and_then(bracketed).is_some());
    (!rest.is_empty() && !is_joined && !is_several).then_some((letter, rest))
}

/// The runs of letters and digits, in small letters, one space between.
pub(crate) fn words(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    for word in text
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        if !words.is_empty() {
            words.push(' ');
        }
        words.extend(word.chars().flat_map(char::to_lowercase));
    }
    words
}

/// Nothing but letters, among them a word that is no function, constant or unit name.
fn is_words(text: &str) -> bool {
    const MATHEMATICAL: [&str; 12] = [
        "pi", "theta", "alpha", "beta", "gamma", "lambda", "infinity", "inf", "sin", "cos", "tan", "log",
    ];
    let is_letters = text
        .chars()
        .all(|letter| letter.is_alphabetic() || matches!(letter, ' ' | '.' | '\'' | '-' | ','));
    let mut long = text
        .split(|letter: char| !letter.is_alphabetic())
        .filter(|word| word.chars().count() > 2 && !matches!(*word, "and" | "or"));
    is_letters && long.any(|word| !MATHEMATICAL.contains(&word))
}
