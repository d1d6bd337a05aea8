//! Filters that differ from the engine's: they stop at what is undefined and at null where the harness stops, and print values as
//! Python does.

use minijinja::value::{Kwargs, Rest, StringInput, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

use super::shown;
use crate::pattern::Pattern;
use crate::python;
use crate::strict::{self, Look, add_filter, defined, each, second_of_each, third_of_each};

/// 2 to the power of 127: integers that are smaller are held exactly.
const MAX_INTEGER: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

/// The engine takes a step for so many bytes of a text that it makes.
const BYTES_A_STEP: u64 = 64;

/// JSON is made with at most so many spaces a level.
const MAX_INDENT: usize = 1_000;

/// A filter of the engine that makes a text of a text.
type OfText = fn(StringInput<'_>) -> Value;

/// Adds all of them.
pub(super) fn add(environment: &mut Environment<'_>) {
    let of_engine = strict::filters();
    for (name, filter, look) in of_engine.into_iter().chain(of_lists()).chain(of_values()) {
        add_filter(environment, name, filter, look);
    }
    let of_texts: [(&str, OfText); 3] = [
        ("upper", filters::upper),
        ("lower", filters::lower),
        ("capitalize", filters::capitalize),
    ];
    for (name, filter) in of_texts {
        let filter = move |state: &State<'_, '_>, value: &Value| {
            Ok::<_, Error>(filter(StringInput::new(state, &string(value))?))
        };
        add_filter(environment, name, Value::from_function(filter), defined);
    }
}

/// Those that go over a list.
fn of_lists() -> Vec<(&'static str, Value, Look)> {
    let list = |state: &State<'_, '_>, value: Value| filters::list(state, some(value)?);
    let sort = |state: &State<'_, '_>, value: Value, options: Kwargs| filters::sort(state, some(value)?, options);
    let unique = |state: &State<'_, '_>, value: Value, options: Kwargs| filters::unique(state, some(value)?, options);
    let groupby =
        |value: Value, attribute: Option<&str>, options: Kwargs| filters::groupby(some(value)?, attribute, options);
    let slice = |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
        filters::slice(state, some(value)?, count, fill)
    };
    let batch = |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
        filters::batch(state, some(value)?, count, fill)
    };
    vec![
        ("list", Value::from_function(list), defined),
        ("join", Value::from_function(join), third_of_each),
        ("sort", Value::from_function(sort), each),
        ("unique", Value::from_function(unique), each),
        ("sum", Value::from_function(sum), second_of_each),
        ("groupby", Value::from_function(groupby), second_of_each),
        ("slice", Value::from_function(slice), defined),
        ("batch", Value::from_function(batch), defined),
    ]
}

/// Those that make something of one value.
fn of_values() -> Vec<(&'static str, Value, Look)> {
    vec![
        ("string", Value::from_function(string), defined),
        ("replace", Value::from_function(replace), defined),
        ("title", Value::from_function(title), defined),
        ("trim", Value::from_function(trim), defined),
        ("safe", Value::from_function(safe), defined),
        ("indent", Value::from_function(indent), defined),
        ("format", Value::from_function(format), defined),
        ("int", Value::from_function(integer), defined),
        ("tojson", Value::from_function(tojson), defined),
        ("e", Value::from_function(shown::escape), defined),
        ("escape", Value::from_function(shown::escape), defined),
        ("regex_replace", Value::from_function(regex_replace), defined),
    ]
}

