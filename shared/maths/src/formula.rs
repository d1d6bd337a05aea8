//! Where a text sets a formula: `$...$`, `$$...$$`, `\(...\)` and `\[...\]`.

use std::ops::Range;

/// Where the last formula of a text stands, without its delimiters, in bytes.
///
/// A dollar sign opens one only before a mark that is no space, and closes one only after such a mark and before no digit:
/// in "$5 or $6" there is no formula.
#[must_use]
pub fn last_formula(text: &str) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut last = None;
    let mut open: Option<(Delimiter, usize)> = None;
    let mut at = 0;
    while at < bytes.len() {
        let Some((delimiter, length)) = delimiter(bytes, at) else {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
            continue;
        };
        let after = at + length;
        open = match open {
            Some((opened, start)) if opened.is_closed_by(delimiter, bytes, start, at) => {
                if !text[start..at].trim().is_empty() {
                    last = Some(start..at);
                }
                None
            }
            Some((Delimiter::Dollar, _)) if delimiter == Delimiter::Dollar => opening(delimiter, bytes, after),
            Some(opened) => Some(opened),
            None => opening(delimiter, bytes, after),
        };
        at = after;
    }
    last
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delimiter {
    Dollar,
    Dollars,
    OpenRound,
    CloseRound,
    OpenSquare,
    CloseSquare,
}

fn delimiter(bytes: &[u8], at: usize) -> Option<(Delimiter, usize)> {
    match (bytes[at], bytes.get(at + 1)) {
        (b'$', Some(b'$')) => Some((Delimiter::Dollars, 2)),
        (b'$', _) => Some((Delimiter::Dollar, 1)),
        (b'\\', Some(b'(')) => Some((Delimiter::OpenRound, 2)),
        (b'\\', Some(b')')) => Some((Delimiter::CloseRound, 2)),
        (b'\\', Some(b'[')) => Some((Delimiter::OpenSquare, 2)),
        (b'\\', Some(b']')) => Some((Delimiter::CloseSquare, 2)),
        _ => None,
    }
}

fn opening(delimiter: Delimiter, bytes: &[u8], after: usize) -> Option<(Delimiter, usize)> {
    let opens = match delimiter {
        Delimiter::Dollar => bytes.get(after).is_some_and(|byte| !byte.is_ascii_whitespace()),
        Delimiter::CloseRound | Delimiter::CloseSquare => false,
        _ => true,
    };
    opens.then_some((delimiter, after))
}

impl Delimiter {
    fn is_closed_by(self, other: Self, bytes: &[u8], start: usize, at: usize) -> bool {
        match self {
            Self::Dollar => {
                other == Self::Dollar
                    && at > start
                    && !bytes[at - 1].is_ascii_whitespace()
                    && !bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
            }
            Self::Dollars => other == Self::Dollars,
            Self::OpenRound => other == Self::CloseRound,
            Self::OpenSquare => other == Self::CloseSquare,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_formula_is_found_by_its_delimiters() {
        let last = |text: &'static str| last_formula(text).map(|range| &text[range]);
        assert_eq!(last(r"so $x = 1$ and \(x = 2\)."), Some("x = 2"));
        assert_eq!(last(r"\[ a \] then $$b$$"), Some("b"));
        assert_eq!(last("the answer is $\\frac{1}{2}$."), Some(r"\frac{1}{2}"));
        assert_eq!(last("it costs $5 or $6"), None);
        assert_eq!(last(r"it costs \$5, so $n$"), Some("n"));
        assert_eq!(last("nothing $ open"), None);
        assert_eq!(last(r"\"), None);
    }
}
