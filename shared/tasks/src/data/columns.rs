//! Parquet, through its record interface. Lists, groups and maps become JSON lists and objects.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::Compression;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::Field;
use parquet::record::reader::RowIter;
use serde_json::{Map, Number, Value};
use tidemill_domain::counted;

use super::moments::Clocks;
use super::{Row, RowError, Rows};

/// In which form values come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Moments with their zone, single-precision numbers by their shortest decimal, bytes that are UTF-8 as text.
    Own,
    /// As `datasets` gives them to Python; bytes are left out.
    Python,
}

/// Reads row by row. What the file holds beyond one broken row cannot be told, so the first error is the last.
pub(super) fn rows(file: File, form: Form) -> Result<Rows, RowError> {
    let opened = guarded(|| {
        let reader = SerializedFileReader::new(file)?;
        let total = reader.metadata().file_metadata().num_rows().unsigned_abs();
        let packed = packed_otherwise(reader.metadata());
        let clocks = match form {
            Form::Own => None,
            Form::Python => Some(Clocks::of(reader.metadata().file_metadata().schema_descr())),
        };
        Ok(((total, packed, clocks), RowIter::from_file_into(Box::new(reader))))
    });
    let ((total, packed, clocks), mut records) = opened.map_err(RowError::whole)?;
    if let Some(message) = packed {
        return Err(RowError::whole(message));
    }
    let mut ended = false;
    let rows = (1..).map_while(move |number| {
        if ended {
            return None;
        }
        let row = match guarded(|| records.next().transpose()) {
            Ok(None) if number > total => return None,
            Ok(None) => Err(RowError::at(
                number,
                format!("is missing: the file announces {}", counted(total, "row")),
            )),
            Ok(Some(record)) => row(record, number, clocks.as_ref()),
            Err(message) => Err(RowError::at(number, message)),
        };
        ended = row.is_err();
        Some(row)
    });
    Ok(Box::new(rows))
}

/// Turns a panic into an error: the library asserts what a damaged file may break. After one nothing more is read.
fn guarded<T>(read: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the file is damaged".to_owned()),
    }
}

/// Says of the first column in a compression that is not read here.
fn packed_otherwise(metadata: &ParquetMetaData) -> Option<String> {
    let mut columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let is_read = |packing| {
        matches!(
            packing,
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_)
        )
    };
    let column = columns.find(|column| !is_read(column.compression()))?;
    let packing = column.compression().to_string();
    let packing = packing.split('(').next().unwrap_or_default();
    Some(format!(
        "column {} is compressed by {packing}, which is not read here; write the file with zstd, snappy or no compression",
        column.column_path().string()
    ))
}

fn row(record: parquet::record::Row, number: u64, clocks: Option<&Clocks>) -> Result<Row, RowError> {
    let fields = record.into_columns();
    let unread = fields.iter().filter(|(_, field)| holds_bytes(field, clocks.is_some()));
    let unread = unread.map(|(name, _)| name.clone()).collect();
    let columns = object(&fields, None, clocks).map_err(|message| RowError::at(number, message))?;
    Ok(Row {
        number,
        columns,
        unread,
    })
}

/// The fields of a row, or of a part of a column, which is named then.
fn object(
    fields: &[(String, Field)],
    column: Option<&str>,
    clocks: Option<&Clocks>,
) -> Result<Map<String, Value>, String> {
    let mut columns = Map::new();
    for (index, (name, field)) in fields.iter().enumerate() {
        if fields.iter().take(index).any(|(known, _)| known == name) {
            return Err(format!("names column {name:?} twice"));
        }
        // What is no text, a picture for one, is left out: a template that uses it is told so.
        if !holds_bytes(field, clocks.is_some()) {
            let place = (column.unwrap_or(name), name.as_str());
            let value = value(field, place, clocks).map_err(|message| format!("column {name}: {message}"))?;
            columns.insert(name.clone(), value);
        }
    }
    Ok(columns)
}

/// `place` is the column, and the part of it that the field is.
fn value(field: &Field, place: (&str, &str), clocks: Option<&Clocks>) -> Result<Value, String> {
    if let Some(clocks) = clocks
        && let Some(value) = clocks.value(field, place)?
    {
        return Ok(value);
    }
    match field {
        // The shortest decimal of a single-precision number, not the digits of its widening.
        Field::Float(number) => finite(number.to_string().parse().unwrap_or(f64::NAN)),
        Field::Double(number) => finite(*number),
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => Ok(Value::String(text.to_owned())),
            Err(_) => Err("holds bytes that are not UTF-8".to_owned()),
        },
        Field::Group(row) => {
            let fields = row.get_column_iter().map(|(name, field)| (name.clone(), field.clone()));
            object(&fields.collect::<Vec<_>>(), Some(place.0), clocks).map(Value::Object)
        }
        Field::ListInternal(list) => list
            .elements()
            .iter()
            .map(|element| value(element, place, clocks))
            .collect(),
        Field::MapInternal(map) => {
            let entries = map
                .entries()
                .iter()
                .map(|(key, field)| Ok((key_text(key, place, clocks)?, value(field, place, clocks)?)));
            entries.collect::<Result<Map<_, _>, String>>().map(Value::Object)
        }
        plain => Ok(plain.to_json_value()),
    }
}

/// Bytes that are no text, or any that the file does not call text, or a list or map of such.
fn holds_bytes(field: &Field, any: bool) -> bool {
    match field {
        Field::Bytes(bytes) => any || std::str::from_utf8(bytes.data()).is_err(),
        Field::ListInternal(list) => list.elements().iter().any(|element| holds_bytes(element, any)),
        Field::MapInternal(map) => map
            .entries()
            .iter()
            .any(|(key, field)| holds_bytes(key, any) || holds_bytes(field, any)),
        _ => false,
    }
}

pub(super) fn finite(number: f64) -> Result<Value, String> {
    let number = Number::from_f64(number).ok_or_else(|| "holds a number that is not finite".to_owned())?;
    Ok(Value::Number(number))
}

fn key_text(key: &Field, place: (&str, &str), clocks: Option<&Clocks>) -> Result<String, String> {
    match value(key, place, clocks)? {
        Value::String(text) => Ok(text),
        other => Ok(other.to_string()),
    }
}
