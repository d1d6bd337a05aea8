//! An answer as server-sent events, as its tokens come.

use bytes::Bytes;
use futures::stream::{self, Stream};
use hyper::body::Frame;
use serde::Serialize;

use super::ask::{Ask, Endpoint};
use super::replica::{Progress, Ticket};
use super::respond::{Dropped, Leaving};
use super::shape::Usage;
use crate::answers::Answer;
use crate::tokens;

/// What ends every stream that was not cut.
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";

/// What a stream is made of.
pub(super) struct Streamed {
    pub(super) ask: Ask,
    pub(super) id: String,
    pub(super) model: String,
    pub(super) answer: Answer,
    pub(super) ticket: Ticket,
    /// The connection ends after so many tokens.
    pub(super) reset_after: Option<u32>,
    /// Dropped with the stream; says how the request left.
    pub(super) leaving: Leaving,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a [u32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<Delta<'a>>,
    finish_reason: Option<&'static str>,
    stop_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [u32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a [u32]>,
}

#[derive(Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    content: &'a str,
}

struct State {
    streamed: Streamed,
    sent: usize,
    text: usize,
    is_over: bool,
}

/// The frames of the body. Several tokens that came since the last frame was taken are one frame.
pub(super) fn frames(streamed: Streamed) -> impl Stream<Item = Result<Frame<Bytes>, Dropped>> + Send + Sync {
    let state = State {
        streamed,
        sent: 0,
        text: 0,
        is_over: false,
    };
    stream::unfold(state, next)
}

async fn next(mut state: State) -> Option<(Result<Frame<Bytes>, Dropped>, State)> {
    if state.is_over {
        return None;
    }
    let (_, progress) = state.streamed.ticket.places.first_mut()?;
    let now = loop {
        let now = *progress.borrow_and_update();
        match now {
            Progress::Tokens(tokens) if tokens as usize <= state.sent => {}
            _ => break now,
        }
        if progress.changed().await.is_err() {
            // The replica died.
            state.is_over = true;
            return Some((Err(Dropped), state));
        }
    };
    let total = state.streamed.answer.tokens.len();
    let (mut upto, finished) = match now {
        Progress::Tokens(tokens) => ((tokens as usize).min(total), None),
        Progress::Finished(finished) => (total, Some(finished)),
    };
    let mut is_reset = false;
    if let Some(after) = state.streamed.reset_after {
        is_reset = upto >= after as usize;
        if is_reset && state.sent >= after as usize {
            state.is_over = true;
            return Some((Err(Dropped), state));
        }
        upto = upto.min(after as usize);
    }
    let finished = finished.filter(|_| !is_reset);
    let mut frame = state.chunk(upto, finished.is_some());
    if let Some(finished) = finished {
        state.is_over = true;
        state.finish(finished.cached, &mut frame);
    }
    Some((Ok(Frame::data(frame.into())), state))
}

impl State {
    /// The event of the tokens up to `upto`.
    fn chunk(&mut self, upto: usize, is_last: bool) -> Vec<u8> {
        let Streamed {
            ask, answer, id, model, ..
        } = &self.streamed;
        let ids = &answer.tokens[self.sent..upto];
        let mut text = tokens::text(ids);
        text.truncate(answer.text.len() - self.text);
        let prompt = ask.prompts.first().map(Vec::as_slice);
        let prompt = prompt.filter(|_| ask.return_token_ids && self.sent == 0);
        let is_chat = ask.endpoint == Endpoint::Chat;
        let choice = Choice {
            index: 0,
            text: (!is_chat).then_some(text.as_str()),
            delta: is_chat.then_some(Delta {
                role: (self.sent == 0).then_some("assistant"),
                content: &text,
            }),
            finish_reason: is_last.then(|| answer.finish.reason()),
            stop_reason: answer.finish.stop_text().filter(|_| is_last),
            token_ids: ask.return_token_ids.then_some(ids),
            prompt_token_ids: prompt.filter(|_| !is_chat),
        };
        let event = event(&Chunk {
            id,
            object: object(ask.endpoint),
            created: 0,
            model,
            choices: &[choice],
            prompt_token_ids: prompt.filter(|_| is_chat),
            usage: None,
        });
        self.sent = upto;
        self.text += text.len();
        event
    }

    /// Adds what follows the last tokens.
    fn finish(&mut self, cached: u32, frame: &mut Vec<u8>) {
        let Streamed {
            ask,
            answer,
            id,
            model,
            leaving,
            ..
        } = &mut self.streamed;
        if ask.stream_usage {
            let prompt = ask.prompts.first().map_or(0, Vec::len) as u64;
            let usage = Usage::new(prompt, answer.tokens.len() as u64, u64::from(cached));
            frame.extend(event(&Chunk {
                id,
                object: object(ask.endpoint),
                created: 0,
                model,
                choices: &[],
                prompt_token_ids: None,
                usage: Some(usage),
            }));
        }
        frame.extend_from_slice(DONE);
        leaving.answered();
    }
}

const fn object(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Completions => "text_completion",
        Endpoint::Chat => "chat.completion.chunk",
    }
}

fn event(chunk: &Chunk<'_>) -> Vec<u8> {
    let mut event = b"data: ".to_vec();
    // Strings and numbers always serialise.
    serde_json::to_writer(&mut event, chunk).unwrap_or_default();
    event.extend_from_slice(b"\n\n");
    event
}
