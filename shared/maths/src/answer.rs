//! One answer, read once and compared any number of times.

use crate::boxed::unwrapped;
use crate::canonical::canonical;
use crate::characters::plain;
use crate::node::Node;
use crate::parser::parse;
use crate::steps::Steps;

/// Longer texts are no answers and are compared by their letters alone.
pub const MAX_BYTES: usize = 4_096;

/// The longest canonical form.
pub const MAX_CANONICAL_BYTES: usize = 200;

/// A text that was read as an answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(crate) source: Source,
    pub(crate) node: Option<Node>,
}

/// The text as it is compared where mathematics does not help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Without spaces and without what only sets type.
    pub(crate) squeezed: String,
    /// The words in small letters, one space between.
    pub(crate) words: String,
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
            };
            return Self { source, node: None };
        }
        let inner = unwrapped(text);
        let source = Source::of(inner);
        if is_words(inner) {
            return Self {
                node: Some(Node::Text(source.words.clone())),
                source,
            };
        }
        // What the parser does not understand, or not within the budget, stays a text.
        let node = parse(inner, steps).ok();
        Self { source, node }
    }

    /// It was understood as a number, a formula, or a collection of them, with no words in it but units.
    #[must_use]
    pub fn is_mathematics(&self) -> bool {
        let is_words = |node: &Node| node.any(&|part| matches!(part, Node::Text(_)));
        self.node.as_ref().is_some_and(|node| !is_words(node))
    }

    /// It says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.source.squeezed.is_empty()
    }

    /// A short text that is the same for answers that are equal; at most [`MAX_CANONICAL_BYTES`].
    ///
    /// Units that are left out make no difference, nor does the sign of a percentage. Answers that are equal by conversion
    /// (`1 m` and `100 cm`, `50%` and `0.5`) or by an identity of functions of variables keep forms of their own.
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
        squeezed.retain(|letter| !letter.is_whitespace());
        let squeezed = squeezed.trim_end_matches(['.', ',', ';']).to_owned();
        Self { squeezed, words }
    }
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
