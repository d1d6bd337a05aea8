//! CSV with a header; every value is a text.

use std::io::BufRead;

use csv::{ErrorKind, Reader, StringRecord};
use serde_json::Value;
use tidemill_domain::counted;

use super::quotes::{BrokenQuote, Quotes};
use super::{Row, RowError, Rows};

/// Reads the header and then row by row.
pub(super) fn rows(text: Box<dyn BufRead>) -> Result<Rows, RowError> {
    let mut reader = Reader::from_reader(Quotes::new(text));
    let names = header(&mut reader)?;
    Ok(Box::new(Records {
        reader,
        names,
        record: StringRecord::new(),
        ended: false,
    }))
}

struct Records {
    reader: Reader<Quotes>,
    names: Vec<String>,
    record: StringRecord,
    ended: bool,
}

impl Iterator for Records {
    type Item = Result<Row, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.reader.read_record(&mut self.record) {
            Ok(true) => {
                let number = self.reader.get_mut().next_record();
                Some(Ok(self.row(number.unwrap_or_default())))
            }
            Ok(false) => None,
            Err(error) => {
                self.ended = error.is_io_error();
                Some(Err(row_error(&error, self.reader.get_mut())))
            }
        }
    }
}

impl Records {
    fn row(&self, number: u64) -> Row {
        let values = self.record.iter().map(|value| Value::String(value.to_owned()));
        Row {
            number,
            columns: self.names.iter().cloned().zip(values).collect(),
            unread: Vec::new(),
        }
    }
}

fn header(reader: &mut Reader<Quotes>) -> Result<Vec<String>, RowError> {
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(error) => return Err(row_error(&error, reader.get_mut())),
    };
    let row = reader.get_mut().next_record().unwrap_or(1);
    let names: Vec<String> = header.iter().map(str::to_owned).collect();
    for (index, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(RowError::at(
                1,
                format!("column {} of the header has no name", index + 1),
            ));
        }
        if names[..index].contains(name) {
            return Err(RowError::at(row, format!("the header names column {name:?} twice")));
        }
    }
    Ok(names)
}

fn row_error(error: &csv::Error, quotes: &mut Quotes) -> RowError {
    let message = match error.kind() {
        ErrorKind::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<BrokenQuote>()) {
            Some(quote) => return RowError::at(quote.line(), quote.to_string()),
            None => error.to_string(),
        },
        ErrorKind::Utf8 { err, .. } => format!("invalid UTF-8 in column {}", err.field() + 1),
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("has {} where the header has {expected_len}", counted(*len, "value"))
        }
        _ => error.to_string(),
    };
    let row = quotes.next_record();
    RowError { row, message }
}
