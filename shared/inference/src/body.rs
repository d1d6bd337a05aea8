//! Bodies of requests, written once and straight from what the caller holds.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use tidemill_domain::{Message, Penalties, Prompt};

use crate::Request;
use crate::continuation::Rest;

/// The body of a completion. One of `prompt` and `messages` is set.
#[derive(Serialize)]
struct CompletionBody<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<PromptBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<&'a [Message]>,
    max_tokens: u32,
    temperature: f64,
    top_p: f64,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(flatten)]
    sampling: Sampling,
    #[serde(skip_serializing_if = "Option::is_none")]
    logit_bias: Option<&'a BTreeMap<u32, f64>>,
    #[serde(flatten)]
    streaming: Option<Streaming>,
    #[serde(flatten)]
    keep_stop: Option<KeepStop>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_token_ids: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum PromptBody<'a> {
    Text(&'a str),
    Tokens(&'a [u32]),
}

#[derive(Serialize)]
struct Streaming {
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// The sampling settings beside temperature and nucleus, in an engine's own words.
///
/// A server may take defaults for these from the checkpoint's `generation_config.json` or its own command line, which
/// changes answers even of greedy decoding. So all are sent, at the values that do nothing unless a suite says otherwise.
#[derive(Serialize, Default)]
pub(crate) struct Sampling {
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetition_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_last_n: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    samplers: Option<[&'static str; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirostat: Option<u32>,
}

/// Which words an engine has for the sampling settings outside OpenAI's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// vLLM's, which SGLang, the embedded engine and many others share.
    Vllm,
    /// llama.cpp's. Its samplers are named in the order in which the others apply theirs: the nucleus is taken after the
    /// temperature. Those that are not named take no part, whatever the server's defaults.
    LlamaCpp,
}

/// Fields that a server may not know: [`Words::Vllm`]'s, and penalties that are 0.
pub(crate) const NEUTRAL_FIELDS: [&str; 5] = [
    "top_k",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
];

/// The field that asks a server to count the tokens of a streamed answer.
pub(crate) const STREAM_OPTIONS: &str = "stream_options";

impl Sampling {
    pub(crate) fn new(words: Words, penalties: Penalties, is_plain: bool) -> Self {
        // Where a server refuses what it does not know, only what says something is sent.
        let said = |value: f64, neutral: f64| (!is_plain || value != neutral).then_some(value);
        let base = Self {
            frequency_penalty: said(penalties.frequency, 0.0),
            presence_penalty: said(penalties.presence, 0.0),
            ..Self::default()
        };
        match words {
            Words::Vllm => Self {
                repetition_penalty: said(penalties.repetition, 1.0),
                top_k: (!is_plain).then_some(-1),
                min_p: (!is_plain).then_some(0.0),
                ..base
            },
            Words::LlamaCpp => Self {
                repeat_penalty: Some(penalties.repetition),
                // How far back tokens count: over the whole context, but for one of which nobody has the memory.
                repeat_last_n: Some(if penalties.repetition == 1.0 { 0 } else { 1 << 17 }),
                samplers: Some(["penalties", "temperature", "top_p"]),
                mirostat: Some(0),
                ..base
            },
        }
    }
}

/// How an engine is asked to send the stop text too when it streams. It then holds no text back that might become one, so
/// that text and tokens keep step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum KeepStop {
    /// vLLM and the embedded engine.
    #[serde(rename = "include_stop_str_in_output")]
    Include(bool),
    /// SGLang.
    #[serde(rename = "no_stop_trim")]
    Untrimmed(bool),
}

/// How a body is written for one server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) words: Words,
    /// The server refuses fields that it does not know.
    pub(crate) is_plain: bool,
    pub(crate) stream: bool,
    pub(crate) counts_stream: bool,
    pub(crate) keep_stop: Option<KeepStop>,
    pub(crate) return_token_ids: bool,
}

/// The body of a request that echoes its prompt with log-probabilities.
#[derive(Serialize)]
struct EchoBody<'a> {
    model: &'a str,
    prompt: PromptBody<'a>,
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

