//! Taking back outcomes that say nothing of the model, for an evaluation that is announced again.

use std::collections::HashSet;

use async_nats::jetstream::stream::LastRawMessageErrorKind;
use futures::{StreamExt as _, TryStreamExt as _};
use tidemill_domain::{Completion, Ending, EvaluationEvent, Grade, ItemKey, Outcome};
use tidemill_service::{Context, Follow, Start};
use tidemill_streams::{Stream, declared, subject};

use crate::Error;

/// Samples taken back at once, each waiting for the broker.
const IN_FLIGHT: usize = 64;

/// Whether an outcome is a fault of what serves the model: asked again, the sample may have another one.
#[must_use]
pub const fn is_fault_of_serving(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::EngineError | Outcome::Empty | Outcome::ContextOverflow
    )
}

/// Whether an outcome is a fault of what grades: graded again, the same answer may have another one.
#[must_use]
pub const fn is_fault_of_grading(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::GraderError | Outcome::Ungraded)
}

/// Takes back the grades of samples that a grader failed, and no completion, so that they are graded again without a request
/// to an engine. `kept` are left as they are. The streams hold everything of the evaluation, which has ended. Returns how many.
///
/// Each is taken back up to where it was seen, as by [`retract_failures`].
///
/// # Errors
/// [`Error::Broker`]; what was taken back before stays so, and the same again is right.
pub async fn retract_grades(context: &Context, event: &EvaluationEvent, kept: &HashSet<ItemKey>) -> Result<u64, Error> {
    let failed = failed(context, event, kept, is_fault_of_grading).await;
    let taken = futures::stream::iter(failed)
        .map(|(key, graded)| async move { take(context, declared::GRADE, subject::grade(&key), graded).await });
    let taken: Vec<()> = taken.buffer_unordered(IN_FLIGHT).try_collect().await?;
    Ok(taken.len() as u64)
}

/// Takes back the completions and grades of samples that an engine failed, so that they are asked for again, and no others.
/// `kept` are left as they are. The streams hold everything of the evaluation, which has ended. Returns how many.
///
/// The completion goes first: after a crash in between its grade says that there is something to take back. Each is taken
/// back up to where it was seen, so that a late or repeated call takes nothing of a later life that went well.
///
/// # Errors
/// [`Error::Broker`]; what was taken back before stays so, and the same again is right.
pub async fn retract_failures(
    context: &Context,
    event: &EvaluationEvent,
    kept: &HashSet<ItemKey>,
) -> Result<u64, Error> {
    let failed = failed(context, event, kept, is_fault_of_serving).await;
    let taken = futures::stream::iter(failed).map(|(key, graded)| retract(context, key, graded));
    let taken: Vec<bool> = taken.buffer_unordered(IN_FLIGHT).try_collect().await?;
    Ok(taken.into_iter().map(u64::from).sum())
}

/// The samples whose grades tell of such a failure, `kept` aside, and where in their stream those stand.
async fn failed(
    context: &Context,
    event: &EvaluationEvent,
    kept: &HashSet<ItemKey>,
    is_failure: fn(Outcome) -> bool,
) -> Vec<(ItemKey, u64)> {
    let filter = subject::grade_of_evaluation(&event.evaluation);
    let mut grades = Follow::open(context, declared::GRADE, filter, false, Start::LastPerSubject).await;
    let mut failed = Vec::new();
    while let Some(message) = grades.next_known().await {
        let Ok(grade) = tidemill_codec::decode::<Grade>(&message.payload) else {
            continue;
        };
        if is_failure(grade.outcome) && !kept.contains(&grade.key) {
            failed.push((grade.key, message.sequence));
        }
    }
    failed
}

/// Takes back one completion with the grade that was seen at a place of its stream. False where there is an answer by now.
async fn retract(context: &Context, key: ItemKey, graded: u64) -> Result<bool, Error> {
    let on = subject::done(&key);
    let failed = |error: &dyn std::fmt::Display| Error::broker("read a completion of", declared::DONE.name, error);
    let stream = context.jetstream().get_stream_no_info(declared::DONE.name).await;
    let last = stream
        .map_err(|error| failed(&error))?
        .get_last_raw_message_by_subject(&on)
        .await;
    match last {
        Ok(message) if !may_answer_otherwise(&message.payload) => return Ok(false),
        Ok(message) => take(context, declared::DONE, on, message.sequence).await?,
        // Taken back before a crash, or never there.
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {}
        Err(error) => return Err(failed(&error)),
    }
    take(context, declared::GRADE, subject::grade(&key), graded).await?;
    Ok(true)
}

/// It holds no answer. What cannot be read here, or is too large for a message, holds one.
fn may_answer_otherwise(payload: &[u8]) -> bool {
    let completion = tidemill_codec::decode::<Completion>(payload);
    completion.is_ok_and(|completion| match completion.ending {
        // The context is what the server was started with.
        Ending::EngineError | Ending::Empty | Ending::ContextOverflow => true,
        Ending::Stop => completion.completion_tokens == 0,
        Ending::Length | Ending::Scored | Ending::Refused => false,
    })
}

/// Removes the messages of a subject up to and with a place.
async fn take(context: &Context, stream: Stream, on: String, through: u64) -> Result<(), Error> {
    let name = stream.name;
    let failed = |error: &dyn std::fmt::Display| Error::broker("take a failed sample out of", name, error);
    let found = context.jetstream().get_stream_no_info(name).await;
    let purge = found
        .map_err(|error| failed(&error))?
        .purge()
        .filter(on)
        .sequence(through + 1)
        .await;
    purge.map(drop).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_or_the_suite_decided_is_not_taken_back() {
        let taken = |is_taken: fn(Outcome) -> bool| {
            let all = Outcome::ALL.into_iter();
            all.filter(|outcome| is_taken(*outcome)).collect::<Vec<_>>()
        };
        let of_serving = [Outcome::Empty, Outcome::ContextOverflow, Outcome::EngineError];
        assert_eq!(taken(is_fault_of_serving), of_serving);
        assert_eq!(taken(is_fault_of_grading), [Outcome::GraderError, Outcome::Ungraded]);
        assert!(!may_answer_otherwise(b"of a newer version"));
    }
}
