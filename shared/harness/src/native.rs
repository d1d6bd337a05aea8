//! Functions of Python modules that are done here.
//!
//! A task file may name a function in a module beside it. No Python is run: the module's text is looked at, and where the
//! function has one of the shapes below, from its first letter to its last, it is done natively. Any other shape is refused, so
//! an edited function is never taken for the one it was. So is one that has a decorator, that is bound more than once, or whose
//! module gives a name that it uses another meaning.
//!
//! | shape | key | what it does |
//! | --- | --- | --- |
//! | `filter-equal` | `process_docs` | keeps the rows whose column equals a text: `dataset.filter(lambda x: x["c"] == p)` behind `partial` |
//! | `filter-subject` | `process_docs` | the same, the column cut at `_test.csv` or `_test-` |
//! | `filter-not-empty` | `process_docs` | keeps the rows whose list or text is not empty |
//! | `lookup` | `doc_to_target`, `doc_to_text` | the entry of a fixed dictionary for a column: `{0: "a"}[doc["c"]]` |
//! | `literal` | `doc_to_choice` | the list that a text column spells: `ast.literal_eval(doc["c"])` |
//! | `format` | `doc_to_text` | a fixed text with columns in it: `"..{q}..".format(q=doc["q"])` |
//! | `options` | `doc_to_text`, `fewshot_config.doc_to_text` | a question and its lettered options, with the words of a language table |
//! | `weighted-f1` | `metric_list[].aggregation` | `lm_eval.utils.weighted_f1_score` |
//! | `micro-f1` | `metric_list[].aggregation` | scikit-learn's F1 with `average="micro"` |

mod module;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;

use fancy_regex::Regex;
use serde_json::{Map, Value as Json};

use crate::python;
use module::Module;

/// Which rows of a split are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowRule {
    /// Those whose column is this text, after everything from the first of the marks on was cut off.
    Equal {
        /// The column.
        column: String,
        /// What it must be.
        value: String,
        /// Where the column's text ends.
        marks: Vec<String>,
    },
    /// Those whose column is a list or text with something in it.
    NotEmpty {
        /// The column.
        column: String,
    },
}

impl RowRule {
    /// Whether a row is kept.
    ///
    /// # Errors
    /// The row has no such column.
    pub fn keeps(&self, row: &Map<String, Json>) -> Result<bool, String> {
        match self {
            Self::Equal { column, value, marks } => {
                let found = row
                    .get(column)
                    .ok_or_else(|| format!("process_docs: column {column} is missing"))?;
                let Json::String(text) = found else {
                    return Ok(false);
                };
                let end = marks.iter().find_map(|mark| text.find(mark)).unwrap_or(text.len());
                Ok(&text[..end] == value)
            }
            Self::NotEmpty { column } => match row.get(column) {
                Some(Json::Array(values)) => Ok(!values.is_empty()),
                Some(Json::String(text)) => Ok(!text.is_empty()),
                _ => Err(format!("process_docs: column {column} is no list or text")),
            },
        }
    }

    /// The name of the shape.
    #[must_use]
    pub fn shape(&self) -> &'static str {
        match self {
            Self::Equal { marks, .. } if marks.is_empty() => "filter-equal",
            Self::Equal { .. } => "filter-subject",
            Self::NotEmpty { .. } => "filter-not-empty",
        }
    }
}

/// A text made of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum TextRule {
    /// The entry for a column's value.
    Lookup {
        /// The column.
        column: String,
        /// The dictionary; of equal keys the last one counts.
        entries: Vec<(Json, Json)>,
    },
    /// The list that a column spells.
    Literal {
        /// The column.
        column: String,
    },
    /// A text with places for columns, or for elements of the list that a column spells.
    Format {
        /// Text and places in turn.
        parts: Vec<Part>,
    },
    /// A question, its options behind letters, and then the answer's first words or a whole worked answer.
    Options {
        /// The words of the language.
        words: Vec<String>,
        /// Whether the worked answer follows.
        with_answer: bool,
    },
}

/// A piece of a formatted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// As it is.
    Text(String),
    /// A column's value.
    Column(String),
    /// An element of the list that a column spells.
    Element(String, usize),
}