/// The body of a completion, or of the rest of one.
pub(crate) fn completion(model: &str, request: &Request<'_>, rest: Option<&Rest>, style: Style) -> Bytes {
    let (prompt, messages) = match (rest, request.prompt) {
        (Some(rest), _) => (Some(PromptBody::Tokens(&rest.prompt)), None),
        (None, Prompt::Text(text)) => (Some(PromptBody::Text(text)), None),
        (None, Prompt::Chat(messages)) => (None, Some(messages.as_slice())),
    };
    let text_bytes = match &prompt {
        Some(PromptBody::Text(text)) => text.len(),
        Some(PromptBody::Tokens(tokens)) => tokens.len() * 7,
        None => 1024,
    };
    let seed = rest.map_or(request.seed, |rest| rest.seed);
    let logit_bias = rest.map(|rest| &rest.logit_bias).filter(|bias| !bias.is_empty());
    encode(
        &CompletionBody {
            model,
            prompt,
            messages,
            max_tokens: rest.map_or(request.max_tokens, |rest| rest.max_tokens),
            temperature: request.temperature,
            top_p: request.top_p,
            stop: request.stop,
            seed: seed.filter(|_| request.temperature > 0.0),
            sampling: Sampling::new(style.words, request.penalties, style.is_plain),
            logit_bias,
            streaming: style.stream.then_some(Streaming {
                stream: true,
                stream_options: style.counts_stream.then_some(StreamOptions { include_usage: true }),
            }),
            keep_stop: style.keep_stop.filter(|_| style.stream && !request.stop.is_empty()),
            return_token_ids: style.return_token_ids.then_some(true),
        },
        text_bytes,
    )
}

/// The body that asks for the log-probabilities of all tokens of `prompt`.
pub(crate) fn echo(model: &str, prompt: &str, max_tokens: u32) -> Bytes {
    encode(&echo_body(model, PromptBody::Text(prompt), max_tokens), prompt.len())
}

/// As [`echo`], of a prompt in tokens.
pub(crate) fn echo_tokens(model: &str, prompt: &[u32], max_tokens: u32) -> Bytes {
    encode(
        &echo_body(model, PromptBody::Tokens(prompt), max_tokens),
        prompt.len() * 7,
    )
}

const fn echo_body<'a>(model: &'a str, prompt: PromptBody<'a>, max_tokens: u32) -> EchoBody<'a> {
    EchoBody {
        model,
        prompt,
        max_tokens,
        temperature: 0.0,
        echo: true,
        logprobs: 1,
    }
}

/// The body that asks for the text of tokens.
#[derive(Serialize)]
struct DetokenizeBody<'a> {
    model: &'a str,
    tokens: &'a [u32],
    #[serde(skip_serializing_if = "Option::is_none")]
    skip_special_tokens: Option<bool>,
}

