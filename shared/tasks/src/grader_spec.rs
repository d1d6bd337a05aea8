//! Reads a benchmark's grader table.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use tidemill_domain::{AnswerPattern, GraderSpec, Normaliser, Words};

use crate::fields::{Fields, Located, any, nearest};
use crate::suite::{NORMALISE, ROUGE, TAKE, TOKENISE, WORDS};
use crate::{code_spec, judge_spec, material};

const AVAILABLE: [&str; 15] = [
    "exact",
    "regex",
    "numeric",
    "math",
    "choice",
    "likelihood",
    "code",
    "judge",
    "f1",
    "rouge",
    "bleu",
    "chrf",
    "instructions",
    "json_schema",
    "command",
];
const OPTIONS: [&str; 22] = [
    "ignore_case",
    "ignore_punctuation",
    "pattern",
    "take",
    "tolerance",
    "normalise",
    "normalisers",
    "group",
    "fallbacks",
    "words",
    "measure",
    "stem",
    "tokenise",
    "loose",
    "instructions",
    "arguments",
    "check",
    "schema",
    "schema_file",
    "seconds",
    "material",
    "unanswerable",
];

/// A text that a grader needs of each row beside its target.
pub(crate) struct Material {
    /// Its name in [`tidemill_domain::Item::material`].
    pub(crate) name: Cow<'static, str>,
    /// The field that holds its template.
    pub(crate) field: &'static str,
    /// The template.
    pub(crate) source: Located<String>,
    /// A value that is no text becomes JSON, not what a prompt would show.
    pub(crate) is_json: bool,
}

/// A grader, and what it needs of each row.
pub(crate) struct GraderEntry {
    pub(crate) spec: GraderSpec,
    pub(crate) material: Vec<Material>,
    /// A row whose target is empty has no answer, and is no mistake.
    pub(crate) unanswerable: bool,
}

impl GraderEntry {
    const fn plain(spec: GraderSpec) -> Self {
        Self::with(spec, Vec::new())
    }

    /// With what it needs of each row.
    pub(crate) const fn with(spec: GraderSpec, material: Vec<Material>) -> Self {
        Self {
            spec,
            material,
            unanswerable: false,
        }
    }
}

/// Reads the whole table; `None` when no grader can be made of it, after reporting why.
pub(crate) fn decode(mut fields: Fields<'_, '_>) -> Option<GraderEntry> {
    let kind = fields.required::<String>("kind", |kind| known_kind(kind))?.value;
    if kind == "code" {
        let decoded = code_spec::decode(&mut fields);
        finish(fields, &kind);
        return decoded.map(|(spec, material)| GraderEntry::with(spec, material));
    }
    if kind == "judge" {
        let decoded = judge_spec::decode(&mut fields);
        finish(fields, &kind);
        return decoded.map(|(spec, material)| GraderEntry::with(spec, material));
    }
    if matches!(kind.as_str(), "instructions" | "json_schema" | "command") {
        let decoded = match kind.as_str() {
            "instructions" => material::instructions(&mut fields),
            "json_schema" => material::json_schema(&mut fields),
            _ => material::command(&mut fields),
        };
        finish(fields, &kind);
        return decoded;
    }
    let spec = match kind.as_str() {
        "exact" => Some(exact(&mut fields)),
        "regex" => regex_chain(&mut fields),
        "math" => Some(GraderSpec::Math {
            pattern: pattern(&mut fields),
        }),
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
        _ => None,
    };
    let unanswerable = matches!(kind.as_str(), "exact" | "f1") && unanswerable(&mut fields, spec.as_ref());
    finish(fields, &kind);
    spec.map(|spec| GraderEntry {
        unanswerable,
        ..GraderEntry::plain(spec)
    })
}

