//! Reading the last number of a text, as people and models write numbers.
//!
//! Understood: signs and the typographic minus, currency signs, thousands separators (`8,000`, `9{,}500`, `9,\!500`, thin
//! spaces, `9'500`, `9_500`), decimals, exponents, fractions (`1/2`, `\frac{1}{2}`), and the decimal digits of the scripts
//! listed below. Not understood: decimal commas, mixed numbers, powers of ten spelled as products, numerals in words.

use std::ops::Range;

use tidemill_maths::Answer;

/// A number that was found in a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number {
    /// In plain ASCII, without separators and without zeros that say nothing.
    text: String,
    value: f64,
}

/// From here on not every whole number has a float of its own.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

impl Number {
    fn new(numeral: String) -> Self {
        let value: f64 = numeral.parse().unwrap_or(f64::NAN);
        let significant = numeral.bytes().filter(u8::is_ascii_digit).count();
        // So many digits every float gives back as they were written.
        let is_plain = (1e-9..LARGEST_EXACT).contains(&value) && significant <= 15;
        let mantissa = numeral.split(['e', 'E']).next().unwrap_or_default();
        let is_zero = !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
        let text = if is_zero {
            "0".to_owned()
        } else if is_plain {
            value.to_string()
        } else {
            numeral
        };
        Self { text, value }
    }

    fn ratio(numerator: &Self, denominator: &Self) -> Option<Self> {
        let value = numerator.value / denominator.value;
        value.is_finite().then(|| Self {
            text: format!("{}/{}", numerator.text, denominator.text),
            value,
        })
    }

