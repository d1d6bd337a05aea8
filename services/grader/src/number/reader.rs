//! The last number of a line in plain marks, or the formula that stands in its place.

use std::ops::Range;

use super::marks::{OTHER_LETTER, power_of_mark};
use super::{Number, Place};

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
/// Words behind a numeral that multiply it, one or many, and by which power of ten.
const MAGNITUDES: [(&[u8], u32); 7] = [
    (b"hundred", 2),
    (b"thousand", 3),
    (b"lakh", 5),
    (b"million", 6),
    (b"crore", 7),
    (b"billion", 9),
    (b"trillion", 12),
];
/// Letters right behind an amount of money that multiply it, and by which power of ten.
const SHORTHANDS: [(&[u8], u32); 6] = [(b"k", 3), (b"K", 3), (b"M", 6), (b"mn", 6), (b"B", 9), (b"bn", 9)];
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

/// Letters that are variables right behind a number, where others are units or name a magnitude.
const VARIABLES: &[u8] = b"abijnqrwxyz";
/// Those of them that are no words and no units where a space stands between, or in prose.
const PLAIN_VARIABLES: &[u8] = b"inxyz";
/// Brackets of a function, by the name of the command that opens them.
const ENCLOSING: [&[u8]; 4] = [b"lvert", b"lVert", b"lfloor", b"lceil"];
/// Words that say of what a value is, so that a minus behind them is a sign.
const EQUATING: [&[u8]; 16] = [
    b"is", b"are", b"was", b"be", b"equals", b"equal", b"to", b"gives", b"get", b"gets", b"makes", b"becomes",
    b"yields", b"than", b"ist", b"est",
];
/// With these begins a remark in brackets, in which no answer stands.
const REMARKS: [&[u8]; 19] = [
    b"see",
    b"for",
    b"cf",
    b"from",
    b"by",
    b"using",
    b"as",
    b"step",
    b"steps",
    b"eq",
    b"equation",
    b"where",
    b"since",
    b"because",
    b"recall",
    b"note",
    b"section",
    b"figure",
    b"table",
];

/// A remark that is passed over ends so many bytes after it began, and begins so many after its number.
const MAX_REMARK: usize = 256;
/// Groups of digits that are read together, and digits of such a number; nobody writes more.
const MAX_GROUPS: usize = 48;

pub(super) struct Reader<'r> {
    bytes: &'r [u8],
    place: Place,
    last: Option<(Reading, Range<usize>)>,
    /// Where the last formula ends, to which an operator may join a number.
    formula_end: Option<usize>,
}

/// A bracket behind a number.
enum Bracket {
    /// It says something of the number, whatever it holds: `42 (2 d.p.)`, `42 apples (12 red and 30 green)`, `42 [1]`. A conversion
    /// into another unit, as in `2 hours (120 minutes)`, is none.
    Remark { end: usize },
    /// In an answer the number and what is in the bracket make a product: `3 (4)`.
    Factor { start: usize, end: usize },
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
    pub(super) const fn new(bytes: &'r [u8], place: Place) -> Self {
        Self {
            bytes,
            place,
            last: None,
            formula_end: None,
        }
    }

    /// What the line ends in, and where it stands.
    pub(super) fn last(mut self) -> Option<(Reading, Range<usize>)> {
        let mut at = 0;
        if self.is_answer() && self.says_a_relation() {
            self.formula(0..self.bytes.len());
            return self.last;
        }
        if let Some(twice) = self.said_twice().filter(|_| self.is_answer()) {
            return Some(twice);
        }
        if let Some(end) = self.several(0).filter(|_| self.is_answer()) {
            let rest = self.bytes.get(end..).unwrap_or_default();
            if rest.iter().all(|byte| matches!(byte, b' ' | b'.')) {
                self.formula(0..end);
                return self.last;
            }
        }
        while let Some(byte) = self.byte(at) {
            at = match byte {
                b'\\' => self.command(at),
                b'a'..=b'z' | b'A'..=b'Z' => self.word(at),
                b'^' => self.raised(at).map_or(at + 1, |raised| raised.end),
                b'}' | b')' | b'|' => self.closed(at),
                b'(' | b'[' => self.opened(at),
                _ => self.quantity(at).unwrap_or(at + 1),
            };
        }
        self.last
    }

