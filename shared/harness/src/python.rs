//! What Python's own functions say of a value: `str`, `repr`, `ast.literal_eval`, white space, digits.
//!
//! Prompts are compared byte by byte, and these functions are between a row and its prompt.

use serde_json::{Number, Value as Json};
use unicode_general_category::{GeneralCategory, get_general_category};

/// Deepest nesting of a literal.
const MAX_DEPTH: usize = 64;

/// Whether Python counts a character as white space.
#[must_use]
pub fn is_space(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

/// `str.strip()`.
#[must_use]
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `str.isdigit()` for the digits that a literal may consist of.
#[must_use]
pub fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a character is punctuation, any of the Unicode categories that begin with P.
#[must_use]
pub fn is_punctuation(letter: char) -> bool {
    get_general_category(letter).abbreviation().starts_with('P')
}

/// `str.title()`: what begins a word is what no cased letter stands before.
#[must_use]
pub fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_inside = false;
    for letter in text.chars() {
        match is_inside {
            true => out.extend(letter.to_lowercase()),
            false => title_letter(letter, &mut out),
        }
        is_inside = letter.is_uppercase() || letter.is_lowercase() || is_title(letter);
    }
    out
}

/// Letters that are two in one, upper and lower case.
fn is_title(letter: char) -> bool {
    get_general_category(letter) == GeneralCategory::TitlecaseLetter
}

fn title_letter(letter: char, out: &mut String) {
    match letter {
        // Three forms stand side by side, with the title's in the middle.
        '\u{1c4}'..='\u{1cc}' => out.push(['\u{1c5}', '\u{1c8}', '\u{1cb}'][(letter as usize - 0x1c4) / 3]),
        '\u{1f1}'..='\u{1f3}' => out.push('\u{1f2}'),
        letter if is_title(letter) => out.push(letter),
        // One letter whose upper case are several: the first letter of a word alone is large.
        letter => {
            let mut large = letter.to_uppercase();
            out.extend(large.next());
            match letter {
                '\u{149}' => out.extend(large),
                _ => out.extend(large.flat_map(char::to_lowercase)),
            }
        }
    }
}

/// `str.splitlines(keepends)`.
#[must_use]
pub fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let ends_line =
        |letter: char| matches!(letter, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(ends_line) {
        let end = match rest[at..].starts_with("\r\n") {
            true => at + 2,
            false => at + rest[at..].chars().next().map_or(1, char::len_utf8),
        };
        lines.push(&rest[..if keep_ends { end } else { at }]);
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// `str(value)`.
#[must_use]
pub fn str(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => repr(other),
    }
}

/// `repr(value)`.
#[must_use]
pub fn repr(value: &Json) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

fn write_repr(out: &mut String, value: &Json) {
    match value {
        Json::Null => out.push_str("None"),
        Json::Bool(true) => out.push_str("True"),
        Json::Bool(false) => out.push_str("False"),
        Json::Number(number) => out.push_str(&number_repr(number)),
        Json::String(text) => write_text(out, text),
        Json::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(out, value);
            }
            out.push(']');
        }
        Json::Object(map) => {
            out.push('{');
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_text(out, key);
                out.push_str(": ");
                write_repr(out, value);
            }
            out.push('}');
        }
    }
}

fn number_repr(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float_repr(float),
        _ => number.to_string(),
    }
}

/// `repr` of a float: the shortest digits that read back as it, with an exponent below 1e-4 and from 1e16 on.
#[must_use]
pub fn float_repr(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&power) {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", power.abs());
    }
    let plain = format!("{number}");
    if plain.contains('.') {
        plain
    } else {
        format!("{plain}.0")
    }
}

fn write_text(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if letter == quote => {
                out.push('\\');
                out.push(letter);
            }
            letter if is_printable(letter) => out.push(letter),
            letter => match u32::from(letter) {
                code @ 0..=0xff => out.push_str(&format!("\\x{code:02x}")),
                code @ 0x100..=0xffff => out.push_str(&format!("\\u{code:04x}")),
                code => out.push_str(&format!("\\U{code:08x}")),
            },
        }
    }
    out.push(quote);
}

fn is_printable(letter: char) -> bool {
    use GeneralCategory as Category;
    letter == ' '
        || !matches!(
            get_general_category(letter),
            Category::Control
                | Category::Format
                | Category::Surrogate
                | Category::PrivateUse
                | Category::Unassigned
                | Category::LineSeparator
                | Category::ParagraphSeparator
                | Category::SpaceSeparator
        )
}

