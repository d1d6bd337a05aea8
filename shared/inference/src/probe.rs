//! The look at an engine before it is trusted with work.

use std::time::Duration;

use tidemill_domain::{EngineKind, Message, Partial, Penalties, Prompt};

use crate::http::Endpoint;
use crate::text::with_replacements;
use crate::wire::{Model, ModelList};
use crate::{
    Answer, Capabilities, Client, ClientError, Connection, Engine, HttpOutcome, OpenAi, Options, Request, Scoring,
    Verdict,
};

/// How long a server may take to list its models.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may take for its first token: some compile their kernels for it.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// What a server says of its model, by which another server in its place is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Described {
    /// The longest prompt plus answer in tokens, where it says.
    pub context_length: Option<u32>,
    /// The model's owner, where it says: most servers name themselves.
    pub owned_by: Option<String>,
}

impl Described {
    /// What is not as it was, with both values. A longer context takes all that a shorter one took, and is none.
    pub(crate) fn difference(&self, now: &Model) -> Option<String> {
        let owned_by = |owner: Option<&str>| owner.map_or("nobody".to_owned(), |owner| format!("{owner:?}"));
        if self.owned_by.is_some() && self.owned_by != now.owned_by {
            let (now, before) = (owned_by(now.owned_by.as_deref()), owned_by(self.owned_by.as_deref()));
            return Some(format!(
                "its model is owned by {now}, and was owned by {before} when it joined"
            ));
        }
        let (before, now) = (self.context_length?, now.max_model_len?);
        let is_shorter = now < before;
        is_shorter.then(|| format!("its context is {now} tokens, and was {before} tokens when it joined"))
    }
}

/// An engine that passed.
#[derive(Debug, Clone)]
pub struct Probed {
    engine: OpenAi,
    /// What the server says of its model.
    pub described: Described,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// Why an engine cannot be used. Each message is one sentence that says what to look at.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No client could be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Nobody answers.
    #[error("no server answers at {url}: {why}")]
    Unreachable {
        /// The base address.
        url: String,
        /// What happened.
        why: String,
    },
    /// Something answers that it cannot serve now.
    #[error("the server at {url} is not ready: {why}")]
    Unready {
        /// The base address.
        url: String,
        /// What it answered.
        why: String,
    },
    /// A connection was made or may yet be, and no answer came in time.
    #[error("the server at {url} does not answer: {why}")]
    Silent {
        /// The base address.
        url: String,
        /// What happened.
        why: String,
    },
    /// The server wants another key.
    #[error(
        "the server at {url} refuses the API key (status {status}): TIDEMILL_ENGINE_API_KEY holds the one that is sent"
    )]
    Unauthorised {
        /// The base address.
        url: String,
        /// 401 or 403.
        status: u16,
    },
    /// Something answers that is no engine.
    #[error("the server at {url} does not speak the OpenAI API: {why}")]
    NotOpenAi {
        /// The base address.
        url: String,
        /// What it answered.
        why: String,
    },
    /// The model is not there.
    #[error("the server at {url} does not serve {asked:?}; it serves {}", quoted(listed))]
    WrongModel {
        /// The base address.
        url: String,
        /// The name that was asked for.
        asked: String,
        /// The names that the server lists.
        listed: Vec<String>,
    },
    /// It is not the server that joined.
    #[error("the server at {url} came back as another one: {difference}; start it as it was")]
    Another {
        /// The base address.
        url: String,
        /// What differs, with both values.
        difference: String,
    },
    /// The model is listed, and a real request failed.
    #[error("the server at {url} lists {model:?} but did not answer a request of one token: {why}")]
    NoAnswer {
        /// The base address.
        url: String,
        /// The model.
        model: String,
        /// What happened.
        why: String,
        /// It may be starting or overloaded, and answer later.
        passing: bool,
    },
    /// The server cannot score by likelihood.
    #[error("the server at {url} cannot score by likelihood: {why}")]
    NoPromptLogprobs {
        /// The base address.
        url: String,
        /// What it answered.
        why: String,
    },
}

