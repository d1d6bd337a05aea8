//! The adapter for servers with the OpenAI API, and the part that all adapters share.
//!
//! Of a server of which nothing more is known: text streams but cannot be continued (it tells no token ids), likelihoods come
//! by `echo` with `logprobs` and pass the gate or are refused, and there are no metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidemill_domain::{EngineKind, Partial, Prompt};
use tokio::time::Instant;

use crate::assembly;
use crate::body::{self, NEUTRAL_FIELDS, STREAM_OPTIONS, Style, Words};
use crate::classify::settle;
use crate::complaint::Complaint;
use crate::continuation::{Plan, Rest, Traits, keeps_penalties, plan};
use crate::dialect::{self, Dialect, HasPenalties, TellsTokens};
use crate::http::{Endpoint, Exchange, Opened};
use crate::wire::{Detokenized, Reply};
use crate::{
    Answer, Attempt, Capabilities, Client, Connection, Described, Engine, HttpOutcome, Load, NeedsContextTokens,
    ProbeError, Request, Scored, Scoring, Verdict, Watch, classify, classify_score,
};
use crate::{llamacpp, sglang, streaming, windows};

/// How long a live engine may take to list its models.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a live engine may take to tell its load.
const LOAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an engine that has no metrics is not asked for them again.
const NO_METRICS_FOR: Duration = Duration::from_secs(60);

/// Tokens whose text shows whether the last of them ends with a whole character.
const SEAM_TOKENS: usize = 8;

/// An engine with the OpenAI API: the embedded one, vLLM, SGLang, llama.cpp or a remote one. Clones share connections and
/// what was learnt about the server.
#[derive(Debug, Clone)]
pub struct OpenAi {
    client: Client,
    model: Arc<str>,
    dialect: &'static Dialect,
    capabilities: Capabilities,
    /// What the server said of its model when it joined.
    described: Arc<Described>,
    learnt: Arc<Learnt>,
    /// Tokens that came with streamed answers.
    streamed: Arc<AtomicU64>,
}

pub(crate) static DIALECT: Dialect = Dialect {
    capabilities: Capabilities::ASSUMED,
    words: Words::Vllm,
    keep_stop: None,
    tells_tokens: TellsTokens::Nowhere,
    asks_for_seam: false,
    penalties: HasPenalties {
        of_answer: true,
        repetition: true,
    },
    continuing: Traits {
        repetition_counts_prompt: false,
        draws_by_position: false,
    },
};

/// Differences between servers that show only when they refuse something.
#[derive(Debug, Default)]
struct Learnt {
    refuses_neutral_fields: AtomicBool,
    refuses_stream_options: AtomicBool,
    refuses_zero_tokens: AtomicBool,
    no_metrics: NoMetrics,
    sglang: sglang::Learnt,
}

/// When an engine was last found to have no metrics. Another one may have taken its place, so it is asked again.
#[derive(Debug, Default)]
struct NoMetrics(Mutex<Option<Instant>>);

impl NoMetrics {
    /// There are none, as far as is known.
    fn is_known(&self, now: Instant) -> bool {
        let found = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.is_some_and(|found| now.duration_since(found) < NO_METRICS_FOR)
    }

    /// There were none. True the first time.
    fn found(&self, now: Instant) -> bool {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.replace(now).is_none()
    }
}

/// What a response that is not streamed may hold beside its text, in bytes: the ids of its prompt's tokens, for one.
const BESIDE_TEXT: usize = 4 << 20;

impl OpenAi {
    /// Makes the adapter for `model` on the server that `client` speaks to.
    #[must_use]
    pub fn new(client: Client, model: &str, kind: EngineKind) -> Self {
        let dialect = dialect::of(kind);
        Self {
            client,
            model: model.into(),
            dialect,
            capabilities: dialect.capabilities,
            described: Arc::default(),
            learnt: Arc::default(),
            streamed: Arc::default(),
        }
    }

    /// The same, of a server that can do something less than its kind.
    pub(crate) fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// The same, of a server that is alive only as long as it is what it said of itself when it joined.
    #[must_use]
    pub fn described(mut self, described: Described) -> Self {
        self.described = Arc::new(described);
        self
    }

    /// The server's base address.
    #[must_use]
    pub fn url(&self) -> &str {
        self.client.url()
    }

    /// What counts the tokens that come with streamed answers.
    pub(crate) fn counter(&self) -> &AtomicU64 {
        &self.streamed
    }

    /// The served model's name.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Which engine it is.
    pub(crate) const fn kind(&self) -> EngineKind {
        self.capabilities.kind
    }

    /// What only an SGLang says of itself.
    pub(crate) fn learnt_of_sglang(&self) -> &sglang::Learnt {
        &self.learnt.sglang
    }

