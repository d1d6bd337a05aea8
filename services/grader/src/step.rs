//! What follows what for one delivered completion: a pure rule that the [service](crate::run) carries out.

use std::sync::Arc;

use tidemill_domain::{Class, Completion, Grade, ItemKey, Outcome, Timestamp};
use tidemill_service::{Failure, Settled, now};
use tidemill_storage::{Error, StoredItem};

use crate::Suite;

/// The grader that stands in the grade of a completion that could not be read.
const NO_GRADER: &str = "none";

/// What happened to a delivered completion.
#[derive(Debug)]
pub enum Event {
    /// Its body was read, from the message or from the object store.
    Read(Result<Box<Completion>, Error>),
    /// The suite of its manifest and its item there were looked for.
    Found(Box<Completion>, Result<Question, Error>),
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

/// What was asked, and how answers to it are graded.
#[derive(Debug, Clone)]
pub struct Question {
    /// The suite, with its graders.
    pub suite: Arc<Suite>,
    /// The item; `None` when the suite does not declare it.
    pub item: Option<StoredItem>,
}

/// A completion's grade, if its manifest declares its key.
#[derive(Debug)]
pub struct Graded {
    key: ItemKey,
    grade: Option<Box<Grade>>,
    family: &'static str,
}

/// What is to be done next.
#[derive(Debug)]
pub enum Action {
    /// Find the suite of the completion's manifest, and its item.
    Find(Box<Completion>),
    /// Grade the completion with [`graded`].
    Grade(Box<Completion>, Question),
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
pub fn graded(question: &Question, completion: &Completion, at: Timestamp) -> Graded {
    let Question { suite, item } = question;
    let grade = item.as_ref().and_then(|item| suite.grade(item, completion, at));
    Graded {
        key: completion.key.clone(),
        grade: grade.map(Box::new),
        family: suite.family(completion.key.benchmark),
    }
}

/// What follows an event of a completion that came under `key`'s subject, delivered so often. The grade is stored before
/// the delivery is settled as done.
#[must_use]
pub fn next(event: Event, key: Option<&ItemKey>, delivered: i64) -> Action {
    match event {
        Event::Read(Ok(completion)) if key != Some(&completion.key) => {
            let key = &completion.key;
            let reason = format!("a completion of {key} under another key's subject");
            Action::Settle(Err(Failure::permanent(reason)))
        }
        Event::Read(Ok(completion)) => Action::Find(completion),
        Event::Read(Err(error)) => unreadable(key, None, &error, delivered),
        Event::Found(completion, Ok(question)) => Action::Grade(completion, question),
        Event::Found(completion, Err(error)) => unreadable(key, Some(&completion), &error, delivered),
        Event::Graded(Ok(Graded {
            grade: Some(grade),
            family,
            ..
        })) => Action::Publish {
            grade,
            family,
            then: Ok(()),
        },
        Event::Graded(Ok(Graded { key, .. })) => {
            let reason = format!("{key} is not declared by its manifest");
            Action::Settle(Err(Failure::permanent(reason)))
        }
        Event::Graded(Err(failure)) => Action::Settle(Err(failure)),
        Event::Published { stored: Ok(()), then } => Action::Settle(then),
        Event::Published { stored, .. } => Action::Settle(stored),
    }
}

/// Records a fault of the grader for a completion that will never be readable, or whose manifest will not, so that its
/// evaluation can end; the delivery becomes a dead letter. What a newer grader reads is left to that one for a while.
fn unreadable(key: Option<&ItemKey>, completion: Option<&Completion>, error: &Error, delivered: i64) -> Action {
    if let Some(failure) = Failure::left_to_newer(error, delivered) {
        return Action::Settle(Err(failure));
    }
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
        prompt_tokens: 0,
        completion_tokens: 0,
        requests: 0,
        cached: false,
        started: now,
        finished: now,
        graded: now,
    }
}

/// A grade with what its completion cost, and when.
fn with_costs(grade: Grade, completion: &Completion) -> Grade {
    Grade {
        prompt_tokens: completion.prompt_tokens,
        completion_tokens: completion.completion_tokens,
        requests: completion.requests,
        cached: completion.cached,
        started: completion.started,
        finished: completion.finished,
        ..grade
    }
}
