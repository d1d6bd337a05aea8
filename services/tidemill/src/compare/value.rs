//! Where two values of a setting differ, as people read it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::compare::side::KIND;

/// One option that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Differing {
    /// The setting, and the options within it.
    pub(crate) path: String,
    pub(crate) first: String,
    pub(crate) second: String,
}

/// Every option below `path` that differs. Of settings of different kinds only the kinds are told.
pub(crate) fn differing(path: &str, first: &Value, second: &Value) -> Vec<Differing> {
    if first == second {
        return Vec::new();
    }
    let (Value::Object(one), Value::Object(other)) = (first, second) else {
        let (first, second) = told(first, second);
        return vec![Differing {
            path: path.to_owned(),
            first,
            second,
        }];
    };
    if let (Some(first), Some(second)) = (one.get(KIND), other.get(KIND))
        && first != second
    {
        return differing(path, first, second);
    }
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let of = |options: &serde_json::Map<String, Value>, name| options.get(name).cloned().unwrap_or_default();
    names
        .into_iter()
        .flat_map(|name| differing(&format!("{path} {name}"), &of(one, name), &of(other, name)))
        .collect()
}

/// Characters of a text that are shown.
const SHOWN: usize = 60;
/// Characters shown in front of the place where two long texts begin to differ.
const BEFORE: usize = 15;

fn told(first: &Value, second: &Value) -> (String, String) {
    let (first, second) = (plain(first), plain(second));
    let is_long = [&first, &second].iter().any(|text| text.chars().count() > SHOWN);
    if !is_long {
        return (first, second);
    }
    let alike = first
        .chars()
        .zip(second.chars())
        .take_while(|(one, other)| one == other);
    let from = alike.count().saturating_sub(BEFORE);
    (part(&first, from), part(&second, from))
}

/// A part of a text from a character on, with a mark where some is left out.
fn part(text: &str, from: usize) -> String {
    let shown: String = text.chars().skip(from).take(SHOWN).collect();
    let begin = if from > 0 { "…" } else { "" };
    let end = if text.chars().count() > from + SHOWN { "…" } else { "" };
    format!("{begin}{shown}{end}")
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<String>>().join(", "),
        Value::Object(options) => {
            let each = options.iter().map(|(name, value)| format!("{name} {}", plain(value)));
            each.collect::<Vec<String>>().join(", ")
        }
        Value::String(text) if is_word(text) => text.clone(),
        Value::String(_) | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Nothing of it is lost on a line of words.
fn is_word(text: &str) -> bool {
    let is_odd = |character: char| character.is_control() || character == '"' || character == ',';
    !text.is_empty() && text.trim() == text && !text.contains(is_odd)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told_of(first: &Value, second: &Value) -> Vec<String> {
        let found = differing("grader", first, second).into_iter();
        found
            .map(|one| format!("{} {} against {}", one.path, one.first, one.second))
            .collect()
    }

    #[test]
    fn only_the_options_that_differ_are_told() {
        let first = json!({"kind": "code", "limits": {"seconds": 5, "memory": 10}, "language": "python"});
        let second = json!({"kind": "code", "limits": {"seconds": 9, "memory": 10}, "program": "all"});
        assert_eq!(
            told_of(&first, &second),
            [
                "grader language python against none",
                "grader limits seconds 5 against 9",
                "grader program none against all",
            ]
        );
        assert!(told_of(&first, &first).is_empty());
    }

    #[test]
    fn different_kinds_have_different_options_which_say_nothing() {
        let (first, second) = (json!({"kind": "exact", "ignore_case": true}), json!({"kind": "regex"}));
        assert_eq!(told_of(&first, &second), ["grader exact against regex"]);
    }

    #[test]
    fn texts_that_a_line_would_swallow_are_quoted_and_lists_without_anything_are_none() {
        assert_eq!(
            told_of(&json!(["\n", "Q: "]), &json!([])),
            ["grader \"\\n\", \"Q: \" against none"]
        );
        assert_eq!(told_of(&json!(""), &json!("a, b")), ["grader \"\" against \"a, b\""]);
        assert_eq!(
            told_of(&json!(null), &json!({"open": "<a>"})),
            ["grader none against open <a>"]
        );
    }

    #[test]
    fn long_texts_are_shown_where_they_begin_to_differ() {
        let alike = "x".repeat(100);
        let [found] = told_of(&json!(format!("{alike}one")), &json!(format!("{alike}two")))
            .try_into()
            .unwrap();
        let before = "x".repeat(BEFORE);
        assert_eq!(found, format!("grader …{before}one against …{before}two"));
        let [found] = told_of(&json!("short"), &json!("y".repeat(61))).try_into().unwrap();
        assert_eq!(found, format!("grader short against {}…", "y".repeat(60)));
    }
}
