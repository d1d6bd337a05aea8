//! From text to tokens: commands, numbers with their separators, words, marks.
//!
//! Spacing and type-setting commands vanish here. A comma between digits separates thousands outside brackets, and within them
//! only where the elements are set apart by spaced commas, because `(1,234)` is a point.

use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use crate::characters::plain;
use crate::steps::{Exhausted, Steps};
use crate::unit::letter_is_unit;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Number {
        value: RBig,
        is_integer: bool,
        digits: String,
    },
    /// A run of ASCII letters.
    Word(String),
    /// What was set as text: words with spaces.
    Text(String),
    /// A command, without its backslash.
    Command(String),
    Mark(char),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// White space stands before it.
    pub(crate) is_spaced: bool,
}

/// The opening and the closing brace of a set, which LaTeX writes with a backslash.
pub(crate) const SET_OPEN: char = '⦃';
pub(crate) const SET_CLOSE: char = '⦄';

/// Exponents of ten beyond this are not numbers that anybody answers.
const MAX_EXPONENT: i32 = 2_000;
/// How deep texts may stand in texts.
const MAX_DEPTH: usize = 8;

/// Reads the tokens of a text.
pub(crate) fn tokens(text: &str, steps: &mut Steps) -> Result<Vec<Token>, Exhausted> {
    let mut tokens = Vec::new();
    read(&plain(text), &mut tokens, steps, 0)?;
    Ok(tokens)
}

fn read(text: &str, tokens: &mut Vec<Token>, steps: &mut Steps, depth: usize) -> Result<(), Exhausted> {
    let mut lexer = Lexer {
        text,
        at: 0,
        is_spaced: true,
        brackets: Vec::new(),
        tokens,
    };
    while lexer.at < text.len() {
        steps.take(1)?;
        lexer.step(steps, depth)?;
    }
    Ok(())
}

struct Lexer<'t, 'o> {
    text: &'t str,
    at: usize,
    is_spaced: bool,
    /// For each bracket that is open: its elements are set apart by spaced commas.
    brackets: Vec<bool>,
    tokens: &'o mut Vec<Token>,
}