impl TextRule {
    /// The value for one row.
    ///
    /// # Errors
    /// The row lacks a column, or holds something else in it.
    pub fn apply(&self, row: &Map<String, Json>) -> Result<Json, String> {
        let column = |name: &str| row.get(name).ok_or_else(|| format!("column {name} is missing"));
        match self {
            Self::Lookup { column: name, entries } => {
                let key = column(name)?;
                python::entry(entries, key)
                    .cloned()
                    .ok_or_else(|| format!("column {name} is {}, which has no entry", python::repr(key)))
            }
            Self::Literal { column: name } => list(column(name)?).map(Json::Array),
            Self::Format { parts } => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        Part::Text(piece) => text.push_str(piece),
                        Part::Column(name) => text.push_str(&python::str(column(name)?)),
                        Part::Element(name, at) => {
                            let values = list(column(name)?)?;
                            let value = values
                                .get(*at)
                                .ok_or_else(|| format!("column {name} has no element {at}"))?;
                            text.push_str(&python::str(value));
                        }
                    }
                }
                Ok(Json::String(text))
            }
            Self::Options { words, with_answer } => options(row, words, *with_answer).map(Json::String),
        }
    }

    /// The name of the shape.
    #[must_use]
    pub fn shape(&self) -> &'static str {
        match self {
            Self::Lookup { .. } => "lookup",
            Self::Literal { .. } => "literal",
            Self::Format { .. } => "format",
            Self::Options { .. } => "options",
        }
    }
}

fn list(value: &Json) -> Result<Vec<Json>, String> {
    match value {
        Json::String(text) => match python::literal(text)? {
            Json::Array(values) => Ok(values),
            _ => Err("spells no list".to_owned()),
        },
        _ => Err("is no text that spells a list".to_owned()),
    }
}

fn options(row: &Map<String, Json>, words: &[String], with_answer: bool) -> Result<String, String> {
    let text = |name: &str| match row.get(name) {
        Some(Json::String(text)) => Ok(text.clone()),
        _ => Err(format!("column {name} holds no text")),
    };
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    let mut prompt = format!("{}\n{}\n{}\n", word(0), text("question")?, word(1));
    for (at, letter) in ('A'..='J').enumerate() {
        let name = format!("option_{at}");
        match row.get(&name) {
            None => return Err(format!("column {name} is missing")),
            Some(Json::Null) => {}
            Some(option) => prompt.push_str(&format!("{letter}. {}\n", python::str(option))),
        }
    }
    if with_answer {
        prompt.push_str(&text("cot_content")?.replace(word(4), word(2)));
        prompt.push_str("\n\n");
    } else {
        prompt.push_str(word(2));
    }
    Ok(prompt)
}

const PARTIAL: &str = r"from functools import \(?(?: ?\w+,)* ?partial(?:, \w+)*,? ?\)?";
/// A text between triple quotes, without escapes.
const TRIPLE: &str = r#"(?:[^"\\]|"(?!""))*"#;

/// The rule behind a `process_docs`.
#[must_use]
pub fn rows(name: &str, file: &Path) -> Option<RowRule> {
    let (module, function) = Module::beside(file, name)?;
    not_empty(&module, &function)
        .or_else(|| partial(&module, &function))
        .or_else(|| generated(&module, &function))
        .or_else(|| subject(&module, &function, file))
}

fn not_empty(module: &Module, function: &str) -> Option<RowRule> {
    let pattern = format!(
        r#"def {function}\((?:dataset|dataset: datasets\.Dataset)\)(?: -> datasets\.Dataset)?:\n    (?:"""{TRIPLE}"""\n    )?return dataset\.filter\( ?lambda (\w+): len\(\1\["([^"\\]+)"\]\) > 0 ?\)"#
    );
    let column = captures(&pattern, module.bound(function, &[])?)?.get(2)?.clone();
    module.leaves("len").then_some(RowRule::NotEmpty { column })
}

