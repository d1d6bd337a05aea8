//! Templates over a row. Undefined names and nulls are errors: neither may end up in a prompt as a word of its own.
//!
//! Everything else renders as in Jinja, so a true value prints as `True`; a final line break is kept.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Expression, UndefinedBehavior, Value, escape_formatter};
use serde_json::{Map, Value as Json};

use crate::data::Row;
use crate::null;

/// What a template is told of a column that holds a picture, for one.
const NO_TEXT: &str = "holds bytes that are no UTF-8 text";

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
    // Task authors write `answer.split(...)`, as Jinja lets them.
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_test("none", null::is_null);
    environment.set_formatter(|output, state, value| {
        if value.is_none() {
            return Err(Error::new(ErrorKind::InvalidOperation, "is null"));
        }
        escape_formatter(output, state, value)
    });
    environment
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
        let template = environment.template_from_str(source);
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
    match (kind, detail, expression) {
        (ErrorKind::OutOfFuel, ..) => format!("takes more than {MAX_STEPS} steps: does a loop go on for too long?"),
        (ErrorKind::UndefinedError, detail, _) if !detail.is_empty() => detail.to_owned(),
        (ErrorKind::InvalidOperation, "is null", Some(expression)) => format!("`{expression}` is null"),
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
