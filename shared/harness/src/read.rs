//! From the keys of a task file to a [`Task`], or to everything that is refused.

mod fields;
mod generation;
mod lists;

use serde_json::{Map as JsonMap, Value as Json};

use crate::grading::Grading;
use crate::native::{self, RowRule};
use crate::refusal::{Place, Refusal, Refusals};
use crate::task::{Field, OutputType, Sampler, Shots, Task};
use crate::yaml::{Map, Node, Value};
use fields::Keys;

/// Reads a task from the keys of its file, includes and overrides merged.
///
/// # Errors
/// Everything that is refused, at least one thing.
pub(crate) fn task(map: &Map, place: &Place) -> Result<Task, Vec<Refusal>> {
    let mut refusals = Refusals::default();
    let mut keys = Keys::new(map, place, "", &mut refusals);
    let task = read(&mut keys);
    keys.finish();
    if refusals.all.is_empty() {
        Ok(task)
    } else {
        Err(refusals.all)
    }
}

/// Reads the part of a task that grades.
///
/// # Errors
/// Everything that is refused, at least one thing.
pub(crate) fn grading(map: &Map, place: &Place) -> Result<Grading, Vec<Refusal>> {
    let mut refusals = Refusals::default();
    let mut keys = Keys::new(map, place, "", &mut refusals);
    let output_type = output_type(&mut keys);
    let grading = Grading {
        output_type,
        pipelines: lists::pipelines(&mut keys, output_type),
        metrics: lists::metrics(&mut keys, output_type),
        repeats: repeats(&mut keys),
    };
    keys.finish();
    if refusals.all.is_empty() {
        Ok(grading)
    } else {
        Err(refusals.all)
    }
}

const MODALITIES: &str = "asks for images or sound, which are not sent here; use a text task";

fn read(keys: &mut Keys<'_>) -> Task {
    let mut notices = Vec::new();
    keys.refuse_not_finite(&["metadata", "generation_kwargs"]);
    let name = keys.text("task").unwrap_or_default();
    for key in ["doc_to_image", "doc_to_audio"] {
        keys.refuse_if_set(key, MODALITIES);
    }
    keys.refuse_if_set("class", "is a task written in Python, which is not run here");
    keys.refuse_if_set(
        "custom_dataset",
        "loads rows by Python code, which is not run here; write them to a file",
    );
    let by_code = "scores answers by Python code, which is not run here; use filter_list and metric_list";
    keys.refuse_if_set("process_results", by_code);
    keys.refuse_if_set(
        "use_prompt",
        "takes a prompt from a library on the hub; write it as doc_to_text",
    );
    if keys.flag("unsafe_code") {
        keys.refuse(
            "unsafe_code",
            "runs answers as code, which tasks of this kind are not graded by here",
        );
    }
    if keys.flag("should_decontaminate") || keys.is_set("doc_to_decontamination_query") {
        notices.push("should_decontaminate has no effect".to_owned());
    }
    for ignored in ["tag", "group", "task_list", "metadata", "doc_to_decontamination_query"] {
        keys.ignore(ignored);
    }
    let output_type = output_type(keys);
    let target_delimiter = keys.text("target_delimiter").unwrap_or_else(|| " ".to_owned());
    let fewshot_delimiter = keys.text("fewshot_delimiter").unwrap_or_else(|| "\n\n".to_owned());
    let rows = rows(keys, "process_docs");
    let needs_text = output_type != OutputType::LoglikelihoodRolling;
    let text = field(keys, "doc_to_text");
    if text.is_none() && needs_text && !keys.is_set("doc_to_text") {
        keys.refuse("doc_to_text", "is missing");
    }
    let target = field(keys, "doc_to_target");
    if target.is_none() && !keys.is_set("doc_to_target") {
        keys.refuse("doc_to_target", "is missing");
    }
    let choices = field(keys, "doc_to_choice");
    if choices.is_none() && output_type == OutputType::MultipleChoice && !keys.is_set("doc_to_choice") {
        keys.refuse("doc_to_choice", "is missing, and output_type multiple_choice needs it");
    }
    let empty = || Field::Source(String::new());
    let (text, target) = (text.unwrap_or_else(empty), target.unwrap_or_else(empty));
    let description = keys.template("description").unwrap_or_default();
    let gen_prefix = keys.template("gen_prefix");
    let own = Shots {
        sampler: Sampler::Seeded,
        split: keys.text("fewshot_split"),
        samples: None,
        rows: rows.clone(),
        text: text.clone(),
        target: target.clone(),
        choices: choices.clone(),
        gen_prefix: gen_prefix.clone(),
        target_delimiter: target_delimiter.clone(),
        fewshot_delimiter: fewshot_delimiter.clone(),
    };
    let shots = shots(keys, own, &mut notices);
    let generation = generation::read(keys, output_type, &fewshot_delimiter, &mut notices);
    let pipelines = lists::pipelines(keys, output_type);
    let metrics = lists::metrics(keys, output_type);
    if output_type == OutputType::GenerateUntil {
        lists::refuse_unfit(keys, &pipelines, &metrics, choices.is_some());
    }
    let dataset = generation::dataset(keys, &mut notices);
    let (test_split, validation_split) = (keys.text("test_split"), keys.text("validation_split"));
    if test_split.is_none() && validation_split.is_none() {
        keys.refuse(
            "test_split",
            "is missing, and so is validation_split: nothing would be evaluated",
        );
    }
    Task {
        name,
        alias: keys.text("task_alias"),
        place: keys.place().clone(),
        dataset,
        training_split: keys.text("training_split"),
        validation_split,
        test_split,
        rows,
        text,
        target,
        choices,
        description,
        gen_prefix,
        target_delimiter,
        fewshot_delimiter,
        shots,
        num_fewshot: keys.count("num_fewshot"),
        output_type,
        generation,
        pipelines,
        metrics,
        repeats: repeats(keys),
        version: version(keys),
        notices,
    }
}

