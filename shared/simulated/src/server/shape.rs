//! From answers to the JSON of the endpoints, in vLLM's shape.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ask::{Ask, Endpoint};
use crate::answers::{Answer, Finish, logprob};
use crate::tokens::{self, Piece};

/// Tokens counted for `usage`.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: u64,
    pub(super) completion_tokens: u64,
    pub(super) total_tokens: u64,
    pub(super) prompt_tokens_details: Details,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Details {
    pub(super) cached_tokens: u64,
}

impl Usage {
    pub(super) const fn new(prompt_tokens: u64, completion_tokens: u64, cached_tokens: u64) -> Self {
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: Details { cached_tokens },
        }
    }
}

/// One choice before it takes the shape of an endpoint.
#[derive(Debug, Clone)]
pub(super) struct Choice<'a> {
    pub(super) prompt: &'a [u32],
    pub(super) answer: &'a Answer,
}

impl Finish {
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::End | Self::Stop(_) => "stop",
            Self::Length => "length",
        }
    }

    pub(super) fn stop_text(&self) -> Option<&str> {
        match self {
            Self::Stop(text) => Some(text),
            Self::End | Self::Length => None,
        }
    }
}

#[derive(Serialize)]
struct Reply<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<C>,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a [u32]>,
}

#[derive(Serialize)]
struct Completion<'a> {
    index: usize,
    text: String,
    logprobs: Option<Value>,
    finish_reason: &'static str,
    stop_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_logprobs: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [u32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a [u32]>,
}

#[derive(Serialize)]
struct Chat<'a> {
    index: usize,
    message: Message<'a>,
    logprobs: Option<Value>,
    finish_reason: &'static str,
    stop_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [u32]>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

/// The whole body of an answer that is not streamed.
pub(super) fn body(ask: &Ask, id: &str, model: &str, choices: &[Choice<'_>], usage: Usage) -> Vec<u8> {
    let reply = |object, prompt_token_ids| (object, prompt_token_ids);
    let first = choices
        .first()
        .map(|choice| choice.prompt)
        .filter(|_| ask.return_token_ids);
    let written = match ask.endpoint {
        Endpoint::Completions => {
            let (object, prompt_token_ids) = reply("text_completion", None);
            serde_json::to_vec(&Reply {
                id,
                object,
                created: 0,
                model,
                choices: choices
                    .iter()
                    .enumerate()
                    .map(|(index, choice)| completion(ask, index, choice))
                    .collect(),
                usage,
                prompt_token_ids,
            })
        }
        Endpoint::Chat => {
            let (object, prompt_token_ids) = reply("chat.completion", first);
            serde_json::to_vec(&Reply {
                id,
                object,
                created: 0,
                model,
                choices: choices
                    .iter()
                    .enumerate()
                    .map(|(index, choice)| chat(ask, index, choice))
                    .collect(),
                usage,
                prompt_token_ids,
            })
        }
    };
    // Strings and finite numbers always serialise.
    written.unwrap_or_default()
}

fn completion<'a>(ask: &Ask, index: usize, choice: &Choice<'a>) -> Completion<'a> {
    let mut text = if ask.echo {
        tokens::text(choice.prompt)
    } else {
        String::new()
    };
    text.push_str(&choice.answer.text);
    let tokens = &choice.answer.tokens;
    Completion {
        index,
        text,
        logprobs: ask.logprobs.then(|| completion_logprobs(ask, choice)),
        finish_reason: choice.answer.finish.reason(),
        stop_reason: choice.answer.finish.stop_text(),
        prompt_logprobs: ask.prompt_logprobs.then(|| prompt_logprobs(choice.prompt)),
        token_ids: ask.return_token_ids.then_some(tokens.as_slice()),
        prompt_token_ids: ask.return_token_ids.then_some(choice.prompt),
    }
}

fn chat<'a>(ask: &Ask, index: usize, choice: &Choice<'a>) -> Chat<'a> {
    Chat {
        index,
        message: Message {
            role: "assistant",
            content: &choice.answer.text,
        },
        logprobs: ask.logprobs.then(|| json!({ "content": chat_logprobs(choice) })),
        finish_reason: choice.answer.finish.reason(),
        stop_reason: choice.answer.finish.stop_text(),
        token_ids: ask.return_token_ids.then_some(choice.answer.tokens.as_slice()),
    }
}

