//! What follows what for one delivered completion: a pure rule that the [service](crate::run) carries out.

use std::sync::Arc;

use tidemill_domain::{Class, Completion, Grade, ItemKey, Outcome, Served, Timestamp};
use tidemill_service::{Failure, Settled, now};
use tidemill_storage::{Error, StoredItem};

use crate::{Postponed, Runners, Suite};

/// The grader that stands in the grade of a completion that could not be read.
const NO_GRADER: &str = "none";

/// What happened to a delivered completion.
#[derive(Debug)]
pub enum Event {
    /// Its body was read, from the message or from the object store.
    Read(Result<Box<Completion>, Error>),
    /// The item of its key was looked for, with the suite of its manifest; `None` when that does not declare the key.
    Found(Box<Completion>, Result<Option<Declared>, Error>),
    /// It was graded.
    Graded(Result<Graded, Failure>),
    /// Its grade was published, or it was not.
    Published {
        /// Whether it is stored, by us or by somebody who was faster.
        stored: Settled,
        /// How the delivery ends once it is.
        then: Settled,
    },
}

/// An item, and the suite that declares it.
#[derive(Debug)]
pub struct Declared {
    /// The suite, with its graders.
    pub suite: Arc<Suite>,
    /// The item.
    pub item: StoredItem,
}

/// A completion's grade, if its manifest declares its key.
#[derive(Debug)]
pub struct Graded {
    key: ItemKey,
    grade: Option<Box<Grade>>,
    family: &'static str,
}

impl Graded {
    /// The grade; `None` when the manifest does not declare the completion's key.
    #[must_use]
    pub fn grade(&self) -> Option<&Grade> {
        self.grade.as_deref()
    }
}

/// What is to be done next.
#[derive(Debug)]
pub enum Action {
    /// Find the completion's item and the suite of its manifest.
    Find(Box<Completion>),
    /// Grade the completion with [`graded`].
    Grade(Box<Completion>, Declared),
    /// Publish the grade and wait until it is stored; the first write wins.
    Publish {
        /// What is published.
        grade: Box<Grade>,
        /// The kind of its grader.
        family: &'static str,
        /// How the delivery ends afterwards.
        then: Settled,
    },
    /// Settle the delivery.
    Settle(Settled),
}

/// Grades a completion.
#[must_use]
pub fn graded(declared: &Declared, completion: &Completion, at: Timestamp) -> Graded {
    Graded {
        key: completion.key.clone(),
        grade: declared.suite.grade(&declared.item, completion, at).map(Box::new),
        family: declared.suite.family(completion.key.benchmark),
    }
}

/// Grades a completion, also by what has to be run for that.
pub(crate) async fn graded_with(
    declared: &Declared,
    completion: &Completion,
    runners: &Runners,
) -> Result<Graded, Failure> {
    let grade = declared
        .suite
        .grade_with(runners, &declared.item, completion, now)
        .await;
    let grade = grade.transpose().map_err(postponed)?;
    Ok(Graded {
        key: completion.key.clone(),
        grade: grade.map(Box::new),
        family: declared.suite.family(completion.key.benchmark),
    })
}

/// What is given back on purpose: no failure of its message, however often it is.
fn postponed(postponed: Postponed) -> Failure {
    Failure {
        class: Class::Cancelled,
        reason: postponed.reason,
        pause: postponed.pause,
    }
}

/// What follows an event of a completion that came under `key`'s subject. The grade is stored before the delivery is settled
/// as done.
#[must_use]
pub fn next(event: Event, key: Option<&ItemKey>) -> Action {
    match event {
        Event::Read(Ok(completion)) if key != Some(&completion.key) => {
            let key = &completion.key;
            let reason = format!("a completion of {key} under another key's subject");
            Action::Settle(Err(Failure::permanent(reason)))
        }
        Event::Read(Ok(completion)) => Action::Find(completion),
        Event::Read(Err(error)) => unreadable(key, None, &error),
        Event::Found(completion, Ok(Some(declared))) => Action::Grade(completion, declared),
        Event::Found(completion, Ok(None)) => undeclared(&completion.key),
        Event::Found(completion, Err(error)) => unreadable(key, Some(&completion), &error),
        Event::Graded(Ok(Graded {
            grade: Some(grade),
            family,
            ..
        })) => Action::Publish {
            grade,
            family,
            then: Ok(()),
        },
        Event::Graded(Ok(Graded { key, .. })) => undeclared(&key),
        Event::Graded(Err(failure)) => Action::Settle(Err(failure)),
        Event::Published { stored: Ok(()), then } => Action::Settle(then),
        Event::Published { stored, .. } => Action::Settle(stored),
    }
}

fn undeclared(key: &ItemKey) -> Action {
    Action::Settle(Err(Failure::permanent(format!(
        "{key} is not declared by its manifest"
    ))))
}

/// Records a fault of the grader for a completion that will never be readable, or whose manifest will not, so that its
/// evaluation can end; the delivery becomes a dead letter. What a newer grader reads gets no grade here: it
/// is left to that one, and held when none comes.
fn unreadable(key: Option<&ItemKey>, completion: Option<&Completion>, error: &Error) -> Action {
    let failure = Failure::of(error.class(), error);
    let Some(key) = key.filter(|_| failure.class == Class::Permanent) else {
        return Action::Settle(Err(failure));
    };
    let fault = fault(key.clone(), failure.reason.clone());
    let grade = match completion {
        Some(completion) => with_costs(fault, completion),
        None => fault,
    };
    Action::Publish {
        grade: Box::new(grade),
        family: NO_GRADER,
        then: Err(failure),
    }
}

pub(crate) fn fault(key: ItemKey, reason: String) -> Grade {
    let now = now();
    Grade {
        key,
        outcome: Outcome::GraderError,
        score: 0.0,
        score_before_cut: None,
        extracted: None,
        grader: NO_GRADER.to_owned(),
        reason: Some(reason),
        truncated: false,
        cut_in_reasoning: false,
        replaced: false,
        prompt_tokens: 0,
        completion_tokens: 0,
        requests: 0,
        cached: false,
        served: Served::default(),
        started: now,
        finished: now,
        graded: now,
        extractor: None,
        span: None,
        canonical: None,
        measures: Vec::new(),
        judge: None,
    }
}

/// A grade with what its completion cost, and when.
fn with_costs(grade: Grade, completion: &Completion) -> Grade {
    Grade {
        prompt_tokens: completion.prompt_tokens,
        completion_tokens: completion.completion_tokens,
        requests: completion.requests,
        cached: completion.cached,
        served: completion.served,
        started: completion.started,
        finished: completion.finished,
        ..grade
    }
}