    /// The longest prompt plus answer in tokens, as the server said when it joined.
    pub(crate) fn context_length(&self) -> Option<u32> {
        self.described.context_length
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// How many tokens the context of `scoring` is, by the usage of a request for it alone.
    pub(crate) async fn count_context(
        &self,
        scoring: &mut Scoring<'_>,
        connection: Connection,
    ) -> Result<u32, Attempt<Scored>> {
        let body = body::count(&self.model, scoring.context());
        let Exchange { outcome, requests } = self.client.post(Endpoint::Completions, body, connection).await;
        let mut count = None;
        let verdict = settle(&outcome, |body| {
            count = serde_json::from_slice::<Reply<'_>>(body)
                .ok()
                .and_then(|reply| reply.usage?.prompt_tokens);
            Verdict::retry("the server does not say how many tokens the context is")
        });
        match count {
            Some(count) => {
                scoring.context_tokens = Some(count);
                Ok(requests)
            }
            None => Err(Attempt { verdict, requests }),
        }
    }

    /// Asks for an echo by the body for so many generated tokens: none, or one where the server refuses none. The answer, and how
    /// many it was.
    pub(crate) async fn echo(&self, body: impl Fn(u32) -> Bytes, connection: Connection) -> (Exchange, u32) {
        let generated = u32::from(self.learnt.refuses_zero_tokens.load(Ordering::Relaxed));
        let exchange = self
            .client
            .post(Endpoint::Completions, body(generated), connection)
            .await;
        if generated > 0 || !refuses(&exchange.outcome, &["max_tokens"]) {
            return (exchange, generated);
        }
        let mut again = self.client.post(Endpoint::Completions, body(1), connection).await;
        again.requests += exchange.requests;
        if matches!(again.outcome, HttpOutcome::Answered { status: 200..=299, .. }) {
            self.learnt.refuses_zero_tokens.store(true, Ordering::Relaxed);
        }
        (again, 1)
    }

    /// As [`Engine::score`], by one prompt of context and choice.
    async fn score_at_once(&self, scoring: &mut Scoring<'_>, choice: &str, connection: Connection) -> Attempt<Scored> {
        if !self.capabilities.prompt_logprobs {
            return Attempt {
                verdict: Verdict::Unsupported {
                    detail: "the server gives no log-probabilities of the prompt".to_owned(),
                },
                requests: 0,
            };
        }
        if self.capabilities.kind == EngineKind::Sglang {
            return sglang::score(self, scoring, choice, connection).await;
        }
        let prompt = scoring.prompt(choice);
        let body = |generated| body::echo(&self.model, &prompt, generated);
        let (exchange, generated) = self.echo(body, connection).await;
        let Exchange { outcome, mut requests } = exchange;
        if classify_score(&outcome, scoring, choice, generated) == Err(NeedsContextTokens) {
            match self.count_context(scoring, connection).await {
                Ok(counting) => requests += counting,
                Err(failed) => {
                    return Attempt {
                        requests: requests + failed.requests,
                        ..failed
                    };
                }
            }
        }
        let verdict = classify_score(&outcome, scoring, choice, generated)
            .unwrap_or_else(|error| Verdict::retry(error.to_string()));
        Attempt { verdict, requests }
    }

    fn style(&self, request: &Request<'_>, endpoint: Endpoint, stream: bool) -> Style {
        let tells_tokens = match self.dialect.tells_tokens {
            TellsTokens::Nowhere => false,
            TellsTokens::Completions => endpoint == Endpoint::Completions,
            TellsTokens::Everywhere => true,
        };
        Style {
            words: self.dialect.words,
            is_plain: self.learnt.refuses_neutral_fields.load(Ordering::Relaxed),
            stream,
            counts_stream: !self.learnt.refuses_stream_options.load(Ordering::Relaxed),
            keep_stop: self.dialect.keep_stop.filter(|_| !request.stop.is_empty()),
            return_token_ids: stream && tells_tokens,
        }
    }

    /// A request in this style was taken: what it leaves out is left out from now on. A refusal alone proves nothing, because
    /// some quote the whole request.
    fn learn(&self, style: Style) {
        let left_out = [
            (style.is_plain, &self.learnt.refuses_neutral_fields),
            (!style.counts_stream, &self.learnt.refuses_stream_options),
        ];
        for (_, learnt) in left_out.into_iter().filter(|(is_left_out, _)| *is_left_out) {
            if !learnt.swap(true, Ordering::Relaxed) {
                tracing::info!(engine = self.client.url(), "engine takes fewer fields than others");
            }
        }
    }

    /// Whether the tokens end with a whole character: an engine that decodes from within one makes something else of it. Where
    /// the server has no answer, what it streamed is trusted.
    async fn ends_whole(&self, tokens: &[u32], connection: Connection) -> bool {
        // A character is a few tokens at most.
        let last = &tokens[tokens.len().saturating_sub(SEAM_TOKENS)..];
        let body = body::detokenize(&self.model, last, false);
        let Exchange { outcome, .. } = self.client.post(Endpoint::Detokenize, body, connection).await;
        let HttpOutcome::Answered {
            status: 200..=299,
            body,
            ..
        } = outcome
        else {
            return true;
        };
        let text = serde_json::from_slice::<Detokenized<'_>>(&body);
        text.map_or(true, |detokenized| {
            !detokenized.text.ends_with(char::REPLACEMENT_CHARACTER)
        })
    }

    async fn whole(&self, request: &Request<'_>, endpoint: Endpoint, connection: Connection) -> Attempt<Answer> {
        let mut style = self.style(request, endpoint, false);
        let mut requests = 0;
        loop {
            let body = body::completion(&self.model, request, None, style);
            let most = assembly::most_bytes(request).saturating_add(BESIDE_TEXT);
            let exchange = self.client.post_for(endpoint, body, connection, most).await;
            requests += exchange.requests;
            if give_way(&exchange.outcome, &mut style) {
                continue;
            }
            if matches!(exchange.outcome, HttpOutcome::Answered { status: 200..=299, .. }) {
                self.learn(style);
            }
            let verdict = classify(&exchange.outcome, request);
            return Attempt { verdict, requests };
        }
    }

    async fn streamed(
        &self,
        request: &Request<'_>,
        (endpoint, rest): (Endpoint, Option<&Rest>),
        connection: Connection,
        partial: &mut Partial,
        watch: Watch<'_>,
    ) -> Attempt<Answer> {
        let mut style = self.style(request, endpoint, true);
        let mut requests = 0;
        loop {
            let body: Bytes = body::completion(&self.model, request, rest, style);
            let opened: Opened = self.client.open(endpoint, body, connection).await;
            requests += opened.requests;
            let verdict = match opened.begun {
                Ok(stream) => {
                    self.learn(style);
                    let keeps_stop = style.keep_stop.is_some();
                    let assembly = assembly::Assembly::new(request, partial, keeps_stop);
                    streaming::read(stream, assembly, &self.streamed, watch).await
                }
                Err(outcome) if give_way(&outcome, &mut style) => continue,
                Err(outcome) => classify(&outcome, request),
            };
            return Attempt { verdict, requests };
        }
    }
}

impl Engine for OpenAi {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn may_continue(&self, request: &Request<'_>) -> bool {
        let is_native = self.capabilities.kind == EngineKind::LlamaCpp && matches!(request.prompt, Prompt::Text(_));
        let tells_tokens = is_native || self.style(request, endpoint(request), request.stream).return_token_ids;
        self.capabilities.continues
            && tells_tokens
            && keeps_penalties(request, self.dialect.continuing.repetition_counts_prompt)
    }

