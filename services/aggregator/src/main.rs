//! Aggregator: folds grades into results.

use clap::Parser;

/// Fold grades into results, and say when an evaluation is final.
#[derive(Parser)]
#[command(version)]
// The arguments that all services share are a group of this name already.
#[group(skip)]
struct Args {
    #[command(flatten)]
    common: tidemill_service::Args,
}

fn main() -> std::process::ExitCode {
    tidemill_service::run("aggregator", &Args::parse().common, tidemill_aggregator::run)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Args;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }
}
