//! Reads a benchmark's grader table.

use serde::de::DeserializeOwned;
use tidemill_domain::GraderSpec;

use crate::fields::{Fields, Located, any, nearest};
use crate::suite::{NORMALISE, TAKE};
use crate::{code_spec, judge_spec};

const AVAILABLE: [&str; 7] = ["exact", "regex", "numeric", "choice", "likelihood", "code", "judge"];
const PLANNED: [&str; 3] = ["math", "f1", "command"];
const OPTIONS: [&str; 6] = [
    "ignore_case",
    "ignore_punctuation",
    "pattern",
    "take",
    "tolerance",
    "normalise",
];

/// A text that a grader needs of each row beside its target.
pub(crate) struct Material {
    /// Its name in [`tidemill_domain::Item::material`].
    pub(crate) name: &'static str,
    /// The field that holds its template.
    pub(crate) field: &'static str,
    /// The template.
    pub(crate) source: Located<String>,
}

/// A grader, and what it needs of each row.
pub(crate) struct GraderEntry {
    pub(crate) spec: GraderSpec,
    pub(crate) material: Vec<Material>,
}

impl GraderEntry {
    const fn plain(spec: GraderSpec) -> Self {
        Self {
            spec,
            material: Vec::new(),
        }
    }
}

/// Reads the whole table; `None` when no grader can be made of it, after reporting why.
pub(crate) fn decode(mut fields: Fields<'_, '_>) -> Option<GraderEntry> {
    let kind = fields.required::<String>("kind", |kind| known_kind(kind))?.value;
    if kind == "code" {
        let decoded = code_spec::decode(&mut fields);
        finish(fields, &kind);
        return decoded.map(|(spec, material)| GraderEntry { spec, material });
    }
    if kind == "judge" {
        let decoded = judge_spec::decode(&mut fields);
        finish(fields, &kind);
        return decoded.map(|(spec, material)| GraderEntry { spec, material });
    }
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
        _ => None,
    };
    finish(fields, &kind);
    spec.map(GraderEntry::plain)
}

fn finish(fields: Fields<'_, '_>, kind: &str) {
    fields.finish(|name| {
        let is_of_code = code_spec::OPTIONS.contains(&name);
        if is_of_code && kind == "code" {
            return Some("is not used by programs in this language".to_owned());
        }
        if kind == "judge" && name == "reference" {
            return Some("is used where answers are compared alone: add pairwise = true".to_owned());
        }
        let is_option = OPTIONS.contains(&name) || is_of_code || judge_spec::OPTIONS.contains(&name);
        is_option.then(|| format!("is not an option of grader kind {kind}"))
    });
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