fn repeats(keys: &mut Keys<'_>) -> u32 {
    let Some(count) = keys.count("repeats") else {
        return 1;
    };
    match u32::try_from(count) {
        Ok(count) if count > 0 => count,
        _ => {
            keys.refuse("repeats", format!("takes a count, 1 to {}", u32::MAX));
            1
        }
    }
}

fn version(keys: &Keys<'_>) -> Option<String> {
    let metadata = keys.look("metadata")?;
    match &metadata.value {
        Value::Map(map) => map
            .get("version")?
            .json()
            .ok()
            .map(|version| crate::python::str(&version)),
        _ => None,
    }
}

fn output_type(keys: &mut Keys<'_>) -> OutputType {
    let Some(name) = keys.text("output_type") else {
        return OutputType::GenerateUntil;
    };
    let known = OutputType::ALL.into_iter().find(|kind| kind.name() == name);
    known.unwrap_or_else(|| {
        let names = OutputType::ALL.map(OutputType::name).join(", ");
        keys.refuse("output_type", format!("is {name:?}, not one of {names}"));
        OutputType::GenerateUntil
    })
}

fn rows(keys: &mut Keys<'_>, key: &'static str) -> Option<RowRule> {
    let node = keys.take(key)?;
    if node.is_null() {
        return None;
    }
    if let Value::Function(name) = &node.value {
        if let Some(rule) = native::rows(name, &node.place.file) {
            return Some(rule);
        }
        let reason = format!(
            "changes rows by the Python function {name}, which is not run here; write the changed rows to a file"
        );
        keys.refuse_at(&node.place, key, reason);
    } else {
        keys.refuse_at(&node.place, key, format!("takes a !function, not {}", node.kind()));
    }
    None
}