    fn is_answer(&self) -> bool {
        self.place == Place::Answer
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

    fn before_spaces(&self, mut at: usize) -> usize {
        while self.before(at) == Some(b' ') {
            at -= 1;
        }
        at
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
        if ENCLOSING.contains(&name) {
            return self.formula(start..self.enclosed(end, &name[1..]));
        }
        if name.is_empty() && self.byte(end) == Some(b'{') {
            return self.set(start);
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

    /// Behind the command that closes what another has opened, or the end of the line.
    fn enclosed(&self, start: usize, name: &[u8]) -> usize {
        let close = [br"\r", name].concat();
        let rest = self.bytes.get(start..).unwrap_or_default();
        let found = rest.windows(close.len()).position(|window| window == close.as_slice());
        found.map_or(self.bytes.len(), |at| start + at + close.len())
    }

    /// `\{3, 4\}` is no number; other braces are marks like any.
    fn set(&mut self, start: usize) -> usize {
        let inner = start + 2;
        match self.several(inner) {
            Some(close) if self.has(close, br"\}") => self.formula(start..close + 2),
            _ => inner,
        }
    }

    /// A bracket that opens: behind a number it may hold a remark, and several numbers in it are none.
    fn opened(&mut self, at: usize) -> usize {
        let is_round = self.byte(at) == Some(b'(');
        match self.bracket_behind_number(at) {
            Some(Bracket::Remark { end }) => return end,
            Some(Bracket::Factor { start, end }) => return self.formula(start..end),
            None => {}
        }
        let word = self.letters(self.after_spaces(at + 1)).to_ascii_lowercase();
        let has_number = matches!(self.last, Some((Reading::Number(_), _)));
        if is_round && has_number && REMARKS.contains(&word.as_slice()) {
            return self.balanced(at);
        }
        match self.several(at + 1) {
            Some(close) if (is_round || self.is_answer()) && matches!(self.byte(close), Some(b')' | b']')) => {
                self.formula(at..close + 1)
            }
            _ => at + 1,
        }
    }

    /// It compares: `x > 3`, `\ne 3`. Marks of HTML, of arrows and of calculators (`<<3+4=7>>`) do not.
    fn says_a_relation(&self) -> bool {
        const RELATIONS: [&[u8]; 10] = [
            b"le",
            b"leq",
            b"leqslant",
            b"ge",
            b"geq",
            b"geqslant",
            b"ne",
            b"neq",
            b"lt",
            b"gt",
        ];
        let is_tag = |at: usize| {
            let next = self.byte(at + 1);
            next.is_some_and(|next| next.is_ascii_alphabetic() || next == b'/') && self.bytes[at..].contains(&b'>')
        };
        let mut at = 0;
        while let Some(byte) = self.byte(at) {
            match byte {
                b'\\' if RELATIONS.contains(&self.letters(at + 1)) => return true,
                b'!' if self.byte(at + 1) == Some(b'=') => return true,
                b'<' if self.byte(at + 1) == Some(b'<') || self.before(at) == Some(b'<') => {}
                b'>' if self.byte(at + 1) == Some(b'>') || self.before(at) == Some(b'>') => {}
                b'<' if is_tag(at) => {
                    at += self.bytes[at..].iter().take_while(|byte| **byte != b'>').count();
                }
                b'>' if matches!(self.before(at), Some(b'-' | b'=')) => {}
                b'<' | b'>' => return true,
                _ => {}
            }
            at += 1;
        }
        false
    }

    /// What a bracket is to the number that stands right before it, a unit between them allowed.
    fn bracket_behind_number(&self, open: usize) -> Option<Bracket> {
        let Some((Reading::Number(_), place)) = &self.last else {
            return None;
        };
        let between = self.bytes.get(place.end..open)?;
        if between.len() > MAX_REMARK {
            return None;
        }
        let near = Reader::new(&self.bytes[..self.bytes.len().min(open + MAX_REMARK)], self.place);
        let end = near.balanced(open);
        let inner = self.bytes.get(open + 1..end.checked_sub(1)?)?;
        if !matches!(self.before(end), Some(b')' | b']')) {
            return None;
        }
        if self.is_working(inner) {
            return Some(Bracket::Remark { end });
        }
        if between.is_empty() {
            let is_note = self.byte(open) == Some(b'[') && !inner.is_empty() && inner.iter().all(u8::is_ascii_digit);
            return is_note.then_some(Bracket::Remark { end });
        }
        let has_unit = is_behind(between)?;
        let is_product = |byte: &u8| byte.is_ascii_digit() || b" .,+-*/".contains(byte);
        if !has_unit && self.is_answer() && inner.iter().all(is_product) {
            let start = place.start;
            return Some(Bracket::Factor { start, end });
        }
        let is_conversion = has_unit && self.is_quantity(open + 1, end - 1);
        (!is_conversion).then_some(Bracket::Remark { end })
    }

    /// What stands in a bracket computes the last number: `42 apples are left (50 - 8)`.
    fn is_working(&self, inner: &[u8]) -> bool {
        /// Working that stands in brackets is short.
        const MAX_WORKING: usize = 64;
        let Some((Reading::Number(number), _)) = &self.last else {
            return false;
        };
        let is_part = |byte: &u8| byte.is_ascii_digit() || b" .,+-*/()=$".contains(byte);
        let mut operators = inner.iter().skip(1).filter(|byte| b"+-*/".contains(byte));
        let has_power = inner.windows(2).any(|pair| pair == b"**");
        if inner.len() > MAX_WORKING || has_power || operators.next().is_none() || !inner.iter().all(is_part) {
            return false;
        }
        let working = String::from_utf8_lossy(inner).replace('$', "");
        let working = working
            .trim()
            .trim_start_matches('=')
            .split('=')
            .next()
            .unwrap_or_default();
        tidemill_maths::Answer::read(working).canonical() == number.canonical()
    }

    /// One number and its unit stand there, and nothing else.
    fn is_quantity(&self, start: usize, end: usize) -> bool {
        let Some((_, after)) = self.number(self.after_spaces(start)) else {
            return false;
        };
        let unit = self.bytes.get(after..end).unwrap_or_default().trim_ascii();
        std::str::from_utf8(unit).is_ok_and(tidemill_maths::is_measure)
    }

    /// Behind the numbers that stand here, if there are several with commas, colons, "or", "and" or "to" between; each may have
    /// a name, as in `x = 3, y = 4`.
    fn several(&self, start: usize) -> Option<usize> {
        let mut at = start;
        let mut count = 0;
        loop {
            at = self.after_name(self.after_spaces(at));
            if self.byte(at) == Some(b'-') {
                at = self.after_spaces(at + 1);
            }
            let (_, after) = self.number(at)?;
            count += 1;
            at = self.after_spaces(after);
            let joining = match self.byte(at) {
                Some(b',' | b';' | b':') => self.after_spaces(at + 1),
                _ => at,
            };
            let next = self.after_joining_word(joining);
            if next == at {
                return (count > 1).then_some(at);
            }
            at = next;
        }
    }

    /// One value that an answer says in two ways, and nothing else: `\frac12 \text{ or } 0.5`, `1/2 or 50\%`.
    fn said_twice(&self) -> Option<(Reading, Range<usize>)> {
        let start = self.after_spaces(0);
        let (one, end) = self.number(start)?;
        let one = one?;
        let joint = self.after_spaces(end);
        let next = self.after_joining_word(joint);
        let is_or = self.bytes.get(joint..next)?.windows(2).any(|pair| pair == b"or");
        if !is_or {
            return None;
        }
        let (other, after) = self.number(self.after_spaces(next))?;
        let other = other?;
        let percent = self.after_spaces(after);
        let share = [br"\%".as_slice(), b"%"]
            .into_iter()
            .find(|mark| self.has(percent, mark));
        let rest = self.bytes.get(share.map_or(after, |mark| percent + mark.len())..)?;
        let is_same = match share {
            Some(_) => one.is_share(&other),
            None => one.equals(&other, 0.0),
        };
        (is_same && rest.iter().all(|byte| matches!(byte, b' ' | b'.'))).then_some((Reading::Number(one), start..end))
    }

    /// Behind "or", "and" or "to", which may be set as text.
    fn after_joining_word(&self, start: usize) -> usize {
        let command = match self.byte(start) {
            Some(b'\\') => self.letters(start + 1),
            _ => b"",
        };
        let brace = start + 1 + command.len();
        let is_text = TEXTS.contains(&command) && self.byte(brace) == Some(b'{');
        let at = if is_text { self.after_spaces(brace + 1) } else { start };
        let word = self.letters(at);
        if !matches!(word, b"or" | b"and" | b"to") {
            return start;
        }
        let end = at + word.len();
        let close = self.after_spaces(end);
        if is_text && self.byte(close) == Some(b'}') {
            close + 1
        } else {
            end
        }
    }

    /// Behind the name and the equals sign before a value.
    fn after_name(&self, start: usize) -> usize {
        let name = self.letters(start);
        let equals = self.after_spaces(start + name.len());
        if name.is_empty() || self.byte(equals) != Some(b'=') {
            return start;
        }
        self.after_spaces(equals + 1)
    }

    fn has(&self, at: usize, marks: &[u8]) -> bool {
        self.bytes.get(at..).is_some_and(|rest| rest.starts_with(marks))
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
            _ => {
                // An operator joins what follows to it: `x + 2`.
                let variables = if self.is_answer() { VARIABLES } else { PLAIN_VARIABLES };
                let is_apart = !self
                    .before(start)
                    .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == OTHER_LETTER);
                if matches!(word, [letter] if variables.contains(letter)) && is_apart {
                    self.formula_end = Some(end);
                }
                end
            }
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
        if let Some(end) = self.chain(start) {
            // Nothing is computed with a date.
            self.last = Some((Reading::Formula, start..end));
            self.formula_end = None;
            return Some(end);
        }
        let (number, end) = self.number(start)?;
        let sign = self.sign_before(start);
        let first = sign.unwrap_or(start);
        if let Some(place) = self.term(first, end) {
            return Some(self.formula(place));
        }
        // An index, as the base of `101_2`, says nothing of the digits.
        let is_indexed = self.byte(end) == Some(b'_') && (self.is_digit(end + 1) || self.byte(end + 1) == Some(b'{'));
        let end = if is_indexed { self.index(end) } else { end };
        let is_operand = self.formula_end.is_some_and(|formula| {
            let between = self.bytes.get(formula..start).unwrap_or_default();
            !between.iter().all(|byte| *byte == b' ') && self.is_joined(formula, start, b" +-*/")
        });
        let is_below = self.before(start) == Some(b'/') && self.is_formula_before_slash(start - 1);
        let raised = self.raised(end);
        // A small 1 is the mark of a footnote, and the first power is the number itself.
        let is_power = raised
            .as_ref()
            .is_some_and(|raised| raised.is_power && raised.whole.as_deref() != Some("1"));
        let Some(number) = number.filter(|_| !is_operand && !is_below && !is_power) else {
            let end = raised.filter(|raised| raised.is_power).map_or(end, |raised| raised.end);
            return Some(self.formula(first..end));
        };
        let number = if sign.is_some() { number.negated() } else { number };
        self.last = Some((Reading::Number(number), first..end));
        let variables = self.variables(end);
        self.formula_end = (variables > 0).then_some(end + variables);
        Some(raised.map_or(end + variables, |raised| raised.end))
    }

    /// The end of digits in three groups or more that are no number together, nor is the last of them: `2024-05-06`, `3.14.15`,
    /// `1/2/3`, `5,10,150`. The year behind a day and a month is one.
    fn chain(&self, start: usize) -> Option<usize> {
        let group = |at: usize| {
            self.bytes
                .get(at..)
                .map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_digit()).count())
        };
        let mut length = group(start);
        let mut at = start + length;
        let separator = self.byte(at).filter(|byte| b".-/,".contains(byte))?;
        if length == 0 {
            return None;
        }
        let mut lengths = vec![length];
        while self.byte(at) == Some(separator) && group(at + 1) > 0 && lengths.len() < MAX_GROUPS {
            length = group(at + 1);
            lengths.push(length);
            at += 1 + length;
        }
        let is_chain = match separator {
            b'/' => length != 4,
            b',' => is_grouped_by_two(&lengths) && !self.is_lakhs(start),
            _ => true,
        };
        (is_chain && lengths.len() > 2).then_some(at)
    }

