//! Jinja templates as lm-evaluation-harness renders them: an undefined name is an error, a final line break is kept, and values
//! print as Python's `str` prints them, nulls included.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use serde_json::Value as Json;

use crate::pattern::Pattern;
use crate::python;

/// A template makes at most so many steps for a row, about a tenth of a second: loops in loops would take hours.
const MAX_STEPS: u64 = 5_000_000;

/// Templates by their own source, compiled once.
#[derive(Debug)]
pub(crate) struct Templates {
    environment: Environment<'static>,
}

impl Default for Templates {
    fn default() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_debug(true);
        environment.set_fuel(Some(MAX_STEPS));
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
            environment.set_syntax(syntax);
        }
        environment.set_unknown_method_callback(method);
        environment.set_formatter(|output, _, value| {
            if value.is_undefined() {
                return Err(Error::from(ErrorKind::UndefinedError));
            }
            output.write_str(&text(value)).map_err(Error::from)
        });
        environment.add_filter("string", |value: &Value| text(value));
        environment.add_filter("regex_replace", regex_replace);
        environment.add_filter("int", integer);
        Self { environment }
    }
}

impl Templates {
    /// Compiles a template.
    pub(crate) fn add(&mut self, source: &str) -> Result<(), String> {
        let added = self
            .environment
            .add_template_owned(source.to_owned(), source.to_owned());
        added.map_err(|error| describe(&error))
    }

    /// The text of a template for one row. One that was not added before is compiled for this once.
    pub(crate) fn render(&self, source: &str, row: &Value) -> Result<String, String> {
        let rendered = match self.environment.get_template(source) {
            Ok(template) => template.render(row),
            Err(_) => self
                .environment
                .template_from_str(source)
                .and_then(|template| template.render(row)),
        };
        rendered.map_err(|error| describe(&error))
    }
}

/// Says what is wrong with a template's syntax.
pub(crate) fn check(source: &str) -> Result<(), String> {
    thread_local! {
        static TEMPLATES: Templates = Templates::default();
    }
    TEMPLATES.with(|templates| {
        let compiled = templates.environment.template_from_str(source);
        compiled.map(|_| ()).map_err(|error| describe(&error))
    })
}

/// `str(value)`.
fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => python::str(&json(value)),
    }
}

fn json(value: &Value) -> Json {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None | ValueKind::Invalid => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Number => match (
            value.as_i64().filter(|_| value.is_integer()),
            f64::try_from(value.clone()),
        ) {
            (Some(number), _) => Json::from(number),
            (None, Ok(number)) => Json::from(number),
            (None, Err(_)) => Json::String(value.to_string()),
        },
        ValueKind::Seq | ValueKind::Iterable => match value.try_iter() {
            Ok(values) => values.map(|value| json(&value)).collect(),
            Err(_) => Json::Null,
        },
        ValueKind::Map => match value.try_iter() {
            Ok(keys) => keys
                .map(|key| {
                    (
                        text(&key),
                        value.get_item(&key).map_or(Json::Null, |value| json(&value)),
                    )
                })
                .collect(),
            Err(_) => Json::Null,
        },
        _ => Json::String(value.to_string()),
    }
}

fn method(state: &mut State<'_, '_>, value: &Value, method: &str, arguments: &[Value]) -> Result<Value, Error> {
    match (value.kind(), method, arguments) {
        (ValueKind::Seq, "index", [wanted]) => {
            let place = value.try_iter()?.position(|element| element == *wanted);
            let place =
                place.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, format!("{wanted} is not in the list")));
            place.map(Value::from)
        }
        (ValueKind::String, "index", [wanted]) => {
            let (whole, wanted) = (text(value), text(wanted));
            let byte = whole.find(&wanted);
            let byte = byte.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found"))?;
            Ok(Value::from(whole[..byte].chars().count()))
        }
        (ValueKind::String, "strip", []) => Ok(Value::from(python::strip(&text(value)))),
        (ValueKind::String, "lstrip", []) => Ok(Value::from(text(value).trim_start_matches(python::is_space))),
        (ValueKind::String, "rstrip", []) => Ok(Value::from(text(value).trim_end_matches(python::is_space))),
        (ValueKind::String, "removeprefix", [prefix]) => {
            let (whole, prefix) = (text(value), text(prefix));
            Ok(Value::from(whole.strip_prefix(&prefix).unwrap_or(&whole)))
        }
        (ValueKind::String, "removesuffix", [suffix]) => {
            let (whole, suffix) = (text(value), text(suffix));
            Ok(Value::from(whole.strip_suffix(&suffix).unwrap_or(&whole)))
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, arguments),
    }
}

