//! The columns of an archive's files, written by `parquet`'s own column writer: Arrow's crates would be a large dependency
//! for one fixed schema. So lists and their levels are ours to get right, here.

use std::io::Write;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;
use tidemill_domain::Timestamp;

use crate::{Error, Row};

/// How often a column holds a value in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Required,
    Optional,
    /// Any number of times, none included.
    List,
}

/// What a column's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Bytes,
    Int32,
    Int64,
    Double,
    Flag,
    Time,
}

use Kind::{Bytes, Double, Flag, Int32, Int64, Text, Time};
use Shape::{List, Optional, Required};

/// Ordinals and messages, which programs read; the rest is for analysts.
pub(crate) const BENCHMARK_ORDINAL: &str = "benchmark_ordinal";
pub(crate) const ITEM_ORDINAL: &str = "item_ordinal";
pub(crate) const SAMPLE: &str = "sample";
pub(crate) const COMPLETION_MESSAGE: &str = "completion_message";
pub(crate) const GRADE_MESSAGE: &str = "grade_message";

/// Every column, in the files' order, which is that of [`Columns::push`]. New ones go to the end.
const COLUMNS: [(&str, Shape, Kind); 41] = [
    ("evaluation", Required, Text),
    ("run", Required, Text),
    ("step", Required, Int64),
    ("suite", Required, Text),
    ("benchmark", Required, Text),
    ("item", Required, Text),
    (SAMPLE, Required, Int32),
    ("prompt", Required, Text),
    ("completion", Optional, Text),
    ("reasoning", Optional, Text),
    ("choices", List, Text),
    ("choice_log_probabilities", List, Double),
    ("extracted", Optional, Text),
    ("target", List, Text),
    ("outcome", Required, Text),
    ("score", Optional, Double),
    ("score_before_cut", Optional, Double),
    ("grader", Optional, Text),
    ("reason", Optional, Text),
    ("ending", Optional, Text),
    ("finish_reason", Optional, Text),
    ("stop_reason", Optional, Text),
    ("truncated", Optional, Flag),
    ("prompt_tokens", Optional, Int64),
    ("completion_tokens", Optional, Int64),
    ("attempts", Optional, Int32),
    ("requests", Optional, Int32),
    ("cached", Optional, Flag),
    ("engine", Optional, Text),
    ("started", Optional, Time),
    ("finished", Optional, Time),
    ("graded", Optional, Time),
    ("seed", Required, Int64),
    ("temperature", Required, Double),
    ("max_tokens", Required, Int64),
    (BENCHMARK_ORDINAL, Required, Int32),
    (ITEM_ORDINAL, Required, Int32),
    (COMPLETION_MESSAGE, Optional, Bytes),
    (GRADE_MESSAGE, Optional, Bytes),
    ("truncated_in_reasoning", Optional, Flag),
    ("replaced_characters", Optional, Int64),
];

/// The files' schema.
pub(crate) fn schema() -> Result<TypePtr, Error> {
    let mut text = String::from("message items {\n");
    for (name, shape, kind) in COLUMNS {
        let (physical, logical) = match kind {
            Text => ("binary", " (STRING)"),
            Bytes => ("binary", ""),
            Int32 => ("int32", ""),
            Int64 => ("int64", ""),
            Double => ("double", ""),
            Flag => ("boolean", ""),
            Time => ("int64", " (TIMESTAMP(MICROS,true))"),
        };
        text.push_str(&match shape {
            Required => format!("required {physical} {name}{logical};\n"),
            Optional => format!("optional {physical} {name}{logical};\n"),
            List => format!(
                "required group {name} (LIST) {{ repeated group list {{ required {physical} element{logical}; }} }}\n"
            ),
        });
    }
    text.push('}');
    let schema = parse_message_type(&text).map_err(|error| Error::Encode(error.to_string()))?;
    Ok(schema.into())
}

