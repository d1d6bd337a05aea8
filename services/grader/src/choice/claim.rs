//! Letters that are called right: "B is the correct answer", "B is correct", "which leaves option B".
//!
//! What is called right beside an announced answer is mostly one of its reasons: "Answer: D. A is correct because red is a colour".
//! It counts there only where it names the answer outright, takes back what was announced, or concludes the text; else only where
//! nothing is announced and no other letter is called right.

use std::ops::Range;

use super::{Named, Options, Said};
use crate::anchor::{Claim, claimed, is_denied_before, is_shared, taken_back};

/// A claim of an option's letter.
pub(super) struct Claimed {
    claim: Claim,
    index: usize,
    written: Range<usize>,
    is_narrowed: bool,
}

impl Options<'_> {
    /// The claims that begin behind a place and are not denied, in the order of the text.
    fn claims(&self, text: &str, from: usize) -> Vec<Claimed> {
        let behind = claimed(text).into_iter().filter(|claim| claim.start >= from);
        let of_option = |claim: Claim| {
            let letter = self.letter(text[claim.start..].chars().next()?)?;
            // The letter may be the last of an option's text: "Vitamin C is the answer".
            let (index, written) = self
                .ending_at(text, claim.start + 1)
                .unwrap_or((letter, claim.start..claim.start + 1));
            let is_none = is_denied_before(text, claim.start) || claim.is_no_claim(text);
            (!is_none).then(|| Claimed {
                claim,
                index,
                written,
                is_narrowed: claim.is_narrowed(text),
            })
        };
        behind.filter_map(of_option).collect()
    }

    /// The last claim behind a place that stands against an answer announced there.
    pub(super) fn claimed_against(&self, text: &str, from: usize) -> Said {
        let claims = self.claims(text, from);
        let plain: Vec<&Claimed> = claims.iter().filter(|claimed| !claimed.is_narrowed).collect();
        let alike = plain
            .iter()
            .take_while(|claimed| claimed.index == plain[0].index)
            .count();
        let taken_back = taken_back(text, from);
        let counts = |(at, claimed): &(usize, &&Claimed)| {
            claimed.claim.names_answer
                || taken_back.is_some_and(|end| end <= claimed.claim.start)
                || claimed.claim.is_set_against(text, from)
                || (*at < alike && claimed.claim.concludes(text, from))
        };
        plain
            .iter()
            .enumerate()
            .rfind(counts)
            .map_or(Said::Nothing, |(_, claimed)| claimed.said(text))
    }

    /// The only letter that is called right, in any words; those that narrow nothing come first.
    pub(super) fn claimed_alone(&self, text: &str) -> Said {
        let claims = self.claims(text, 0);
        let has_plain = claims.iter().any(|claimed| !claimed.is_narrowed);
        let counted: Vec<&Claimed> = claims
            .iter()
            .filter(|claimed| !(has_plain && claimed.is_narrowed))
            .collect();
        let Some(last) = counted.last() else {
            return Said::Nothing;
        };
        if counted.iter().all(|claimed| claimed.index == last.index) || last.claim.concludes(text, 0) {
            last.said(text)
        } else {
            Said::Nothing
        }
    }
}

impl Claimed {
    fn said(&self, text: &str) -> Said {
        if is_shared(text, self.claim.start) {
            return Said::Several;
        }
        Said::Option(Named {
            index: self.index,
            written: self.written.clone(),
            how: "was called right last",
        })
    }
}
