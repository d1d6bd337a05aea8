//! What a client asked for, as a script sees it.

use serde_json::Value;

use super::tokens::prompt_hash;

/// Which of the two generating endpoints was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/v1/completions`.
    Completions,
    /// `/v1/chat/completions`.
    Chat,
}

/// One prompt of one request; a request with several prompts is several of these.
#[derive(Clone, Debug)]
pub struct Request {
    /// The endpoint called.
    pub endpoint: Endpoint,
    /// The prompt: text as sent, token ids joined by spaces, or the contents of all messages joined by line ends.
    pub prompt: String,
    /// How often this prompt has been asked for, this time included: 1 at first.
    pub attempt: u64,
    /// The whole body.
    pub body: Value,
}

impl Request {
    /// The stable hash of the prompt.
    #[must_use]
    pub fn hash(&self) -> u64 {
        prompt_hash(&self.prompt)
    }
}

/// The prompts in a body; none when it has none that make sense.
pub(super) fn prompts(endpoint: Endpoint, body: &Value) -> Vec<String> {
    match endpoint {
        Endpoint::Chat => body["messages"]
            .as_array()
            .map(|messages| conversation(messages))
            .into_iter()
            .collect(),
        Endpoint::Completions => match &body["prompt"] {
            Value::String(text) => vec![text.clone()],
            Value::Array(list) if list.iter().all(Value::is_number) => token_ids(list).into_iter().collect(),
            Value::Array(list) => list.iter().filter_map(one_of_list).collect(),
            _ => Vec::new(),
        },
    }
}

fn one_of_list(prompt: &Value) -> Option<String> {
    match prompt {
        Value::String(text) => Some(text.clone()),
        Value::Array(ids) => token_ids(ids),
        _ => None,
    }
}

fn token_ids(ids: &[Value]) -> Option<String> {
    let words: Vec<String> = ids.iter().map(Value::to_string).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn conversation(messages: &[Value]) -> String {
    let contents: Vec<&str> = messages
        .iter()
        .map(|message| message["content"].as_str().unwrap_or_default())
        .collect();
    contents.join("\n")
}
