//! Functions of Python modules that are done here.
//!
//! A task file may name a function in a module beside it. No Python is run: the module's text is looked at, and where the
//! function has one of the shapes below it is done natively. Any other shape is refused, so an edited function is never taken
//! for the one it was.
//!
//! | shape | key | what it does |
//! | --- | --- | --- |
//! | `filter-equal` | `process_docs` | keeps the rows whose column equals a text: `dataset.filter(lambda x: x["c"] == p)` behind `partial` |
//! | `filter-subject` | `process_docs` | the same, the column cut at `_test.csv` or `_test-` |
//! | `filter-not-empty` | `process_docs` | keeps the rows whose list column is not empty |
//! | `lookup` | `doc_to_target`, `doc_to_text` | the entry of a fixed dictionary for a column: `{0: "a"}[doc["c"]]` |
//! | `literal` | `doc_to_choice` | the list that a text column spells: `ast.literal_eval(doc["c"])` |
//! | `format` | `doc_to_text` | a fixed text with columns in it: `"..{q}..".format(q=doc["q"])` |
//! | `options` | `doc_to_text`, `fewshot_config.doc_to_text` | a question and its lettered options, with the words of a language table |
//! | `weighted-f1` | `metric_list[].aggregation` | `lm_eval.utils.weighted_f1_score` |
//! | `micro-f1` | `metric_list[].aggregation` | scikit-learn's F1 with `average="micro"` |

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;

use fancy_regex::Regex;
use serde_json::{Map, Value as Json};

