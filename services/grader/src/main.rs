//! Grader: turns completions into grades.

use clap::Parser;

/// Grade completions as they land.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    common: tidemill_service::Args,
}

fn main() -> std::process::ExitCode {
    tidemill_service::run("grader", &Args::parse().common, tidemill_grader::run)
}
