//! `/v1/completions`.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::State,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    error::ApiError,
    fields::Fields,
    generation::{self, Header, Usage},
    router::App,
    settings::{Settings, check_logprobs},
    sse::{self, Frames},
};
use crate::{
    sampling::TokenScore,
    schedule::{Ending, Event, Params, Piece},
};

/// Tokens generated when the request does not say: OpenAI's default.
const DEFAULT_MAX_TOKENS: usize = 16;

/// The four shapes of a prompt.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Tokens(Vec<u32>),
    Text(String),
    Texts(Vec<String>),
    TokenLists(Vec<Vec<u32>>),
}

/// A prompt ready for the engine, with the text that `echo` repeats.
struct Prepared {
    text: String,
    tokens: Vec<u32>,
    /// It came as tokens.
    is_tokens: bool,
}

/// How choices are written out.
struct Format {
    app: Arc<App>,
    prompts: Vec<Prepared>,
    samples: usize,
    echo: bool,
    has_logprobs: bool,
    return_token_ids: bool,
}

pub(super) async fn create(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let mut fields = Fields::parse(&body)?;
    app.check_model(fields.take::<String>("model")?.as_deref())?;
    let settings = Settings::take(&mut fields)?;
    let prompt = fields
        .take("prompt")?
        .ok_or_else(|| ApiError::bad_request("`prompt` is required", Some("prompt")))?;
    let echo = fields.take("echo")?.unwrap_or(false);
    let logprobs = check_logprobs(fields.take("logprobs")?, "logprobs")?;
    let add_special = fields.take("add_special_tokens")?.unwrap_or(true);
    fields.finish()?;
    if settings.max_tokens == Some(0) && !echo {
        return Err(ApiError::bad_request(
            "max_tokens must be at least 1, unless echo is set",
            Some("max_tokens"),
        ));
    }
    let prompts = prepare(&app, prompt, add_special).await?;
    let params = prompts.iter().map(|prompt| {
        let max_tokens = generation::check_prompt(&app, &prompt.tokens, settings.max_tokens, DEFAULT_MAX_TOKENS)?;
        Ok(Params {
            goes_on: prompt.is_tokens,
            ..settings.params(max_tokens, logprobs, logprobs.filter(|_| echo))
        })
    });
    let params = params.collect::<Result<Vec<_>, ApiError>>()?;
    let tokens: Vec<_> = prompts.iter().map(|prompt| prompt.tokens.clone()).collect();
    let events = generation::start(&app, &tokens, params, settings.samples).await?;
    let format = Format {
        app: Arc::clone(&app),
        samples: settings.samples,
        echo,
        has_logprobs: logprobs.is_some(),
        return_token_ids: settings.return_token_ids,
        prompts,
    };
    let header = Header::new("cmpl", &app);
    if settings.stream {
        let frames = Stream::new(format, header, settings.include_usage);
        return Ok(sse::respond(&app, events, frames));
    }
    let count = tokens.len() * settings.samples;
    let outputs = generation::collect(events, count).await?;
    let mut usage = Usage {
        prompt: format.prompt_tokens(),
        completion: 0,
    };
    let mut choices = Vec::with_capacity(count);
    for (index, output) in outputs.iter().enumerate() {
        usage.completion += output.piece.tokens.len();
        let end = Ending::Finished {
            reason: output.reason,
            stop: output.stop.clone(),
        };
        choices.push(format.choice(index, &output.piece, Some(&end), &mut Progress::default()));
    }
    Ok(Json(header.wrap("text_completion", choices.into(), Some(usage))).into_response())
}

async fn prepare(app: &Arc<App>, prompt: Prompt, add_special: bool) -> Result<Vec<Prepared>, ApiError> {
    let texts = match prompt {
        Prompt::Tokens(tokens) => return Ok(vec![Prepared::of_tokens(app, tokens)]),
        Prompt::TokenLists(lists) if !lists.is_empty() => {
            return Ok(lists
                .into_iter()
                .map(|tokens| Prepared::of_tokens(app, tokens))
                .collect());
        }
        Prompt::TokenLists(_) => return Err(ApiError::bad_request("`prompt` is an empty list", Some("prompt"))),
        Prompt::Text(text) => vec![text],
        Prompt::Texts(texts) => texts,
    };
    let mut prompts = Vec::with_capacity(texts.len());
    for text in texts {
        let tokens = generation::encode(app, text.clone(), add_special).await?;
        prompts.push(Prepared {
            text,
            tokens,
            is_tokens: false,
        });
    }
    Ok(prompts)
}

