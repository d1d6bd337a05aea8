//! The same answer to everybody, ready before the question: for measuring what is around an engine.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;

use super::answer::{Choice, Settings, body};
use super::reply::Text;
use super::request::Endpoint;
use super::tokens::{prompt_hash, split_tokens};

/// The parts of a plain request that decide whether the ready answer fits. Any other shape fails to parse, and goes the long way.
#[derive(Deserialize)]
struct Plain<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(borrow)]
    prompt: Option<Cow<'a, str>>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    #[serde(default = "one")]
    n: u64,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    echo: bool,
    logprobs: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
}

fn one() -> u64 {
    1
}

/// Ready bodies of both endpoints.
///
/// Their usage is that of the fixed text and of a prompt of one token: counting the real one would cost more than the answer.
#[derive(Debug)]
pub(super) struct Ready {
    model: String,
    completion: Bytes,
    chat: Bytes,
    completion_tokens: u64,
}

impl Ready {
    pub(super) fn new(model: &str, text: &str) -> Self {
        let ready = |endpoint| {
            let settings = Settings::read(endpoint, &serde_json::json!({ "model": model }));
            let text = Text {
                content: Some(text.to_owned()),
                ..Text::default()
            };
            Bytes::from(body(&[Choice::new("prompt", text, &settings)], &settings).to_string())
        };
        Self {
            model: model.to_owned(),
            completion: ready(Endpoint::Completions),
            chat: ready(Endpoint::Chat),
            completion_tokens: split_tokens(text).len() as u64,
        }
    }

    /// The ready answer, if the request is plain: its body, the hash of the prompt, and the tokens it claims.
    pub(super) fn answer(&self, endpoint: Endpoint, request: &[u8]) -> Option<(Bytes, u64, u64)> {
        let plain: Plain<'_> = serde_json::from_slice(request).ok()?;
        if plain.n != 1 || plain.stream || plain.echo || plain.logprobs.is_some() || plain.model != self.model {
            return None;
        }
        let (body, prompt) = match endpoint {
            Endpoint::Completions => (&self.completion, plain.prompt?),
            Endpoint::Chat => (&self.chat, conversation(&plain.messages?).into()),
        };
        Some((body.clone(), prompt_hash(&prompt), self.completion_tokens))
    }
}

fn conversation(messages: &[Message<'_>]) -> String {
    let contents: Vec<&str> = messages.iter().map(|message| message.content.as_ref()).collect();
    contents.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::request::prompts;
    use super::*;

    fn hash(endpoint: Endpoint, request: &Value) -> Option<u64> {
        Ready::new("m", "yes")
            .answer(endpoint, request.to_string().as_bytes())
            .map(|(_, hash, _)| hash)
    }

    #[test]
    fn a_plain_prompt_has_the_same_hash_on_both_ways() {
        let request = json!({ "model": "m", "prompt": "a \"b\"\n", "max_tokens": 4, "temperature": 0.0 });
        assert_eq!(hash(Endpoint::Completions, &request), Some(prompt_hash("a \"b\"\n")));
        let request = json!({ "model": "m", "messages": [{ "role": "system", "content": "x" }, { "role": "user", "content": "y" }] });
        let slow = prompts(Endpoint::Chat, &request)
            .iter()
            .map(|prompt| prompt_hash(prompt))
            .next();
        assert!(slow.is_some());
        assert_eq!(hash(Endpoint::Chat, &request), slow);
    }

    #[test]
    fn whatever_needs_another_answer_goes_the_long_way() {
        for (name, value) in [
            ("n", json!(2)),
            ("stream", json!(true)),
            ("echo", json!(true)),
            ("logprobs", json!(1)),
            ("model", json!("other")),
            ("prompt", json!(["a", "b"])),
        ] {
            let mut request = json!({ "model": "m", "prompt": "a" });
            request[name] = value;
            assert_eq!(hash(Endpoint::Completions, &request), None, "{name}");
        }
    }
}
