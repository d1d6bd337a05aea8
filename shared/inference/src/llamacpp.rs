//! llama.cpp's server.
//!
//! - It has no log-probabilities of the prompt and ignores `echo` without a word, so nothing is scored over it: refused, never 0.
//! - What it streams over OpenAI's API has no token ids. Its own `/completion` has, and takes a prompt as ids, so streamed
//!   answers to text prompts go there and can be continued; the prompt's ids come from `/tokenize`. Chats stream over OpenAI's
//!   API, where the template is applied, and are not continued.
//! - Its frequency and presence penalties count the prompt's tokens too: requests with one are refused.
//! - It holds back text that may become a stop text, and says nothing of a token that ends within a character; both show as
//!   tokens without their text, from which nothing is continued.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidemill_domain::{EngineKind, Partial};

use crate::assembly::{Assembly, Shape};
use crate::body::{Sampling, Words};
use crate::classify::classify;
use crate::continuation::{Rest, Traits};
use crate::dialect::{Dialect, HasPenalties, TellsTokens};
use crate::http::{Endpoint, Exchange, Opened};
use crate::{Answer, Attempt, Capabilities, Connection, HttpOutcome, OpenAi, Request, Watch, streaming};

pub(crate) static DIALECT: Dialect = Dialect {
    capabilities: Capabilities {
        prompt_logprobs: false,
        token_ids: true,
        metrics: true,
        seed: true,
        chat: true,
        continues: true,
        kind: EngineKind::LlamaCpp,
    },
    words: Words::LlamaCpp,
    keep_stop: None,
    tells_tokens: TellsTokens::Nowhere,
    asks_for_seam: false,
    penalties: HasPenalties {
        of_answer: false,
        repetition: true,
    },
    continuing: Traits {
        repetition_counts_prompt: true,
        draws_by_position: false,
    },
};

#[derive(Serialize)]
struct TokenizeBody<'a> {
    content: &'a str,
    add_special: bool,
    parse_special: bool,
}

#[derive(Deserialize)]
struct Tokenized {
    tokens: Vec<u32>,
}

#[derive(Serialize)]
struct NativeBody<'a> {
    prompt: &'a [u32],
    n_predict: u32,
    temperature: f64,
    top_p: f64,
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(flatten)]
    sampling: Sampling,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    logit_bias: &'a BTreeMap<u32, f64>,
    stream: bool,
    return_tokens: bool,
    cache_prompt: bool,
}

/// Streams the answer to a text prompt from its tokens on. `None` when the server does not give these: it is asked over
/// OpenAI's API then.
pub(crate) async fn begin(
    engine: &OpenAi,
    (request, text): (&Request<'_>, &str),
    connection: Connection,
    partial: &mut Partial,
    watch: Watch<'_>,
) -> Option<Attempt<Answer>> {
    let body = TokenizeBody {
        content: text,
        // As its own completions do.
        add_special: true,
        parse_special: true,
    };
    let body = crate::body::encode(&body, text.len());
    let Exchange { outcome, .. } = engine.client().post(Endpoint::Tokenize, body, connection).await;
    let HttpOutcome::Answered {
        status: 200..=299,
        body,
        ..
    } = outcome
    else {
        return None;
    };
    let tokens = serde_json::from_slice::<Tokenized>(&body).ok()?.tokens;
    if tokens.is_empty() {
        return None;
    }
    let rest = Rest {
        prompt: tokens.clone(),
        max_tokens: request.max_tokens,
        seed: request.seed,
        logit_bias: BTreeMap::new(),
    };
    partial.prompt_tokens = tokens;
    Some(stream(engine, request, &rest, connection, partial, watch).await)
}

/// Streams what follows `rest`.
pub(crate) async fn stream(
    engine: &OpenAi,
    request: &Request<'_>,
    rest: &Rest,
    connection: Connection,
    partial: &mut Partial,
    watch: Watch<'_>,
) -> Attempt<Answer> {
    let Opened { begun, requests } = engine
        .client()
        .open(Endpoint::Completion, native(request, rest), connection)
        .await;
    let verdict = match begun {
        Ok(stream) => {
            let assembly = Assembly::new(request, partial, false).in_shape(Shape::LlamaCpp);
            streaming::read(stream, assembly, engine.counter(), watch).await
        }
        Err(outcome) => classify(&outcome, request),
    };
    Attempt { verdict, requests }
}

fn native(request: &Request<'_>, rest: &Rest) -> Bytes {
    crate::body::encode(
        &NativeBody {
            prompt: &rest.prompt,
            n_predict: rest.max_tokens,
            temperature: request.temperature,
            top_p: request.top_p,
            stop: request.stop,
            seed: rest.seed.filter(|_| request.temperature > 0.0),
            sampling: Sampling::new(Words::LlamaCpp, request.penalties, false),
            logit_bias: &rest.logit_bias,
            stream: true,
            return_tokens: true,
            cache_prompt: true,
        },
        rest.prompt.len() * 7,
    )
}
