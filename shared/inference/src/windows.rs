//! A text that is longer than the engine's context, scored in windows.
//!
//! Only of a whole text, which has a start token before it at most: of a continuation, what a model has read before belongs to the
//! question and is never left out. The text's tokens are cut as EleutherAI/lm-evaluation-harness cuts them for servers
//! (`lm_eval/utils.py`, `get_rolling_token_windows`, with a context of one token): each token is scored once, the first window
//! begins with the start token, each next one with the last token before it, and the last one reaches back as far as it has room.
//!
//! Which tokens a text is, the engine alone says. What was scored counts only if its tokens' texts, laid together, are the text.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidemill_domain::{ChoiceScore, EngineKind, counted};

use crate::classify::settle;
use crate::http::{Endpoint, Exchange};
use crate::likelihood::classify_tokens;
use crate::repeats::is_equal;
use crate::wire::Detokenized;
use crate::{Attempt, Connection, HttpOutcome, OpenAi, Scored, Scoring, Verdict, sglang};

/// Start tokens that a text may have before it: one that is written and one that the tokenizer adds.
const START_TOKENS: usize = 2;

/// Tokens `begin..end` of start tokens and text, of which those from `border` on are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    begin: usize,
    border: usize,
    end: usize,
}

/// Windows of at most `room` tokens over `start` start tokens and what follows, `tokens` in all.
fn windows(start: usize, tokens: usize, room: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let mut scored = start;
    while scored < tokens {
        let is_first = scored == start;
        let read = if is_first { start } else { 1 };
        let end = tokens.min(scored + room.saturating_sub(read).max(1));
        windows.push(Window {
            begin: if is_first { 0 } else { end.saturating_sub(room) },
            border: scored,
            end,
        });
        scored = end;
    }
    windows
}

#[derive(Serialize)]
struct TokenizeBody<'a> {
    model: &'a str,
    prompt: &'a str,
    add_special_tokens: bool,
}

#[derive(Deserialize)]
pub(crate) struct Tokenized {
    pub(crate) tokens: Vec<u32>,
    count: Option<usize>,
    max_model_len: Option<usize>,
}

/// A text in tokens.
struct Cut {
    tokens: Vec<u32>,
    start: usize,
    /// The longest prompt that the engine takes.
    room: usize,
}

/// Scores in windows what was refused for its length by `refused`; that stands where `choice` is no whole text, or the engine does
/// not tell its tokens or what they are the text of.
pub(crate) async fn score(
    engine: &OpenAi,
    scoring: &Scoring<'_>,
    choice: &str,
    connection: Connection,
    refused: Attempt<Scored>,
) -> Attempt<Scored> {
    let mut requests = refused.requests;
    if !scoring.is_whole_text() {
        return refused;
    }
    let cut = match cut(engine, scoring, choice, connection, &mut requests).await {
        Ok(Some(cut)) => cut,
        Ok(None) => return Attempt { requests, ..refused },
        Err(verdict) => return Attempt { verdict, requests },
    };
    let (mut whole, mut told) = (NOTHING, String::new());
    for window in windows(cut.start, cut.tokens.len(), cut.room) {
        let tokens = &cut.tokens[window.begin..window.end];
        let border = window.border - window.begin;
        let attempt = score_window(engine, tokens, border, connection, &mut told).await;
        requests += attempt.requests;
        match attempt.verdict {
            Verdict::Done(part) => add(&mut whole, &part),
            verdict => return Attempt { verdict, requests },
        }
    }
    let prompt = scoring.prompt(choice);
    let sent = &prompt[scoring.context().len()..];
    if told == sent {
        let verdict = Verdict::Done(whole);
        return Attempt { verdict, requests };
    }
    // Their texts one by one may lack white space, and characters that are cut over two of them.
    let verdict = match detokenize(engine, &cut.tokens[cut.start..], connection, &mut requests).await {
        Ok(Some(told)) if is_equal(&told, sent) => Verdict::Done(whole),
        Ok(Some(_)) => Verdict::retry("the tokens that the engine tells for the text are those of another one"),
        Ok(None) => refused.verdict,
        Err(verdict) => verdict,
    };
    Attempt { verdict, requests }
}

/// The score of no tokens.
const NOTHING: Scored = Scored {
    choice: ChoiceScore {
        log_probability: 0.0,
        tokens: 0,
        is_greedy: true,
    },
    prompt_tokens: 0,
    completion_tokens: 0,
};

fn add(whole: &mut Scored, part: &Scored) {
    whole.choice.log_probability += part.choice.log_probability;
    whole.choice.tokens += part.choice.tokens;
    whole.choice.is_greedy &= part.choice.is_greedy;
    whole.prompt_tokens += part.prompt_tokens;
    whole.completion_tokens += part.completion_tokens;
}

