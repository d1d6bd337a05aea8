//! What operators do with letters: retry and drop. Both take the steps in an order in which a kill between two of them loses
//! nothing, and doing them twice does no harm.

use async_nats::HeaderMap;
use tidemill_domain::{Class, Completion};
use tidemill_streams::{CheckpointMessage, Released, declared};

use super::letter::{Letter, Stored, delete_body, store};
use crate::outcome::{self, Recorded, Stage};
use crate::{Context, Failure, Ttl};

/// What became of a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retried {
    /// The message is published again, or waits already, and the letter is gone.
    Published,
    /// Publishing it would change nothing, for this reason; the letter stays.
    NoEffect(String),
}

/// What became of a drop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dropped {
    /// The item's outcome is recorded as a failure, and the letter is gone.
    Recorded,
    /// No outcome had to be recorded, for this reason; the letter is gone.
    Removed(String),
}

/// Publishes a letter's message again, on the subject that it came on, and then deletes the letter.
///
/// A work queue refuses a second message of a subject that waits. In a stream where the first write of a subject wins the
/// message is appended behind the one that was given up, and behind no other, so that its consumer sees it once more.
///
/// # Errors
/// When the broker or the store does not answer: nothing is lost, and the same again is right.
pub async fn retry(context: &Context, letter: &Letter, payload: Vec<u8>) -> Result<Retried, Failure> {
    if let Some(reason) = no_effect(context, letter).await? {
        return Ok(Retried::NoEffect(reason));
    }
    let on = letter.subject.clone().unwrap_or_default();
    let (publisher, trace) = (&context.publisher, letter.trace);
    let mut stored = lies(letter);
    match outcome::stage_of(&on) {
        Some(Stage::Generate) => {
            stored = free_queue(context, letter, &payload).await?;
            publisher
                .publish_bytes::<Released>(on, payload, trace, Ttl::Stream, HeaderMap::new())
                .await?;
        }
        Some(Stage::Grade) => {
            let last = letter.origin.as_ref().map_or(0, |origin| origin.sequence);
            publisher.publish_again::<Completion>(on, payload, trace, last).await?;
        }
        None => {
            publisher
                .publish_bytes::<CheckpointMessage>(on, payload, trace, Ttl::Stream, HeaderMap::new())
                .await?;
        }
    }
    delete_letter(context, &stored).await?;
    Ok(Retried::Published)
}

async fn no_effect(context: &Context, letter: &Letter) -> Result<Option<String>, Failure> {
    let Some(on) = letter.subject.as_deref().filter(|subject| !subject.is_empty()) else {
        return Ok(Some(if letter.is_advisory {
            "its message is not there any more".to_owned()
        } else {
            "it does not say where it came from".to_owned()
        }));
    };
    let Some(stage) = outcome::stage_of(on) else {
        return Ok((!on.starts_with("tm.checkpoint.")).then(|| format!("nobody works on what comes on {on}")));
    };
    let Some(key) = letter.key() else {
        return Ok(Some(format!("{on} is not the subject of an item")));
    };
    if outcome::is_recorded(context, on).await? {
        let what = match stage {
            Stage::Generate => "completion",
            Stage::Grade => "grade",
        };
        return Ok(Some(format!(
            "{key} has a {what}, and the first one stands; `tidemill dead drop {}` removes the letter",
            letter.sequence
        )));
    }
    match outcome::newest_event(context, &key.evaluation).await? {
        None => Ok(Some(format!("evaluation {} is not known", key.evaluation))),
        Some(event) if event.state.is_ended() => Ok(Some(format!(
            "evaluation {} has ended ({}): ask for it again first",
            key.evaluation,
            event.state.label()
        ))),
        Some(_) => Ok(None),
    }
}

/// A message that is delivered no more, or whose end was not told to the broker, still lies in its queue, which would refuse
/// it a second time: it is deleted there. Where the letter is an advisory the bytes are secured in a letter of their own
/// before. Returns where the letter lies that has them.
async fn free_queue(context: &Context, letter: &Letter, payload: &[u8]) -> Result<Stored, Failure> {
    let mut stored = lies(letter);
    let Some(origin) = &letter.origin else {
        return Ok(stored);
    };
    if letter.is_advisory {
        stored = store(context, "generator", letter, payload.to_vec()).await?;
    }
    delete(context, &origin.stream, origin.sequence).await?;
    if letter.is_advisory {
        delete(context, declared::DEAD.name, letter.sequence).await?;
    }
    Ok(stored)
}

fn lies(letter: &Letter) -> Stored {
    Stored {
        sequence: letter.sequence,
        claim: letter.claim.clone(),
    }
}

/// Gives a letter up for good: records its item's outcome, and deletes the letter.
///
/// # Errors
/// As [`retry`].
pub async fn discard(context: &Context, letter: &Letter, payload: &[u8], reason: &str) -> Result<Dropped, Failure> {
    let on = letter.subject.as_deref().unwrap_or_default();
    let reason = format!(
        "dropped by the operator: {reason} (it was here because: {})",
        letter.reason
    );
    let recorded = outcome::record(context, on, payload, &reason).await?;
    // A message that is delivered no more would lie in its queue for ever.
    if let Some(origin) = &letter.origin
        && outcome::stage_of(on) == Some(Stage::Generate)
    {
        delete(context, &origin.stream, origin.sequence).await?;
    }
    delete_letter(context, &lies(letter)).await?;
    Ok(match recorded {
        Recorded::Stored => Dropped::Recorded,
        Recorded::AlreadyThere => Dropped::Removed("its item had an outcome, which stands".to_owned()),
        Recorded::NobodyWaits(reason) => Dropped::Removed(reason),
    })
}

/// Deletes a letter and then its bytes: killed in between, it leaves bytes that nobody names, and never a letter without them.
async fn delete_letter(context: &Context, stored: &Stored) -> Result<(), Failure> {
    delete(context, declared::DEAD.name, stored.sequence).await?;
    delete_body(context, stored.claim.as_deref()).await
}

/// Deletes a message; one that is gone already is no failure.
async fn delete(context: &Context, stream: &str, sequence: u64) -> Result<(), Failure> {
    let stream = context.jetstream().get_stream_no_info(stream).await;
    let stream = stream.map_err(|error| Failure::of(Class::Transient, &error))?;
    match stream.delete_message(sequence).await {
        Ok(_) => Ok(()),
        Err(error) => match stream.get_raw_message(sequence).await {
            Err(_) => Ok(()),
            Ok(_) => Err(Failure::of(Class::Transient, &error)),
        },
    }
}
