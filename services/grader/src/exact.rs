//! Family `exact`: the whole answer equals a target, white space at both ends aside.

use tidemill_domain::Item;

use crate::Error;
use crate::answer::{Answer, Credit, Finding, same_text, same_words, trimmed};
use crate::family::Family;

const NAME: &str = "exact@1";
const WHOLE: &str = "whole-answer@1";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Exact {
    pub(crate) ignore_case: bool,
    pub(crate) ignore_punctuation: bool,
}

impl Family for Exact {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        if item.targets.is_empty() {
            return Err(Error::Target { wanted: "an answer" });
        }
        let text = trimmed(answer.text());
        if text.is_empty() {
            return Ok(None);
        }
        let is_right = item.targets.iter().any(|target| self.matches(text, trimmed(target)));
        let finding = Finding::new(WHOLE, text, Credit::Whole(is_right));
        Ok(Some(finding.at(answer.span(text))))
    }
}

impl Exact {
    fn matches(self, answer: &str, target: &str) -> bool {
        if self.ignore_punctuation {
            same_words(answer, target, self.ignore_case)
        } else {
            same_text(answer, target, self.ignore_case)
        }
    }
}
