//! What a client asks for, read from a request's body.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;

use crate::answers::Sampling;
use crate::tokens;

/// Cap of `/v1/completions` where none is sent, as in OpenAI's schema.
const DEFAULT_MAX_TOKENS: u32 = 16;
/// Random numbers of requests without a seed begin here, apart from any seed that a client would send.
const UNSEEDED: u64 = 1 << 63;

/// Which of the two generating endpoints was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Completions,
    Chat,
}

#[derive(Debug, Deserialize)]
pub(super) struct Body<'a> {
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    prompt: Option<PromptField>,
    messages: Option<Vec<Message>>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    min_tokens: Option<u32>,
    ignore_eos: Option<bool>,
    stop: Option<StopField>,
    include_stop_str_in_output: Option<bool>,
    no_stop_trim: Option<bool>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    repetition_penalty: Option<f64>,
    logit_bias: Option<HashMap<String, f64>>,
    seed: Option<i64>,
    n: Option<u32>,
    pub(super) stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    echo: Option<bool>,
    logprobs: Option<LogprobsField>,
    prompt_logprobs: Option<i64>,
    return_token_ids: Option<bool>,
    add_special_tokens: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum PromptField {
    Text(String),
    Ids(Vec<u32>),
    Texts(Vec<String>),
    ManyIds(Vec<Vec<u32>>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum StopField {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum LogprobsField {
    Wanted(bool),
    Top(
        #[expect(
            dead_code,
            reason = "the number of alternatives does not matter: each token is its own best"
        )]
        i64,
    ),
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    content: Option<Content>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    text: Option<String>,
}

/// A request, checked and with every default in place.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) endpoint: Endpoint,
    pub(super) prompts: Vec<Vec<u32>>,
    pub(super) samples: u32,
    /// `None` stands for what the context leaves.
    pub(super) max_tokens: Option<u32>,
    pub(super) min_tokens: u32,
    pub(super) ignore_eos: bool,
    pub(super) stop: Vec<String>,
    pub(super) keep_stop: bool,
    pub(super) sampling: Sampling,
    pub(super) stream: bool,
    pub(super) stream_usage: bool,
    pub(super) echo: bool,
    pub(super) logprobs: bool,
    pub(super) prompt_logprobs: bool,
    pub(super) return_token_ids: bool,
}

impl Ask {
    /// Whether it scores its prompt: such requests do not read the prefix cache.
    pub(super) fn scores_prompt(&self) -> bool {
        self.prompt_logprobs || (self.echo && self.logprobs)
    }

    /// Whether it looks if the engine answers at all, and is no work.
    pub(super) fn is_probe(&self) -> bool {
        self.max_tokens == Some(1) && !self.scores_prompt() && !self.logprobs
    }
}

impl Body<'_> {
    /// Puts the defaults in, or says what is wrong and with which parameter. `number` makes draws without a seed differ.
    pub(super) fn check(self, endpoint: Endpoint, add_begin: bool, number: u64) -> Result<Ask, (String, &'static str)> {
        let begin = add_begin && self.add_special_tokens.unwrap_or(endpoint == Endpoint::Completions);
        let prompts = match endpoint {
            Endpoint::Completions => self.prompt.map_or_else(Vec::new, |prompt| prompt.ids(begin)),
            Endpoint::Chat => self
                .messages
                .iter()
                .map(|messages| encode(&render(messages), add_begin))
                .collect(),
        };
        if prompts.is_empty() || prompts.iter().any(Vec::is_empty) {
            return Err((
                "there is no prompt, or an empty one, in the request".to_owned(),
                "prompt",
            ));
        }
        if let Some(id) = prompts.iter().flatten().find(|id| !tokens::is_known(**id)) {
            return Err((format!("token id {id} is out of vocabulary"), "prompt"));
        }
        let default = (endpoint == Endpoint::Completions).then_some(DEFAULT_MAX_TOKENS);
        let ask = Ask {
            endpoint,
            samples: self.n.unwrap_or(1),
            max_tokens: self.max_completion_tokens.or(self.max_tokens).or(default),
            min_tokens: self.min_tokens.unwrap_or(0),
            ignore_eos: self.ignore_eos.unwrap_or(false),
            stop: self.stop.map_or_else(Vec::new, StopField::texts),
            keep_stop: self.include_stop_str_in_output.or(self.no_stop_trim).unwrap_or(false),
            sampling: Sampling {
                temperature: self.temperature.unwrap_or(1.0),
                top_p: self.top_p.unwrap_or(1.0),
                top_k: usize::try_from(self.top_k.unwrap_or(0)).unwrap_or(0),
                frequency_penalty: self.frequency_penalty.unwrap_or(0.0),
                presence_penalty: self.presence_penalty.unwrap_or(0.0),
                repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
                logit_bias: biases(self.logit_bias)?,
                seed: self.seed.map_or(UNSEEDED | number, i64::cast_unsigned),
            },
            stream: self.stream.unwrap_or(false),
            stream_usage: self
                .stream_options
                .and_then(|options| options.include_usage)
                .unwrap_or(false),
            echo: self.echo.unwrap_or(false),
            logprobs: !matches!(self.logprobs, None | Some(LogprobsField::Wanted(false))),
            prompt_logprobs: self.prompt_logprobs.is_some(),
            return_token_ids: self.return_token_ids.unwrap_or(false),
            prompts,
        };
        ask.complaint().map_or(Ok(ask), Err)
    }
}