/// `doc_to_text`, `doc_to_target` and `doc_to_choice`.
fn field(keys: &mut Keys<'_>, key: &'static str) -> Option<Field> {
    let node = keys.take(key)?;
    match &node.value {
        Value::Null => None,
        Value::Int(number) => Some(Field::Int(*number)),
        Value::Bool(boolean) => Some(Field::Int(i64::from(*boolean))),
        Value::Text(source) => {
            if let Err(error) = crate::template::check(source) {
                keys.refuse_at(
                    &node.place,
                    key,
                    format!("is no template that is understood here: {error}"),
                );
                return None;
            }
            Some(Field::Source(source.clone()))
        }
        Value::List(_) | Value::Map(_) => match node.json() {
            Ok(Json::Array(values)) => Some(Field::List(values)),
            Ok(Json::Object(map)) => Some(Field::List(map.into_iter().map(|(_, value)| value).collect())),
            _ => {
                keys.refuse_at(&node.place, key, "holds a !function in a list");
                None
            }
        },
        Value::Function(name) => {
            let rule = native::text(name, &node.place.file);
            if rule.is_none() {
                let reason = format!("is the Python function {name}, which is not run here; write a template");
                keys.refuse_at(&node.place, key, reason);
            }
            rule.map(Field::Native)
        }
        Value::Float(_) => {
            keys.refuse_at(&node.place, key, "is a number with a point");
            None
        }
    }
}

fn shots(keys: &mut Keys<'_>, own: Shots, notices: &mut Vec<String>) -> Shots {
    let Some(node) = keys.take("fewshot_config") else {
        return own;
    };
    let Value::Map(map) = &node.value else {
        if !node.is_null() {
            keys.refuse_at(
                &node.place,
                "fewshot_config",
                format!("takes a mapping, not {}", node.kind()),
            );
        }
        return own;
    };
    let (place, prefix) = (node.place.clone(), "fewshot_config");
    let mut inner = Keys::new(map, &place, prefix, keys.refusals());
    let keys = &mut inner;
    let mut shots = own;
    match keys.text("sampler").as_deref() {
        None | Some("default") => {}
        Some("first_n") => shots.sampler = Sampler::FirstN,
        Some(other) => keys.refuse("sampler", format!("is {other:?}, not default or first_n")),
    }
    if keys.is_set("split") {
        shots.split = keys.text("split");
    }
    if keys.is_set("process_docs") {
        shots.rows = rows(keys, "process_docs");
    }
    if keys.take("fewshot_indices").is_some() {
        notices.push("fewshot_config.fewshot_indices has no effect".to_owned());
    }
    shots.samples = samples(keys);
    for (key, slot) in [("doc_to_text", &mut shots.text), ("doc_to_target", &mut shots.target)] {
        if let Some(field) = field(keys, key) {
            *slot = field;
        }
    }
    if keys.is_set("doc_to_choice") {
        shots.choices = field(keys, "doc_to_choice");
    }
    if keys.is_set("gen_prefix") {
        shots.gen_prefix = keys.template("gen_prefix");
    }
    if let Some(delimiter) = keys.text("fewshot_delimiter") {
        shots.fewshot_delimiter = delimiter;
    }
    if let Some(delimiter) = keys.text("target_delimiter") {
        shots.target_delimiter = delimiter;
    }
    inner.finish();
    shots
}

fn samples(keys: &mut Keys<'_>) -> Option<Vec<JsonMap<String, Json>>> {
    let node = keys.take("samples")?;
    match (&node.value, node.json()) {
        (Value::Null, _) => None,
        (Value::List(_), Ok(Json::Array(rows))) => {
            let rows = rows.into_iter().map(|row| match row {
                Json::Object(row) => Some(row),
                _ => None,
            });
            let rows: Option<Vec<_>> = rows.collect();
            if rows.is_none() {
                keys.refuse_at(&node.place, "samples", "takes a list of rows");
            }
            rows
        }
        _ => {
            let reason = match node.function() {
                Some((name, _)) => {
                    format!("comes from the Python function {name}, which is not run here; write the list")
                }
                None => format!("takes a list of rows, not {}", node.kind()),
            };
            keys.refuse_at(&node.place, "samples", reason);
            None
        }
    }
}

/// Says which function a value holds, for a refusal.
fn function_reason(node: &Node) -> Option<String> {
    node.function()
        .map(|(name, _)| format!("is the Python function {name}, which is not run here"))
}
