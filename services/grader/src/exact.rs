//! Family `exact`: the whole answer equals a target, once what makes no difference is taken from both.

use tidemill_domain::{Item, Normaliser};

use crate::Error;
use crate::answer::{Answer, Credit, Finding, is_unanswerable, trimmed};
use crate::family::Family;
use crate::normal::Normalisers;

const NAME: &str = "exact@2";
const WHOLE: &str = "whole-answer@1";

#[derive(Debug, Clone)]
pub(crate) struct Exact {
    normalisers: Normalisers,
}

impl Exact {
    pub(crate) fn new(normalisers: &[Normaliser]) -> Self {
        Self {
            normalisers: Normalisers::new(normalisers),
        }
    }

    /// What the two switches of a suite mean: words are compared where punctuation makes no difference.
    pub(crate) fn ignoring(case: bool, punctuation: bool) -> Self {
        let mut normalisers = Vec::new();
        if case {
            normalisers.push(Normaliser::Case);
        }
        if punctuation {
            normalisers.extend([Normaliser::Punctuation, Normaliser::Whitespace]);
        }
        Self::new(&normalisers)
    }
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
        if text.is_empty() && !is_unanswerable(item) {
            return Ok(None);
        }
        Ok(Some(
            compared(&self.normalisers, item, WHOLE, text).at(answer.span(text)),
        ))
    }
}

/// An answer compared with the targets of its item, as text.
pub(crate) fn compared(normalisers: &Normalisers, item: &Item, extractor: &'static str, text: &str) -> Finding {
    let normal = normalisers.apply(text);
    let equal = item.targets.iter().find(|target| normalisers.apply(target) == normal);
    let reason = match equal {
        Some(_) if is_unanswerable(item) => "says nothing, and there is no answer to give".to_owned(),
        Some(_) => format!("equals a target{}", normalisers.aside()),
        None if is_unanswerable(item) => "there is no answer to give".to_owned(),
        None => format!("equals no target{}", normalisers.aside()),
    };
    Finding::new(extractor, text, Credit::Whole(equal.is_some()))
        .known_as(&normal)
        .because(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::item;

    #[test]
    fn where_there_is_no_answer_an_answer_of_which_nothing_is_left_is_right() {
        let (exact, bare) = (Exact::new(&[]), Exact::ignoring(false, true));
        let judged = |exact: &Exact, targets: &[&str], text: &str| {
            let found = exact.judge(&item(targets, &[]), &Answer::whole(text)).unwrap();
            found.map(|finding| finding.credit.score())
        };
        assert_eq!(judged(&exact, &[""], " \u{200b}"), Some(1.0));
        assert_eq!(judged(&exact, &[""], "Paris"), Some(0.0));
        assert_eq!(judged(&exact, &[""], "."), Some(0.0));
        assert_eq!(judged(&bare, &[""], "."), Some(1.0));
        assert_eq!(
            judged(&exact, &["Paris"], " "),
            None,
            "there is one, and it was not given"
        );
    }
}