/// An integer, or the default where the value is none.
fn integer(value: &Value, default: Option<i64>) -> i64 {
    let number = match value.as_str() {
        Some(text) => python::strip(text).replace('_', "").parse().ok(),
        None => value.as_i64(),
    };
    let float = || match value.as_str() {
        Some(text) => python::strip(text).parse::<f64>().ok(),
        None => f64::try_from(value.clone()).ok(),
    };
    let whole = number.or_else(|| float().filter(|float| float.is_finite()).map(|float| float as i64));
    whole.unwrap_or(default.unwrap_or(0))
}

fn regex_replace(whole: String, pattern: String, replacement: String, count: Option<usize>) -> Result<String, Error> {
    let invalid = |error| Error::new(ErrorKind::InvalidOperation, error);
    let pattern = Pattern::new(&pattern).map_err(invalid)?;
    pattern
        .replace(&whole, &replacement, count.unwrap_or(0))
        .map_err(invalid)
}

/// A row as templates see it.
pub(crate) fn context(row: &serde_json::Map<String, Json>) -> Value {
    Value::from_pairs(row.iter().map(|(name, value)| (name.as_str(), template_value(value))))
}

fn template_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(boolean) => Value::from(*boolean),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(elements) => elements.iter().map(template_value).collect(),
        Json::Object(columns) => context(columns),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::from(number),
            (_, number) => Value::from(number.unwrap_or(f64::NAN)),
        },
    }
}

/// An engine's error without the name it gives to templates that have none.
fn describe(error: &Error) -> String {
    let kind = error.kind();
    let detail = error.detail().unwrap_or_default();
    let at = error.range().zip(error.template_source());
    let expression = at.and_then(|(range, source)| source.get(range)).map(str::trim);
    match (kind, detail, expression) {
        (ErrorKind::OutOfFuel, ..) => format!("takes more than {MAX_STEPS} steps: does a loop go on for too long?"),
        (ErrorKind::UndefinedError, detail, _) if !detail.is_empty() => detail.to_owned(),
        (_, "", Some(expression)) => format!("{kind} in `{expression}`"),
        (_, "", None) => kind.to_string(),
        (_, detail, _) => format!("{kind}: {detail}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(source: &str) -> Result<String, String> {
        let row = json!({"a": [1, "it's", null, true, 2.0], "t": " x y ", "n": null, "answer": "B", "d": {"k": [1]}});
        let mut templates = Templates::default();
        templates.add(source)?;
        templates.render(source, &context(row.as_object().unwrap()))
    }

    #[test]
    fn values_print_as_in_python() {
        assert_eq!(
            render("{{a}}|{{n}}|{{d}}|{{1.0}}\n").unwrap(),
            "[1, \"it's\", None, True, 2.0]|None|{'k': [1]}|1.0\n"
        );
        assert_eq!(render("{{ [t.strip(), 'b'] }}").unwrap(), "['x y', 'b']");
        assert_eq!(
            render("{{ a|string ~ answer }}").unwrap(),
            "[1, \"it's\", None, True, 2.0]B"
        );
    }

    #[test]
    fn methods_of_python_are_there() {
        assert_eq!(
            render("{{ ['A', 'B'].index(answer) }} {{ t.index('y') }}").unwrap(),
            "1 3"
        );
        assert_eq!(render("{{ t.strip().split(' ')[-1].capitalize() }}").unwrap(), "Y");
        assert_eq!(render("{{ t|regex_replace('\\\\s+', '_') }}").unwrap(), "_x_y_");
        assert_eq!(
            render("{{ '12'|int - 1 }} {{ answer|int }} {{ 2.9|int }} {{ a[3]|int }}").unwrap(),
            "11 0 2 1"
        );
        assert_eq!(
            render("{{ d['k'][0] + 1 }}{% if answer == 'B' %}yes{% endif %}").unwrap(),
            "2yes"
        );
    }

    #[test]
    fn what_is_undefined_is_an_error_that_names_it() {
        assert!(render("{{ missing }}").unwrap_err().contains("missing"));
        assert!(render("{{ d.missing.more }}").is_err());
        assert!(
            render("{{ ['A'].index(answer) }}")
                .unwrap_err()
                .contains("not in the list")
        );
        assert!(check("{{ a").is_err());
    }
}
