//! An engine that this process started.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tidemill_config::Loader;
use tidemill_inference::is_reachable;
use tidemill_service::backoff::Backoff;
use tidemill_telemetry::Metric;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::{Instant, sleep, timeout};

use super::{EngineError, Ready, answer};
use crate::checkpoint;

/// A started engine that answered.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) url: String,
    pub(super) ready: Ready,
}

/// Starts an engine on a checkpoint and waits for its first answer.
pub(super) async fn start(config: &Loader, uri: &str) -> Result<Started, EngineError> {
    let begun = Instant::now();
    let folder = checkpoint::locate(uri).map_err(|error| EngineError::Checkpoint(error.to_string()))?;
    checkpoint::inspect(&folder).map_err(|error| EngineError::Checkpoint(error.to_string()))?;
    let verify = phase("verify", begun);
    let (mut process, url) = spawn(config, &folder)?;
    match first_answer(&mut process, &url, config.engine_patience).await {
        Ok((listen, answered, ready)) => {
            tracing::info!(
                url,
                checkpoint = %folder.display(),
                verify_seconds = verify,
                listen_seconds = listen,
                first_answer_seconds = answered,
                all_seconds = begun.elapsed().as_secs_f64(),
                "engine ready"
            );
            Ok(Started { process, url, ready })
        }
        Err(error) => {
            process.stop().await;
            Err(error)
        }
    }
}

fn spawn(config: &Loader, folder: &Path) -> Result<(Process, String), EngineError> {
    let failed = |program: PathBuf| |source| EngineError::Start { program, source };
    let program = match &config.engine_program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(failed(PathBuf::from("tidemill")))?,
    };
    let port = free_port().map_err(failed(program.clone()))?;
    let process = Process::spawn(&program, folder, port, config.engine_max_num_seqs)?;
    Ok((process, format!("http://127.0.0.1:{port}")))
}

/// Waits for the port, then for an answer. Returns how long each took.
async fn first_answer(process: &mut Process, url: &str, patience: Duration) -> Result<(f64, f64, Ready), EngineError> {
    let begun = Instant::now();
    process.listening(url, patience).await?;
    let listen = phase("listen", begun);
    let begun = Instant::now();
    let ready = answer(url, MODEL, patience, Some(process), None).await?;
    Ok((listen, phase("first_answer", begun), ready))
}

fn phase(name: &'static str, begun: Instant) -> f64 {
    let seconds = begun.elapsed().as_secs_f64();
    tidemill_telemetry::observe(Metric::StartupSeconds, seconds, [("phase", name)]);
    seconds
}

/// The name under which a started engine serves its checkpoint.
pub(super) const MODEL: &str = "checkpoint";

/// A port that was free a moment ago. Another process may take it; the engine then ends and is started on another one.
fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Lines of an engine that are kept to say why it ended.
const LAST_LINES: usize = 5;

pub(super) struct Process {
    pub(super) child: Child,
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
            // A terminal's Ctrl-C is for the command alone, which then stops its engine in order.
            .process_group(0)
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

    pub(super) fn last_words(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        // An engine of ours logs why it ended as an error; the rest of that line is for its own log.
        let errors: Vec<&str> = lines
            .iter()
            .filter_map(|line| Some(line.split_once(" ERROR ")?.1))
            .collect();
        if errors.is_empty() {
            lines.iter().cloned().collect::<Vec<_>>().join(" | ")
        } else {
            errors.join("; ")
        }
    }

    /// Waits until anything answers at its port.
    async fn listening(&mut self, url: &str, patience: Duration) -> Result<(), EngineError> {
        let begun = Instant::now();
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        while !is_reachable(url).await && begun.elapsed() < patience {
            self.check().await?;
            sleep(backoff.next_pause()).await;
        }
        Ok(())
    }

    /// Looks whether it is still there.
    pub(super) async fn check(&mut self) -> Result<(), EngineError> {
        let Ok(Some(status)) = self.child.try_wait() else {
            return Ok(());
        };
        self.finish_reading().await;
        Err(EngineError::Ended {
            status: status.to_string(),
            code: status.code(),
            last_words: self.last_words(),
        })
    }

    async fn finish_reading(&mut self) {
        if let Some(reading) = self.reading.take() {
            drop(timeout(Duration::from_secs(1), reading).await);
        }
    }

    /// Asks it to end, and kills it when it does not.
    pub(super) async fn stop(mut self) {
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
