//! Whether a null has become a word of a text: a filter or an operator writes it as `None` before anybody can say that it is null.
//! Filters that make something else of it, a 0 or an empty list, stop.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use crate::template;

/// A letter for private use that stands for null while a text is made a second time.
const MARK: char = '\u{10fffd}';

/// How null is written.
const WORD: &str = "none";

/// What is said of an expression that is null.
pub(crate) const IS_NULL: &str = "is null";

/// What is said of an expression that makes something of null.
pub(crate) const TAKES_NULL: &str = "takes null; say what stands in its place, such as `(name or '')`";

/// Filters that write what they are given as text, null as a word, which is found there.
const WRITE: [&str; 11] = [
    "capitalize",
    "e",
    "escape",
    "format",
    "indent",
    "lower",
    "safe",
    "string",
    "title",
    "trim",
    "upper",
];

/// Filters that make one text of all that is in a value.
const WRITE_ALL: [&str; 2] = ["join", "tojson"];

/// Filters that weigh the elements of a list against each other, for which null is less than all.
const COMPARE: [&str; 4] = ["sort", "min", "max", "sum"];

/// Stands for null, and is written as no other value is.
#[derive(Debug)]
struct Null;

impl Object for Null {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        false
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{MARK}")
    }
}

/// The test `none` of templates.
pub(crate) fn is_null(value: &Value) -> bool {
    value.is_none() || value.downcast_object_ref::<Null>().is_some()
}

/// A filter is not applied to null, unless it writes it as a word, and none writes what is undefined.
///
/// # Errors
/// It is.
pub(crate) fn is_no_argument(filter: &str, arguments: &[Value]) -> Result<(), Error> {
    let Some(first) = arguments.first() else {
        return Ok(());
    };
    let writes = WRITE.contains(&filter);
    if writes || WRITE_ALL.contains(&filter) {
        template::is_whole(first)?;
    }
    let has_null = || {
        first
            .try_iter()
            .is_ok_and(|mut elements| elements.any(|element| element.is_none()))
    };
    if !writes && (first.is_none() || COMPARE.contains(&filter) && has_null()) {
        return Err(Error::new(ErrorKind::InvalidOperation, TAKES_NULL));
    }
    Ok(())
}

/// Says which null of a row has become a word of the value, or of a text in its list, that `make` gives for the row.
pub(crate) fn became_a_word(
    row: &Value,
    made: &Value,
    make: impl Fn(&Value) -> Result<Value, Error>,
) -> Option<String> {
    if !holds_word(made) {
        return None;
    }
    let texts = texts(made);
    // Made anew with marks, whatever fails there failed for the mark.
    let has_word = |row: &Value| make(row).is_ok_and(|marked| has_marks_for_words(&texts, &self::texts(&marked)));
    if !has_word(&marked(row, None)?) {
        return None;
    }
    let keys: Vec<Value> = row.try_iter().ok()?.collect();
    let named = keys
        .iter()
        .find(|key| marked(row, Some(*key)).is_some_and(|row| has_word(&row)));
    let name = named.map_or_else(|| "a value of the row".to_owned(), |name| format!("`{name}`"));
    Some(format!(
        "{name} is, or holds, null, which would stand in the text as a word; say what stands in its place, such as `{}`",
        named.map_or_else(|| "name or ''".to_owned(), |name| format!("{name} or ''"))
    ))
}

/// Most texts do not, and are looked at no further.
fn holds_word(value: &Value) -> bool {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => {
            let mut places = text.as_bytes().windows(WORD.len());
            places.any(|place| place.eq_ignore_ascii_case(WORD.as_bytes()))
        }
        (None, ValueKind::Seq | ValueKind::Iterable) => {
            let mut elements = value.try_iter().into_iter().flatten();
            elements.any(|element| holds_word(&element))
        }
        _ => false,
    }
}

/// The texts are the same but that where the marks are there are words.
fn has_marks_for_words(texts: &[String], marked: &[String]) -> bool {
    let folded = |text: &String| text.to_lowercase();
    marked.iter().any(|text| text.contains(MARK))
        && texts.len() == marked.len()
        && texts
            .iter()
            .zip(marked)
            .all(|(text, marked)| folded(text) == marked.replace(MARK, WORD).to_lowercase())
}

