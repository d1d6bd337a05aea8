//! What the generator asks of an engine, whichever server it is.

use std::time::Duration;

use tidemill_domain::{EngineKind, Partial, Penalties, Prompt};

use crate::{Answer, ProbeError, Scored, Verdict};

/// An engine that answers requests for one model.
///
/// The generator is written against this trait, so its rules can be tested with scripted verdicts.
pub trait Engine: Send + Sync {
    /// What the engine can do, as far as is known.
    fn capabilities(&self) -> Capabilities;

    /// Asks for one completion, or for the rest of one.
    ///
    /// A request that streams appends to `partial` what arrives, as it arrives. One that `partial` holds the beginning of is
    /// continued from there, where [`Capabilities::continues`] and the [`Partial`] has its tokens; the answer is then the
    /// whole one, and the cap, the stop texts and the counts are those of the whole.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; servers that watch for this stop generating. `partial` holds what had
    /// arrived.
    fn complete(
        &self,
        request: &Request<'_>,
        connection: Connection,
        partial: &mut Partial,
    ) -> impl Future<Output = Attempt<Answer>> + Send;

    /// Whether an answer to `request` that is interrupted can be continued here, as far as the request tells.
    fn may_continue(&self, _request: &Request<'_>) -> bool {
        self.capabilities().continues
    }

    /// Whether [`Engine::complete`] goes on from `partial` instead of asking for the whole.
    fn goes_on(&self, request: &Request<'_>, partial: &Partial) -> bool {
        self.may_continue(request) && partial.has_tokens()
    }

    /// As [`Engine::complete`], and hands `partial` to `watch` each time that more of the answer has arrived, so that it can be
    /// saved on the way. An engine that does not stream need not.
    ///
    /// # Cancel safety
    /// As [`Engine::complete`].
    fn complete_watched(
        &self,
        request: &Request<'_>,
        connection: Connection,
        partial: &mut Partial,
        _watch: Watch<'_>,
    ) -> impl Future<Output = Attempt<Answer>> + Send {
        self.complete(request, connection, partial)
    }

    /// Asks how likely `choice` is after the context of `scoring`.
    ///
    /// # Cancel safety
    /// As [`Engine::complete`]; what `scoring` has learnt stays valid.
    fn score(
        &self,
        scoring: &mut Scoring<'_>,
        choice: &str,
        connection: Connection,
    ) -> impl Future<Output = Attempt<Scored>> + Send;

    /// Looks whether the engine answers at all, still serves its model, and is the one that joined; cheap, nothing is generated.
    fn alive(&self) -> impl Future<Output = Result<(), ProbeError>> + Send;

    /// Reads what the engine says of its load; all absent where it has no metrics.
    ///
    /// # Errors
    /// When a server that has metrics does not give them.
    fn load(&self) -> impl Future<Output = Result<Load, ProbeError>> + Send;

    /// Tokens, or pieces of text that stand for some, that have come with streamed answers so far, over all requests; `None`
    /// where they are not counted. What grows shows that the engine works, and how fast.
    fn progress(&self) -> Option<u64> {
        None
    }
}

/// Sees an answer grow.
pub type Watch<'a> = &'a mut (dyn FnMut(&Partial) + Send);

/// What an engine says of its load. What it does not say is absent, which is never the same as 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// Sequences that run.
    pub running: Option<u32>,
    /// Requests that wait.
    pub waiting: Option<u32>,
    /// Share of the key-value cache in use, 0 to 1.
    pub kv_use: Option<f64>,
    /// Sequences that were put back for want of room, since the engine started.
    pub preemptions: Option<u64>,
    /// Prompt tokens that were found in the prefix cache, since the engine started.
    pub prefix_hit_tokens: Option<u64>,
    /// Prompt tokens that were looked for there, since the engine started.
    pub prefix_query_tokens: Option<u64>,
}

