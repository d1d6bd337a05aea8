//! Patterns that suites bring: compiled once within bounds, matched in time linear in the text.

use ::regex::{Regex, RegexBuilder};
use tidemill_domain::Take;

use crate::Error;

/// Room for a compiled pattern: far above what real ones need, and small enough that a hostile one fails instead of
/// filling the memory.
const MAX_PATTERN_BYTES: usize = 4 << 20;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    /// Compiles a suite's pattern.
    ///
    /// # Errors
    /// [`Error::Pattern`] when it is malformed or too large.
    pub(crate) fn try_new(pattern: &str) -> Result<Self, Error> {
        RegexBuilder::new(pattern)
            .size_limit(MAX_PATTERN_BYTES)
            .dfa_size_limit(MAX_PATTERN_BYTES)
            .build()
            .map(Self)
            .map_err(|error| Error::Pattern {
                pattern: pattern.to_owned(),
                reason: error.to_string(),
            })
    }

    /// How many groups there are, the whole match among them.
    pub(crate) fn groups(&self) -> usize {
        self.0.captures_len()
    }

    /// A group of the first or the last match; where none is named, the first group, or the whole match where that took no
    /// part.
    pub(crate) fn take<'t>(&self, text: &'t str, take: Take, group: Option<usize>) -> Option<&'t str> {
        let found = match take {
            Take::First => self.0.find(text)?,
            Take::Last => self.0.find_iter(text).last()?,
        };
        // Groups are found again at the one match that counts, because finding them for every match costs several times more.
        let captures = self.0.captures_at(text, found.start())?;
        let counted = match group {
            Some(group) => captures.get(group),
            None => captures.get(1).or_else(|| captures.get(0)),
        };
        counted.map(|found| found.as_str())
    }

    /// The first group of the last match, or the whole match where the group took no part.
    pub(crate) fn last<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.take(text, Take::Last, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_group_counts_else_the_whole_match() {
        let pattern = Pattern::try_new(r"#### (\d+)|none").unwrap();
        assert_eq!(pattern.take("#### 4 and #### 5", Take::First, None), Some("4"));
        assert_eq!(pattern.last("#### 4 and #### 5"), Some("5"));
        assert_eq!(pattern.last("#### 4, then none"), Some("none"));
        assert_eq!(pattern.last("nothing"), None);
    }

    #[test]
    fn a_match_after_an_empty_one_keeps_its_groups() {
        let pattern = Pattern::try_new(r"(?m)^(\w*)$").unwrap();
        assert_eq!(pattern.last("a\n\nbc"), Some("bc"));
        assert_eq!(pattern.last("a\n\n"), Some(""));
    }

    #[test]
    fn malformed_and_enormous_patterns_are_refused() {
        assert!(Pattern::try_new("(").is_err());
        assert!(Pattern::try_new(r"((\w{1000}){1000}){1000}").is_err());
    }

    #[test]
    fn a_pattern_that_would_backtrack_for_ever_ends() {
        let pattern = Pattern::try_new("(a+)+$").unwrap();
        assert_eq!(pattern.last(&format!("{}b", "a".repeat(50_000))), None);
    }
}