/// A comparison whose text a `partial` gives.
fn partial(module: &Module, function: &str) -> Option<RowRule> {
    let pattern = format!(r#"{function} = partial\( ?(\w+), (\w+)="([^"\\]*)",? ?\)"#);
    let found = captures(&pattern, module.bound(function, &[])?)?;
    equal(module, &[], found.get(1)?, found.get(2)?, found.get(3)?)
}

/// The rows whose column is what a function compares it with, behind `partial`.
fn equal(module: &Module, idioms: &[&str], definition: &str, parameter: &str, value: &str) -> Option<RowRule> {
    let pattern = format!(
        r#"def {definition}\((?:dataset|dataset: datasets\.Dataset), {parameter}\)(?: -> datasets\.Dataset)?:\n    return dataset\.filter\( ?lambda (?!{parameter}\b)(\w+): \1\["([^"\\]+)"\] == (?:{parameter}|f"([^"{{}}\\]*)\{{{parameter}\}}") ?\)"#
    );
    let found = captures(&pattern, module.bound(definition, idioms)?)?;
    let prefix = found.get(3).cloned().unwrap_or_default();
    module.binds_as("partial", idioms, PARTIAL).then_some(RowRule::Equal {
        column: found.get(2)?.clone(),
        value: format!("{prefix}{value}"),
        marks: Vec::new(),
    })
}

const UPDATE: &str = "globals().update(process_functions)";
const GENERATED: &str = r#"process_functions = \{ f"process_\{(\w+)((?:\.lower\(\)|\.replace\('[^'\\]*', '[^'\\]*'\))*)\}": partial\( ?(\w+), (\w+)=\1,? ?\) for \1 in (\w+) \}"#;

/// Functions that a comprehension makes: one for each text of a list, named after it.
fn generated(module: &Module, function: &str) -> Option<RowRule> {
    let idioms = [UPDATE];
    let found = captures(GENERATED, module.bound("process_functions", &idioms)?)?;
    let (changes, definition, parameter, list) = (found.get(2)?, found.get(3)?, found.get(4)?, found.get(5)?);
    // What else spoke of the list or of what is made of it could change it.
    let is_fixed = module.has(UPDATE) && module.mentions("process_functions") == 2 && module.mentions(list) == 2;
    if !is_fixed || !module.leaves(function) {
        return None;
    }
    let texts = literal_of(module.bound(list, &idioms)?, list)?;
    let changed = |text: &str| {
        let mut text = text.to_owned();
        for change in changes
            .split(").")
            .map(|change| change.trim_start_matches('.').trim_end_matches(')'))
        {
            if change.starts_with("lower(") {
                text = text.to_lowercase();
            } else if let Some(pair) = change.strip_prefix("replace(")
                && let Ok(Json::Array(pair)) = python::literal(&format!("[{pair}]"))
                && let [Json::String(from), Json::String(to)] = pair.as_slice()
            {
                text = text.replace(from.as_str(), to);
            }
        }
        format!("process_{text}")
    };
    let mut texts = texts.as_array()?.iter().filter_map(Json::as_str);
    let value = texts.rfind(|text| changed(text) == function)?;
    equal(module, &idioms, definition, parameter, value)
}

const SUBJECT_TABLE: &str = r#"with SUBJECTS_PATH.open(encoding="utf-8") as f:
    SUBJECTS = json.load(f)"#;
const SUBJECT_PATH: &str = r#"SUBJECTS_PATH = Path(__file__).resolve().parent.parent / "subjects.json""#;
const SUBJECT_NAME: &str = r#"    if not isinstance(name, str):
        return name
    for marker in ("_test.csv", "_test-"):
        idx = name.find(marker)
        if idx != -1:
            return name[:idx]
    return name"#;
const SUBJECT_FILTER: &str = r#"def _filter_subject(dataset, subject):
    normalized = subject
    def _predicate(row, target=normalized):
        row_subject = _normalize_subject_name(row["Subject"])
        return row_subject == target
    return dataset.filter(_predicate)"#;
const SUBJECT_LOOP: &str = r#"def _register_subject_filters():
    for subject in SUBJECTS:
        globals()[f"process_{subject}"] = partial(_filter_subject, subject=subject)"#;

fn subject(module: &Module, function: &str, file: &Path) -> Option<RowRule> {
    let value = function.strip_prefix("process_")?;
    let idioms = [SUBJECT_LOOP];
    let is = |name: &str, text: &str| module.bound(name, &idioms) == Some(text);
    let name = format!(
        r#"def _normalize_subject_name\(name: str\) -> str:\n(?:    """{TRIPLE}"""\n)?{}"#,
        fancy_regex::escape(SUBJECT_NAME)
    );
    let is_known = is("SUBJECTS_PATH", SUBJECT_PATH)
        && is("SUBJECTS", SUBJECT_TABLE)
        && is("_filter_subject", SUBJECT_FILTER)
        && is("_register_subject_filters", SUBJECT_LOOP)
        && is("json", "import json")
        && is("Path", "from pathlib import Path")
        && module.binds_as("partial", &idioms, PARTIAL)
        && module.binds_as("_normalize_subject_name", &idioms, &name)
        && module.has("_register_subject_filters()")
        && module.mentions("SUBJECTS") == 2
        && module.leaves("isinstance")
        && module.leaves(function);
    if !is_known {
        return None;
    }
    let listed = std::fs::read_to_string(file.parent()?.parent()?.join("subjects.json")).ok()?;
    let listed: Json = serde_json::from_str(&listed).ok()?;
    let is_listed = match &listed {
        Json::Array(names) => names.iter().any(|name| name.as_str() == Some(value)),
        Json::Object(names) => names.contains_key(value),
        _ => false,
    };
    is_listed.then(|| RowRule::Equal {
        column: "Subject".to_owned(),
        value: value.to_owned(),
        marks: vec!["_test.csv".to_owned(), "_test-".to_owned()],
    })
}

/// The rule behind a function that makes a text or list of a row.
#[must_use]
pub fn text(name: &str, file: &Path) -> Option<TextRule> {
    let (module, function) = Module::beside(file, name)?;
    lookup(&module, &function)
        .or_else(|| literal(&module, &function))
        .or_else(|| format(&module, &function))
        .or_else(|| option_list(&module, &function, file))
}

fn lookup(module: &Module, function: &str) -> Option<TextRule> {
    let pattern = format!(
        r#"def {function}\(doc\):\n    (?!doc\b)(\w+) = (\{{[^{{}}]*\}})\n    return \1\[doc\["([^"\\]+)"\]\]"#
    );
    let found = captures(&pattern, module.bound(function, &[])?)?;
    Some(TextRule::Lookup {
        column: found.get(3)?.clone(),
        entries: python::entries(found.get(2)?).ok()?,
    })
}

fn literal(module: &Module, function: &str) -> Option<TextRule> {
    let pattern = format!(
        r#"def {function}\(doc\):\n    (?!doc\b|ast\b)(\w+) = ast\.literal_eval\(doc\["([^"\\]+)"\]\)\n    return \1"#
    );
    let column = captures(&pattern, module.bound(function, &[])?)?.get(2)?.clone();
    spells(module).then_some(TextRule::Literal { column })
}

/// Whether `ast` is the module of Python.
fn spells(module: &Module) -> bool {
    module.bound("ast", &[]) == Some("import ast")
}

/// `output = """..""" [choices = ast.literal_eval(doc["choices"])] text = output.format(a=doc["a"], ..) return text`.
fn format(module: &Module, function: &str) -> Option<TextRule> {
    let pattern = format!(
        r#"def {function}\(doc\):\n    output = """({TRIPLE})"""\n(?:    choices = ast\.literal_eval\(doc\["(\w+)"\]\)\n)?    text = output\.format\( ?((?:\w+=(?:doc\["\w+"\]|choices\[\d+\])(?:, ?)?)*)\)\n    return text"#
    );
    let found = captures(&pattern, module.bound(function, &[])?)?;
    let spelled = found.get(2)?.clone();
    if !spelled.is_empty() && !spells(module) {
        return None;
    }
    let mut places: HashMap<String, Part> = HashMap::new();
    for argument in found
        .get(3)?
        .split(',')
        .map(str::trim)
        .filter(|argument| !argument.is_empty())
    {
        let (name, value) = argument.split_once('=')?;
        let part = match value.strip_prefix("doc[\"") {
            Some(column) => Part::Column(column.strip_suffix("\"]")?.to_owned()),
            None if spelled.is_empty() => return None,
            None => {
                let at = value.strip_prefix("choices[")?.strip_suffix(']')?;
                Part::Element(spelled.clone(), at.parse().ok()?)
            }
        };
        places.insert(name.to_owned(), part);
    }
    parts(found.get(1)?, &places).map(|parts| TextRule::Format { parts })
}

fn parts(text: &str, places: &HashMap<String, Part>) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, after) = rest.split_at(at);
        let (name, tail) = after.strip_prefix('{')?.split_once('}')?;
        parts.push(Part::Text(before.to_owned()));
        parts.push(places.get(name)?.clone());
        rest = tail;
    }
    parts.push(Part::Text(rest.to_owned()));
    Some(parts)
}