impl Lexer<'_, '_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: Kind) {
        self.tokens.push(Token {
            kind,
            is_spaced: std::mem::take(&mut self.is_spaced),
        });
    }

    fn step(&mut self, steps: &mut Steps, depth: usize) -> Result<(), Exhausted> {
        let Some(letter) = self.rest().chars().next() else {
            return Ok(());
        };
        match letter {
            ' ' | '\t' | '\n' | '\r' | '~' | '"' | '`' => {
                self.is_spaced = true;
                self.at += 1;
            }
            '0'..='9' => self.number(steps)?,
            '.' if self.digit_at(self.at + 1) => self.number(steps)?,
            '\\' => self.command(steps, depth)?,
            'a'..='z' | 'A'..='Z' => self.word(),
            '$' => self.dollar(),
            '*' => {
                let is_power = self.rest().starts_with("**");
                self.at += if is_power { 2 } else { 1 };
                self.push(Kind::Mark(if is_power { '^' } else { '*' }));
            }
            '(' | '[' | ')' | ']' | '{' | '}' => self.bracket(letter),
            '<' | '>' | '!' | '=' if self.rest()[1..].starts_with('=') => self.two(letter),
            letter => {
                self.at += letter.len_utf8();
                if letter.is_ascii() || "€£¥₹¢".contains(letter) {
                    self.push(Kind::Mark(letter));
                } else {
                    self.foreign(letter);
                }
            }
        }
        Ok(())
    }

    fn two(&mut self, letter: char) {
        self.at += 2;
        match letter {
            '<' => self.push(Kind::Command("le".to_owned())),
            '>' => self.push(Kind::Command("ge".to_owned())),
            '!' => self.push(Kind::Command("ne".to_owned())),
            _ => self.push(Kind::Mark('=')),
        }
    }

    fn bracket(&mut self, letter: char) {
        match letter {
            '(' | '[' => self.open_bracket(),
            ')' | ']' => {
                self.brackets.pop();
            }
            '{' if self.tokens.is_empty() => self.open_bracket(),
            '{' if self.rest().starts_with("{,}") => {
                self.at += 3;
                return self.push(Kind::Mark(','));
            }
            _ => {}
        }
        self.at += 1;
        self.push(Kind::Mark(letter));
    }

    /// Looks how the elements of the bracket that opens here are set apart.
    fn open_bracket(&mut self) {
        const FAR: usize = 256;
        let spaced = self
            .rest()
            .bytes()
            .take(FAR)
            .skip(1)
            .take_while(|byte| !matches!(byte, b')' | b']'))
            .collect::<Vec<u8>>()
            .windows(2)
            .any(|pair| pair[0] == b',' && matches!(pair[1], b' ' | b'\\' | b'~'));
        self.brackets.push(spaced);
    }

    /// A dollar sign before a number is money; others delimit formulas.
    fn dollar(&mut self) {
        self.at += 1;
        let after = self.rest().trim_start();
        let is_money = after.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
        let closes = self.rest().contains('$');
        if is_money && !closes {
            self.push(Kind::Mark('$'));
        }
    }

    fn word(&mut self) {
        let length = self.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
        let word = self.rest()[..length].to_owned();
        self.at += length;
        self.push(Kind::Word(word));
    }

    /// A letter of another script continues a text.
    fn foreign(&mut self, letter: char) {
        if !self.is_spaced
            && let Some(Token {
                kind: Kind::Text(text), ..
            }) = self.tokens.last_mut()
        {
            text.push(letter);
            return;
        }
        self.push(Kind::Text(letter.to_string()));
    }

    fn command(&mut self, steps: &mut Steps, depth: usize) -> Result<(), Exhausted> {
        self.at += 1;
        let name: String = self.rest().chars().take_while(char::is_ascii_alphabetic).collect();
        if name.is_empty() {
            let Some(letter) = self.rest().chars().next() else {
                return Ok(());
            };
            self.at += letter.len_utf8();
            match letter {
                ' ' | ',' | ';' | ':' | '>' => self.is_spaced = true,
                '{' => {
                    self.open_bracket();
                    self.push(Kind::Mark(SET_OPEN));
                }
                '}' => {
                    self.brackets.pop();
                    self.push(Kind::Mark(SET_CLOSE));
                }
                '\\' => self.push(Kind::Command("\\".to_owned())),
                '$' | '%' | '&' | '#' | '_' => self.push(Kind::Mark(letter)),
                '|' => self.push(Kind::Mark('|')),
                _ => {}
            }
            return Ok(());
        }
        self.at += name.len();
        match name.as_str() {
            "left" | "right" | "bigl" | "bigr" | "Bigl" | "Bigr" | "big" | "Big" | "bigg" | "Bigg" | "biggl"
            | "biggr" => {
                if self.rest().starts_with('.') {
                    self.at += 1;
                }
            }
            "quad" | "qquad" | "thinspace" | "enspace" => self.is_spaced = true,
            "hspace" | "hskip" | "kern" | "mspace" => {
                self.skip_argument();
                self.is_spaced = true;
            }
            "color" | "textcolor" => self.skip_argument(),
            "mathbb" if self.is_reals() => self.push(Kind::Command("reals".to_owned())),
            "checkmark" | "displaystyle" | "textstyle" | "limits" | "nolimits" | "boldsymbol" | "mathbb"
            | "mathcal" | "mathbf" | "bf" | "rm" | "vec" | "boxed" | "fbox" | "mathit" | "mathsf" | "bm" | "large"
            | "Large" | "phantom" | "underline" | "uline" | "cancel" => {}
            "R" | "Reals" | "reals" => self.push(Kind::Command("reals".to_owned())),
            "text" | "textbf" | "textrm" | "textit" | "textnormal" | "mbox" | "hbox" | "mathrm" | "operatorname" => {
                self.set_text(steps, depth)?;
            }
            _ => self.push(Kind::Command(name)),
        }
        Ok(())
    }

    /// Passes over an argument that says nothing of a value, as a width or a colour.
    fn skip_argument(&mut self) {
        let rest = self.rest();
        self.at = self.text.len() - rest.trim_start_matches('*').trim_start().len();
        let inner = self.rest().strip_prefix('{').and_then(balanced).map(str::len);
        self.at += inner.map_or(0, |length| length + 2);
    }

    /// The argument of a command that sets text: words stay together, all else is read as if it stood outside.
    fn set_text(&mut self, steps: &mut Steps, depth: usize) -> Result<(), Exhausted> {
        let rest = self.rest();
        let skipped = rest.len() - rest.trim_start().len();
        let Some(inner) = rest.trim_start().strip_prefix('{').and_then(balanced) else {
            return Ok(());
        };
        let inner = inner.to_owned();
        self.at += skipped + inner.len() + 2;
        let words = inner.trim_matches(|letter: char| letter.is_whitespace() || matches!(letter, '.' | ',' | '~'));
        let is_words = words.chars().any(char::is_alphabetic)
            && words.chars().count() > 1
            && words.chars().all(|letter| {
                letter.is_alphabetic() || matches!(letter, ' ' | '.' | '\'' | '-' | '/' | '^' | '2' | '3')
            });
        if is_words || self.is_unit_letter(words) || self.is_remark(words) {
            if inner.starts_with(' ') {
                self.is_spaced = true;
            }
            self.push(Kind::Text(bare(words).to_owned()));
            return Ok(());
        }
        if depth < MAX_DEPTH {
            read(&inner, self.tokens, steps, depth + 1)?;
        }
        Ok(())
    }

    /// Words in brackets behind a value, as in `7 \text{ (ways)}`.
    fn is_remark(&self, words: &str) -> bool {
        let follows_value = self
            .tokens
            .last()
            .is_some_and(|token| matches!(token.kind, Kind::Number { .. } | Kind::Mark('}' | ')')));
        let bare = bare(words);
        follows_value
            && bare.len() < words.len()
            && bare.chars().count() > 1
            && bare.chars().all(|letter| letter.is_alphabetic() || letter == ' ')
    }

    /// A letter that is set as text behind a value is a unit, where in a formula it is a variable.
    fn is_unit_letter(&self, words: &str) -> bool {
        let follows_value = self.tokens.last().is_some_and(|token| match &token.kind {
            Kind::Number { .. } | Kind::Text(_) => true,
            Kind::Mark(mark) => matches!(mark, '}' | ')' | '/' | '*'),
            Kind::Command(name) => matches!(name.as_str(), "pi" | "cdot"),
            Kind::Word(_) => false,
        });
        follows_value && (letter_is_unit(words) || matches!(words, "N" | "J" | "W" | "V" | "K"))
    }

    /// Takes the argument of a command for letters of sets, where it is the R of the real numbers.
    fn is_reals(&mut self) -> bool {
        let rest = self.rest().trim_start();
        let after = rest.strip_prefix("{R}").or_else(|| {
            let after = rest.strip_prefix('R')?;
            (!after.starts_with(|letter: char| letter.is_ascii_alphabetic())).then_some(after)
        });
        let Some(after) = after else {
            return false;
        };
        self.at = self.text.len() - after.len();
        true
    }

    fn digit_at(&self, at: usize) -> bool {
        self.text.as_bytes().get(at).is_some_and(u8::is_ascii_digit)
    }

    fn digits(&mut self, into: &mut String) {
        while self.digit_at(self.at) {
            into.push(char::from(self.text.as_bytes()[self.at]));
            self.at += 1;
        }
    }

    fn number(&mut self, steps: &mut Steps) -> Result<(), Exhausted> {
        let mut whole = String::new();
        self.digits(&mut whole);
        if (1..=3).contains(&whole.len()) {
            while let Some(separator) = self.separator() {
                self.at += separator;
                self.digits(&mut whole);
            }
        }
        let mut decimals = String::new();
        let mut repeating = String::new();
        if self.rest().starts_with('.') {
            let repeats = self.repeating_at(self.at + 1);
            if self.digit_at(self.at + 1) || repeats.is_some() {
                self.at += 1;
                self.digits(&mut decimals);
                if let Some((digits, end)) = self.repeating_at(self.at) {
                    repeating = digits;
                    self.at = end;
                }
            }
        }
        let Some(exponent) = self.exponent() else {
            // No rule begins with such a mark, so the text is compared by its letters.
            self.push(Kind::Mark('\0'));
            return Ok(());
        };
        steps.take((whole.len() + decimals.len() + repeating.len()) as u64 / 8)?;
        let is_integer = decimals.is_empty() && repeating.is_empty() && exponent == 0;
        let value = value(&whole, &decimals, &repeating) * power_of_ten(exponent);
        self.push(Kind::Number {
            value,
            is_integer,
            digits: whole,
        });
        Ok(())
    }

    /// The length of a thousands separator here: three digits and no more follow it.
    fn separator(&self) -> Option<usize> {
        let rest = self.rest();
        let is_comma_allowed = self.brackets.last().copied().unwrap_or(true);
        let separator = ["{,}", r"{,\!}", r",\!", r"\,", r"\ ", "'", "_", " "]
            .into_iter()
            .chain(is_comma_allowed.then_some(","))
            .find(|separator| rest.starts_with(separator))?;
        let after = self.at + separator.len();
        let is_three = (0..3).all(|next| self.digit_at(after + next)) && !self.digit_at(after + 3);
        let is_mixed = separator == " " && matches!(self.text.as_bytes().get(after + 3), Some(b'/' | b'.'));
        (is_three && !is_mixed).then_some(separator.len())
    }

    /// Digits under a line, or the one under a dot, which go on for ever, and where they end.
    fn repeating_at(&self, at: usize) -> Option<(String, usize)> {
        let rest = self.text.get(at..)?;
        if let Some(dotted) = rest.strip_prefix(r"\dot") {
            let digit = dotted
                .trim_start_matches([' ', '{'])
                .get(..1)
                .filter(|digit| digit.as_bytes()[0].is_ascii_digit())?;
            let after = dotted.trim_start_matches([' ', '{']).get(1..)?;
            let end = self.text.len() - after.strip_prefix('}').unwrap_or(after).len();
            return Some((digit.to_owned(), end));
        }
        let braced = [r"\overline{", r"\bar{"]
            .iter()
            .find_map(|command| rest.strip_prefix(command))?;
        let length = braced.bytes().take_while(u8::is_ascii_digit).count();
        let after = braced[length..].strip_prefix('}').filter(|_| length > 0)?;
        Some((braced[..length].to_owned(), self.text.len() - after.len()))
    }

    /// The exponent of ten, zero where there is none, `None` for one that is too large.
    fn exponent(&mut self) -> Option<i32> {
        let rest = self.rest();
        let Some(after) = rest.strip_prefix(['e', 'E']) else {
            return Some(0);
        };
        let sign = usize::from(after.starts_with(['+', '-']));
        let length = after[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let continues = after[sign + length..].starts_with(|letter: char| letter.is_ascii_alphabetic());
        if length == 0 || continues {
            return Some(0);
        }
        let value: Option<i32> = after[..sign + length].parse().ok();
        self.at += 1 + sign + length;
        value.filter(|value| value.abs() <= MAX_EXPONENT)
    }
}

