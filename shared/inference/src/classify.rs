//! What each ending of a request means. Pure, so that every row of the table is a test.

use std::time::Duration;

use bytes::Bytes;
use tidemill_domain::Ending;

use crate::complaint::Complaint;
use crate::text::Text;
use crate::wire::{Choice, Reply, StopWord, Usage};
use crate::{Answer, HttpOutcome, Request, Verdict};

/// What the outcome of a request for a completion means.
///
/// | what arrived | verdict |
/// | --- | --- |
/// | text, and the model stopped | done: `Stop` |
/// | the cap or the context ended it, or as many tokens as the cap although called a stop | done: `Length`, truncated |
/// | a filter refused prompt or answer, or the model declined in its own field | done: `Refused` |
/// | success without text, reasoning and tokens | suspect |
/// | an aborted answer, one without a finish reason, an error object, no choices, no JSON, half a response | retry |
/// | 429, 503 | busy |
/// | the prompt does not fit | overflow |
/// | another refusal of this request | rejected |
/// | wrong model, key or address | fatal |
/// | no connection, or one that ended before the response | down |
#[must_use]
pub fn classify(outcome: &HttpOutcome, request: &Request<'_>) -> Verdict<Answer> {
    if let HttpOutcome::Answered { status, body, .. } = outcome
        && (400..500).contains(status)
    {
        let complaint = Complaint::read(body);
        if complaint.is_filtered() {
            return Verdict::Done(filtered(complaint.describe(*status)));
        }
    }
    settle(outcome, |body| classify_body(body, request))
}

/// Deals with every outcome but a success, whose body is left to `read`.
pub(crate) fn settle<T>(outcome: &HttpOutcome, read: impl FnOnce(&Bytes) -> Verdict<T>) -> Verdict<T> {
    match outcome {
        HttpOutcome::Answered {
            status: 200..=299,
            body,
            ..
        } => read(body),
        HttpOutcome::Answered {
            status,
            retry_after,
            body,
        } => Complaint::read(body).verdict(*status, *retry_after),
        HttpOutcome::Cut(why) => Verdict::retry_on_new_connection(format!("the response was cut: {why}")),
        HttpOutcome::TimedOut(limit) => Verdict::retry(format!("no whole response within {limit:?}")),
        HttpOutcome::Unreachable(why) => Verdict::Down {
            why: why.clone(),
            sent: false,
        },
        HttpOutcome::Lost(why) => Verdict::Down {
            why: why.clone(),
            sent: true,
        },
    }
}

/// A success whose body is an error all the same.
pub(crate) fn hidden_error<T>(body: &[u8]) -> Verdict<T> {
    let complaint = Complaint::read(body);
    match complaint.verdict(400, None) {
        Verdict::Rejected { .. } => Verdict::retry(format!("an error in a success: {}", complaint.describe(200))),
        known => known,
    }
}

fn classify_body(body: &[u8], request: &Request<'_>) -> Verdict<Answer> {
    let reply: Reply<'_> = match serde_json::from_slice(body) {
        Ok(reply) => reply,
        Err(error) => return Verdict::retry_on_new_connection(format!("the body is not a completion: {error}")),
    };
    if reply.error.is_some() || reply.object.as_deref() == Some("error") {
        return hidden_error(body);
    }
    match reply.choices.into_iter().flatten().next() {
        Some(choice) => classify_choice(choice, reply.usage.unwrap_or_default(), request),
        None => Verdict::retry("the response has no choices"),
    }
}

fn classify_choice(choice: Choice<'_>, usage: Usage, request: &Request<'_>) -> Verdict<Answer> {
    let message = choice.message.unwrap_or_default();
    let reasoning = [message.reasoning_content, message.reasoning];
    let whole = Whole {
        text: choice.text.or(message.content).unwrap_or_default().into_string(),
        reasoning: reasoning
            .into_iter()
            .flatten()
            .find(|text| !text.is_empty())
            .map(Text::into_string),
        refusal: message.refusal.map(Text::into_string),
        finish_reason: choice.finish_reason.map(Text::into_string),
        stop_reason: stop_text(choice.stop_reason).or_else(|| stop_text(choice.matched_stop)),
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        cached_tokens: usage.cached_tokens(),
        first_token_after: None,
    };
    conclude(whole, request)
}

