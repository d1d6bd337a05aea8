//! From scripted replies to the JSON an OpenAI-compatible server sends.

use serde_json::{Value, json};

use super::reply::Text;
use super::request::Endpoint;
use super::tokens::{split_tokens, token_logprob};

/// The settings of a request that shape its answer.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) endpoint: Endpoint,
    pub(super) model: String,
    pub(super) max_tokens: Option<usize>,
    pub(super) stop: Vec<String>,
    pub(super) echo: bool,
    pub(super) logprobs: bool,
    pub(super) samples: usize,
    pub(super) stream: bool,
    pub(super) stream_usage: bool,
}

impl Settings {
    pub(super) fn read(endpoint: Endpoint, body: &Value) -> Self {
        let number = |name: &str| body[name].as_u64().and_then(|number| usize::try_from(number).ok());
        Self {
            endpoint,
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            max_tokens: number("max_completion_tokens").or_else(|| number("max_tokens")),
            stop: strings(&body["stop"]),
            echo: body["echo"] == true,
            logprobs: body["logprobs"].is_number() || body["logprobs"] == true,
            samples: number("n").unwrap_or(1),
            stream: body["stream"] == true,
            stream_usage: body["stream_options"]["include_usage"] == true,
        }
    }
}

fn strings(value: &Value) -> Vec<String> {
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// One choice, before it takes the shape of an endpoint.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) prompt: String,
    pub(super) reply: Text,
    pub(super) finish_reason: String,
}

impl Choice {
    /// Cuts the text where the request says an engine would, unless the script claims a finish reason of its own.
    pub(super) fn new(prompt: &str, mut reply: Text, settings: &Settings) -> Self {
        let claimed = reply.finish_reason.take();
        let finish_reason = claimed.unwrap_or_else(|| cut(reply.content.as_mut(), settings).to_owned());
        Self {
            prompt: prompt.to_owned(),
            reply,
            finish_reason,
        }
    }

    pub(super) fn content(&self) -> &str {
        self.reply.content.as_deref().unwrap_or_default()
    }

    pub(super) fn completion_tokens(&self) -> u64 {
        self.reply
            .completion_tokens
            .unwrap_or_else(|| split_tokens(self.content()).len() as u64)
    }

    fn completion(&self, index: usize, settings: &Settings) -> Value {
        let echoed = if settings.echo { self.prompt.as_str() } else { "" };
        json!({
            "index": index,
            "text": self.reply.content.as_ref().map(|content| format!("{echoed}{content}")),
            "logprobs": settings.logprobs.then(|| self.completion_logprobs(echoed)),
            "finish_reason": self.finish_reason,
        })
    }

    fn completion_logprobs(&self, echoed: &str) -> Value {
        let (before, after) = (split_tokens(echoed), split_tokens(self.content()));
        let tokens = [before.as_slice(), after.as_slice()].concat();
        // Nothing precedes the first token of a prompt, so there is no probability to give.
        let known = |index: usize, token: &str| (echoed.is_empty() || index > 0).then(|| token_logprob(token));
        let computed = tokens.iter().enumerate().map(|(index, token)| known(index, token));
        let logprobs = self.reply.token_logprobs.clone().unwrap_or_else(|| computed.collect());
        let top = tokens
            .iter()
            .zip(&logprobs)
            .map(|(token, logprob)| logprob.map(|logprob| json!({ *token: logprob })));
        json!({
            "tokens": tokens,
            "text_offset": offsets(&tokens),
            "top_logprobs": top.collect::<Vec<_>>(),
            "token_logprobs": logprobs,
        })
    }

    fn chat(&self, index: usize, settings: &Settings) -> Value {
        let mut message = json!({ "role": "assistant", "content": self.reply.content });
        if let Some(reasoning) = &self.reply.reasoning {
            message["reasoning_content"] = json!(reasoning);
        }
        let logprobs = settings.logprobs.then(|| json!({ "content": self.chat_logprobs() }));
        json!({ "index": index, "message": message, "logprobs": logprobs, "finish_reason": self.finish_reason })
    }

    fn chat_logprobs(&self) -> Vec<Value> {
        let one = |token: &&str| json!({ "token": token, "logprob": token_logprob(token), "bytes": token.as_bytes(), "top_logprobs": [] });
        split_tokens(self.content()).iter().map(one).collect()
    }
}

