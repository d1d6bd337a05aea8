//! A streamed answer put together event by event, and what the whole of it means. Pure: bytes of events go in.
//!
//! What has arrived lies in the caller's [`Partial`], so that it is there however the request ends. Tokens are entered only
//! together with their text: a token may hold a part of a character, and as long as its text is outstanding the partial answer
//! counts more tokens than it holds, which says that it cannot be continued from there.

use std::time::Duration;

use tidemill_domain::{Partial, counted};

use crate::classify::{Whole, conclude, hidden_error, stop_text};
use crate::wire::{Delta, Event, NativeEvent, Usage};
use crate::{Answer, Request, Verdict};

/// What an event means for the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It brought no token.
    Idle,
    /// It brought some.
    Progress,
    /// The answer has its end; nothing but counts may follow.
    Ended,
    /// Nothing more is of interest.
    Over,
}

/// How an engine writes its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    OpenAi,
    /// Those of llama.cpp's own endpoint.
    LlamaCpp,
}

/// An answer that is growing.
#[derive(Debug)]
pub(crate) struct Assembly<'a> {
    request: &'a Request<'a>,
    partial: &'a mut Partial,
    /// What there was before this request.
    before: Before,
    /// Tokens whose text is outstanding.
    pending: Vec<u32>,
    refusal: String,
    finish_reason: Option<String>,
    stop_reason: Option<String>,
    usage: Usage,
    fault: Option<Verdict<Answer>>,
    first_token_after: Option<Duration>,
    /// A token of this request has arrived.
    has_begun: bool,
    /// The server said that nothing follows.
    is_over: bool,
    shape: Shape,
    /// An event of llama.cpp's that waits for the next.
    held: Vec<u8>,
    /// The engine leaves the stop text in the text that it sends.
    keeps_stop: bool,
    /// A piece came of which it is not known how many tokens it is.
    has_uncounted: bool,
    /// The answer as long as it may be, once there is as much of it.
    at_cap: Option<AtCap>,
}

/// How long the parts of an answer are that has as many tokens as its cap.
#[derive(Debug, Clone, Copy)]
struct AtCap {
    text: usize,
    reasoning: usize,
    tokens: usize,
}

/// The beginning that a continued answer has already.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    is_continued: bool,
    tokens: u64,
    text: usize,
}

/// Tokens beyond the cap after which an engine is taken not to end the answer, where these are more than the cap: some count
/// otherwise than it is counted here.
const TOKENS_BEYOND: u64 = 64;

/// Pieces that a token comes in at most, on average, where servers cut their text into pieces of their own.
const PIECES_OF_TOKEN: u64 = 8;

/// What a token's text has at most, on average: more is kept of no answer.
const BYTES_OF_TOKEN: u64 = 1 << 10;

/// The data of the event that ends a stream.
const DONE: &[u8] = b"[DONE]";

impl<'a> Assembly<'a> {
    /// An answer to `request` that goes on where `partial` ends. `keeps_stop`: the engine was asked to send the stop text too,
    /// so that it holds no text back.
    pub(crate) fn new(request: &'a Request<'a>, partial: &'a mut Partial, keeps_stop: bool) -> Self {
        let before = Before {
            is_continued: !partial.is_empty(),
            tokens: partial.completion_tokens,
            text: partial.text.len(),
        };
        Self {
            request,
            partial,
            before,
            pending: Vec::new(),
            refusal: String::new(),
            finish_reason: None,
            stop_reason: None,
            usage: Usage::default(),
            fault: None,
            first_token_after: None,
            is_over: false,
            has_begun: false,
            shape: Shape::OpenAi,
            held: Vec::new(),
            keeps_stop,
            has_uncounted: false,
            at_cap: None,
        }
    }

    /// The same of an engine that writes its events otherwise.
    pub(crate) const fn in_shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// The first token arrived so long after the request.
    pub(crate) const fn note_first_token(&mut self, after: Duration) {
        self.first_token_after = Some(after);
    }

    /// Takes an event's data.
    pub(crate) fn event(&mut self, data: &[u8]) -> Flow {
        match self.shape {
            Shape::OpenAi => self.read(data),
            Shape::LlamaCpp => self.event_of_llama_cpp(data),
        }
    }

