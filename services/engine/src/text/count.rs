//! How many tokens a prompt has, for who looks at prompts without a server.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::TextModel;
use crate::Error;

/// Counts tokens as the embedded engine does when it is sent the same prompt.
#[derive(Debug)]
pub struct TokenCounter(TextModel);

impl TokenCounter {
    /// Reads a tokenizer.json, or that of a checkpoint's folder; with the chat template beside it, where there is one.
    ///
    /// # Errors
    /// No file there, or one that is no tokenizer.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let model = match path.is_dir() {
            true => TextModel::load(path, usize::MAX),
            false if path.is_file() => TextModel::of_file(path),
            false => Err(Error::MissingFile {
                path: path.to_owned(),
                remedy: "name a tokenizer.json, or the folder of a checkpoint that has one",
            }),
        };
        model.map(Self)
    }

    /// The tokens of a text, with those that the tokenizer adds to every text.
    ///
    /// # Errors
    /// The tokenizer's own words.
    pub fn of_text(&self, text: &str) -> Result<usize, String> {
        self.count(text, true)
    }

    /// The tokens of turns, each a role and its text, by the chat template, up to where the answer begins; `None` without one.
    ///
    /// # Errors
    /// The template refuses the turns, or the tokenizer the text.
    pub fn of_turns(&self, turns: &[(&str, &str)]) -> Result<Option<usize>, String> {
        let messages: Vec<Value> = turns
            .iter()
            .map(|(role, content)| json!({ "role": role, "content": content }))
            .collect();
        let mut context = Map::new();
        context.insert("messages".to_owned(), json!(messages));
        context.insert("add_generation_prompt".to_owned(), json!(true));
        let Some(rendered) = self.0.render(&context) else {
            return Ok(None);
        };
        let text = rendered.map_err(|error| error.to_string())?;
        self.count(&text, false).map(Some)
    }

    fn count(&self, text: &str, add_special: bool) -> Result<usize, String> {
        let tokens = self.0.encode(text, add_special).map_err(|error| error.to_string())?;
        Ok(tokens.len())
    }
}
