//! SGLang.
//!
//! - It takes token ids, and tells those of completions but not of streamed chats: completions are continued, chats are not.
//! - Its repetition penalty counts the answer alone: requests with one are refused.
//! - Likelihoods come from its own `/generate`: it gives the log-probabilities of a prompt from `logprob_start_len` on, of which
//!   the first is always null, and reuses its prefix cache up to there. So it is asked from the last token of the context on:
//!   the continuation is then covered exactly, and the context that all choices share is computed once. How many tokens the
//!   context is, is asked first, once an item; how many it puts before any text, once.
//! - Started with `--allow-auto-truncate` it cuts prompts that are too long and says nothing: an answer for as many tokens as its
//!   scheduler takes none of is one for a part of the prompt.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidemill_domain::{ChoiceScore, EngineKind, counted};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;

use crate::body::{KeepStop, Words};
use crate::classify::settle;
use crate::continuation::Traits;
use crate::dialect::{Dialect, HasPenalties, TellsTokens};
use crate::http::Endpoint;
use crate::likelihood::{NO_BEST, are_all_certain, implausible, plausible, possible, unknown_best, unknown_first};
use crate::{Answer, Attempt, Capabilities, Connection, HttpOutcome, OpenAi, Scored, Scoring, Verdict, windows};

/// How long its settings are waited for; a busy scheduler tells them between two steps.
const INFO_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) static DIALECT: Dialect = Dialect {
    capabilities: Capabilities {
        prompt_logprobs: true,
        token_ids: true,
        metrics: true,
        seed: true,
        chat: true,
        continues: true,
        kind: EngineKind::Sglang,
    },
    words: Words::Vllm,
    keep_stop: Some(KeepStop::Untrimmed(true)),
    tells_tokens: TellsTokens::Completions,
    asks_for_seam: true,
    penalties: HasPenalties {
        of_answer: true,
        repetition: false,
    },
    continuing: Traits {
        repetition_counts_prompt: false,
        draws_by_position: false,
    },
};

#[derive(Serialize)]
struct GenerateBody<'a> {
    #[serde(flatten)]
    prompt: Prompt<'a>,
    sampling_params: SamplingParams,
    return_logprob: bool,
    logprob_start_len: u64,
    top_logprobs_num: u32,
}

#[derive(Clone, Copy, Serialize)]
enum Prompt<'a> {
    #[serde(rename = "text")]
    Text(&'a str),
    #[serde(rename = "input_ids")]
    Tokens(&'a [u32]),
}

#[derive(Serialize)]
struct SamplingParams {
    max_new_tokens: u32,
    temperature: f64,
}

#[derive(Deserialize)]
struct Generated {
    meta_info: Meta,
}

/// Each entry is a log-probability, a token's id and its text.
type Entry = (Option<f64>, u32, Option<serde::de::IgnoredAny>);

#[derive(Deserialize)]
struct Meta {
    prompt_tokens: u64,
    input_token_logprobs: Option<Vec<Entry>>,
    input_top_logprobs: Option<Vec<Option<Vec<Entry>>>>,
}

/// How likely `choice` is.
pub(crate) async fn score(
    engine: &OpenAi,
    scoring: &mut Scoring<'_>,
    choice: &str,
    connection: Connection,
) -> Attempt<Scored> {
    let mut requests = 0;
    if scoring.context_tokens.is_none() {
        let counted = if scoring.context().is_empty() {
            count_start(engine, scoring, connection).await
        } else {
            engine.count_context(scoring, connection).await
        };
        match counted {
            Ok(counting) => requests += counting,
            Err(failed) => return failed,
        }
    }
    let prompt = scoring.prompt(choice);
    let mut border = scoring.context_tokens.unwrap_or(0);
    loop {
        let (verdict, earlier) = generate(engine, Prompt::Text(&prompt), border, connection, &mut requests).await;
        let read = match &verdict {
            Verdict::Done(scored) => Some(scored.prompt_tokens),
            _ => earlier.map(|at| at + 1),
        };
        if let Some(verdict) = cut(engine, read, connection, &mut requests).await {
            return Attempt { verdict, requests };
        }
        match earlier {
            Some(at) => border = at,
            None => return Attempt { verdict, requests },
        }
    }
}

/// The attempt, unless its answer is one to a part of the prompt.
pub(crate) async fn to_whole_prompt(
    engine: &OpenAi,
    mut attempt: Attempt<Answer>,
    connection: Connection,
) -> Attempt<Answer> {
    // Asked for all items together, so counted to none.
    let mut requests = 0;
    if let Verdict::Done(answer) = &attempt.verdict
        && !engine.learnt_of_sglang().took(answer.prompt_tokens).await
        && let Some(verdict) = cut(engine, Some(answer.prompt_tokens), connection, &mut requests).await
    {
        attempt.verdict = verdict;
    }
    attempt
}

/// What an answer means for which the engine `read` as many tokens as it reads of a prompt that it cuts.
async fn cut<T>(engine: &OpenAi, read: Option<u64>, connection: Connection, requests: &mut u32) -> Option<Verdict<T>> {
    let read = read?;
    let longest = cut_beyond(engine, connection, requests).await?;
    (read > longest as u64).then(|| Verdict::Overflow {
        detail: format!(
            "the server cut the prompt without a word: it read {} and takes {longest} at most (--allow-auto-truncate)",
            counted(read, "token")
        ),
    })
}

/// Counts the tokens that the engine puts before any text, which it is asked once. The requests that it took.
async fn count_start(
    engine: &OpenAi,
    scoring: &mut Scoring<'_>,
    connection: Connection,
) -> Result<u32, Attempt<Scored>> {
    let mut requests = 0;
    let start = engine.learnt_of_sglang().start_tokens.get_or_try_init(async || {
        // One that does not tell it is taken to put none: the first token's likelihood is then unknown, and nothing is scored.
        let told = windows::tokenize(engine, "", connection, &mut requests).await?;
        Ok(told.map_or(0, |told| told.tokens.len() as u64))
    });
    match start.await {
        Ok(start) => {
            scoring.context_tokens = Some(*start);
            Ok(requests)
        }
        Err(verdict) => Err(Attempt { verdict, requests }),
    }
}

/// How many tokens less than the context an input has at most where the scheduler does not say it: one of the context stays free,
/// five are kept for the answer, and the input must be shorter than what is left.
const KEPT_FREE: usize = 7;

/// How long what the scheduler said is believed: another server may have taken its place.
const INFO_FOR: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, Deserialize)]
struct ServerInfo {
    /// Inputs must be shorter.
    max_req_input_len: usize,
    /// Longer ones are cut, not refused.
    allow_auto_truncate: Option<bool>,
}