/// What an engine can do. A caller that needs more than is stated is refused with the reason, never served half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Log-probabilities of the prompt's tokens (`echo` with `logprobs`): without them nothing is scored by likelihood.
    pub prompt_logprobs: bool,
    /// Prompts may be token ids.
    pub token_ids: bool,
    /// `/metrics` in Prometheus text.
    pub metrics: bool,
    /// A seed makes a sampled answer repeatable.
    pub seed: bool,
    /// The chat endpoint applies the model's template.
    pub chat: bool,
    /// It tells the token ids of what it generates and takes them back as a prompt, so an answer can be continued exactly.
    pub continues: bool,
    /// Which engine it is.
    pub kind: EngineKind,
}

impl Capabilities {
    /// What any server with the OpenAI API is taken to do until it shows otherwise.
    pub const ASSUMED: Self = Self {
        prompt_logprobs: true,
        token_ids: false,
        metrics: false,
        seed: true,
        chat: true,
        continues: false,
        kind: EngineKind::OpenAi,
    };
}

/// One request for a completion; the engine adds its model's name. Every setting is sent, so that no server's default takes part.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What is sent, and thereby which endpoint is used.
    pub prompt: &'a Prompt,
    /// The cap on the answer's length in tokens, at least 1.
    pub max_tokens: u32,
    /// 0 is greedy.
    pub temperature: f64,
    /// Nucleus sampling; 1 keeps every token.
    pub top_p: f64,
    /// Texts that end the answer.
    pub stop: &'a [String],
    /// Sent only when `temperature` is above 0: greedy decoding draws nothing. Servers differ in the range they take;
    /// 31 bits are understood by all.
    pub seed: Option<u64>,
    /// What makes repeated tokens less likely.
    pub penalties: Penalties,
    /// Have the tokens sent as they are generated: a long answer then shows that it progresses, and what there is of it is
    /// not lost.
    pub stream: bool,
    /// A streamed answer of which a token has arrived is given up when for so long no other one does.
    pub stall_timeout: Duration,
}

/// Which connection a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// One that is kept alive, where there is one.
    Kept,
    /// One of its own, for a retry after an answer that may have been damaged on the way.
    New,
}

/// How an attempt ended and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt<T> {
    /// How it ended.
    pub verdict: Verdict<T>,
    /// HTTP requests sent to the engine, at least 1.
    pub requests: u32,
}

/// The scoring of one item's choices: the context they share, and what was learnt about it on the way.
///
/// White space at the end of the context belongs to the continuation, because tokenizers join it to the word that
/// follows.
///
/// Source: EleutherAI/lm-evaluation-harness, `lm_eval/api/model.py`, `_encode_pair`.
#[derive(Debug, Clone)]
pub struct Scoring<'a> {
    context: &'a str,
    trailing: &'a str,
    pub(crate) context_tokens: Option<u64>,
    is_whole_text: bool,
}

impl<'a> Scoring<'a> {
    /// Prepares the scoring of continuations of `context`.
    #[must_use]
    pub fn new(context: &'a str) -> Self {
        let kept = context.trim_end();
        Self {
            context: kept,
            trailing: &context[kept.len()..],
            context_tokens: None,
            is_whole_text: false,
        }
    }

    /// Prepares the scoring of a whole text, before which stands no question but the start token `start` at most: one that is too
    /// long for the engine's context may be scored in windows.
    #[must_use]
    pub fn of_whole_text(start: &'a str) -> Self {
        Self {
            is_whole_text: true,
            ..Self::new(start)
        }
    }

    /// Nothing but a start token stands before what is scored.
    #[must_use]
    pub const fn is_whole_text(&self) -> bool {
        self.is_whole_text
    }

    /// The context without the white space at its end.
    #[must_use]
    pub const fn context(&self) -> &'a str {
        self.context
    }

    /// How many tokens the context alone is, once an engine was asked.
    #[must_use]
    pub const fn context_tokens(&self) -> Option<u64> {
        self.context_tokens
    }

    /// Context and continuation as one prompt.
    #[must_use]
    pub fn prompt(&self, choice: &str) -> String {
        [self.context, self.trailing, choice].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_spaces_of_the_context_belong_to_the_continuation() {
        let scoring = Scoring::new("Question: 2+2?\nAnswer: ");
        assert_eq!(scoring.context(), "Question: 2+2?\nAnswer:");
        assert_eq!(scoring.prompt("4"), "Question: 2+2?\nAnswer: 4");
    }
}