/// The tokens of a whole text. `None` where no start tokens are before it, and where the engine does not say enough.
///
/// # Errors
/// What passes, as when the engine is busy: asked again, it may tell them. And tokens that cannot be those of the text.
async fn cut(
    engine: &OpenAi,
    scoring: &Scoring<'_>,
    choice: &str,
    connection: Connection,
    requests: &mut u32,
) -> Result<Option<Cut>, Verdict<Scored>> {
    let Some(start) = tokenize(engine, scoring.context(), connection, requests).await? else {
        return Ok(None);
    };
    let Some(whole) = tokenize(engine, &scoring.prompt(choice), connection, requests).await? else {
        return Ok(None);
    };
    let start_tokens = start.tokens.len();
    let context = whole.max_model_len.unwrap_or(0);
    let room = if engine.kind() == EngineKind::Sglang {
        *requests += 1;
        sglang::longest_prompt(engine, context, connection).await
    } else {
        // As the harness leaves it: one token less than the context, which servers keep for the answer.
        context.saturating_sub(1)
    };
    let is_started = (1..=START_TOKENS).contains(&start_tokens) && whole.tokens.starts_with(&start.tokens);
    if !is_started || room <= start_tokens {
        return Ok(None);
    }
    if whole.tokens.len() == start_tokens {
        return Err(Verdict::retry("the engine tells no tokens of the text but its start"));
    }
    Ok(Some(Cut {
        start: start_tokens,
        tokens: whole.tokens,
        room,
    }))
}

/// The tokens of a text. `None` where the engine has no such endpoint, or says something else there.
pub(crate) async fn tokenize(
    engine: &OpenAi,
    text: &str,
    connection: Connection,
    requests: &mut u32,
) -> Result<Option<Tokenized>, Verdict<Scored>> {
    let body = TokenizeBody {
        model: engine.model(),
        prompt: text,
        add_special_tokens: true,
    };
    let body = crate::body::encode(&body, text.len());
    let exchange = engine.client().post(Endpoint::Tokenize, body, connection).await;
    let tokenized = told(&exchange, requests, |body| {
        serde_json::from_slice::<Tokenized>(body).ok()
    })?;
    match tokenized {
        Some(Tokenized {
            tokens,
            count: Some(count),
            ..
        }) if tokens.len() != count => Err(Verdict::retry(format!(
            "the engine tells {} for a text and counts {count}",
            counted(tokens.len() as u64, "token")
        ))),
        tokenized => Ok(tokenized),
    }
}

/// The text of tokens, special ones with it. `None` as for [`tokenize`].
async fn detokenize(
    engine: &OpenAi,
    tokens: &[u32],
    connection: Connection,
    requests: &mut u32,
) -> Result<Option<String>, Verdict<Scored>> {
    let body = crate::body::detokenize(engine.model(), tokens, true);
    let exchange = engine.client().post(Endpoint::Detokenize, body, connection).await;
    told(&exchange, requests, |body| {
        let detokenized = serde_json::from_slice::<Detokenized<'_>>(body).ok()?;
        Some(detokenized.text.into_string())
    })
}

/// What `read` finds in the answer of an endpoint that engines need not have.
///
/// # Errors
/// What passes, as when the engine is busy.
fn told<T>(
    exchange: &Exchange,
    requests: &mut u32,
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<Option<T>, Verdict<Scored>> {
    let Exchange {
        outcome,
        requests: sent,
    } = exchange;
    *requests += sent;
    let is_missing = matches!(
        outcome,
        HttpOutcome::Answered {
            status: 404 | 405 | 501,
            ..
        }
    );
    let mut found = None;
    let verdict = settle(outcome, |body| {
        found = read(body);
        Verdict::Rejected { detail: String::new() }
    });
    match verdict {
        Verdict::Busy { .. } | Verdict::Retry { .. } | Verdict::Down { .. } if !is_missing => Err(verdict),
        _ => Ok(found),
    }
}

/// Scores the tokens from `border` on, and adds their texts, where the engine tells these, to `told`.
async fn score_window(
    engine: &OpenAi,
    tokens: &[u32],
    border: usize,
    connection: Connection,
    told: &mut String,
) -> Attempt<Scored> {
    if engine.kind() == EngineKind::Sglang {
        return sglang::score_tokens(engine, tokens, border, connection).await;
    }
    let body = |generated| -> Bytes { crate::body::echo_tokens(engine.model(), tokens, generated) };
    let (Exchange { outcome, requests }, generated) = engine.echo(body, connection).await;
    Attempt {
        verdict: classify_tokens(&outcome, (tokens.len(), border), generated, told),
        requests,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window((begin, border, end): (usize, usize, usize)) -> Window {
        Window { begin, border, end }
    }

    #[test]
    fn each_token_is_scored_once_and_the_last_window_is_filled() {
        // What `get_rolling_token_windows(range(n), prefix, 4, 1)` gives for servers with a context of 6 tokens.
        for (tokens, expected) in [
            (5, vec![(0, 1, 5)]),
            (6, vec![(0, 1, 5), (1, 5, 6)]),
            (8, vec![(0, 1, 5), (3, 5, 8)]),
            (9, vec![(0, 1, 5), (4, 5, 9)]),
            (11, vec![(0, 1, 5), (4, 5, 9), (6, 9, 11)]),
        ] {
            let expected: Vec<Window> = expected.into_iter().map(window).collect();
            assert_eq!(windows(1, tokens, 5), expected, "{tokens}");
        }
        assert_eq!(windows(2, 9, 5), [(0, 2, 5), (4, 5, 9)].map(window));
        assert_eq!(windows(1, 1, 5), []);
    }
}
