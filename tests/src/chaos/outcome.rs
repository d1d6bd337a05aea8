//! What a run came to, compared with the undisturbed one.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tidemill_streams::durable::ACK_WAIT;
use tidemill_testkit::engine::Asked;

use super::evidence::Evidence;
use super::pipeline::{Hit, IN_FLIGHT};
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
    /// Requests for what had been stored already, for longer than a look is good for.
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
        let mut used: HashSet<(usize, Sample, &str)> = HashSet::new();
        let mut crossed: HashSet<usize> = HashSet::new();
        for asked in journal {
            let Some(sample) = sample_of(asked) else { continue };
            let Some(before) = earlier.insert((sample, &asked.prompt), asked.arrived) else {
                continue;
            };
            let again = Again {
                before,
                at: asked.arrived,
                stored: evidence.done.time(&sample),
            };
            let explains = |(index, hit): &(usize, &Hit)| {
                again.is_explained_by(hit) && !used.contains(&(*index, sample, asked.prompt.as_str()))
            };
            if let Some((index, _)) = hits.iter().enumerate().find(explains) {
                used.insert((index, sample, &asked.prompt));
                self.asked_again += 1;
                self.tokens_again += asked.ended.and_then(|end| end.answered).unwrap_or_default();
                continue;
            }
            let crosses = |(index, hit): &(usize, &Hit)| again.was_on_its_way_at(hit) && !crossed.contains(index);
            if let Some((index, _)) = hits.iter().enumerate().find(crosses) {
                crossed.insert(index);
                self.asked_again += 1;
                continue;
            }
            if again.is_of_stored() {
                self.regenerated += 1;
            } else {
                self.unexplained += 1;
            }
            self.differences.push(format!("{sample:?}: {}", again.told(hits)));
        }
        let may_be_lost = IN_FLIGHT * hits.iter().filter(|hit| hit.loses_requests).count() as u64;
        if self.asked_again > may_be_lost {
            let told = format!(
                "{} requests made again, {may_be_lost} in flight at most",
                self.asked_again
            );
            self.differences.push(told);
        }
        self.kills = hits.iter().map(|hit| hit.kills).sum();
        for hit in hits.iter().filter(|hit| hit.kills > 0) {
            let first = journal.iter().find(|asked| asked.arrived >= hit.to);
            let seconds = first.and_then(|asked| asked.arrived.duration_since(hit.to).ok());
            self.seconds_to_first_request
                .extend(seconds.map(|time| time.as_secs_f64()));
        }
    }
}

/// A request that was made before.
struct Again {
    before: SystemTime,
    at: SystemTime,
    /// When the completion that it is a part of was stored.
    stored: Option<SystemTime>,
}

/// A generator asks on a look that is at most so old: what was stored since it could not know.
const LOOK_IS_GOOD_FOR: Duration = Duration::from_millis(100);

impl Again {
    fn is_of_stored(&self) -> bool {
        self.stored.is_some_and(|stored| stored + LOOK_IS_GOOD_FOR < self.at)
    }

    /// It was in flight at a disturbance of generators, engine or broker: asked before that was over, and not stored when it began. Each disturbance
    /// excuses one repetition. A process that goes on after a suspension is not excused from looking first.
    ///
    /// A broker that is killed forgets deliveries of its last moments and makes them anew when it is back. One whose holder
    /// had not asked by then is held twice: both look, none finds a completion, and both ask, until the one is answered.
    /// How long the first of them waits for its turn is the machine's affair; after [`ACK_WAIT`] a delivery that nobody keeps
    /// would have been made anew by itself, which is a fault that a kill does not excuse.
    fn is_explained_by(&self, hit: &Hit) -> bool {
        let is_held_twice =
            hit.forgets && self.before <= hit.to + ACK_WAIT && self.stored.is_none_or(|stored| stored > self.at);
        let was_asked = (self.before <= hit.to || is_held_twice) && self.at >= hit.from;
        let was_stored = self.stored.is_some_and(|stored| stored <= hit.from);
        hit.loses_requests && was_asked && !was_stored && !(hit.kills == 0 && self.is_of_stored())
    }

