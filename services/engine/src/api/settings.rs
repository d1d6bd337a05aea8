//! The settings that completions and chat share.

use std::hash::{BuildHasher, RandomState};

use serde::Deserialize;

use super::{error::ApiError, fields::Fields};
use crate::{sampling::Sampling, schedule::Params};

/// Most alternatives per token.
const MAX_LOGPROBS: usize = 20;
/// Most samples per prompt.
const MAX_SAMPLES: usize = 128;

/// Sampling and output settings of a request.
#[derive(Debug)]
pub(super) struct Settings {
    /// As sent; the default depends on the endpoint.
    pub(super) max_tokens: Option<usize>,
    pub(super) samples: usize,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) return_token_ids: bool,
    sampling: Sampling,
    stop: Vec<String>,
    include_stop: bool,
    ignore_eos: bool,
    skip_special: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

impl Settings {
    /// Takes the shared fields out of `fields` and checks them.
    pub(super) fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let max_tokens = fields.take("max_tokens")?;
        let newer_spelling = fields.take("max_completion_tokens")?;
        let stop = match fields.take("stop")? {
            None => Vec::new(),
            Some(OneOrMany::One(stop)) => vec![stop],
            Some(OneOrMany::Many(stops)) => stops,
        };
        if stop.iter().any(String::is_empty) {
            return Err(ApiError::bad_request("a stop string must not be empty", Some("stop")));
        }
        let samples = fields.take("n")?.unwrap_or(1);
        if !(1..=MAX_SAMPLES).contains(&samples) {
            let message = format!("n must be from 1 to {MAX_SAMPLES}, got {samples}");
            return Err(ApiError::bad_request(message, Some("n")));
        }
        Ok(Self {
            max_tokens: newer_spelling.or(max_tokens),
            samples,
            stream: fields.take("stream")?.unwrap_or(false),
            include_usage: fields
                .take("stream_options")?
                .map(|o: StreamOptions| o.include_usage)
                .unwrap_or(false),
            return_token_ids: fields.take("return_token_ids")?.unwrap_or(false),
            sampling: sampling(fields)?,
            stop,
            include_stop: fields.take("include_stop_str_in_output")?.unwrap_or(false),
            ignore_eos: fields.take("ignore_eos")?.unwrap_or(false),
            skip_special: fields.take("skip_special_tokens")?.unwrap_or(true),
        })
    }

    /// What the scheduler needs, with the number of tokens settled.
    pub(super) fn params(&self, max_tokens: usize, logprobs: Option<usize>, prompt_logprobs: Option<usize>) -> Params {
        Params {
            sampling: self.sampling,
            max_tokens,
            stop: self.stop.clone(),
            logprobs,
            prompt_logprobs,
            ignore_eos: self.ignore_eos,
            skip_special: self.skip_special,
            include_stop: self.include_stop,
            tells_tokens: self.return_token_ids,
            goes_on: false,
            stream: self.stream,
        }
    }
}

fn sampling(fields: &mut Fields) -> Result<Sampling, ApiError> {
    let temperature = fields.take("temperature")?.unwrap_or(1.0f32);
    if !temperature.is_finite() || temperature < 0.0 {
        let message = format!("temperature must be a number from 0, got {temperature}");
        return Err(ApiError::bad_request(message, Some("temperature")));
    }
    let top_p = fields.take("top_p")?.unwrap_or(1.0f32);
    if !(top_p > 0.0 && top_p <= 1.0) {
        return Err(ApiError::bad_request(
            format!("top_p must be in (0, 1], got {top_p}"),
            Some("top_p"),
        ));
    }
    let top_k = match fields.take("top_k")?.unwrap_or(0i64) {
        0 | -1 => None,
        count if count > 0 => Some(usize::try_from(count).unwrap_or(usize::MAX)),
        other => {
            return Err(ApiError::bad_request(
                format!("top_k must be -1 or from 0, got {other}"),
                Some("top_k"),
            ));
        }
    };
    // Without a seed each request is its own: the hasher's keys come from the system's random numbers.
    let seed = match fields.take::<i64>("seed")? {
        Some(seed) => seed.cast_unsigned(),
        None => RandomState::new().hash_one(std::time::Instant::now()),
    };
    Ok(Sampling {
        temperature,
        top_p,
        top_k,
        seed,
    })
}

/// Checks a number of alternatives.
pub(super) fn check_logprobs(count: Option<usize>, name: &str) -> Result<Option<usize>, ApiError> {
    match count {
        Some(count) if count > MAX_LOGPROBS => {
            let message = format!(
                "Requested {count} log-probabilities per token, which is greater than max allowed: {MAX_LOGPROBS}"
            );
            Err(ApiError::bad_request(message, Some(name)))
        }
        count => Ok(count),
    }
}
