//! An OpenAI-compatible server that answers at once with one text, for measuring everything that is not the engine.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use tidemill_testkit::FakeEngine;

/// Answers every completion and chat request with the same text, from one thread.
///
/// `GET /stats` gives the number of requests, of different prompts, and the most in flight.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Loopback port; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Name of the model to serve.
    #[arg(long, default_value = "fake")]
    model: String,
    /// Wait before each answer, in milliseconds.
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// Text of every answer.
    #[arg(long, default_value = " 4")]
    text: String,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let engine = FakeEngine::builder()
        .model(arguments.model)
        .port(arguments.port)
        .latency(Duration::from_millis(arguments.latency_ms))
        .fixed_text(arguments.text)
        .start()?;
    writeln!(std::io::stdout(), "{}", engine.url())?;
    engine.join()
}
