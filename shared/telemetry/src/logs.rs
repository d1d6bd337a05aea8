//! The log subscriber. Everything goes to standard error: standard output is for data.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Crates whose INFO tells people nothing that we do not say ourselves.
const QUIET: &str = "async_nats=warn,rustls=warn";

/// Starts logging with `filter` in the syntax of `RUST_LOG`, which overrides it. A second call changes nothing.
pub fn init_logs(format: LogFormat, filter: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(format!("{QUIET},{filter}")));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_timer(SystemTime)
        .with_target(false);
    let started = match format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // The only failure is that a subscriber is there already, for instance in tests that share a process.
    drop(started);
}
