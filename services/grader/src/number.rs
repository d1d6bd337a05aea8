//! Reading the last number of a text, as people and models write numbers.
//!
//! Understood: signs and the typographic minus, currency signs, thousands separators (`8,000`, `9{,}500`, `9,\!500`, spaces of
//! any width, `9'500`, `9_500`), decimals, exponents (`1.5e3`, `1.5 \times 10^3`), fractions (`1/2`, `\frac12`, `½`), mixed
//! numbers (`2 1/2`), words and letters of magnitude (`5 million`, `$70k`, `5万`), signs in words ("negative 5"), and the decimal digits of several scripts. The exponent of a unit, an index and the digits in a name
//! (`cm^2`, `x_1`, `CO2`) are no numbers. A root, a power or a logarithm has a value that is not read here, and no number in it
//! counts. Not understood: decimal commas, numerals in words.

mod marks;
mod reader;

use std::ops::Range;

use tidemill_maths::Answer;

use marks::{Marks, has_digit};
use reader::{Reader, Reading};

/// A number that was found in a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number {
    /// In plain ASCII, without separators and without zeros that say nothing: `-1.5`, `1e400`, `3/4`, `2 1/2`.
    text: String,
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
        Self { text }
    }

    fn ratio(numerator: &Self, denominator: &Self) -> Option<Self> {
        (denominator.text != "0").then(|| Self {
            text: format!("{}/{}", numerator.text, denominator.text),
        })
    }

    /// A whole number and a fraction that is less than one, as `2 1/2`.
    fn mixed(whole: &Self, part: &Self) -> Option<Self> {
        let (above, below) = part.text.split_once('/')?;
        let are_whole = [above, below]
            .iter()
            .all(|side| side.bytes().all(|byte| byte.is_ascii_digit()));
        (are_whole && is_less(above, below)).then(|| Self {
            text: format!("{} {}", whole.text, part.text),
        })
    }

    fn negated(self) -> Self {
        if self.text == "0" {
            return self;
        }
        let text = match self.text.strip_prefix('-') {
            Some(positive) => positive.to_owned(),
            None => format!("-{}", self.text),
        };
        Self { text }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Equal up to the tolerance, and without one exactly: as fractions, so that no rounding makes two numbers equal, however
    /// long or large they are. Numbers too long to be computed with are equal when they are written alike.
    pub(crate) fn equals(&self, other: &Self, tolerance: f64) -> bool {
        self.text == other.text || tidemill_maths::are_within(&self.text, &other.text, tolerance)
    }

    /// It is so many hundredths.
    fn is_share(&self, percent: &Self) -> bool {
        self.canonical() == Answer::read(&format!("{}/100", percent.text)).canonical()
    }

    /// A form that is the same for equal numbers.
    pub(crate) fn canonical(&self) -> String {
        Answer::read(&self.text).canonical()
    }
}

/// One whole number is less than another.
fn is_less(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_start_matches('0'), other.trim_start_matches('0'));
    (one.len(), one) < (other.len(), other)
}

/// A number and where it stands in the text that was read, in bytes.
pub(crate) type Placed = (Number, Range<usize>);

/// What a text is in which a number is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Prose: `- 5` begins an entry of a list, and `3x faster` says a number.
    Prose,
    /// An answer and nothing else, as a box holds it: `- 5` is negative, and `3x`, `5!` and `3, 4` are no number.
    Answer,
}

/// The last number of a text.
pub(crate) fn last_number(text: &str, place: Place) -> Option<Placed> {
    match last_reading(text, place)? {
        (Reading::Number(number), place) => Some((number, place)),
        (Reading::Formula, _) => None,
    }
}

/// Where the formula stands in which the text ends, if it ends in one whose value is not read.
pub(crate) fn last_formula(text: &str, place: Place) -> Option<Range<usize>> {
    match last_reading(text, place)? {
        (Reading::Number(_), _) => None,
        (Reading::Formula, place) => Some(place),
    }
}

