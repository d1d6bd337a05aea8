//! A line of text in plain marks: one ASCII spelling for all that mean the same in and around numbers.

use std::ops::Range;

/// Stands for a letter of a script whose letters may touch a number.
pub(super) const OTHER_LETTER: u8 = 2;
/// Stands for a mark that ends a number.
pub(super) const OTHER_MARK: u8 = 1;

/// With this bit a byte stands for letters that multiply the number before them by a power of ten, which is the rest of it: `万`.
const MAGNITUDE: u8 = 0x80;

/// The power of ten by which a mark multiplies the number before it.
pub(super) fn power_of_mark(mark: u8) -> Option<u32> {
    (mark & MAGNITUDE != 0).then_some(u32::from(mark & !MAGNITUDE))
}

/// A text in plain marks.
pub(super) struct Marks {
    pub(super) bytes: Vec<u8>,
    /// Where each byte stands in the text as it was written.
    offsets: Vec<Range<usize>>,
}

impl Marks {
    pub(super) fn of(written: &str) -> Self {
        let mut marks = Self {
            bytes: Vec::with_capacity(written.len()),
            offsets: Vec::with_capacity(written.len()),
        };
        let mut raised = None;
        let mut known_to = 0;
        for (offset, letter) in written.char_indices() {
            if offset < known_to {
                continue;
            }
            if let Some((power, rest)) =
                tidemill_maths::power_of_ten(&written[offset..]).filter(|_| marks.may_multiply())
            {
                known_to = written.len() - rest.len();
                let power = u8::try_from(power).unwrap_or_default();
                marks.push(MAGNITUDE | power, offset..known_to);
                continue;
            }
            let place = offset..offset + letter.len_utf8();
            let (shift, plain) = match shifted(letter) {
                Some((shift, plain)) => (Some(shift), plain),
                None => (None, letter),
            };
            // The first of several small digits begins an exponent or an index.
            if let Some(shift) = shift.filter(|_| shift != raised) {
                marks.push(shift, place.clone());
            }
            raised = shift;
            match spelled(plain) {
                Some(spelling) => marks.spell(spelling, &place),
                None => marks.push(mark(plain), place),
            }
        }
        marks
    }

    /// A number ends here, marks that set type aside.
    fn may_multiply(&self) -> bool {
        let mut bytes = self.bytes.iter().rev();
        let before =
            bytes.find(|byte| !matches!(byte, b' ' | b'$' | b'*' | b'{' | b')' | b'\\') && !byte.is_ascii_alphabetic());
        before.is_some_and(u8::is_ascii_digit)
    }

    /// A fraction is set apart from the whole number before it.
    fn spell(&mut self, spelling: &str, place: &Range<usize>) {
        let follows_digit = self.bytes.last().is_some_and(u8::is_ascii_digit);
        if spelling.starts_with(|first: char| first.is_ascii_digit()) && follows_digit {
            self.push(b' ', place.clone());
        }
        for byte in spelling.bytes() {
            self.push(byte, place.clone());
        }
    }

    /// The place in the text as it was written.
    pub(super) fn written(&self, plain: &Range<usize>) -> Option<Range<usize>> {
        let first = self.offsets.get(plain.start)?;
        let last = self.offsets.get(plain.end.checked_sub(1)?)?;
        Some(first.start..last.end)
    }

    /// Adds a mark, which may complete one that LaTeX writes with several: those become one.
    fn push(&mut self, mark: u8, place: Range<usize>) {
        const SPELLINGS: [(&[u8], u8); 11] = [
            (br"\text{-}", b'-'),
            (br"\mathrm{-}", b'-'),
            (br"\textbf{-}", b'-'),
            (b"{-}", b'-'),
            (b"{,}", b','),
            (br",\!", b','),
            (br"\,", b' '),
            (br"\;", b' '),
            (br"\:", b' '),
            (br"\ ", b' '),
            (br"\$", b'$'),
        ];
        self.bytes.push(mark);
        self.offsets.push(place);
        let spelled = SPELLINGS.iter().find(|(spelling, _)| self.bytes.ends_with(spelling));
        if let Some((spelling, joined)) = spelled {
            let start = self.bytes.len() - spelling.len();
            let place = self.offsets[start].start..self.offsets[self.offsets.len() - 1].end;
            self.bytes.truncate(start);
            self.offsets.truncate(start);
            self.bytes.push(*joined);
            self.offsets.push(place);
        }
    }
}

