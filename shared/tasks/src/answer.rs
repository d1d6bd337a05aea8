//! What a target and its choices mean to a grader.

use minijinja::Value;
use minijinja::value::ValueKind;
use serde_json::Value as Json;
use tidemill_domain::{GraderSpec, JsonCheck, Normaliser, Words};
use tidemill_scoring::{Normalisation, Rouge};

mod number;

/// Letters name at most this many choices.
const LETTERS: usize = 26;

/// The reference side of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Accepted answers, at least one. One empty text alone stands for a question that has no answer.
    pub(crate) targets: Vec<String>,
    /// The choices as written in the row.
    pub(crate) choices: Vec<String>,
    /// Index of the right choice.
    pub(crate) correct: Option<u32>,
    /// A target that can be read in two ways; says which was taken.
    pub(crate) ambiguity: Option<String>,
}

/// Settles a target and the choices, both as templates gave them. Where rows may be `unanswerable`, an empty target says that
/// one is.
pub(crate) fn resolve(
    grader: &GraderSpec,
    target: &Value,
    choices: Vec<String>,
    unanswerable: bool,
) -> Result<Answer, String> {
    if is_empty_list(target) {
        return match unanswerable {
            true => Ok(Answer::plain(vec![String::new()])),
            false => Err(format!("is an empty list{}", advice(grader))),
        };
    }
    let targets = elements(target)?;
    match grader {
        GraderSpec::Likelihood { .. } => likelihood(&targets, choices),
        GraderSpec::Choice { .. } => letters(&targets, choices),
        GraderSpec::Numeric { .. } => {
            let targets = texts(&targets)?;
            let doubts = targets.iter().map(|target| number::doubt(target));
            let doubts: Vec<Option<String>> = doubts.collect::<Result<_, String>>()?;
            Ok(Answer {
                ambiguity: doubts.into_iter().flatten().next(),
                ..Answer::plain(targets)
            })
        }
        GraderSpec::Exact { .. }
        | GraderSpec::ExactNormalised { .. }
        | GraderSpec::Regex { .. }
        | GraderSpec::RegexChain { .. }
        | GraderSpec::F1 { .. } => wanted(grader, &targets, unanswerable),
        GraderSpec::Math { .. } => {
            let targets = texts(&targets)?;
            if let Some(target) = targets.iter().find(|target| is_no_formula(target)) {
                return Err(format!("{target:?} holds no answer: nothing is left of it but marks"));
            }
            match targets.iter().find(|target| opens_box(target)) {
                Some(target) => Err(format!("{target:?} opens a box and never closes it")),
                None => Ok(Answer::plain(targets)),
            }
        }
        GraderSpec::Code { .. } | GraderSpec::Pipelines { .. } => Ok(Answer::plain(texts(&targets)?)),
        GraderSpec::Rouge { stem, .. } => {
            let targets = texts(&targets)?;
            has_words(&targets, Rouge { stem: *stem })
        }
        GraderSpec::Bleu { .. } | GraderSpec::Chrf { .. } => {
            let targets = texts(&targets)?;
            tidemill_scoring::comparable(&targets).map_err(|error| error.to_string())?;
            Ok(Answer::plain(targets))
        }
        GraderSpec::JsonSchema { check, .. } => {
            let targets = given(&targets)?;
            match targets.iter().find_map(|target| json_error(target)) {
                Some(error) => Err(error),
                None if targets.is_empty() && *check == JsonCheck::Equal => Err("is empty".to_owned()),
                None => Ok(Answer::plain(targets)),
            }
        }
        GraderSpec::Instructions { .. } | GraderSpec::Command { .. } | GraderSpec::Judge(_) => {
            Ok(Answer::plain(given(&targets)?))
        }
    }
}

/// A text as it is, anything else as JSON.
pub(crate) fn text_or_json(value: &Value) -> Result<String, String> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => json_of(value).map(|json| json.to_string()),
    }
}

