//! The parts of a server's JSON that are read, borrowed from the response's body.
//!
//! Fields that nobody needs are skipped by the reader without being stored, and absent and null mean the same.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::text::Text;

/// The body of a completion, from either endpoint.
#[derive(Debug, Deserialize)]
pub(crate) struct Reply<'a> {
    #[serde(borrow)]
    pub(crate) choices: Option<Vec<Choice<'a>>>,
    pub(crate) usage: Option<Usage>,
    pub(crate) error: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(crate) object: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Choice<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) message: Option<Message<'a>>,
    #[serde(borrow)]
    pub(crate) finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) stop_reason: Option<StopWord<'a>>,
    #[serde(borrow)]
    pub(crate) matched_stop: Option<StopWord<'a>>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) content: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) reasoning_content: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) reasoning: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) refusal: Option<Text<'a>>,
    pub(crate) tool_calls: Option<IgnoredAny>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptTokens>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct PromptTokens {
    cached_tokens: Option<u64>,
}

impl Usage {
    /// Tokens of the prompt that were in the prefix cache, where the server says.
    pub(crate) fn cached_tokens(&self) -> Option<u64> {
        self.prompt_tokens_details?.cached_tokens
    }
}

/// One event of a streamed completion, from either endpoint; a whole body reads as one too.
#[derive(Debug, Deserialize)]
pub(crate) struct Event<'a> {
    #[serde(borrow)]
    pub(crate) choices: Option<First<Delta<'a>>>,
    /// Of a chat, whose first event says it beside the choices.
    pub(crate) prompt_token_ids: Option<Vec<u32>>,
    pub(crate) usage: Option<Usage>,
    pub(crate) error: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(crate) object: Option<Text<'a>>,
}

/// What an event adds to the answer.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Delta<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<Text<'a>>,
    #[serde(borrow, alias = "message")]
    pub(crate) delta: Option<Message<'a>>,
    #[serde(borrow)]
    pub(crate) finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) stop_reason: Option<StopWord<'a>>,
    #[serde(borrow)]
    pub(crate) matched_stop: Option<StopWord<'a>>,
    pub(crate) token_ids: Option<TokenIds>,
    pub(crate) prompt_token_ids: Option<Vec<u32>>,
    /// How many tokens there are, where an engine counts them in each event.
    #[serde(skip)]
    pub(crate) tokens_so_far: Option<u64>,
}

/// One event of llama.cpp's own endpoint.
#[derive(Debug, Deserialize)]
pub(crate) struct NativeEvent<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    tokens: Option<TokenIds>,
    #[serde(default)]
    stop: bool,
    #[serde(borrow)]
    stop_type: Option<Text<'a>>,
    #[serde(borrow)]
    stopping_word: Option<Text<'a>>,
    tokens_predicted: Option<u64>,
    tokens_evaluated: Option<u64>,
    timings: Option<Timings>,
    error: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Timings {
    cache_n: Option<u64>,
}

impl NativeEvent<'_> {
    /// It tells a token, and neither an end nor an error.
    pub(crate) const fn is_token(&self) -> bool {
        !self.stop && self.error.is_none()
    }
}

impl<'a> From<NativeEvent<'a>> for Event<'a> {
    fn from(event: NativeEvent<'a>) -> Self {
        let reason = event.stop.then_some(match event.stop_type.as_deref() {
            Some("eos" | "word") => "stop",
            Some("limit") => "length",
            _ => "unknown",
        });
        let word = event.stopping_word.filter(|word| !word.is_empty());
        let usage = event.stop.then(|| Usage {
            prompt_tokens: event.tokens_evaluated,
            completion_tokens: event.tokens_predicted,
            prompt_tokens_details: Some(PromptTokens {
                cached_tokens: event.timings.and_then(|timings| timings.cache_n),
            }),
        });
        let delta = Delta {
            text: event.content,
            finish_reason: reason.map(|reason| Text(Cow::Borrowed(reason))),
            stop_reason: word.map(|word| StopWord::Text(word.0)),
            token_ids: event.tokens,
            tokens_so_far: event.tokens_predicted,
            ..Delta::default()
        };
        Self {
            choices: Some(First(Some(delta))),
            prompt_token_ids: None,
            usage,
            error: event.error,
            object: None,
        }
    }
}

