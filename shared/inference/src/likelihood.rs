//! How likely a continuation is: an echoed prompt's log-probabilities checked, and summed over exactly the continuation.
//!
//! Servers echo in many ways, and each wrong reading gives a plausible number. So nothing is summed before the answer
//! passed the gate (`Echo::check`), and where the tokens of the context end is taken from the tokens themselves, then
//! from offsets that prove consistent, and else from a count of the context's tokens; never guessed.

use tidemill_domain::{ChoiceScore, counted};

use crate::classify::{hidden_error, settle};
use crate::repeats::{Repeated, compare};
use crate::text::Text;
use crate::wire::{EchoReply, Logprobs};
use crate::{HttpOutcome, Scoring, Verdict};

/// The score of one continuation.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The continuation's likelihood.
    pub choice: ChoiceScore,
    /// Tokens of context and continuation.
    pub prompt_tokens: u64,
    /// Tokens generated although none was wanted: by servers that cannot do without.
    pub completion_tokens: u64,
}

/// What the outcome of an echo request means.
///
/// `generated` is how many tokens the request had to ask for: 0, or 1 where the server refuses 0.
///
/// # Errors
/// [`NeedsContextTokens`] when the border between context and continuation cannot be seen in the response: call again
/// once `scoring` knows how many tokens the context alone is.
pub fn classify_score(
    outcome: &HttpOutcome,
    scoring: &Scoring<'_>,
    choice: &str,
    generated: u32,
) -> Result<Verdict<Scored>, NeedsContextTokens> {
    let mut needs_context_tokens = false;
    let prompt = scoring.prompt(choice);
    let verdict = settle_echo(outcome, Asked::Text(&prompt), generated, |echo| {
        echo.border(scoring, &prompt).map_or_else(
            |NeedsContextTokens| {
                needs_context_tokens = true;
                Verdict::retry("the border of the continuation is unknown")
            },
            |border| echo.sum(border),
        )
    });
    if needs_context_tokens {
        return Err(NeedsContextTokens);
    }
    Ok(verdict)
}

/// What the outcome of an echo request for a prompt of `tokens` tokens means, of which those from `border` on are scored: their
/// texts, as the server tells them, are added to `told`.
pub(crate) fn classify_tokens(
    outcome: &HttpOutcome,
    (tokens, border): (usize, usize),
    generated: u32,
    told: &mut String,
) -> Verdict<Scored> {
    settle_echo(outcome, Asked::Tokens(tokens), generated, |echo| {
        told.extend(echo.tokens.iter().skip(border).map(|token| &**token));
        echo.sum(border)
    })
}

fn settle_echo(
    outcome: &HttpOutcome,
    asked: Asked<'_>,
    generated: u32,
    score: impl FnOnce(&Echo<'_>) -> Verdict<Scored>,
) -> Verdict<Scored> {
    settle(outcome, |body| {
        let reply: EchoReply<'_> = match serde_json::from_slice(body) {
            Ok(reply) => reply,
            Err(error) => return Verdict::retry_on_new_connection(format!("the body is not a completion: {error}")),
        };
        if reply.error.is_some() || reply.object.as_deref() == Some("error") {
            return hidden_error(body);
        }
        match Echo::check(reply, asked, generated as usize) {
            Err(fault) => fault.into(),
            Ok(echo) => score(&echo),
        }
    })
}

/// The prompt that an echo is to repeat.
#[derive(Clone, Copy)]
enum Asked<'a> {
    Text(&'a str),
    /// How many tokens were sent.
    Tokens(usize),
}