impl Prepared {
    fn of_tokens(app: &App, tokens: Vec<u32>) -> Self {
        Self {
            text: app.text.decode(&tokens, true),
            tokens,
            is_tokens: true,
        }
    }
}

/// How much of a choice was written.
#[derive(Debug, Default, Clone)]
struct Progress {
    has_begun: bool,
    /// Characters of the token texts so far.
    offset: usize,
}

impl Format {
    fn prompt_tokens(&self) -> usize {
        self.prompts.iter().map(|prompt| prompt.tokens.len()).sum()
    }

    fn choice(&self, index: usize, piece: &Piece, end: Option<&Ending>, progress: &mut Progress) -> Value {
        let prompt = &self.prompts[index / self.samples];
        let is_first = !std::mem::replace(&mut progress.has_begun, true);
        let echoed = (self.echo && is_first).then_some(prompt);
        let (reason, stop) = match end {
            Some(Ending::Finished { reason, stop }) => (Some(reason.as_str()), stop.as_deref()),
            _ => (None, None),
        };
        let mut choice = json!({
            "index": index,
            "text": format!("{}{}", echoed.map_or("", |prompt| &prompt.text), piece.text),
            "logprobs": self.has_logprobs.then(|| self.logprobs(echoed, piece, progress)),
            "finish_reason": reason,
            "stop_reason": stop,
        });
        if self.return_token_ids {
            choice["token_ids"] = json!(piece.tokens);
            choice["prompt_token_ids"] = if is_first { json!(prompt.tokens) } else { Value::Null };
        }
        choice
    }

    fn logprobs(&self, echoed: Option<&Prepared>, piece: &Piece, progress: &mut Progress) -> Value {
        let mut columns = Columns::default();
        if let Some(first) = echoed.and_then(|prompt| prompt.tokens.first()) {
            columns.push(&self.app, *first, None, progress);
            for score in &piece.prompt_scores {
                columns.push(&self.app, score.token, Some(score), progress);
            }
        }
        for score in &piece.scores {
            columns.push(&self.app, score.token, Some(score), progress);
        }
        json!({
            "tokens": columns.tokens,
            "token_logprobs": columns.logprobs,
            "top_logprobs": columns.top,
            "text_offset": columns.offsets,
        })
    }
}

/// The parallel lists of the older log-probability format.
#[derive(Debug, Default)]
struct Columns {
    tokens: Vec<String>,
    logprobs: Vec<Option<f32>>,
    top: Vec<Value>,
    offsets: Vec<usize>,
}

impl Columns {
    /// Adds a token; the first of a prompt has no score. The token itself is always among the alternatives.
    fn push(&mut self, app: &App, token: u32, score: Option<&TokenScore>, progress: &mut Progress) {
        let text = app.token_text(token);
        self.offsets.push(progress.offset);
        progress.offset += text.chars().count();
        self.logprobs.push(score.map(|score| score.logprob));
        self.top.push(score.map_or(Value::Null, |score| {
            // Where two tokens have the same text, the token itself counts, then the likeliest.
            let mut alternatives = Map::new();
            for (token, logprob) in &score.top {
                alternatives
                    .entry(app.token_text(*token))
                    .or_insert_with(|| json!(logprob));
            }
            alternatives.insert(text.clone(), json!(score.logprob));
            Value::Object(alternatives)
        }));
        self.tokens.push(text);
    }
}

/// A streamed answer.
struct Stream {
    format: Format,
    header: Header,
    include_usage: bool,
    progress: Vec<Progress>,
    usage: Usage,
}

impl Stream {
    fn new(format: Format, header: Header, include_usage: bool) -> Self {
        let progress = vec![Progress::default(); format.prompts.len() * format.samples];
        let usage = Usage {
            prompt: format.prompt_tokens(),
            completion: 0,
        };
        Self {
            format,
            header,
            include_usage,
            progress,
            usage,
        }
    }
}

impl Frames for Stream {
    fn sequences(&self) -> usize {
        self.progress.len()
    }

    fn event(&mut self, event: &Event) -> Vec<Value> {
        self.usage.completion += event.piece.tokens.len();
        let progress = &mut self.progress[event.index];
        let choice = self
            .format
            .choice(event.index, &event.piece, event.end.as_ref(), progress);
        vec![self.header.wrap("text_completion", json!([choice]), None)]
    }

    fn close(&mut self) -> Option<Value> {
        self.include_usage
            .then(|| self.header.wrap("text_completion", json!([]), Some(self.usage)))
    }
}