    fn goes_on(&self, request: &Request<'_>, partial: &Partial) -> bool {
        self.capabilities.continues && !matches!(plan(request, partial, self.dialect.continuing), Plan::Anew)
    }

    async fn complete(&self, request: &Request<'_>, connection: Connection, partial: &mut Partial) -> Attempt<Answer> {
        self.complete_watched(request, connection, partial, &mut |_| {}).await
    }

    async fn complete_watched(
        &self,
        request: &Request<'_>,
        connection: Connection,
        partial: &mut Partial,
        watch: Watch<'_>,
    ) -> Attempt<Answer> {
        if let Some(detail) = dialect::penalty_refusal(self.capabilities.kind, &request.penalties) {
            return Attempt {
                verdict: Verdict::Unsupported { detail },
                requests: 0,
            };
        }
        let mut requests = 0;
        if self.capabilities.continues {
            match plan(request, partial, self.dialect.continuing) {
                Plan::Anew => {}
                Plan::Full => {
                    let verdict = assembly::full(request, partial);
                    return Attempt { verdict, requests };
                }
                Plan::Continue(_)
                    if self.dialect.asks_for_seam && !self.ends_whole(&partial.tokens, connection).await => {}
                Plan::Continue(rest) => {
                    let attempt = if self.capabilities.kind == EngineKind::LlamaCpp {
                        llamacpp::stream(self, request, &rest, connection, partial, &mut *watch).await
                    } else {
                        let target = (Endpoint::Completions, Some(&rest));
                        self.streamed(request, target, connection, partial, &mut *watch).await
                    };
                    requests += attempt.requests;
                    if !is_refusal(&attempt.verdict) {
                        return attempt;
                    }
                    // It may take the whole all the same.
                }
            }
        }
        *partial = Partial::default();
        let endpoint = endpoint(request);
        if let (true, Prompt::Text(text), EngineKind::LlamaCpp) =
            (request.stream, request.prompt, self.capabilities.kind)
            && let Some(attempt) = llamacpp::begin(self, (request, text), connection, partial, &mut *watch).await
            && !is_refusal(&attempt.verdict)
        {
            return attempt;
        }
        let attempt = if request.stream {
            self.streamed(request, (endpoint, None), connection, partial, watch)
                .await
        } else {
            self.whole(request, endpoint, connection).await
        };
        let attempt = Attempt {
            requests: requests + attempt.requests,
            ..attempt
        };
        match self.capabilities.kind {
            EngineKind::Sglang => sglang::to_whole_prompt(self, attempt, connection).await,
            _ => attempt,
        }
    }

