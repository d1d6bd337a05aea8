//! Reads the arguments of an instruction.

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use crate::Error;
use crate::python::stripped;

/// The most memory that a compiled pattern takes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// How many there must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    LessThan(usize),
    AtLeast(usize),
}

impl Wanted {
    pub(super) const fn is_met_by(self, count: usize) -> bool {
        match self {
            Self::LessThan(limit) => count < limit,
            Self::AtLeast(limit) => count >= limit,
        }
    }

    /// Beyond this many, no further one changes anything.
    pub(super) const fn enough(self) -> usize {
        match self {
            Self::LessThan(limit) | Self::AtLeast(limit) => limit,
        }
    }
}

/// The arguments of one instruction.
pub(super) struct Arguments<'a> {
    pub(super) id: &'static str,
    pub(super) given: &'a Map<String, Value>,
}

impl Arguments<'_> {
    /// A whole number of 1 or more; data frames write it as a float.
    pub(super) fn count(&self, name: &'static str) -> Result<usize, Error> {
        let number = |value: &Value| {
            let whole = value
                .as_f64()
                .filter(|number| number.fract() == 0.0 && (1.0..1e9).contains(number));
            whole.map(|number| number as usize)
        };
        self.read(name, "a whole number of 1 or more", number)
    }

    pub(super) fn text(&self, name: &'static str) -> Result<String, Error> {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        self.read(name, "a text that is not empty", text)
    }

    pub(super) fn letter(&self, name: &'static str) -> Result<char, Error> {
        self.read(name, "one letter", |value| {
            let text = value.as_str()?.to_lowercase();
            let mut letters = text.chars();
            letters.next().filter(|_| letters.as_str().is_empty())
        })
    }

    /// `relation` and a number.
    pub(super) fn wanted(&self, relation: &'static str, count: &'static str) -> Result<Wanted, Error> {
        let wanted = self.read(relation, r#""less than" or "at least""#, |value| {
            match value.as_str()? {
                "less than" => Some(Wanted::LessThan as fn(usize) -> Wanted),
                "at least" => Some(Wanted::AtLeast as fn(usize) -> Wanted),
                _ => None,
            }
        })?;
        self.count(count).map(wanted)
    }

    /// A list of patterns, each with `around` on both sides.
    pub(super) fn patterns(&self, name: &'static str, around: &str) -> Result<Vec<Regex>, Error> {
        let texts = self.read(name, "a list of texts, at least one", |value| {
            let texts = value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>().filter(|texts| !texts.is_empty())
        })?;
        texts
            .iter()
            .map(|text| compile(&format!("{around}{text}{around}")))
            .collect()
    }

    /// A text as a pattern, stripped and with something before and after it.
    pub(super) fn pattern(&self, name: &'static str, before: &str, after: &str) -> Result<Regex, Error> {
        compile(&format!("{before}{}{after}", stripped(&self.text(name)?)))
    }

    fn read<T>(
        &self,
        name: &'static str,
        wanted: &'static str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, Error> {
        let given = self.given.get(name).unwrap_or(&Value::Null);
        read(given).ok_or_else(|| Error::Argument {
            id: self.id,
            argument: name,
            wanted,
            found: given.to_string(),
        })
    }
}

/// Compiles a pattern that ignores case, and where `^` and `$` are those of lines.
pub(super) fn compile(pattern: &str) -> Result<Regex, Error> {
    let mut builder = RegexBuilder::new(pattern);
    builder
        .case_insensitive(true)
        .multi_line(true)
        .size_limit(MAX_PATTERN_BYTES);
    builder.build().map_err(|error| Error::Pattern {
        pattern: pattern.to_owned(),
        reason: error.to_string().lines().last().unwrap_or_default().to_owned(),
    })
}
