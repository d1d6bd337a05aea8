//! JSON in an answer: where it is, whether it fits a schema, and whether it says the same as another.

use std::ops::Range;

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

use crate::Error;
use crate::python::beginning;

/// How many bytes of a text are read again because a value began and was none.
const MAX_READ_BYTES: usize = 64 << 20;
/// How many of a value's faults are told.
const MAX_FAULTS: usize = 3;
/// How much of a fault is told, in bytes.
const MAX_FAULT_BYTES: usize = 200;

/// A value that was found in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Where it is, in bytes.
    pub span: Range<usize>,
    /// The value.
    pub value: Value,
}

/// The JSON that a text is, or else that of its last fenced block that holds some, or else the last object or list in it.
///
/// `None` where nothing parses, or what does is nested deeper than 128.
#[must_use]
pub fn find_json(text: &str) -> Option<Found> {
    let whole = parsed(text, 0..text.len());
    whole.or_else(|| fenced(text)).or_else(|| embedded(text))
}

fn parsed(text: &str, range: Range<usize>) -> Option<Found> {
    let part = text.get(range.clone())?;
    let bare = part.trim();
    let start = range.start + (part.len() - part.trim_start().len());
    let value = serde_json::from_str(bare).ok()?;
    Some(Found {
        span: start..start + bare.len(),
        value,
    })
}

/// Blocks between lines that begin with three backquotes or tildes.
fn fenced(text: &str) -> Option<Found> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| line.trim_start().starts_with(mark));
        match (open, mark) {
            (None, Some(mark)) => open = Some((mark, end)),
            (Some((opened, start)), Some(mark)) if opened == mark => {
                blocks.push(start..at);
                open = None;
            }
            _ => {}
        }
        at = end;
    }
    // What ends with the text may have been cut, and then does not parse.
    blocks.extend(open.map(|(_, start)| start..text.len()));
    blocks.into_iter().rev().find_map(|block| parsed(text, block))
}

/// Values that are not part of others, from left to right; the last of them.
fn embedded(text: &str) -> Option<Found> {
    let mut last = None;
    let mut at = 0;
    let mut read = 0;
    while let Some(start) = text
        .get(at..)
        .and_then(|rest| rest.find(['{', '[']))
        .map(|start| at + start)
    {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        if let Some(Ok(value)) = values.next() {
            at = start + values.byte_offset();
            last = Some(Found { span: start..at, value });
        } else {
            at = start + 1;
            read += text.len() - start;
            if read > MAX_READ_BYTES {
                break;
            }
        }
    }
    last
}

/// A schema, ready for any number of values. It is not looked up anywhere: references lead within it.
#[derive(Debug, Clone)]
pub struct Schema {
    validator: Validator,
}

impl Schema {
    /// Compiles a schema of any draft from 4 to 2020-12.
    ///
    /// # Errors
    /// It is no schema, refers to another document, or holds a pattern that is not of linear time.
    pub fn try_new(schema: &Value) -> Result<Self, Error> {
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        let validator = options.build(schema).map_err(|error| Error::Schema {
            reason: shortened(&error.to_string()),
        })?;
        Ok(Self { validator })
    }

