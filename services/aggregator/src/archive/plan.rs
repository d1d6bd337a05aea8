//! Which evaluation is archived or purged next, and when: a pure rule over events, records and failures.

use std::collections::HashMap;
use std::time::Duration;

use tidemill_archive::{Record, State};
use tidemill_config::Archive;
use tidemill_domain::{EvaluationEvent, EvaluationId, Timestamp};

use crate::evaluation::Newest;

/// The pause after a first failure; it doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause: a store that was full is looked at again soon after someone made room.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Task {
    /// Write the archive of an evaluation whose newest event this is.
    Archive(Box<EvaluationEvent>),
    /// Take out of the broker what its archive holds.
    Purge(Box<EvaluationEvent>),
}

/// Evaluations that ended and are not yet out of the broker.
#[derive(Debug)]
pub(crate) struct Plan {
    after: i64,
    keep: i64,
    /// The broker has little room left: what is archived is not kept there any longer.
    is_tight: bool,
    entries: HashMap<EvaluationId, Entry>,
    /// Records that were read before their evaluation's events.
    records: HashMap<EvaluationId, Record>,
}

#[derive(Debug)]
struct Entry {
    newest: Newest,
    record: Option<Record>,
    failures: u32,
    not_before: Timestamp,
}

impl Plan {
    pub(crate) fn new(config: &Archive) -> Self {
        Self {
            after: micros(config.after),
            keep: micros(config.keep),
            is_tight: false,
            entries: HashMap::new(),
            records: HashMap::new(),
        }
    }

    /// Takes in an event, in any order: one that ended waits, one that was announced again does not.
    pub(crate) fn note(&mut self, newest: Newest) {
        let id = newest.event.evaluation.clone();
        if let Some(entry) = self.entries.get_mut(&id) {
            if newest.displaces(&entry.newest) {
                entry.newest = newest;
            }
            return;
        }
        let record = self.records.remove(&id);
        self.entries.insert(
            id,
            Entry {
                newest,
                record,
                failures: 0,
                not_before: Timestamp(i64::MIN),
            },
        );
    }

    /// Takes in a record as it is now.
    pub(crate) fn record(&mut self, record: Record) {
        match self.entries.get_mut(&record.evaluation) {
            Some(entry) => {
                entry.failures = 0;
                entry.not_before = Timestamp(i64::MIN);
                if matches!(record.state, State::Purged | State::Empty) {
                    // Nothing more is done about it; whole results of thousands of evaluations would stay in memory.
                    entry.newest.event.result = None;
                }
                entry.record = Some(record);
            }
            None => drop(self.records.insert(record.evaluation.clone(), record)),
        }
    }

    /// Takes in whether the broker has little room left: then what is archived is purged at once, the oldest first.
    pub(crate) const fn tight(&mut self, is_tight: bool) {
        self.is_tight = is_tight;
    }

    /// A task of an evaluation failed; it is tried again after a pause. True at the first failure in a row.
    pub(crate) fn failed(&mut self, evaluation: &EvaluationId, now: Timestamp) -> bool {
        let Some(entry) = self.entries.get_mut(evaluation) else {
            return false;
        };
        let pause = FIRST_PAUSE
            .saturating_mul(1 << entry.failures.min(16))
            .min(LONGEST_PAUSE);
        entry.failures += 1;
        entry.not_before = Timestamp(now.0.saturating_add(micros(pause)));
        entry.failures == 1
    }

    /// The task that has been due for longest, or when the next one will be.
    pub(crate) fn next(&self, now: Timestamp) -> Result<Task, Option<Timestamp>> {
        let tasks = self.entries.values().filter_map(|entry| self.task(entry));
        match tasks.min_by_key(|(at, _)| *at) {
            Some((at, task)) if at <= now => Ok(task),
            next => Err(next.map(|(at, _)| at)),
        }
    }

    /// Evaluations that ended and have no archive yet.
    pub(crate) fn backlog(&self) -> usize {
        let tasks = self.entries.values().filter_map(|entry| self.task(entry));
        tasks.filter(|(_, task)| matches!(task, Task::Archive(_))).count()
    }

    fn task(&self, entry: &Entry) -> Option<(Timestamp, Task)> {
        let event = &entry.newest.event;
        if !event.state.is_ended() {
            return None;
        }
        let record = entry.record.as_ref().filter(|record| record.is_of(event));
        let (at, task) = match record.map(|record| (record.state, record.at)) {
            None | Some((State::Waiting, _)) => (later(event.at, self.after), Task::Archive(Box::new(event.clone()))),
            // Whoever announced it is about to queue it again, or died.
            Some((State::Reopened, at)) => (later(at, self.after), Task::Archive(Box::new(event.clone()))),
            Some((State::Archived, at)) if self.is_tight => (at, Task::Purge(Box::new(event.clone()))),
            Some((State::Archived, at)) => (later(at, self.keep), Task::Purge(Box::new(event.clone()))),
            Some((State::Purging, at)) => (at, Task::Purge(Box::new(event.clone()))),
            Some((State::Purged | State::Empty, _)) => return None,
        };
        Some((at.max(entry.not_before), task))
    }
}

