//! The engine as a process.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use crate::{Config, SimulatedEngine};

/// Exit code of a file that sets no engine up, or of a port that is taken.
const FAILED: u8 = 2;

/// Serves what a file says until SIGTERM or SIGINT. Prints each replica's address on a line of its own, when its port is taken.
#[must_use]
pub fn run(file: &Path) -> ExitCode {
    match serve(file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where even that fails there is nobody to tell.
            writeln!(std::io::stderr(), "simulated engine: {}", error.trim_end()).unwrap_or_default();
            ExitCode::from(FAILED)
        }
    }
}

fn serve(file: &Path) -> Result<(), String> {
    let config = Config::read(file).map_err(|error| error.to_string())?;
    let engine = SimulatedEngine::start(config).map_err(|error| error.to_string())?;
    let mut out = std::io::stdout();
    for url in engine.urls() {
        writeln!(out, "{url}").map_err(|error| format!("write the address: {error}"))?;
    }
    out.flush().map_err(|error| format!("write the address: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .and_then(|runtime| runtime.block_on(ended()))
        .map_err(|error| format!("wait for signals: {error}"))
}

async fn ended() -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