/// A digit, or a fraction of digits, stands in the text.
pub(super) fn has_digit(text: &str) -> bool {
    text.chars()
        .any(|letter| digit(letter).is_some() || matches!(letter, '¼'..='¾' | '⅓'..='⅞'))
}

/// The digits of the scripts whose ten digits are written left to right by value.
fn digit(letter: char) -> Option<char> {
    const ZEROS: [char; 6] = ['0', '\u{660}', '\u{6f0}', '\u{966}', '\u{9e6}', '\u{ff10}'];
    ZEROS.iter().find_map(|&zero| {
        let value = u32::from(letter)
            .checked_sub(u32::from(zero))
            .filter(|&value| value < 10)?;
        char::from_digit(value, 10)
    })
}

/// A small digit or sign above the line or below it, and the mark that says which.
fn shifted(letter: char) -> Option<(u8, char)> {
    Some(match letter {
        '²' => (b'^', '2'),
        '³' => (b'^', '3'),
        '¹' => (b'^', '1'),
        '⁻' => (b'^', '-'),
        '\u{2070}' | '\u{2074}'..='\u{2079}' => (b'^', char::from_digit(u32::from(letter) - 0x2070, 10)?),
        '\u{2080}'..='\u{2089}' => (b'_', char::from_digit(u32::from(letter) - 0x2080, 10)?),
        _ => return None,
    })
}

const fn spelled(letter: char) -> Option<&'static str> {
    Some(match letter {
        '½' => "1/2",
        '⅓' => "1/3",
        '⅔' => "2/3",
        '¼' => "1/4",
        '¾' => "3/4",
        '⅕' => "1/5",
        '⅖' => "2/5",
        '⅗' => "3/5",
        '⅘' => "4/5",
        '⅙' => "1/6",
        '⅚' => "5/6",
        '⅛' => "1/8",
        '⅜' => "3/8",
        '⅝' => "5/8",
        '⅞' => "7/8",
        '√' | '∛' => r"\sqrt ",
        'π' | '𝜋' => r"\pi ",
        '±' => r"\pm ",
        '∓' => r"\mp ",
        '÷' => r"\div ",
        '≤' | '⩽' => r"\le ",
        '≥' | '⩾' => r"\ge ",
        '≠' => r"\ne ",
        _ => return None,
    })
}

fn mark(letter: char) -> u8 {
    if let Some(digit) = digit(letter) {
        return u8::try_from(digit).unwrap_or(OTHER_MARK);
    }
    match letter {
        '\u{2212}' | '\u{2010}' | '\u{2011}' | '\u{2013}' | '\u{fe63}' | '\u{ff0d}' => b'-',
        '’' | '\u{66c}' => b'\'',
        '\u{66b}' => b'.',
        '€' | '£' | '¥' | '₹' => b'$',
        '⁄' | '∕' => b'/',
        '×' | '·' | '⋅' | '∙' => b'*',
        '≈' | '≃' => b'=',
        '~' => b' ',
        '!'..='}' => u8::try_from(letter).unwrap_or(OTHER_MARK),
        _ if letter.is_whitespace() => b' ',
        // Letters of these scripts stand apart from numbers, so one that touches them makes a name: `x1`, `CO2`.
        _ if letter.is_alphabetic() && letter < '\u{590}' && !matches!(letter, 'ª' | 'º') => b'z',
        _ if letter.is_alphanumeric() => OTHER_LETTER,
        _ => OTHER_MARK,
    }
}