/// What an engine said of itself.
#[derive(Debug, Default)]
pub(crate) struct Learnt {
    /// Tokens that it puts before any text.
    start_tokens: OnceCell<u64>,
    /// The scheduler's limits, and when it was asked for them.
    info: Mutex<Option<(Instant, Option<ServerInfo>)>>,
}

impl Learnt {
    /// Prompts of so many tokens were taken as a whole when the scheduler was last asked: answers do not wait until it has time
    /// to say so again.
    async fn took(&self, tokens: u64) -> bool {
        let info = self.info.lock().await;
        let longest = info.and_then(|(_, info)| Some(info?.max_req_input_len as u64));
        longest.is_some_and(|longest| tokens < longest)
    }
}

/// The longest prompt that is taken by an engine with such a context, in tokens. The room of its cache may allow less.
pub(crate) async fn longest_prompt(engine: &OpenAi, context: usize, connection: Connection) -> usize {
    match ask_info(engine, connection).await {
        Some(info) => info.max_req_input_len.saturating_sub(1),
        None => context.saturating_sub(KEPT_FREE),
    }
}

/// The longest prompt that is read as a whole by an engine that cuts longer ones, as it does when it was started with
/// `--allow-auto-truncate`; `None` where it refuses them, or nothing is known of its context either.
async fn cut_beyond(engine: &OpenAi, connection: Connection, requests: &mut u32) -> Option<usize> {
    let mut known = engine.learnt_of_sglang().info.lock().await;
    let info = match *known {
        Some((at, info)) if at.elapsed() < INFO_FOR => info,
        _ => {
            *requests += 1;
            let info = ask_info(engine, connection).await;
            *known = Some((Instant::now(), info));
            info
        }
    };
    match info {
        Some(info) if info.allow_auto_truncate == Some(false) => None,
        Some(info) => Some(info.max_req_input_len.saturating_sub(1)),
        None => Some((engine.context_length()? as usize).saturating_sub(KEPT_FREE)),
    }
}

async fn ask_info(engine: &OpenAi, connection: Connection) -> Option<ServerInfo> {
    let told = engine
        .client()
        .get(Endpoint::ServerInfo, connection, INFO_TIMEOUT)
        .await;
    let HttpOutcome::Answered {
        status: 200..=299,
        body,
        ..
    } = told
    else {
        return None;
    };
    serde_json::from_slice(&body).ok()
}

