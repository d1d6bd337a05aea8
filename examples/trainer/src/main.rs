//! Trains the tiny model, writes the demo suite's data, or examines checkpoints.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use tidemill_trainer::announce::Announcer;
use tidemill_trainer::model::Shape;
use tidemill_trainer::training::{self, Progress, Recipe};
use tidemill_trainer::{checkpoint, evaluation, suite};

/// Train the demo's tiny model.
#[derive(Parser)]
#[command(
    version,
    after_help = "Example:\n  tidemill-trainer train --out checkpoints --announce"
)]
enum Args {
    /// Train, writing checkpoints and a log of the curves.
    Train(Train),
    /// Write the data files of the demo suite.
    Data {
        /// Directory to write into.
        #[arg(long)]
        out: PathBuf,
    },
    /// Examine checkpoints greedily on all of the suite's problems; one JSON line each.
    Check {
        /// Checkpoint directories.
        #[arg(required = true)]
        checkpoints: Vec<PathBuf>,
    },
}

#[derive(clap::Args)]
struct Train {
    /// Directory for the checkpoints.
    #[arg(long)]
    out: PathBuf,
    /// Steps of the learning rate's schedule.
    #[arg(long, default_value_t = 1600)]
    steps: usize,
    /// Steps after which a checkpoint is written; training ends with the last.
    #[arg(long, value_delimiter = ',', default_value = "50,150,300,500,800,1200")]
    checkpoints: Vec<usize>,
    /// Decides weights and data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Highest learning rate.
    #[arg(long, default_value_t = 3e-3)]
    rate: f64,
    /// Rows of each of the two shards.
    #[arg(long, default_value_t = 6)]
    rows: usize,
    /// Announce each checkpoint; the broker's address may follow.
    #[arg(long, value_name = "NATS_URL", num_args = 0..=1)]
    announce: Option<Option<String>>,
    /// The command that announces.
    #[arg(long, default_value = "tidemill")]
    announce_with: PathBuf,
    /// The run's name in announcements.
    #[arg(long, default_value = "demo")]
    run: String,
    /// The suite in announcements: a file, or a name that the loader knows.
    #[arg(long, default_value = "examples/demo/suite.toml")]
    suite: String,
}

fn main() -> Result<()> {
    match Args::parse() {
        Args::Train(args) => train(args),
        Args::Data { out } => suite::write(&out),
        Args::Check { checkpoints } => check(&checkpoints),
    }
}

fn train(args: Train) -> Result<()> {
    let recipe = Recipe {
        shape: Shape::TINY,
        seed: args.seed,
        steps: args.steps,
        checkpoints: args.checkpoints,
        rows: args.rows,
        length: 192,
        rate: args.rate,
    };
    std::fs::create_dir_all(&args.out)?;
    let announcer = args.announce.map(|nats| Announcer {
        command: args.announce_with,
        run: args.run,
        suite: Some(args.suite),
        nats,
    });
    training::run(recipe, &args.out, announcer.as_ref(), tell)
}

#[expect(clippy::print_stderr, reason = "progress of a command")]
fn tell(progress: &Progress) {
    let scores = progress.scores.iter().map(|score| {
        format!(
            "  {} {:.2} (cut {}, tokens {:?})",
            score.skill, score.accuracy, score.truncated, score.lengths
        )
    });
    let Progress {
        step, loss, seconds, ..
    } = progress;
    eprintln!(
        "step {step:5}  loss {loss:.4}  {seconds} s{}",
        scores.collect::<String>()
    );
}

#[expect(clippy::print_stdout, reason = "the command's data")]
fn check(checkpoints: &[PathBuf]) -> Result<()> {
    let examination = suite::examination(usize::MAX);
    for path in checkpoints {
        let scores = evaluation::examine(&checkpoint::read(path, &Shape::TINY)?, &examination)?;
        println!("{}", serde_json::json!({ "checkpoint": path, "scores": scores }));
    }
    Ok(())
}
