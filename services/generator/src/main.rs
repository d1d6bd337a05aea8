//! Generator: takes released items, keeps engines busy, publishes completions.

use clap::Parser;

/// Take released items, ask their engines, and record how each one ended.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    common: tidemill_service::Args,
}

fn main() -> std::process::ExitCode {
    tidemill_service::run("generator", &Args::parse().common, tidemill_generator::run)
}