/// Words without the brackets around them.
fn bare(words: &str) -> &str {
    let inner = words.strip_prefix('(').and_then(|words| words.strip_suffix(')'));
    inner.unwrap_or(words).trim()
}

/// What stands before the brace that closes the one just opened.
fn balanced(text: &str) -> Option<&str> {
    let mut depth = 1_usize;
    let mut is_escaped = false;
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(&text[..offset]);
                }
            }
            _ => {}
        }
    }
    None
}

fn value(whole: &str, decimals: &str, repeating: &str) -> RBig {
    let integer = |digits: &str| digits.parse::<IBig>().unwrap_or_default();
    let ten = |power: usize| UBig::from(10_u8).pow(power);
    let scale = ten(decimals.len());
    let value = RBig::from_parts(integer(&format!("0{whole}{decimals}")), scale.clone());
    if repeating.is_empty() {
        return value;
    }
    let nines = (ten(repeating.len()) - UBig::from(1_u8)) * scale;
    value + RBig::from_parts(integer(repeating), nines)
}

fn power_of_ten(exponent: i32) -> RBig {
    let power = UBig::from(10_u8).pow(exponent.unsigned_abs() as usize);
    if exponent < 0 {
        RBig::from_parts(IBig::from(1), power)
    } else {
        RBig::from(IBig::from(power))
    }
}
