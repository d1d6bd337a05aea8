//! Engines: started as processes, or attached where they already run; ready when they answered a real request.

mod attach;
mod process;

use std::path::PathBuf;
use std::time::Duration;

use tidemill_config::Loader;
use tidemill_domain::{EngineKind, EvaluationEvent, Manifest, Penalties, Replica, Source};
use tidemill_inference::{Described, ProbeError, Probed, normalise_url, penalty_refusal, probe};
use tidemill_service::Context;
use tidemill_service::backoff::Backoff;
use tidemill_telemetry::Metric;
use tokio::time::{Instant, sleep};

use self::attach::{Away, shares};
use self::process::Process;

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// The program cannot be run.
    #[error("start engine {}: {source}", .program.display())]
    Start { program: PathBuf, source: std::io::Error },
    /// It ended before it answered.
    #[error("the engine ended before it answered a request: {} ({status})", if .last_words.is_empty() { "it said nothing" } else { .last_words })]
    Ended {
        status: String,
        code: Option<i32>,
        last_words: String,
    },
    /// It did not answer in time.
    #[error(
        "no answer from the engine within {waited:?}: {source}; see whether it runs, or wait longer by [loader] endpoint_patience (for a server) or engine_patience (for an engine that the loader starts), and evaluate again"
    )]
    Silent { waited: Duration, source: ProbeError },
    /// It is there, and waiting will not make it the right one.
    #[error(transparent)]
    Wrong(ProbeError),
    /// None of several endpoints can be used.
    #[error("no endpoint can be used: {}", .0.join("; "))]
    Endpoints(Vec<String>),
    /// The checkpoint is not where it was.
    #[error("{0}")]
    Checkpoint(String),
}

impl EngineError {
    /// Starting again may help. An engine that refuses its checkpoint does so at every start.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Ended { code, .. } => *code != Some(REFUSED),
            Self::Silent { .. } | Self::Start { .. } | Self::Wrong(_) | Self::Endpoints(_) | Self::Checkpoint(_) => {
                false
            }
        }
    }
}

impl EngineError {
    /// Nobody answered: it may be there later.
    const fn is_silence(&self) -> bool {
        matches!(self, Self::Silent { .. })
    }
}

/// The exit code with which an engine says that it cannot serve its checkpoint.
const REFUSED: i32 = 2;

/// The engines of one server group.
pub(crate) struct Engines {
    source: Source,
    model: String,
    /// Replicas that answered a real request.
    present: Vec<Present>,
    /// Attached replicas that did not answer yet.
    away: Away,
    /// Which engine they are, where the configuration says.
    kind: Option<EngineKind>,
    /// Most requests at once over all replicas, where the evaluation says.
    limit: Option<u32>,
    /// Most requests at once of one replica, where it does not.
    each: u32,
    /// What the manifests want that are served.
    needs: Vec<Needs>,
    process: Option<Process>,
}

struct Present {
    url: String,
    /// What the engine says of its model.
    described: Described,
    kind: EngineKind,
    /// Why it cannot score by likelihood, if it cannot.
    scoring_refusal: Option<String>,
}

/// An engine that answered a real request.
#[derive(Debug)]
pub(crate) struct Ready {
    probed: Probed,
    scoring_refusal: Option<String>,
}

impl Present {
    fn new(url: &str, ready: Ready) -> Self {
        Self {
            url: normalise_url(url),
            described: ready.probed.described,
            kind: ready.probed.capabilities.kind,
            scoring_refusal: ready.scoring_refusal,
        }
    }
}

/// What a manifest wants of every engine, each with the benchmark that does.
#[derive(Debug, Default, PartialEq)]
struct Needs {
    scoring: Option<String>,
    penalties: Vec<(String, Penalties)>,
    /// The largest cap.
    longest_answer: Option<(String, u32)>,
}