impl Ask {
    fn complaint(&self) -> Option<(String, &'static str)> {
        let sampling = &self.sampling;
        let wrong = |text: &str, parameter| Some((text.to_owned(), parameter));
        match () {
            () if self.samples == 0 => wrong("n must be at least 1", "n"),
            () if self.max_tokens == Some(0) && !self.echo => wrong("max_tokens must be at least 1", "max_tokens"),
            () if !(0.0..=100.0).contains(&sampling.temperature) => {
                wrong("temperature must not be negative", "temperature")
            }
            () if !(sampling.top_p > 0.0 && sampling.top_p <= 1.0) => wrong("top_p must be in (0, 1]", "top_p"),
            () if sampling.repetition_penalty <= 0.0 => {
                wrong("repetition_penalty must be above 0", "repetition_penalty")
            }
            () if self.stream && self.prompts.len() * self.samples as usize > 1 => {
                wrong("the simulated engine streams one answer a request", "n")
            }
            () if self.stream && (self.logprobs || self.prompt_logprobs || self.echo) => wrong(
                "the simulated engine streams no log-probabilities and no echo",
                "logprobs",
            ),
            () => None,
        }
    }
}

fn biases(sent: Option<HashMap<String, f64>>) -> Result<Vec<(u32, f64)>, (String, &'static str)> {
    let read = |(id, bias): (String, f64)| match id.parse::<u32>() {
        Ok(id) if tokens::is_known(id) => Ok((id, bias)),
        _ => Err((format!("logit_bias holds {id:?}, which is no token id"), "logit_bias")),
    };
    sent.unwrap_or_default().into_iter().map(read).collect()
}

impl PromptField {
    fn ids(self, begin: bool) -> Vec<Vec<u32>> {
        match self {
            Self::Text(text) => vec![encode(&text, begin)],
            Self::Ids(ids) => vec![ids],
            Self::Texts(texts) => texts.iter().map(|text| encode(text, begin)).collect(),
            Self::ManyIds(many) => many,
        }
    }
}

impl StopField {
    fn texts(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        }
    }
}

fn encode(text: &str, begin: bool) -> Vec<u32> {
    let mut ids = tokens::tokenize(text);
    if begin {
        ids.insert(0, tokens::BEGIN);
    }
    ids
}

/// The chat template.
fn render(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        text.push_str(&message.role);
        text.push_str(":\n");
        match &message.content {
            Some(Content::Text(content)) => text.push_str(content),
            Some(Content::Parts(parts)) => parts
                .iter()
                .filter_map(|part| part.text.as_deref())
                .for_each(|part| text.push_str(part)),
            None => {}
        }
        text.push('\n');
    }
    text.push_str("assistant:\n");
    text
}

/// The body of `/tokenize`.
#[derive(Debug, Deserialize)]
pub(super) struct Tokenize {
    prompt: Option<String>,
    messages: Option<Vec<Message>>,
    add_special_tokens: Option<bool>,
}

impl Tokenize {
    /// The ids of the text, or of the rendered conversation.
    pub(super) fn ids(&self, add_begin: bool) -> Vec<u32> {
        let begin = add_begin && self.add_special_tokens.unwrap_or(self.prompt.is_some());
        match (&self.prompt, &self.messages) {
            (Some(text), _) => encode(text, begin),
            (None, Some(messages)) => encode(&render(messages), add_begin),
            (None, None) => Vec::new(),
        }
    }
}