/// How likely the tokens from `border` on are, which is at least 1.
pub(crate) async fn score_tokens(
    engine: &OpenAi,
    tokens: &[u32],
    border: usize,
    connection: Connection,
) -> Attempt<Scored> {
    let mut requests = 0;
    let asked = generate(engine, Prompt::Tokens(tokens), border as u64, connection, &mut requests).await;
    let verdict = match asked {
        (_, Some(_)) => implausible("fewer tokens than were sent"),
        (Verdict::Done(scored), _) if scored.prompt_tokens != tokens.len() as u64 => implausible(&format!(
            "those of {} for {} that were sent",
            counted(scored.prompt_tokens, "token"),
            tokens.len()
        )),
        (verdict, _) => verdict,
    };
    Attempt { verdict, requests }
}

/// Asks for the continuation that begins at token `border`, and says where it begins instead where that is no token of its own.
///
/// One that is certain is asked for again with all that is before it: a model may be certain of a continuation, but a server
/// that says so of everything has said nothing.
async fn generate(
    engine: &OpenAi,
    prompt: Prompt<'_>,
    border: u64,
    connection: Connection,
    requests: &mut u32,
) -> (Verdict<Scored>, Option<u64>) {
    let mut start = border.saturating_sub(1);
    loop {
        let exchange = engine
            .client()
            .post(Endpoint::Generate, body(prompt, start), connection)
            .await;
        *requests += exchange.requests;
        let mut unread = None;
        let verdict = settle(&exchange.outcome, |body| match read(body, border, start) {
            Ok(verdict) => verdict,
            Err(why) => {
                unread = Some(why);
                Verdict::retry("the continuation is no token of its own")
            }
        });
        match unread {
            Some(Unread::Certain) => start = 0,
            Some(Unread::Earlier(at)) => return (verdict, Some(at)),
            None => return (verdict, None),
        }
    }
}

fn body(prompt: Prompt<'_>, start: u64) -> Bytes {
    let text_bytes = match &prompt {
        Prompt::Text(text) => text.len(),
        Prompt::Tokens(tokens) => tokens.len() * 7,
    };
    crate::body::encode(
        &GenerateBody {
            prompt,
            // The tokens that are scored are the prompt's; none is wanted beyond, and none is decoded.
            sampling_params: SamplingParams {
                max_new_tokens: 0,
                temperature: 0.0,
            },
            return_logprob: true,
            logprob_start_len: start,
            top_logprobs_num: 1,
        },
        text_bytes,
    )
}

/// Why an answer says too little of a continuation.
#[derive(Debug, PartialEq, Eq)]
enum Unread {
    /// The continuation is part of the token in which the context ends, which is all there is of it: it begins here.
    Earlier(u64),
    /// All that is told is certain, and not all of the prompt is told.
    Certain,
}