    /// The first faults of a value, each with its place; `None` when it fits.
    #[must_use]
    pub fn faults(&self, value: &Value) -> Option<String> {
        let mut faults = self.validator.iter_errors(value).map(|fault| {
            let place = fault.instance_path().to_string();
            let place = if place.is_empty() { "the value" } else { &place };
            format!("{place}: {}", shortened(&fault.to_string()))
        });
        let told: Vec<String> = faults.by_ref().take(MAX_FAULTS).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= MAX_FAULT_BYTES {
        return text.to_owned();
    }
    format!("{}…", beginning(text, MAX_FAULT_BYTES))
}

/// Two JSON texts say the same value: numbers to the last digit, lists in order, maps in any.
#[must_use]
pub fn same_json(one: &str, other: &str) -> bool {
    let exact = |text: &str| serde_json::from_str::<Value>(&with_exact_numbers(text)).ok();
    exact(one).is_some_and(|value| Some(value) == exact(other))
}

/// One text for every JSON text of the same value: no white space, keys in order, numbers to the last digit and those without
/// decimals as integers (`1.0` is `1`).
///
/// `None` where the text is no JSON.
#[must_use]
pub fn canonical_json(text: &str) -> Option<String> {
    let value = serde_json::from_str(&with_exact_numbers(text)).ok()?;
    let mut written = String::new();
    write_canonical(&value, &mut written);
    Some(written)
}

/// The key of a map that stands for a number; nobody uses it.
const NUMBER: &str = "\0";

fn write_canonical(value: &Value, written: &mut String) {
    match value {
        Value::Object(map) => match map.get(NUMBER).and_then(Value::as_str) {
            Some(number) if map.len() == 1 => written.push_str(&positional(number)),
            _ => write_map(map, written),
        },
        Value::Array(values) => {
            written.push('[');
            for (index, value) in values.iter().enumerate() {
                written.push_str(if index == 0 { "" } else { "," });
                write_canonical(value, written);
            }
            written.push(']');
        }
        other => written.push_str(&other.to_string()),
    }
}

fn write_map(map: &Map<String, Value>, written: &mut String) {
    let mut entries: Vec<(&String, &Value)> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    written.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        written.push_str(if index == 0 { "" } else { "," });
        written.push_str(&Value::from(key.as_str()).to_string());
        written.push(':');
        write_canonical(value, written);
    }
    written.push('}');
}

/// More zeros than this stay a power of ten.
const MOST_ZEROS: usize = 64;

/// A number of [`decimal`] as people write it.
fn positional(number: &str) -> String {
    let short = |power: &i64| usize::try_from(power.abs()).is_ok_and(|zeros| zeros <= MOST_ZEROS);
    let split = number.split_once('e');
    let Some((digits, power)) = split.and_then(|(digits, power)| Some((digits, power.parse().ok().filter(short)?)))
    else {
        return number.to_owned();
    };
    let (sign, digits) = digits
        .strip_prefix('-')
        .map_or(("", digits), |positive| ("-", positive));
    let shift = usize::try_from(power.unsigned_abs()).unwrap_or_default();
    if power >= 0 {
        return format!("{sign}{digits}{}", "0".repeat(shift));
    }
    let padded = format!("{}{digits}", "0".repeat((shift + 1).saturating_sub(digits.len())));
    let (whole, decimals) = padded.split_at(padded.len() - shift);
    format!("{sign}{whole}.{decimals}")
}

/// Each number of a JSON text as a map of one key that nobody uses, to its digits: no float stands between.
fn with_exact_numbers(text: &str) -> String {
    let mut exact = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '-' | '0'..='9' => {
                let is_part = |letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter);
                let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
                exact.push_str(r#"{"\u0000":""#);
                exact.push_str(&decimal(&rest[..length]));
                exact.push_str("\"}");
                rest = &rest[length..];
                continue;
            }
            _ => first.len_utf8(),
        };
        exact.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    exact
}

fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Digits without zeros at either end, and the power of ten they are taken by.
fn decimal(number: &str) -> String {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (sign, mantissa) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |positive| ("-", positive));
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{decimals}");
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len() - significant.len();
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return "0".to_owned();
    }
    let lengths = i64::try_from(zeros).ok().zip(i64::try_from(decimals.len()).ok());
    let power = exponent.parse::<i64>().ok().zip(lengths);
    match power.and_then(|(exponent, (zeros, decimals))| exponent.checked_add(zeros)?.checked_sub(decimals)) {
        Some(power) => format!("{sign}{significant}e{power}"),
        None => number.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(text: &str) -> Option<Value> {
        let found = find_json(text)?;
        assert_eq!(serde_json::from_str::<Value>(&text[found.span]).unwrap(), found.value);
        Some(found.value)
    }

    #[test]
    fn json_is_found_alone_in_fences_and_in_text() {
        assert_eq!(found(" [1] "), Some(json!([1])));
        assert_eq!(
            found("```json\n{\"a\": 1}\n```\nor\n```\n{\"a\": 2}\n```\n"),
            Some(json!({"a": 2}))
        );
        assert_eq!(
            found("It is {\"a\": [1]}, no: {\"a\": [2]}. }"),
            Some(json!({"a": [2]}))
        );
        assert_eq!(found("~~~\n{\"a\":\n```\n~~~ {\"b\": 3}"), Some(json!({"b": 3})));
        assert_eq!(found("{\"a\": 1"), None);
        assert_eq!(found("{ [ ] "), Some(json!([])));
        assert_eq!(found("42"), Some(json!(42)));
        assert_eq!(found("the answer is 42"), None);
        assert_eq!(found(&"[".repeat(1_000_000)), None);
    }

    #[test]
    fn a_schema_tells_what_does_not_fit_and_where() {
        let schema = Schema::try_new(&json!({
            "type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}, "b": {"pattern": "^(x+x+)+y$"}}
        }));
        let schema = schema.unwrap();
        assert_eq!(schema.faults(&json!({"a": 1})), None);
        let faults = schema.faults(&json!({"a": "1"})).unwrap();
        assert!(faults.starts_with("/a: "), "{faults}");
        assert!(schema.faults(&json!({"a": 1, "b": "x".repeat(10_000)})).is_some());
        assert!(schema.faults(&json!({})).unwrap().starts_with("the value: "));
    }

    #[test]
    fn a_schema_takes_a_number_without_decimals_for_an_integer_and_tells_neighbours_apart() {
        let fits = |schema: Value, text: &str| {
            let value = serde_json::from_str(text).unwrap();
            Schema::try_new(&schema).unwrap().faults(&value).is_none()
        };
        assert!(fits(json!({"type": "integer"}), "1.0") && !fits(json!({"type": "integer"}), "1.5"));
        assert!(fits(json!({"const": 1}), "1.0") && fits(json!({"enum": [1.0]}), "1"));
        assert!(!fits(json!({"uniqueItems": true}), "[1, 1.0]"));
        let great = 9_007_199_254_740_993_u64;
        assert!(
            fits(json!({"const": great}), "9007199254740993") && fits(json!({"type": "integer"}), "9007199254740993")
        );
        assert!(
            !fits(json!({"const": great}), "9007199254740992")
                && !fits(json!({"maximum": great - 1}), "9007199254740993")
        );
        assert!(fits(
            json!({"uniqueItems": true}),
            "[9007199254740993, 9007199254740992]"
        ));
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        let refused = |schema| Schema::try_new(&schema).is_err();
        assert!(refused(json!({"type": "number of apples"})));
        assert!(refused(json!({"$ref": "https://example.org/schema.json"})));
        assert!(refused(json!({"pattern": "(?=a)b"})));
    }

    #[test]
    fn the_same_value_is_written_in_many_ways() {
        assert!(same_json(r#"{"a": 1.0, "b": [2]}"#, r#"{"b": [2], "a": 1}"#));
        assert!(!same_json("[1, 2]", "[2, 1]"));
        assert!(!same_json(r#"{"a": 1}"#, r#"{"a": 1, "b": null}"#));
        assert!(!same_json("\"1\"", "1"));
        assert!(same_json(r#"["1\"2"]"#, r#"["1\u00222"]"#));
        assert!(!same_json(r#"["1.0"]"#, r#"["1"]"#));
    }

    #[test]
    fn texts_of_one_value_have_one_canonical_text_and_others_have_others() {
        let canonical = |text| canonical_json(text).unwrap();
        for (text, expected) in [
            ("9007199254740993", "9007199254740993"),
            ("9007199254740992.0", "9007199254740992"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("[1.0, 1, 1e0, -2.50, -0.0, 0.007]", "[1,1,1,-2.5,0,0.007]"),
            ("1e400", "1e400"),
            ("1e-400", "1e-400"),
            (
                r#"{"b": 1.0, "a": {"d": "1.0", "c": null}}"#,
                r#"{"a":{"c":null,"d":"1.0"},"b":1}"#,
            ),
            (r#""\u0041\"\n""#, r#""A\"\n""#),
            ("[]", "[]"),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
            assert!(same_json(text, &canonical(text)), "{text}");
        }
        assert_eq!(canonical_json("{"), None);
    }

    #[test]
    fn numbers_are_the_same_to_the_last_digit() {
        assert!(!same_json("12345678901234567890", "12345678901234567891"));
        assert!(!same_json(
            "[123456789012345678901234567890]",
            "[123456789012345678901234567891]"
        ));
        assert!(!same_json("0.1", "0.10000000000000001"));
        assert!(same_json("[1e2, -0.0, 1.50, -2]", "[100, 0, 15E-1, -2.0]"));
        assert!(!same_json("1", "-1"));
    }
}
