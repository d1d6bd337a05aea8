//! What resuming costs: an evaluation whose items are all graded and whose result nobody has reported.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;
use tidemill_testkit::{Broker, FakeEngine, Service};

use super::evidence;
use super::scenario::Role;
use crate::{Workbench, tidemill};

/// Longest wait for the first half, or for the second.
const PATIENCE: Duration = Duration::from_secs(900);

/// How often the end is looked for; each look costs the broker a connection.
const LOOK_EVERY: Duration = Duration::from_millis(250);

const SUITE: &str = r#"
name = "resume"
version = "1"

[[benchmark]]
name = "sums"
data = "sums.jsonl"
id = "id"
prompt = "Q: {{ a }}+{{ b }}\nA:"
target = "{{ sum }}"
max_tokens = 8
[benchmark.grader]
kind = "exact"
"#;

/// The cost of a resume.
#[derive(Debug, Clone, Serialize)]
pub struct Resumed {
    /// Items that were finished before everything was killed.
    pub items: usize,
    /// CPU of all services and the broker, from their start to the end of the evaluation.
    pub cpu_seconds: f64,
    /// The same for each item.
    pub cpu_milliseconds_per_item: f64,
    /// From the start of the services to the end of the evaluation.
    pub wall_seconds: f64,
    /// Requests to the engine meanwhile, the warm-up apart.
    pub asked_again: u64,
}

/// Finishes `items` items without an aggregator, kills everything, and measures the way to the result.
///
/// # Errors
/// When a part does not end, or the result is not final.
pub fn resume(items: usize) -> Result<Resumed> {
    let bench = Workbench::new(items)?;
    bench.write("suite.toml", SUITE)?;
    let engine = FakeEngine::builder().fixed_text(" 4").start()?;
    let mut broker = Broker::start()?;
    let url = broker.url();
    let applied = tidemill(&["streams", "apply", "--nats", &url])?;
    ensure!(applied.code == Some(0), "streams apply: {}", applied.log);
    let first = [Role::Loader, Role::Generator, Role::Grader].map(|role| start(role, &bench, &url));
    let mut first = first.into_iter().collect::<Result<Vec<_>>>()?;
    announce(&bench, &engine, &url)?;
    wait(|| Ok(evidence::messages(&url, "GRADE")? >= items as u64)).context("grade every item")?;
    first.iter_mut().try_for_each(Service::kill9)?;
    broker.restart()?;

    let asked = engine.stats().requests;
    let begun = Instant::now();
    let second = Role::ALL
        .map(|role| start(role, &bench, &url))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    wait(|| Ok(evidence::ended(&url)?.is_some())).context("end the evaluation")?;
    let wall_seconds = begun.elapsed().as_secs_f64();
    let processes = second.iter().map(Service::id).chain(broker.pid());
    let cpu_seconds = processes.map(cpu_seconds).sum::<Result<f64>>()?;
    Ok(Resumed {
        items,
        cpu_seconds,
        cpu_milliseconds_per_item: cpu_seconds * 1_000.0 / items as f64,
        wall_seconds,
        // Each loader asks once whether the engine is there.
        asked_again: (engine.stats().requests - asked).saturating_sub(1),
    })
}

fn start(role: Role, bench: &Workbench, url: &str) -> Result<Service> {
    let launch = Service::tidemill()?.args([role.name(), "--nats", url, "--data-dir", &bench.text("data")]);
    launch
        .env_remove("NATS_URL")
        .env("TIDEMILL_LOADER__MAX_IN_FLIGHT", "256")
        .spawn()
}

fn announce(bench: &Workbench, engine: &FakeEngine, url: &str) -> Result<()> {
    let (suite, data, engine_url) = (bench.text("suite.toml"), bench.text("data"), engine.url());
    let what = ["announce", "--run", "resume", "--step", "1", "--suite", &suite];
    let from = [
        "--endpoint",
        &engine_url,
        "--model",
        engine.model(),
        "--nats",
        url,
        "--data-dir",
        &data,
    ];
    let ran = tidemill(&[&what[..], &from[..]].concat())?;
    ensure!(ran.code == Some(0), "announce: {}", ran.log);
    Ok(())
}

fn wait(reached: impl Fn() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !reached()? {
        if begun.elapsed() > PATIENCE {
            bail!("not within {PATIENCE:?}");
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// User and system time of a process, its threads included, in seconds.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat =
        std::fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("read the times of {pid}"))?;
    // The name, in brackets, may hold blanks; times are fields 14 and 15, counted from 1.
    let (_, fields) = stat.rsplit_once(") ").context("a name in brackets")?;
    let ticks = fields
        .split(' ')
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
