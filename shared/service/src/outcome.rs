//! The outcome of an item whose message is given up: a completion or a grade that says so, and that is never a score.
//!
//! Without it nothing would end: the dispatcher would release the item again, and its evaluation would wait for ever.

use tidemill_domain::{
    Class, Completion, Ending, EvaluationEvent, EvaluationId, EvaluationState, Grade, ItemKey, Outcome, Release, Served,
};
use tidemill_streams::{Stream, declared, subject};

use crate::{Context, Failure, Published, leader, now};

/// What became of recording an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// It is stored now.
    Stored,
    /// The item had one, which stands.
    AlreadyThere,
    /// Nobody waits for one, for this reason.
    NobodyWaits(String),
}

/// The grader that stands in the grade of a completion that no grader graded.
pub const NO_GRADER: &str = "none";

/// Records that the item of a given-up message ends here: a release as an engine error, a completion as a grader error. What
/// comes on another subject, or belongs to no evaluation, has no item.
///
/// # Errors
/// When the broker or the store does not answer; trying again is right.
pub async fn record(context: &Context, on: &str, payload: &[u8], reason: &str) -> Result<Recorded, Failure> {
    let Some(key) = subject::key_of(on) else {
        return Ok(Recorded::NobodyWaits(format!("{on} is not the subject of an item")));
    };
    let stage = stage_of(on);
    if stage.is_none() {
        return Ok(Recorded::NobodyWaits(format!("{on} is worked on by nobody")));
    }
    let Some(evaluation) = newest_event(context, &key.evaluation).await? else {
        return Ok(Recorded::NobodyWaits(format!(
            "evaluation {} is not known",
            key.evaluation
        )));
    };
    if evaluation.state.is_ended() {
        // Its messages may be archived and gone. Asked for again, it releases what has no outcome.
        let state = evaluation.state.label();
        return Ok(Recorded::NobodyWaits(format!(
            "evaluation {} has ended ({state})",
            key.evaluation
        )));
    }
    let published = match stage {
        Some(Stage::Generate) => {
            let completion = failed_completion(key, &evaluation, payload, reason);
            context.publisher.publish(&completion, None).await?
        }
        _ => {
            let grade = failed_grade(context, key, payload, reason).await;
            context.publisher.publish(&grade, None).await?
        }
    };
    Ok(match published {
        Published::Stored(_) => Recorded::Stored,
        Published::AlreadyThere => Recorded::AlreadyThere,
    })
}

/// What is done with the messages of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A release becomes a completion.
    Generate,
    /// A completion becomes a grade.
    Grade,
}

/// The stage of an item's subject; `None` for any other.
pub(crate) fn stage_of(on: &str) -> Option<Stage> {
    if on.starts_with("tm.ready.") {
        Some(Stage::Generate)
    } else if on.starts_with("tm.done.") {
        Some(Stage::Grade)
    } else {
        None
    }
}

/// Whether the item of a READY or DONE subject has the outcome that its message was to bring.
///
/// # Errors
/// When the broker does not answer.
pub async fn is_recorded(context: &Context, on: &str) -> Result<bool, Failure> {
    let (Some(key), Some(stage)) = (subject::key_of(on), stage_of(on)) else {
        return Ok(false);
    };
    match stage {
        Stage::Generate => holds(context, declared::DONE, subject::done(&key)).await,
        Stage::Grade => holds(context, declared::GRADE, subject::grade(&key)).await,
    }
}

async fn holds(context: &Context, stream: Stream, on: String) -> Result<bool, Failure> {
    let last = leader::last(context.jetstream(), stream.name, &on).await;
    let last = last.map_err(|error| Failure::of(Class::Transient, &error))?;
    Ok(last.is_some())
}

/// The newest event of an evaluation, by [`EvaluationEvent::displaces`] over the last one of each state; `None` when none is known.
///
/// # Errors
/// When the broker does not answer.
pub async fn newest_event(context: &Context, evaluation: &EvaluationId) -> Result<Option<EvaluationEvent>, Failure> {
    // One read a state, and no consumer: this may be asked for each of thousands of letters.
    let last = EvaluationState::ALL.map(|state| async move {
        let on = subject::evaluation(evaluation, state);
        leader::last(context.jetstream(), declared::EVALUATION.name, &on).await
    });
    let mut events = futures::future::try_join_all(last)
        .await
        .map_err(|error| Failure::of(Class::Transient, &error))?;
    events.sort_by_key(|message| message.as_ref().map(|message| message.sequence));
    let mut newest: Option<EvaluationEvent> = None;
    for message in events.into_iter().flatten() {
        let event = tidemill_streams::evaluation_event(&message.subject, &message.payload);
        if let Some(event) = event.filter(|event| newest.as_ref().is_none_or(|known| event.displaces(known))) {
            newest = Some(event);
        }
    }
    Ok(newest)
}

/// The sequence of the last event with which an evaluation entered a state; 0 when it never did.
///
/// # Errors
/// When the broker does not answer.
pub async fn last_entry(context: &Context, evaluation: &EvaluationId, state: EvaluationState) -> Result<u64, Failure> {
    let on = subject::evaluation(evaluation, state);
    let last = leader::last(context.jetstream(), declared::EVALUATION.name, &on).await;
    let last = last.map_err(|error| Failure::of(Class::Transient, &error))?;
    Ok(last.map_or(0, |message| message.sequence))
}

fn failed_completion(key: ItemKey, evaluation: &EvaluationEvent, payload: &[u8], reason: &str) -> Completion {
    let release = tidemill_codec::decode::<Release>(payload).ok();
    let manifest = release
        .filter(|release| release.key == key)
        .map(|release| release.manifest);
    let now = now();
    Completion {
        key,
        manifest: manifest.unwrap_or_else(|| evaluation.manifest.clone()),
        ending: Ending::EngineError,
        text: String::new(),
        reasoning: None,
        finish_reason: None,
        stop_reason: None,
        truncated: false,
        choices: Vec::new(),
        detail: Some(reason.to_owned()),
        prompt_tokens: 0,
        completion_tokens: 0,
        requests: 0,
        attempts: 0,
        cached: false,
        served: Served::default(),
        generation: None,
        engine: String::new(),
        started: now,
        finished: now,
    }
}

/// The grade of a completion that no grader could grade. It has the completion's costs where those can be read.
async fn failed_grade(context: &Context, key: ItemKey, payload: &[u8], reason: &str) -> Grade {
    // What cannot be read, or fetched, costs nothing as far as is known.
    let completion = context.store.check_out::<Completion>(payload).await.ok();
    let completion = completion.filter(|completion| completion.key == key);
    let now = now();
    let grade = Grade {
        key,
        outcome: Outcome::GraderError,
        score: 0.0,
        score_before_cut: None,
        extracted: None,
        grader: NO_GRADER.to_owned(),
        reason: Some(reason.to_owned()),
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
    };
    match completion {
        Some(completion) => Grade {
            prompt_tokens: completion.prompt_tokens,
            completion_tokens: completion.completion_tokens,
            requests: completion.requests,
            cached: completion.cached,
            served: completion.served,
            started: completion.started,
            finished: completion.finished,
            ..grade
        },
        None => grade,
    }
}
