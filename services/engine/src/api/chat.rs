//! `/v1/chat/completions`.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::State,
    response::{IntoResponse, Response},
};
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
    schedule::{Ending, Event, Piece},
};

/// How choices are written out.
struct Format {
    app: Arc<App>,
    has_logprobs: bool,
    return_token_ids: bool,
    /// The rendered prompt, where its tokens are asked for.
    prompt: Option<Vec<u32>>,
}

pub(super) async fn create(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let mut fields = Fields::parse(&body)?;
    app.check_model(fields.take::<String>("model")?.as_deref())?;
    let settings = Settings::take(&mut fields)?;
    let logprobs = take_logprobs(&mut fields)?;
    let context = template_context(&mut fields)?;
    let add_special = fields.take("add_special_tokens")?.unwrap_or(false);
    fields.finish()?;
    let text = match app.text.render(&context) {
        None => {
            let message =
                "this checkpoint has no chat template, so chat requests cannot be answered: use /v1/completions";
            return Err(ApiError::bad_request(message, Some("messages")));
        }
        Some(rendered) => rendered.map_err(|error| ApiError::bad_request(error.to_string(), Some("messages")))?,
    };
    let prompt = generation::encode(&app, text, add_special).await?;
    if settings.max_tokens == Some(0) {
        return Err(ApiError::bad_request(
            "max_tokens must be at least 1",
            Some("max_tokens"),
        ));
    }
    let max_tokens = generation::check_prompt(&app, &prompt, settings.max_tokens, usize::MAX)?;
    let params = settings.params(max_tokens, logprobs, None);
    let mut usage = Usage {
        prompt: prompt.len(),
        completion: 0,
    };
    let told = settings.return_token_ids.then(|| prompt.clone());
    let events = generation::start(&app, &[prompt], vec![params], settings.samples).await?;
    let format = Format {
        app: Arc::clone(&app),
        has_logprobs: logprobs.is_some(),
        return_token_ids: settings.return_token_ids,
        prompt: told,
    };
    let header = Header::new("chatcmpl", &app);
    if settings.stream {
        let has_role = vec![false; settings.samples];
        let frames = Stream {
            format,
            header,
            include_usage: settings.include_usage,
            has_role,
            usage,
        };
        return Ok(sse::respond(&app, events, frames));
    }
    let outputs = generation::collect(events, settings.samples).await?;
    let mut choices = Vec::with_capacity(outputs.len());
    for (index, output) in outputs.iter().enumerate() {
        usage.completion += output.piece.tokens.len();
        let message = json!({"role": "assistant", "content": output.piece.text});
        let end = Ending::Finished {
            reason: output.reason,
            stop: output.stop.clone(),
        };
        choices.push(format.choice(index, ("message", message), &output.piece, Some(&end)));
    }
    let mut answer = header.wrap("chat.completion", choices.into(), Some(usage));
    format.tell_prompt(&mut answer);
    Ok(Json(answer).into_response())
}

fn take_logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let is_asked = fields.take("logprobs")?.unwrap_or(false);
    let top = check_logprobs(fields.take("top_logprobs")?, "top_logprobs")?;
    if top.is_some_and(|top| top > 0) && !is_asked {
        let message = "when using `top_logprobs`, `logprobs` must be set to true";
        return Err(ApiError::bad_request(message, Some("top_logprobs")));
    }
    Ok(is_asked.then_some(top.unwrap_or(0)))
}

/// What the template sees: the messages, the request's own template arguments, and whether to open the answer.
fn template_context(fields: &mut Fields) -> Result<Map<String, Value>, ApiError> {
    let missing = || ApiError::bad_request("`messages` must be a list of at least one message", Some("messages"));
    let messages: Vec<Map<String, Value>> = fields.take("messages")?.ok_or_else(missing)?;
    if messages.is_empty() {
        return Err(missing());
    }
    let messages = messages.into_iter().map(plain_message).collect::<Result<Vec<_>, _>>()?;
    let mut context: Map<String, Value> = fields.take("chat_template_kwargs")?.unwrap_or_default();
    let open_answer = fields.take("add_generation_prompt")?.unwrap_or(true);
    context.insert("add_generation_prompt".to_owned(), json!(open_answer));
    context.insert("messages".to_owned(), json!(messages));
    Ok(context)
}

