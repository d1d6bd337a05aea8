//! Tells the pipeline that a checkpoint is complete.
//!
//! The `tidemill` command does the publishing, so a trainer needs no client of the broker. Training must never stop
//! because the pipeline is away: a failure is a warning.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Announces the checkpoints of one run.
#[derive(Debug, Clone)]
pub struct Announcer {
    /// The `tidemill` command.
    pub command: PathBuf,
    /// The run's name.
    pub run: String,
    /// The suite that measures the run: a file, or a name that the loader knows. Without it the loader's default suites.
    pub suite: Option<String>,
    /// The broker, handed over as `NATS_URL`; without it the command's own default.
    pub nats: Option<String>,
}

impl Announcer {
    /// Announces that the checkpoint at `path` is complete; says whether that worked.
    pub fn announce(&self, path: &Path, step: usize) -> bool {
        let failure = match self.command(path, step).status() {
            Ok(status) if status.success() => return true,
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        warn(&format!(
            "checkpoint of step {step} was not announced: {}: {failure}",
            self.command.display()
        ));
        false
    }

    fn command(&self, path: &Path, step: usize) -> Command {
        let mut command = Command::new(&self.command);
        command
            .arg("announce")
            .arg(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        command.args(["--run", &self.run, "--step", &step.to_string()]);
        if let Some(suite) = &self.suite {
            command.args(["--suite", suite]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(nats) = &self.nats {
            command.env("NATS_URL", nats);
        }
        command
    }
}

#[expect(clippy::print_stderr, reason = "a command's warning")]
fn warn(message: &str) {
    eprintln!("warning: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcer(command: &str) -> Announcer {
        Announcer {
            command: command.into(),
            run: "demo".to_owned(),
            suite: Some("smoke".to_owned()),
            nats: Some("nats://broker:4222".to_owned()),
        }
    }

    #[test]
    fn the_command_gets_an_absolute_path_run_step_and_broker() {
        let command = announcer("tidemill").command(Path::new("/c/step-0009"), 9);
        assert_eq!(
            command.get_args().collect::<Vec<_>>(),
            [
                "announce",
                "/c/step-0009",
                "--run",
                "demo",
                "--step",
                "9",
                "--suite",
                "smoke"
            ]
        );
        let broker = Some("nats://broker:4222".as_ref());
        assert_eq!(command.get_envs().collect::<Vec<_>>(), [("NATS_URL".as_ref(), broker)]);
        let relative = announcer("tidemill").command(Path::new("step-0009"), 9);
        assert!(
            relative
                .get_args()
                .nth(1)
                .is_some_and(|path| Path::new(path).is_absolute())
        );
    }

    #[test]
    fn a_failed_announcement_is_told_and_nothing_more() {
        assert!(announcer("true").announce(Path::new("/c"), 1));
        assert!(!announcer("false").announce(Path::new("/c"), 1));
        assert!(!announcer("/no/such/command").announce(Path::new("/c"), 1));
    }
}
