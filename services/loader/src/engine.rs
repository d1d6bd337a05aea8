//! Engines: started as processes, or attached where they already run; ready when they answered a real request.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tidemill_domain::{EvaluationEvent, Replica, Source};
use tidemill_inference::{ProbeError, Probed, normalise_url, probe};
use tidemill_service::Context;
use tidemill_service::backoff::Backoff;
use tidemill_telemetry::Metric;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::checkpoint;

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// The program cannot be run.
    #[error("start engine {}: {source}", .program.display())]
    Start { program: PathBuf, source: std::io::Error },
    /// It ended before it answered.
    #[error("the engine ended before it answered a request ({status}): {}", if .last_words.is_empty() { "it said nothing" } else { .last_words })]
    Ended {
        status: String,
        code: Option<i32>,
        last_words: String,
    },
    /// It did not answer in time.
    #[error("no answer from the engine within {waited:?}: {source}")]
    Silent { waited: Duration, source: ProbeError },
    /// It is there, and waiting will not make it the right one.
    #[error(transparent)]
    Wrong(ProbeError),
    /// The checkpoint is not where it was.
    #[error("{0}")]
    Checkpoint(String),
}

impl EngineError {
    /// Starting again may help. An engine that refuses its checkpoint does so at every start.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Ended { code, .. } => *code != Some(REFUSED),
            Self::Silent { .. } | Self::Start { .. } | Self::Wrong(_) | Self::Checkpoint(_) => false,
        }
    }
}

/// The exit code with which an engine says that it cannot serve its checkpoint.
const REFUSED: i32 = 2;

/// The engines of one server group.
pub(crate) struct Engines {
    /// Replicas that answered a real request.
    pub(crate) replicas: Vec<Replica>,
    /// The longest prompt plus answer, where the engine says.
    pub(crate) context_length: Option<u32>,
    process: Option<Process>,
}

impl Engines {
    /// Waits until an engine that was started ends; for ever where all are attached.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn ended(&mut self) -> String {
        match &mut self.process {
            Some(process) => {
                let status = process
                    .child
                    .wait()
                    .await
                    .map_or_else(|error| error.to_string(), |status| status.to_string());
                format!("{status}: {}", process.last_words())
            }
            None => std::future::pending().await,
        }
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
}