/// The body that asks for the text of `tokens`: `whole` with that of special tokens, which a prompt may hold. An engine that
/// always tells it passes the field over.
pub(crate) fn detokenize(model: &str, tokens: &[u32], whole: bool) -> Bytes {
    let body = DetokenizeBody {
        model,
        tokens,
        skip_special_tokens: whole.then_some(false),
    };
    encode(&body, tokens.len() * 7)
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

/// Writes a body; `text_bytes` is about how long its text is.
pub(crate) fn encode(body: &impl Serialize, text_bytes: usize) -> Bytes {
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
    use serde_json::{Value, json};

    use super::*;

    const PLAIN: Style = Style {
        words: Words::Vllm,
        is_plain: true,
        stream: false,
        counts_stream: true,
        keep_stop: None,
        return_token_ids: false,
    };
    const FULL: Style = Style {
        is_plain: false,
        ..PLAIN
    };

    fn body(request: &Request<'_>, rest: Option<&Rest>, style: Style) -> Value {
        serde_json::from_slice(&completion("m", request, rest, style)).unwrap()
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
        let expected = json!({
            "model": "m", "prompt": "Q: \"1\"", "max_tokens": 8, "temperature": 0.7, "top_p": 0.9, "stop": ["\n\n"],
            "seed": 7, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "frequency_penalty": 0.0,
            "presence_penalty": 0.0
        });
        assert_eq!(body(&request(&prompt, &stop), None, FULL), expected);
        let style = Style {
            words: Words::LlamaCpp,
            ..FULL
        };
        let expected = json!({
            "model": "m", "prompt": "Q: \"1\"", "max_tokens": 8, "temperature": 0.7, "top_p": 0.9, "stop": ["\n\n"],
            "seed": 7, "frequency_penalty": 0.0, "presence_penalty": 0.0, "repeat_penalty": 1.0, "repeat_last_n": 0,
            "samplers": ["penalties", "temperature", "top_p"], "mirostat": 0
        });
        assert_eq!(body(&request(&prompt, &stop), None, style), expected);
    }

    #[test]
    fn greedy_decoding_is_sent_no_seed_and_a_plain_server_nothing_that_says_nothing() {
        let prompt = Prompt::Text(String::new());
        let greedy = Request {
            temperature: 0.0,
            ..request(&prompt, &[])
        };
        let expected = json!({ "model": "m", "prompt": "", "max_tokens": 8, "temperature": 0.0, "top_p": 0.9 });
        assert_eq!(body(&greedy, None, PLAIN), expected);
        let penalised = Request {
            penalties: Penalties {
                frequency: 0.5,
                presence: 0.25,
                repetition: 1.5,
            },
            ..greedy
        };
        let sent = body(&penalised, None, PLAIN);
        assert_eq!(sent["frequency_penalty"], 0.5);
        assert_eq!(sent["presence_penalty"], 0.25);
        assert_eq!(sent["repetition_penalty"], 1.5);
    }

    #[test]
    fn a_chat_prompt_is_sent_as_messages() {
        let prompt = Prompt::Chat(vec![Message {
            role: "user".to_owned(),
            content: "hi".to_owned(),
        }]);
        let body = body(&request(&prompt, &[]), None, PLAIN);
        assert_eq!(body["messages"], json!([{ "role": "user", "content": "hi" }]));
        assert!(body.get("prompt").is_none());
    }

    #[test]
    fn a_streamed_request_says_what_its_server_understands() {
        let (prompt, stop) = (Prompt::Text("Q".to_owned()), ["\n".to_owned()]);
        let style = Style {
            stream: true,
            keep_stop: Some(KeepStop::Include(true)),
            return_token_ids: true,
            ..FULL
        };
        let sent = body(&request(&prompt, &stop), None, style);
        assert_eq!(sent["stream"], true);
        assert_eq!(sent["stream_options"], json!({ "include_usage": true }));
        assert_eq!(sent["include_stop_str_in_output"], true);
        assert_eq!(sent["return_token_ids"], true);
        let sglang = Style {
            keep_stop: Some(KeepStop::Untrimmed(true)),
            ..style
        };
        assert_eq!(body(&request(&prompt, &stop), None, sglang)["no_stop_trim"], true);
        // Without stop texts nothing is held back.
        assert!(
            body(&request(&prompt, &[]), None, style)
                .get("include_stop_str_in_output")
                .is_none()
        );
    }

    #[test]
    fn the_rest_is_asked_for_by_tokens() {
        let prompt = Prompt::Chat(vec![]);
        let rest = Rest {
            prompt: vec![1, 2, 3],
            max_tokens: 5,
            seed: Some(99),
            logit_bias: BTreeMap::from([(3, -0.5)]),
        };
        let sent = body(&request(&prompt, &[]), Some(&rest), FULL);
        assert_eq!(sent["prompt"], json!([1, 2, 3]));
        assert!(sent.get("messages").is_none());
        assert_eq!(sent["max_tokens"], 5);
        assert_eq!(sent["seed"], 99);
        assert_eq!(sent["logit_bias"], json!({ "3": -0.5 }));
    }
}