/// Each token with its log-probability; nothing stands before the first one of a prompt.
fn pairs<'a>(choice: &'a Choice<'_>) -> impl Iterator<Item = (u32, f64)> + 'a {
    let before = std::iter::once(choice.prompt.last().copied()).chain(choice.answer.tokens.iter().map(|id| Some(*id)));
    before
        .zip(&choice.answer.tokens)
        .map(|(before, id)| (*id, logprob(before, *id)))
}

fn prompt_pairs(prompt: &[u32]) -> impl Iterator<Item = (u32, Option<f64>)> + '_ {
    let before = std::iter::once(None).chain(prompt.iter().map(|id| Some(*id)));
    before
        .zip(prompt)
        .map(|(before, id)| (*id, before.map(|before| logprob(Some(before), *id))))
}

fn completion_logprobs(ask: &Ask, choice: &Choice<'_>) -> Value {
    let echoed = ask.echo.then(|| prompt_pairs(choice.prompt));
    let generated = pairs(choice).map(|(id, logprob)| (id, Some(logprob)));
    let all: Vec<(u32, Option<f64>)> = echoed.into_iter().flatten().chain(generated).collect();
    let names: Vec<String> = all.iter().map(|(id, _)| Piece(*id).to_string()).collect();
    let mut offset = 0;
    let offsets: Vec<usize> = names
        .iter()
        .map(|name| {
            let start = offset;
            offset += name.chars().count();
            start
        })
        .collect();
    let top = all
        .iter()
        .zip(&names)
        .map(|((_, logprob), name)| logprob.map(|logprob| json!({ name.as_str(): logprob })));
    json!({
        "text_offset": offsets,
        "token_logprobs": all.iter().map(|(_, logprob)| *logprob).collect::<Vec<_>>(),
        "top_logprobs": top.collect::<Vec<_>>(),
        "tokens": names,
    })
}

fn chat_logprobs(choice: &Choice<'_>) -> Vec<Value> {
    let one = |(id, logprob): (u32, f64)| {
        let token = Piece(id).to_string();
        json!({ "token": token, "logprob": logprob, "bytes": token.as_bytes(), "top_logprobs": [] })
    };
    pairs(choice).map(one).collect()
}

fn prompt_logprobs(prompt: &[u32]) -> Value {
    let one = |(id, logprob): (u32, Option<f64>)| {
        let Some(logprob) = logprob else { return Value::Null };
        let entry = json!({ "logprob": logprob, "rank": 1, "decoded_token": Piece(id).to_string() });
        Value::Object(Map::from_iter([(id.to_string(), entry)]))
    };
    prompt_pairs(prompt).map(one).collect()
}

/// SGLang's `/generate`, as far as it scores prompts: the log-probabilities from `start` on, of which the first is always null.
pub(super) fn sglang_scores(prompt: &[u32], answer: &Answer, start: usize, cached: u32) -> Value {
    let scored = prompt_pairs(prompt).skip(start).enumerate();
    let input: Vec<Value> = scored
        .map(|(at, (id, logprob))| json!([logprob.filter(|_| at > 0), id, Piece(id).to_string()]))
        .collect();
    // Each token is the most probable one, as in its completions.
    let top: Vec<Value> = input
        .iter()
        .map(|entry| {
            if entry[0].is_null() {
                Value::Null
            } else {
                json!([entry])
            }
        })
        .collect();
    let choice = Choice { prompt, answer };
    let output: Vec<Value> = pairs(&choice)
        .map(|(id, logprob)| json!([logprob, id, Piece(id).to_string()]))
        .collect();
    let finish = json!({ "type": answer.finish.reason(), "length": answer.tokens.len() });
    json!({
        "text": answer.text,
        "output_ids": answer.tokens,
        "meta_info": {
            "prompt_tokens": prompt.len(),
            "completion_tokens": answer.tokens.len(),
            "cached_tokens": cached,
            "finish_reason": finish,
            "input_token_logprobs": input,
            "input_top_logprobs": top,
            "output_token_logprobs": output,
        },
    })
}

/// An error as vLLM words it.
pub(super) fn error(status: u16, kind: &str, message: &str, param: Option<&str>) -> Vec<u8> {
    json!({ "error": { "message": message, "type": kind, "param": param, "code": status } })
        .to_string()
        .into_bytes()
}