fn join(
    state: &mut State<'_, '_>,
    value: Value,
    joiner: Option<Value>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<Value, Error> {
    let value = some(value)?;
    let joiner = joiner.map_or_else(|| options.get("d"), |joiner| Ok(Some(joiner)))?;
    let attribute = attribute.map_or_else(|| options.get("attribute"), |attribute| Ok(Some(attribute)))?;
    options.assert_all_used()?;
    let texts = value.try_iter()?.map(|element| match attribute {
        Some(path) => strict::at(&element, path).map(|value| string(&value)),
        None => Ok(string(&element)),
    });
    let texts: Vec<Value> = texts.collect::<Result<_, Error>>()?;
    let joiner = joiner.as_ref().map(string);
    let arguments: Vec<Value> = std::iter::once(Value::from(texts)).chain(joiner).collect();
    Value::from_function(filters::join).call(state, &arguments)
}

/// `str(value)`.
fn string(value: &Value) -> Value {
    match value.as_str() {
        // What is safe HTML stays so.
        Some(_) => value.clone(),
        None => Value::from(shown::str(value)),
    }
}

fn title(value: &Value) -> String {
    filters::title(shown::str(value).into())
}

fn safe(value: &Value) -> Value {
    Value::from_safe_string(shown::str(value))
}

fn trim(state: &State<'_, '_>, value: &Value, letters: Option<&str>) -> Result<Value, Error> {
    let value = string(value);
    let text = StringInput::new(state, &value)?;
    let trimmed = match letters {
        Some(letters) => text.as_str().trim_matches(|letter| letters.contains(letter)),
        None => python::strip(text.as_str()),
    };
    Ok(text.preserve_safety(trimmed.to_owned()))
}

/// The engine's, over what is no number as Python's `str` has it.
fn format(state: &mut State<'_, '_>, pattern: &Value, values: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let values = values.into_values().into_iter();
    let shown = values.map(|value| match value.as_object().is_some() && !value.is_kwargs() {
        true => string(&value),
        false => value,
    });
    let arguments: Vec<Value> = std::iter::once(pattern.clone()).chain(shown).collect();
    Value::from_function(filters::format).call(state, &arguments)
}

/// Spaces, or a text, before each line but the first: `indent(width=4, first=false, blank=false)`. What ends with a line break
/// ends with one.
fn indent(state: &State<'_, '_>, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let (whole, width, first, blank, options): (&Value, Option<Value>, Option<bool>, Option<bool>, Kwargs) =
        from_args(&arguments)?;
    let given =
        |value: Option<bool>, name| value.map_or_else(|| options.get::<Option<bool>>(name), |value| Ok(Some(value)));
    let (first, blank) = (given(first, "first")?, given(blank, "blank")?);
    let width = width.map_or_else(|| options.get::<Option<Value>>("width"), |width| Ok(Some(width)))?;
    options.assert_all_used()?;
    let text = whole
        .as_str()
        .ok_or_else(|| stopped("only a text can be indented".to_owned()))?;
    let margin = margin(state, width, text)?;
    // One more line, or the last line break would end nothing.
    let text = format!("{text}\n");
    let mut out = String::new();
    for (number, line) in python::lines(&text, false).into_iter().enumerate() {
        let is_indented = match number {
            0 => first.unwrap_or(false),
            _ => blank.unwrap_or(false) || !line.is_empty(),
        };
        out.push_str(if number > 0 { "\n" } else { "" });
        out.push_str(if is_indented { &margin } else { "" });
        out.push_str(line);
    }
    Ok(StringInput::new(state, whole)?.preserve_safety(out))
}

/// What lines are indented with, paid for as often as the text may have it.
fn margin(state: &State<'_, '_>, width: Option<Value>, text: &str) -> Result<String, Error> {
    let width = width.unwrap_or(Value::from(4));
    let letters = match width.as_str() {
        Some(margin) => margin.len(),
        None => usize::try_from(i64::try_from(width.clone())?).unwrap_or(0),
    };
    let lines = python::lines(text, false).len() + 1;
    state.consume_fuel(letters.saturating_mul(lines) as u64 / BYTES_A_STEP)?;
    Ok(width.as_str().map_or_else(|| " ".repeat(letters), str::to_owned))
}

/// # Errors
/// As [`shown::tojson`], or its lines would begin with too many spaces.
fn tojson(value: &Value, indent: Option<usize>, options: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get("indent")?,
    };
    options.assert_all_used()?;
    if indent.is_some_and(|indent| indent > MAX_INDENT) {
        return Err(stopped(format!("an indent of more than {MAX_INDENT} is not made")));
    }
    shown::tojson(value, indent)
}