fn later(at: Timestamp, micros: i64) -> Timestamp {
    Timestamp(at.0.saturating_add(micros))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::EvaluationState;

    const SECOND: i64 = 1_000_000;

    fn newest(sequence: u64, state: EvaluationState, at: i64, queued: i64) -> Newest {
        let digest = format!("blake3:{}", "0".repeat(64));
        let mut event: EvaluationEvent = serde_json::from_value(serde_json::json!({
            "schema": 1, "evaluation": "0".repeat(16), "state": "queued", "at": "2024-01-01T00:00:00Z", "run": "r",
            "step": 1, "team": "t", "checkpoint": digest, "manifest": digest, "group": "0".repeat(16),
            "suite": {"name": "s", "version": "1", "tier": "canary"}, "samples": 1,
            "source": {"checkpoint": {"uri": "/c"}}, "timeline": {},
        }))
        .unwrap();
        event.state = state;
        event.at = Timestamp(at * SECOND);
        event.timeline.queued = Some(Timestamp(queued));
        Newest { sequence, event }
    }

    fn plan() -> Plan {
        Plan::new(&Archive {
            enabled: true,
            after: Duration::from_secs(30),
            keep: Duration::from_secs(3_600),
        })
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * SECOND)
    }

    #[test]
    fn what_ended_is_archived_and_later_purged() {
        let mut plan = plan();
        plan.note(newest(1, EvaluationState::Serving, 0, 1));
        assert_eq!(plan.next(at(1_000)), Err(None));
        let ended = newest(2, EvaluationState::Final, 100, 1);
        plan.note(ended.clone());
        assert_eq!(plan.next(at(100)), Err(Some(at(130))));
        assert_eq!(plan.next(at(130)), Ok(Task::Archive(Box::new(ended.event.clone()))));
        assert_eq!(plan.backlog(), 1);
        plan.record(Record::new(&ended.event, State::Archived, at(131), None));
        assert_eq!(plan.backlog(), 0);
        assert_eq!(plan.next(at(200)), Err(Some(at(3_731))));
        let superseded = newest(3, EvaluationState::Superseded, 300, 1);
        plan.note(superseded.clone());
        assert_eq!(
            plan.next(at(3_731)),
            Ok(Task::Purge(Box::new(superseded.event.clone())))
        );
        plan.record(Record::new(&ended.event, State::Purged, at(3_732), None));
        assert_eq!(plan.next(at(9_999)), Err(None));
    }

    #[test]
    fn an_old_event_or_record_of_an_earlier_life_decides_nothing() {
        let mut plan = plan();
        let first = newest(5, EvaluationState::Invalid, 100, 1);
        plan.record(Record::new(&first.event, State::Purged, at(131), None));
        plan.note(newest(9, EvaluationState::Final, 500, 2));
        plan.note(first);
        assert_eq!(
            plan.next(at(500)),
            Err(Some(at(530))),
            "the second life is not archived yet"
        );
    }

    #[test]
    fn what_was_announced_again_is_left_alone() {
        let mut plan = plan();
        plan.note(newest(5, EvaluationState::Invalid, 100, 1));
        plan.note(newest(6, EvaluationState::Queued, 101, 2));
        assert_eq!(plan.next(at(9_999)), Err(None));
    }

    #[test]
    fn a_stale_event_of_a_life_that_ended_changes_nothing() {
        let mut plan = plan();
        let ended = newest(5, EvaluationState::Final, 100, 2);
        plan.note(ended.clone());
        plan.note(newest(6, EvaluationState::Serving, 101, 2));
        plan.note(newest(7, EvaluationState::Queued, 102, 1));
        assert_eq!(plan.next(at(130)), Ok(Task::Archive(Box::new(ended.event))));
    }

    #[test]
    fn where_room_is_short_the_oldest_archive_is_purged_at_once() {
        let mut plan = plan();
        let mut ended = Vec::new();
        for (index, archived) in [140, 120, 160].into_iter().enumerate() {
            let mut newest = newest(2, EvaluationState::Final, 100, 1);
            newest.event.evaluation = EvaluationId::from_digest(&tidemill_domain::Digest::of(&[index as u8]));
            plan.note(newest.clone());
            plan.record(Record::new(&newest.event, State::Archived, at(archived), None));
            ended.push(newest.event);
        }
        assert_eq!(plan.next(at(200)), Err(Some(at(120 + 3_600))));
        plan.tight(true);
        for (index, purged) in [(1, 201), (0, 202), (2, 203)] {
            assert_eq!(plan.next(at(200)), Ok(Task::Purge(Box::new(ended[index].clone()))));
            plan.record(Record::new(&ended[index], State::Purged, at(purged), None));
        }
        assert_eq!(plan.next(at(9_999)), Err(None));
    }

    #[test]
    fn failures_are_tried_again_after_pauses_that_grow_to_a_limit() {
        let mut plan = plan();
        let ended = newest(2, EvaluationState::Final, 100, 1);
        plan.note(ended.clone());
        let id = ended.event.evaluation;
        assert!(plan.failed(&id, at(200)));
        assert_eq!(plan.next(at(200)), Err(Some(at(205))));
        assert!(!plan.failed(&id, at(205)));
        assert_eq!(plan.next(at(205)), Err(Some(at(215))));
        for _ in 0..40 {
            plan.failed(&id, at(300));
        }
        assert_eq!(plan.next(at(300)), Err(Some(at(600))));
    }
}
