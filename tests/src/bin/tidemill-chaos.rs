//! Disturbs pipelines of real processes on purpose and prints what that came to.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tidemill_tests::chaos::{Outcome, Resumed, Scenario, Table, expect, long, resume, run_all, standard};

/// Kill, suspend and cut off the processes of evaluations, and compare each end with the undisturbed one.
///
/// Prints a table, or JSON. Exits with 1 when anything was lost, counted twice or asked again without need. The `tidemill`
/// program lies beside this one, or `TIDEMILL_BIN` names it; the faults need one built with its fault points.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Seed of the moments of the first runs; each further round takes the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rounds of all scenarios.
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Only scenarios whose name holds this.
    #[arg(long, default_value = "")]
    only: String,
    /// Runs at once.
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Leave out the scenarios that take minutes.
    #[arg(long)]
    short: bool,
    /// Instead, measure what resuming an evaluation of so many finished items costs.
    #[arg(long)]
    resume: Option<usize>,
    /// JSON on standard output instead of the table.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let is_clean = match arguments.resume {
        Some(items) => {
            let resumed = resume(items)?;
            print(&arguments, &resumed, &told(&resumed))?;
            resumed.asked_again == 0
        }
        None => {
            let table = disturb(&arguments, &chosen(&arguments))?;
            print(&arguments, &table, &table.to_string())?;
            table.is_clean()
        }
    };
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The scenarios asked for, each with the seed of its round.
fn chosen(arguments: &Arguments) -> Vec<(Scenario, u64)> {
    let seeds = arguments.seed..arguments.seed.saturating_add(arguments.runs);
    let all = seeds.flat_map(|seed| {
        let minutes = if arguments.short { Vec::new() } else { long(seed) };
        let scenarios = minutes.into_iter().chain(standard(seed));
        scenarios.map(move |scenario| (scenario, seed))
    });
    all.filter(|(scenario, _)| scenario.name.contains(&arguments.only))
        .collect()
}

fn disturb(arguments: &Arguments, scenarios: &[(Scenario, u64)]) -> Result<Table> {
    let plain: Vec<Scenario> = scenarios.iter().map(|(scenario, _)| scenario.clone()).collect();
    let expected = expect(&plain)?;
    let outcomes = run_all(scenarios, arguments.jobs, &expected, say);
    let mut table = Table::new();
    for (scenario, outcome) in outcomes {
        table.add(scenario.name, outcome.ok().as_ref());
    }
    Ok(table)
}

/// One line a run as it ends, and all that is wrong with it, on standard error.
fn say(scenario: &Scenario, seed: u64, outcome: &Result<Outcome>) {
    let told = match outcome {
        Ok(outcome) if outcome.is_clean() => format!("{:.1} s", outcome.wall_seconds),
        Ok(outcome) => format!("NOT CLEAN: {outcome:?}"),
        Err(error) => format!("FAILED: {error:#}\n{scenario:?}"),
    };
    // Standard error may be closed; the table says the same.
    writeln!(std::io::stderr(), "{} (seed {seed}): {told}", scenario.name).ok();
}

fn told(resumed: &Resumed) -> String {
    format!(
        "resume of {} finished items: {:.3} ms CPU an item ({:.2} s in all processes), {:.1} s, {} asked again",
        resumed.items,
        resumed.cpu_milliseconds_per_item,
        resumed.cpu_seconds,
        resumed.wall_seconds,
        resumed.asked_again
    )
}

fn print(arguments: &Arguments, data: &impl serde::Serialize, text: &str) -> Result<()> {
    let mut output = std::io::stdout();
    if arguments.json {
        writeln!(output, "{}", serde_json::to_string(data)?)?;
    } else {
        writeln!(output, "{text}")?;
    }
    Ok(())
}
