//! Aggregator: folds grades into results.

use clap::Parser;

/// Fold grades into results, and say when an evaluation is final.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    common: tidemill_service::Args,
}

fn main() -> std::process::ExitCode {
    tidemill_service::run("aggregator", &Args::parse().common, tidemill_aggregator::run)
}