/// `ast.literal_eval(text)`; tuples and sets become lists.
///
/// # Errors
/// The text is no literal, or one that no JSON value stands for.
pub fn literal(text: &str) -> Result<Json, String> {
    let mut reader = Literal {
        text,
        at: text.len() - text.trim_start_matches([' ', '\t']).len(),
        depth: 0,
    };
    let value = reader.value()?;
    reader.skip_space();
    match reader.rest() {
        "" => Ok(value),
        rest if rest.starts_with(',') => reader.bare_tuple(value),
        _ => Err(reader.fault()),
    }
}

/// The keys and values of a text that is a dictionary in Python, in their order.
///
/// # Errors
/// The text is no literal of a dictionary.
pub fn entries(text: &str) -> Result<Vec<(Json, Json)>, String> {
    let mut reader = Literal { text, at: 0, depth: 1 };
    match (text.starts_with('{'), reader.braces()?, reader.rest()) {
        (true, Braces::Map(entries), "") => Ok(entries),
        _ => Err("is no dictionary".to_owned()),
    }
}

/// The value of a dictionary under a key; of equal keys the last one counts.
#[must_use]
pub fn entry<'e>(entries: &'e [(Json, Json)], key: &Json) -> Option<&'e Json> {
    let found = entries.iter().rev().find(|(known, _)| equal(known, key));
    found.map(|(_, value)| value)
}

/// `left == right`, where true is 1 and false is 0.
#[must_use]
pub fn equal(left: &Json, right: &Json) -> bool {
    match (number(left), number(right)) {
        (Some(left), Some(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left == right,
            _ => left.as_f64() == right.as_f64(),
        },
        (None, None) => match (left, right) {
            (Json::Array(left), Json::Array(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
            }
            (left, right) => left == right,
        },
        _ => false,
    }
}

/// The number that a value counts as.
fn number(value: &Json) -> Option<Number> {
    match value {
        Json::Bool(boolean) => Some(u8::from(*boolean).into()),
        Json::Number(number) => Some(number.clone()),
        _ => None,
    }
}

/// `type(like)(value)`, where the two differ in type.
///
/// # Errors
/// Python stops here.
pub fn cast(value: &Json, like: &Json) -> Result<Json, String> {
    let fault = || format!("{} cannot be compared with {}", repr(value), repr(like));
    let numbers = number(value);
    Ok(match like {
        Json::String(_) => Json::String(str(value)),
        Json::Bool(_) => Json::Bool(is_true(value)),
        Json::Number(like) if like.is_f64() => {
            let float = match value {
                Json::String(text) => strip(text).parse().ok(),
                _ => numbers.and_then(|number| number.as_f64()),
            };
            Json::from(float.ok_or_else(fault)?)
        }
        Json::Number(_) => {
            let integer = match (value, numbers) {
                (Json::String(text), _) => strip(text).parse().ok(),
                (_, Some(number)) => number.as_i64().or_else(|| truncated(number.as_f64()?)),
                _ => None,
            };
            Json::from(integer.ok_or_else(fault)?)
        }
        Json::Null if value.is_null() => Json::Null,
        _ => return Err(fault()),
    })
}

/// `int(number)`, within the integers that a float holds exactly.
fn truncated(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.abs() <= EXACT).then_some(number.trunc() as i64)
}

/// `bool(value)`.
fn is_true(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(boolean) => *boolean,
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(values) => !values.is_empty(),
        Json::Object(map) => !map.is_empty(),
    }
}

/// What stands between braces.
enum Braces {
    Set(Vec<Json>),
    Map(Vec<(Json, Json)>),
}

