//! What a run came to, compared with the undisturbed one.

use std::collections::HashMap;
use std::time::SystemTime;

use serde::Serialize;
use tidemill_testkit::engine::Asked;

use super::evidence::Evidence;
use super::pipeline::Hit;
use super::work::{Sample, sample_of};

/// The figures of one run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The seed of its moments.
    pub seed: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Declared samples.
    pub items: u64,
    /// Samples without a completion or without a grade.
    pub lost: u64,
    /// Completions, grades, last results and ends beyond one each.
    pub twice: u64,
    /// Requests for what had been stored already.
    pub regenerated: u64,
    /// Requests made again although nothing that was in flight was disturbed.
    pub unexplained: u64,
    /// Requests made again because they were in flight at a disturbance.
    pub asked_again: u64,
    /// Completion tokens of the answers to those.
    pub tokens_again: u64,
    /// Seconds from each restart to the first request after it.
    pub seconds_to_first_request: Vec<f64>,
    /// Seconds from the announcement to the end.
    pub wall_seconds: f64,
    /// Names of the fault points that were passed.
    pub points: Vec<&'static str>,
    /// What else differs from the undisturbed run, for people.
    pub differences: Vec<String>,
}

impl Outcome {
    /// Nothing was lost, done twice or asked again, and the report is the undisturbed one.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost + self.twice + self.regenerated + self.unexplained == 0 && self.differences.is_empty()
    }

    /// Counts what the streams hold.
    pub(super) fn count(&mut self, evidence: &Evidence, declared: u64) {
        self.items = declared;
        for stored in [&evidence.done, &evidence.graded] {
            self.lost += declared.saturating_sub(stored.samples());
            self.twice += stored.repeats() + stored.samples().saturating_sub(declared);
        }
        let last_results = evidence.last_results.values().copied();
        self.twice += last_results
            .chain([evidence.ends])
            .map(|count| count.saturating_sub(1) as u64)
            .sum::<u64>();
    }

    /// Judges every request that was made again, and times the first one after each restart.
    pub(super) fn judge(&mut self, journal: &[Asked], evidence: &Evidence, hits: &[Hit]) {
        let mut earlier: HashMap<(Sample, &str), SystemTime> = HashMap::new();
        for asked in journal {
            let Some(sample) = sample_of(asked) else { continue };
            let Some(before) = earlier.insert((sample, &asked.prompt), asked.arrived) else {
                continue;
            };
            let was_in_flight = |hit: &Hit| before <= hit.to && asked.arrived >= hit.from;
            if evidence.done.time(&sample).is_some_and(|stored| stored < asked.arrived) {
                self.regenerated += 1;
                self.differences
                    .push(format!("{sample:?} was asked again after its completion was stored"));
            } else if hits.iter().any(was_in_flight) {
                self.asked_again += 1;
                self.tokens_again += asked.ended.and_then(|end| end.answered).unwrap_or_default();
            } else {
                self.unexplained += 1;
                self.differences
                    .push(format!("{sample:?} was asked again for no reason"));
            }
        }
        self.kills = hits.iter().map(|hit| hit.kills).sum();
        for hit in hits {
            let first = journal.iter().find(|asked| asked.arrived >= hit.to);
            let seconds = first.and_then(|asked| asked.arrived.duration_since(hit.to).ok());
            self.seconds_to_first_request
                .extend(seconds.map(|time| time.as_secs_f64()));
        }
    }
}
