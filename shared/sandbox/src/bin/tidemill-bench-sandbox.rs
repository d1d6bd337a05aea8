//! Measures what a run in the sandbox costs, beside the same work without one: `tidemill-bench-sandbox [RUNS]`.
//!
//! Two kinds of work: a Python program with its tests (two sandboxes; without, one interpreter that runs both), a shell that ends at
//! once, each at one and at two at a time. Prints runs a second and milliseconds a run at one at a time.

use std::io::Write as _;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use tidemill_sandbox::{Check, Command, Limits, Sandbox, Settings};
use tokio::task::JoinSet;

const PROGRAM: &str = "def double(values):\n    return [2 * value for value in values]\n";
const TESTS: &str = "assert double([1, 2.5]) == [2, 5.0]\nassert double([]) == []\n";
const SHELL: &str = "/bin/sh";

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is measured.
#[derive(Debug, Clone, Copy)]
enum Work {
    BarePython,
    Check,
    BareShell,
    Command,
}

impl Work {
    const ALL: [Self; 4] = [Self::BarePython, Self::Check, Self::BareShell, Self::Command];

    const fn label(self) -> &'static str {
        match self {
            Self::BarePython => "python, bare",
            Self::Check => "python, checked in sandboxes",
            Self::BareShell => "shell, bare",
            Self::Command => "shell, in a sandbox",
        }
    }

    async fn once(self, sandbox: &Sandbox) -> Result<(), Failure> {
        let right = match self {
            Self::BarePython => bare("/usr/bin/python3", &["-I", "-S", "-c", &format!("{PROGRAM}{TESTS}")]).await?,
            Self::BareShell => bare(SHELL, &["-c", ":"]).await?,
            Self::Check => {
                let check = Check {
                    program: PROGRAM.to_owned(),
                    prelude: String::new(),
                    tests: TESTS.to_owned(),
                    entry_points: vec!["double".to_owned()],
                };
                sandbox.check(&check, &Limits::default()).await?.is_right
            }
            Self::Command => {
                let command = Command {
                    argv: [SHELL, "-c", ":"].map(str::to_owned).to_vec(),
                    ..Command::default()
                };
                sandbox.run(&command, &Limits::default()).await?.compared("").is_right
            }
        };
        right
            .then_some(())
            .ok_or_else(|| format!("{} went wrong", self.label()).into())
    }
}

async fn bare(program: &str, arguments: &[&str]) -> Result<bool, Failure> {
    let mut command = tokio::process::Command::new(program);
    let status = command
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .await?;
    Ok(status.success())
}

/// Runs a second, at so many at a time.
async fn rate(work: Work, sandbox: &Sandbox, runs: usize, at_a_time: usize) -> Result<f64, Failure> {
    work.once(sandbox).await?;
    let begun = Instant::now();
    let mut workers = JoinSet::new();
    for worker in 0..at_a_time {
        let sandbox = sandbox.clone();
        let share = runs / at_a_time + usize::from(worker < runs % at_a_time);
        workers.spawn(async move {
            for _ in 0..share {
                work.once(&sandbox).await?;
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    Ok(runs as f64 / begun.elapsed().max(Duration::from_nanos(1)).as_secs_f64())
}

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let runs = std::env::args()
        .nth(1)
        .map_or(Ok(100), |runs| runs.parse::<usize>())?
        .max(2);
    let settings = Settings {
        concurrency: Some(2),
        ..Settings::default()
    };
    let sandbox = Sandbox::open(&settings).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{sandbox}, {runs} runs each")?;
    writeln!(
        out,
        "{:30}{:>14}{:>14}{:>12}",
        "", "1 at a time/s", "2 at a time/s", "ms a run"
    )?;
    for work in Work::ALL {
        let one = rate(work, &sandbox, runs, 1).await?;
        let two = rate(work, &sandbox, runs, 2).await?;
        writeln!(out, "{:30}{one:14.1}{two:14.1}{:12.1}", work.label(), 1000.0 / one)?;
    }
    Ok(ExitCode::SUCCESS)
}