/// What the last line that says a number, or a formula in its place, ends in. No number goes on in the next line.
fn last_reading(text: &str, place: Place) -> Option<(Reading, Range<usize>)> {
    let mut end = text.len();
    loop {
        let start = text[..end].rfind('\n').map_or(0, |line_end| line_end + 1);
        let line = &text[start..end];
        if has_digit(line) {
            let marks = Marks::of(line);
            let found = Reader::new(&marks.bytes, place).last();
            if let Some((reading, place)) = found.and_then(|(reading, place)| Some((reading, marks.written(&place)?))) {
                return Some((reading, start + place.start..start + place.end));
            }
        }
        end = start.checked_sub(1)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        last_number(text, Place::Prose).map(|(number, _)| number.text)
    }

    fn read_answer(text: &str) -> Option<String> {
        last_number(text, Place::Answer).map(|(number, _)| number.text)
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
            ("1,00,000", "100000"),
            ("Rs. 12,05,000.50", "1205000.5"),
            ("1,00,000, or so", "100000"),
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
            ("5 e3", "5"),
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
            ("5/6/2024 3/4", "3/4"),
            (r"\frac12", "1/2"),
            (r"\frac1{72}", "1/72"),
            (r"-\frac{-1}{2}", "1/2"),
            ("½", "1/2"),
            ("-½", "-1/2"),
        ]);
        assert_eq!(read(r"\frac{x}{2}"), None);
        for text in [
            "1/0",
            "it is 5/0.",
            "1/2/3",
            "on 2024-05-06",
            "3.14.15",
            "5,10,150",
            "3÷4",
        ] {
            assert_eq!(read(text), None, "{text}");
            assert!(last_formula(text, Place::Prose).is_some(), "{text}");
        }
        assert_reads(&[("on 2024-05-06 there were 7", "7"), ("Version 1.2.3 - 5 faults", "5")]);
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
            (r"\frac{1}{2}", r"\frac{1}{2}"),
            (r"\frac{1}{2", r"\frac{1}{2"),
            ("1 000 000 m²", "1 000 000"),
            (r"it is $1.5 \times 10^{3}$", r"1.5 \times 10^{3}"),
            ("about 2½ cups", "2½"),
            ("٤٢ ", "٤٢"),
        ] {
            let (_, place) = last_number(text, Place::Prose).unwrap();
            assert_eq!(&text[place], written);
        }
    }

    #[test]
    fn decimals_beyond_floats_are_compared_exactly() {
        let number = |text| last_number(text, Place::Prose).unwrap().0;
        assert!(!number("0.1").equals(&number("0.10000000000000001"), 0.0));
        assert!(number("0.10").equals(&number("1e-1"), 0.0));
        assert!(number("1/3").equals(&number("2/6"), 0.0));
        assert!(!number("1/3").equals(&number("0.3333333333333333"), 0.0));
        assert_eq!(number("0.50").canonical(), number("3/6").canonical());
    }

    #[test]
    fn whole_numbers_beyond_floats_are_compared_by_digits() {
        let number = |text| last_number(text, Place::Prose).unwrap().0;
        assert!(!number("12345678901234567890").equals(&number("12345678901234567891"), 0.0));
        assert!(number("12345678901234567890").equals(&number("12,345,678,901,234,567,890"), 0.0));
        assert!(number("1e20").equals(&number("100000000000000000000"), 0.0));
        assert!(!number(&"9".repeat(400)).equals(&number("5"), 0.0));
    }

    #[test]
    fn mixed_numbers_are_one_number() {
        assert_reads(&[
            ("2 1/2", "2 1/2"),
            (r"2\frac{1}{2}", "2 1/2"),
            (r"-2 \frac12", "-2 1/2"),
            ("2½ cups", "2 1/2"),
            ("2, 1/2", "1/2"),
            ("5 3/2", "3/2"),
            ("0.5 1/2", "1/2"),
        ]);
        let number = |text| last_number(text, Place::Prose).unwrap().0;
        assert!(number("2 1/2").equals(&number("2.5"), 0.0));
        assert!(number("-2 1/2").equals(&number("-2.5"), 0.0));
        assert!(!number("-2 1/2").equals(&number("-1.5"), 0.0));
        assert!(number("-2 1/2").equals(&number("-2.4"), 0.1));
        assert!(!number("-2 1/2").equals(&number("-2.3"), 0.1));
    }

    #[test]
    fn powers_of_ten_are_one_number() {
        assert_reads(&[
            (r"1.5 \times 10^3", "1500"),
            (r"1.5 \cdot 10^{-3}", "0.0015"),
            ("1.5×10³", "1500"),
            ("1.5x10^3", "1500"),
            ("1.5 * 10**3", "1500"),
            ("-2×10⁻³", "-0.002"),
            ("10^6 people", "1000000"),
            ("3x4", "4"),
        ]);
    }

    #[test]
    fn words_of_magnitude_multiply_the_number_before_them() {
        assert_reads(&[
            ("$5 million", "5000000"),
            ("The profit is $1.25 million.", "1250000"),
            (r"5\text{ million}", "5000000"),
            (r"5 \text{ Million dollars}", "5000000"),
            ("12 thousand", "12000"),
            ("-3 billions", "-3000000000"),
            ("5 to 10 trillion", "10000000000000"),
            ("5 million-year-old", "5000000"),
            ("2,500 thousand units", "2500000"),
            ("5 millionaires", "5"),
            ("5 dozen", "5"),
            ("1 in a million", "1"),
        ]);
        for text in ["2 1/2 million", "1/2 million", r"\frac12 million", "1e3 million"] {
            assert_eq!(read(text), None, "{text}");
            assert!(last_formula(text, Place::Prose).is_some(), "{text}");
        }
        assert_eq!(read_answer("5 million").as_deref(), Some("5000000"));
    }

    #[test]
    fn spaces_of_any_width_join_thousands() {
        assert_reads(&[
            ("1 000 000", "1000000"),
            ("1\u{a0}000\u{a0}000", "1000000"),
            ("1\u{2009}000.5", "1000.5"),
            (r"1\ 000\,000", "1000000"),
            ("12 3456", "3456"),
            ("2024 100", "100"),
            ("0 500", "500"),
            ("1 000 07", "7"),
            ("5 100/3", "100/3"),
            ("1,000 007", "7"),
        ]);
    }

    #[test]
    fn exponents_of_units_indices_and_names_are_no_numbers() {
        assert_reads(&[
            ("12 cm^2", "12"),
            (r"12\text{ cm}^2", "12"),
            (r"12\,\mathrm{m}^{3}", "12"),
            ("12 m²", "12"),
            ("9.8 m/s^2", "9.8"),
            ("9.8 m s^{-2}", "9.8"),
            ("12 square meters^2", "12"),
            ("5 kg of CO2", "5"),
            ("5 kg of CO₂", "5"),
            ("3 moles of C6H12O6", "3"),
            ("7 = x1", "7"),
            ("7 = x_{12}", "7"),
            ("7 = x_1", "7"),
            ("12 km2", "12"),
            (r"90^\circ", "90"),
            ("the 5^{th}", "5"),
            ("USD50", "50"),
            ("Rs.50", "50"),
            ("**12**", "12"),
            ("_12_", "12"),
            ("x=5", "5"),
            ("答えは42です", "42"),
        ]);
        assert_eq!(read("CO2"), None);
    }

    #[test]
    fn formulas_have_a_value_that_is_none_of_the_numbers_in_them() {
        for text in [
            r"\sqrt{4}",
            r"so 16 and \sqrt{4}",
            "√4",
            "sqrt(4)",
            r"3\sqrt{2}",
            r"\sqrt[3]{8}",
            r"\sqrt{2} + 3",
            r"\frac{\sqrt{2}}{2}",
            r"\sqrt{2}/2",
            "2^{10}",
            "2^10",
            "2**10",
            "2^n",
            "5x^2",
            "x^2 - 4",
            "(1+2)/3",
            "x/2",
            r"\log_2 8",
            r"\ln(5)",
            r"\binom{5}{2}",
            r"12\pi",
            "12 π",
            r"\pi/2",
            r"0.\overline{3}",
            r"5 \pm 0.1",
            r"3\frac{5}{2}",
            r"5 \cdot 3",
            r"3 \times 10",
            "5 * 3",
            "2 + 2",
            "3x + 2",
            "$3x$",
            "x + 2",
            "x - 5",
            "5/x",
            r"(3, 4)",
            r"\lfloor 3.7 \rfloor",
            r"\left|-3\right|",
            r"\lvert -3 \rvert",
            "$5!$",
        ] {
            assert_eq!(read(text), None, "{text}");
            assert!(last_formula(text, Place::Prose).is_some(), "{text}");
        }
        assert_reads(&[
            (r"\sqrt{16} = 4", "4"),
            ("x^2 = 16, so x = -4", "-4"),
            ("78.5 (using π)", "78.5"),
            (r"where \pi \approx 3.14", "3.14"),
            ("x = - 5", "-5"),
            ("- 5", "5"),
            ("Answer: \u{2013}5", "-5"),
            ("5\u{2013}10", "10"),
        ]);
        assert_eq!(last_formula("no number", Place::Prose), None);
    }

    #[test]
    fn numbers_beyond_floats_are_within_a_tolerance_by_their_digits() {
        let number = |text: &str| last_number(text, Place::Prose).unwrap().0;
        let (long, huge) = ("9".repeat(309), "9".repeat(5_000));
        for answer in [&long, "1e400", &huge, "1e9999999999", "-1e400", "1e400/3"] {
            assert!(!number(answer).equals(&number("5"), 0.01), "{answer}");
            assert!(!number("5").equals(&number(answer), 0.01), "{answer}");
            assert!(number(answer).equals(&number(answer), 0.01), "{answer}");
        }
        assert!(number("1e400").equals(&number("1.0e400"), 0.01));
        assert!(!number("1e400").equals(&number("1e401"), 0.01));
        assert!(number(&format!("{long}.5")).equals(&number(&long), 0.5));
        assert!(!number(&format!("{long}.5")).equals(&number(&long), 0.25));
        assert!(!number("12345678901234567890").equals(&number("12345678901234567892"), 1.0));
        assert!(number("12345678901234567890").equals(&number("12345678901234567891"), 1.0));
        assert!(number("100").equals(&number("100.01"), 0.01));
        assert!(number("1/3").equals(&number("0.333"), 0.001));
        assert!(!number("1e5000").equals(&number("2e2500"), 0.0));
        assert!(number("1e5000").equals(&number("1e5000"), 0.0));
    }

    #[test]
    fn a_minus_and_a_space_are_a_sign_where_nothing_stands_before_that_it_could_be_taken_from() {
        for text in [
            "- 5",
            r"-\,5",
            r"-\ 5",
            "- $5",
            r"- \$5",
            "-{5}",
            r"\text{-}5",
            r"\text{-} 5",
            "{-}5",
            "x = - 5",
        ] {
            assert_eq!(read_answer(text).as_deref(), Some("-5"), "{text}");
        }
        assert_eq!(read_answer(r"- \frac{1}{2}").as_deref(), Some("-1/2"));
        assert_eq!(read_answer(r"\frac{- 1}{2}").as_deref(), Some("-1/2"));
        assert_reads(&[
            ("$- 5$", "-5"),
            (r"\(- 5\)", "-5"),
            ("the answer is - 5", "-5"),
            ("Answer: - 5", "-5"),
            ("**- 5**", "-5"),
            ("it equals - \\frac{1}{2}", "-1/2"),
            ("x < - 5", "-5"),
            ("- 5 apples", "5"),
            ("3 - 5", "5"),
            ("1 - 5", "5"),
            ("10 apples - 5", "5"),
            ("Room - 5", "5"),
        ]);
        assert_eq!(read_answer("3 - 5"), None);
    }

    #[test]
    fn a_part_of_a_formula_is_no_number() {
        for text in [
            "3x",
            "4i",
            "3xy",
            "3 x",
            r"5 \cdot 3",
            "3x+2",
            "2 + 3",
            "10 - 5",
            "(3,4)",
            "[3, 4]",
            r"\{3, 4\}",
            "3, 4",
            "3 or 4",
            "5!",
            "|-3|",
            "5/a",
            "x + 2",
            "2(3)",
            "3 (4)",
            "x>3",
            ">3",
            r"\ge3",
            "≥ 3",
            r"\ne3",
            "x != 3",
            "x=3, y=4",
            "3:4",
            "10:30",
            "3 to 4",
            r"3 \text{ or } 4",
            "3e",
            "3÷4",
        ] {
            assert_eq!(read_answer(text), None, "{text}");
            assert!(last_formula(text, Place::Answer).is_some(), "{text}");
        }
        for (text, number) in [
            ("10110_2", "10110"),
            ("10110_{2}", "10110"),
            ("3 / 4", "3/4"),
            ("-3 / 4", "-3/4"),
            ("x = 5", "5"),
            ("5 m", "5"),
            ("5m/s", "5"),
            ("60 km/h", "60"),
            ("5%", "5"),
            ("1,234", "1234"),
            ("(5)", "5"),
            ("5 apples", "5"),
            ("2 + 3 = 5", "5"),
            (r"5\text{ cm}", "5"),
            ("5k", "5"),
            ("<b>5</b>", "5"),
            ("-> 5", "5"),
            ("x = 5, as 3", "3"),
            ("42 (mod 7)", "42"),
            ("3 (4 left)", "3"),
            ("5.", "5"),
        ] {
            assert_eq!(read_answer(text).as_deref(), Some(number), "{text}");
        }
        assert_reads(&[
            ("It is 2x faster", "2"),
            ("That makes 5!", "5"),
            ("see (a) and 7", "7"),
            ("The answer is 42 (see step 3).", "42"),
            ("The answer is 42 (by 3 and 4).", "42"),
            ("2 hours (120 minutes)", "120"),
            ("42 (2 d.p.)", "42"),
            ("42 (not 43)", "42"),
            ("5 (2024)", "5"),
            ("42 [see 3]", "42"),
            ("42 [1].", "42"),
            ("42[1].", "42"),
            ("42 apples (12 red and 30 green)", "42"),
            ("42 (that is, 40 + 2)", "42"),
            ("42 (12 + 30) apples", "42"),
            ("42¹", "42"),
            ("There are 5 sides, so (3)", "3"),
            ("(see step 3)", "3"),
            ("**5** **6**", "6"),
            ("| 3 | 4 |", "4"),
        ]);
    }

    #[test]
    fn letters_of_magnitude_multiply_the_number_before_them() {
        assert_reads(&[
            ("答案是500万元。", "5000000"),
            ("5万", "50000"),
            ("1.2亿", "120000000"),
            ("3千万", "30000000"),
            ("2万亿美元", "2000000000000"),
            ("約3億円です", "300000000"),
            ("답은 5만 명", "50000"),
            ("$500$万", "5000000"),
            (r"500\text{万}", "5000000"),
            (r"500\text{万元}", "5000000"),
            ("5千米", "5"),
            ("5千克", "5"),
            ("3万分之一", "3"),
            ("一共5个，万一", "5"),
        ]);
        assert_eq!(read_answer("500万").as_deref(), Some("5000000"));
        assert_eq!(read("1亿2000万"), None);
        let (_, place) = last_number("共500万元", Place::Prose).unwrap();
        assert_eq!(&"共500万元"[place], "500万");
    }

    #[test]
    fn magnitudes_are_read_behind_marks_in_short_and_one_after_the_other() {
        assert_reads(&[
            ("$5$ million", "5000000"),
            ("**5** million", "5000000"),
            ("**$5** million", "5000000"),
            (r"\(5\) million", "5000000"),
            ("$70k", "70000"),
            ("He earns $70k/year.", "70000"),
            ("-$5M", "-5000000"),
            ("$1.5B", "1500000000"),
            ("$5bn", "5000000000"),
            ("5 hundred", "500"),
            ("5 hundred thousand", "500000"),
            ("3 lakh", "300000"),
            ("**5** apples", "5"),
            ("70k", "70"),
            ("5M", "5"),
            ("$5 Kelvin", "5"),
            ("5 hundredths", "5"),
        ]);
    }

    #[test]
    fn signs_in_words_count_where_nothing_is_taken_away() {
        assert_reads(&[
            ("The answer is negative 5.", "-5"),
            ("negative 5", "-5"),
            ("The answer is minus 4.", "-4"),
            ("minus 4", "-4"),
            ("It equals minus $4$", "-4"),
            ("10 minus 4", "4"),
            ("ten minus 4", "4"),
            ("non-negative 5", "5"),
            ("none is negative: 5", "5"),
        ]);
        let (_, place) = last_number("it is negative 5.", Place::Prose).unwrap();
        assert_eq!(&"it is negative 5."[place], "negative 5");
    }

    #[test]
    fn working_in_brackets_says_no_other_number() {
        assert_reads(&[
            ("There are 42 apples left in the basket (50 - 8).", "42"),
            ("There are 42 dollars left in all ($50 - $8).", "42"),
            ("42 square feet (6 × 7)", "42"),
            ("42 square feet (6 × 7 = 42)", "42"),
            ("He pays $42 per month (for 12 months).", "42"),
            ("42 apples are in the basket (50)", "50"),
        ]);
        assert_eq!(read_answer("18 (9*2)").as_deref(), Some("18"));
        assert_eq!(read_answer("3 (4*2)"), None);
    }

    #[test]
    fn one_value_said_twice_is_that_value() {
        for text in [
            r"\frac12 \text{ or } 0.5",
            r"\frac{1}{2}\text{ or }50\%",
            "0.5 or 1/2",
            "1/2 or 50%",
        ] {
            let read = read_answer(text).unwrap();
            assert!(read == "1/2" || read == "0.5", "{text}: {read}");
        }
        for text in ["3 or 4", "0.5 and 1/2", "1/2 or 0.6", r"\frac12 \text{ or } 0.6"] {
            assert_eq!(read_answer(text), None, "{text}");
        }
    }

    #[test]
    fn nul_bytes_are_ordinary_letters() {
        assert_reads(&[("4\0", "4"), ("\0-4\0", "-4"), ("4\u{0}5", "5")]);
    }
}
