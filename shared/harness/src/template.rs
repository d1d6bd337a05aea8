//! Jinja templates as lm-evaluation-harness renders them: an undefined name is an error, a final line break is kept, and values
//! print as Python's `str` prints them, nulls included.

mod filters;
mod shown;
mod views;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value, functions};
use serde_json::Value as Json;

use crate::python;
use crate::strict::{self, loops};

/// A template makes at most so many steps for a row, about a tenth of a second: loops in loops would take hours.
const MAX_STEPS: u64 = 5_000_000;

/// Filters that the engine has and the harness has not; and `pprint`, which breaks lines as Python does.
const NO_FILTERS: [&str; 6] = ["split", "lines", "zip", "chain", "bool", "pprint"];
/// Tests that the engine has and the harness has not.
const NO_TESTS: [&str; 4] = ["startingwith", "endingwith", "safe", "int"];

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
            // A name that is not defined does not come here; an `if` without `else` does, and is nothing in Jinja too.
            output.write_str(&text(value)).map_err(Error::from)
        });
        filters::add(&mut environment);
        strict::add_tests(&mut environment);
        for name in NO_FILTERS {
            environment.remove_filter(name);
        }
        for name in NO_TESTS {
            environment.remove_test(name);
        }
        environment.remove_global("debug");
        environment.add_test("sequence", is_sequence);
        environment.add_function("range", range);
        environment.add_function("dict", dict);
        environment.add_function(loops::EACH, each);
        Self { environment }
    }
}

impl Templates {
    /// Compiles a template.
    pub(crate) fn add(&mut self, source: &str) -> Result<(), String> {
        let added = self
            .environment
            .add_template_owned(source.to_owned(), loops::guarded(source));
        added.map_err(|error| describe(&error))
    }

    /// The text of a template for one row. One that was not added before is compiled for this once.
    pub(crate) fn render(&self, source: &str, row: &Value) -> Result<String, String> {
        let rendered = match self.environment.get_template(source) {
            Ok(template) => template.render(row),
            Err(_) => self
                .environment
                .template_from_str(&loops::guarded(source))
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
        let guarded = loops::guarded(source);
        let compiled = templates.environment.template_from_str(&guarded);
        compiled.map(|_| ()).map_err(|error| describe(&error))
    })
}

/// `str(value)`.
fn text(value: &Value) -> String {
    shown::str(value)
}

/// What a loop goes over; of several values, their tuple.
fn each(values: Rest<Value>) -> Result<Value, Error> {
    match values.0.as_slice() {
        [value] => filters::some(value.clone()),
        values => Ok(Value::from(Tuple::from(values))),
    }
}

/// # Errors
/// As [`views::range`], or one of the bounds is no integer.
fn range(state: &State<'_, '_>, bounds: Rest<Value>) -> Result<Value, Error> {
    strict::defined(state, &bounds.0)?;
    let bounds: Vec<i64> = bounds.0.into_iter().map(i64::try_from).collect::<Result<_, _>>()?;
    match *bounds.as_slice() {
        [stop] => views::range(stop, None, None),
        [start, stop] => views::range(start, Some(stop), None),
        [start, stop, step] => views::range(start, Some(stop), Some(step)),
        _ => Err(Error::new(
            ErrorKind::InvalidOperation,
            "range() takes one to three integers",
        )),
    }
}

/// # Errors
/// As the engine's, or what it is made from is undefined.
fn dict(state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let mut from = arguments.iter().filter(|argument| !argument.is_kwargs());
    from.try_for_each(|from| strict::is_defined(state, from))?;
    Value::from_function(functions::dict).call(state, &arguments)
}

/// What has a length and elements: mappings too, as in Jinja.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::String | ValueKind::Seq | ValueKind::Map => true,
        // A part of a list is one.
        ValueKind::Iterable => value.len().is_some() && !views::is_view(value),
        _ => false,
    }
}

fn method(state: &mut State<'_, '_>, value: &Value, method: &str, arguments: &[Value]) -> Result<Value, Error> {
    if let (Some(view), []) = (views::of_map(value, method), arguments) {
        return Ok(view);
    }
    let stopped = |reason: &str| Err(Error::new(ErrorKind::InvalidOperation, reason.to_owned()));
    if arguments.iter().any(Value::is_undefined) {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
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
        (ValueKind::String, "join", [values]) if values.is_none() => stopped("can only join an iterable"),
        (ValueKind::String, "join", [values]) if !values.try_iter()?.all(|one| one.as_str().is_some()) => {
            stopped("can only join texts")
        }
        (ValueKind::String, "title", []) => Ok(Value::from(python::title(&text(value)))),
        (ValueKind::String, "splitlines", []) => Ok(lines(&text(value), false)),
        (ValueKind::String, "splitlines", [keeps_ends]) => Ok(lines(&text(value), keeps_ends.is_true())),
        (ValueKind::String, "split" | "rsplit" | "partition" | "rpartition", [separator, ..])
            if separator.as_str() == Some("") =>
        {
            stopped("empty separator")
        }
        (ValueKind::String, "split", []) => {
            let whole = text(value);
            let parts = whole.split(python::is_space).filter(|part| !part.is_empty());
            Ok(parts.map(Value::from).collect())
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, arguments),
    }
}

