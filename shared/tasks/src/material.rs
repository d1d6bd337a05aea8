//! What a grader needs of a row beside targets and choices.

use std::collections::BTreeMap;

use tidemill_domain::{GraderSpec, JsonCheck};
use tidemill_scoring::{Instructions, Schema};

use crate::fields::Fields;
use crate::template;

/// Reads the table of names and templates.
pub(crate) fn decode(fields: &mut Fields<'_, '_>) -> Vec<(String, String)> {
    let material = fields.optional("material", |material: &BTreeMap<String, String>| {
        let wrong = material.iter().find_map(|(name, source)| {
            let error = template::check(source).err()?;
            Some(format!("{name}: {error}"))
        });
        wrong.map_or(Ok(()), Err)
    });
    material.map_or_else(Vec::new, |material| material.value.into_iter().collect())
}

/// Reports names that the grader lacks, and those that it does not know.
pub(crate) fn rule(fields: &mut Fields<'_, '_>, grader: &GraderSpec, material: &[(String, String)]) {
    let line = fields.line_of_field("material");
    let kind = grader.kind();
    let (needed, known): (&[&str], &[&str]) = match grader {
        GraderSpec::Instructions { .. } => (&["instructions", "arguments"], &[]),
        GraderSpec::JsonSchema {
            check: JsonCheck::Schema,
            schema: None,
        } => (&["schema"], &[]),
        GraderSpec::JsonSchema { schema: None, .. } => (&[], &["schema"]),
        // Whatever the program asks for.
        GraderSpec::Command { .. } => return,
        _ => (&[], &[]),
    };
    let is_given = |name: &str| material.iter().any(|(given, _)| given == name);
    for name in needed.iter().filter(|name| !is_given(name)) {
        fields.error(
            "material",
            line,
            format!("lacks {name}, which grader kind {kind} needs"),
        );
    }
    for (name, _) in material {
        if !needed.contains(&name.as_str()) && !known.contains(&name.as_str()) {
            fields.error("material", line, format!("{name} is not used by grader kind {kind}"));
        }
    }
}

/// What can be known to be wrong with a row's material before anything is generated.
pub(crate) fn check(grader: &GraderSpec, material: &[(String, String)]) -> Result<(), String> {
    let named = |wanted: &str| {
        material
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, text)| text.as_str())
    };
    match grader {
        GraderSpec::Instructions { .. } => {
            let (ids, arguments) = (named("instructions"), named("arguments"));
            let read = Instructions::from_json(ids.unwrap_or_default(), arguments.unwrap_or_default());
            read.map(|_| ()).map_err(|error| error.to_string())
        }
        GraderSpec::JsonSchema { .. } => {
            let Some(schema) = named("schema") else { return Ok(()) };
            let schema = serde_json::from_str(schema).map_err(|error| format!("schema: is not JSON: {error}"))?;
            Schema::try_new(&schema).map(|_| ()).map_err(|error| error.to_string())
        }
        _ => Ok(()),
    }
}
