//! Grader: turns completions into grades.

use clap::Parser;

/// Grade completions as they land.
#[derive(Parser)]
#[command(version)]
// The arguments that all services share are a group of this name already.
#[group(skip)]
struct Args {
    #[command(flatten)]
    common: tidemill_service::Args,
}

fn main() -> std::process::ExitCode {
    tidemill_service::run("grader", &Args::parse().common, tidemill_grader::run)
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