fn unanswerable(fields: &mut Fields<'_, '_>, spec: Option<&GraderSpec>) -> bool {
    let is_said = flag(fields, "unanswerable");
    let line = fields.line_of_field("unanswerable");
    if is_said && fields.is_for_stored_items() {
        fields.error(
            "unanswerable",
            line,
            "is said by the suite: stored items keep their targets",
        );
    }
    if is_said && matches!(spec, Some(GraderSpec::F1 { words: Words::Drop })) {
        fields.error(
            "unanswerable",
            line,
            "is for words = \"squad\": DROP has an answer to every question",
        );
    }
    is_said
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

/// The switches of the first version stay what they are; named normalisers are a grader of their own.
fn exact(fields: &mut Fields<'_, '_>) -> GraderSpec {
    let (ignore_case, ignore_punctuation) = (flag(fields, "ignore_case"), flag(fields, "ignore_punctuation"));
    let mut normalisers: Vec<Normaliser> = or_default(fields, "normalisers", Vec::new());
    if normalisers.is_empty() {
        return GraderSpec::Exact {
            ignore_case,
            ignore_punctuation,
        };
    }
    if ignore_case {
        normalisers.push(Normaliser::Case);
    }
    if ignore_punctuation {
        normalisers.extend([Normaliser::Punctuation, Normaliser::Whitespace]);
    }
    normalisers.sort_unstable();
    normalisers.dedup();
    GraderSpec::ExactNormalised { normalisers }
}

/// One pattern alone stays what it is; with a group, normalisers or fallbacks it is a chain.
fn regex_chain(fields: &mut Fields<'_, '_>) -> Option<GraderSpec> {
    let pattern = fields.required("pattern", compiles);
    let take = or_default(fields, "take", TAKE);
    let ignore_case = flag(fields, "ignore_case");
    let group = fields.optional("group", any::<u32>);
    let fallbacks: Vec<String> = fields.or_default("fallbacks", Vec::new(), |patterns: &Vec<String>| {
        patterns.iter().try_for_each(compiles)
    });
    let mut normalisers: Vec<Normaliser> = or_default(fields, "normalisers", Vec::new());
    let pattern = pattern?;
    if let Some(group) = &group {
        let groups = groups(&pattern.value);
        if group.value >= groups {
            let message = format!("must be below {groups}: the pattern's groups, and 0 for the whole match");
            fields.error("group", group.line, message);
        }
    }
    let group = group.map(|group| group.value);
    if group.is_none() && fallbacks.is_empty() && normalisers.is_empty() {
        return Some(GraderSpec::Regex {
            pattern: pattern.value,
            take,
            ignore_case,
        });
    }
    if ignore_case {
        normalisers.push(Normaliser::Case);
    }
    normalisers.sort_unstable();
    normalisers.dedup();
    let first = AnswerPattern {
        pattern: pattern.value,
        group,
        take,
    };
    let others = fallbacks.into_iter().map(|pattern| AnswerPattern {
        pattern,
        group: None,
        take,
    });
    Some(GraderSpec::RegexChain {
        patterns: std::iter::once(first).chain(others).collect(),
        normalisers,
    })
}

/// The groups of a pattern that compiles, the whole match among them.
fn groups(pattern: &str) -> u32 {
    let groups = regex::Regex::new(pattern).map_or(0, |pattern| pattern.captures_len());
    u32::try_from(groups).unwrap_or(u32::MAX)
}

fn known_kind(kind: &str) -> Result<(), String> {
    if AVAILABLE.contains(&kind) {
        return Ok(());
    }
    let available = AVAILABLE.join(", ");
    let nearest = nearest(kind, &AVAILABLE).unwrap_or_default();
    Err(format!(
        "grader kind {kind:?} is unknown; did you mean {nearest}? available: {available}"
    ))
}

pub(crate) fn flag(fields: &mut Fields<'_, '_>, name: &'static str) -> bool {
    or_default(fields, name, false)
}

pub(crate) fn or_default<T: DeserializeOwned + 'static>(
    fields: &mut Fields<'_, '_>,
    name: &'static str,
    default: T,
) -> T {
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
