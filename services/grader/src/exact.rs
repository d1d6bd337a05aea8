//! Family `exact`: the whole answer equals a target, white space at both ends aside.

use tidemill_domain::Item;

use crate::Error;
use crate::answer::{Finding, same_text, same_words, trimmed};

pub(crate) const NAME: &str = "exact@1";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Exact {
    pub(crate) ignore_case: bool,
    pub(crate) ignore_punctuation: bool,
}

impl Exact {
    pub(crate) fn judge(self, item: &Item, text: &str) -> Result<Option<Finding>, Error> {
        if item.targets.is_empty() {
            return Err(Error::Target { wanted: "an answer" });
        }
        let answer = trimmed(text);
        if answer.is_empty() {
            return Ok(None);
        }
        let is_right = item.targets.iter().any(|target| self.matches(answer, trimmed(target)));
        Ok(Some(Finding::new(answer, is_right)))
    }

    fn matches(self, answer: &str, target: &str) -> bool {
        if self.ignore_punctuation {
            same_words(answer, target, self.ignore_case)
        } else {
            same_text(answer, target, self.ignore_case)
        }
    }
}