    async fn score(&self, scoring: &mut Scoring<'_>, choice: &str, connection: Connection) -> Attempt<Scored> {
        let attempt = self.score_at_once(scoring, choice, connection).await;
        match attempt.verdict {
            Verdict::Overflow { .. } if self.capabilities.token_ids => {
                windows::score(self, scoring, choice, connection, attempt).await
            }
            _ => attempt,
        }
    }

    async fn alive(&self) -> Result<(), ProbeError> {
        let listed = crate::probe::serves(&self.client, &self.model, ALIVE_TIMEOUT).await?;
        match self.described.difference(&listed) {
            None => Ok(()),
            Some(difference) => Err(ProbeError::Another {
                url: self.client.url().to_owned(),
                difference,
            }),
        }
    }

    fn progress(&self) -> Option<u64> {
        Some(self.streamed.load(Ordering::Relaxed))
    }

    async fn load(&self) -> Result<Load, ProbeError> {
        if !self.capabilities.metrics || self.learnt.no_metrics.is_known(Instant::now()) {
            return Ok(Load::default());
        }
        let outcome = self.client.get(Endpoint::Metrics, Connection::Kept, LOAD_TIMEOUT).await;
        match outcome {
            HttpOutcome::Answered {
                status: 200..=299,
                body,
                ..
            } => Ok(crate::metrics::read(&String::from_utf8_lossy(&body))),
            // SGLang and llama.cpp have metrics only when started to.
            HttpOutcome::Answered {
                status: 404 | 405 | 501,
                ..
            } => {
                if self.learnt.no_metrics.found(Instant::now()) {
                    tracing::info!(engine = self.client.url(), "engine was started without metrics");
                }
                Ok(Load::default())
            }
            other => Err(ProbeError::Unreachable {
                url: self.client.url().to_owned(),
                why: format!("GET /metrics: {}", other.describe()),
            }),
        }
    }
}

/// Where the whole answer to a request is asked for.
const fn endpoint(request: &Request<'_>) -> Endpoint {
    match request.prompt {
        Prompt::Text(_) => Endpoint::Completions,
        Prompt::Chat(_) => Endpoint::Chat,
    }
}

/// The server would refuse this request again.
const fn is_refusal<T>(verdict: &Verdict<T>) -> bool {
    matches!(
        verdict,
        Verdict::Rejected { .. } | Verdict::Overflow { .. } | Verdict::Fatal { .. } | Verdict::Unsupported { .. }
    )
}

/// Leaves out what a refusal names; true when that makes it worth asking again.
fn give_way(outcome: &HttpOutcome, style: &mut Style) -> bool {
    if style.stream && style.counts_stream && refuses(outcome, &[STREAM_OPTIONS]) {
        style.counts_stream = false;
    } else if !style.is_plain && refuses(outcome, &NEUTRAL_FIELDS) {
        style.is_plain = true;
    } else {
        return false;
    }
    true
}

/// The server refused the request because of one of these parameters, and not because the prompt is too long.
fn refuses(outcome: &HttpOutcome, parameters: &[&str]) -> bool {
    let HttpOutcome::Answered {
        status: 400 | 422,
        body,
        ..
    } = outcome
    else {
        return false;
    };
    let complaint = Complaint::read(body);
    !complaint.is_overflow() && parameters.iter().any(|parameter| complaint.is_about(parameter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_without_metrics_is_asked_for_them_again_after_a_while() {
        let now = Instant::now();
        let metrics = NoMetrics::default();
        assert!(!metrics.is_known(now));
        assert!(metrics.found(now));
        assert!(metrics.is_known(now + NO_METRICS_FOR / 2));
        assert!(!metrics.is_known(now + NO_METRICS_FOR));
        assert!(!metrics.found(now + NO_METRICS_FOR), "it is said once");
        assert!(metrics.is_known(now + NO_METRICS_FOR));
    }
}