/// Sums the continuation, which begins at token `border`, once it has passed the gate that all likelihoods pass; the tokens from
/// `start` on are told.
fn read(body: &[u8], border: u64, start: u64) -> Result<Verdict<Scored>, Unread> {
    let meta = match serde_json::from_slice::<Generated>(body) {
        Ok(generated) => generated.meta_info,
        Err(error) => {
            let why = format!("the body is no answer of /generate: {error}");
            return Ok(Verdict::retry_on_new_connection(why));
        }
    };
    if meta.prompt_tokens <= border && border > 0 {
        // Never the same border again, so that this comes to an end.
        return Err(Unread::Earlier(meta.prompt_tokens.min(border).saturating_sub(1)));
    }
    let entries = meta.input_token_logprobs.unwrap_or_default();
    let expected = meta.prompt_tokens - start;
    if entries.is_empty() {
        return Ok(Verdict::Unsupported {
            detail: "the server gives no log-probabilities of the prompt: the response has none".to_owned(),
        });
    }
    if entries.len() as u64 != expected {
        return Ok(implausible(&format!(
            "{} for {} of the prompt",
            entries.len(),
            counted(expected, "token")
        )));
    }
    let logprobs: Vec<Option<f64>> = entries.iter().map(|entry| entry.0).collect();
    if start > 0 && possible(&logprobs).is_ok() && are_all_certain(&logprobs) {
        return Err(Unread::Certain);
    }
    if let Err(what) = plausible(&logprobs) {
        return Ok(implausible(&what));
    }
    let first = (border - start) as usize;
    let Some(covered) = logprobs[first..].iter().copied().collect::<Option<Vec<f64>>>() else {
        return Ok(unknown_first());
    };
    let top = meta.input_top_logprobs.unwrap_or_default().into_iter();
    let best: Vec<Option<f64>> = top.map(|best| best.and_then(|best| best.first()?.0)).collect();
    if best.iter().all(Option::is_none) {
        return Ok(Verdict::Unsupported {
            detail: format!("the server gives no log-probabilities of the prompt: {NO_BEST}"),
        });
    }
    let best = best.get(first..).filter(|best| best.len() == covered.len());
    let Some(best) = best.and_then(|best| best.iter().copied().collect::<Option<Vec<f64>>>()) else {
        return Ok(unknown_best());
    };
    let is_greedy = covered.iter().zip(&best).all(|(logprob, best)| logprob >= best);
    Ok(Verdict::Done(Scored {
        choice: ChoiceScore {
            log_probability: covered.iter().sum(),
            tokens: covered.len() as u32,
            is_greedy,
        },
        prompt_tokens: meta.prompt_tokens,
        completion_tokens: 0,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(prompt_tokens: u64, entries: &Value, top: &Value) -> Vec<u8> {
        let meta = json!({
            "prompt_tokens": prompt_tokens, "input_token_logprobs": entries, "input_top_logprobs": top,
        });
        json!({ "text": "", "meta_info": meta }).to_string().into_bytes()
    }

    fn label(body: &[u8], border: u64) -> &'static str {
        match read(body, border, border.saturating_sub(1)) {
            Ok(verdict) => verdict.label(),
            Err(Unread::Certain) => "certain",
            Err(Unread::Earlier(_)) => "earlier",
        }
    }

    #[test]
    fn exactly_the_continuation_is_summed() {
        // Five tokens, of which the context is three: the answer begins at the last of these.
        let entries = json!([[null, 30, null], [-1.5, 31, null], [-0.25, 32, " x"]]);
        let top = json!([null, [[-1.5, 31, null]], [[-0.125, 40, null]]]);
        let Ok(Verdict::Done(scored)) = read(&answer(5, &entries, &top), 3, 2) else {
            panic!()
        };
        assert_eq!(scored.choice.log_probability, -1.75);
        assert_eq!((scored.choice.tokens, scored.choice.is_greedy), (2, false));
        assert_eq!(scored.prompt_tokens, 5);
        let alone = json!([null, [[-1.5, 31, null]], [[-0.25, 32, null]]]);
        let Ok(Verdict::Done(scored)) = read(&answer(5, &entries, &alone), 3, 2) else {
            panic!()
        };
        assert!(scored.choice.is_greedy);
    }

    #[test]
    fn whether_an_answer_is_greedy_is_known_or_there_is_no_score() {
        let entries = json!([[null, 30, null], [-1.5, 31, null], [-0.25, 32, " x"]]);
        for (top, label_expected) in [
            (Value::Null, "unsupported"),
            (json!([]), "unsupported"),
            (json!([null, null, null]), "unsupported"),
            (json!([null, [], []]), "unsupported"),
            (json!([null, [[-1.5, 31, null]]]), "retry"),
            (json!([null, [[-1.5, 31, null]], null]), "retry"),
            (json!([null, [[-1.5, 31, null]], [[null, 32, null]]]), "retry"),
            (json!([[[-1.5, 31, null]], [[-0.25, 32, null]]]), "retry"),
        ] {
            assert_eq!(label(&answer(5, &entries, &top), 3), label_expected, "{top}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_right_are_no_scores() {
        let top = json!([]);
        for (entries, label_expected) in [
            (json!([[null, 1, null], [0.0, 2, null], [0.0, 3, null]]), "certain"),
            (json!([[null, 1, null], [-1e308, 2, null], [-1e308, 3, null]]), "retry"),
            (json!([[null, 1, null], [-1.0, 2, null]]), "retry"),
            (json!([[null, 1, null], [null, 2, null], [-1.0, 3, null]]), "retry"),
            (json!([[null, 1, null], [0.5, 2, null], [-1.0, 3, null]]), "retry"),
            (json!([]), "unsupported"),
            (Value::Null, "unsupported"),
        ] {
            assert_eq!(label(&answer(5, &entries, &top), 3), label_expected, "{entries}");
        }
        assert_eq!(label(b"{\"text\":", 3), "retry");
    }

    #[test]
    fn a_continuation_within_the_contexts_last_token_begins_with_that() {
        let body = answer(3, &json!([[null, 1, null]]), &json!([]));
        assert_eq!(read(&body, 3, 2), Err(Unread::Earlier(2)));
        assert_eq!(read(&body, 9, 8), Err(Unread::Earlier(2)));
    }

    #[test]
    fn without_a_context_the_first_token_has_no_likelihood() {
        let entries = json!([[null, 1, null], [-1.0, 2, null]]);
        assert_eq!(label(&answer(2, &entries, &json!([])), 0), "rejected");
    }
}
