//! Family `exact`: the whole answer equals a target, once what makes no difference is taken from both.

use tidemill_domain::{Item, Normaliser};

use crate::Error;
use crate::answer::{Answer, Credit, Finding, trimmed};
use crate::family::Family;
use crate::normal::Normalisers;

const NAME: &str = "exact@1";
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
        if text.is_empty() {
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
        Some(_) => format!("equals a target{}", normalisers.aside()),
        None => format!("equals no target{}", normalisers.aside()),
    };
    Finding::new(extractor, text, Credit::Whole(equal.is_some()))
        .known_as(&normal)
        .because(reason)
}
