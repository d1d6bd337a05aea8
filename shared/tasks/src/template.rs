//! Templates over a row. Undefined names and nulls are errors: neither may end up in a prompt as a word of its own.
//!
//! Everything else renders as in Jinja, so a true value prints as `True`; a final line break is kept.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Tuple, ValueKind};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Expression, State, UndefinedBehavior, Value, escape_formatter,
};
use serde_json::{Map, Value as Json};
use tidemill_harness::strict::{self, loops};

use crate::data::Row;
use crate::null;

/// What a template is told of a column that holds a picture, for one.
const NO_TEXT: &str = "holds bytes that are no UTF-8 text";

/// Begins the name of a template in the environment; its source follows. No suite writes it, so none includes another.
const OWN: &str = "\u{10fffc}";

/// What is wrong with a list or a mapping.
const HOLDS_UNDEFINED: &str = "holds what is undefined";

/// A template makes at most so many steps for a row, about a tenth of a second: loops in loops would take hours.
const MAX_STEPS: u64 = 5_000_000;

/// Where templates live. One environment serves a whole benchmark; nothing is compiled for a row.
pub(crate) fn environment<'s>() -> Environment<'s> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // Messages then name the variable that is undefined.
    environment.set_debug(true);
    environment.set_fuel(Some(MAX_STEPS));
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        environment.set_syntax(syntax);
    }
    // By its name a template would be one of HTML where its source ends so.
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_loader(|name| Ok(name.strip_prefix(OWN).map(loops::guarded)));
    environment.add_function(loops::EACH, each);
    // Task authors write `answer.split(...)`, as Jinja lets them.
    environment.set_unknown_method_callback(method);
    for (name, filter, look) in strict::filters() {
        strict::add_filter(&mut environment, name, filter, move |state, arguments| {
            look(state, arguments)?;
            null::is_no_argument(name, arguments)
        });
    }
    strict::add_tests(&mut environment);
    environment.add_test("none", null::is_null);
    environment.set_formatter(|output, state, value| {
        if value.is_none() {
            return Err(Error::new(ErrorKind::InvalidOperation, null::IS_NULL));
        }
        is_whole(value)?;
        escape_formatter(output, state, value)
    });
    environment
}

/// # Errors
/// Something undefined is in a list or a mapping.
pub(crate) fn is_whole(value: &Value) -> Result<(), Error> {
    match strict::holds_undefined(value) {
        true => Err(Error::new(ErrorKind::InvalidOperation, HOLDS_UNDEFINED)),
        false => Ok(()),
    }
}

/// What a loop goes over; of several values, their tuple.
fn each(values: Rest<Value>) -> Result<Value, Error> {
    match values.0.as_slice() {
        [value] if value.is_none() => Err(Error::new(ErrorKind::InvalidOperation, null::IS_NULL)),
        [value] => Ok(value.clone()),
        values => Ok(Value::from(Tuple::from(values))),
    }
}

/// Python's, which take nothing that is undefined but what `get` gives where there is nothing.
fn method(state: &mut State<'_, '_>, value: &Value, method: &str, arguments: &[Value]) -> Result<Value, Error> {
    if method != "get" {
        strict::defined(state, arguments)?;
        arguments.iter().try_for_each(is_whole)?;
    }
    if method == "join" {
        null::is_no_argument(method, arguments)?;
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, arguments)
}

/// A compiled template.
pub(crate) enum Template<'e> {
    /// Renders to a text.
    Text(minijinja::Template<'e, 'e>),
    /// Was exactly one expression, so it evaluates to a value of any kind.
    Expression {
        /// As written, for messages.
        source: &'e str,
        /// Compiled.
        compiled: Expression<'e, 'e>,
    },
}

impl<'e> Template<'e> {
    /// Compiles a template that renders to a text.
    pub(crate) fn text(environment: &'e Environment<'e>, source: &'e str) -> Result<Self, String> {
        let has_loop = loops::guarded(source) != source;
        let template = match has_loop {
            true => environment.get_template(&format!("{OWN}{source}")),
            false => environment.template_from_str(source),
        };
        template.map(Self::Text).map_err(|error| describe(&error))
    }

    /// Compiles a template whose value is wanted: as an expression where it is exactly one.
    pub(crate) fn value(environment: &'e Environment<'e>, source: &'e str) -> Result<Self, String> {
        if let Some(inner) = single_expression(source)
            && let Ok(compiled) = environment.compile_expression(inner)
        {
            let source = inner.trim();
            return Ok(Self::Expression { source, compiled });
        }
        Self::text(environment, source)
    }