/// Starts or attaches the engines of an evaluation's checkpoint and waits for their first answer.
pub(crate) async fn start(context: &Context, event: &EvaluationEvent) -> Result<Engines, EngineError> {
    let begun = Instant::now();
    let started = match &event.source {
        Source::Checkpoint { uri } => start_process(context, uri).await,
        Source::Endpoint { urls, model } => attach(context, event, urls, model).await,
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

async fn attach(
    context: &Context,
    event: &EvaluationEvent,
    urls: &[String],
    model: &str,
) -> Result<Engines, EngineError> {
    let limit = event
        .max_in_flight
        .unwrap_or_else(|| context.config.loader.max_in_flight * urls.len() as u32)
        .max(1);
    let share = limit.div_ceil(urls.len().max(1) as u32);
    let mut engines = Engines {
        replicas: Vec::new(),
        context_length: None,
        process: None,
    };
    let mut failure = None;
    for url in urls {
        match answer(url, model, context.config.loader.endpoint_patience, None).await {
            Ok(probed) => engines.join(url, model, share, &probed),
            Err(error) => {
                tracing::warn!(url, %error, "replica left out");
                failure = Some(error);
            }
        }
    }
    match failure {
        Some(error) if engines.replicas.is_empty() => Err(error),
        _ => Ok(engines),
    }
}

impl Engines {
    fn join(&mut self, url: &str, model: &str, max_in_flight: u32, probed: &Probed) {
        let url = normalise_url(url);
        self.replicas.push(Replica {
            url,
            model: model.to_owned(),
            max_in_flight,
        });
        self.context_length = match (self.context_length, probed.context_length) {
            (Some(known), Some(new)) => Some(known.min(new)),
            (known, new) => known.or(new),
        };
    }
}

/// Asks for a real answer until one comes, the patience ends, or the process dies.
async fn answer(
    url: &str,
    model: &str,
    patience: Duration,
    mut process: Option<&mut Process>,
) -> Result<Probed, EngineError> {
    let begun = Instant::now();
    let mut backoff = Backoff::new(Duration::from_millis(30), Duration::from_secs(2));
    loop {
        let source = match probe(url, model).await {
            Ok(probed) => return Ok(probed),
            Err(error) if !error.is_passing() => return Err(EngineError::Wrong(error)),
            Err(error) => error,
        };
        if let Some(process) = process.as_deref_mut()
            && let Ok(Some(status)) = process.child.try_wait()
        {
            process.finish_reading().await;
            return Err(EngineError::Ended {
                status: status.to_string(),
                code: status.code(),
                last_words: process.last_words(),
            });
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

async fn start_process(context: &Context, uri: &str) -> Result<Engines, EngineError> {
    let folder = checkpoint::locate(uri).map_err(|error| EngineError::Checkpoint(error.to_string()))?;
    checkpoint::inspect(&folder).map_err(|error| EngineError::Checkpoint(error.to_string()))?;
    let config = &context.config.loader;
    let program = match &config.engine_program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(|source| EngineError::Start {
            program: PathBuf::from("tidemill"),
            source,
        })?,
    };
    let port = free_port().map_err(|source| EngineError::Start {
        program: program.clone(),
        source,
    })?;
    let mut process = Process::spawn(&program, &folder, port, config.engine_max_num_seqs)?;
    let url = format!("http://127.0.0.1:{port}");
    match answer(&url, MODEL, config.engine_patience, Some(&mut process)).await {
        Ok(probed) => {
            let mut engines = Engines {
                replicas: Vec::new(),
                context_length: None,
                process: Some(process),
            };
            engines.join(&url, MODEL, config.engine_max_num_seqs, &probed);
            tracing::info!(url, checkpoint = %folder.display(), "engine ready");
            Ok(engines)
        }
        Err(error) => {
            process.stop().await;
            Err(error)
        }
    }
}

/// The name under which a started engine serves its checkpoint.
const MODEL: &str = "checkpoint";

/// A port that was free a moment ago. Another process may take it; the engine then ends and is started on another one.
fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Lines of an engine that are kept to say why it ended.
const LAST_LINES: usize = 5;

struct Process {
    child: Child,
    lines: Arc<Mutex<VecDeque<String>>>,
    reading: Option<tokio::task::JoinHandle<()>>,
}

impl Process {
    fn spawn(program: &Path, checkpoint: &Path, port: u16, max_num_seqs: u32) -> Result<Self, EngineError> {
        let mut command = Command::new(program);
        command
            .arg("engine")
            .arg("--checkpoint")
            .arg(checkpoint)
            .args(["--port", &port.to_string(), "--served-model-name", MODEL])
            .args(["--max-num-seqs", &max_num_seqs.to_string()])
            .arg("--exit-with-parent")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let started = |source| EngineError::Start {
            program: program.to_owned(),
            source,
        };
        let mut child = tidemill_service::children::spawn(command).map_err(started)?;
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let reading = child
            .stderr
            .take()
            .map(|stderr| tokio::spawn(keep_lines(stderr, Arc::clone(&lines))));
        Ok(Self { child, lines, reading })
    }

    fn last_words(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect::<Vec<_>>().join(" | ")
    }

    async fn finish_reading(&mut self) {
        if let Some(reading) = self.reading.take() {
            drop(timeout(Duration::from_secs(1), reading).await);
        }
    }

    async fn stop(mut self) {
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id as i32))
            && let Err(error) = kill_process(pid, Signal::TERM)
        {
            tracing::debug!(%error, "the engine had ended");
        }
        if timeout(Duration::from_secs(5), self.child.wait()).await.is_err()
            && let Err(error) = self.child.kill().await
        {
            tracing::warn!(%error, "engine not stopped");
        }
    }
}

async fn keep_lines(stderr: ChildStderr, lines: Arc<Mutex<VecDeque<String>>>) {
    let mut reader = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        tracing::debug!(line, "engine");
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}