impl Asked<'_> {
    /// How many tokens the prompt is whose answer has the text and so many log-probabilities, those of `generated` tokens at the
    /// end or not; `told` is how many the server says.
    fn count(self, text: Option<&str>, logprobs: usize, told: Option<usize>, generated: usize) -> Result<usize, Fault> {
        let is_of = |count: usize| logprobs == count || logprobs == count + generated;
        let implausible = |count: usize| {
            let tokens = counted(count as u64, "token");
            Err(Fault::Implausible(format!("{logprobs} for {tokens} of the prompt")))
        };
        let is_echoed = match self {
            Self::Text(prompt) => text.is_some_and(|text| text.starts_with(prompt)),
            Self::Tokens(sent) => is_of(sent),
        };
        if !is_echoed && logprobs == generated {
            return Err(Fault::NotEchoed("echo was ignored"));
        }
        match (self, told) {
            // A server that puts a token in front, or leaves one out, has read something else than was sent.
            (Self::Tokens(sent), told) if is_of(sent) && told.is_none_or(|told| told == sent) => Ok(sent),
            (Self::Tokens(sent), _) => implausible(sent),
            (Self::Text(_), Some(told)) if is_of(told) => Ok(told),
            (Self::Text(_), _) if !is_echoed => Err(Fault::NotEchoed("echo was ignored")),
            (Self::Text(_), Some(told)) => implausible(told),
            (Self::Text(_), None) => Ok(logprobs - generated.min(logprobs)),
        }
    }

    /// Refuses an echo of something else: a server that cuts a long prompt gives numbers that look like any others.
    fn compare(self, text: Option<&str>, tokens: &[Text<'_>]) -> Result<(), Fault> {
        let Self::Text(prompt) = self else { return Ok(()) };
        let by_text = text.filter(|text| !text.is_empty()).map(|text| compare(text, prompt));
        let by_tokens = || {
            let joined: String = tokens.iter().map(|token| &**token).collect();
            compare(&joined, prompt)
        };
        // Some servers show start tokens that are written as no text at all: nothing is missing then.
        let tells_all = || tokens.iter().all(|token| !token.is_empty());
        match by_text {
            Some(Repeated::Cut) => Err(Fault::Cut),
            Some(Repeated::Whole) if tells_all() && by_tokens() == Repeated::Cut => Err(Fault::Cut),
            Some(Repeated::Whole) => Ok(()),
            None if by_tokens() == Repeated::Whole => Ok(()),
            None if by_tokens() == Repeated::Cut => Err(Fault::Cut),
            _ => Err(Fault::Implausible("the echo is not the prompt".to_owned())),
        }
    }
}

/// The response alone does not show where the continuation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("find where the continuation begins: the context's tokens must be counted")]
pub struct NeedsContextTokens;

/// Why an echo cannot be used.
enum Fault {
    /// The server did not echo: it cannot score.
    NotEchoed(&'static str),
    /// The numbers cannot be right.
    Implausible(String),
    /// The server read a part of the prompt, and said nothing.
    Cut,
}

impl From<Fault> for Verdict<Scored> {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NotEchoed(what) => Self::Unsupported {
                detail: format!("the server gives no log-probabilities of the prompt: {what}"),
            },
            Fault::Implausible(what) => implausible(&what),
            Fault::Cut => Self::Overflow {
                detail: "the server cut the prompt without a word: it echoes a part of it".to_owned(),
            },
        }
    }
}

/// An echoed prompt whose numbers passed the gate. All lists are as long as the prompt.
struct Echo<'a> {
    tokens: Vec<Text<'a>>,
    logprobs: Vec<Option<f64>>,
    best: Vec<Option<f64>>,
    offsets: Vec<i64>,
    prompt_tokens: u64,
    completion_tokens: u64,
}

/// A token's log-probability may pass 0 by the rounding of half-precision arithmetic, not by more.
pub const ROUNDING: f64 = 1e-3;

