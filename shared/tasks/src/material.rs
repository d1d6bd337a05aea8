//! Grader kinds that need more of a row than its target: what they are given, and what can be known to be wrong with it before
//! anything is generated.

use std::collections::BTreeMap;
use std::path::Path;

use tidemill_domain::{GraderSpec, JsonCheck};
use tidemill_scoring::{Instructions, Schema};

use crate::fields::{Fields, Located};
use crate::grader_spec::{GraderEntry, Material, flag, or_default};
use crate::suite::{JSON_CHECK, MAX_SECONDS, SECONDS};
use crate::template;

/// Reads what follows kind `instructions`.
pub(crate) fn instructions(fields: &mut Fields<'_, '_>) -> Option<GraderEntry> {
    let loose = flag(fields, "loose");
    let given = [
        ("instructions", "grader.instructions"),
        ("arguments", "grader.arguments"),
    ];
    let given = given.map(|(name, field)| {
        let rule = |source: &String| template::check(source);
        let source = match fields.is_for_stored_items() {
            true => fields.optional(name, rule),
            false => fields.required(name, rule),
        };
        source.map(|source| json(name, field, source))
    });
    let is_whole = fields.is_for_stored_items() || given.iter().all(Option::is_some);
    is_whole.then(|| GraderEntry {
        spec: GraderSpec::Instructions { loose },
        material: given.into_iter().flatten().collect(),
        unanswerable: false,
    })
}

/// Reads what follows kind `json_schema`.
pub(crate) fn json_schema(fields: &mut Fields<'_, '_>) -> Option<GraderEntry> {
    let check = or_default(fields, "check", JSON_CHECK);
    let written = fields.optional("schema", |source: &String| template::check(source));
    let base = fields.place().file.parent().unwrap_or(Path::new("")).to_owned();
    let read = |file: &String| std::fs::read_to_string(base.join(file)).map_err(|error| format!("{file}: {error}"));
    let file = fields.optional("schema_file", |file: &String| compiles(&read(file)?));
    if let (Some(_), Some(file)) = (&written, &file) {
        fields.error("schema_file", file.line, "cannot stand beside schema: give one of them");
        return None;
    }
    let is_given = ["schema", "schema_file"].map(|name| fields.raw(name).is_some());
    let is_needed = check == JsonCheck::Schema && !fields.is_for_stored_items();
    if is_needed && is_given == [false, false] {
        fields.missing("schema");
    }
    let schema = file.and_then(|file| read(&file.value).ok());
    let is_whole = !is_needed || written.is_some() || schema.is_some();
    let material = written.map(|source| json("schema", "grader.schema", source));
    is_whole.then_some(GraderEntry {
        spec: GraderSpec::JsonSchema { check, schema },
        material: material.into_iter().collect(),
        unanswerable: false,
    })
}

/// Reads what follows kind `command`.
pub(crate) fn command(fields: &mut Fields<'_, '_>) -> Option<GraderEntry> {
    let command = fields.required("command", |command: &Vec<String>| {
        if command.is_empty() || command.iter().any(String::is_empty) {
            return Err("must be a program and its arguments, such as [\"python3\", \"grade.py\"]".to_owned());
        }
        Ok(())
    });
    let seconds = fields.or_default("seconds", SECONDS, |seconds: &u32| {
        if (1..=MAX_SECONDS).contains(seconds) {
            return Ok(());
        }
        Err(format!("must be from 1 to {MAX_SECONDS}, but is {seconds}"))
    });
    let given = fields.optional("material", |given: &BTreeMap<String, String>| {
        let wrong = given.iter().find_map(|(name, source)| {
            let error = template::check(source).err()?;
            Some(format!("{name}: {error}"))
        });
        wrong.map_or(Ok(()), Err)
    });
    let material = given.map_or_else(Vec::new, |given| {
        let line = given.line;
        let of = |(name, value): (String, String)| json(name, "grader.material", Located { value, line });
        given.value.into_iter().map(of).collect()
    });
    Some(GraderEntry {
        spec: GraderSpec::Command {
            command: command?.value,
            seconds,
        },
        material,
        unanswerable: false,
    })
}

fn json(name: impl Into<std::borrow::Cow<'static, str>>, field: &'static str, source: Located<String>) -> Material {
    Material {
        name: name.into(),
        field,
        source,
        is_json: true,
    }
}

fn compiles(schema: &str) -> Result<(), String> {
    let schema = serde_json::from_str(schema).map_err(|error| format!("is not JSON: {error}"))?;
    Schema::try_new(&schema).map(|_| ()).map_err(|error| error.to_string())
}

/// What is wrong with a row's material, and the field that gave it.
pub(crate) fn error(grader: &GraderSpec, material: &[(String, String)]) -> Option<(&'static str, String)> {
    let named = |wanted: &str| {
        material
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, text)| text.as_str())
    };
    match grader {
        GraderSpec::Instructions { .. } => {
            let read = Instructions::from_json(named("instructions")?, named("arguments")?);
            read.err().map(|error| ("grader.instructions", error.to_string()))
        }
        GraderSpec::JsonSchema { .. } => {
            let error = compiles(named("schema")?).err()?;
            Some(("grader.schema", error))
        }
        _ => None,
    }
}