    /// Digits by two and at last by three, as in `1,00,000`. Without a zero that begins a group they may be several numbers.
    fn is_lakhs(&self, start: usize) -> bool {
        let rest = self.bytes.get(start..).unwrap_or_default();
        let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b',';
        let length = rest.iter().take(MAX_GROUPS).take_while(is_part).count();
        let groups: Vec<&[u8]> = rest[..length].split(|byte| *byte == b',').collect();
        let groups = match groups.as_slice() {
            [before @ .., []] => before,
            all => all,
        };
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        is_grouped_by_two(&lengths) && groups[1..].iter().any(|group| group.starts_with(b"0"))
    }

    /// The formula of which the number at a place is a part: of a product, a sum, a factorial, an absolute value.
    fn term(&self, first: usize, end: usize) -> Option<Range<usize>> {
        if let Some((Reading::Number(_), before)) = &self.last
            && self.is_operator(before.end, first)
        {
            return Some(before.start..end);
        }
        let is_closing = |at: usize| self.byte(at) == Some(b'$') || self.has(at, br"\)");
        let is_formula = |after: usize| self.is_answer() || is_closing(after);
        let variables = self.variables(end);
        if variables > 0 && is_formula(end + variables) {
            return Some(first..end + variables);
        }
        let next = self.byte(end);
        let after = self.byte(end + 1);
        if next == Some(b'!') && after != Some(b'=') && is_formula(end + 1) {
            return Some(first..end + 1);
        }
        let is_single = |at: usize| self.letters(at).len() == 1 && !self.is_digit(at + 1);
        if next == Some(b'/') && after.is_some_and(|letter| VARIABLES.contains(&letter)) && is_single(end + 1) {
            return Some(first..end + 2);
        }
        if self.before(first) == Some(b'|') && (self.is_answer() || self.is_right_bar(end)) {
            let is_closed = next == Some(b'|') || self.is_right_bar(end);
            return is_closed.then_some(first - 1..end);
        }
        if !self.is_answer() {
            return None;
        }
        if self.letters(end) == b"e" && !self.is_digit(end + 1) {
            return Some(first..end + 1);
        }
        if next == Some(b'(') && after.is_some_and(|byte| byte.is_ascii_digit() || byte == b'-' || is_single(end + 1)) {
            return Some(first..self.balanced(end));
        }
        let spaced = self.after_spaces(end);
        let is_variable = spaced > end
            && is_single(spaced)
            && self
                .byte(spaced)
                .is_some_and(|letter| PLAIN_VARIABLES.contains(&letter));
        let behind = self.byte(self.after_spaces(spaced + 1));
        let is_term = behind.is_none_or(|byte| b"+-*/^)=$\\".contains(&byte));
        (is_variable && is_term).then_some(first..spaced + 1)
    }