    /// The value for one row; never undefined or null.
    pub(crate) fn evaluate(&self, row: &Value) -> Result<Value, String> {
        let value = self.value_of(row).map_err(|error| describe(&error))?;
        if let Self::Expression { source, .. } = self {
            match value.kind() {
                ValueKind::Undefined => return Err(format!("`{source}` is undefined")),
                ValueKind::None => return Err(format!("`{source}` is null")),
                _ if strict::holds_undefined(&value) => return Err(format!("`{source}` {HOLDS_UNDEFINED}")),
                _ => {}
            }
        }
        match null::became_a_word(row, &value, |row| self.value_of(row)) {
            Some(said) => Err(said),
            None => Ok(value),
        }
    }

    fn value_of(&self, row: &Value) -> Result<Value, Error> {
        match self {
            Self::Text(template) => template.render(row.clone()).map(Value::from),
            Self::Expression { compiled, .. } => compiled.eval(row.clone()),
        }
    }

    /// The text for one row.
    pub(crate) fn render(&self, row: &Value) -> Result<String, String> {
        self.evaluate(row).map(|value| value.to_string())
    }
}

/// Says what is wrong with a template's syntax.
pub(crate) fn check(source: &str) -> Result<(), String> {
    Template::text(&environment(), source).map(|_| ())
}

/// The first of these names that a template does something with. Those in `shown` may stand alone in an expression, which only
/// shows them.
pub(crate) fn uses<'n>(source: &str, names: &[&'n str], are_shown: bool) -> Option<&'n str> {
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        rest = &rest[start + 1..];
        let (close, is_expression) = match rest.bytes().next() {
            Some(b'{') => ("}}", true),
            Some(b'%') => ("%}", false),
            Some(b'#') => ("#}", false),
            _ => continue,
        };
        let is_comment = rest.starts_with('#');
        let inner = &rest[1..];
        let end = inner.find(close).unwrap_or(inner.len());
        let block = inner[..end].trim_matches(['-', '+']).trim();
        let is_plain = are_shown && is_expression && names.contains(&block);
        if !is_plain
            && !is_comment
            && let Some(name) = mentioned(block, names)
        {
            return Some(name);
        }
        rest = inner.get(end + close.len()..).unwrap_or_default();
    }
    None
}

/// The first of these names in a block's code: neither in a text nor as what something else has.
fn mentioned<'n>(code: &str, names: &[&'n str]) -> Option<&'n str> {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let (mut rest, mut before) = (code, ' ');
    while let Some(letter) = rest.chars().next() {
        let length = match letter {
            '"' | '\'' => text_length(rest, letter),
            letter if is_of_name(letter) => rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len()),
            letter => letter.len_utf8(),
        };
        let word = &rest[..length];
        if before != '.'
            && let Some(name) = names.iter().find(|name| **name == word)
        {
            return Some(*name);
        }
        if !letter.is_whitespace() {
            before = letter;
        }
        rest = &rest[length..];
    }
    None
}

/// The length of the text that begins here, with its quotes.
fn text_length(code: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, letter) in code.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            letter if letter == quote => return at + letter.len_utf8(),
            _ => {}
        }
    }
    code.len()
}

/// Says what is wrong with a filter's syntax.
pub(crate) fn check_filter(source: &str) -> Result<(), String> {
    if source.contains("{{") {
        return Err("must be an expression as it stands between {{ }}, without them".to_owned());
    }
    Filter::compile(&environment(), source).map(|_| ())
}

/// A rule that rows must pass.
pub(crate) struct Filter<'e> {
    source: &'e str,
    compiled: Expression<'e, 'e>,
    /// Columns that a row must have, or the rule would compare with nothing.
    columns: Vec<String>,
}

impl<'e> Filter<'e> {
    /// Compiles a rule.
    pub(crate) fn compile(environment: &'e Environment<'e>, source: &'e str) -> Result<Self, String> {
        let compiled = environment
            .compile_expression(source)
            .map_err(|error| describe(&error))?;
        // Whoever asks whether a column is there knows that it may be missing.
        let asks = source.contains("defined") || source.contains("default");
        let globals: Vec<&str> = environment.globals().map(|(name, _)| name).collect();
        let mut columns: Vec<String> = compiled.undeclared_variables(false).into_iter().collect();
        columns.retain(|name| !asks && !globals.contains(&name.as_str()));
        columns.sort_unstable();
        Ok(Self {
            source,
            compiled,
            columns,
        })
    }

