//! The last number of a line in plain marks, or the formula that stands in its place.

use std::ops::Range;

use super::Number;
use super::marks::OTHER_LETTER;

/// What a line ends in.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reading {
    Number(Number),
    /// A root, a power, a logarithm: it has a value, which is none of the numbers in it.
    Formula,
}

const FRACTIONS: [&[u8]; 4] = [b"frac", b"dfrac", b"tfrac", b"cfrac"];
const FUNCTIONS: [&[u8]; 20] = [
    b"sqrt", b"cbrt", b"log", b"ln", b"lg", b"exp", b"sin", b"cos", b"tan", b"cot", b"sec", b"csc", b"arcsin",
    b"arccos", b"arctan", b"sinh", b"cosh", b"tanh", b"pm", b"mp",
];
/// Commands that hold digits which are no number of their own, and how many arguments they take.
const HOLDING: [(&[u8], usize); 5] = [
    (b"binom", 2),
    (b"dbinom", 2),
    (b"tbinom", 2),
    (b"overline", 1),
    (b"bar", 1),
];
const TEXTS: [&[u8]; 9] = [
    b"text",
    b"textrm",
    b"textbf",
    b"textit",
    b"mathrm",
    b"mathbf",
    b"mathit",
    b"mbox",
    b"operatorname",
];
/// Letters that stand before an amount without a space.
const CURRENCIES: [&[u8]; 20] = [
    b"USD", b"EUR", b"GBP", b"INR", b"JPY", b"CNY", b"RMB", b"AUD", b"CAD", b"CHF", b"SGD", b"AED", b"Rs", b"rs",
    b"RM", b"R", b"US", b"NT", b"HK", b"A",
];
/// Short names of units; a longer word before an exponent is taken for one.
const UNITS: [&[u8]; 33] = [
    b"m", b"s", b"g", b"h", b"l", b"L", b"N", b"J", b"W", b"K", b"A", b"V", b"cm", b"mm", b"km", b"dm", b"nm", b"um",
    b"in", b"ft", b"yd", b"mi", b"kg", b"mg", b"ml", b"mL", b"sec", b"min", b"hr", b"mol", b"Pa", b"lb", b"oz",
];

pub(super) struct Reader<'r> {
    bytes: &'r [u8],
    last: Option<(Reading, Range<usize>)>,
    /// Where the last formula ends, to which an operator may join a number.
    formula_end: Option<usize>,
}

/// What follows a `^`.
struct Raised {
    end: usize,
    /// The whole number that it is.
    whole: Option<String>,
    /// A number or a variable, not `^\circ` or `^{th}`.
    is_power: bool,
}

impl<'r> Reader<'r> {
    pub(super) const fn new(bytes: &'r [u8]) -> Self {
        Self {
            bytes,
            last: None,
            formula_end: None,
        }
    }

