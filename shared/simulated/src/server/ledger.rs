//! What all replicas saw, and the report made of it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::replica::Replica;
use crate::bounds::{Bounds, Job, bounds};
use crate::config::Config;
use crate::faults::FaultKind;

/// Counts over all replicas of a process.
#[derive(Debug)]
pub(super) struct Ledger {
    requests: u64,
    probes: u64,
    continued: u64,
    foreign: u64,
    double_begin: u64,
    early: u64,
    refused: u64,
    abandoned: u64,
    deaths: u64,
    by_prompt: HashMap<u64, u64>,
    jobs: Vec<(u64, Job)>,
    known: HashSet<(u64, u64)>,
    in_flight: u64,
    max_in_flight: u64,
    /// Request-seconds in flight up to `since`.
    present: f64,
    since: Instant,
    first_arrival: Option<Instant>,
    last_completion: Option<Instant>,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            requests: 0,
            probes: 0,
            continued: 0,
            foreign: 0,
            double_begin: 0,
            early: 0,
            refused: 0,
            abandoned: 0,
            deaths: 0,
            by_prompt: HashMap::new(),
            jobs: Vec::new(),
            known: HashSet::new(),
            in_flight: 0,
            max_in_flight: 0,
            present: 0.0,
            since: Instant::now(),
            first_arrival: None,
            last_completion: None,
        }
    }

    /// Forgets everything but what is in flight.
    pub(super) fn reset(&mut self) {
        let in_flight = self.in_flight;
        *self = Self::new();
        (self.in_flight, self.max_in_flight) = (in_flight, in_flight);
    }

    pub(super) fn probe(&mut self) {
        self.probes += 1;
    }

    /// Counts a request in, and says which number among all it has.
    pub(super) fn enter(&mut self, hashes: impl Iterator<Item = u64>) -> u64 {
        let now = Instant::now();
        self.pass(now);
        self.first_arrival.get_or_insert(now);
        self.requests += 1;
        self.in_flight += 1;
        self.max_in_flight = self.max_in_flight.max(self.in_flight);
        for hash in hashes {
            *self.by_prompt.entry(hash).or_default() += 1;
        }
        self.requests
    }

    pub(super) fn leave(&mut self, how: Left) {
        let now = Instant::now();
        self.pass(now);
        self.in_flight = self.in_flight.saturating_sub(1);
        match how {
            Left::Answered => self.last_completion = Some(now),
            Left::Refused => self.refused += 1,
            Left::Abandoned => self.abandoned += 1,
        }
    }

    pub(super) fn continued(&mut self, is_foreign: bool) {
        self.continued += 1;
        self.foreign += u64::from(is_foreign);
    }

    pub(super) fn double_begin(&mut self) {
        self.double_begin += 1;
    }

    pub(super) fn early(&mut self) {
        self.early += 1;
    }

    pub(super) fn death(&mut self) {
        self.deaths += 1;
    }

    /// Keeps an answer that was given; the same draw given twice is one job.
    pub(super) fn job(&mut self, arrival: u64, key: (u64, u64), job: Job) {
        if self.known.insert(key) {
            self.jobs.push((arrival, job));
        }
    }

    pub(super) fn requests_by_prompt(&self) -> HashMap<u64, u64> {
        self.by_prompt.clone()
    }

    fn pass(&mut self, now: Instant) {
        self.present += self.in_flight as f64 * (now - self.since).as_secs_f64();
        self.since = now;
    }
}

/// How a request left.
#[derive(Debug, Clone, Copy)]
pub(super) enum Left {
    Answered,
    Refused,
    /// The client closed the connection, or the engine did.
    Abandoned,
}

/// What the process saw since it began, or was reset. Times are virtual seconds: wall seconds times `speed`, or wall seconds
/// where the engine does not wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Virtual seconds in one of the wall's.
    pub speed: f64,
    /// Replicas.
    pub replicas: u16,
    /// Requests for work: all but probes, whatever became of them.
    pub requests: u64,
    /// Requests for a single token, which show that an engine is warm.
    pub probes: u64,
    /// Different prompts among the requests, those of continuations being the prompts they continue.
    pub distinct_prompts: u64,
    /// The most requests that one prompt had.
    pub most_requests_of_a_prompt: u64,
    /// Requests that continued an answer.
    pub continued: u64,
    /// Those that continued what this checkpoint does not say.
    pub foreign: u64,
    /// Prompts that began with two begin tokens.
    pub double_begin: u64,
    /// Requests that came before a `Retry-After` was over, those apart that were on the way when it was said.
    pub early: u64,
    /// Requests answered with an error.
    pub refused: u64,
    /// Requests whose connection ended before their answer.
    pub abandoned: u64,
    /// Replicas that died, each time.
    pub deaths: u64,
    /// The most requests in flight at once.
    pub max_in_flight: u64,
    /// Mean of the requests in flight over `span`.
    pub mean_in_flight: f64,
    /// Mean of the sequences running, over `span`, on all replicas together.
    pub mean_running: f64,
    /// From the first request to the last answer.
    pub span: f64,
    /// Answers given, each draw once.
    pub jobs: u64,
    /// Their tokens.
    pub job_tokens: u64,
    /// Tokens generated, those that nobody got included.
    pub generated_tokens: u64,
    /// Prompt tokens looked up in the prefix caches.
    pub prefix_queries: u64,
    /// Those that were there.
    pub prefix_hits: u64,
    /// Those that would have been there, had one replica with endless room computed all the jobs.
    pub prefix_possible: u64,
    /// Sequences that lost their room.
    pub preemptions: u64,
    /// How often each fault was met.
    pub faults: Vec<(FaultKind, u64)>,
    /// What the jobs could have taken.
    pub bounds: Bounds,
}