const OPTION_LETTERS: &str =
    r#"choices = [ "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P", ]"#;
const OPTION_LIST: &str = r#"def format_cot_example(example, including_answer=True):
    prompt = f"{lang_dict[0]}\n"
    question = example["question"]
    prompt += question + "\n"
    prompt += f"{lang_dict[1]}\n"
    for i in range(max_opt_num):
        opt = example[f"option_{i}"]
        if opt is not None:
            prompt += "{}. {}\n".format(choices[i], opt)
    if including_answer:
        cot_content = example["cot_content"].replace(lang_dict[4], lang_dict[2])
        prompt += cot_content + "\n\n"
    else:
        prompt += lang_dict[2]
    return prompt"#;

fn option_list(module: &Module, function: &str, file: &Path) -> Option<TextRule> {
    let pattern = format!(r"{function} = partial\(format_cot_example, including_answer=(True|False)\)");
    let with_answer = captures(&pattern, module.bound(function, &[])?)?.get(1)? == "True";
    let is = |name: &str, text: &str| module.bound(name, &[]) == Some(text);
    let is_known = is("format_cot_example", OPTION_LIST)
        && is("choices", OPTION_LETTERS)
        && is("max_opt_num", "max_opt_num = 10")
        && is("lang_dict", "lang_dict = LANG_LIBS[lang_abbr]")
        && is("lang_abbr", "lang_abbr = basename(dirname(__file__))")
        && is("basename", "from os.path import basename, dirname")
        && is("dirname", "from os.path import basename, dirname")
        && module.binds_as(
            "LANG_LIBS",
            &[],
            r"from lm_eval\.tasks\.\w+\.lang_libs import LANG_LIBS",
        )
        && module.binds_as("partial", &[], PARTIAL)
        && module.leaves("range")
        && module.mentions("lang_dict") == 2
        && module.mentions("LANG_LIBS") == 2;
    if !is_known {
        return None;
    }
    let folder = file.parent()?;
    let language = folder.file_name()?.to_str()?;
    let table = Module::read(&folder.parent()?.join("lang_libs.py"))?;
    let words = match table.mentions("LANG_LIBS") {
        1 => literal_of(table.bound("LANG_LIBS", &[])?, "LANG_LIBS")?,
        _ => return None,
    };
    let words = words.get(language)?.as_array()?.iter();
    let words: Vec<String> = words
        .map(|word| word.as_str().map(str::to_owned))
        .collect::<Option<_>>()?;
    (words.len() > 4).then_some(TextRule::Options { words, with_answer })
}