/// Cuts at the first stop string, then at the cap, and names the reason.
fn cut(content: Option<&mut String>, settings: &Settings) -> &'static str {
    let Some(content) = content else { return "stop" };
    if let Some(at) = settings
        .stop
        .iter()
        .filter_map(|stop| content.find(stop.as_str()))
        .min()
    {
        content.truncate(at);
    }
    let tokens = split_tokens(content);
    match settings.max_tokens {
        Some(cap) if tokens.len() > cap || cap == 0 => {
            let kept = tokens[..cap].iter().map(|token| token.len()).sum();
            content.truncate(kept);
            "length"
        }
        _ => "stop",
    }
}

fn offsets(tokens: &[&str]) -> Vec<usize> {
    let starts = tokens.iter().scan(0, |next, token| {
        let start = *next;
        *next += token.chars().count();
        Some(start)
    });
    starts.collect()
}

/// Tokens of all prompts, each counted once however many samples were drawn from it, and of all completions.
pub(super) fn usage(choices: &[Choice], samples: usize) -> (u64, u64) {
    let prompts = choices
        .iter()
        .step_by(samples.max(1))
        .map(|choice| split_tokens(&choice.prompt).len() as u64)
        .sum();
    let completions = choices.iter().map(Choice::completion_tokens).sum();
    (prompts, completions)
}

pub(super) fn usage_json((prompt, completion): (u64, u64)) -> Value {
    json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion })
}

/// The whole body of a response that is not streamed.
pub(super) fn body(choices: &[Choice], settings: &Settings) -> Value {
    let (object, shape): (_, fn(&Choice, usize, &Settings) -> Value) = match settings.endpoint {
        Endpoint::Completions => ("text_completion", Choice::completion),
        Endpoint::Chat => ("chat.completion", Choice::chat),
    };
    let shaped = choices
        .iter()
        .enumerate()
        .map(|(index, choice)| shape(choice, index, settings));
    json!({
        "id": "fake-0",
        "object": object,
        "created": 0,
        "model": settings.model,
        "choices": shaped.collect::<Vec<_>>(),
        "usage": usage_json(usage(choices, settings.samples)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(body: &Value) -> Settings {
        Settings::read(Endpoint::Completions, body)
    }

    fn text(content: &str) -> Text {
        Text {
            content: Some(content.to_owned()),
            ..Text::default()
        }
    }

    fn choice(content: &str, body: &Value) -> (String, String) {
        let choice = Choice::new("p", text(content), &settings(body));
        (choice.content().to_owned(), choice.finish_reason)
    }

    #[test]
    fn text_is_cut_at_the_first_stop_string_then_at_the_cap() {
        let pair = |content: &str, reason: &str| (content.to_owned(), reason.to_owned());
        assert_eq!(choice("a b c", &json!({ "max_tokens": 3 })), pair("a b c", "stop"));
        assert_eq!(choice("a b c", &json!({ "max_tokens": 2 })), pair("a b", "length"));
        assert_eq!(
            choice("a b\n\nc", &json!({ "stop": ["c", "\n\n"], "max_tokens": 9 })),
            pair("a b", "stop")
        );
        assert_eq!(choice("a b", &json!({ "max_tokens": 0 })), pair("", "length"));
    }

    #[test]
    fn echo_gives_no_probability_for_the_first_token_and_ours_for_the_others() {
        let settings = settings(&json!({ "echo": true, "logprobs": 1, "max_tokens": 0 }));
        let body = body(&[Choice::new("the cat sat", text(""), &settings)], &settings);
        let logprobs = &body["choices"][0]["logprobs"];
        assert_eq!(logprobs["tokens"], json!(["the", " cat", " sat"]));
        assert_eq!(
            logprobs["token_logprobs"],
            json!([null, token_logprob(" cat"), token_logprob(" sat")])
        );
        assert_eq!(logprobs["text_offset"], json!([0, 3, 7]));
        assert_eq!(body["choices"][0]["text"], "the cat sat");
    }

    #[test]
    fn usage_counts_a_prompt_once_for_all_its_samples() {
        let settings = settings(&json!({ "n": 2 }));
        let choices = [
            Choice::new("one two", text("a"), &settings),
            Choice::new("one two", text("b c"), &settings),
        ];
        assert_eq!(usage(&choices, 2), (2, 3));
    }
}