use crate::python;

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
    /// Those whose column is a list with something in it.
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
                _ => Err(format!("process_docs: column {column} is no list")),
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
    /// The entry for a column's value; keys as Python's `str` prints them.
    Lookup {
        /// The column.
        column: String,
        /// The dictionary.
        entries: Map<String, Json>,
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
                let key = python::str(column(name)?);
                entries
                    .get(&key)
                    .cloned()
                    .ok_or_else(|| format!("column {name} is {key}, which has no entry"))
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

/// A Python module beside a task file, as text.
struct Module {
    /// White space collapsed, comments and the rest as they are.
    flat: String,
    text: String,
}

fn module(name: &str, file: &Path) -> Option<(Module, String)> {
    let (path, function) = name.rsplit_once('.')?;
    let beside = file.parent()?.join(format!("{}.py", path.replace('.', "/")));
    let text = std::fs::read_to_string(beside).ok()?;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some((Module { flat, text }, function.to_owned()))
}

/// The rule behind a `process_docs`.
#[must_use]
pub fn rows(name: &str, file: &Path) -> Option<RowRule> {
    let (module, function) = module(name, file)?;
    let equal = |definition: &str, value: &str| {
        let pattern = format!(
            r#"def {definition}\((?:dataset|dataset: datasets\.Dataset), (\w+)\)(?: -> datasets\.Dataset)?: return dataset\.filter\( ?lambda (\w+): \2\["([^"]+)"\] == (?:\1|f"([^"{{}}]*)\{{\1\}}") ?\)"#
        );
        let found = captures(&pattern, &module.flat)?;
        let prefix = found.get(4).cloned().unwrap_or_default();
        Some(RowRule::Equal {
            column: found.get(3)?.clone(),
            value: format!("{prefix}{value}"),
            marks: Vec::new(),
        })
    };
    let partial = format!(r#"(?:^|[ )\]]){function} = partial\( ?(\w+), \w+="([^"\\]*)" ?\)"#);
    if let Some(found) = captures(&partial, &module.flat) {
        return equal(found.get(1)?, found.get(2)?);
    }
    not_empty(&module, &function)
        .or_else(|| generated(&module, &function).and_then(|(definition, value)| equal(&definition, &value)))
        .or_else(|| subject(&module, &function, file))
}

fn not_empty(module: &Module, function: &str) -> Option<RowRule> {
    let pattern = format!(
        r#"def {function}\(dataset\): (?:"""(?:[^"]|"(?!""))*""" )?return dataset\.filter\(lambda (\w+): len\(\1\["([^"]+)"\]\) > 0\)"#
    );
    let column = captures(&pattern, &module.flat)?.get(2)?.clone();
    Some(RowRule::NotEmpty { column })
}

/// Functions that a comprehension makes: one for each text of a list, named after it.
fn generated(module: &Module, function: &str) -> Option<(String, String)> {
    let idiom = r#"process_functions = \{ f"process_\{(\w+)((?:\.lower\(\)|\.replace\('[^']*', '[^']*'\))*)\}": partial\( ?(\w+), \w+=\1 ?\) for \1 in (\w+) \} globals\(\)\.update\(process_functions\)"#;
    let found = captures(idiom, &module.flat)?;
    let (changes, definition, list) = (found.get(2)?, found.get(3)?, found.get(4)?);
    let texts = assigned(&module.text, list)?;
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
    Some((definition.clone(), value.to_owned()))
}

const SUBJECT_FILTER: &str = r#"for marker in ("_test.csv", "_test-"): idx = name.find(marker) if idx != -1: return name[:idx] return name def _filter_subject(dataset, subject): normalized = subject def _predicate(row, target=normalized): row_subject = _normalize_subject_name(row["Subject"]) return row_subject == target return dataset.filter(_predicate) def _register_subject_filters(): for subject in SUBJECTS: globals()[f"process_{subject}"] = partial(_filter_subject, subject=subject) _register_subject_filters()"#;
const SUBJECT_LIST: &str = r#"SUBJECTS_PATH = Path(__file__).resolve().parent.parent / "subjects.json" with SUBJECTS_PATH.open(encoding="utf-8") as f: SUBJECTS = json.load(f)"#;

fn subject(module: &Module, function: &str, file: &Path) -> Option<RowRule> {
    let value = function.strip_prefix("process_")?;
    if !module.flat.ends_with(SUBJECT_FILTER) || !module.flat.contains(SUBJECT_LIST) {
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
    let (module, function) = module(name, file)?;
    lookup(&module, &function)
        .or_else(|| literal(&module, &function))
        .or_else(|| format(&module, &function))
        .or_else(|| option_list(&module, &function, file))
}

fn lookup(module: &Module, function: &str) -> Option<TextRule> {
    let pattern = format!(r#"def {function}\(doc\): (\w+) = (\{{[^{{}}]*\}}) return \1\[doc\["([^"]+)"\]\](?= |$)"#);
    let found = captures(&pattern, &module.flat)?;
    match python::literal(found.get(2)?).ok()? {
        Json::Object(entries) => Some(TextRule::Lookup {
            column: found.get(3)?.clone(),
            entries,
        }),
        _ => None,
    }
}

fn literal(module: &Module, function: &str) -> Option<TextRule> {
    let pattern =
        format!(r#"def {function}\(doc\): (\w+) = ast\.literal_eval\(doc\["([^"]+)"\]\) return \1(?= def |$)"#);
    let column = captures(&pattern, &module.flat)?.get(2)?.clone();
    Some(TextRule::Literal { column })
}

/// `output = """..""" [choices = ast.literal_eval(doc["choices"])] text = output.format(a=doc["a"], ..) return text`.
fn format(module: &Module, function: &str) -> Option<TextRule> {
    let start = module.text.find(&format!("def {function}(doc):\n"))?;
    let body = &module.text[start..];
    let body = &body[body.find('\n')? + 1..];
    let body = body.strip_prefix("    output = \"\"\"")?;
    let (text, rest) = body.split_once("\"\"\"")?;
    let end = rest.find("\ndef ").unwrap_or(rest.len());
    let rest = rest[..end].split_whitespace().collect::<Vec<_>>().join(" ");
    let pattern = r#"^(?:choices = ast\.literal_eval\(doc\["(\w+)"\]\) )?text = output\.format\( ?((?:\w+=(?:doc\["\w+"\]|choices\[\d+\])(?:, ?)?)*)\) return text$"#;
    let found = captures(pattern, &rest)?;
    let spelled = found.get(1)?.clone();
    let mut places: HashMap<String, Part> = HashMap::new();
    for argument in found
        .get(2)?
        .split(',')
        .map(str::trim)
        .filter(|argument| !argument.is_empty())
    {
        let (name, value) = argument.split_once('=')?;
        let part = match value.strip_prefix("doc[\"") {
            Some(column) => Part::Column(column.strip_suffix("\"]")?.to_owned()),
            None => {
                let at = value.strip_prefix("choices[")?.strip_suffix(']')?;
                Part::Element(spelled.clone(), at.parse().ok()?)
            }
        };
        places.insert(name.to_owned(), part);
    }
    if text.contains('\\') {
        return None;
    }
    parts(text, &places).map(|parts| TextRule::Format { parts })
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

const OPTION_LIST: &str = r#"lang_abbr = basename(dirname(__file__)) lang_dict = LANG_LIBS[lang_abbr] choices = [ "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P", ] max_opt_num = 10 def format_cot_example(example, including_answer=True): prompt = f"{lang_dict[0]}\n" question = example["question"] prompt += question + "\n" prompt += f"{lang_dict[1]}\n" for i in range(max_opt_num): opt = example[f"option_{i}"] if opt is not None: prompt += "{}. {}\n".format(choices[i], opt) if including_answer: cot_content = example["cot_content"].replace(lang_dict[4], lang_dict[2]) prompt += cot_content + "\n\n" else: prompt += lang_dict[2] return prompt "#;

fn option_list(module: &Module, function: &str, file: &Path) -> Option<TextRule> {
    if !module.flat.contains(OPTION_LIST) {
        return None;
    }
    let pattern = format!(r"(?:^| ){function} = partial\(format_cot_example, including_answer=(True|False)\)");
    let with_answer = captures(&pattern, &module.flat)?.get(1)? == "True";
    let folder = file.parent()?;
    let language = folder.file_name()?.to_str()?;
    let table = std::fs::read_to_string(folder.parent()?.join("lang_libs.py")).ok()?;
    let table = assigned(&table, "LANG_LIBS")?;
    let words = table.get(language)?.as_array()?.iter();
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
    let (module, function) = module(name, file)?;
    let import = format!(r"from lm_eval\.utils import (?:\w+, )*{function}(?![\w])");
    if function == "weighted_f1_score" && captures(&import, &module.flat).is_some() {
        return Some(AggregationRule::WeightedF1);
    }
    let micro = format!(
        r#"def {function}\(items\): unzipped_list = list\(zip\(\*items\)\) golds = unzipped_list\[0\] preds = unzipped_list\[1\] fscore = f1_score\(golds, preds, average="(micro|weighted)"\) return fscore"#
    );
    let imports = module.flat.contains("from sklearn.metrics import f1_score");
    let average = captures(&micro, &module.flat)?;
    let rule = if average.get(1)? == "micro" {
        AggregationRule::MicroF1
    } else {
        AggregationRule::WeightedF1
    };
    imports.then_some(rule)
}

/// The literal that a module assigns to a name at its top level.
fn assigned(text: &str, name: &str) -> Option<Json> {
    let start = if text.starts_with(&format!("{name} = ")) {
        0
    } else {
        text.find(&format!("\n{name} = "))? + 1
    };
    let value = &text[start + name.len() + 3..];
    let closing = match value.chars().next()? {
        '[' => "\n]",
        '{' => "\n}",
        _ => return None,
    };
    let end = value.find(closing)? + closing.len();
    python::literal(&value[..end]).ok()
}

/// The groups of the first match; each pattern is compiled once.
fn captures(pattern: &str, text: &str) -> Option<Vec<String>> {
    static COMPILED: Mutex<Option<HashMap<String, Option<Regex>>>> = Mutex::new(None);
    let regex = {
        let mut compiled = COMPILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let compiled = compiled.get_or_insert_default();
        compiled
            .entry(pattern.to_owned())
            .or_insert_with(|| Regex::new(pattern).ok())
            .clone()?
    };
    let found = regex.captures(text).ok()??;
    let group = |at| {
        found
            .get(at)
            .map_or_else(String::new, |group| group.as_str().to_owned())
    };
    Some((0..found.len()).map(group).collect())
}
