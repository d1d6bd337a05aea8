//! What the delivery of one item costs: the bare pipeline of three hops, and the whole of Tidemill, on the same brokers.
//!
//! The bare pipeline does with each item what the delivery rules ask and nothing else: it is the floor that Tidemill is
//! measured against. Both run in turn on fresh brokers, with one copy of each stream and with three, so that a machine that is
//! busy with other things slows both.

mod bare;
mod latency;
mod servers;
mod usage;
mod whole;

use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use crate::servers::{Kind, Servers};

/// Measures items per second and CPU per item of the bare three-hop pipeline and of Tidemill.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Items of each run.
    #[arg(long, default_value_t = 20_000)]
    items: usize,
    /// Bytes of a completion.
    #[arg(long, default_value_t = 2_048)]
    completion_bytes: usize,
    /// Runs of each kind; medians are printed at the end.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Brokers: one server or three, with the default sync interval or syncing always.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "r1,r3")]
    brokers: Vec<Kind>,
}

/// One run's figures.
#[derive(Debug, Clone, Copy)]
struct Figures {
    seconds: f64,
    /// CPU seconds of everything but servers and engine.
    clients: f64,
    /// CPU seconds of all servers.
    servers: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    for kind in &arguments.brokers {
        let (mut bare, mut whole) = (Vec::new(), Vec::new());
        for _ in 0..arguments.rounds.max(1) {
            bare.push(bare_run(&arguments, *kind)?);
            say(&format!(
                "{kind} bare:     {}",
                line(*bare.last().unwrap_or(&NOTHING), arguments.items)
            ))?;
            whole.push(whole_run(&arguments, *kind)?);
            say(&format!(
                "{kind} tidemill: {}",
                line(*whole.last().unwrap_or(&NOTHING), arguments.items)
            ))?;
        }
        let (bare, whole) = (median(bare), median(whole));
        say(&format!("{kind} medians, bare:     {}", line(bare, arguments.items)))?;
        say(&format!("{kind} medians, tidemill: {}", line(whole, arguments.items)))?;
        let cpu = |figures: Figures| figures.clients + figures.servers;
        say(&format!(
            "{kind} tidemill/bare: {:.2} of the items/s, {:.2} of the CPU (servers {:.2}, clients {:.2})",
            bare.seconds / whole.seconds,
            cpu(whole) / cpu(bare),
            whole.servers / bare.servers,
            whole.clients / bare.clients,
        ))?;
        let servers = Servers::start(*kind)?;
        let hops = runtime()?.block_on(bare::hops(&servers.url(), arguments.completion_bytes))?;
        for (name, percentiles) in hops {
            say(&format!("{kind} hop {name:34} {percentiles}"))?;
        }
    }
    Ok(())
}

const NOTHING: Figures = Figures {
    seconds: 0.0,
    clients: 0.0,
    servers: 0.0,
};

fn bare_run(arguments: &Arguments, kind: Kind) -> Result<Figures> {
    let servers = Servers::start(kind)?;
    let (clients, brokers) = (usage::own(), servers.cpu());
    let url = servers.url();
    let run = bare::run(&url, arguments.items, arguments.completion_bytes);
    let seconds = runtime()?.block_on(run)?;
    Ok(Figures {
        seconds: seconds.as_secs_f64(),
        clients: usage::own() - clients,
        servers: servers.cpu() - brokers,
    })
}

fn whole_run(arguments: &Arguments, kind: Kind) -> Result<Figures> {
    let servers = Servers::start(kind)?;
    let brokers = servers.cpu();
    let (seconds, clients) = whole::run(&servers, arguments.items, arguments.completion_bytes)?;
    Ok(Figures {
        seconds,
        clients,
        servers: servers.cpu() - brokers,
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn line(figures: Figures, items: usize) -> String {
    let each = |seconds: f64| 1e6 * seconds / items as f64;
    format!(
        "{:6.0} items/s, {:4.0} us of CPU an item (servers {:.0}, clients {:.0}), {:.2} s",
        items as f64 / figures.seconds,
        each(figures.clients + figures.servers),
        each(figures.servers),
        each(figures.clients),
        figures.seconds,
    )
}

/// The median of each figure by itself.
fn median(runs: Vec<Figures>) -> Figures {
    let middle = |figure: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    Figures {
        seconds: middle(|figures| figures.seconds),
        clients: middle(|figures| figures.clients),
        servers: middle(|figures| figures.servers),
    }
}

fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

/// Nothing measured here takes nearly as long: it ends a run that hangs.
const PATIENCE: Duration = Duration::from_secs(600);
