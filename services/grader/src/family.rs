//! What every family of graders is.

use std::fmt;

use tidemill_domain::Item;

use crate::Error;
use crate::answer::{Answer, Finding};

/// A way to find and compare answers, ready for any number of them.
///
/// A family is a pure function of item and answer: bounded in time by the length of both, whatever they hold.
pub(crate) trait Family: fmt::Debug + Send + Sync {
    /// Kind and version. A change of what is accepted raises the version.
    fn name(&self) -> &'static str;

    /// Finds and compares the answer; `None` where there is none.
    ///
    /// # Errors
    /// What is wrong with the item or the grader; never with the answer.
    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error>;

    /// Why there is none, where more can be said than that nothing was found.
    fn why_none(&self, _answer: &Answer<'_>) -> Option<String> {
        None
    }

    /// Whether an answer that was cut adds to metrics what a whole one of this text adds.
    fn measures_cut_answers(&self) -> bool {
        false
    }
}
