//! Lengths on a logarithmic scale: a byte says how long something is to about nine per cent; and what a completion's message
//! says of the length of its answer.

use std::fmt;
use std::str::FromStr;

use crate::{Completion, Ending};

/// Classes for each doubling.
const STEPS: f64 = 8.0;

/// The class of a length: 0 for nothing, then eight classes for each doubling, up to 255 for about 4 billion.
#[must_use]
pub fn length_class(length: u64) -> u8 {
    if length == 0 {
        return 0;
    }
    let class = (length as f64).log2().mul_add(STEPS, 1.0).round();
    // In range by the clamp.
    class.clamp(1.0, 255.0) as u8
}

/// The length that a class stands for.
#[must_use]
pub fn class_length(class: u8) -> u64 {
    match class {
        0 => 0,
        class => ((f64::from(class) - 1.0) / STEPS).exp2().round() as u64,
    }
}

/// How long an answer was, as the header of its completion's message says: `<tokens>`, or `<tokens>+` where the cap or the
/// context cut it, so that it would have been longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerLength {
    /// Tokens that were generated.
    pub tokens: u32,
    /// It was cut: at least so long.
    pub is_cut: bool,
}

impl AnswerLength {
    /// The header that carries it.
    pub const HEADER: &'static str = "Tm-Length";

    /// What a completion tells; `None` of one without an answer that a model made: a failure, or nothing but likelihoods.
    #[must_use]
    pub fn of(completion: &Completion) -> Option<Self> {
        matches!(completion.ending, Ending::Stop | Ending::Length).then(|| Self {
            tokens: u32::try_from(completion.completion_tokens).unwrap_or(u32::MAX),
            is_cut: completion.truncated,
        })
    }
}

impl fmt::Display for AnswerLength {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.tokens, if self.is_cut { "+" } else { "" })
    }
}

/// A text that is no length of an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no length of an answer: expected a number of tokens, with + behind it where the answer was cut")]
pub struct InvalidLength(String);

impl FromStr for AnswerLength {
    type Err = InvalidLength;

    fn from_str(text: &str) -> Result<Self, InvalidLength> {
        let digits = text.strip_suffix('+');
        let tokens = digits
            .unwrap_or(text)
            .parse()
            .map_err(|_| InvalidLength(text.to_owned()))?;
        Ok(Self {
            tokens,
            is_cut: digits.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_tells_a_length_to_a_tenth_and_keeps_the_order() {
        assert_eq!((length_class(0), class_length(0)), (0, 0));
        let lengths = (1..2_000_u64).chain((1..1_000).map(|step| step * 1_003));
        let mut before = (0, 0);
        for length in lengths {
            let class = length_class(length);
            let told = class_length(class) as f64;
            assert!(
                (told - length as f64).abs() <= (length as f64 * 0.1).max(0.5),
                "{length}: {told}"
            );
            if length > before.0 {
                assert!(class >= before.1);
                before = (length, class);
            }
        }
        assert_eq!(length_class(u64::MAX), 255);
    }

    #[test]
    fn a_length_reads_as_it_was_written_and_nothing_else_does() {
        for (tokens, is_cut, text) in [(0, false, "0"), (17, false, "17"), (256, true, "256+")] {
            let length = AnswerLength { tokens, is_cut };
            assert_eq!((length.to_string().as_str(), text.parse()), (text, Ok(length)));
        }
        for text in ["", "+", "1 +", "-1", "1.5", "99999999999", "ten"] {
            assert_eq!(text.parse::<AnswerLength>(), Err(InvalidLength(text.to_owned())));
        }
    }
}
