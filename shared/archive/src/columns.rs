//! The columns of an archive's files, written by `parquet`'s own column writer: Arrow's crates would be a large dependency
//! for one fixed schema. So lists and their levels are ours to get right, here.

use std::io::Write;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;
use tidemill_domain::Timestamp;

use crate::{Error, Row, shown};

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
const COLUMNS: [(&str, Shape, Kind); 48] = [
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
    // JSON: what a metric takes of a sample is a number, or several with their names.
    ("measures", Optional, Text),
    ("continuations", Optional, Int32),
    ("cached_prompt_tokens", Optional, Int64),
    ("first_token_seconds", Optional, Double),
    ("cluster", Optional, Text),
    ("subset", Optional, Text),
    ("weight", Optional, Double),
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
        row.measures()
            .map(|measures| measures.to_string().into())
            .into_iter()
            .collect(),
        of_completion(|completion| int(completion.served.continuations)),
        completed
            .and_then(|completion| completion.served.cached_tokens)
            .map(long)
            .into_iter()
            .collect(),
        completed
            .and_then(shown::first_token_seconds)
            .map(Value::Double)
            .into_iter()
            .collect(),
        optional(row.item.cluster.as_ref()),
        optional(row.item.subset.as_ref()),
        vec![Value::Double(row.item.weight)],
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use bytes::Bytes;
    use parquet::file::properties::WriterProperties;
    use parquet::file::reader::FileReader as _;
    use parquet::file::serialized_reader::SerializedFileReader;
    use parquet::record::Field;
    use tidemill_domain::{
        Aggregation, Benchmark, BenchmarkName, ChoiceScore, Completion, Continuation, Digest, Ending, EvaluationEvent,
        EvaluationId, EvaluationState, Grade, GraderSpec, GroupId, Item, ItemKey, Measured, Metric, MetricSource,
        Outcome, Penalties, Prompt, Reasoning, RunId, Served, Settings, Source, Step, SuiteName, SuiteRef, TeamId,
        Tier, Timeline,
    };

    use super::*;
    use crate::row::{Completed, Graded};

    fn event() -> EvaluationEvent {
        EvaluationEvent {
            schema: 1,
            evaluation: EvaluationId::from_digest(&Digest::of(b"evaluation")),
            state: EvaluationState::Final,
            at: Timestamp(9),
            run: RunId::try_new("run").unwrap(),
            step: Step(1),
            team: TeamId::try_new("team").unwrap(),
            checkpoint: Digest::of(b"weights"),
            decision_value: None,
            suite: SuiteRef {
                name: SuiteName::try_new("suite").unwrap(),
                version: "1".to_owned(),
                tier: Tier::Canary,
            },
            manifest: Digest::of(b"manifest"),
            group: GroupId::from_digest(&Digest::of(b"group")),
            source: Source::Endpoint {
                urls: Vec::new(),
                model: "model".to_owned(),
            },
            max_in_flight: None,
            no_cache: false,
            samples: 1,
            reason: None,
            timeline: Timeline::default(),
            result: None,
        }
    }

    fn benchmark() -> Benchmark {
        let metric = |name: &str, aggregation| Metric {
            name: name.to_owned(),
            source: MetricSource::Measure,
            aggregation,
            higher_is_better: true,
        };
        Benchmark {
            name: BenchmarkName::try_new("benchmark").unwrap(),
            settings: Settings {
                max_tokens: 10,
                temperature: 0.5,
                top_p: 1.0,
                stop: Vec::new(),
                seed: 7,
                samples: 1,
            },
            grader: GraderSpec::Math { pattern: None },
            items: 1,
            blocks: Vec::new(),
            clusters: None,
            penalties: Penalties::default(),
            continuation: Continuation::default(),
            spare_samples: 0,
            outlines: Vec::new(),
            reasoning: Reasoning::default(),
            metrics: vec![
                metric("length", Aggregation::Mean),
                metric("bits", Aggregation::BitsPerWeight),
                metric("f1", Aggregation::Mcc),
                metric("none", Aggregation::Mean),
            ],
            subsets: None,
            weights: None,
        }
    }

    fn item() -> Item {
        Item {
            id: "q1".to_owned(),
            prompt: Prompt::Text("2 + 2 =".to_owned()),
            targets: vec!["4".to_owned()],
            choices: vec!["3".to_owned(), "4".to_owned()],
            correct_choice: None,
            cluster: Some("sums".to_owned()),
            subset: Some("easy".to_owned()),
            weight: 2.5,
            material: Vec::new(),
        }
    }

    fn key() -> ItemKey {
        ItemKey {
            evaluation: event().evaluation,
            benchmark: 0,
            item: 0,
            sample: 0,
        }
    }

    fn served() -> Served {
        Served {
            cached_tokens: Some(5),
            reusable_tokens: Some(6),
            first_token: Some(Timestamp(1_250_000)),
            continuations: 3,
        }
    }

    fn completion() -> Completion {
        Completion {
            key: key(),
            manifest: Digest::of(b"manifest"),
            ending: Ending::Stop,
            text: "4".to_owned(),
            reasoning: Some("two and two".to_owned()),
            finish_reason: Some("stop".to_owned()),
            stop_reason: Some("\n".to_owned()),
            truncated: false,
            choices: vec![ChoiceScore {
                log_probability: -0.5,
                tokens: 1,
                is_greedy: true,
            }],
            detail: None,
            prompt_tokens: 8,
            completion_tokens: 2,
            requests: 2,
            attempts: 1,
            cached: false,
            generation: None,
            served: served(),
            engine: "http://engine".to_owned(),
            started: Timestamp(1_000_000),
            finished: Timestamp(2_000_000),
        }
    }

    fn grade() -> Grade {
        Grade {
            key: key(),
            outcome: Outcome::Correct,
            score: 1.0,
            score_before_cut: None,
            extracted: Some("4".to_owned()),
            grader: "math@1".to_owned(),
            reason: Some("equal".to_owned()),
            truncated: false,
            cut_in_reasoning: false,
            replaced: false,
            prompt_tokens: 8,
            completion_tokens: 2,
            requests: 2,
            cached: false,
            served: served(),
            started: Timestamp(1_000_000),
            finished: Timestamp(2_000_000),
            graded: Timestamp(3_000_000),
            extractor: None,
            span: None,
            canonical: None,
            measures: vec![
                Some(Measured::Value(1.5)),
                Some(Measured::Weighted {
                    value: -3.0,
                    weight: 4.0,
                }),
                Some(Measured::Labels { truth: 1, predicted: 0 }),
                None,
            ],
            judge: None,
        }
    }

    /// What a reader of a file with this one row sees, by the columns' names.
    fn written(row: &Row<'_>) -> Vec<(String, Field)> {
        let mut columns = Columns::new();
        columns.push(row).unwrap();
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(Vec::new(), schema().unwrap(), properties).unwrap();
        columns.write(&mut writer).unwrap();
        let file = SerializedFileReader::new(Bytes::from(writer.into_inner().unwrap())).unwrap();
        let row = file.get_row_iter(None).unwrap().next().unwrap().unwrap();
        row.into_columns()
    }

    fn cell(cells: &[(String, Field)], name: &str) -> Field {
        let cell = cells.iter().find(|(column, _)| column == name);
        cell.unwrap_or_else(|| panic!("no column {name}")).1.clone()
    }

    #[test]
    fn a_row_says_what_its_json_says() {
        let (event, benchmark, item) = (event(), benchmark(), item());
        let row = Row {
            event: &event,
            benchmark: &benchmark,
            item: &item,
            ordinals: [0, 0, 0],
            completion: Some(Completed {
                message: Bytes::from_static(b"completion"),
                read: Ok(completion()),
            }),
            grade: Some(Graded {
                message: Bytes::from_static(b"grade"),
                read: Ok(grade()),
            }),
        };
        let (cells, mut json) = (written(&row), row.json());
        let measures = serde_json::json!({
            "length": 1.5,
            "bits": {"value": -3.0, "weight": 4.0},
            "f1": {"truth": 1, "predicted": 0},
            "none": null,
        });
        let Field::Str(text) = cell(&cells, "measures") else {
            panic!("{cells:?}")
        };
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), measures);
        assert_eq!(json["measures"], measures);
        for (name, in_file, in_json) in [
            ("continuations", Field::Int(3), serde_json::json!(3)),
            ("cached_prompt_tokens", Field::Long(5), serde_json::json!(5)),
            ("first_token_seconds", Field::Double(0.25), serde_json::json!(0.25)),
            ("cluster", Field::Str("sums".to_owned()), serde_json::json!("sums")),
            ("subset", Field::Str("easy".to_owned()), serde_json::json!("easy")),
            ("weight", Field::Double(2.5), serde_json::json!(2.5)),
            ("ending", Field::Str("stop".to_owned()), serde_json::json!("stop")),
            ("temperature", Field::Double(0.5), serde_json::json!(0.5)),
            ("max_tokens", Field::Long(10), serde_json::json!(10)),
        ] {
            assert_eq!((cell(&cells, name), &json[name]), (in_file, &in_json), "{name}");
        }
        // The same for the whole evaluation, or for programs.
        let apart = [
            "evaluation",
            "run",
            "step",
            "suite",
            BENCHMARK_ORDINAL,
            ITEM_ORDINAL,
            COMPLETION_MESSAGE,
            GRADE_MESSAGE,
        ];
        let shown = json.as_object_mut().unwrap();
        let times = shown.remove("times").unwrap();
        shown.extend(times.as_object().unwrap().clone());
        let shown: BTreeSet<&str> = shown.keys().map(String::as_str).chain(apart).collect();
        let columns: BTreeSet<&str> = COLUMNS.iter().map(|(name, ..)| *name).collect();
        assert_eq!(shown, columns);
    }

    #[test]
    fn a_sample_without_anything_has_gaps_and_its_item() {
        let (event, benchmark) = (event(), benchmark());
        let item = Item {
            cluster: None,
            subset: None,
            weight: 1.0,
            ..item()
        };
        let row = Row {
            event: &event,
            benchmark: &benchmark,
            item: &item,
            ordinals: [0, 0, 0],
            completion: None,
            grade: None,
        };
        let cells = written(&row);
        for name in [
            "measures",
            "continuations",
            "cached_prompt_tokens",
            "first_token_seconds",
            "cluster",
            "subset",
        ] {
            assert_eq!(
                (cell(&cells, name), &row.json()[name]),
                (Field::Null, &serde_json::Value::Null),
                "{name}"
            );
        }
        assert_eq!(cell(&cells, "weight"), Field::Double(1.0));
    }

    #[test]
    fn the_schema_has_every_column() {
        let schema = schema().unwrap();
        assert_eq!(schema.get_fields().len(), COLUMNS.len());
    }
}