struct Literal<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Literal<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn fault(&self) -> String {
        format!("is no Python literal at byte {}", self.at)
    }

    fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let spaces = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']).len();
            self.at += spaces;
            if self.peek() != Some('#') {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    fn bare_tuple(&mut self, first: Json) -> Result<Json, String> {
        let mut values = vec![first];
        while self.eat(",") {
            self.skip_space();
            if self.rest().is_empty() {
                break;
            }
            values.push(self.value()?);
            self.skip_space();
        }
        if self.rest().is_empty() {
            Ok(Json::Array(values))
        } else {
            Err(self.fault())
        }
    }

    fn value(&mut self) -> Result<Json, String> {
        self.skip_space();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("is nested deeper than {MAX_DEPTH}"));
        }
        let value = match self.peek() {
            Some('[') => self.list(']'),
            Some('(') => self.parenthesis(),
            Some('{') => self.braces().map(|braces| match braces {
                Braces::Set(values) => Json::Array(values),
                Braces::Map(entries) => {
                    let named = entries.into_iter().map(|(key, value)| (str(&key), value));
                    Json::Object(named.collect())
                }
            }),
            Some('\'' | '"') => self.texts(),
            Some(letter) if letter.is_ascii_alphabetic() => self.word(),
            Some(letter) if letter.is_ascii_digit() || "+-.".contains(letter) => self.number(),
            _ => Err(self.fault()),
        };
        self.depth -= 1;
        value
    }

    fn list(&mut self, end: char) -> Result<Json, String> {
        self.at += 1;
        Ok(Json::Array(self.elements(end)?.0))
    }

    /// Elements up to the closing sign, and whether a comma stood among them.
    fn elements(&mut self, end: char) -> Result<(Vec<Json>, bool), String> {
        let mut values = Vec::new();
        let mut commas = false;
        loop {
            self.skip_space();
            if self.peek() == Some(end) {
                self.at += 1;
                return Ok((values, commas));
            }
            values.push(self.value()?);
            self.skip_space();
            if self.eat(",") {
                commas = true;
            } else if self.peek() != Some(end) {
                return Err(self.fault());
            }
        }
    }

    fn parenthesis(&mut self) -> Result<Json, String> {
        self.at += 1;
        let (mut values, commas) = self.elements(')')?;
        match values.pop() {
            Some(only) if values.is_empty() && !commas => Ok(only),
            last => {
                values.extend(last);
                Ok(Json::Array(values))
            }
        }
    }

    fn braces(&mut self) -> Result<Braces, String> {
        self.at += 1;
        self.skip_space();
        if self.eat("}") {
            return Ok(Braces::Map(Vec::new()));
        }
        let first = self.value()?;
        self.skip_space();
        if self.peek() != Some(':') {
            let mut values = vec![first];
            if self.eat(",") {
                values.extend(self.elements('}')?.0);
            } else if !self.eat("}") {
                return Err(self.fault());
            }
            return Ok(Braces::Set(values));
        }
        let mut entries = Vec::new();
        let mut key = first;
        loop {
            if !self.eat(":") {
                return Err(self.fault());
            }
            entries.push((key, self.value()?));
            self.skip_space();
            let more = self.eat(",");
            self.skip_space();
            if self.eat("}") {
                return Ok(Braces::Map(entries));
            }
            if !more {
                return Err(self.fault());
            }
            key = self.value()?;
            self.skip_space();
        }
    }

    fn word(&mut self) -> Result<Json, String> {
        for (word, value) in [
            ("True", Json::Bool(true)),
            ("False", Json::Bool(false)),
            ("None", Json::Null),
        ] {
            if self.eat(word) {
                return Ok(value);
            }
        }
        self.texts()
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        let is_negative = match self.peek() {
            Some('-') => {
                self.at += 1;
                true
            }
            Some('+') => {
                self.at += 1;
                false
            }
            _ => false,
        };
        self.skip_space();
        let rest = self.rest();
        let mut length = 0;
        let mut previous = ' ';
        for letter in rest.chars() {
            let goes_on = letter.is_ascii_alphanumeric() || letter == '.' || letter == '_';
            let is_exponent_sign = (letter == '+' || letter == '-') && previous.eq_ignore_ascii_case(&'e');
            if !goes_on && (!is_exponent_sign || rest.starts_with("0x")) {
                break;
            }
            length += letter.len_utf8();
            previous = letter;
        }
        let digits = rest[..length].replace('_', "");
        self.at += length;
        let fault = || format!("is no Python literal at byte {start}");
        let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty();
        if is_integer {
            let leads_with_zero = digits.starts_with('0') && digits.bytes().any(|byte| byte != b'0');
            if leads_with_zero {
                return Err(fault());
            }
            let number: i64 = digits.parse().map_err(|_| fault())?;
            return Ok(Json::from(if is_negative { -number } else { number }));
        }
        if let Some(hexadecimal) = digits.strip_prefix("0x") {
            let number = i64::from_str_radix(hexadecimal, 16).map_err(|_| fault())?;
            return Ok(Json::from(if is_negative { -number } else { number }));
        }
        let looks_like_float = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let number: f64 = looks_like_float
            .then(|| digits.parse().ok())
            .flatten()
            .ok_or_else(fault)?;
        let number = Number::from_f64(if is_negative { -number } else { number });
        number.map(Json::Number).ok_or_else(fault)
    }

    /// One text or several that stand side by side.
    fn texts(&mut self) -> Result<Json, String> {
        let mut whole = String::new();
        let mut any = false;
        loop {
            let before = self.at;
            let Some(text) = self.one_text()? else {
                self.at = before;
                return if any {
                    Ok(Json::String(whole))
                } else {
                    Err(self.fault())
                };
            };
            whole.push_str(&text);
            any = true;
            self.skip_space();
        }
    }

    fn one_text(&mut self) -> Result<Option<String>, String> {
        let mut is_raw = false;
        while let Some(letter) = self.peek() {
            match letter {
                'r' | 'R' => is_raw = true,
                'u' | 'U' => {}
                _ => break,
            }
            self.at += 1;
        }
        let quote = match self.peek() {
            Some(quote @ ('\'' | '"')) => quote,
            _ => return Ok(None),
        };
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        let end = if self.eat(&triple) {
            triple
        } else {
            self.at += 1;
            quote.to_string()
        };
        let mut text = String::new();
        loop {
            if self.eat(&end) {
                return Ok(Some(text));
            }
            let Some(letter) = self.peek() else {
                return Err(self.fault());
            };
            if letter == '\n' && end.len() == 1 {
                return Err(self.fault());
            }
            self.at += letter.len_utf8();
            if letter != '\\' {
                text.push(letter);
            } else if is_raw {
                text.push('\\');
                if let Some(next) = self.peek() {
                    self.at += next.len_utf8();
                    text.push(next);
                }
            } else {
                self.escape(&mut text)?;
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), String> {
        let Some(letter) = self.peek() else {
            return Err(self.fault());
        };
        self.at += letter.len_utf8();
        match letter {
            '\n' => {}
            '\\' | '\'' | '"' => text.push(letter),
            'a' => text.push('\u{7}'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'v' => text.push('\u{b}'),
            'x' => self.code(text, 2)?,
            'u' => self.code(text, 4)?,
            'U' => self.code(text, 8)?,
            '0'..='7' => {
                let digits = 1 + self
                    .rest()
                    .bytes()
                    .take(2)
                    .take_while(|byte| (b'0'..=b'7').contains(byte))
                    .count();
                let octal = &self.text[self.at - 1..self.at - 1 + digits];
                let code = u32::from_str_radix(octal, 8).unwrap_or(0);
                self.at += digits - 1;
                text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            'N' => return Err(self.fault()),
            other => {
                text.push('\\');
                text.push(other);
            }
        }
        Ok(())
    }

    fn code(&mut self, text: &mut String, digits: usize) -> Result<(), String> {
        let code = self
            .rest()
            .get(..digits)
            .and_then(|code| u32::from_str_radix(code, 16).ok());
        let letter = code.and_then(char::from_u32).ok_or_else(|| self.fault())?;
        self.at += digits;
        text.push(letter);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_in_python() {
        let value = json!({"a": [1, 2.0, null, true, "it's", "say \"it's\"", "line\nend\u{200b}\u{e9}"], "b": {}});
        let expected = r#"{'a': [1, 2.0, None, True, "it's", 'say "it\'s"', 'line\nend\u200bé'], 'b': {}}"#;
        assert_eq!(repr(&value), expected);
        assert_eq!(str(&json!("it's")), "it's");
        let floats = [1e16, 1e-5, 0.0001, 123_456_789.125, 0.1, -0.0, 5e-324, 1e22];
        let shown = floats.map(float_repr);
        assert_eq!(
            shown,
            [
                "1e+16",
                "1e-05",
                "0.0001",
                "123456789.125",
                "0.1",
                "-0.0",
                "5e-324",
                "1e+22"
            ]
        );
    }

    #[test]
    fn literals_are_read_as_python_reads_them() {
        let read = |text| literal(text);
        assert_eq!(
            read(r#"['a', "b's", r'\n', 'c\n\x41\u00e9' 'd', (1,), (2), {'k': -1.5}, {1, 2}, None]"#).unwrap(),
            json!(["a", "b's", "\\n", "c\nAéd", [1], 2, {"k": -1.5}, [1, 2], null])
        );
        assert_eq!(read("1, 'x',").unwrap(), json!([1, "x"]));
        assert_eq!(read("[\n 'a', # one\n 'b',\n]").unwrap(), json!(["a", "b"]));
        assert_eq!(read("00").unwrap(), json!(0));
        for wrong in ["007", "[1 2]", "[a]", "f(1)", "'open", "", "[1, 2", "1 +"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn a_printed_value_reads_back() {
        let value = json!(["a'b\"c", "\\", "\t\u{0}", 1, 2.5, [null, false]]);
        assert_eq!(literal(&repr(&value)).unwrap(), value);
    }

    #[test]
    fn white_space_is_pythons() {
        assert_eq!(strip("\u{1f} \u{a0}a b\u{3000}\n"), "a b");
        assert!(is_punctuation('«') && is_punctuation('_') && !is_punctuation('+'));
    }
}