/// All that a server said of an answer, in one piece or in many.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    pub(crate) text: String,
    pub(crate) reasoning: Option<String>,
    pub(crate) refusal: Option<String>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) stop_reason: Option<String>,
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) completion_tokens: Option<u64>,
    pub(crate) cached_tokens: Option<u64>,
    pub(crate) first_token_after: Option<Duration>,
}

/// What a success means, however it arrived.
pub(crate) fn conclude(whole: Whole, request: &Request<'_>) -> Verdict<Answer> {
    let Some(finish_reason) = whole.finish_reason.filter(|reason| !reason.is_empty()) else {
        return Verdict::retry("the answer has no finish reason");
    };
    let Some(mut ending) = ending_named(&finish_reason) else {
        return Verdict::retry(format!("the engine ended the answer with {finish_reason:?}"));
    };
    let refusal = whole.refusal.filter(|refusal| !refusal.is_empty());
    let reasoning = whole.reasoning.filter(|reasoning| !reasoning.is_empty());
    let (text, generated) = (whole.text, whole.completion_tokens);
    if refusal.is_some() {
        ending = Ending::Refused;
    } else if ending == Ending::Stop && text.trim().is_empty() && reasoning.is_none() && generated.unwrap_or(0) == 0 {
        // A model that ends at once has still made its end token, which engines count.
        if whole.stop_reason.is_none() {
            ending = Ending::Empty;
        }
    } else if ending == Ending::Stop {
        // A stop text may fire at the cap, and beyond it nothing counts.
        let cap = u64::from(request.max_tokens);
        let is_cut =
            generated.is_some_and(|generated| generated > cap || generated == cap && whole.stop_reason.is_none());
        if is_cut {
            ending = Ending::Length;
        }
    }
    let answer = Answer {
        ending,
        text: refusal.filter(|_| text.is_empty()).unwrap_or(text),
        reasoning,
        finish_reason: Some(finish_reason),
        stop_reason: whole.stop_reason,
        truncated: ending == Ending::Length,
        prompt_tokens: whole.prompt_tokens.unwrap_or(0),
        completion_tokens: generated.unwrap_or(0),
        cached_tokens: whole.cached_tokens,
        first_token_after: whole.first_token_after,
    };
    match ending {
        Ending::Empty => Verdict::Suspect(answer),
        _ => Verdict::Done(answer),
    }
}

/// The ending that an engine's word stands for; `None` for words that are no ending of an answer (`abort`, `error`) and
/// for unknown ones.
fn ending_named(finish_reason: &str) -> Option<Ending> {
    match finish_reason {
        "stop" | "eos" | "eos_token" | "end_turn" | "stop_sequence" | "tool_calls" | "function_call" => {
            Some(Ending::Stop)
        }
        "length" | "max_tokens" | "model_length" | "repetition" => Some(Ending::Length),
        "content_filter" | "refusal" | "safety" => Some(Ending::Refused),
        _ => None,
    }
}

/// A stop text that is one.
pub(crate) fn stop_text(word: Option<StopWord<'_>>) -> Option<String> {
    match word {
        Some(StopWord::Text(text)) if !text.is_empty() => Some(text.into_owned()),
        _ => None,
    }
}

fn filtered(detail: String) -> Answer {
    Answer {
        ending: Ending::Refused,
        text: String::new(),
        reasoning: None,
        finish_reason: Some(detail),
        stop_reason: None,
        truncated: false,
        prompt_tokens: 0,
        completion_tokens: 0,
        cached_tokens: None,
        first_token_after: None,
    }
}

#[cfg(test)]
mod tests;
