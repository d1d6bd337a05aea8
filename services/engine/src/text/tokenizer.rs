//! The tokenizer and chat template of a checkpoint.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::Tokenizer;

use super::{ChatTemplate, TemplateError};
use crate::{Error, checkpoint::read_optional_json};

/// Everything that turns text into tokens and back.
#[derive(Debug)]
pub(crate) struct TextModel {
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    eos_token_id: Option<u32>,
}

/// The tokenizer failed on a text; it gives no typed reason.
#[derive(Debug, thiserror::Error)]
#[error("tokenize the prompt: {0}")]
pub(crate) struct TokenizeError(String);

/// tokenizer_config.json, as far as it is used.
#[derive(Debug, Default, Deserialize)]
struct TokenizerConfig {
    #[serde(default)]
    chat_template: Option<TemplateField>,
    #[serde(default)]
    bos_token: Option<TokenField>,
    #[serde(default)]
    eos_token: Option<TokenField>,
}

/// One template or several with names.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum TemplateField {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Debug, Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

/// A special token as text or as an object around it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum TokenField {
    Text(String),
    Object { content: String },
}

impl TokenField {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Object { content: text } => text,
        }
    }
}

impl TextModel {
    /// Loads tokenizer.json, and the chat template if there is one.
    pub(crate) fn load(directory: &Path, vocab_size: usize) -> Result<Self, Error> {
        let path = directory.join("tokenizer.json");
        if !path.is_file() {
            let remedy = "save the tokenizer into the checkpoint directory too (a separate save_pretrained call)";
            return Err(Error::MissingFile { path, remedy });
        }
        let tokenizer = Tokenizer::from_file(&path).map_err(|error| Error::malformed(&path, error))?;
        let largest = tokenizer.get_vocab(true).into_values().max().unwrap_or(0) as usize;
        if largest >= vocab_size {
            let reason = format!("it has token {largest} but the model's vocab_size is {vocab_size}");
            return Err(Error::malformed(&path, reason));
        }
        Self::beside(directory, tokenizer)
    }

    /// Loads a tokenizer file, and the chat template if there is one beside it.
    pub(crate) fn of_file(path: &Path) -> Result<Self, Error> {
        let tokenizer = Tokenizer::from_file(path).map_err(|error| Error::malformed(path, error))?;
        Self::beside(path.parent().unwrap_or(Path::new("")), tokenizer)
    }

    fn beside(directory: &Path, tokenizer: Tokenizer) -> Result<Self, Error> {
        let config_path = directory.join("tokenizer_config.json");
        let config: TokenizerConfig = read_optional_json(&config_path)?.unwrap_or_default();
        Self::assemble(directory, tokenizer, config)
    }

    fn assemble(directory: &Path, tokenizer: Tokenizer, config: TokenizerConfig) -> Result<Self, Error> {
        let bos = config.bos_token.map(TokenField::into_text).unwrap_or_default();
        let eos = config.eos_token.map(TokenField::into_text).unwrap_or_default();
        let template = match template_source(directory, config.chat_template)? {
            Some((path, source)) => {
                let template = ChatTemplate::compile(source, &bos, &eos);
                Some(template.map_err(|error| Error::malformed(&path, error))?)
            }
            None => None,
        };
        Ok(Self {
            eos_token_id: tokenizer.token_to_id(&eos),
            tokenizer,
            template,
        })
    }

    /// Whether chat can be answered.
    pub(crate) fn has_chat_template(&self) -> bool {
        self.template.is_some()
    }

    /// The tokenizer's own end-of-sequence token.
    pub(crate) fn eos_token_id(&self) -> Option<u32> {
        self.eos_token_id
    }

    /// Renders messages with the chat template; `None` when there is none.
    pub(crate) fn render(&self, context: &Map<String, Value>) -> Option<Result<String, TemplateError>> {
        self.template.as_ref().map(|template| template.render(context))
    }

    /// Splits `text` into tokens. `add_special` lets the tokenizer add its own beginning and end.
    pub(crate) fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokenizeError> {
        match self.tokenizer.encode_fast(text, add_special) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(error) => Err(TokenizeError(error.to_string())),
        }
    }

    /// The text of `tokens`, with U+FFFD where their bytes are no UTF-8.
    pub(crate) fn decode(&self, tokens: &[u32], skip_special: bool) -> String {
        self.tokenizer
            .decode(tokens, skip_special)
            .unwrap_or_else(|_| "\u{FFFD}".to_owned())
    }
}

/// The template's text and the file it is from; the file of its own wins over the field.
fn template_source(
    directory: &Path,
    field: Option<TemplateField>,
) -> Result<Option<(std::path::PathBuf, String)>, Error> {
    let own = directory.join("chat_template.jinja");
    if own.is_file() {
        let source = std::fs::read_to_string(&own).map_err(|error| Error::read(&own, error))?;
        return Ok(Some((own, source)));
    }
    let path = directory.join("tokenizer_config.json");
    Ok(match field {
        Some(TemplateField::One(source)) => Some((path, source)),
        Some(TemplateField::Named(list)) => list
            .into_iter()
            .find(|named| named.name == "default")
            .map(|named| (path, named.template)),
        None => None,
    })
}