    /// What the line ends in, and where it stands.
    pub(super) fn last(mut self) -> Option<(Reading, Range<usize>)> {
        let mut at = 0;
        while let Some(byte) = self.byte(at) {
            at = match byte {
                b'\\' => self.command(at),
                b'a'..=b'z' | b'A'..=b'Z' => self.word(at),
                b'^' => self.raised(at).map_or(at + 1, |raised| raised.end),
                b'}' | b')' | b'|' => self.closed(at),
                _ => self.quantity(at).unwrap_or(at + 1),
            };
        }
        self.last
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn before(&self, at: usize) -> Option<u8> {
        at.checked_sub(1).and_then(|before| self.byte(before))
    }

    fn is_digit(&self, at: usize) -> bool {
        self.byte(at).is_some_and(|byte| byte.is_ascii_digit())
    }

    fn after_spaces(&self, start: usize) -> usize {
        let spaces = self.bytes.get(start..).unwrap_or_default();
        start + spaces.iter().take_while(|byte| **byte == b' ').count()
    }

    fn letters(&self, start: usize) -> &'r [u8] {
        let rest = self.bytes.get(start..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        &rest[..length]
    }

    fn formula(&mut self, place: Range<usize>) -> usize {
        let end = place.end;
        self.formula_end = Some(end);
        self.last = Some((Reading::Formula, place));
        end
    }

    /// A command of LaTeX; those that only set type are passed over.
    fn command(&mut self, start: usize) -> usize {
        let name = self.letters(start + 1);
        let end = start + 1 + name.len();
        if FRACTIONS.contains(&name) {
            return match self.quantity(start) {
                Some(end) => end,
                None => self.formula(start..self.arguments(end, 2)),
            };
        }
        if FUNCTIONS.contains(&name) {
            return self.formula(start..self.arguments(end, 1));
        }
        if let Some((_, count)) = HOLDING.iter().find(|(holding, _)| *holding == name) {
            return self.formula(start..self.arguments(end, *count));
        }
        if name == b"pi" {
            let factor = self.last.as_ref().map(|(_, place)| place.clone());
            match factor.filter(|place| self.is_joined(place.end, start, b" *")) {
                Some(place) => return self.formula(place.start..end),
                None => self.formula_end = Some(end),
            }
        }
        // What is not letters is one mark: `\(`, `\%`.
        if name.is_empty()
            && self
                .byte(end)
                .is_some_and(|byte| !byte.is_ascii_digit() && byte != b'\\')
        {
            return end + 1;
        }
        end
    }

    /// Between two places stands nothing but these marks and the commands that multiply.
    fn is_joined(&self, start: usize, end: usize, marks: &[u8]) -> bool {
        let mut at = start;
        while at < end {
            let name = if self.byte(at) == Some(b'\\') {
                self.letters(at + 1)
            } else {
                b""
            };
            if matches!(name, b"cdot" | b"times" | b"div") {
                at += 1 + name.len();
            } else if self.byte(at).is_some_and(|byte| marks.contains(&byte)) {
                at += 1;
            } else {
                return false;
            }
        }
        at == end
    }

    /// A run of letters: a function, a name with its index, a unit with its exponent, or plain words.
    fn word(&mut self, start: usize) -> usize {
        let word = self.letters(start);
        let end = start + word.len();
        let next = self.byte(end);
        let is_applied = next == Some(b'(') || next == Some(b'_') || self.is_digit(end);
        if FUNCTIONS.contains(&word) && word.len() > 2 && is_applied {
            return self.formula(start..self.arguments(end, 1));
        }
        if self.is_digit(end) {
            let is_times =
                word.eq_ignore_ascii_case(b"x") && self.before(start).is_some_and(|byte| byte.is_ascii_digit());
            if is_times || CURRENCIES.contains(&word) {
                return end;
            }
            let name = self.bytes[end..].iter().take_while(|byte| byte.is_ascii_alphanumeric());
            return end + name.count();
        }
        match next {
            Some(b'_') => self.index(end),
            Some(b'^') => self.power_of(start, end, word.len() > 3 || UNITS.contains(&word)),
            Some(b'*') if self.is_double_star(end) => {
                self.power_of(start, end, word.len() > 3 || UNITS.contains(&word))
            }
            _ => end,
        }
    }

    /// A base with its exponent: a unit's says nothing, any other makes a formula.
    fn power_of(&mut self, start: usize, end: usize, is_unit: bool) -> usize {
        match self.raised(end) {
            Some(raised) if raised.is_power && !is_unit => self.formula(start..raised.end),
            Some(raised) => raised.end,
            None => end + 1,
        }
    }

    /// What stands behind an underscore.
    fn index(&self, start: usize) -> usize {
        match self.byte(start + 1) {
            Some(b'{') => self.balanced(start + 1),
            Some(byte) if byte.is_ascii_digit() => {
                start
                    + 1
                    + self.bytes[start + 1..]
                        .iter()
                        .take_while(|byte| byte.is_ascii_digit())
                        .count()
            }
            _ => start + 1,
        }
    }

    /// A bracket that closes, with what is raised or lowered behind it.
    fn closed(&mut self, at: usize) -> usize {
        match self.byte(at + 1) {
            Some(b'_') => self.index(at + 1),
            Some(b'^') => {
                let is_unit = self.byte(at) == Some(b'}') && self.closes_text(at);
                self.power_of(at, at + 1, is_unit)
            }
            Some(b'*') if self.is_double_star(at + 1) => self.power_of(at, at + 1, false),
            _ => at + 1,
        }
    }

    /// The brace that closes here opened behind a command that sets text.
    fn closes_text(&self, close: usize) -> bool {
        let mut depth = 0_usize;
        for at in (0..=close).rev() {
            match self.bytes[at] {
                b'}' => depth += 1,
                b'{' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let head = &self.bytes[..at];
                let length = head.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
                return TEXTS.contains(&&head[head.len() - length..]);
            }
        }
        false
    }

    /// Two stars before a number or a bracket are a power; others set type.
    fn is_double_star(&self, at: usize) -> bool {
        self.byte(at) == Some(b'*')
            && self.byte(at + 1) == Some(b'*')
            && (self.is_digit(at + 2) || matches!(self.byte(at + 2), Some(b'(' | b'-')))
    }

    /// The exponent whose `^` or `**` stands here.
    fn raised(&self, at: usize) -> Option<Raised> {
        let is_caret = self.byte(at) == Some(b'^');
        if !is_caret && !self.is_double_star(at) {
            return None;
        }
        let start = self.after_spaces(at + if is_caret { 1 } else { 2 });
        let (content, end) = match self.byte(start)? {
            b'{' | b'(' => {
                let end = self.balanced(start);
                (
                    self.bytes.get(start + 1..end.saturating_sub(1)).unwrap_or_default(),
                    end,
                )
            }
            b'\\' => {
                let name_end = start + 1 + self.letters(start + 1).len();
                let end = match self.byte(name_end) {
                    Some(b'{') => self.balanced(name_end),
                    _ => name_end,
                };
                (&self.bytes[start..end], end)
            }
            byte if byte.is_ascii_alphabetic() => (&self.bytes[start..=start], start + 1),
            _ => {
                let digits = start + usize::from(matches!(self.byte(start), Some(b'-' | b'+')));
                let length = self
                    .bytes
                    .get(digits..)?
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                (&self.bytes[start..digits + length], digits + length)
            }
        };
        let text = String::from_utf8_lossy(content)
            .trim()
            .trim_start_matches('+')
            .to_owned();
        let digits = text.strip_prefix('-').unwrap_or(&text);
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_variable = text.len() == 1 && text.bytes().all(|byte| byte.is_ascii_alphabetic());
        let has_digit = text.bytes().any(|byte| byte.is_ascii_digit()) && !text.starts_with('[');
        Some(Raised {
            end,
            is_power: has_digit || is_variable,
            whole: is_whole.then_some(text),
        })
    }

    /// The end of the bracket that opens here, or of the line.
    fn balanced(&self, start: usize) -> usize {
        let mut depth = 0_usize;
        for (offset, byte) in self.bytes[start..].iter().enumerate() {
            match byte {
                b'{' | b'(' | b'[' => depth += 1,
                b'}' | b')' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return start + offset + 1;
            }
        }
        self.bytes.len()
    }

    /// The end of so many arguments, with what is optional, raised or lowered before them.
    fn arguments(&self, start: usize, count: usize) -> usize {
        let mut at = start;
        for _ in 0..count {
            loop {
                let next = self.after_spaces(at);
                at = match self.byte(next) {
                    Some(b'[') => self.balanced(next),
                    Some(b'_') => self.index(next),
                    Some(b'^') => self.raised(next).map_or(next + 1, |raised| raised.end),
                    _ => break,
                };
            }
            let next = self.after_spaces(at);
            at = match self.byte(next) {
                Some(b'{' | b'(') => self.balanced(next),
                Some(b'\\') => next + 1 + self.letters(next + 1).len(),
                Some(byte) if byte.is_ascii_alphabetic() => next + 1,
                Some(_) => self.decimal(next).map_or(at, |(_, end)| end),
                None => at,
            };
        }
        at
    }

    /// A number at this place becomes the last, or part of a formula; `None` where there is none.
    fn quantity(&mut self, start: usize) -> Option<usize> {
        let (number, end) = self.number(start)?;
        let sign = self.sign_before(start);
        let first = sign.unwrap_or(start);
        let is_operand = self.formula_end.is_some_and(|formula| {
            let between = self.bytes.get(formula..start).unwrap_or_default();
            !between.iter().all(|byte| *byte == b' ') && self.is_joined(formula, start, b" +-*/")
        });
        let is_below = self.before(start) == Some(b'/') && self.is_formula_before_slash(start - 1);
        let raised = self.raised(end);
        let is_power = raised.as_ref().is_some_and(|raised| raised.is_power);
        let Some(number) = number.filter(|_| !is_operand && !is_below && !is_power) else {
            let end = raised.filter(|raised| raised.is_power).map_or(end, |raised| raised.end);
            return Some(self.formula(first..end));
        };
        let number = if sign.is_some() { number.negated() } else { number };
        self.formula_end = None;
        self.last = Some((Reading::Number(number), first..end));
        Some(raised.map_or(end, |raised| raised.end))
    }

    /// What is divided is a variable or a bracket.
    fn is_formula_before_slash(&self, slash: usize) -> bool {
        match self.before(slash) {
            Some(b')' | b'}') => true,
            Some(byte) if byte.is_ascii_alphabetic() => !self
                .before(slash - 1)
                .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'\\'),
            _ => false,
        }
    }