    /// Takes each event when the next one has come: the token that completes a stop text is told like any other, and only
    /// the event after it says that the answer has ended and must not be continued.
    fn event_of_llama_cpp(&mut self, data: &[u8]) -> Flow {
        let mut held = std::mem::take(&mut self.held);
        if !held.is_empty() && self.read(&held) == Flow::Over {
            return Flow::Over;
        }
        if !serde_json::from_slice::<NativeEvent<'_>>(data).is_ok_and(|event| event.is_token()) {
            return self.read(data);
        }
        held.clear();
        held.extend_from_slice(data);
        self.held = held;
        Flow::Progress
    }

    fn read(&mut self, data: &[u8]) -> Flow {
        if data == DONE {
            self.is_over = true;
            return Flow::Over;
        }
        let read = match self.shape {
            Shape::OpenAi => serde_json::from_slice::<Event<'_>>(data),
            Shape::LlamaCpp => serde_json::from_slice::<NativeEvent<'_>>(data).map(Event::from),
        };
        let event = match read {
            Ok(event) => event,
            Err(error) => {
                let why = format!("a piece of the answer is not one: {error}");
                return self.fail(Verdict::retry_on_new_connection(why));
            }
        };
        if event.error.is_some() || event.object.as_deref() == Some("error") {
            return self.fail(hidden_error(data));
        }
        if let Some(usage) = event.usage {
            self.usage = usage;
        }
        if let Some(ids) = event.prompt_token_ids {
            self.note_prompt(ids);
        }
        match event.choices.and_then(|choices| choices.0) {
            Some(delta) => self.take(delta),
            None => Flow::Idle,
        }
    }

    fn fail(&mut self, fault: Verdict<Answer>) -> Flow {
        self.fault.get_or_insert(fault);
        Flow::Over
    }

    /// The prompt of a continued answer is known, and what was sent for it holds its beginning too.
    fn note_prompt(&mut self, ids: Vec<u32>) {
        if !self.before.is_continued {
            self.partial.prompt_tokens = ids;
        }
    }

    fn take(&mut self, delta: Delta<'_>) -> Flow {
        let message = delta.delta.unwrap_or_default();
        if let Some(ids) = delta.prompt_token_ids {
            self.note_prompt(ids);
        }
        let text = delta.text.or(message.content).unwrap_or_default();
        let reasoning = [message.reasoning_content, message.reasoning];
        let reasoning = reasoning.into_iter().flatten().find(|text| !text.is_empty());
        let ids = delta.token_ids.unwrap_or_default();
        let reason = delta.finish_reason.filter(|reason| !reason.is_empty());
        let refused = message.refusal.filter(|refusal| !refusal.is_empty());
        let has_text = !text.is_empty() || reasoning.is_some();
        let said = has_text || refused.is_some() || message.tool_calls.is_some();

        let tokens = ids.iter().count() as u64;
        match delta.tokens_so_far {
            Some(told) => self.partial.completion_tokens = self.before.tokens + told,
            None => self.partial.completion_tokens += if tokens == 0 { u64::from(said) } else { tokens },
        }
        self.pending.extend(ids.iter());
        self.partial.text.push_str(&text);
        self.partial
            .reasoning
            .push_str(reasoning.as_deref().unwrap_or_default());
        self.refusal.push_str(refused.as_deref().unwrap_or_default());
        if has_text {
            self.partial.tokens.append(&mut self.pending);
        }
        let is_new = tokens > 0 || said;
        if is_new && !std::mem::replace(&mut self.has_begun, true) && self.before.is_continued {
            self.partial.continuations += 1;
        }
        if self.stops_across_the_seam() {
            return Flow::Over;
        }
        self.has_uncounted |= said && tokens == 0 && delta.tokens_so_far.is_none();
        self.note_cap();
        if self.is_endless() {
            return self.end_at_cap();
        }
        if let Some(reason) = reason {
            if self.at_cap.is_some() && self.tokens() > u64::from(self.request.max_tokens) {
                return self.end_at_cap();
            }
            self.finish_reason = Some(reason.into_string());
            // Nothing may continue an answer that has ended, also when only its counts are outstanding: its tokens come back
            // with its conclusion.
            std::mem::swap(&mut self.partial.tokens, &mut self.pending);
            self.pending.append(&mut self.partial.tokens);
            self.stop_reason = stop_text(delta.stop_reason).or_else(|| stop_text(delta.matched_stop));
            return Flow::Ended;
        }
        if is_new { Flow::Progress } else { Flow::Idle }
    }

    /// Remembers where the cap is, where it lies between two events and each token's text is known.
    fn note_cap(&mut self) {
        let is_at_cap = self.tokens() == u64::from(self.request.max_tokens);
        if is_at_cap && !self.has_uncounted && self.pending.is_empty() {
            self.at_cap.get_or_insert(AtCap {
                text: self.partial.text.len(),
                reasoning: self.partial.reasoning.len(),
                tokens: self.partial.tokens.len(),
            });
        }
    }

    /// There is so much of the answer that the engine does not heed the cap: twice as much, and some tokens more.
    fn is_endless(&self) -> bool {
        let most = most_tokens(self.request);
        let pieces = if self.has_uncounted { PIECES_OF_TOKEN } else { 1 };
        let bytes = self.partial.text.len() + self.partial.reasoning.len() + self.refusal.len();
        self.tokens() > most * pieces || bytes > most_bytes(self.request)
    }

    /// Ends an answer that the engine does not end: cut at its cap where that is known, else as a fault of the engine's, of which
    /// nothing is kept that an answer could go on from.
    fn end_at_cap(&mut self) -> Flow {
        let cap = self.request.max_tokens;
        let Some(at) = self.at_cap else {
            let came = self.tokens();
            *self.partial = Partial::default();
            self.pending.clear();
            return self.fail(Verdict::Endless {
                why: format!(
                    "the engine does not end the answer: {} or pieces came, and the cap is {cap}",
                    counted(came, "token")
                ),
            });
        };
        self.partial.text.truncate(at.text);
        self.partial.reasoning.truncate(at.reasoning);
        self.partial.tokens.truncate(at.tokens);
        self.partial.completion_tokens = u64::from(cap);
        self.pending.clear();
        self.usage.completion_tokens = None;
        self.finish_reason = Some("length".to_owned());
        Flow::Over
    }

    /// Looks for a stop text that begins before this request's text and ends in it: the engine sees only what is new. The first
    /// one to be complete ends the answer.
    fn stops_across_the_seam(&mut self) -> bool {
        let seam = self.before.text;
        if seam == 0 {
            return false;
        }
        let text = &self.partial.text;
        let ends = self.request.stop.iter().filter_map(|stop| {
            // Past the seam by a whole stop text, nothing can begin before it.
            let first = seam.saturating_sub(stop.len().saturating_sub(1));
            let last = (seam + stop.len()).saturating_sub(1).min(text.len());
            let window = text.as_bytes().get(first..last)?;
            let found = window
                .windows(stop.len().max(1))
                .position(|found| found == stop.as_bytes())?;
            Some((first + found + stop.len(), stop))
        });
        let Some((end, stop)) = ends.min_by_key(|(end, _)| *end) else {
            return false;
        };
        self.stop_reason = Some(stop.clone());
        self.finish_reason = Some("stop".to_owned());
        // Stop texts are compared whole, so that their borders are those of characters.
        self.partial.text.truncate(end - stop.len());
        self.keeps_stop = false;
        true
    }

    /// Its end was seen, and no fault.
    pub(crate) const fn has_ended(&self) -> bool {
        self.finish_reason.is_some() && self.fault.is_none()
    }

    /// The server has said all that it would.
    pub(crate) const fn is_whole(&self) -> bool {
        self.is_over && self.fault.is_none()
    }

    /// Longest wait from one token to the next.
    pub(crate) const fn stall_timeout(&self) -> Duration {
        self.request.stall_timeout
    }

    /// What there is.
    pub(crate) const fn partial(&self) -> &Partial {
        self.partial
    }

    /// Tokens of the answer so far.
    pub(crate) const fn tokens(&self) -> u64 {
        self.partial.completion_tokens
    }

    /// What the whole means, once nothing more comes.
    pub(crate) fn conclude(mut self) -> Verdict<Answer> {
        if let Some(fault) = self.fault {
            return fault;
        }
        let partial = self.partial;
        partial.tokens.append(&mut self.pending);
        if let Some(stop) = &self.stop_reason
            && self.keeps_stop
            && partial.text.ends_with(stop.as_str())
        {
            partial.text.truncate(partial.text.len() - stop.len());
        }
        if let Some(new) = self.usage.completion_tokens {
            partial.completion_tokens = self.before.tokens + new;
        }
        let prompt_tokens = if self.before.is_continued {
            Some(partial.prompt_tokens.len() as u64)
        } else {
            self.usage.prompt_tokens
        };
        let cached_tokens = self.usage.cached_tokens();
        let whole = Whole {
            text: partial.text.clone(),
            reasoning: Some(partial.reasoning.clone()),
            refusal: Some(self.refusal),
            finish_reason: self.finish_reason,
            stop_reason: self.stop_reason,
            prompt_tokens,
            completion_tokens: Some(partial.completion_tokens),
            // Of a continued one, its beginning may be cached too, which is no part of the prompt.
            cached_tokens: cached_tokens.map(|cached| cached.min(prompt_tokens.unwrap_or(cached))),
            first_token_after: self.first_token_after,
        };
        conclude(whole, self.request)
    }
}

/// More tokens than that no engine makes that heeds the cap: twice as many, and some more.
fn most_tokens(request: &Request<'_>) -> u64 {
    let cap = u64::from(request.max_tokens);
    cap + cap.max(TOKENS_BEYOND)
}

/// More bytes than that are no text of an answer whose engine heeds the cap.
pub(crate) fn most_bytes(request: &Request<'_>) -> usize {
    usize::try_from(most_tokens(request) * BYTES_OF_TOKEN).unwrap_or(usize::MAX)
}

/// The answer that is there already, which only the cap keeps from being continued.
pub(crate) fn full(request: &Request<'_>, partial: &Partial) -> Verdict<Answer> {
    let whole = Whole {
        text: partial.text.clone(),
        reasoning: Some(partial.reasoning.clone()),
        finish_reason: Some("length".to_owned()),
        prompt_tokens: Some(partial.prompt_tokens.len() as u64),
        completion_tokens: Some(partial.completion_tokens),
        ..Whole::default()
    };
    conclude(whole, request)
}

#[cfg(test)]
#[path = "assembly_tests.rs"]
mod tests;
