//! Loader: turns announced checkpoints into items that are released to engines.

use clap::Parser;

/// Take announced checkpoints, start or attach their engines, and release items to them.
#[derive(Parser)]
#[command(version)]
// The arguments that all services share are a group of this name already.
#[group(skip)]
struct Args {
    #[command(flatten)]
    common: tidemill_service::Args,
}

fn main() -> std::process::ExitCode {
    tidemill_service::run("loader", &Args::parse().common, |context| {
        tidemill_loader::run(context, tidemill_loader::Scope::All)
    })
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
