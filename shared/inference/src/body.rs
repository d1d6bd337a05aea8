//! Bodies of requests, written once and straight from what the caller holds.

use bytes::Bytes;
use serde::Serialize;
use tidemill_domain::{Message, Prompt};

use crate::Request;

/// The body of a completion. One of `prompt` and `messages` is set.
#[derive(Serialize)]
struct CompletionBody<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<&'a [Message]>,
    max_tokens: u32,
    temperature: f64,
    top_p: f64,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetition_penalty: Option<f64>,
}

/// Sampling fields outside OpenAI's API, which are sent at the values that do nothing.
///
/// A server may take defaults for these from the checkpoint's `generation_config.json` or its own command line, which
/// changes answers even of greedy decoding. Servers that do not know them ignore or refuse them.
pub(crate) const NEUTRAL_FIELDS: [&str; 3] = ["top_k", "min_p", "repetition_penalty"];

/// The body of a request that echoes its prompt with log-probabilities.
#[derive(Serialize)]
struct EchoBody<'a> {
    model: &'a str,
    prompt: &'a str,
    max_tokens: u32,
    temperature: f64,
    echo: bool,
    logprobs: u32,
}

/// The body of a request that only counts the prompt's tokens, in its usage.
#[derive(Serialize)]
struct CountBody<'a> {
    model: &'a str,
    prompt: &'a str,
    max_tokens: u32,
    temperature: f64,
}

/// The body of a completion, with or without the fields outside OpenAI's API.
pub(crate) fn completion(model: &str, request: &Request<'_>, with_neutral_fields: bool) -> Bytes {
    let (prompt, messages) = match request.prompt {
        Prompt::Text(text) => (Some(text.as_str()), None),
        Prompt::Chat(messages) => (None, Some(messages.as_slice())),
    };
    encode(
        &CompletionBody {
            model,
            prompt,
            messages,
            max_tokens: request.max_tokens,
            temperature: request.temperature,
            top_p: request.top_p,
            stop: request.stop,
            seed: request.seed.filter(|_| request.temperature > 0.0),
            top_k: with_neutral_fields.then_some(-1),
            min_p: with_neutral_fields.then_some(0.0),
            repetition_penalty: with_neutral_fields.then_some(1.0),
        },
        prompt.map_or(1024, str::len),
    )
}

/// The body that asks for the log-probabilities of all tokens of `prompt`.
pub(crate) fn echo(model: &str, prompt: &str, max_tokens: u32) -> Bytes {
    let body = EchoBody {
        model,
        prompt,
        max_tokens,
        temperature: 0.0,
        echo: true,
        logprobs: 1,
    };
    encode(&body, prompt.len())
}

/// The body that asks for one token, so that the usage tells how long `prompt` is.
pub(crate) fn count(model: &str, prompt: &str) -> Bytes {
    let body = CountBody {
        model,
        prompt,
        max_tokens: 1,
        temperature: 0.0,
    };
    encode(&body, prompt.len())
}

fn encode(body: &impl Serialize, text_bytes: usize) -> Bytes {
    // Room for the settings and for an escape in every eighth character.
    let mut bytes = Vec::with_capacity(text_bytes + text_bytes / 8 + 256);
    match serde_json::to_writer(&mut bytes, body) {
        Ok(()) => Bytes::from(bytes),
        // Texts and numbers always encode, and a Vec always takes them.
        Err(_) => Bytes::new(),
    }
}

#[cfg(test)]
mod tests {
    use tidemill_domain::Penalties;

    use super::*;

    fn json(request: &Request<'_>, with_neutral_fields: bool) -> serde_json::Value {
        serde_json::from_slice(&completion("m", request, with_neutral_fields)).unwrap()
    }

    fn request<'a>(prompt: &'a Prompt, stop: &'a [String]) -> Request<'a> {
        Request {
            prompt,
            max_tokens: 8,
            temperature: 0.7,
            top_p: 0.9,
            stop,
            seed: Some(7),
            penalties: Penalties::default(),
            stream: false,
            stall_timeout: std::time::Duration::from_secs(60),
        }
    }

    #[test]
    fn every_setting_is_sent() {
        let stop = ["\n\n".to_owned()];
        let prompt = Prompt::Text("Q: \"1\"".to_owned());
        let body = json(&request(&prompt, &stop), true);
        let expected = serde_json::json!({
            "model": "m", "prompt": "Q: \"1\"", "max_tokens": 8, "temperature": 0.7, "top_p": 0.9, "stop": ["\n\n"],
            "seed": 7, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn greedy_decoding_is_sent_no_seed() {
        let prompt = Prompt::Text(String::new());
        let greedy = Request {
            temperature: 0.0,
            ..request(&prompt, &[])
        };
        let body = json(&greedy, false);
        assert!(body.get("seed").is_none());
        assert!(body.get("stop").is_none());
        assert!(body.get("top_k").is_none());
        assert_eq!(body["temperature"], 0.0);
    }

    #[test]
    fn a_chat_prompt_is_sent_as_messages() {
        let prompt = Prompt::Chat(vec![Message {
            role: "user".to_owned(),
            content: "hi".to_owned(),
        }]);
        let body = json(&request(&prompt, &[]), false);
        assert_eq!(
            body["messages"],
            serde_json::json!([{ "role": "user", "content": "hi" }])
        );
        assert!(body.get("prompt").is_none());
    }
}
