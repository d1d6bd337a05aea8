//! How fast work could have been done, by the same model: what a client's makespan is divided by.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::model::{Arrival, Engine, Limits};

/// One answer that was given, whole: a continued one counts with all its tokens.
#[derive(Debug, Clone)]
pub struct Job {
    /// Hashes of the prompt's blocks.
    pub chain: Arc<[u64]>,
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens of the answer.
    pub output: u32,
    /// Tokens that the earlier checkpoint's answer has, where one is named.
    pub before: Option<u32>,
    /// Whether it read the prefix cache.
    pub reads_cache: bool,
}

impl Job {
    fn arrival(&self) -> Arrival {
        Arrival {
            chain: Arc::clone(&self.chain),
            prompt: self.prompt,
            output: self.output.max(1),
            reads_cache: self.reads_cache,
            stalls_after: None,
        }
    }
}

/// Makespans in virtual seconds, were all jobs there at time 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// In the order given, from one queue, each to the first replica with a free place.
    pub first_come: f64,
    /// The same, longest answer first.
    pub longest_first: f64,
    /// The same, longest in the earlier checkpoint first: what is possible for who knows that one's lengths alone.
    pub by_history: Option<f64>,
    /// Mean of the sequences that run in `first_come`, over all replicas.
    pub first_come_in_flight: f64,
    /// The same in `longest_first`.
    pub longest_first_in_flight: f64,
    /// All tokens in steps of full batches on all replicas: no order is faster.
    pub full_batch: f64,
    /// The longest answer alone: no number of replicas is faster.
    pub longest_alone: f64,
}

/// The bounds of `jobs` on `replicas` such engines.
#[must_use]
pub fn bounds(limits: &Limits, jobs: &[Job], replicas: usize) -> Bounds {
    let in_order: Vec<&Job> = jobs.iter().collect();
    let mut by_length = in_order.clone();
    by_length.sort_by_key(|job| std::cmp::Reverse(job.output));
    let (first_come, first_come_in_flight) = makespan(limits, &in_order, replicas);
    let (longest_first, longest_first_in_flight) = makespan(limits, &by_length, replicas);
    let mut by_history = in_order.clone();
    by_history.sort_by_key(|job| std::cmp::Reverse(job.before));
    let is_known = !jobs.is_empty() && jobs.iter().all(|job| job.before.is_some());
    let by_history = is_known.then(|| makespan(limits, &by_history, replicas).0);
    let longest = by_length.first().map_or(Duration::ZERO, |job| alone(limits, job));
    Bounds {
        first_come,
        longest_first,
        by_history,
        first_come_in_flight,
        longest_first_in_flight,
        full_batch: full_batch(limits, jobs, replicas),
        longest_alone: longest.as_secs_f64(),
    }
}

/// Runs jobs from one queue: its seconds, and the mean of what ran on all replicas together.
fn makespan(limits: &Limits, jobs: &[&Job], replicas: usize) -> (f64, f64) {
    let mut engines: Vec<Engine> = (0..replicas.max(1)).map(|_| Engine::new(limits.clone())).collect();
    let mut queue = jobs.iter();
    let places = limits.max_num_seqs as usize;
    // Replicas that start together take in turn; later each takes as places fall free.
    for place in 0..places * engines.len() {
        let Some(job) = queue.next() else { break };
        let at = place % engines.len();
        engines[at].submit(job.arrival()).ok();
    }
    let mut active: Vec<usize> = (0..engines.len()).collect();
    while let Some(at) = active.iter().copied().min_by_key(|at| engines[*at].now()) {
        let engine = &mut engines[at];
        while engine.waiting() == 0 && engine.running() < limits.max_num_seqs {
            let Some(job) = queue.next() else { break };
            let free = limits.max_num_seqs - engine.running();
            engine.submit(job.arrival()).ok();
            for job in queue.by_ref().take(free as usize - 1) {
                engine.submit(job.arrival()).ok();
            }
        }
        if engine.step().is_none() {
            active.retain(|other| *other != at);
        }
    }
    let end = engines.iter().map(Engine::now).max().unwrap_or_default().as_secs_f64();
    let running: f64 = engines.iter().map(|engine| engine.totals().running_seconds).sum();
    (end, if end > 0.0 { running / end } else { 0.0 })
}

fn alone(limits: &Limits, job: &Job) -> Duration {
    let prefill = limits.prefill_per_token * job.prompt;
    limits.first_token + prefill + limits.step_time(1, 0) * job.output
}

fn full_batch(limits: &Limits, jobs: &[Job], replicas: usize) -> f64 {
    let tokens: u64 = jobs.iter().map(|job| u64::from(job.output)).sum();
    let batch = f64::from(limits.max_num_seqs);
    let step = limits.step_time(limits.max_num_seqs, 0).as_secs_f64();
    tokens as f64 / batch * step / replicas.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(output: u32) -> Job {
        Job {
            chain: Arc::from([]),
            prompt: 4,
            output,
            before: None,
            reads_cache: true,
        }
    }

    fn limits() -> Limits {
        Limits {
            max_num_seqs: 2,
            step: Duration::from_millis(10),
            step_per_sequence: Duration::ZERO,
            first_token: Duration::ZERO,
            ..Limits::default()
        }
    }

    fn milliseconds(seconds: f64) -> u64 {
        (seconds * 1000.0).round() as u64
    }

    #[test]
    fn the_longest_first_is_never_slower_where_the_tail_comes_last() {
        let jobs: Vec<Job> = [10, 10, 10, 10, 40].map(job).to_vec();
        let bounds = bounds(&limits(), &jobs, 1);
        assert_eq!(milliseconds(bounds.first_come), 600);
        assert_eq!(milliseconds(bounds.longest_first), 400);
        assert_eq!(milliseconds(bounds.full_batch), 400);
        assert_eq!(milliseconds(bounds.longest_alone), 400);
        assert!((bounds.longest_first_in_flight - 2.0).abs() < 1e-9);
        assert!((bounds.first_come_in_flight - 80.0 / 60.0).abs() < 1e-9);
    }

    #[test]
    fn who_knows_the_earlier_lengths_alone_is_bounded_by_how_they_changed() {
        let jobs = |before: [u32; 5]| -> Vec<Job> {
            let outputs = [10, 10, 10, 10, 40].into_iter().zip(before);
            outputs
                .map(|(output, before)| Job {
                    before: Some(before),
                    ..job(output)
                })
                .collect()
        };
        let by_history = |before| bounds(&limits(), &jobs(before), 1).by_history.map(milliseconds);
        assert_eq!(by_history([9, 9, 9, 9, 30]), Some(400));
        assert_eq!(by_history([9, 9, 9, 9, 1]), Some(600));
        assert_eq!(bounds(&limits(), &[job(10)], 1).by_history, None);
    }

    #[test]
    fn replicas_share_one_queue_evenly() {
        let jobs: Vec<Job> = (0..8).map(|_| job(10)).collect();
        assert_eq!(milliseconds(bounds(&limits(), &jobs, 1).first_come), 400);
        assert_eq!(milliseconds(bounds(&limits(), &jobs, 2).first_come), 200);
        assert_eq!(milliseconds(bounds(&limits(), &jobs, 4).first_come), 100);
        assert_eq!(milliseconds(bounds(&limits(), &jobs[..2], 2).first_come), 100);
    }

    #[test]
    fn no_work_takes_no_time() {
        let bounds = bounds(&limits(), &[], 2);
        assert_eq!((bounds.first_come, bounds.longest_alone), (0.0, 0.0));
    }
}