/// All of them, or the first `count`. The engine's own limits the work.
fn replace(
    state: &mut State<'_, '_>,
    value: &Value,
    old: &Value,
    new: &Value,
    count: Option<i64>,
) -> Result<String, Error> {
    let [value, old, new] = [value, old, new].map(string);
    let whole = shown::str(&value);
    let count = count.and_then(|count| usize::try_from(count).ok());
    let rest_at = count.and_then(|count| whole.match_indices(&shown::str(&old)).nth(count));
    let (begin, rest) = whole.split_at(rest_at.map_or(whole.len(), |(at, _)| at));
    let begin = Value::from(begin);
    let inputs = (
        StringInput::new(state, &begin)?,
        StringInput::new(state, &old)?,
        StringInput::new(state, &new)?,
    );
    let replaced = filters::replace(state, inputs.0, inputs.1, inputs.2)?;
    Ok(shown::str(&replaced) + rest)
}

fn sum(
    state: &State<'_, '_>,
    value: Value,
    attribute: Option<&str>,
    start: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    filters::sum(state, some(value)?, attribute, start, options)
}

/// An integer, or the default where the value is none.
///
/// # Errors
/// It has more digits than are held exactly, or is what an `if` without `else` gave.
fn integer(value: &Value, default: Option<i64>) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let number = match value.as_str() {
        Some(text) => python::strip(text).replace('_', "").parse::<i128>().ok(),
        None => i128::try_from(value.clone()).ok().filter(|_| !is_float(value)),
    };
    let float = || match value.as_str() {
        Some(text) => python::strip(text).parse::<f64>().ok(),
        None => f64::try_from(value.clone()).ok(),
    };
    if let Some(number) = number {
        return Ok(Value::from(number));
    }
    match float().filter(|float| float.is_finite()) {
        None => Ok(Value::from(default.unwrap_or(0))),
        Some(float) if float.abs() < MAX_INTEGER => Ok(Value::from(float as i128)),
        Some(_) => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("{} is too large for an integer here", shown::str(value)),
        )),
    }
}

fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

fn regex_replace(whole: String, pattern: String, replacement: String, count: Option<usize>) -> Result<String, Error> {
    let invalid = |error| Error::new(ErrorKind::InvalidOperation, error);
    let pattern = Pattern::new(&pattern).map_err(invalid)?;
    pattern
        .replace(&whole, &replacement, count.unwrap_or(0))
        .map_err(invalid)
}