    /// Where a minus stands before the number, a currency sign between them allowed, that is not a dash after a word or an
    /// operand.
    fn sign_before(&self, start: usize) -> Option<usize> {
        let mut sign = start;
        while self.before(sign) == Some(b'$') {
            sign -= 1;
        }
        let back_over_spaces = |mut at: usize| {
            while self.before(at) == Some(b' ') {
                at -= 1;
            }
            at
        };
        let spaced = back_over_spaces(sign);
        if spaced < sign {
            // `= - 5` is a negative number; `- 5` may be an entry of a list, or a difference.
            let is_minus = self.before(spaced) == Some(b'-');
            let before = back_over_spaces(spaced.saturating_sub(1));
            return (is_minus && self.before(before) == Some(b'=')).then(|| spaced - 1);
        }
        if self.before(sign) != Some(b'-') {
            return None;
        }
        let follows_word = self
            .before(sign - 1)
            .is_some_and(|before| before.is_ascii_alphanumeric() || matches!(before, b'}' | b')' | OTHER_LETTER));
        (!follows_word).then(|| sign - 1)
    }

    /// A number as it is written, `None` in it where it is a formula, and its end.
    fn number(&self, start: usize) -> Option<(Option<Number>, usize)> {
        if self.byte(start) == Some(b'\\') {
            let (number, end) = self.fraction(start)?;
            return Some((Some(number), end));
        }
        let is_cut =
            self.byte(start) == Some(b'.') && self.before(start).is_some_and(|byte| byte.is_ascii_alphanumeric());
        let (numeral, end) = self.decimal(start).filter(|_| !is_cut)?;
        let number = Number::new(numeral.clone());
        let is_whole = numeral.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(power) = self.power_of_ten(start, &numeral, end) {
            return Some(power);
        }
        let follows_slash = self.before(start) == Some(b'/');
        let is_plain = self.is_digit(self.after_spaces(end));
        // `0.5 1/2` are two numbers, and what follows a date stands apart; `3\frac{5}{2}` is a product.
        let may_be_mixed = !is_plain || (is_whole && !follows_slash);
        if let Some((fraction, end)) = self.part(end).filter(|_| may_be_mixed) {
            return Some((Number::mixed(&number, &fraction).filter(|_| is_whole), end));
        }
        if self.byte(end) != Some(b'/') || follows_slash {
            return Some((Some(number), end));
        }
        let ratio = self
            .decimal(end + 1)
            .filter(|(_, end)| self.byte(*end) != Some(b'/'))
            .and_then(|(below, end)| Some((Number::ratio(&number, &Number::new(below))?, end)));
        let (number, end) = ratio.unwrap_or((number, end));
        Some((Some(number), end))
    }