enum Values {
    Bytes(Vec<ByteArray>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Flag(Vec<bool>),
}

struct Column {
    name: &'static str,
    shape: Shape,
    values: Values,
    /// One entry a value or gap: whether there is a value.
    definitions: Vec<i16>,
    /// One entry a value or gap: whether it belongs to the row of the one before.
    repetitions: Vec<i16>,
}

/// A value on its way into a column.
enum Value {
    Bytes(Vec<u8>),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Flag(bool),
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Bytes(text.into_bytes())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

impl From<Timestamp> for Value {
    fn from(time: Timestamp) -> Self {
        Self::Int64(time.0)
    }
}

/// Counts are kept as Parquet's signed integers; none of ours comes near the end of those.
fn long(count: u64) -> Value {
    Value::Int64(i64::try_from(count).unwrap_or(i64::MAX))
}

fn int(count: u32) -> Value {
    Value::Int32(i32::try_from(count).unwrap_or(i32::MAX))
}

impl Column {
    fn new(name: &'static str, shape: Shape, kind: Kind) -> Self {
        let values = match kind {
            Text | Bytes => Values::Bytes(Vec::new()),
            Int32 => Values::Int32(Vec::new()),
            Int64 | Time => Values::Int64(Vec::new()),
            Double => Values::Double(Vec::new()),
            Flag => Values::Flag(Vec::new()),
        };
        Self {
            name,
            shape,
            values,
            definitions: Vec::new(),
            repetitions: Vec::new(),
        }
    }

    /// Takes a row's values. Returns the bytes they take.
    fn push(&mut self, values: Vec<Value>) -> Result<usize, Error> {
        let is_fitting = match self.shape {
            Required => values.len() == 1,
            Optional => values.len() <= 1,
            List => true,
        };
        if !is_fitting {
            return Err(Error::Encode(format!(
                "column {} takes no {} values a row",
                self.name,
                values.len()
            )));
        }
        if values.is_empty() {
            self.definitions.push(0);
            self.repetitions.push(0);
        }
        let mut bytes = 0;
        for (index, value) in values.into_iter().enumerate() {
            self.definitions.push(1);
            self.repetitions.push(i16::from(index > 0));
            bytes += self.append(value)?;
        }
        Ok(bytes)
    }