impl<'a> Echo<'a> {
    /// The gate: echoed at all and all of it, one number a token and one of the most probable token beside it, none missing but
    /// the first, none above 0, and not all 0.
    fn check(reply: EchoReply<'a>, asked: Asked<'_>, generated: usize) -> Result<Self, Fault> {
        let usage = reply.usage.unwrap_or_default();
        let Some(choice) = reply.choices.into_iter().flatten().next() else {
            return Err(Fault::Implausible("the response has no choices".to_owned()));
        };
        let text = choice.text;
        let Logprobs {
            tokens,
            token_logprobs,
            top_logprobs,
            text_offset,
        } = choice.logprobs.unwrap_or_default();
        let mut logprobs = token_logprobs.unwrap_or_default();
        let mut tokens = tokens.unwrap_or_default();
        if logprobs.is_empty() {
            return Err(Fault::NotEchoed("the response has none"));
        }
        if tokens.len() != logprobs.len() {
            let what = format!("{} for {}", logprobs.len(), counted(tokens.len() as u64, "token"));
            return Err(Fault::Implausible(what));
        }
        let told = usage.prompt_tokens.map(|count| count as usize);
        let count = asked.count(text.as_deref(), logprobs.len(), told, generated)?;
        asked.compare(text.as_deref(), &tokens[..count])?;
        let best = top_logprobs.unwrap_or_default().into_iter();
        let mut best: Vec<Option<f64>> = best.map(|best| best.and_then(|best| best.0)).collect();
        // The first token of a prompt has no likelihood anywhere: a prompt of one says nothing of what the server gives.
        if logprobs.len() == 1 && logprobs[0].is_none() {
            best = vec![None];
        } else if best.iter().all(Option::is_none) {
            return Err(Fault::NotEchoed(NO_BEST));
        }
        if best.len() != logprobs.len() {
            let what = format!(
                "{} of most probable tokens for {}",
                best.len(),
                counted(logprobs.len() as u64, "token")
            );
            return Err(Fault::Implausible(what));
        }
        tokens.truncate(count);
        logprobs.truncate(count);
        best.truncate(count);
        plausible(&logprobs).map_err(Fault::Implausible)?;
        Ok(Self {
            best,
            offsets: text_offset.unwrap_or_default().into_iter().take(count).collect(),
            tokens,
            logprobs,
            prompt_tokens: usage.prompt_tokens.unwrap_or(count as u64),
            completion_tokens: generated as u64,
        })
    }

    /// The likelihood of the tokens from `border` on.
    fn sum(&self, border: usize) -> Verdict<Scored> {
        let covered = border..self.logprobs.len();
        if covered.is_empty() {
            return implausible("none for the continuation");
        }
        let Some(logprobs) = known(&self.logprobs[covered.clone()]) else {
            return unknown_first();
        };
        let Some(best) = known(&self.best[covered]) else {
            return unknown_best();
        };
        let is_greedy = logprobs.iter().zip(&best).all(|(logprob, best)| logprob >= best);
        Verdict::Done(Scored {
            choice: ChoiceScore {
                log_probability: logprobs.iter().sum(),
                tokens: logprobs.len() as u32,
                is_greedy,
            },
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.completion_tokens,
        })
    }

    /// Index of the continuation's first token.
    fn border(&self, scoring: &Scoring<'_>, prompt: &str) -> Result<usize, NeedsContextTokens> {
        let context = scoring.context();
        if let Some(border) = self.border_by_tokens(context, prompt) {
            return Ok(border);
        }
        if let Some(border) = self.border_by_offsets(context, prompt) {
            return Ok(border);
        }
        if context.is_empty() {
            return Ok(0);
        }
        scoring
            .context_tokens
            .map(|count| count as usize)
            .ok_or(NeedsContextTokens)
    }

