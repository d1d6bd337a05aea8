//! JSON Lines: an object a line. Lines of white space are passed over.

use std::collections::HashSet;
use std::fmt;
use std::io::{BufRead, Read as _};

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::{MAX_ROW_BYTES, Row, RowError, exact, too_long};

/// Reads line by line; a broken line is an error and the next one is tried.
pub(super) struct Lines {
    reader: Box<dyn BufRead>,
    buffer: Vec<u8>,
    number: u64,
    ended: bool,
}

impl Lines {
    pub(super) fn new(reader: Box<dyn BufRead>) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            number: 0,
            ended: false,
        }
    }
}

impl Iterator for Lines {
    type Item = Result<Row, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            self.buffer.clear();
            self.number += 1;
            let mut bounded = self.reader.by_ref().take(MAX_ROW_BYTES + 1);
            match bounded.read_until(b'\n', &mut self.buffer) {
                Ok(0) => self.ended = true,
                Ok(read) if read as u64 > MAX_ROW_BYTES => {
                    self.ended = true;
                    return Some(Err(RowError::at(
                        self.number,
                        too_long("does the file have line breaks?"),
                    )));
                }
                Ok(_) => {
                    let line = self.buffer.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.number == 1);
                    let line = line.unwrap_or(&self.buffer).trim_ascii();
                    if !line.is_empty() {
                        return Some(row(self.number, line));
                    }
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(RowError::at(self.number, format!("cannot be read: {error}"))));
                }
            }
        }
        None
    }
}

fn row(number: u64, line: &[u8]) -> Result<Row, RowError> {
    let text = std::str::from_utf8(line)
        .map_err(|error| RowError::at(number, format!("invalid UTF-8 after byte {}", error.valid_up_to())))?;
    let text = &*exact(text).map_err(|message| RowError::at(number, message))?;
    match serde_json::from_str(text) {
        Ok(Value::Object(columns)) => match twice(text) {
            Some(name) => Err(RowError::at(number, format!("names column {name:?} twice"))),
            None => Ok(Row {
                number,
                columns,
                unread: Vec::new(),
            }),
        },
        Ok(other) => Err(RowError::at(number, format!("is {}, not an object", kind(&other)))),
        Err(error) => {
            let text = error.to_string();
            let message = text
                .rsplit_once(" at line ")
                .map_or(text.as_str(), |(message, _)| message);
            let column = error.column();
            Err(RowError::at(
                number,
                format!("broken JSON at column {column}: {message}"),
            ))
        }
    }
}

/// The first key that an object holds a second time: of its two values nobody knows which one is meant.
fn twice(object: &str) -> Option<String> {
    struct Keys;
    impl<'de> Visitor<'de> for Keys {
        type Value = Option<String>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut seen, mut twice) = (HashSet::new(), None);
            while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                if !seen.contains(&key) {
                    seen.insert(key);
                } else if twice.is_none() {
                    twice = Some(key);
                }
            }
            Ok(twice)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(object);
    reader.deserialize_map(Keys).ok().flatten()
}

/// A value's kind, as messages name it.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