impl Needs {
    fn of(manifest: &Manifest) -> Self {
        let (scoring, generating): (Vec<_>, Vec<_>) = manifest
            .benchmarks
            .iter()
            .partition(|benchmark| benchmark.is_likelihood());
        let longest = generating.iter().max_by_key(|benchmark| benchmark.settings.max_tokens);
        let penalised = manifest
            .benchmarks
            .iter()
            .filter(|benchmark| !benchmark.penalties.are_neutral());
        Self {
            scoring: scoring.first().map(|benchmark| benchmark.name.to_string()),
            penalties: penalised
                .map(|benchmark| (benchmark.name.to_string(), benchmark.penalties))
                .collect(),
            longest_answer: longest.map(|benchmark| (benchmark.name.to_string(), benchmark.settings.max_tokens)),
        }
    }

    /// Why an engine does not do, and what to do about it.
    fn refusal(&self, engine: &Present) -> Option<String> {
        let url = &engine.url;
        if let (Some(name), Some(reason)) = (&self.scoring, &engine.scoring_refusal) {
            return Some(format!(
                "{reason}: serve with an engine that gives log-probabilities of prompts (vLLM, SGLang, or Tidemill's own), or \
                 leave out benchmark {name}"
            ));
        }
        let lacking = |(name, penalties)| Some((name, penalty_refusal(engine.kind, penalties)?));
        let penalties = self.penalties.iter().map(|(name, penalties)| (name, penalties));
        if let Some((name, reason)) = penalties.into_iter().find_map(lacking) {
            return Some(format!(
                "{url}: {reason}, and benchmark {name} wants it: serve with another engine, or leave the penalty out"
            ));
        }
        let ((name, cap), context) = (self.longest_answer.as_ref()?, engine.described.context_length?);
        (context < *cap).then(|| {
            format!(
                "the server at {url} has a context of {context} tokens, and benchmark {name} has max_tokens = {cap}: serve \
                 with a longer context, or lower max_tokens"
            )
        })
    }
}

/// What happens to engines while they serve.
pub(crate) enum Change {
    /// The process ended.
    Ended(String),
    /// A replica that was away answers now.
    Joined,
}

impl Engines {
    fn new(source: Source, model: &str, limit: Option<u32>, each: u32) -> Self {
        Self {
            source,
            model: model.to_owned(),
            present: Vec::new(),
            away: Away::default(),
            kind: None,
            limit,
            each,
            needs: Vec::new(),
            process: None,
        }
    }

    /// Waits until an engine that was started ends, or an attached one joins.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn changed(&mut self) -> Change {
        let Some(process) = &mut self.process else {
            self.joined().await;
            return Change::Joined;
        };
        let status = process
            .child
            .wait()
            .await
            .map_or_else(|error| error.to_string(), |status| status.to_string());
        Change::Ended(format!("{status}: {}", process.last_words()))
    }

    /// The replicas that get requests, each with its share of them.
    pub(crate) fn replicas(&self) -> Vec<Replica> {
        let limit = match (&self.process, self.limit) {
            // A started engine takes little more than it was started for.
            (Some(_), Some(limit)) => Some(limit.min(self.each)),
            (_, limit) => limit,
        };
        let shares = shares(limit, self.each, self.present.len());
        let replicas = self.present.iter().zip(shares).map(|(present, share)| Replica {
            url: present.url.clone(),
            model: self.model.clone(),
            max_in_flight: share,
            kind: present.kind,
            context_length: present.described.context_length,
            owned_by: present.described.owned_by.clone(),
        });
        replicas.filter(|replica| replica.max_in_flight > 0).collect()
    }

    /// The longest prompt plus answer that all replicas take, where they say.
    pub(crate) fn context_length(&self) -> Option<u32> {
        self.present
            .iter()
            .filter_map(|present| present.described.context_length)
            .min()
    }

    /// Serves another number of requests at once from now on. Returns whether it is another one.
    pub(crate) fn set_limit(&mut self, limit: Option<u32>) -> bool {
        std::mem::replace(&mut self.limit, limit) != limit
    }

    /// Whether an evaluation of this source is served by other engines than these.
    pub(crate) fn are_elsewhere(&self, source: &Source) -> bool {
        is_moved(&self.source, source)
    }

    /// Why a manifest cannot be run on these engines: they cannot score by likelihood, have no such penalty, or an
    /// answer alone may be longer than a context. What one that can be run needs is wanted of those that join later.
    pub(crate) fn refusal(&mut self, manifest: &Manifest) -> Option<String> {
        let needs = Needs::of(manifest);
        let refusal = self.present.iter().find_map(|present| needs.refusal(present));
        if refusal.is_none() && !self.needs.contains(&needs) {
            self.needs.push(needs);
        }
        refusal
    }

    /// Why one that joins cannot run what is served.
    fn late_refusal(&self, late: &Present) -> Option<String> {
        self.needs.iter().find_map(|needs| needs.refusal(late))
    }

    /// The engines run outside: their return is waited for, not brought about.
    pub(crate) const fn are_attached(&self) -> bool {
        self.process.is_none()
    }

    /// Stops what was started.
    pub(crate) async fn stop(self) {
        if let Some(process) = self.process {
            process.stop().await;
        }
    }

    fn join(&mut self, present: Present) {
        self.present.push(present);
    }
}