fn json_of(value: &Value) -> Result<Json, String> {
    let wrong = |error: minijinja::Error| error.to_string();
    match value.kind() {
        ValueKind::None => Ok(Json::Null),
        ValueKind::Bool => Ok(Json::Bool(value.is_true())),
        ValueKind::Number if value.is_integer() => match (value.as_i64(), u64::try_from(value.clone())) {
            (Some(number), _) => Ok(number.into()),
            (None, Ok(number)) => Ok(number.into()),
            (None, Err(_)) => Err(format!("holds {value}, a whole number of more than 64 bits")),
        },
        ValueKind::Number => f64::try_from(value.clone()).map(Json::from).map_err(wrong),
        ValueKind::String => Ok(value.to_string().into()),
        ValueKind::Seq | ValueKind::Iterable => {
            let elements = value.try_iter().map_err(wrong)?.checked();
            elements.map(|element| json_of(&element.map_err(wrong)?)).collect()
        }
        ValueKind::Map => {
            let keys = value.try_iter().map_err(wrong)?.checked();
            let pair = |key: Result<Value, minijinja::Error>| {
                let key = key.map_err(wrong)?;
                let value = value.get_item(&key).map_err(wrong)?;
                Ok((key.to_string(), json_of(&value)?))
            };
            keys.map(pair)
                .collect::<Result<serde_json::Map<_, _>, String>>()
                .map(Json::Object)
        }
        _ => Err(format!("holds {} where JSON is wanted", name(value))),
    }
}

/// What a grader that can do without targets is given: an empty text is none.
fn given(targets: &[Value]) -> Result<Vec<String>, String> {
    let texts = targets.iter().map(text_or_json);
    let is_given = |text: &Result<String, String>| !matches!(text, Ok(text) if text.is_empty());
    texts.filter(is_given).collect()
}

/// What stands around a formula, and nothing within.
fn is_no_formula(target: &str) -> bool {
    const COMMANDS: [&str; 11] = [
        "\\boxed", "\\fbox", "\\textbf", "\\textit", "\\textrm", "\\text", "\\mathrm", "\\mathbf", "\\mbox", "\\quad",
        "~",
    ];
    // Escaped braces are the empty set.
    let mut marks = target.replace("\\{", "s");
    for command in COMMANDS {
        marks = marks.replace(command, "");
    }
    let is_mark = |letter: char| letter.is_whitespace() || "${}\\()[].,;:…?!".contains(letter);
    marks.chars().all(is_mark)
}

/// A box that never closes holds no answer, and as a text it is equal to none.
fn opens_box(target: &str) -> bool {
    let plain = target.replace("\\\\", "").replace("\\{", "").replace("\\}", "");
    let has_box = plain.contains("\\boxed{") || plain.contains("\\fbox{");
    has_box && plain.matches('{').count() > plain.matches('}').count()
}

/// ROUGE compares words of ASCII letters and digits: a target without one equals no answer, and one beside others is in doubt.
fn has_words(targets: &[String], rouge: Rouge) -> Result<Answer, String> {
    let mut wordless = Vec::new();
    for target in targets {
        let own = rouge.score(target, std::slice::from_ref(target));
        if own.map_err(|error| error.to_string())?.one.f1 <= 0.0 {
            wordless.push(target);
        }
    }
    let why = "has no words as ROUGE counts them, which are of the letters a to z and digits";
    match wordless.first() {
        Some(target) if wordless.len() == targets.len() => Err(format!(
            "{target:?} {why}, so that every answer would be worth 0; chrf compares any script"
        )),
        wordless => Ok(Answer {
            ambiguity: wordless.map(|target| format!("{target:?} {why}; take it out")),
            ..Answer::plain(targets.to_vec())
        }),
    }
}

fn json_error(target: &str) -> Option<String> {
    // As it will be read: a number that no float holds, or half a character, is JSON only by its looks.
    let error = serde_json::from_str::<Json>(target).err()?;
    Some(format!("{target:?} is not JSON: {error}"))
}

/// The elements of a value that must be a list of texts or numbers.
pub(crate) fn choice_texts(value: &Value) -> Result<Vec<String>, String> {
    if !is_list(value) {
        return Err(format!("is {}, not a list", name(value)));
    }
    let choices: Vec<String> = elements(value)?.iter().map(text).collect::<Result<_, _>>()?;
    match choices.iter().position(String::is_empty) {
        Some(empty) => Err(format!("choice {empty} is empty")),
        None => Ok(choices),
    }
}

impl Answer {
    fn plain(targets: Vec<String>) -> Self {
        Self {
            targets,
            choices: Vec::new(),
            correct: None,
            ambiguity: None,
        }
    }
}

