//! Reads a benchmark's grader table.

use std::path::Path;

use serde::de::DeserializeOwned;
use tidemill_domain::GraderSpec;
use tidemill_scoring::Schema;

use crate::fields::{Fields, any, nearest};
use crate::suite::{JSON_CHECK, MAX_SECONDS, NORMALISE, ROUGE, SECONDS, TAKE, TOKENISE, WORDS};

const AVAILABLE: [&str; 12] = [
    "exact",
    "regex",
    "numeric",
    "choice",
    "likelihood",
    "f1",
    "rouge",
    "bleu",
    "chrf",
    "instructions",
    "json_schema",
    "command",
];
const PLANNED: [&str; 3] = ["math", "code", "judge"];
const OPTIONS: [&str; 16] = [
    "ignore_case",
    "ignore_punctuation",
    "pattern",
    "take",
    "tolerance",
    "normalise",
    "words",
    "measure",
    "stem",
    "tokenise",
    "loose",
    "check",
    "schema",
    "schema_file",
    "command",
    "seconds",
];

/// Reads the whole table; `None` when no grader can be made of it, after reporting why.
pub(crate) fn decode(mut fields: Fields<'_, '_>) -> Option<GraderSpec> {
    let kind = fields.required::<String>("kind", |kind| known_kind(kind))?.value;
    let spec = match kind.as_str() {
        "exact" => Some(GraderSpec::Exact {
            ignore_case: flag(&mut fields, "ignore_case"),
            ignore_punctuation: flag(&mut fields, "ignore_punctuation"),
        }),
        "regex" => {
            let pattern = fields.required("pattern", compiles);
            let take = or_default(&mut fields, "take", TAKE);
            let ignore_case = flag(&mut fields, "ignore_case");
            pattern.map(|pattern| GraderSpec::Regex {
                pattern: pattern.value,
                take,
                ignore_case,
            })
        }
        "numeric" => Some(GraderSpec::Numeric {
            pattern: pattern(&mut fields),
            tolerance: fields.or_default("tolerance", 0.0, tolerance),
        }),
        "choice" => Some(GraderSpec::Choice {
            pattern: pattern(&mut fields),
        }),
        "likelihood" => Some(GraderSpec::Likelihood {
            normalise: or_default(&mut fields, "normalise", NORMALISE),
        }),
        "f1" => Some(GraderSpec::F1 {
            words: or_default(&mut fields, "words", WORDS),
        }),
        "rouge" => Some(GraderSpec::Rouge {
            measure: or_default(&mut fields, "measure", ROUGE),
            stem: flag(&mut fields, "stem"),
        }),
        "bleu" => Some(GraderSpec::Bleu {
            tokenise: or_default(&mut fields, "tokenise", TOKENISE),
        }),
        "chrf" => Some(GraderSpec::Chrf {
            words: flag(&mut fields, "words"),
        }),
        "instructions" => Some(GraderSpec::Instructions {
            loose: flag(&mut fields, "loose"),
        }),
        "json_schema" => Some(GraderSpec::JsonSchema {
            check: or_default(&mut fields, "check", JSON_CHECK),
            schema: schema(&mut fields),
        }),
        "command" => command(&mut fields),
        _ => None,
    };
    fields.finish(|name| {
        let is_option = OPTIONS.contains(&name);
        is_option.then(|| format!("is not an option of grader kind {kind}"))
    });
    spec
}

fn known_kind(kind: &str) -> Result<(), String> {
    if AVAILABLE.contains(&kind) {
        return Ok(());
    }
    let available = AVAILABLE.join(", ");
    if PLANNED.contains(&kind) {
        return Err(format!(
            "grader kind {kind} is not available in this version; available: {available}"
        ));
    }
    let nearest = nearest(kind, &AVAILABLE).unwrap_or_default();
    Err(format!(
        "grader kind {kind:?} is unknown; did you mean {nearest}? available: {available}"
    ))
}

/// A schema as it is written, or in a file beside the suite's.
fn schema(fields: &mut Fields<'_, '_>) -> Option<String> {
    let written = fields.optional("schema", |schema: &String| is_schema(schema));
    let base = fields.place().file.parent().unwrap_or(Path::new("")).to_owned();
    let read = |file: &String| std::fs::read_to_string(base.join(file)).map_err(|error| format!("{file}: {error}"));
    let file = fields.optional("schema_file", |file: &String| is_schema(&read(file)?));
    match (written, file) {
        (Some(_), Some(file)) => {
            fields.error("schema_file", file.line, "cannot stand beside schema: give one of them");
            None
        }
        (written, file) => written
            .map(|written| written.value)
            .or_else(|| file.and_then(|file| read(&file.value).ok())),
    }
}

fn is_schema(schema: &str) -> Result<(), String> {
    let schema = serde_json::from_str(schema).map_err(|error| format!("is not JSON: {error}"))?;
    Schema::try_new(&schema).map(|_| ()).map_err(|error| error.to_string())
}

fn command(fields: &mut Fields<'_, '_>) -> Option<GraderSpec> {
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
    command.map(|command| GraderSpec::Command {
        command: command.value,
        seconds,
    })
}

fn flag(fields: &mut Fields<'_, '_>, name: &'static str) -> bool {
    or_default(fields, name, false)
}

fn or_default<T: DeserializeOwned + 'static>(fields: &mut Fields<'_, '_>, name: &'static str, default: T) -> T {
    fields.or_default(name, default, any)
}

fn pattern(fields: &mut Fields<'_, '_>) -> Option<String> {
    fields.optional("pattern", compiles).map(|pattern| pattern.value)
}

fn compiles(pattern: &String) -> Result<(), String> {
    if pattern.is_empty() {
        return Err("must not be empty".to_owned());
    }
    match regex::Regex::new(pattern) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "{pattern:?} is not a regular expression: {}",
            last_line(&error)
        )),
    }
}

/// The gist of an error that is drawn over several lines.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

fn tolerance(tolerance: &f64) -> Result<(), String> {
    if tolerance.is_finite() && *tolerance >= 0.0 {
        return Ok(());
    }
    Err(format!("must be 0 or more, but is {tolerance}"))
}
