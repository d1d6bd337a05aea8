//! A text without what nobody sees: marks of direction and joining, zero-width spaces, soft hyphens.

use std::borrow::Cow;
use std::ops::Range;

/// A text without invisible characters, which knows where its parts stood before.
#[derive(Debug)]
pub(super) struct Visible<'t> {
    pub(super) text: Cow<'t, str>,
    /// Places in the text before which something was left out, and all the bytes left out up to there; in order.
    left_out: Vec<(usize, usize)>,
}

impl<'t> Visible<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        if !text.contains(is_invisible) {
            return Self {
                text: Cow::Borrowed(text),
                left_out: Vec::new(),
            };
        }
        let (mut kept, mut left_out, mut bytes) = (String::with_capacity(text.len()), Vec::new(), 0);
        for letter in text.chars() {
            if is_invisible(letter) {
                bytes += letter.len_utf8();
                left_out.push((kept.len(), bytes));
            } else {
                kept.push(letter);
            }
        }
        let text = Cow::Owned(kept);
        Self { text, left_out }
    }

    /// Where a part of the text stood before.
    pub(super) fn original(&self, part: &Range<usize>) -> Range<usize> {
        let before = |place: usize, counts: &dyn Fn(usize) -> bool| {
            let index = self.left_out.partition_point(|(at, _)| counts(*at));
            let bytes = index
                .checked_sub(1)
                .and_then(|index| self.left_out.get(index))
                .map_or(0, |(_, bytes)| *bytes);
            place + bytes
        };
        before(part.start, &|at| at <= part.start)..before(part.end, &|at| at < part.end)
    }
}

/// Unicode's format characters (Cf) without a shape of their own.
pub(super) const fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
            | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_again_where_it_stood() {
        let text = "\u{200f}é\u{200b}B\u{200b}\u{ad}c";
        let visible = Visible::of(text);
        assert_eq!(visible.text, "éBc");
        let original = |part: Range<usize>| &text[visible.original(&part)];
        assert_eq!(original(2..3), "B");
        assert_eq!(original(0..2), "é");
        assert_eq!(original(2..4), "B\u{200b}\u{ad}c");
        let plain = Visible::of("abc");
        assert_eq!(plain.original(&(1..2)), 1..2);
    }
}