/// How the values of a metric become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregationRule {
    /// F1 weighted by the classes' sizes.
    WeightedF1,
    /// F1 over all decisions.
    MicroF1,
}

/// The rule behind an `aggregation`.
#[must_use]
pub fn aggregation(name: &str, file: &Path) -> Option<AggregationRule> {
    let (module, function) = Module::beside(file, name)?;
    // Generated functions of rows bind names of their own.
    let is_harmless = !function.starts_with("process_")
        && module.mentions("process_functions") == 2
        && module.binds_as("process_functions", &[UPDATE], GENERATED);
    let idioms: &[&str] = if is_harmless { &[UPDATE] } else { &[] };
    let imported = |from: &str, name: &str| {
        let pattern = format!(r"from {from} import \(?(?: ?\w+,)* ?{name}(?:, \w+)*,? ?\)?");
        module.binds_as(name, idioms, &pattern)
    };
    if function == "weighted_f1_score" && imported(r"lm_eval\.utils", "weighted_f1_score") {
        return Some(AggregationRule::WeightedF1);
    }
    let pattern = format!(
        r#"def {function}\(items\):\n    unzipped_list = list\(zip\(\*items\)\)\n    golds = unzipped_list\[0\]\n    preds = unzipped_list\[1\]\n    fscore = f1_score\(golds, preds, average="(micro|weighted)"\)\n    return fscore"#
    );
    let average = captures(&pattern, module.bound(&function, idioms)?)?;
    let rule = if average.get(1)? == "micro" {
        AggregationRule::MicroF1
    } else {
        AggregationRule::WeightedF1
    };
    let is_plain = imported(r"sklearn\.metrics", "f1_score") && module.leaves("list") && module.leaves("zip");
    is_plain.then_some(rule)
}

/// The literal that a statement assigns to a name.
fn literal_of(statement: &str, name: &str) -> Option<Json> {
    let value = statement.strip_prefix(name)?.strip_prefix(" = ")?;
    python::literal(value).ok()
}

/// The groups of a pattern that a text is, from its beginning to its end.
fn captures(pattern: &str, text: &str) -> Option<Vec<String>> {
    let regex = compiled(&format!(r"\A(?:{pattern})\z"))?;
    let found = regex.captures(text).ok()??;
    let group = |at| {
        found
            .get(at)
            .map_or_else(String::new, |group| group.as_str().to_owned())
    };
    Some((0..found.len()).map(group).collect())
}

/// Whether a pattern matches anywhere in a text.
fn occurs(pattern: &str, text: &str) -> bool {
    compiled(pattern).is_some_and(|regex| regex.is_match(text).unwrap_or(true))
}

/// Each pattern is compiled once.
fn compiled(pattern: &str) -> Option<Regex> {
    static COMPILED: Mutex<Option<HashMap<String, Option<Regex>>>> = Mutex::new(None);
    let mut compiled = COMPILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let compiled = compiled.get_or_insert_default();
    compiled
        .entry(pattern.to_owned())
        .or_insert_with(|| Regex::new(pattern).ok())
        .clone()
}
