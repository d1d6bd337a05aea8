//! Values of templates as Python prints them, and as `tojson` and `e` of Jinja write them.
//!
//! Integers are exact, tuples keep their parentheses and keys of mappings their kind, none of which JSON has a place for.

use std::fmt::Write as _;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};
use serde_json::Value as Json;

use super::views::{self, View};
use crate::python;

/// `str(value)`; nothing of what an `if` without `else` gave.
pub(super) fn str(value: &Value) -> String {
    match (value.as_str(), value.is_undefined()) {
        (Some(text), _) => text.to_owned(),
        (None, true) => String::new(),
        (None, false) => repr(value),
    }
}

/// `repr(value)`.
fn repr(value: &Value) -> String {
    if let Some(view) = value.downcast_object_ref::<View>() {
        return view.shown(repr);
    }
    match value.kind() {
        ValueKind::Undefined => "Undefined".to_owned(),
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool if value.is_true() => "True".to_owned(),
        ValueKind::Bool => "False".to_owned(),
        ValueKind::Number => number(value),
        ValueKind::String => python::repr(&Json::String(value.as_str().unwrap_or_default().to_owned())),
        ValueKind::Seq | ValueKind::Iterable => sequence(value),
        ValueKind::Map => format!("{{{}}}", joined(pairs(value).map(|(key, value)| entry(&key, &value)))),
        _ => value.to_string(),
    }
}

fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() => python::float_repr(float),
        _ => value.to_string(),
    }
}

fn sequence(value: &Value) -> String {
    let elements = elements(value);
    let inner = joined(elements.iter().map(repr));
    match (value.is_tuple() || is_group(value), elements.len()) {
        (true, 1) => format!("({inner},)"),
        (true, _) => format!("({inner})"),
        (false, _) => format!("[{inner}]"),
    }
}

/// Whether it is a pair of what `groupby` gives, which is a tuple in Python.
fn is_group(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|object| object.type_name().ends_with("GroupTuple"))
}

fn entry(key: &Value, value: &Value) -> String {
    format!("{}: {}", repr(key), repr(value))
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn elements(value: &Value) -> Vec<Value> {
    value.try_iter().map(Iterator::collect).unwrap_or_default()
}

fn pairs(map: &Value) -> impl Iterator<Item = (Value, Value)> {
    elements(map).into_iter().map(|key| {
        let value = map.get_item(&key).unwrap_or_default();
        (key, value)
    })
}

/// The filter `e`; what is a part of HTML already stays.
pub(super) fn escape(value: &Value) -> Value {
    if value.is_safe() {
        return value.clone();
    }
    let text = str(value);
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&#39;"),
            '"' => escaped.push_str("&#34;"),
            letter => escaped.push(letter),
        }
    }
    Value::from_safe_string(escaped)
}

/// The filter `tojson`: `json.dumps` with sorted keys, in ASCII, and without the signs of HTML.
///
/// # Errors
/// The value is none that JSON has.
pub(super) fn tojson(value: &Value, indent: Option<usize>) -> Result<Value, Error> {
    let mut out = String::new();
    dump(&mut out, value, indent, 0)?;
    let safe = out
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\'', "\\u0027");
    Ok(Value::from_safe_string(safe))
}

fn dump(out: &mut String, value: &Value, indent: Option<usize>, depth: usize) -> Result<(), Error> {
    let is_view = views::is_view(value);
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&json_number(value)),
        ValueKind::String => dump_text(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable if !is_view => {
            let elements = elements(value);
            dump_all(out, ('[', ']'), &elements, (indent, depth), |out, element| {
                dump(out, element, indent, depth + 1)
            })?;
        }
        ValueKind::Map => {
            let pairs = sorted(value)?;
            dump_all(out, ('{', '}'), &pairs, (indent, depth), |out, (key, value)| {
                dump_text(out, key);
                out.push_str(": ");
                dump(out, value, indent, depth + 1)
            })?;
        }
        _ => return Err(invalid(format!("{} is none that JSON has", repr(value)))),
    }
    Ok(())
}

fn dump_all<T>(
    out: &mut String,
    (open, close): (char, char),
    parts: &[T],
    (indent, depth): (Option<usize>, usize),
    mut one: impl FnMut(&mut String, &T) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |depth: usize| indent.map(|width| format!("\n{}", " ".repeat(width * depth)));
    out.push(open);
    for (at, part) in parts.iter().enumerate() {
        match line(depth + 1) {
            Some(line) => {
                out.push_str(if at > 0 { "," } else { "" });
                out.push_str(&line);
            }
            None => out.push_str(if at > 0 { ", " } else { "" }),
        }
        one(out, part)?;
    }
    if let Some(line) = line(depth).filter(|_| !parts.is_empty()) {
        out.push_str(&line);
    }
    out.push(close);
    Ok(())
}

/// A mapping's keys, as JSON has them, in the order of what they are in Python, which is none for keys of several kinds.
fn sorted(map: &Value) -> Result<Vec<(String, Value)>, Error> {
    let mut pairs: Vec<(Value, Value)> = pairs(map).collect();
    let is_text = |(key, _): &(Value, Value)| key.kind() == ValueKind::String;
    if pairs.iter().any(is_text) && !pairs.iter().all(is_text) {
        return Err(invalid(format!("{} has keys that cannot be sorted", repr(map))));
    }
    pairs.sort_by(|(left, _), (right, _)| left.cmp(right));
    let written = pairs.into_iter().map(|(key, value)| Ok((json_key(&key)?, value)));
    written.collect()
}

fn json_key(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::Number => Ok(json_number(key)),
        ValueKind::Bool => Ok(key.is_true().to_string()),
        ValueKind::None => Ok("null".to_owned()),
        _ => Err(invalid(format!("{} is no key of JSON", repr(key)))),
    }
}

fn json_number(value: &Value) -> String {
    match number(value).as_str() {
        "nan" => "NaN".to_owned(),
        "inf" => "Infinity".to_owned(),
        "-inf" => "-Infinity".to_owned(),
        digits => digits.to_owned(),
    }
}

fn dump_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(letter),
            letter => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    // Writing to a text does not fail.
                    write!(out, "\\u{unit:04x}").ok();
                }
            }
        }
    }
    out.push('"');
}

fn invalid(reason: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}