    /// `1.5 \times 10^3` and `10^3`.
    fn power_of_ten(&self, start: usize, numeral: &str, end: usize) -> Option<(Option<Number>, usize)> {
        let raised_from = |ten: usize| {
            let after = ten + 2;
            let is_ten = self.bytes.get(ten..after) == Some(b"10") && !self.is_digit(after);
            let raised = self.raised(after).filter(|_| is_ten)?;
            Some((raised.whole?, raised.end))
        };
        if numeral == "10" && end == start + 2 {
            let (exponent, end) = raised_from(start)?;
            return Some((Some(Number::new(format!("1e{exponent}"))), end));
        }
        let at = self.after_spaces(end);
        let after = match self.byte(at)? {
            b'*' | b'x' | b'X' => at + 1,
            b'\\' if matches!(self.letters(at + 1), b"times" | b"cdot" | b"ast") => at + 1 + self.letters(at + 1).len(),
            _ => return None,
        };
        let (exponent, end) = raised_from(self.after_spaces(after))?;
        let number = (!numeral.contains(['e', 'E'])).then(|| Number::new(format!("{numeral}e{exponent}")));
        Some((number, end))
    }

    /// The fraction of a mixed number, behind its whole part.
    fn part(&self, end: usize) -> Option<(Number, usize)> {
        let at = self.after_spaces(end);
        if self.byte(at) == Some(b'\\') && FRACTIONS.contains(&self.letters(at + 1)) {
            return self.fraction(at);
        }
        if at == end || !self.is_digit(at) {
            return None;
        }
        let (above, slash) = self.decimal(at)?;
        let (below, end) = self.decimal(slash + 1).filter(|_| self.byte(slash) == Some(b'/'))?;
        let is_whole = |numeral: &str| numeral.bytes().all(|byte| byte.is_ascii_digit());
        let is_date = self.byte(end) == Some(b'/');
        let is_proper = is_whole(&above) && is_whole(&below) && super::is_less(&above, &below) && !is_date;
        let part = Number::ratio(&Number::new(above), &Number::new(below)).filter(|_| is_proper)?;
        Some((part, end))
    }