    /// Lays the tokens' texts on the prompt, start tokens before it aside. `None` when they do not make up the prompt, as
    /// when a character is cut over two tokens or a tokenizer's own marks are shown.
    fn border_by_tokens(&self, context: &str, prompt: &str) -> Option<usize> {
        let total: usize = self.tokens.iter().map(|token| token.len()).sum();
        let mut starts = total.checked_sub(prompt.len())?;
        let first = self.skip(&mut starts)?;
        let mut rest = prompt;
        for token in &self.tokens[first..] {
            rest = rest.strip_prefix(&**token)?;
        }
        let ends = self.tokens[first..].iter().scan(0, |end, token| {
            *end += token.len();
            Some(*end)
        });
        // A token that holds the end of the context and the start of the continuation belongs to the context, as it does
        // when tokens are counted, unless it is all there is of the continuation.
        let within = ends.take_while(|end| *end <= context.len()).count() + first;
        let joined = self.tokens[first..within]
            .iter()
            .map(|token| token.len())
            .sum::<usize>()
            < context.len();
        let border = within + usize::from(joined && within + 1 < self.tokens.len());
        Some(border)
    }

    /// How many leading tokens make up exactly `bytes` bytes: the start tokens, whose text is no part of the prompt.
    fn skip(&self, bytes: &mut usize) -> Option<usize> {
        let mut count = 0;
        while *bytes > 0 {
            *bytes = bytes.checked_sub(self.tokens.get(count)?.len())?;
            count += 1;
        }
        Some(count)
    }

    /// Uses the server's offsets, which count characters, where they begin at 0, never fall, and end with the prompt.
    fn border_by_offsets(&self, context: &str, prompt: &str) -> Option<usize> {
        let (last, token) = (self.offsets.last()?, self.tokens.last()?);
        let end = usize::try_from(*last).ok()? + token.chars().count();
        let consistent = self.offsets.len() == self.tokens.len()
            && self.offsets.first() == Some(&0)
            && self.offsets.is_sorted()
            && end == prompt.chars().count();
        let context = context.chars().count() as i64;
        consistent.then(|| {
            let border = self.offsets.partition_point(|offset| *offset < context);
            border.min(self.offsets.len() - 1)
        })
    }
}

fn known(numbers: &[Option<f64>]) -> Option<Vec<f64>> {
    numbers.iter().copied().collect()
}

/// What is missing where no position has it: whether a continuation is the greedy one is then unknown, and is never guessed.
pub(crate) const NO_BEST: &str = "of the most probable tokens, for which logprobs asks, the response has none";

/// Whether a token of the continuation is the most probable one is not said.
pub(crate) fn unknown_best() -> Verdict<Scored> {
    implausible("none of the most probable token in a position of the continuation")
}

/// The numbers cannot be right: asked again, never summed.
pub(crate) fn implausible(what: &str) -> Verdict<Scored> {
    Verdict::retry(format!("implausible log-probabilities: {what}"))
}

/// The continuation is the first that there is.
pub(crate) fn unknown_first() -> Verdict<Scored> {
    Verdict::Rejected {
        detail: "the context is empty and the engine puts no start token before it, so the likelihood of the \
                 continuation's first token is unknown"
            .to_owned(),
    }
}

/// None is missing but the first, none is above 0, their sum is a number, and not all are 0; else what is wrong.
pub(crate) fn plausible(logprobs: &[Option<f64>]) -> Result<(), String> {
    possible(logprobs)?;
    if are_all_certain(logprobs) {
        return Err("all are 0".to_owned());
    }
    Ok(())
}

/// Every token that has a log-probability is certain: of a whole prompt that is not to be believed.
pub(crate) fn are_all_certain(logprobs: &[Option<f64>]) -> bool {
    let mut known = logprobs.iter().flatten().peekable();
    known.peek().is_some() && known.all(|logprob| *logprob == 0.0)
}

/// None is missing but the first, none is above 0, and their sum is a number; else what is wrong.
pub(crate) fn possible(logprobs: &[Option<f64>]) -> Result<(), String> {
    if let Some(index) = logprobs.iter().skip(1).position(Option::is_none) {
        return Err(format!("none for token {}", index + 1));
    }
    if let Some(logprob) = logprobs.iter().flatten().find(|logprob| **logprob > ROUNDING) {
        return Err(format!("{logprob} is above 0"));
    }
    let sum: f64 = logprobs.iter().flatten().sum();
    if !sum.is_finite() {
        return Err(format!("their sum is {sum}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