/// Joins the text parts of a message into one string, which is what templates of text models expect.
fn plain_message(mut message: Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    let refuse = |reason: &str| Err(ApiError::bad_request(reason, Some("messages")));
    if !message.get("role").is_some_and(Value::is_string) {
        return refuse("each message needs a `role`, which is a string");
    }
    let text = match message.get("content") {
        Some(Value::String(_) | Value::Null) | None => return Ok(message),
        Some(Value::Array(parts)) => {
            let texts = parts
                .iter()
                .map(|part| part.get("text").and_then(Value::as_str).or(part.as_str()));
            texts.collect::<Option<Vec<_>>>().map(|texts| texts.join("\n"))
        }
        Some(_) => None,
    };
    let Some(text) = text else {
        return refuse("message content must be a string or a list of text parts");
    };
    message.insert("content".to_owned(), Value::String(text));
    Ok(message)
}

impl Format {
    /// Adds the prompt's tokens to an answer or to the first chunk of one, beside the choices: they are the same for all.
    fn tell_prompt(&self, answer: &mut Value) {
        if let Some(prompt) = &self.prompt {
            answer["prompt_token_ids"] = json!(prompt);
        }
    }

    fn choice(&self, index: usize, body: (&str, Value), piece: &Piece, end: Option<&Ending>) -> Value {
        let (reason, stop) = match end {
            Some(Ending::Finished { reason, stop }) => (Some(reason.as_str()), stop.as_deref()),
            _ => (None, None),
        };
        let mut choice = json!({
            "index": index,
            body.0: body.1,
            "logprobs": self.has_logprobs.then(|| self.logprobs(&piece.scores)),
            "finish_reason": reason,
            "stop_reason": stop,
        });
        if self.return_token_ids {
            choice["token_ids"] = json!(piece.tokens);
        }
        choice
    }

    fn logprobs(&self, scores: &[TokenScore]) -> Value {
        let entry = |token: u32, logprob: f32| {
            let text = self.app.token_text(token);
            json!({"token": text, "logprob": logprob, "bytes": text.as_bytes()})
        };
        let content = scores.iter().map(|score| {
            let mut content = entry(score.token, score.logprob);
            content["top_logprobs"] = score
                .top
                .iter()
                .map(|(token, logprob)| entry(*token, *logprob))
                .collect();
            content
        });
        json!({"content": content.collect::<Vec<_>>()})
    }
}

/// A streamed answer.
struct Stream {
    format: Format,
    header: Header,
    include_usage: bool,
    /// Which choices have had their opening chunk.
    has_role: Vec<bool>,
    usage: Usage,
}

impl Stream {
    fn chunk(&self, index: usize, delta: Value, piece: &Piece, end: Option<&Ending>) -> Value {
        let choice = self.format.choice(index, ("delta", delta), piece, end);
        self.header.wrap("chat.completion.chunk", json!([choice]), None)
    }
}

impl Frames for Stream {
    fn sequences(&self) -> usize {
        self.has_role.len()
    }

    fn event(&mut self, event: &Event) -> Vec<Value> {
        self.usage.completion += event.piece.tokens.len();
        let mut chunks = Vec::new();
        if !std::mem::replace(&mut self.has_role[event.index], true) {
            let delta = json!({"role": "assistant", "content": ""});
            let mut opening = self.chunk(event.index, delta, &Piece::default(), None);
            self.format.tell_prompt(&mut opening);
            chunks.push(opening);
        }
        let delta = json!({"content": event.piece.text});
        chunks.push(self.chunk(event.index, delta, &event.piece, event.end.as_ref()));
        chunks
    }

    fn close(&mut self) -> Option<Value> {
        self.include_usage
            .then(|| self.header.wrap("chat.completion.chunk", json!([]), Some(self.usage)))
    }
}