    /// `\frac{1}{2}`, `\frac12`, `\frac1{72}`.
    fn fraction(&self, start: usize) -> Option<(Number, usize)> {
        let name = self.letters(start + 1);
        if !FRACTIONS.contains(&name) {
            return None;
        }
        let (above, at) = self.argument(start + 1 + name.len())?;
        let (below, end) = self.argument(at)?;
        Some((Number::ratio(&above, &below)?, end))
    }

    /// A number in braces, or the next digit. The last brace may be missing where the text ends.
    fn argument(&self, start: usize) -> Option<(Number, usize)> {
        let at = self.after_spaces(start);
        if self.byte(at) != Some(b'{') {
            let digit = char::from(self.byte(at).filter(u8::is_ascii_digit)?);
            return Some((Number::new(digit.to_string()), at + 1));
        }
        let inner = self.after_spaces(at + 1);
        let is_negative = self.byte(inner) == Some(b'-');
        let (numeral, end) = self.decimal(inner + usize::from(is_negative))?;
        let number = Number::new(numeral);
        let end = self.after_spaces(end);
        let end = match self.byte(end) {
            Some(b'}') => end + 1,
            None => end,
            _ => return None,
        };
        Some((if is_negative { number.negated() } else { number }, end))
    }

    fn decimal(&self, start: usize) -> Option<(String, usize)> {
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
        Some((numeral, at))
    }

    /// Digits with their thousands separators; each must be followed by exactly three digits.
    fn whole(&self, start: usize, numeral: &mut String) -> usize {
        let mut at = self.digits(start, numeral);
        if at - start > 3 {
            return at;
        }
        let is_separator = |byte: u8| matches!(byte, b',' | b'\'' | b'_');
        let spaces = self.byte(at) == Some(b' ') && self.byte(start) != Some(b'0');
        loop {
            let is_three = (1..=3).all(|next| self.is_digit(at + next)) && !self.is_digit(at + 4);
            let joins = match self.byte(at) {
                // In `7 500/3` the space sets numbers apart.
                Some(b' ') => spaces && self.byte(at + 4) != Some(b'/'),
                Some(byte) => is_separator(byte) && !spaces,
                None => false,
            };
            if !is_three || !joins {
                return at;
            }
            at = self.digits(at + 1, numeral);
        }
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