/// The first element of a list; the others are skipped. Takes no memory of its own, as a list would.
#[derive(Debug)]
pub(crate) struct First<T>(pub(crate) Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FirstVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for FirstVisitor<T> {
            type Value = First<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<First<T>, A::Error> {
                let first = list.next_element()?;
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(first))
            }
        }
        deserializer.deserialize_seq(FirstVisitor(PhantomData))
    }
}

/// Token ids of one event: mostly one, which takes no memory of its own.
#[derive(Debug, Default)]
pub(crate) struct TokenIds {
    first: Option<u32>,
    others: Vec<u32>,
}

impl TokenIds {
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.first.into_iter().chain(self.others.iter().copied())
    }
}

impl<'de> Deserialize<'de> for TokenIds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(TokenIdsVisitor)
    }
}

struct TokenIdsVisitor;

impl<'de> Visitor<'de> for TokenIdsVisitor {
    type Value = TokenIds;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("token ids")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TokenIds, A::Error> {
        let mut ids = TokenIds {
            first: list.next_element()?,
            others: Vec::new(),
        };
        while let Some(id) = list.next_element()? {
            ids.others.push(id);
        }
        Ok(ids)
    }
}

/// What stopped an answer: the stop text, or the id of a stop token, which is no text.
#[derive(Debug)]
pub(crate) enum StopWord<'a> {
    Text(Cow<'a, str>),
    Token,
}

impl<'de: 'a, 'a> Deserialize<'de> for StopWord<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StopWordVisitor)
    }
}

struct StopWordVisitor;

impl<'de> Visitor<'de> for StopWordVisitor {
    type Value = StopWord<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a stop text or token")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<StopWord<'de>, E> {
        Ok(StopWord::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<StopWord<'de>, E> {
        Ok(StopWord::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, _: u64) -> Result<StopWord<'de>, E> {
        Ok(StopWord::Token)
    }

    fn visit_i64<E>(self, _: i64) -> Result<StopWord<'de>, E> {
        Ok(StopWord::Token)
    }

    fn visit_bool<E>(self, _: bool) -> Result<StopWord<'de>, E> {
        Ok(StopWord::Token)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut tokens: A) -> Result<StopWord<'de>, A::Error> {
        while tokens.next_element::<IgnoredAny>()?.is_some() {}
        Ok(StopWord::Token)
    }
}

/// The body of a completion that was asked to echo its prompt with log-probabilities.
#[derive(Debug, Deserialize)]
pub(crate) struct EchoReply<'a> {
    #[serde(borrow)]
    pub(crate) choices: Option<Vec<EchoChoice<'a>>>,
    pub(crate) usage: Option<Usage>,
    pub(crate) error: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(crate) object: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EchoChoice<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) logprobs: Option<Logprobs<'a>>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Logprobs<'a> {
    #[serde(borrow)]
    pub(crate) tokens: Option<Vec<Text<'a>>>,
    pub(crate) token_logprobs: Option<Vec<Option<f64>>>,
    pub(crate) top_logprobs: Option<Vec<Option<Best>>>,
    pub(crate) text_offset: Option<Vec<i64>>,
}

/// The largest log-probability of a position's most probable tokens, where there is any; the tokens themselves are not kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Best(pub(crate) Option<f64>);

impl<'de> Deserialize<'de> for Best {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BestVisitor)
    }
}

struct BestVisitor;

impl<'de> Visitor<'de> for BestVisitor {
    type Value = Best;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("log-probabilities by token")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut tokens: A) -> Result<Best, A::Error> {
        let mut best: Option<f64> = None;
        while let Some((_, logprob)) = tokens.next_entry::<IgnoredAny, Option<f64>>()? {
            best = best.into_iter().chain(logprob).reduce(f64::max);
        }
        Ok(Best(best))
    }
}

/// The text of tokens, by either of its names.
#[derive(Debug, Deserialize)]
pub(crate) struct Detokenized<'a> {
    #[serde(borrow, alias = "prompt")]
    pub(crate) text: Text<'a>,
}

/// The answer of `GET /v1/models`.
#[derive(Debug, Deserialize)]
pub(crate) struct ModelList {
    pub(crate) data: Vec<Model>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    pub(crate) id: String,
    pub(crate) owned_by: Option<String>,
    pub(crate) max_model_len: Option<u32>,
}