fn lines(whole: &str, keep_ends: bool) -> Value {
    python::lines(whole, keep_ends).into_iter().map(Value::from).collect()
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
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => Value::from(number),
            (_, Some(number), _) => Value::from(number),
            (.., number) => Value::from(number.unwrap_or(f64::NAN)),
        },
    }
}

/// An engine's error without the name it gives to templates that have none.
fn describe(error: &Error) -> String {
    let kind = error.kind();
    let detail = error.detail().unwrap_or_default();
    let at = error.range().zip(error.template_source());
    let expression = at.and_then(|(range, source)| source.get(range)).map(str::trim);
    let expression = expression.map(loops::written);
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
        let row = json!({"a": [1, "it's", null, true, 2.0], "t": " x y ", "n": null, "answer": "B", "d": {"k": [1]}, "big": 12_345_678_901_234_567_890_u64});
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

    /// As Jinja 3.1.6 renders them.
    #[test]
    fn filters_that_make_texts_of_values_print_them_as_in_python() {
        for (source, text) in [
            (
                "{{ [a, 'x', 1e16]|join('-') }}",
                "[1, \"it's\", None, True, 2.0]-x-1e+16",
            ),
            ("{{ ['a\u{2028}']|replace('b', 'c') }}", "['a\\u2028']"),
            ("{{ 'aaa'|replace('a', 'b', 2) }}{{ 5|replace(5, a[3]) }}", "bbaTrue"),
            ("{{ 'abc'|join('-') }}{{ [d]|join(attribute='k') }}", "a-b-c[1]"),
            ("{{ 1e16|string }}{{ d|string|length }}", "1e+1610"),
            ("{% set Übung = 1 %}{{ Übung + 1 }}", "2"),
        ] {
            assert_eq!(render(source).as_deref(), Ok(text), "{source}");
        }
        for source in [
            "{{ a.none|string }}",
            "{{ ', '.join(a.none) }}",
            "{{ t.split(a.none) }}",
            "{{ t|replace(a.none, 'x') }}",
            "{{ [a.none]|join }}",
            "{{ a.none|join }}",
            "{{ ', '.join(a) }}",
        ] {
            assert!(render(source).is_err(), "{source}: {:?}", render(source));
        }
    }

    /// As Jinja 3.1.6 renders them.
    #[test]
    fn values_keep_their_kind_and_their_digits() {
        for (source, text) in [
            (
                "{{ (1,2) }}{{ (1,) }}{{ () }}{{ [(d, 'x')] }}",
                "(1, 2)(1,)()[({'k': [1]}, 'x')]",
            ),
            ("{{ d|items|list }}{{ d|dictsort }}", "[('k', [1])][('k', [1])]"),
            ("{{ [d]|groupby('k') }}", "[([1], [{'k': [1]}])]"),
            (
                "{{ d.items() }}{{ d.keys() }}{{ d.values() }}",
                "dict_items([('k', [1])])dict_keys(['k'])dict_values([[1]])",
            ),
            ("{{ {2:'b', none: 3, true: 1.0} }}", "{2: 'b', None: 3, True: 1.0}"),
            (
                "{{ range(3) }}{{ range(1, 6, 2) }}{{ range(5, 0, -2)|list }}",
                "range(0, 3)range(1, 6, 2)[5, 3, 1]",
            ),
            ("{{ range(3)[1] }}{{ range(3)[-1] }}{{ range(4)|length }}", "124"),
            (
                "{{ 10**20 }} {{ 9223372036854775807 + 1 }}",
                "100000000000000000000 9223372036854775808",
            ),
            (
                "{{ [100000000000000000000] }} {{ big }}",
                "[100000000000000000000] 12345678901234567890",
            ),
            (
                "{{ 1e20|int }} {{ '99999999999999999999'|int }}",
                "100000000000000000000 99999999999999999999",
            ),
            (
                "{{ 'abc' is sequence }}{{ d is sequence }}{{ a[1:] is sequence }}{{ d.items() is sequence }}{{ 1 is sequence }}",
                "TrueTrueTrueFalseFalse",
            ),
        ] {
            assert_eq!(render(source).as_deref(), Ok(text), "{source}");
        }
        assert!(render("{{ 2**200 }}").is_err());
        assert!(render("{{ 1e39|int }}").unwrap_err().contains("too large"));
    }

    #[test]
    fn json_and_html_are_written_as_in_jinja() {
        for (source, text) in [
            ("{{ {'b':1,'a':(2,none)}|tojson }}", r#"{"a": [2, null], "b": 1}"#),
            (
                "{{ {2:'b', 10:'c', 1.5: true}|tojson }}",
                r#"{"1.5": true, "2": "b", "10": "c"}"#,
            ),
            (
                "{{ \"é\u{2028}\u{1f600}<>&'\\\"\x07\x7f\"|tojson }}",
                r#""\u00e9\u2028\ud83d\ude00\u003c\u003e\u0026\u0027\"\u0007\u007f""#,
            ),
            (
                "{{ [1,[2,{}],{'z':[],'a':1}]|tojson(indent=2) }}",
                "[\n  1,\n  [\n    2,\n    {}\n  ],\n  {\n    \"a\": 1,\n    \"z\": []\n  }\n]",
            ),
            ("{{ [1]|tojson(0) }}", "[\n1\n]"),
            (
                "{{ \"'\\\"&<>/\"|e }}{{ ('<'|e)|e }}{{ n|escape }}{{ ['<']|e }}",
                "&#39;&#34;&amp;&lt;&gt;/&lt;None[&#39;&lt;&#39;]",
            ),
        ] {
            assert_eq!(render(source).as_deref(), Ok(text), "{source}");
        }
        for source in [
            "{{ range(3)|tojson }}",
            "{{ {1: 2, 'a': 3}|tojson }}",
            "{{ [1]|tojson(indnt=2) }}",
        ] {
            assert!(render(source).is_err(), "{source}");
        }
    }

    #[test]
    fn texts_are_parted_as_in_python() {
        for (source, text) in [
            (
                r#"{{ "it's ǆabc ŉz ßx ﬁt 3abc".title() }}"#,
                "It'S ǅabc ʼNz Ssx Fit 3Abc",
            ),
            (
                "{{ 'a\u{2028}b\x0bc\r\nd\x1ce\n'.splitlines() }}",
                "['a', 'b', 'c', 'd', 'e']",
            ),
            (
                "{{ 'a\r\n\nb\r'.splitlines(true) }}{{ ''.splitlines() }}",
                r"['a\r\n', '\n', 'b\r'][]",
            ),
            ("{{ 'a\x1cb  c'.split() }}", "['a', 'b', 'c']"),
        ] {
            assert_eq!(render(source).as_deref(), Ok(text), "{source}");
        }
        assert!(render("{{ 'abc'.split('') }}").unwrap_err().contains("empty separator"));
    }

    #[test]
    fn loops_go_over_what_python_iterates_over() {
        for (source, text) in [
            (
                "{% for x in a if x in [true] %}{{ x }}{{ loop.last }}{% endfor %}",
                "1FalseTrueTrue",
            ),
            ("{%- for k, v in d.items() -%} {{ k }}={{ v }} {%- endfor -%}", "k=[1]"),
            ("{% for (k, v) in d|items %}{{ k }}{% else %}none{% endfor %}", "k"),
            ("{% for x in \"{% for %} in\"[:4] %}{{ x }}{% endfor %}", "{% f"),
            (
                "{% for x in (a if answer else n) %}{{ loop.index }}{% endfor %}",
                "12345",
            ),
            (
                "{% for x in 1, 2 %}{{ x }}{% endfor %}{% for x in n or [] %}{{ x }}{% endfor %}",
                "12",
            ),
            (
                "{% raw %}{% for x in n %}{% endraw %}{# {% for x in n %} #}{{ {'a': {'b': {}}} }}",
                "{% for x in n %}{'a': {'b': {}}}",
            ),
            (
                "{% for x in [[1], 2] recursive %}{{ loop(x) if x is sequence else x }}{% endfor %}",
                "12",
            ),
            (
                "{% macro m(a) %}{% for x in a %}{{ x }}{% endfor %}{% endmacro %}{{ m('ab') }}",
                "ab",
            ),
        ] {
            assert_eq!(render(source).as_deref(), Ok(text), "{source}");
        }
        let over = [
            "{% for x in n %}{% endfor %}",
            "{{ n|join }}",
            "{{ n|list }}",
            "{{ n|sort }}",
            "{{ n|unique }}",
        ];
        let parts = [
            "{{ n|sum }}",
            "{{ n|batch(2) }}",
            "{{ n|slice(2) }}",
            "{{ n|groupby('a') }}",
            "{{ ','.join(n) }}",
        ];
        for source in over.into_iter().chain(parts) {
            assert!(render(source).is_err(), "{source}");
        }
        assert_eq!(
            render("{% for x in zz %}{% endfor %}").unwrap_err(),
            "`zz` is undefined"
        );
    }

    #[test]
    fn what_jinja_does_not_know_is_an_error() {
        for source in [
            "{{ t|split(' ') }}",
            "{{ t|lines }}",
            "{{ a|pprint }}",
            "{{ 1 is int }}",
            "{{ debug() }}",
        ] {
            assert!(render(source).is_err(), "{source}");
        }
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