/// A value's text, or the texts in its list.
fn texts(value: &Value) -> Vec<String> {
    match value.kind() {
        ValueKind::String => vec![value.to_string()],
        ValueKind::Seq | ValueKind::Iterable => {
            let elements = value.try_iter().into_iter().flatten();
            elements.flat_map(|element| texts(&element)).collect()
        }
        _ => Vec::new(),
    }
}

/// The row with a mark in the place of every null, or of those under one key; `None` where there is none.
fn marked(row: &Value, only: Option<&Value>) -> Option<Value> {
    let mut is_changed = false;
    let keys = row.try_iter().ok()?;
    let pairs = keys.map(|key| {
        let value = row.get_item(&key).unwrap_or_default();
        let value = match only {
            Some(name) if *name != key => value,
            _ => with_marks(&value, &mut is_changed),
        };
        (key.to_string(), value)
    });
    let row = Value::from_pairs(pairs.collect::<Vec<_>>());
    is_changed.then_some(row)
}

fn with_marks(value: &Value, is_changed: &mut bool) -> Value {
    match value.kind() {
        ValueKind::None => {
            *is_changed = true;
            Value::from_object(Null)
        }
        ValueKind::Seq => {
            let elements = value.try_iter().into_iter().flatten();
            elements.map(|element| with_marks(&element, is_changed)).collect()
        }
        ValueKind::Map => {
            let keys = value.try_iter().into_iter().flatten();
            let pairs = keys.map(|key| {
                let value = value.get_item(&key).unwrap_or_default();
                (key.to_string(), with_marks(&value, is_changed))
            });
            Value::from_pairs(pairs.collect::<Vec<_>>())
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::template::{Template, context, environment};

    fn rendered(source: &str) -> Result<String, String> {
        let row =
            json!({"q": "x", "n": null, "m": null, "s": "None of us", "l": ["a", null], "o": {"k": null}, "z": 0});
        let environment = environment();
        Template::value(&environment, source)?.render(&context(row.as_object().unwrap()))
    }

    #[test]
    fn a_null_is_no_word_of_a_text() {
        for (source, name) in [
            ("{{ q ~ n }}", "`n`"),
            ("{{ q ~ n }}.", "`n`"),
            ("{{ n|upper }}", "`n`"),
            ("{{ n|trim }}!", "`n`"),
            ("{{ n|string }}", "`n`"),
            ("{{ n|title }}", "`n`"),
            ("{{ l|join(', ') }}", "`l`"),
            ("{{ [q, q ~ m] }}", "`m`"),
            ("{{ q ~ o.k }}", "`o`"),
            ("{{ l }}.", "`l`"),
            ("{% if m is none %}A{% else %}B{% endif %}{{ q ~ n }}", "`n`"),
            ("{{ s ~ n }}", "`n`"),
        ] {
            let said = rendered(source).unwrap_err();
            assert!(said.starts_with(name) && said.contains("null"), "{source}: {said}");
        }
        assert_eq!(rendered("{{ n }}").unwrap_err(), "`n` is null");
    }

    #[test]
    fn a_null_that_is_not_shown_and_a_word_that_is_none_are_well() {
        for (source, text) in [
            ("{{ s }}", "None of us"),
            ("{{ s ~ q }}", "None of usx"),
            ("{{ q ~ (n or '') }}", "x"),
            ("{{ n|default('y', true) }}", "y"),
            ("{% if n is none %}None{% endif %}", "None"),
            ("{% if n is not none %}{{ q ~ n }}{% endif %}{{ s }}", "None of us"),
            ("{{ 'none' if n == none else q ~ n }}", "none"),
            ("{{ l|select|join }} {{ s }}", "a None of us"),
            ("{{ z ~ s }}", "0None of us"),
        ] {
            assert_eq!(rendered(source).as_deref(), Ok(text), "{source}");
        }
    }
}