    /// Whether a row passes.
    pub(crate) fn passes(&self, columns: &Map<String, Json>, row: &Value) -> Result<bool, String> {
        if let Some(missing) = self.columns.iter().find(|name| !columns.contains_key(name.as_str())) {
            return Err(format!(
                "`{missing}` is undefined; where rows may lack it, say so: `{missing} is defined and ...`"
            ));
        }
        let value = self.compiled.eval(row.clone()).map_err(|error| describe(&error))?;
        match value.kind() {
            ValueKind::Bool => Ok(value.is_true()),
            _ => Err(format!(
                "`{}` gives {value:?}, which is neither true nor false; compare it with something",
                self.source.trim()
            )),
        }
    }
}

/// Says why a template is not exactly one expression.
pub(crate) fn check_expression(source: &str) -> Result<(), String> {
    match Template::value(&environment(), source.trim())? {
        Template::Expression { .. } => Ok(()),
        Template::Text(_) => Err("must be exactly one {{ }} that evaluates to a list".to_owned()),
    }
}

/// A row as templates see it, with a word of what it holds that is no text.
pub(crate) fn row_context(row: &Row) -> Value {
    let no_text = |name: &String| Value::from(Error::new(ErrorKind::InvalidOperation, format!("`{name}` {NO_TEXT}")));
    let columns = row
        .columns
        .iter()
        .map(|(name, value)| (name.as_str(), template_value(value)));
    Value::from_pairs(columns.chain(row.unread.iter().map(|name| (name.as_str(), no_text(name)))))
}

/// Columns as templates see them.
pub(crate) fn context(columns: &Map<String, Json>) -> Value {
    Value::from_pairs(
        columns
            .iter()
            .map(|(name, value)| (name.as_str(), template_value(value))),
    )
}

fn template_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(boolean) => Value::from(*boolean),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(elements) => elements.iter().map(template_value).collect(),
        Json::Object(columns) => context(columns),
        Json::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), _, _) => Value::from(number),
            (_, Some(number), _) => Value::from(number),
            (_, _, number) => Value::from(number.unwrap_or(f64::NAN)),
        },
    }
}