    fn negated(self) -> Self {
        if self.text == "0" {
            return self;
        }
        Self {
            text: format!("-{}", self.text),
            value: -self.value,
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Equal up to the tolerance, with room for the rounding of the subtraction; without one, as exact fractions.
    pub(crate) fn equals(&self, other: &Self, tolerance: f64) -> bool {
        if tolerance > 0.0 {
            let rounding = 4.0 * f64::EPSILON * self.value.abs().max(other.value.abs());
            return (self.value - other.value).abs() <= tolerance + rounding;
        }
        self.text == other.text || tidemill_maths::equal(&other.text, &self.text)
    }

    /// A form that is the same for equal numbers.
    pub(crate) fn canonical(&self) -> String {
        Answer::read(&self.text).canonical()
    }
}

/// A number and where it stands in the text that was read, in bytes.
pub(crate) type Placed = (Number, Range<usize>);

/// The last number of a text.
///
/// Only the run of letters around the text's last digit is read, so the cost does not grow with what precedes it.
pub(crate) fn last_number(text: &str) -> Option<Placed> {
    let last_digit = text.rfind(|letter| digit(letter).is_some())?;
    let head = &text[..last_digit];
    let start = head
        .char_indices()
        .rev()
        .find(|&(_, letter)| !may_belong_to_a_number(letter))
        .map_or(0, |(offset, letter)| offset + letter.len_utf8());
    let end = text[last_digit..]
        .chars()
        .next()
        .map_or(text.len(), |letter| last_digit + letter.len_utf8());
    let follows_word = text[..start]
        .chars()
        .next_back()
        .is_some_and(|letter| letter.is_alphanumeric() || letter == ')');
    let run = Run::of(&text[start..end]);
    let reader = Reader {
        bytes: run.plain.as_bytes(),
        follows_word,
    };
    let (number, place) = reader.last()?;
    let first = run.offsets.get(place.start)?;
    let last = run.offsets.get(place.end.checked_sub(1)?)?;
    Some((number, start + first.start..start + last.end))
}

fn may_belong_to_a_number(letter: char) -> bool {
    digit(letter).is_some() || plain_mark(letter).is_some()
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

/// One ASCII mark for all that mean the same within a number.
const fn plain_mark(letter: char) -> Option<char> {
    match letter {
        '-' | '\u{2212}' | '\u{2010}' | '\u{2011}' => Some('-'),
        ',' | '\'' | '’' | '_' | '\u{66c}' | '\u{2009}' | '\u{202f}' => Some(','),
        '.' | '\u{66b}' => Some('.'),
        '$' | '€' | '£' | '¥' => Some('$'),
        '+' | '/' | '\\' | '!' | '{' | '}' | 'e' | 'E' | 'f' | 'r' | 'a' | 'c' | 'd' | 't' => Some(letter),
        _ => None,
    }
}

/// A run of letters that may belong to numbers, in plain marks.
struct Run {
    plain: String,
    /// Where each byte of it stands in the run as it was written.
    offsets: Vec<Range<usize>>,
}

impl Run {
    fn of(written: &str) -> Self {
        let mut run = Self {
            plain: String::with_capacity(written.len()),
            offsets: Vec::with_capacity(written.len()),
        };
        for (offset, letter) in written.char_indices() {
            if let Some(mark) = digit(letter).or_else(|| plain_mark(letter)) {
                run.push(mark, offset..offset + letter.len_utf8());
            }
        }
        run
    }

    /// Adds a mark, which may complete a separator that LaTeX writes with several: those become one.
    fn push(&mut self, mark: char, place: Range<usize>) {
        const SPELLINGS: [(&str, char); 4] = [("{,}", ','), (r",\!", ','), (r"\,", ','), (r"\$", '$')];
        self.plain.push(mark);
        self.offsets.push(place);
        let spelled = SPELLINGS.iter().find(|(spelling, _)| self.plain.ends_with(spelling));
        if let Some((spelling, joined)) = spelled {
            let start = self.plain.len() - spelling.len();
            let place = self.offsets[start].start..self.offsets[self.offsets.len() - 1].end;
            self.plain.truncate(start);
            self.offsets.truncate(start);
            self.plain.push(*joined);
            self.offsets.push(place);
        }
    }
}

/// Reads the numbers of one run of plain marks.
struct Reader<'r> {
    bytes: &'r [u8],
    /// A letter or digit stands before the run, so a dash at its start joins instead of negating.
    follows_word: bool,
}

impl Reader<'_> {
    fn last(&self) -> Option<(Number, Range<usize>)> {
        let mut last = None;
        let mut at = 0;
        while at < self.bytes.len() {
            match self.fraction(at).or_else(|| self.number(at)) {
                Some((number, end)) => {
                    let sign = self.sign_before(at);
                    let number = if sign.is_some() { number.negated() } else { number };
                    last = Some((number, sign.unwrap_or(at)..end));
                    at = end;
                }
                None => at += 1,
            }
        }
        last
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn is_digit(&self, at: usize) -> bool {
        self.byte(at).is_some_and(|byte| byte.is_ascii_digit())
    }

    /// Where a minus stands before the number, a currency sign between them allowed, that is not a dash after a word or an
    /// operand.
    fn sign_before(&self, start: usize) -> Option<usize> {
        let mut sign = start;
        while sign > 0 && self.bytes[sign - 1] == b'$' {
            sign -= 1;
        }
        if sign == 0 || self.bytes[sign - 1] != b'-' {
            return None;
        }
        let is_sign = match sign.checked_sub(2).map(|before| self.bytes[before]) {
            Some(before) => !(before.is_ascii_alphanumeric() || before == b'}'),
            None => !self.follows_word,
        };
        is_sign.then(|| sign - 1)
    }

    /// `\frac{1}{2}`, also when the last brace is missing because the run ends at its last digit.
    fn fraction(&self, start: usize) -> Option<(Number, usize)> {
        let rest = &self.bytes[start..];
        let command = [&br"\frac{"[..], br"\dfrac{", br"\tfrac{"]
            .into_iter()
            .find(|command| rest.starts_with(command))?;
        let (numerator, at) = self.signed(start + command.len())?;
        let is_joined = self.byte(at) == Some(b'}') && self.byte(at + 1) == Some(b'{');
        let (denominator, end) = self.signed(at + 2).filter(|_| is_joined)?;
        Some((Number::ratio(&numerator, &denominator)?, end))
    }

    fn signed(&self, start: usize) -> Option<(Number, usize)> {
        if self.byte(start) == Some(b'-') {
            let (number, end) = self.decimal(start + 1)?;
            return Some((number.negated(), end));
        }
        self.decimal(start)
    }

    /// A number, or two with a slash between; with two slashes it is a date.
    fn number(&self, start: usize) -> Option<(Number, usize)> {
        let (number, end) = self.decimal(start)?;
        let follows_slash = start > 0 && self.bytes[start - 1] == b'/';
        if self.byte(end) != Some(b'/') || follows_slash {
            return Some((number, end));
        }
        let ratio = self
            .decimal(end + 1)
            .filter(|&(_, ratio_end)| self.byte(ratio_end) != Some(b'/'))
            .and_then(|(denominator, ratio_end)| Some((Number::ratio(&number, &denominator)?, ratio_end)));
        Some(ratio.unwrap_or((number, end)))
    }

    fn decimal(&self, start: usize) -> Option<(Number, usize)> {
        let starts_with_point = self.byte(start) == Some(b'.') && self.is_digit(start + 1);
        if !self.is_digit(start) && !starts_with_point {
            return None;
        }
        let mut numeral = String::new();
        let mut at = self.whole(start, &mut numeral);
        if self.byte(at) == Some(b'.') && self.is_digit(at + 1) {
            numeral.push('.');
            at = self.digits(at + 1, &mut numeral);
        }
        if let Some(end) = self.exponent(at, &mut numeral) {
            at = end;
        }
        Some((Number::new(numeral), at))
    }

    /// Digits with their thousands separators; each must be followed by exactly three digits.
    fn whole(&self, start: usize, numeral: &mut String) -> usize {
        let mut at = self.digits(start, numeral);
        if at - start > 3 {
            return at;
        }
        while self.byte(at) == Some(b',') && (1..=3).all(|next| self.is_digit(at + next)) && !self.is_digit(at + 4) {
            at = self.digits(at + 1, numeral);
        }
        at
    }

    fn digits(&self, start: usize, numeral: &mut String) -> usize {
        let mut at = start;
        while let Some(byte) = self.byte(at).filter(u8::is_ascii_digit) {
            numeral.push(char::from(byte));
            at += 1;
        }
        at
    }

    fn exponent(&self, start: usize, numeral: &mut String) -> Option<usize> {
        let mark = self.byte(start).filter(|byte| matches!(byte, b'e' | b'E'))?;
        let has_sign = matches!(self.byte(start + 1), Some(b'+' | b'-'));
        let digits = start + 1 + usize::from(has_sign);
        if !self.is_digit(digits) {
            return None;
        }
        numeral.push(char::from(mark));
        if has_sign {
            numeral.push(char::from(self.bytes[start + 1]));
        }
        Some(self.digits(digits, numeral))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        last_number(text).map(|(number, _)| number.text)
    }

    fn assert_reads(cases: &[(&str, &str)]) {
        for (text, number) in cases {
            assert_eq!(read(text).as_deref(), Some(*number), "{text}");
        }
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        assert_reads(&[
            ("$9{,}500", "9500"),
            ("8,000", "8000"),
            ("$29.00", "29"),
            ("72 clips, altogether.", "72"),
            ("1.5e3", "1500"),
            ("-0", "0"),
        ]);
    }

    #[test]
    fn separators_of_many_kinds_join_thousands() {
        assert_reads(&[
            (r"9,\!500", "9500"),
            (r"$12\,345\,678$", "12345678"),
            ("9\u{202f}500", "9500"),
            ("1'234.50", "1234.5"),
            ("5, 6, 7", "7"),
            ("1,2345", "2345"),
            ("12345,678", "678"),
            ("1,234,56", "56"),
        ]);
    }

    #[test]
    fn signs_belong_to_the_number_and_dashes_do_not() {
        assert_reads(&[
            ("x = -5", "-5"),
            ("x = \u{2212}5.", "-5"),
            ("-$5", "-5"),
            ("$-5$", "-5"),
            ("5-10", "10"),
            ("GPT-4", "4"),
            ("page-5", "5"),
            ("(-3)", "-3"),
            ("-0.0", "0"),
        ]);
    }

    #[test]
    fn points_and_exponents_need_digits() {
        assert_reads(&[
            ("It is 72.", "72"),
            (".5", "0.5"),
            ("5e", "5"),
            ("2E-2", "0.02"),
            ("5 e3", "3"),
            ("5ft", "5"),
            ("007", "7"),
        ]);
        assert_eq!(read("no number, e.g. none"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn fractions_are_one_number_and_dates_are_three() {
        assert_reads(&[
            (r"\frac{1}{2}", "1/2"),
            (r"-\dfrac{3}{4}$", "-3/4"),
            (r"\frac{-3}{4}", "-3/4"),
            ("1/2", "1/2"),
            ("5/6/2024", "2024"),
            ("5/0", "0"),
            (r"\frac{x}{2}", "2"),
        ]);
        assert_eq!(last_number("-3/4").unwrap().0.value, -0.75);
    }

    #[test]
    fn digits_of_other_scripts_count() {
        assert_reads(&[
            ("الجواب هو ٤٢", "42"),
            ("\u{200f}٩٬٥٠٠٫٢٥\u{200f}", "9500.25"),
            ("उत्तर ४२ है", "42"),
            ("答えは４２です", "42"),
        ]);
    }

    #[test]
    fn a_number_says_where_it_stands() {
        for (text, written) in [
            ("it is $9{,}500, no more", "9{,}500"),
            (r"é $-\$12\,345$", r"-\$12\,345"),
            ("so \u{2212}5.", "\u{2212}5"),
            (r"\frac{1}{2}", r"\frac{1}{2"),
            ("٤٢ ", "٤٢"),
        ] {
            let (_, place) = last_number(text).unwrap();
            assert_eq!(&text[place], written);
        }
    }

    #[test]
    fn decimals_beyond_floats_are_compared_exactly() {
        let number = |text| last_number(text).unwrap().0;
        assert!(!number("0.1").equals(&number("0.10000000000000001"), 0.0));
        assert!(number("0.10").equals(&number("1e-1"), 0.0));
        assert!(number("1/3").equals(&number("2/6"), 0.0));
        assert!(!number("1/3").equals(&number("0.3333333333333333"), 0.0));
        assert_eq!(number("0.50").canonical(), number("3/6").canonical());
    }

    #[test]
    fn whole_numbers_beyond_floats_are_compared_by_digits() {
        let number = |text| last_number(text).unwrap().0;
        assert!(!number("12345678901234567890").equals(&number("12345678901234567891"), 0.0));
        assert!(number("12345678901234567890").equals(&number("12,345,678,901,234,567,890"), 0.0));
        assert!(number("1e20").equals(&number("100000000000000000000"), 0.0));
        assert!(!number(&"9".repeat(400)).equals(&number("5"), 0.0));
    }

    #[test]
    fn nul_bytes_are_ordinary_letters() {
        assert_reads(&[("4\0", "4"), ("\0-4\0", "-4"), ("4\u{0}5", "5")]);
    }
}
