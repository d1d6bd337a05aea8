//! The engine as a process: logs, signals, exit code.

use std::{io::IsTerminal, process::ExitCode};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::{Error, Options, server};

/// Exit code of a failure to load or to serve.
const FAILED: u8 = 2;
/// Exit code of a second signal while draining.
const INTERRUPTED: i32 = 130;

/// Serves until SIGTERM or SIGINT and returns the process's exit code: 0 after a drain, 2 when it could not serve.
///
/// Logs go to standard error, filtered by `RUST_LOG`. When ready it logs `serving NAME on http://ADDRESS`.
#[must_use]
pub fn run(options: Options) -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // A subscriber that is already there keeps its place.
    logs.with_ansi(std::io::stderr().is_terminal())
        .try_init()
        .unwrap_or_default();
    match run_to_end(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", error.one_line());
            ExitCode::from(FAILED)
        }
    }
}

fn run_to_end(options: Options) -> Result<(), Error> {
    let parent = options.exit_with_parent.then(Parent::watch).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        tokio::spawn(Signals::install()?.watch(parent, shutdown.clone()));
        let name = options.served_model_name.clone();
        let name = name.unwrap_or_else(|| server::directory_name(&options.checkpoint));
        server::serve(options, shutdown, |address| {
            tracing::info!("serving {name} on http://{address}")
        })
        .await
    })
}

/// The process that started this one.
#[derive(Debug)]
struct Parent(Option<Pid>);

impl Parent {
    /// Asks for a signal when the parent ends.
    ///
    /// The kernel sends it when the parent's *thread* ends that started this process, which may happen in a pool of threads long
    /// before the parent itself does. Hence a signal of its own, after which the parent is looked for, instead of SIGTERM.
    fn watch() -> std::io::Result<Self> {
        let parent = getppid();
        set_parent_process_death_signal(Some(Signal::USR1))?;
        Ok(Self(parent))
    }

    fn is_gone(&self) -> bool {
        getppid() != self.0
    }
}

struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    parent: unix::Signal,
}

impl Signals {
    fn install() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            parent: signal(SignalKind::user_defined1())?,
        })
    }

    /// Begins the shutdown at the first signal, or when the parent is gone; a second signal ends the process at once.
    async fn watch(mut self, parent: Option<Parent>, shutdown: CancellationToken) {
        // The parent may have ended before its signal was asked for.
        while !parent.as_ref().is_some_and(Parent::is_gone) {
            tokio::select! {
                _ = self.terminate.recv() => break,
                _ = self.interrupt.recv() => break,
                _ = self.parent.recv() => {}
            }
        }
        shutdown.cancel();
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        tracing::warn!("second signal, exiting at once");
        std::process::exit(INTERRUPTED);
    }
}
