//! Loader: turns announced checkpoints into items that are released to engines.

use clap::Parser;

/// Take announced checkpoints, start or attach their engines, and release items to them.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    common: tidemill_service::Args,
}

fn main() -> std::process::ExitCode {
    tidemill_service::run("loader", &Args::parse().common, |context| {
        tidemill_loader::run(context, tidemill_loader::Scope::All)
    })
}
