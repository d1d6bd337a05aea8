//! How `exact_match` makes two texts comparable.

use crate::pattern::Pattern;

/// What is left out of both texts, in this order.
#[derive(Debug, Clone, Default)]
pub struct Normalise {
    /// Upper and lower case are the same.
    pub ignore_case: bool,
    /// ASCII punctuation is left out.
    pub ignore_punctuation: bool,
    /// ASCII digits are left out.
    pub ignore_numbers: bool,
    /// What these match is left out, before all else; each with its source.
    pub(crate) regexes_to_ignore: Vec<(String, Pattern)>,
}

impl PartialEq for Normalise {
    fn eq(&self, other: &Self) -> bool {
        let flags = |own: &Self| (own.ignore_case, own.ignore_punctuation, own.ignore_numbers);
        flags(self) == flags(other) && self.sources().eq(other.sources())
    }
}

impl Normalise {
    /// The patterns as they are written.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.regexes_to_ignore.iter().map(|(source, _)| source.as_str())
    }

    /// Options from their parts, as a manifest keeps them.
    ///
    /// # Errors
    /// A pattern does not compile.
    pub fn try_new(case: bool, punctuation: bool, numbers: bool, patterns: &[String]) -> Result<Self, String> {
        let compile = |source: &String| Ok((source.clone(), Pattern::new(source)?));
        Ok(Self {
            ignore_case: case,
            ignore_punctuation: punctuation,
            ignore_numbers: numbers,
            regexes_to_ignore: patterns.iter().map(compile).collect::<Result<_, String>>()?,
        })
    }

    /// Whether texts that are none may be compared: every option but none changes texts.
    pub(crate) fn changes_texts(&self) -> bool {
        *self != Self::default()
    }

    /// A text without what is left out.
    ///
    /// # Errors
    /// A pattern takes too long.
    pub(crate) fn apply(&self, text: &str) -> Result<String, String> {
        let mut text = text.to_owned();
        for (_, pattern) in &self.regexes_to_ignore {
            text = pattern.replace(&text, "", 0)?;
        }
        if self.ignore_case {
            text = text.to_lowercase();
        }
        if self.ignore_punctuation {
            text.retain(|letter| !letter.is_ascii_punctuation());
        }
        if self.ignore_numbers {
            text.retain(|letter| !letter.is_ascii_digit());
        }
        // Arrays of texts end each of them at its last letter that is not NUL.
        let kept = text.trim_end_matches('\0').len();
        text.truncate(kept);
        Ok(text)
    }
}
