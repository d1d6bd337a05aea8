//! Seeds of the simulation.
//!
//! `SIM_SEED=7 cargo test -p tidemill-simulation simulation -- --nocapture` replays one with its trace; `SIM_SEEDS=100000`
//! runs so many, from `SIM_FROM` on.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail this way, and its output is for people"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_simulation::{Breakage, Simulation, Summary};

/// Runs of each build.
const SEEDS: u64 = 1_500;

/// A broken rule must be found within so many seeds.
const FOUND_WITHIN: u64 = 300;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text:?} is not a number")),
    )
}

fn check(seed: u64) -> Summary {
    let ended = Simulation::new(seed).run();
    let again = format!("SIM_SEED={seed} cargo test -p tidemill-simulation simulation -- --nocapture");
    if let Some(violation) = ended.violation {
        panic!("seed {seed}: {violation}\nreplay: {again}");
    }
    assert!(
        !ended.summary.did_nothing(),
        "seed {seed} did nothing: {}\nreplay: {again}",
        ended.summary
    );
    ended.summary
}

fn replay(seed: u64) {
    let ended = Simulation::new(seed).traced().run();
    for line in &ended.trace {
        println!("{line}");
    }
    println!("seed {seed}: {}", ended.summary);
    assert_eq!(ended.violation, None);
}

/// Runs `work` for each seed on every core there is.
fn each_seed(from: u64, seeds: u64, work: impl Fn(u64) -> Summary + Sync) -> Summary {
    let (next, threads) = (
        AtomicU64::new(from),
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    std::thread::scope(|scope| {
        let run = || {
            let mut total = Summary::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= from + seeds {
                    return total;
                }
                total += work(seed);
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let mut total = Summary::default();
        for thread in running {
            match thread.join() {
                Ok(part) => total += part,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        total
    })
}

#[test]
fn simulation() {
    if let Some(seed) = number("SIM_SEED") {
        return replay(seed);
    }
    let seeds = number("SIM_SEEDS").unwrap_or(SEEDS);
    let total = each_seed(number("SIM_FROM").unwrap_or(0), seeds, check);
    println!("{seeds} seeds: {total}");
}

#[test]
fn without_faults_every_item_is_asked_once() {
    for seed in 0..50 {
        let ended = Simulation::new(seed).calm().run();
        assert_eq!(ended.violation, None, "seed {seed}");
        assert_eq!(ended.summary.asked, ended.summary.items, "seed {seed}");
        assert_eq!(ended.summary.refused_writes, 0, "seed {seed}");
    }
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in 0..20 {
        let (first, second) = (
            Simulation::new(seed).traced().run(),
            Simulation::new(seed).traced().run(),
        );
        assert_eq!(first.summary, second.summary, "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

#[test]
fn every_broken_rule_is_found() {
    let missed: Vec<Breakage> = Breakage::ALL
        .into_iter()
        .filter(|breakage| found(*breakage).is_none())
        .collect();
    assert!(missed.is_empty(), "not found within {FOUND_WITHIN} seeds: {missed:?}");
}

fn found(breakage: Breakage) -> Option<u64> {
    let found = (0..FOUND_WITHIN).find_map(|seed| {
        let violation = Simulation::new(seed).broken(breakage).run().violation?;
        Some((seed, violation))
    });
    let (seed, violation) = found?;
    println!("{breakage:?}: seed {seed}: {violation}");
    Some(seed)
}