    fn append(&mut self, value: Value) -> Result<usize, Error> {
        match (&mut self.values, value) {
            (Values::Bytes(values), Value::Bytes(value)) => {
                let bytes = value.len() + size_of::<ByteArray>();
                values.push(ByteArray::from(value));
                return Ok(bytes);
            }
            (Values::Int32(values), Value::Int32(value)) => values.push(value),
            (Values::Int64(values), Value::Int64(value)) => values.push(value),
            (Values::Double(values), Value::Double(value)) => values.push(value),
            (Values::Flag(values), Value::Flag(value)) => values.push(value),
            _ => {
                return Err(Error::Encode(format!(
                    "column {} holds values of another kind",
                    self.name
                )));
            }
        }
        Ok(size_of::<i64>())
    }

    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> parquet::errors::Result<usize> {
        let definitions = (self.shape != Required).then_some(self.definitions.as_slice());
        let repetitions = (self.shape == List).then_some(self.repetitions.as_slice());
        match &self.values {
            Values::Bytes(values) => writer
                .typed::<ByteArrayType>()
                .write_batch(values, definitions, repetitions),
            Values::Int32(values) => writer
                .typed::<Int32Type>()
                .write_batch(values, definitions, repetitions),
            Values::Int64(values) => writer
                .typed::<Int64Type>()
                .write_batch(values, definitions, repetitions),
            Values::Double(values) => writer
                .typed::<DoubleType>()
                .write_batch(values, definitions, repetitions),
            Values::Flag(values) => writer.typed::<BoolType>().write_batch(values, definitions, repetitions),
        }
    }
}

/// Rows gathered for one group of rows.
pub(crate) struct Columns {
    columns: Vec<Column>,
    pub(crate) rows: u64,
    pub(crate) bytes: usize,
}

impl Columns {
    pub(crate) fn new() -> Self {
        let columns = COLUMNS
            .iter()
            .map(|(name, shape, kind)| Column::new(name, *shape, *kind));
        Self {
            columns: columns.collect(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Takes a row.
    pub(crate) fn push(&mut self, row: &Row<'_>) -> Result<(), Error> {
        let values = values(row);
        if values.len() != self.columns.len() {
            return Err(Error::Encode(format!("a row has {} columns", values.len())));
        }
        for (column, values) in self.columns.iter_mut().zip(values) {
            self.bytes += column.push(values)?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Writes the rows as one group.
    pub(crate) fn write<W: Write + Send>(&self, writer: &mut SerializedFileWriter<W>) -> Result<(), Error> {
        let failed = |error: parquet::errors::ParquetError| Error::Encode(error.to_string());
        let mut group = writer.next_row_group().map_err(failed)?;
        for column in &self.columns {
            let next = group.next_column().map_err(failed)?;
            let mut next = next.ok_or_else(|| Error::Encode("the schema has fewer columns".to_owned()))?;
            column.write(&mut next).map_err(failed)?;
            next.close().map_err(failed)?;
        }
        group.close().map_err(failed)?;
        Ok(())
    }
}

/// A row's values, column by column.
fn values(row: &Row<'_>) -> Vec<Vec<Value>> {
    let (completed, graded) = (row.completed(), row.graded());
    let [benchmark, item, sample] = row.ordinals;
    let settings = &row.benchmark.settings;
    let optional =
        |text: Option<&String>| -> Vec<Value> { text.map(|text| text.as_str().into()).into_iter().collect() };
    let texts = |texts: Vec<String>| -> Vec<Value> { texts.into_iter().map(Value::from).collect() };
    let of_completion =
        |take: fn(&tidemill_domain::Completion) -> Value| -> Vec<Value> { completed.map(take).into_iter().collect() };
    let of_grade =
        |take: fn(&tidemill_domain::Grade) -> Value| -> Vec<Value> { graded.map(take).into_iter().collect() };
    let message = |message: Option<&bytes::Bytes>| -> Vec<Value> {
        message
            .map(|message| Value::Bytes(message.to_vec()))
            .into_iter()
            .collect()
    };
    let probabilities = completed.iter().flat_map(|completion| &completion.choices);
    vec![
        vec![row.event.evaluation.as_str().into()],
        vec![row.event.run.as_str().into()],
        vec![long(row.event.step.0)],
        vec![row.event.suite.name.as_str().into()],
        vec![row.benchmark.name.as_str().into()],
        vec![row.item.id.as_str().into()],
        vec![int(sample)],
        vec![row.prompt().into()],
        of_completion(|completion| completion.text.as_str().into()),
        optional(completed.and_then(|completion| completion.reasoning.as_ref())),
        texts(row.item.choices.clone()),
        probabilities
            .map(|choice| Value::Double(choice.log_probability))
            .collect(),
        optional(graded.and_then(|grade| grade.extracted.as_ref())),
        texts(row.targets()),
        vec![row.outcome().into()],
        graded
            .filter(|grade| grade.outcome.is_scored())
            .map(|grade| Value::Double(grade.score))
            .into_iter()
            .collect(),
        graded
            .and_then(|grade| grade.score_before_cut)
            .map(Value::Double)
            .into_iter()
            .collect(),
        of_grade(|grade| grade.grader.as_str().into()),
        row.reason().map(Value::from).into_iter().collect(),
        of_completion(|completion| completion.ending.label().into()),
        optional(completed.and_then(|completion| completion.finish_reason.as_ref())),
        optional(completed.and_then(|completion| completion.stop_reason.as_ref())),
        of_completion(|completion| Value::Flag(completion.truncated)),
        of_completion(|completion| long(completion.prompt_tokens)),
        of_completion(|completion| long(completion.completion_tokens)),
        of_completion(|completion| int(completion.attempts)),
        of_completion(|completion| int(completion.requests)),
        of_completion(|completion| Value::Flag(completion.cached)),
        of_completion(|completion| completion.engine.as_str().into()),
        of_completion(|completion| completion.started.into()),
        of_completion(|completion| completion.finished.into()),
        of_grade(|grade| grade.graded.into()),
        vec![long(settings.sample_seed(&row.item.id, sample))],
        vec![Value::Double(settings.temperature)],
        vec![long(u64::from(settings.max_tokens))],
        vec![int(benchmark)],
        vec![int(item)],
        message(row.completion.as_ref().map(|completion| &completion.message)),
        message(row.grade.as_ref().map(|grade| &grade.message)),
        of_grade(|grade| Value::Flag(grade.cut_in_reasoning)),
        of_completion(|completion| long(completion.replaced_characters())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_every_column() {
        let schema = schema().unwrap();
        assert_eq!(schema.get_fields().len(), COLUMNS.len());
    }
}