fn quoted(names: &[String]) -> String {
    match names {
        [] => "no model".to_owned(),
        names => names
            .iter()
            .map(|name| format!("{name:?}"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

impl ProbeError {
    /// Waiting may help: the server may still be starting.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Unready { .. }
                | Self::Silent { .. }
                | Self::NoAnswer { passing: true, .. }
        )
    }
}

/// Looks whether the server at `url` serves `model`, by its list of models and by a real request of one token: a server
/// may list a model, and call itself healthy, long before it answers or although it cannot.
///
/// Which engine it is shows in the list's owner, else in what it has beside OpenAI's API; `kind` overrides both.
///
/// # Errors
/// [`ProbeError`] with the reason. Nothing is retried here; a caller that waits for a server to start calls again.
pub async fn probe(url: &str, model: &str, kind: Option<EngineKind>) -> Result<Probed, ProbeError> {
    let options = Options {
        request_timeout: FIRST_ANSWER_TIMEOUT,
        ..Options::from_environment()
    };
    probe_with(url, model, kind, &options).await
}

/// [`probe`] with other options than those of the environment.
///
/// # Errors
/// As [`probe`].
pub async fn probe_with(
    url: &str,
    model: &str,
    kind: Option<EngineKind>,
    options: &Options,
) -> Result<Probed, ProbeError> {
    let client = Client::new(url, options)?;
    let listed = serves(&client, model, LIST_TIMEOUT).await?;
    let kind = match kind.or_else(|| owner(&listed)) {
        Some(kind) => kind,
        None => shown(&client).await,
    };
    let mut engine = OpenAi::new(client.clone(), model, kind);
    let text = Prompt::Text("Hello".to_owned());
    if let Err(verdict) = one_token(&engine, &text).await {
        // A server may have the chat endpoint alone.
        let chat = Prompt::Chat(vec![Message {
            role: "user".to_owned(),
            content: "Hello".to_owned(),
        }]);
        let is_missing = matches!(verdict, Verdict::Fatal { .. });
        if !is_missing || one_token(&engine, &chat).await.is_err() {
            return Err(no_answer(&client, model, verdict));
        }
        let capabilities = Capabilities {
            prompt_logprobs: false,
            continues: false,
            ..engine.capabilities()
        };
        engine = engine.with_capabilities(capabilities);
    }
    Ok(Probed {
        described: Described {
            context_length: listed.max_model_len,
            owned_by: listed.owned_by,
        },
        capabilities: engine.capabilities(),
        engine,
    })
}

/// Whether anything answers at `url`, be it with an error.
pub async fn is_reachable(url: &str) -> bool {
    let Ok(client) = Client::new(url, &Options::from_environment()) else {
        return false;
    };
    let outcome = client.get(Endpoint::Models, Connection::New, LIST_TIMEOUT).await;
    matches!(outcome, HttpOutcome::Answered { .. })
}

impl Probed {
    /// Why benchmarks that score by likelihood cannot run on it. What is known of its kind is taken at its word; of any other
    /// server, one scoring tells.
    pub async fn scoring_refusal(&self) -> Option<String> {
        let is_known = self.capabilities.kind != EngineKind::OpenAi;
        if is_known && self.capabilities.prompt_logprobs {
            return None;
        }
        let error = self.check_scoring().await.err()?;
        Some(error.to_string())
    }

    /// Looks whether the engine can score by likelihood, by scoring once.
    ///
    /// # Errors
    /// [`ProbeError::NoPromptLogprobs`] with what it answered instead.
    pub async fn check_scoring(&self) -> Result<(), ProbeError> {
        let mut scoring = Scoring::new("The sky is");
        let attempt = self.engine.score(&mut scoring, " blue", Connection::Kept).await;
        match attempt.verdict {
            Verdict::Done(_) => Ok(()),
            other => Err(ProbeError::NoPromptLogprobs {
                url: self.engine.url().to_owned(),
                why: reason(other),
            }),
        }
    }
}

/// The entry of `model` in the server's list.
pub(crate) async fn serves(client: &Client, model: &str, timeout: Duration) -> Result<Model, ProbeError> {
    let url = client.url().to_owned();
    let body = match client.get(Endpoint::Models, Connection::New, timeout).await {
        HttpOutcome::Answered {
            status: 200..=299,
            body,
            ..
        } => body,
        HttpOutcome::Answered {
            status: status @ (401 | 403),
            ..
        } => return Err(ProbeError::Unauthorised { url, status }),
        HttpOutcome::Answered {
            status: status @ (429 | 500..),
            ..
        } => {
            let why = format!("GET /v1/models gave status {status}");
            return Err(ProbeError::Unready { url, why });
        }
        HttpOutcome::Answered { status, .. } => {
            let why = format!("GET /v1/models gave status {status}");
            return Err(ProbeError::NotOpenAi { url, why });
        }
        HttpOutcome::TimedOut(limit) => {
            let why = format!("GET /v1/models gave nothing within {limit:?}");
            return Err(ProbeError::Silent { url, why });
        }
        HttpOutcome::Cut(why) | HttpOutcome::Unreachable(why) | HttpOutcome::Lost(why) => {
            return Err(ProbeError::Unreachable { url, why });
        }
    };
    let Ok(list) = serde_json::from_slice::<ModelList>(&body) else {
        let start: String = with_replacements(&body).chars().take(60).collect();
        let why = format!("GET /v1/models gave no list of models but {start:?}");
        return Err(ProbeError::NotOpenAi { url, why });
    };
    let listed = list.data.iter().map(|model| model.id.clone()).collect();
    let found = list.data.into_iter().find(|listed| listed.id == model);
    found.ok_or(ProbeError::WrongModel {
        url,
        asked: model.to_owned(),
        listed,
    })
}

async fn one_token(engine: &OpenAi, prompt: &Prompt) -> Result<(), Verdict<Answer>> {
    let request = Request {
        prompt,
        max_tokens: 1,
        temperature: 0.0,
        top_p: 1.0,
        stop: &[],
        seed: None,
        penalties: Penalties::default(),
        stream: false,
        stall_timeout: Duration::from_secs(60),
    };
    match engine
        .complete(&request, Connection::Kept, &mut Partial::default())
        .await
        .verdict
    {
        Verdict::Done(_) => Ok(()),
        other => Err(other),
    }
}

/// Which engine it is, by the owner that it names.
fn owner(model: &Model) -> Option<EngineKind> {
    match model.owned_by.as_deref()? {
        "vllm" => Some(EngineKind::Vllm),
        "sglang" => Some(EngineKind::Sglang),
        "llamacpp" => Some(EngineKind::LlamaCpp),
        "tidemill" => Some(EngineKind::Embedded),
        _ => None,
    }
}

/// Which engine it is, by documents that only one has. A server of which none is known speaks OpenAI's API and no more.
async fn shown(client: &Client) -> EngineKind {
    for endpoint in [Endpoint::Metrics, Endpoint::Props, Endpoint::ModelInfo] {
        if let HttpOutcome::Answered {
            status: 200..=299,
            body,
            ..
        } = client.get(endpoint, Connection::Kept, LIST_TIMEOUT).await
            && let Some(kind) = shown_by(endpoint, &body)
        {
            return kind;
        }
    }
    EngineKind::OpenAi
}

fn shown_by(endpoint: Endpoint, body: &[u8]) -> Option<EngineKind> {
    let has = |name: &str| {
        serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|document| document.get(name).is_some())
    };
    match endpoint {
        Endpoint::Metrics => crate::metrics::engine(&String::from_utf8_lossy(body)),
        Endpoint::Props => has("default_generation_settings").then_some(EngineKind::LlamaCpp),
        Endpoint::ModelInfo => has("is_generation").then_some(EngineKind::Sglang),
        _ => None,
    }
}

fn no_answer(client: &Client, model: &str, verdict: Verdict<Answer>) -> ProbeError {
    ProbeError::NoAnswer {
        url: client.url().to_owned(),
        model: model.to_owned(),
        passing: matches!(
            verdict,
            Verdict::Retry { .. }
                | Verdict::Busy { .. }
                | Verdict::Stalled { .. }
                | Verdict::Endless { .. }
                | Verdict::Down { .. }
                | Verdict::Suspect(_)
        ),
        why: reason(verdict),
    }
}

fn reason<T>(verdict: Verdict<T>) -> String {
    match verdict {
        Verdict::Done(_) => "it answered".to_owned(),
        Verdict::Suspect(_) => "the answer was empty".to_owned(),
        Verdict::Retry { why, .. }
        | Verdict::Busy { why, .. }
        | Verdict::Stalled { why }
        | Verdict::Endless { why }
        | Verdict::Down { why, .. } => why,
        Verdict::Overflow { detail }
        | Verdict::Rejected { detail }
        | Verdict::Unsupported { detail }
        | Verdict::Fatal { detail } => detail,
    }
}