fn stopped(reason: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

/// The value, unless it is null.
pub(super) fn some(value: Value) -> Result<Value, Error> {
    match value.is_none() {
        true => Err(Error::new(
            ErrorKind::InvalidOperation,
            "null is nothing that a loop or a filter can go over",
        )),
        false => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Templates, context};

    fn render(source: &str) -> Result<String, String> {
        let row = json!({"q": "one", "ch": ["a", "b"], "d": {"k": [1]}, "ops": [{"text": "x"}, {"text": "y"}], "n": 3});
        let mut templates = Templates::default();
        templates.add(source)?;
        templates.render(source, &context(row.as_object().unwrap()))
    }

    /// As Jinja 3.1.6 does with `StrictUndefined`, for every filter and test that the engine has.
    #[test]
    fn what_is_undefined_stops_filters_and_tests() {
        let filters = [
            "abs",
            "attr('x')",
            "batch(2)",
            "capitalize",
            "count",
            "dictsort",
            "e",
            "escape",
            "first",
            "float",
            "float(1)",
            "format",
            "groupby('a')",
            "indent",
            "int",
            "int(3)",
            "join",
            "last",
            "length",
            "list",
            "lower",
            "map('upper')",
            "max",
            "min",
            "regex_replace('a', 'b')",
            "reject",
            "rejectattr('a')",
            "replace('a', 'b')",
            "reverse",
            "round",
            "safe",
            "select",
            "selectattr('a')",
            "slice(2)",
            "sort",
            "string",
            "sum",
            "title",
            "tojson",
            "trim",
            "unique",
            "upper",
        ];
        let tests = [
            "divisibleby(2)",
            "eq(1)",
            "equalto(1)",
            "even",
            "ge(1)",
            "gt(1)",
            "greaterthan(1)",
            "in([1])",
            "iterable",
            "le(1)",
            "lower",
            "lt(1)",
            "lessthan(1)",
            "ne(1)",
            "odd",
            "upper",
        ];
        let given = [
            "ch|batch(3, U)",
            "d|dictsort(reverse=U)",
            "'%s'|format(U)",
            "'x'|format(U)",
            "q|int(U)",
            "q|float(U)",
            "q|indent(U)",
            "q|indent(2, U)",
            "q|indent(width=U)",
            "ch|join(U)",
            "ops|join(',', U)",
            "ops|join(',', attribute=U)",
            "ch|map('replace', 'a', U)|list",
            "ch|select(U)|list",
            "ch|select('eq', U)|list",
            "ops|selectattr(U)|list",
            "ops|selectattr('text', 'eq', U)|list",
            "ops|rejectattr('text', 'eq', U)|list",
            "q|replace('o', U)",
            "q|replace('o', 'x', U)",
            "1.5|round(U)",
            "1.5|round(1, U)",
            "ch|slice(3, U)",
            "ch|sort(reverse=U)",
            "ops|sort(attribute=U)",
            "[1]|sum(start=U)",
            "ch|tojson(U)",
            "ch|tojson(indent=U)",
            "q|trim(U)",
            "ops|unique(attribute=U)",
            "ops|max(attribute=U)",
            "q is eq(U)",
            "n is divisibleby(U)",
            "n is lt(U)",
            "q is ne(U)",
            "range(U)",
            "range(1, U)",
            "dict(U)",
            "'{}'.format(U)",
            "','.join([U])",
            "','.join(U)",
            "q.split(U)",
            "ch.index(U)",
            "q ~ U",
            "n + U",
            "U == 1",
            "1 in U",
            "U in ch",
            "not U",
            "q if U else n",
        ];
        let elements = [
            "[q, U]|join",
            "[q, U]|sort",
            "[q, U]|unique",
            "[q, U]|max",
            "[q, U]|min",
            "[1, U]|sum",
            "[q, U]|select|list",
            "[q, U]|reject|list",
            "[q, U]|tojson",
            "[q, U]|map('upper')|list",
            "[q, U]|groupby('a')",
            "[q, U]|first ~ U",
            "[q, U]|indent",
        ];
        let applied = filters.iter().map(|filter| format!("U|{filter}"));
        let tested = tests
            .iter()
            .flat_map(|test| [format!("U is {test}"), format!("U is not {test}")]);
        let rest = given.iter().chain(&elements).map(|expression| (*expression).to_owned());
        let expressions: Vec<String> = applied.chain(tested).chain(rest).collect();
        for undefined in ["zz", "d.zz", "ch[9]", "q.zz"] {
            for expression in &expressions {
                let source = format!("{{{{ {} }}}}", expression.replace('U', undefined));
                assert!(render(&source).is_err(), "{source}: {:?}", render(&source));
            }
        }
        assert_eq!(render("{{ zz|int }}").unwrap_err(), "`zz` is undefined");
    }

    /// As Jinja 3.1.6 does with `StrictUndefined`.
    #[test]
    fn what_an_attribute_does_not_name_stops_filters() {
        for expression in [
            "map(attribute='txt')|join(', ')",
            "join(', ', attribute='txt')",
            "sort(attribute='txt')",
            "groupby('txt')",
            "unique(attribute='txt')",
            "sum(attribute='txt')",
            "max(attribute='txt')",
            "selectattr('txt')|list",
            "rejectattr('txt')|list",
        ] {
            let source = format!("{{{{ ops|{expression} }}}}");
            assert!(render(&source).is_err(), "{source}: {:?}", render(&source));
        }
    }

    /// As Jinja 3.1.6 renders them.
    #[test]
    fn what_is_undefined_may_be_asked_for_and_replaced() {
        for (source, text) in [
            (
                "{{ zz is defined }}{{ zz is undefined }}{{ d.zz is none }}{{ ch[9] is string }}",
                "FalseTrueFalseFalse",
            ),
            (
                "{{ zz|default('x') }}{{ d.zz|d }}{{ zz|default(q) }}{{ q|default(zz) }}",
                "xoneone",
            ),
            (
                "{{ [q, zz]|select('defined')|list }}{{ [q, zz]|map('default', 'x')|join }}",
                "['one']onex",
            ),
            (
                "{{ ops|map(attribute='txt', default='z')|join }}{{ ops|selectattr('txt', 'defined')|list }}",
                "zz[]",
            ),
            (
                "{{ [q, zz] }}{{ [zz]|length }}{{ {'a': zz} }}",
                "['one', Undefined]1{'a': Undefined}",
            ),
            (
                "{{ ('a' if false)|upper }}{{ ('a' if false)|join }}{{ ('a' if false)|string }}.",
                ".",
            ),
            (
                "{{ ops|join(', ', attribute='text') }}{{ ch|sort(reverse=true) }}{{ ops|sort(attribute='text')|length }}",
                "x, y['b', 'a']2",
            ),
            (
                "{{ [3, 1]|sum }}{{ [1, 2]|max }}{{ 'b' is in(ch) }}{{ 4 is divisibleby(2) }}",
                "42TrueTrue",
            ),
        ] {
            assert_eq!(render(source).as_deref(), Ok(text), "{source}");
        }
        assert!(render("{{ ('a' if false)|int }}").is_err());
        assert!(render("{{ 1 is divisibleby(0) }}").is_err());
    }

    /// As Jinja 3.1.6 renders them.
    #[test]
    fn numbers_in_texts_of_filters_are_those_of_python() {
        for (source, text) in [
            (
                "{{ 1e-5|upper }} {{ 1e16|trim }} {{ 1e16|title }} {{ 1e-5|capitalize }} {{ 1e16|lower }}",
                "1E-05 1e+16 1e+16 1e-05 1e+16",
            ),
            (
                "{{ [1e16, zz]|trim }} {{ '%s'|format([1e-5]) }} {{ [1e16]|safe }}",
                "[1e+16, Undefined] [1e-05] [1e+16]",
            ),
            ("{{ '\x1c a \n'|trim }}{{ 'xax'|trim('x') }}", "aa"),
        ] {
            assert_eq!(render(source).as_deref(), Ok(text), "{source}");
        }
    }

    /// As Jinja 3.1.6 renders them.
    #[test]
    fn lines_are_indented_as_in_jinja() {
        for (source, text) in [
            (r#"{{ "a\nb\n"|indent(2) }}|"#, "a\n  b\n|"),
            (r#"{{ ""|indent(2, true) }}|"#, "  |"),
            (r#"{{ "a\n\nb"|indent }}|"#, "a\n\n    b|"),
            (r#"{{ "a\n\nb\n"|indent(1, blank=true) }}|"#, "a\n \n b\n |"),
            (r#"{{ "a\r\nb"|indent("> ", first=true) }}|"#, "> a\n> b|"),
        ] {
            assert_eq!(render(source).as_deref(), Ok(text), "{source}");
        }
        for source in [
            "{{ 5|indent }}",
            "{{ 'a'|indent(1000000000) }}",
            "{{ [1]|tojson(indent=1000000000) }}",
        ] {
            assert!(render(source).is_err(), "{source}");
        }
    }
}