fn likelihood(targets: &[Value], choices: Vec<String>) -> Result<Answer, String> {
    if choices.len() < 2 {
        return Err(format!("needs at least 2 choices, but has {}", choices.len()));
    }
    let [target] = targets else {
        return Err(format!("must name one choice, but is a list of {}", targets.len()));
    };
    let found = find(target, &choices, false)?;
    Ok(Answer {
        targets: vec![choices[found.index].clone()],
        correct: u32::try_from(found.index).ok(),
        choices,
        ambiguity: found.ambiguity,
    })
}

fn letters(targets: &[Value], choices: Vec<String>) -> Result<Answer, String> {
    if choices.len() > LETTERS {
        return Err(format!("{} choices are more than there are letters", choices.len()));
    }
    if choices.len() == 1 {
        return Err("needs at least 2 choices, but has 1".to_owned());
    }
    let found: Vec<Found> = targets
        .iter()
        .map(|target| find(target, &choices, true))
        .collect::<Result<_, _>>()?;
    let correct = if choices.is_empty() || found.len() != 1 {
        None
    } else {
        u32::try_from(found[0].index).ok()
    };
    Ok(Answer {
        targets: found.iter().map(|found| letter(found.index)).collect(),
        correct,
        choices,
        ambiguity: found.into_iter().find_map(|found| found.ambiguity),
    })
}

struct Found {
    index: usize,
    ambiguity: Option<String>,
}

/// Finds the choice that a target names: an integer by index; a text by equality, then by letter, then by index.
fn find(target: &Value, choices: &[String], by_letter: bool) -> Result<Found, String> {
    if target.is_integer() {
        return Ok(Found {
            index: in_range(target, choices)?,
            ambiguity: None,
        });
    }
    let text = text(target)?;
    let mut equal = (0..choices.len()).filter(|index| choices[*index] == text);
    let by_text = equal.next();
    if equal.next().is_some() {
        return Err(format!("{text:?} is the text of several choices"));
    }
    let otherwise = position(&text, choices, by_letter);
    let ambiguity = match (by_text, otherwise) {
        (Some(by_text), Some(other)) if by_text != other => Some(format!(
            "{text:?} is the text of choice {by_text} and may also mean choice {other}; choice {by_text} is taken"
        )),
        _ => None,
    };
    match by_text.or(otherwise) {
        Some(index) => Ok(Found { index, ambiguity }),
        None if choices.is_empty() => Err(format!("{text:?} is neither a letter nor an index from 0 to 25")),
        None => Err(format!(
            "{text:?} is neither a choice nor a position among {}",
            choices.len()
        )),
    }
}

/// The position that a text names as a letter or as a number.
fn position(text: &str, choices: &[String], by_letter: bool) -> Option<usize> {
    let text = text.trim();
    let index = match text.as_bytes() {
        [byte] if by_letter && byte.is_ascii_alphabetic() => usize::from(byte.to_ascii_uppercase() - b'A'),
        bytes if bytes.iter().all(u8::is_ascii_digit) => text.parse().ok()?,
        _ => return None,
    };
    (index < positions(choices)).then_some(index)
}

fn in_range(target: &Value, choices: &[String]) -> Result<usize, String> {
    let count = positions(choices);
    target.as_usize().filter(|index| *index < count).ok_or_else(|| {
        let hint = if choices.contains(&target.to_string()) {
            "; to name a choice by its text, add `| string`"
        } else {
            ""
        };
        format!("index {target} is out of range: 0 to {}{hint}", count - 1)
    })
}

/// How many positions there are; without choices, as many as letters.
fn positions(choices: &[String]) -> usize {
    if choices.is_empty() { LETTERS } else { choices.len() }
}

fn letter(index: usize) -> String {
    let offset = u8::try_from(index).unwrap_or_default();
    char::from(b'A'.saturating_add(offset)).to_string()
}

/// A list's elements, or the value alone.
fn elements(value: &Value) -> Result<Vec<Value>, String> {
    if !is_list(value) {
        return Ok(vec![value.clone()]);
    }
    let elements = value.try_iter().map_err(|error| error.to_string())?;
    let elements: Vec<Value> = elements
        .checked()
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    if elements.is_empty() {
        Err("is an empty list".to_owned())
    } else {
        Ok(elements)
    }
}

