//! Chat templates: Jinja with the few extras that checkpoints on the hub rely on.

use minijinja::{Environment, ErrorKind, syntax::SyntaxConfig};
use serde_json::{Map, Value};

const NAME: &str = "chat";

/// A compiled chat template with the special tokens it may refer to.
#[derive(Debug)]
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
}

/// The template is invalid, or refused the messages.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TemplateError(String);

impl ChatTemplate {
    /// Compiles `source`.
    pub(crate) fn compile(source: String, bos_token: &str, eos_token: &str) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| TemplateError::from(&error))?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function(
            "raise_exception",
            |message: String| -> Result<String, minijinja::Error> {
                Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
            },
        );
        environment
            .add_template_owned(NAME, source)
            .map_err(|error| TemplateError::from(&error))?;
        Ok(Self {
            environment,
            bos_token: bos_token.to_owned(),
            eos_token: eos_token.to_owned(),
        })
    }

    /// Renders with `context`: an object with `messages`, `add_generation_prompt` and whatever else the request gave.
    pub(crate) fn render(&self, context: &Map<String, Value>) -> Result<String, TemplateError> {
        let tokens = [("bos_token", &self.bos_token), ("eos_token", &self.eos_token)];
        let tokens = tokens.map(|(name, token)| (name, minijinja::Value::from(token.as_str())));
        let given = context
            .iter()
            .map(|(name, value)| (name.as_str(), to_template_value(value)));
        let context = minijinja::Value::from_pairs(tokens.into_iter().chain(given));
        let rendered = self
            .environment
            .get_template(NAME)
            .and_then(|template| template.render(context));
        rendered.map_err(|error| TemplateError::from(&error))
    }
}

fn to_template_value(value: &Value) -> minijinja::Value {
    match value {
        Value::Null => minijinja::Value::from(()),
        Value::Bool(value) => minijinja::Value::from(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => minijinja::Value::from(number),
            (None, Some(number)) => minijinja::Value::from(number),
            (None, None) => minijinja::Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => minijinja::Value::from(text.as_str()),
        Value::Array(items) => items.iter().map(to_template_value).collect(),
        Value::Object(map) => minijinja::Value::from_pairs(
            map.iter()
                .map(|(name, value)| (name.as_str(), to_template_value(value))),
        ),
    }
}

impl From<&minijinja::Error> for TemplateError {
    fn from(error: &minijinja::Error) -> Self {
        let line = error
            .line()
            .map(|line| format!(" (line {line} of the chat template)"))
            .unwrap_or_default();
        Self(format!("{}{line}", error.detail().unwrap_or("invalid chat template")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(source: &str, messages: Value) -> Result<String, TemplateError> {
        let template = ChatTemplate::compile(source.to_owned(), "<s>", "</s>").unwrap();
        let context = json!({"messages": messages, "add_generation_prompt": true});
        template.render(context.as_object().unwrap())
    }

    #[test]
    fn the_usual_constructs_work() {
        let source = "{{ bos_token }}{% for m in messages %}\n{% if m.role == 'user' %}\n[{{ m['content'].strip() }}]\
            {% elif m.content.startswith('x') %}{{ m.content.split('-')[-1] | upper }}{% endif %}\n{% endfor %}\
            {% if add_generation_prompt %}>{% endif %}";
        let messages = json!([{"role": "user", "content": " hi "}, {"role": "assistant", "content": "x-y"}]);
        assert_eq!(render(source, messages).unwrap(), "<s>[hi]Y>");
    }

    #[test]
    fn raise_exception_gives_its_message() {
        let error = render("{{ raise_exception('roles must alternate') }}", json!([])).unwrap_err();
        assert!(error.to_string().contains("roles must alternate"), "{error}");
    }

    #[test]
    fn a_broken_template_does_not_compile() {
        assert!(ChatTemplate::compile("{% for %}".to_owned(), "", "").is_err());
    }
}
