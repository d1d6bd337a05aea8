//! What a task file asks for and cannot have here.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<Path>,
    /// The line, from 1; 0 where the whole file is meant.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(formatter, "{}", self.file.display()),
            line => write!(formatter, "{}:{line}", self.file.display()),
        }
    }
}

/// One thing that is refused: which key asked for it, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {key}: {reason}")]
pub struct Refusal {
    /// The file and line that ask for it.
    pub place: Place,
    /// The key, as a path such as `filter_list[0].filter[1].function`.
    pub key: String,
    /// Why it is refused, and what to do.
    pub reason: String,
}

impl Refusal {
    /// The key without its place in lists: equal for equal causes.
    #[must_use]
    pub fn cause(&self) -> String {
        let mut cause = String::new();
        let mut depth = 0_usize;
        for letter in self.key.chars() {
            match letter {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                letter if depth == 0 => cause.push(letter),
                _ => {}
            }
        }
        cause
    }
}

/// Collects everything that is refused, rather than the first.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pub(crate) all: Vec<Refusal>,
}

impl Refusals {
    pub(crate) fn push(&mut self, place: &Place, key: impl Into<String>, reason: impl Into<String>) {
        self.all.push(Refusal {
            place: place.clone(),
            key: key.into(),
            reason: reason.into(),
        });
    }
}