/// Targets that are compared once something is taken from them: something must be left.
fn wanted(grader: &GraderSpec, targets: &[Value], unanswerable: bool) -> Result<Answer, String> {
    let mut texts: Vec<String> = targets.iter().map(text).collect::<Result<_, _>>()?;
    if unanswerable {
        // As the script of SQuAD 2 does: what is empty beside an answer says nothing.
        texts.retain(|text| !text.trim().is_empty());
        if texts.is_empty() {
            return Ok(Answer::plain(vec![String::new()]));
        }
    } else if texts.iter().any(|text| text.trim().is_empty()) {
        return Err(format!("is empty, which no answer can equal{}", advice(grader)));
    }
    if matches!(grader, GraderSpec::F1 { .. }) {
        tidemill_scoring::comparable(&texts).map_err(|error| error.to_string())?;
    }
    let vanishing = texts.iter().find(|text| vanishes(grader, text));
    let is_any_left = texts.iter().any(|text| !vanishes(grader, text));
    match vanishing {
        Some(text) if is_any_left => {
            let doubt =
                format!("{text:?} is nothing once it is normalised, as every answer without content is; take it out");
            Ok(Answer {
                ambiguity: Some(doubt),
                ..Answer::plain(texts)
            })
        }
        Some(text) => Err(format!(
            "{text:?} is nothing once it is normalised, so no answer could be told to equal it; compare without what takes it \
             away, or leave the row out by filter"
        )),
        None => Ok(Answer::plain(texts)),
    }
}

/// How a suite says that a question has no answer, where the grader can take that.
const fn advice(grader: &GraderSpec) -> &'static str {
    match grader {
        GraderSpec::Exact { .. } | GraderSpec::ExactNormalised { .. } | GraderSpec::F1 { words: Words::Squad } => {
            "; where it means that a question has no answer, say unanswerable = true in the grader"
        }
        _ => "",
    }
}

/// Nothing of a text is left where this grader compares it. Told of what is certain: punctuation of ASCII and of the general
/// block, and the articles.
fn vanishes(grader: &GraderSpec, text: &str) -> bool {
    let (punctuation, articles) = match grader {
        GraderSpec::F1 { words } => {
            let by = match words {
                Words::Squad => Normalisation::Squad,
                Words::Drop => Normalisation::Drop,
            };
            return tidemill_scoring::normalised(text, by).is_empty();
        }
        GraderSpec::Exact { ignore_punctuation, .. } => (*ignore_punctuation, false),
        GraderSpec::ExactNormalised { normalisers } | GraderSpec::RegexChain { normalisers, .. } => (
            normalisers.contains(&Normaliser::Punctuation),
            normalisers.contains(&Normaliser::Articles),
        ),
        _ => (false, false),
    };
    let is_punctuation = |letter: char| {
        letter.is_ascii_punctuation() || matches!(letter, '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}')
    };
    let mut words = text.split_whitespace().map(|word| {
        let kept = word.chars().filter(|letter| !(punctuation && is_punctuation(*letter)));
        kept.collect::<String>().to_lowercase()
    });
    words.all(|word| word.is_empty() || articles && matches!(word.as_str(), "a" | "an" | "the"))
}

fn is_empty_list(value: &Value) -> bool {
    is_list(value) && value.try_iter().is_ok_and(|mut elements| elements.next().is_none())
}

fn texts(targets: &[Value]) -> Result<Vec<String>, String> {
    let targets: Vec<String> = targets.iter().map(text).collect::<Result<_, _>>()?;
    if targets.iter().any(|target| target.trim().is_empty()) {
        return Err("is empty, which no answer can equal".to_owned());
    }
    Ok(targets)
}

fn text(value: &Value) -> Result<String, String> {
    match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => Ok(value.to_string()),
        _ => Err(format!("holds {} where a text is wanted", name(value))),
    }
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

fn name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::None => "null",
        ValueKind::Undefined => "an undefined value",
        ValueKind::Bool => "a boolean",
        ValueKind::Number => "a number",
        ValueKind::String => "a text",
        ValueKind::Seq | ValueKind::Iterable => "a list",
        _ => "an object",
    }
}

#[cfg(test)]
mod tests;