/// What stands between the braces of a template that is one pair of them.
fn single_expression(source: &str) -> Option<&str> {
    let inner = source.strip_prefix("{{")?.strip_suffix("}}")?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    Some(inner.strip_suffix(['-', '+']).unwrap_or(inner))
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
        (ErrorKind::InvalidOperation, null::IS_NULL | null::TAKES_NULL | HOLDS_UNDEFINED, Some(expression)) => {
            format!("`{expression}` {detail}")
        }
        (ErrorKind::InvalidOperation, detail, _) if detail.ends_with(NO_TEXT) => detail.to_owned(),
        (_, "", Some(expression)) => format!("{kind} in `{expression}`"),
        (_, "", None) => kind.to_string(),
        (_, detail, _) => match error.line() {
            Some(line) if line > 1 => format!("{kind}: {detail} (template line {line})"),
            _ => format!("{kind}: {detail}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_holds_no_text_is_told_so() {
        let row = Row {
            number: 1,
            columns: Map::from_iter([("q".to_owned(), Json::from("x"))]),
            unread: vec!["bin".to_owned()],
        };
        let environment = environment();
        for source in ["{{ bin }}", "{{ bin }}.", "{{ q }}{{ bin }}"] {
            let template = Template::value(&environment, source).unwrap();
            let said = template.render(&row_context(&row)).unwrap_err();
            assert_eq!(said, "`bin` holds bytes that are no UTF-8 text", "{source}");
        }
        let template = Template::text(&environment, "{{ q }}").unwrap();
        assert_eq!(template.render(&row_context(&row)).unwrap(), "x");
    }

    fn rendered(source: &str) -> Result<String, String> {
        let row = serde_json::json!({
            "q": "one", "ch": ["a", "b"], "ops": [{"text": "x"}, {"text": "y"}], "nn": null, "mixed": ["a", null, "b"], "d": {},
        });
        let environment = environment();
        Template::value(&environment, source)?.render(&context(row.as_object().unwrap()))
    }

    #[test]
    fn what_is_undefined_is_no_word_wherever_it_stands() {
        let expressions = [
            "[q, U]",
            "{'a': U}",
            "[[U]]",
            "U|tojson",
            "[q, U]|tojson",
            "[q, U]|join",
            "','.join(U)",
            "','.join([q, U])",
            "ch|join(U)",
            "U|e",
            "U|indent",
            "'{}'.format(U)",
            "'{}'.format([U])",
            "q.split(U)",
            "U|int",
            "U|float",
            "U|bool",
            "U|list",
            "U|length",
            "[q, U]|string",
            "[q, U]|upper",
            "[q, U]|sort",
            "[q, U]|max",
            "U is iterable",
            "U is eq(1)",
            "q|int(U)",
            "q|indent(U)",
            "q ~ U",
            "U|first",
            "ch|select(U)|list",
            "[q, U]|list",
            "[q, U]|e",
        ];
        for undefined in ["zz", "d.zz", "ch[9]", "q.zz"] {
            for expression in expressions {
                let inner = expression.replace('U', undefined);
                for source in [format!("{{{{ {inner} }}}}"), format!("{{{{ {inner} }}}}.")] {
                    assert!(rendered(&source).is_err(), "{source}: {:?}", rendered(&source));
                }
            }
        }
        for filter in [
            "map(attribute='txt')|join(', ')",
            "map(attribute='txt')|list",
            "sort(attribute='txt')|length",
            "groupby('txt')|length",
            "join(attribute='txt')",
            "selectattr('txt')|list",
        ] {
            for source in [format!("{{{{ ops|{filter} }}}}"), format!("{{{{ ops|{filter} }}}}.")] {
                assert!(rendered(&source).is_err(), "{source}: {:?}", rendered(&source));
            }
        }
        assert_eq!(
            rendered("{{ [q, zz] }}").unwrap_err(),
            "`[q, zz]` holds what is undefined"
        );
        assert_eq!(
            rendered("{{ [q, zz] }}.").unwrap_err(),
            "`[q, zz]` holds what is undefined"
        );
        assert_eq!(rendered("{{ zz|int }}").unwrap_err(), "`zz` is undefined");
    }

    #[test]
    fn null_is_no_number_and_no_empty_list() {
        for expression in [
            "nn|int",
            "nn|float",
            "nn|bool",
            "nn|list",
            "nn|sum",
            "nn|sort",
            "nn|join",
            "nn|length",
            "nn|first",
            "nn|unique",
            "nn|select|list",
            "nn|tojson",
            "','.join(nn)",
            "mixed|sort|join",
            "mixed|sort|list",
            "mixed|max",
        ] {
            for source in [format!("{{{{ {expression} }}}}"), format!("{{{{ {expression} }}}}.")] {
                assert!(rendered(&source).is_err(), "{source}: {:?}", rendered(&source));
            }
        }
        let said = rendered("{{ nn|int }}").unwrap_err();
        assert!(said.starts_with("`int` takes null"), "{said}");
        let said = rendered("a{% for x in nn %}x{% endfor %}").unwrap_err();
        assert!(said.contains("is null"), "{said}");
    }

    #[test]
    fn what_may_be_missing_is_replaced_or_passed_over() {
        for (source, text) in [
            (
                "{{ zz|default('x') }}{{ (nn or 3)|int }}{{ nn|default(2, true)|int }}",
                "x32",
            ),
            ("{% for x in nn or [] %}x{% else %}none{% endfor %}", "none"),
            ("{% for x in ch %}{{ loop.index }}{{ x }}{% endfor %}.html", "1a2b.html"),
            ("{% for a, b in [('<', 2)] %}{{ a }}{{ b }}{% endfor %}.html", "<2.html"),
            ("{% if zz is defined %}{{ zz }}{% endif %}{{ mixed|select|join }}", "ab"),
            (
                "{{ d.get('k', 'v') }}{{ ops|map(attribute='txt', default='z')|join }}",
                "vzz",
            ),
            (
                "{{ mixed|select|sort(reverse=true)|join }}{{ [3, 1]|max }}{{ '7'|int + 1 }}",
                "ba38",
            ),
        ] {
            assert_eq!(rendered(source).as_deref(), Ok(text), "{source}");
        }
        let said = rendered("{% include '{{ q }}' %}").unwrap_err();
        assert!(said.contains("template not found"), "{said}");
    }

    #[test]
    fn a_template_whose_loops_go_on_for_too_long_is_an_error() {
        let render = |source: &str| {
            let environment = environment();
            let template = Template::text(&environment, source)?;
            template.render(&context(&Map::new()))
        };
        let nested = "{% for i in range(9999) %}{% for j in range(9999) %}{% for k in range(9999) %}x{% endfor %}{% endfor %}{% endfor %}";
        let said = render(nested).unwrap_err();
        assert!(said.contains("takes more than 5000000 steps"), "{said}");
        assert_eq!(render("{% for i in range(9999) %}x{% endfor %}").unwrap().len(), 9_999);
    }
}
