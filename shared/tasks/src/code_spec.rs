//! Reads the grader table of kind `code`, and checks what its templates give.

use tidemill_domain::{CodeLanguage, CodeLimits, GraderSpec};

use crate::fields::{Fields, Located, any, nearest};
use crate::grader_spec::Material;
use crate::suite::{LANGUAGE, PROGRAM};
use crate::template;

const LANGUAGES: [&str; 2] = ["python", "command"];

/// The templates of each language, and whether they must be there.
const OF_PYTHON: [(&str, &str, bool); 4] = [
    ("prefix", "grader.prefix", false),
    ("prelude", "grader.prelude", false),
    ("tests", "grader.tests", true),
    ("entry_point", "grader.entry_point", true),
];
const OF_COMMAND: [(&str, &str, bool); 3] = [
    ("prefix", "grader.prefix", false),
    ("input", "grader.input", false),
    ("expected", "grader.expected", true),
];

/// The options of this kind alone.
pub(crate) const OPTIONS: [&str; 13] = [
    "language",
    "program",
    "prefix",
    "prelude",
    "tests",
    "entry_point",
    "command",
    "file",
    "input",
    "expected",
    "cpu_seconds",
    "wall_seconds",
    "memory_mib",
];

/// Reads what follows the kind; `None` when no grader can be made of it, after reporting why.
pub(crate) fn decode(fields: &mut Fields<'_, '_>) -> Option<(GraderSpec, Vec<Material>)> {
    let language = fields.or_default("language", LANGUAGE.to_owned(), known_language);
    let program = fields.or_default("program", PROGRAM, any);
    let limits = limits(fields);
    let (language, templates) = match language.as_str() {
        "command" => (command(fields), &OF_COMMAND[..]),
        _ => (Some(CodeLanguage::Python), &OF_PYTHON[..]),
    };
    let mut is_whole = true;
    let mut material = Vec::new();
    for (name, field, is_needed) in templates {
        // Whether stored items have it shows where they are read.
        if *is_needed && !fields.is_for_stored_items() && fields.raw(name).is_none() {
            fields.missing(name);
            is_whole = false;
        }
        if let Some(source) = fields.optional(name, |source: &String| template::check(source)) {
            let name = (*name).into();
            material.push(Material {
                name,
                field,
                source,
                is_json: false,
            });
        } else {
            is_whole &= fields.raw(name).is_none();
        }
    }
    let spec = GraderSpec::Code {
        language: language?,
        program,
        limits,
    };
    is_whole.then_some((spec, material))
}

fn known_language(language: &String) -> Result<(), String> {
    if LANGUAGES.contains(&language.as_str()) {
        return Ok(());
    }
    let nearest = nearest(language, &LANGUAGES).unwrap_or_default();
    Err(format!(
        "{language:?} is unknown; did you mean {nearest}? available: {}",
        LANGUAGES.join(", ")
    ))
}

fn limits(fields: &mut Fields<'_, '_>) -> CodeLimits {
    let default = CodeLimits::default();
    let least = |least: u32| {
        move |value: &u32| match *value >= least {
            true => Ok(()),
            false => Err(format!("must be at least {least}, but is {value}")),
        }
    };
    CodeLimits {
        cpu_seconds: fields.or_default("cpu_seconds", default.cpu_seconds, least(1)),
        wall_seconds: fields.or_default("wall_seconds", default.wall_seconds, least(1)),
        memory_mib: fields.or_default("memory_mib", default.memory_mib, least(64)),
    }
}

fn command(fields: &mut Fields<'_, '_>) -> Option<CodeLanguage> {
    let argv = fields.required("command", |argv: &Vec<String>| match argv.first() {
        None => Err("is empty: it needs the path of a program".to_owned()),
        Some(program) if !program.starts_with('/') => Err(format!("{program:?} is no absolute path")),
        Some(_) => Ok(()),
    });
    let file = fields.optional("file", |file: &String| match file.is_empty() || file.contains('/') {
        true => Err(format!("{file:?} is no name of a file")),
        false => Ok(()),
    });
    Some(CodeLanguage::Command {
        argv: argv?.value,
        file: file.map_or_else(|| "program".to_owned(), |file: Located<String>| file.value),
    })
}

/// Checks what a template gave for one row.
pub(crate) fn checked(name: &str, text: String) -> Result<String, String> {
    let is_identifier = |name: &str| {
        let mut letters = name.chars();
        letters
            .next()
            .is_some_and(|first| first.is_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    let mut names = text
        .split([',', ' ', '\n', '\t'])
        .filter(|name| !name.is_empty())
        .peekable();
    match name {
        "entry_point" if names.peek().is_none() => Err("names no function".to_owned()),
        "entry_point" => match names.find(|name| !is_identifier(name)) {
            Some(wrong) => Err(format!("{wrong:?} is no name of a function")),
            None => Ok(text),
        },
        "tests" if text.trim().is_empty() => Err("is empty".to_owned()),
        _ => Ok(text),
    }
}