    /// A process was suspended between its look and its request, which it sends as soon as it goes on. That is a matter of
    /// moments, so one request of a suspension is excused; whoever does not look first sends all that it holds.
    fn was_on_its_way_at(&self, hit: &Hit) -> bool {
        hit.kills == 0 && hit.loses_requests && self.at >= hit.to && self.at <= hit.to + LOOK_IS_GOOD_FOR
    }

    fn told(&self, hits: &[Hit]) -> String {
        let seconds = |time: SystemTime| match time.duration_since(self.before) {
            Ok(later) => later.as_secs_f64(),
            Err(earlier) => -earlier.duration().as_secs_f64(),
        };
        let stored = self.stored.map(seconds);
        let hits = hits.iter().map(|hit| {
            format!(
                "{} from {:.3} s to {:.3} s",
                hit.what,
                seconds(hit.from),
                seconds(hit.to)
            )
        });
        let hits: Vec<String> = hits.collect();
        format!(
            "asked again {:.3} s after it had been asked, stored after {stored:.3?} s; {}",
            seconds(self.at),
            hits.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn hit(kills: u64) -> Hit {
        Hit {
            what: String::new(),
            from: at(10),
            to: at(20),
            kills,
            loses_requests: true,
            forgets: false,
        }
    }

    fn again(before: u64, stored: Option<u64>, again: u64) -> Again {
        Again {
            before: at(before),
            at: at(again),
            stored: stored.map(at),
        }
    }

    #[test]
    fn only_what_was_in_flight_at_a_kill_may_be_asked_again() {
        assert!(again(9, None, 21).is_explained_by(&hit(1)));
        assert!(again(9, Some(30), 21).is_explained_by(&hit(1)));
        assert!(!again(8, Some(9), 21).is_explained_by(&hit(1)), "it was stored before");
        assert!(!again(21, None, 22).is_explained_by(&hit(1)), "it was asked after");
        assert!(!again(8, None, 9).is_explained_by(&hit(1)), "it was asked again before");
    }

    #[test]
    fn what_a_killed_broker_forgot_may_be_asked_by_both_holders_until_it_is_stored() {
        let of_a_broker = Hit {
            forgets: true,
            ..hit(1)
        };
        assert!(again(21, None, 22).is_explained_by(&of_a_broker));
        assert!(again(21, Some(23), 22).is_explained_by(&of_a_broker));
        assert!(!again(21, Some(22), 22).is_explained_by(&of_a_broker), "it was stored");
        let late = 20 + ACK_WAIT.as_secs() + 1;
        assert!(
            again(late - 2, None, late).is_explained_by(&of_a_broker),
            "it waited for its turn"
        );
        assert!(
            !again(late, None, late + 1).is_explained_by(&of_a_broker),
            "it was delivered anew by itself"
        );
        assert!(!again(21, None, 22).is_explained_by(&hit(1)), "nobody forgot it");
    }

    #[test]
    fn the_kill_of_a_process_without_requests_excuses_none() {
        let of_a_grader = Hit {
            loses_requests: false,
            ..hit(1)
        };
        assert!(!again(9, None, 21).is_explained_by(&of_a_grader));
    }

    #[test]
    fn one_request_of_a_suspension_may_have_been_on_its_way() {
        assert!(again(9, Some(15), 20).was_on_its_way_at(&hit(0)));
        assert!(
            !again(9, Some(15), 21).was_on_its_way_at(&hit(0)),
            "it had time to look"
        );
        assert!(
            !again(9, Some(15), 20).was_on_its_way_at(&hit(1)),
            "what was killed sends nothing"
        );
    }

    #[test]
    fn a_process_that_goes_on_after_a_suspension_must_look_first() {
        assert!(again(9, None, 15).is_explained_by(&hit(0)));
        assert!(again(9, Some(16), 15).is_explained_by(&hit(0)));
        assert!(!again(9, Some(15), 21).is_explained_by(&hit(0)));
    }
}
