//! The adapter for servers with the OpenAI API.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidemill_domain::{Partial, Prompt};

use crate::body::{self, NEUTRAL_FIELDS};
use crate::classify::settle;
use crate::complaint::Complaint;
use crate::http::{Endpoint, Exchange};
use crate::wire::Reply;
use crate::{
    Answer, Attempt, Capabilities, Client, Connection, Engine, HttpOutcome, Load, NeedsContextTokens, ProbeError,
    Request, Scored, Scoring, Verdict, classify, classify_score,
};

/// How long a live engine may take to list its models.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// An engine with the OpenAI API: the embedded one, vLLM, SGLang, llama.cpp or a remote one. Clones share connections and
/// what was learnt about the server.
#[derive(Debug, Clone)]
pub struct OpenAi {
    client: Client,
    model: Arc<str>,
    capabilities: Capabilities,
    learnt: Arc<Learnt>,
}

/// Differences between servers that show only when they refuse something.
#[derive(Debug, Default)]
struct Learnt {
    refuses_neutral_fields: AtomicBool,
    refuses_zero_tokens: AtomicBool,
}

impl OpenAi {
    /// Makes the adapter for `model` on the server that `client` speaks to.
    #[must_use]
    pub fn new(client: Client, model: &str, capabilities: Capabilities) -> Self {
        Self {
            client,
            model: model.into(),
            capabilities,
            learnt: Arc::default(),
        }
    }

    /// The server's base address.
    #[must_use]
    pub fn url(&self) -> &str {
        self.client.url()
    }

    /// The served model's name.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// How many tokens the context of `scoring` is, by the usage of a request for it alone.
    async fn count_context(&self, scoring: &mut Scoring<'_>, connection: Connection) -> Result<u32, Attempt<Scored>> {
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
}

impl Engine for OpenAi {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn complete(&self, request: &Request<'_>, connection: Connection, _: &mut Partial) -> Attempt<Answer> {
        let endpoint = match request.prompt {
            Prompt::Text(_) => Endpoint::Completions,
            Prompt::Chat(_) => Endpoint::Chat,
        };
        let with_neutral_fields = !self.learnt.refuses_neutral_fields.load(Ordering::Relaxed);
        let body = body::completion(&self.model, request, with_neutral_fields);
        let mut exchange = self.client.post(endpoint, body, connection).await;
        if with_neutral_fields && refuses(&exchange.outcome, &NEUTRAL_FIELDS) {
            self.learnt.refuses_neutral_fields.store(true, Ordering::Relaxed);
            tracing::info!(
                engine = self.client.url(),
                "engine takes OpenAI's sampling fields alone"
            );
            let body = body::completion(&self.model, request, false);
            let again = self.client.post(endpoint, body, connection).await;
            exchange = Exchange {
                outcome: again.outcome,
                requests: exchange.requests + again.requests,
            };
        }
        Attempt {
            verdict: classify(&exchange.outcome, request),
            requests: exchange.requests,
        }
    }

    async fn score(&self, scoring: &mut Scoring<'_>, choice: &str, connection: Connection) -> Attempt<Scored> {
        if !self.capabilities.prompt_logprobs {
            return Attempt {
                verdict: Verdict::Unsupported {
                    detail: "the server gives no log-probabilities of the prompt".to_owned(),
                },
                requests: 0,
            };
        }
        let prompt = scoring.prompt(choice);
        let mut generated = u32::from(self.learnt.refuses_zero_tokens.load(Ordering::Relaxed));
        let body = body::echo(&self.model, &prompt, generated);
        let Exchange {
            mut outcome,
            mut requests,
        } = self.client.post(Endpoint::Completions, body, connection).await;
        if generated == 0 && refuses(&outcome, &["max_tokens"]) {
            generated = 1;
            let body = body::echo(&self.model, &prompt, generated);
            let again = self.client.post(Endpoint::Completions, body, connection).await;
            requests += again.requests;
            outcome = again.outcome;
            if matches!(outcome, HttpOutcome::Answered { status: 200..=299, .. }) {
                self.learnt.refuses_zero_tokens.store(true, Ordering::Relaxed);
            }
        }
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

    async fn alive(&self) -> Result<(), ProbeError> {
        crate::probe::serves(&self.client, &self.model, ALIVE_TIMEOUT)
            .await
            .map(drop)
    }

    async fn load(&self) -> Result<Load, ProbeError> {
        Ok(Load::default())
    }
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