    /// How many letters right behind a number are variables: `3x`, `3xy`; none in `5ft` and `3x4`.
    fn variables(&self, end: usize) -> usize {
        let letters = self.letters(end);
        let are_variables =
            letters.len() <= 3 && letters.iter().all(|letter| VARIABLES.contains(letter)) && !letters.is_empty();
        let after = end + letters.len();
        let goes_on = self.is_digit(after) || matches!(self.byte(after), Some(b'^' | b'_' | OTHER_LETTER));
        if are_variables && !goes_on { letters.len() } else { 0 }
    }

    fn is_right_bar(&self, at: usize) -> bool {
        self.has(self.after_spaces(at), br"\right|")
    }

    /// One operator stands between two numbers. In prose a dash may set apart a range, and a slash a date.
    fn is_operator(&self, start: usize, end: usize) -> bool {
        let between = self.bytes.get(start..end).unwrap_or_default().trim_ascii();
        match between {
            b"+" | b"*" | br"\cdot" | br"\times" | br"\div" | br"\ast" => true,
            b"-" | b"/" | b"x" => self.is_answer(),
            _ => false,
        }
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

    /// Where a minus stands before the number, a currency sign or a brace between them allowed, that is not a dash after a word or
    /// an operand.
    fn sign_before(&self, start: usize) -> Option<usize> {
        let mut sign = start;
        loop {
            let is_braced = || self.before(self.before_spaces(sign - 1)) == Some(b'-');
            match self.before(sign) {
                Some(b'$') => sign -= 1,
                Some(b'{') if is_braced() => sign -= 1,
                _ => break,
            }
        }
        let spaced = self.before_spaces(sign);
        if self.before(spaced) != Some(b'-') {
            return self.sign_in_a_word(spaced).filter(|_| spaced < sign);
        }
        let minus = spaced - 1;
        if spaced < sign {
            return self.is_sign(minus).then_some(minus);
        }
        let follows_word = self
            .before(minus)
            .is_some_and(|before| before.is_ascii_alphanumeric() || matches!(before, b'}' | b')' | OTHER_LETTER));
        (!follows_word).then_some(minus)
    }

    /// Where "negative" or "minus" begins that ends at a place; between two values "minus" takes one from the other.
    fn sign_in_a_word(&self, end: usize) -> Option<usize> {
        let head = self.bytes.get(..end).unwrap_or_default();
        let length = head.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let start = end - length;
        let is_apart = !matches!(self.before(start), Some(b'-' | b'_' | b'\\'));
        let is_sign = match head[start..].to_ascii_lowercase().as_slice() {
            b"negative" => true,
            b"minus" => self.before_spaces(start) == 0 || self.is_sign(start),
            _ => false,
        };
        (is_sign && is_apart).then_some(start)
    }

    /// A minus that a space sets apart from its number is a sign where nothing stands before it that it could be taken from:
    /// `= - 5`, `is - 5`. In prose the first of a line may begin an entry of a list.
    fn is_sign(&self, minus: usize) -> bool {
        let at = self.before_spaces(minus);
        let is_near = at == minus;
        match self.before(at) {
            None => self.is_answer(),
            Some(b'=' | b'<' | b'>' | b'(' | b'[' | b'{' | b':' | b',' | b';' | b'#') => true,
            Some(b'$' | b'*' | b'"' | b'_') => is_near,
            Some(byte) if byte.is_ascii_alphabetic() => {
                let head = self.bytes.get(..at).unwrap_or_default();
                let length = head.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
                EQUATING.contains(&head[at - length..].to_ascii_lowercase().as_slice())
            }
            Some(_) => false,
        }
    }

    /// A number as it is written, `None` in it where it is a formula, and its end.
    fn number(&self, start: usize) -> Option<(Option<Number>, usize)> {
        if self.byte(start) == Some(b'\\') {
            let (number, end) = self.fraction(start)?;
            return Some(self.unless_multiplied(Some(number), end));
        }
        let is_cut =
            self.byte(start) == Some(b'.') && self.before(start).is_some_and(|byte| byte.is_ascii_alphanumeric());
        let (numeral, end) = self.decimal(start).filter(|_| !is_cut)?;
        let number = Number::new(numeral.clone());
        let is_whole = numeral.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(power) = self.power_of_ten(start, &numeral, end) {
            return Some(power);
        }
        let shorthand = || self.shorthand(start, end);
        if let Some((exponent, end)) = self.magnitude(end).or_else(shorthand) {
            if let Some(end) = self.rest_of_compound(end) {
                return Some((None, end));
            }
            let number = (!numeral.contains(['e', 'E'])).then(|| Number::new(format!("{numeral}e{exponent}")));
            return Some((number, end));
        }
        let follows_slash = self.before(self.before_spaces(start)) == Some(b'/');
        let is_plain = self.is_digit(self.after_spaces(end));
        // `0.5 1/2` are two numbers, and what follows a date stands apart; `3\frac{5}{2}` is a product.
        let may_be_mixed = !is_plain || (is_whole && !follows_slash);
        if let Some((fraction, end)) = self.part(end).filter(|_| may_be_mixed) {
            let mixed = Number::mixed(&number, &fraction).filter(|_| is_whole);
            return Some(self.unless_multiplied(mixed, end));
        }
        let slash = self.after_spaces(end);
        if self.byte(slash) != Some(b'/') || follows_slash {
            return Some((Some(number), end));
        }
        let below = if slash > end {
            self.after_spaces(slash + 1)
        } else {
            slash + 1
        };
        let below = self
            .decimal(below)
            .filter(|(_, end)| self.byte(self.after_spaces(*end)) != Some(b'/'));
        let Some((below, end)) = below else {
            return Some(self.unless_multiplied(Some(number), end));
        };
        // What is divided by zero has no value.
        Some(self.unless_multiplied(Number::ratio(&number, &Number::new(below)), end))
    }

    /// A fraction that a word behind it multiplies, as `2 1/2 million`, has a value that is not read here.
    fn unless_multiplied(&self, number: Option<Number>, end: usize) -> (Option<Number>, usize) {
        match self.magnitude(end) {
            Some((_, end)) => (None, end),
            None => (number, end),
        }
    }

    /// The power of ten by which the words behind a number multiply it, and where they end: `5 million`, `5\text{ million}`,
    /// `$5$ million`, `5 hundred thousand`, `5万`.
    fn magnitude(&self, end: usize) -> Option<(u32, usize)> {
        let (mut exponent, mut end) = self.word_of_magnitude(end)?;
        while let Some((more, after)) = self.word_of_magnitude(end) {
            (exponent, end) = (exponent + more, after);
        }
        Some((exponent, end))
    }

    fn word_of_magnitude(&self, end: usize) -> Option<(u32, usize)> {
        let mut at = self.after_spaces(self.after_dress(end));
        let command = if self.byte(at) == Some(b'\\') {
            self.letters(at + 1)
        } else {
            b""
        };
        let brace = at + 1 + command.len();
        let is_text = TEXTS.contains(&command) && self.byte(brace) == Some(b'{');
        if is_text {
            at = self.after_spaces(brace + 1);
        }
        let (exponent, after) = match self.byte(at).and_then(power_of_mark) {
            Some(power) => (power, at + 1),
            None => {
                let word = self.letters(at);
                let is_named =
                    |name: &[u8]| word.eq_ignore_ascii_case(name) || word.eq_ignore_ascii_case(&[name, b"s"].concat());
                let (_, exponent) = MAGNITUDES.iter().find(|(name, _)| is_named(name))?;
                (*exponent, at + word.len())
            }
        };
        let closes = is_text && self.byte(after) == Some(b'}');
        Some((exponent, after + usize::from(closes)))
    }

    /// Behind the marks that set a number apart from the word behind it: `$5$ million`, `**5** million`.
    fn after_dress(&self, end: usize) -> usize {
        let marks: [&[u8]; 3] = [b"**", b"$", br"\)"];
        let mut at = end;
        while let Some(mark) = marks.iter().find(|mark| self.has(at, mark)) {
            at += mark.len();
        }
        at
    }

    /// The power of ten that a letter right behind an amount of money means: `$70k`, `$5M`. Between dollar signs of LaTeX it is a
    /// variable.
    fn shorthand(&self, start: usize, end: usize) -> Option<(u32, usize)> {
        let letters = self.letters(end);
        let (_, exponent) = SHORTHANDS.iter().find(|(name, _)| *name == letters)?;
        let after = end + letters.len();
        let rest = self.bytes.get(after..)?;
        let closes = rest
            .iter()
            .position(|byte| *byte == b'$')
            .is_some_and(|dollar| !self.is_digit(after + dollar + 1));
        let is_money = self.before(start) == Some(b'$') && !closes && !matches!(self.byte(after), Some(b'^' | b'_'));
        (is_money && !self.is_digit(after)).then_some((*exponent, after))
    }

    /// Behind what a number goes on with after a letter of magnitude, as `1亿2000万` does: its value is not read here.
    fn rest_of_compound(&self, end: usize) -> Option<usize> {
        self.before(end).and_then(power_of_mark)?;
        let (_, after) = self.decimal(end)?;
        let after = self.magnitude(after).map_or(after, |(_, after)| after);
        Some(self.rest_of_compound(after).unwrap_or(after))
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
        let digits = if is_negative {
            self.after_spaces(inner + 1)
        } else {
            inner
        };
        let (numeral, end) = self.decimal(digits)?;
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
        if self.is_lakhs(start) {
            while self.byte(at) == Some(b',') && self.is_digit(at + 1) {
                at = self.digits(at + 1, numeral);
            }
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

/// Groups of two digits between a first one and a last one of three.
fn is_grouped_by_two(lengths: &[usize]) -> bool {
    match lengths {
        [first, middle @ .., last] => {
            *first <= 2 && *last == 3 && !middle.is_empty() && middle.iter().all(|length| *length == 2)
        }
        _ => false,
    }
}

/// Whether a unit stands between a number and the bracket behind it; `None` where there is more, or no space.
fn is_behind(between: &[u8]) -> Option<bool> {
    let is_unit = |byte: &u8| byte.is_ascii_alphabetic() || b" \\{}^23%$*_)/".contains(byte);
    let has_letters = |word: &&[u8]| word.iter().any(u8::is_ascii_alphabetic) && !word.starts_with(b"\\");
    let words = between.split(|byte| *byte == b' ').filter(has_letters).count();
    (between.ends_with(b" ") && words <= 1 && between.iter().all(is_unit)).then_some(words == 1)
}