/// Whether engines of one source are of no use to the other. All copies of a checkpoint's files are the same.
pub(crate) fn is_moved(from: &Source, to: &Source) -> bool {
    match (from, to) {
        (Source::Checkpoint { .. }, Source::Checkpoint { .. }) => false,
        (from, to) => from != to,
    }
}

/// Starts or attaches the engines of an evaluation's checkpoint and waits for their first answer.
pub(crate) async fn start(context: &Context, event: &EvaluationEvent) -> Result<Engines, EngineError> {
    let begun = Instant::now();
    let config = &context.config.loader;
    let started = match &event.source {
        Source::Checkpoint { uri } => started(config, event, uri).await,
        Source::Endpoint { urls, model } => attach::attach(config, event.max_in_flight, urls, model).await,
    };
    let result = if started.is_ok() { "ready" } else { "failed" };
    tidemill_telemetry::count(Metric::EngineStarts, [("result", result)]);
    tidemill_telemetry::observe(
        Metric::StartupSeconds,
        begun.elapsed().as_secs_f64(),
        [("phase", "all")],
    );
    started
}

async fn started(config: &Loader, event: &EvaluationEvent, uri: &str) -> Result<Engines, EngineError> {
    let started = process::start(config, uri).await?;
    // A few more than it computes wait in it, so that it need not wait for the next.
    let computed = config.engine_max_num_seqs;
    let each = computed + (computed / 8).max(2);
    let mut engines = Engines::new(event.source.clone(), process::MODEL, event.max_in_flight, each);
    engines.join(Present::new(&started.url, started.ready));
    engines.process = Some(started.process);
    Ok(engines)
}

/// Between two looks at an engine that does not answer yet.
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Asks for a real answer until one comes, the patience ends, or the process dies.
async fn answer(
    url: &str,
    model: &str,
    patience: Duration,
    mut process: Option<&mut Process>,
    kind: Option<EngineKind>,
) -> Result<Ready, EngineError> {
    let begun = Instant::now();
    // A replica that comes late is to have work within a second.
    let mut backoff = Backoff::new(Duration::from_millis(30), LONGEST_PAUSE);
    loop {
        let source = match probe(url, model, kind).await {
            Ok(probed) => {
                return Ok(Ready {
                    scoring_refusal: probed.scoring_refusal().await,
                    probed,
                });
            }
            Err(error) if !error.is_passing() => return Err(EngineError::Wrong(error)),
            Err(error) => error,
        };
        if let Some(process) = process.as_deref_mut() {
            process.check().await?;
        }
        if begun.elapsed() >= patience {
            return Err(EngineError::Silent {
                waited: patience,
                source,
            });
        }
        sleep(backoff.next_pause()).await;
    }
}