/// Everything a report is made of, taken at once; the making may take a while.
#[derive(Debug)]
pub(super) struct Snapshot {
    report: Report,
    jobs: Vec<Job>,
}

impl Snapshot {
    pub(super) fn take(replicas: &[std::sync::Arc<Replica>], config: &Config) -> Self {
        let loads: Vec<_> = replicas.iter().map(|replica| replica.load()).collect();
        let sum = |of: fn(&crate::model::Totals) -> u64| loads.iter().map(|load| of(&load.totals)).sum::<u64>();
        let running: f64 = loads.iter().map(|load| load.totals.running_seconds).sum();
        let faults = replicas.iter().flat_map(|replica| replica.faults_met()).collect();
        let Some(first) = replicas.first() else {
            return Self::empty(config);
        };
        let mut ledger = first.ledger();
        let speed = if config.speed > 0.0 { config.speed } else { 1.0 };
        let wall = ledger
            .first_arrival
            .zip(ledger.last_completion)
            .map_or(Duration::ZERO, |(first, last)| last.saturating_duration_since(first));
        let span = wall.as_secs_f64() * speed;
        let over_span = |seconds: f64| if span > 0.0 { seconds / span } else { 0.0 };
        ledger.jobs.sort_by_key(|(arrival, _)| *arrival);
        let jobs: Vec<Job> = ledger.jobs.iter().map(|(_, job)| job.clone()).collect();
        let report = Report {
            requests: ledger.requests,
            probes: ledger.probes,
            distinct_prompts: ledger.by_prompt.len() as u64,
            most_requests_of_a_prompt: ledger.by_prompt.values().copied().max().unwrap_or(0),
            continued: ledger.continued,
            foreign: ledger.foreign,
            double_begin: ledger.double_begin,
            early: ledger.early,
            refused: ledger.refused,
            abandoned: ledger.abandoned,
            deaths: ledger.deaths,
            max_in_flight: ledger.max_in_flight,
            mean_in_flight: over_span(ledger.present * speed),
            mean_running: over_span(running),
            span,
            jobs: jobs.len() as u64,
            job_tokens: jobs.iter().map(|job| u64::from(job.output)).sum(),
            generated_tokens: sum(|totals| totals.generated_tokens),
            prefix_queries: sum(|totals| totals.prefix_queries),
            prefix_hits: sum(|totals| totals.prefix_hits),
            preemptions: sum(|totals| totals.preemptions),
            faults,
            ..Self::empty(config).report
        };
        drop(ledger);
        Self { report, jobs }
    }

    fn empty(config: &Config) -> Self {
        let report = Report {
            speed: config.speed,
            replicas: config.replicas,
            requests: 0,
            probes: 0,
            distinct_prompts: 0,
            most_requests_of_a_prompt: 0,
            continued: 0,
            foreign: 0,
            double_begin: 0,
            early: 0,
            refused: 0,
            abandoned: 0,
            deaths: 0,
            max_in_flight: 0,
            mean_in_flight: 0.0,
            mean_running: 0.0,
            span: 0.0,
            jobs: 0,
            job_tokens: 0,
            generated_tokens: 0,
            prefix_queries: 0,
            prefix_hits: 0,
            prefix_possible: 0,
            preemptions: 0,
            faults: Vec::new(),
            bounds: bounds(&config.engine, &[], 1),
        };
        Self {
            report,
            jobs: Vec::new(),
        }
    }

    /// Computes the bounds.
    pub(super) fn report(self, config: &Config) -> Report {
        Report {
            prefix_possible: possible_hits(&self.jobs, config.engine.block_size),
            bounds: bounds(&config.engine, &self.jobs, usize::from(config.replicas)),
            ..self.report
        }
    }
}

/// Prompt tokens in full blocks that an earlier job held; the block of a prompt's last token is computed anyway.
fn possible_hits(jobs: &[Job], block_size: u32) -> u64 {
    let mut seen = HashSet::new();
    let mut hits = 0;
    for job in jobs.iter().filter(|job| job.reads_cache) {
        let usable = (job.prompt.saturating_sub(1) / block_size) as usize;
        let usable = &job.chain[..usable.min(job.chain.len())];
        hits += usable.iter().take_while(|key| seen.contains(*key)).count() as u64 * u64::from(block_size);
        seen.extend(job.chain.iter().copied());
    }
    hits
}
