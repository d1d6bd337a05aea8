//! The embedded engine as a program of its own; `tidemill engine` is the same.

use std::process::ExitCode;

use clap::Parser;
use tidemill_engine::EngineArgs;

/// Serve a Llama checkpoint over OpenAI's protocol, on the processor.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    engine: EngineArgs,
}

fn main() -> ExitCode {
    tidemill_engine::run(Args::parse().engine)
}
