//! Letters: a message as it came, with what is known of it in headers, stored before the message is terminated; and read
//! back.

use std::collections::HashSet;
use std::future::ready;

use async_nats::HeaderMap;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tidemill_domain::{Class, Digest, ItemKey, Timestamp, TraceContext};
use tidemill_storage::CLAIM_ABOVE_BYTES;
use tidemill_streams::{DeadLetter, Message as _, declared, subject};
use tidemill_telemetry::Metric;

use super::advisory;
use crate::outcome::{self, Recorded};
use crate::settle::{Handled, is_said};
use crate::{Context, Failure, Follow, Published, Start, Ttl};

const SUBJECT: &str = "Tidemill-Subject";
const REASON: &str = "Tidemill-Reason";
const STREAM: &str = "Tidemill-Stream";
const SEQUENCE: &str = "Tidemill-Sequence";
const CLASS: &str = "Tidemill-Class";
const FAILURES: &str = "Tidemill-Failures";
const DELIVERIES: &str = "Tidemill-Deliveries";
const HELD: &str = "Tidemill-Held";
const CLAIM: &str = "Tidemill-Claim";

/// The folder of the object store with the bytes of large letters.
const BODIES: &str = "dead/";

/// Items that are asked for at once when it is looked which are held.
const LOOKS_AT_ONCE: usize = 64;

/// Where a message came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The stream.
    pub stream: String,
    /// Its place there.
    pub sequence: u64,
}

/// A dead letter, without its bytes.
#[derive(Debug, Clone)]
pub struct Letter {
    /// Its place in DEAD, by which operators name it.
    pub sequence: u64,
    /// Who gave it up: `loader`, `generator`, `grader`, or the last token of its subject where that says otherwise.
    pub stage: String,
    /// The subject that its message came on; `None` where it does not say.
    pub subject: Option<String>,
    /// Why it is here.
    pub reason: String,
    /// Where its message was.
    pub origin: Option<Origin>,
    /// The label of the failure's class; `deliveries` for an advisory; empty where it does not say.
    pub class: String,
    /// Failures counted.
    pub failures: u32,
    /// Deliveries made.
    pub deliveries: i64,
    /// No outcome was recorded when it was written: its item waits.
    pub is_held: bool,
    /// The broker wrote it: the bytes lie in the stream that it came from.
    pub is_advisory: bool,
    /// When it was stored.
    pub at: Timestamp,
    pub(super) claim: Option<String>,
    pub(super) trace: Option<TraceContext>,
}

impl Letter {
    /// The item that it is about.
    #[must_use]
    pub fn key(&self) -> Option<ItemKey> {
        subject::key_of(self.subject.as_deref()?)
    }

    pub(super) fn of(sequence: u64, on: &str, headers: Option<&HeaderMap>, at: Timestamp) -> Self {
        let header = |name: &str| Some(headers?.get(name)?.as_str().to_owned());
        let number = |name: &str| header(name)?.parse::<i64>().ok();
        let origin = header(STREAM).zip(header(SEQUENCE).and_then(|text| text.parse().ok()));
        Self {
            sequence,
            stage: on.rsplit('.').next().unwrap_or_default().to_owned(),
            subject: header(SUBJECT),
            reason: header(REASON).unwrap_or_else(|| "it came without a reason: not a letter of ours".to_owned()),
            origin: origin.map(|(stream, sequence)| Origin { stream, sequence }),
            class: header(CLASS).unwrap_or_default(),
            failures: number(FAILURES).and_then(|count| count.try_into().ok()).unwrap_or(0),
            deliveries: number(DELIVERIES).unwrap_or(0),
            is_held: header(HELD).is_some_and(|held| held == "true"),
            is_advisory: false,
            at,
            claim: header(CLAIM),
            trace: header(TraceContext::HEADER).and_then(|text| TraceContext::parse(&text)),
        }
    }
}

/// Keeps a message that is given up: its outcome is recorded first, unless it is to be held, then its letter is stored.
pub(crate) async fn bury(
    context: &Context,
    handled: &Handled,
    failure: &Failure,
    failures: u32,
    is_held: bool,
) -> Result<(), async_nats::Error> {
    let Handled {
        subject,
        payload,
        delivered,
        ..
    } = handled;
    let reason = one_line(&failure.reason);
    if !is_held {
        let recorded = outcome::record(context, subject, payload, &reason).await;
        match recorded.map_err(|failure| failure.reason)? {
            Recorded::Stored if is_said("an outcome is recorded as a failure", subject, &reason) => {
                tracing::warn!(subject, reason, "its outcome is recorded as a failure");
            }
            Recorded::Stored | Recorded::AlreadyThere | Recorded::NobodyWaits(_) => {}
        }
    }
    let letter = Letter {
        sequence: 0,
        stage: context.role.to_owned(),
        subject: Some(subject.clone()),
        reason,
        origin: Some(Origin {
            stream: handled.stream.name.to_owned(),
            sequence: handled.sequence,
        }),
        class: failure.class.label().to_owned(),
        failures,
        deliveries: *delivered,
        is_held,
        is_advisory: false,
        at: crate::now(),
        claim: None,
        trace: handled.trace,
    };
    let stored = store(context, context.role, &letter, payload.to_vec()).await;
    stored.map_err(|failure| failure.reason)?;
    let what_next = if is_held {
        "held until an operator retries or drops it"
    } else {
        "given up"
    };
    let reason = &letter.reason;
    if is_said(what_next, subject, reason) {
        tracing::error!(
            subject,
            reason,
            delivered,
            failures,
            "{what_next}; kept in the DEAD stream"
        );
    }
    tidemill_telemetry::count(Metric::DeadLetters, [("stage", context.role)]);
    Ok(())
}

/// Where a letter lies.
pub(super) struct Stored {
    pub(super) sequence: u64,
    /// The key of its bytes in the object store, where they would not fit the letter.
    pub(super) claim: Option<String>,
}

/// Stores a letter and returns where it lies. One of the same message, within the broker's window for duplicates, is the same letter: a process that
/// is killed before it could terminate the message leaves no second one.
pub(super) async fn store(
    context: &Context,
    stage: &'static str,
    letter: &Letter,
    mut payload: Vec<u8>,
) -> Result<Stored, Failure> {
    let mut headers = HeaderMap::new();
    let mut put = |name: &'static str, value: &str| headers.insert(name, value);
    put(SUBJECT, letter.subject.as_deref().unwrap_or_default());
    put(REASON, &letter.reason);
    put(CLASS, &letter.class);
    put(FAILURES, &letter.failures.to_string());
    put(DELIVERIES, &letter.deliveries.to_string());
    put(HELD, if letter.is_held { "true" } else { "false" });
    if let Some(origin) = &letter.origin {
        put(STREAM, &origin.stream);
        put(SEQUENCE, &origin.sequence.to_string());
        put("Nats-Msg-Id", &format!("dead-{}-{}", origin.stream, origin.sequence));
    }
    let mut claim = None;
    if payload.len() > CLAIM_ABOVE_BYTES {
        let key = body_key(letter.origin.as_ref(), &payload);
        context.store.put(&key, std::mem::take(&mut payload)).await?;
        put(CLAIM, &key);
        claim = Some(key);
    }
    let message = DeadLetter { stage, payload };
    let publisher = &context.publisher;
    let published = publisher
        .publish_bytes::<DeadLetter>(message.subject(), message.payload, letter.trace, Ttl::Stream, headers)
        .await?;
    let sequence = match published {
        Published::Stored(sequence) => sequence,
        Published::AlreadyThere => letter.sequence,
    };
    Ok(Stored { sequence, claim })
}

/// Of the message and not of its bytes alone: who puts the same bytes into a queue again, and has them given up again, writes
/// another body than the one that goes with the first letter.
fn body_key(origin: Option<&Origin>, payload: &[u8]) -> String {
    let digest = Digest::of(payload).hex().to_owned();
    match origin {
        Some(Origin { stream, sequence }) => format!("{BODIES}{stream}/{sequence}/{digest}"),
        None => format!("{BODIES}{digest}"),
    }
}

/// Deletes a body whose letter is gone, unless another letter names it.
///
/// # Errors
/// When the broker or the store does not answer.
pub(super) async fn delete_body(context: &Context, claim: Option<&str>) -> Result<(), Failure> {
    // A header names what it likes: nothing but a letter's body is deleted.
    let Some(key) = claim.filter(|key| key.starts_with(BODIES)) else {
        return Ok(());
    };
    let is_named = letters(context)
        .await?
        .iter()
        .any(|letter| letter.claim.as_deref() == Some(key));
    if !is_named {
        context.store.delete(key).await?;
    }
    Ok(())
}

/// Header values hold no line breaks.
pub(super) fn one_line(text: &str) -> String {
    text.chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .take(2_000)
        .collect()
}

/// All dead letters and advisories, in the order of their sequence.
///
/// # Errors
/// When the broker does not answer.
pub async fn letters(context: &Context) -> Result<Vec<Letter>, Failure> {
    let filter = subject::DEAD_LETTERS.to_owned();
    let mut follow = Follow::open(context, declared::DEAD, filter, true, Start::Beginning).await;
    let mut letters = Vec::new();
    follow
        .each_known(|message| {
            letters.push(Letter::of(
                message.sequence,
                &message.subject,
                message.headers.as_ref(),
                message.at,
            ));
        })
        .await;
    letters.extend(advisory::all(context).await?);
    letters.sort_by_key(|letter| letter.sequence);
    Ok(letters)
}

/// The letter with this sequence; `None` when there is none.
///
/// # Errors
/// When the broker does not answer.
pub async fn letter(context: &Context, sequence: u64) -> Result<Option<(Letter, Vec<u8>)>, Failure> {
    let stream = context.jetstream().get_stream_no_info(declared::DEAD.name).await;
    let stream = stream.map_err(|error| Failure::of(Class::Transient, &error))?;
    let message = match stream.get_raw_message(sequence).await {
        Ok(message) => message,
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(None),
        Err(error) => return Err(Failure::of(Class::Transient, &error)),
    };
    let micros = message.time.unix_timestamp_nanos() / 1_000;
    let at = Timestamp(i64::try_from(micros).unwrap_or(i64::MAX));
    if advisory::is_one(&message.subject) {
        return advisory::read(context, sequence, &message.payload, at).await.map(Some);
    }
    let letter = Letter::of(sequence, &message.subject, Some(&message.headers), at);
    let payload = match &letter.claim {
        Some(key) => context.store.get(key).await?,
        None => message.payload.to_vec(),
    };
    Ok(Some((letter, payload)))
}

/// The items that are held: each has a letter without an outcome.
///
/// Costs one request while no letters are there, and a pass over their headers otherwise.
///
/// # Errors
/// When the broker does not answer.
pub async fn held(context: &Context) -> Result<HashSet<ItemKey>, Failure> {
    let mut held = Held::default();
    held.look(context).await?;
    Ok(held.items)
}

/// The items that are held, read anew only after a letter came or went.
#[derive(Debug, Default)]
pub struct Held {
    /// Messages and last sequence of the stream when it was read.
    state: Option<(u64, u64)>,
    items: HashSet<ItemKey>,
}

impl Held {
    /// The items as they were at the last look.
    #[must_use]
    pub const fn items(&self) -> &HashSet<ItemKey> {
        &self.items
    }

    /// Reads all at the next look, whether or not letters came or went.
    pub const fn forget(&mut self) {
        self.state = None;
    }

    /// Looks again. True when the items were read anew.
    ///
    /// # Errors
    /// When the broker does not answer: the items stay as they were.
    pub async fn look(&mut self, context: &Context) -> Result<bool, Failure> {
        self.look_among(context, |_| true).await
    }

    /// As [`Held::look`], of the wanted items alone: of no other is it asked whether it has an outcome. Who wants others than
    /// at the last look calls [`Held::forget`] before.
    ///
    /// # Errors
    /// As [`Held::look`].
    pub async fn look_among(
        &mut self,
        context: &Context,
        is_wanted: impl Fn(&ItemKey) -> bool + Send,
    ) -> Result<bool, Failure> {
        let stream = context.jetstream().get_stream(declared::DEAD.name).await;
        let stream = stream.map_err(|error| Failure::of(Class::Transient, &error))?;
        let state = &stream.cached_info().state;
        let (messages, state) = (state.messages, Some((state.messages, state.last_sequence)));
        if self.state == state {
            return Ok(false);
        }
        let items = match messages {
            0 => HashSet::new(),
            _ => read_held(context, is_wanted).await?,
        };
        (self.state, self.items) = (state, items);
        Ok(true)
    }
}

async fn read_held(
    context: &Context,
    is_wanted: impl Fn(&ItemKey) -> bool + Send,
) -> Result<HashSet<ItemKey>, Failure> {
    let letters = letters(context).await?.into_iter().filter(|letter| letter.is_held);
    let wanted: HashSet<(ItemKey, String)> = letters
        .filter_map(|letter| letter.key().zip(letter.subject))
        .filter(|(key, _)| is_wanted(key))
        .collect();
    stream::iter(wanted)
        .map(|(key, on)| async move { Ok((!outcome::is_recorded(context, &on).await?).then_some(key)) })
        .buffer_unordered(LOOKS_AT_ONCE)
        .try_filter_map(|key| ready(Ok(key)))
        .try_collect()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_fit_a_header() {
        assert_eq!(one_line("a\r\nb"), "a  b");
    }

    #[test]
    fn a_foreign_message_is_a_letter_too() {
        let letter = Letter::of(7, "tm.dead.whoever", None, Timestamp(0));
        assert_eq!((letter.sequence, letter.stage.as_str()), (7, "whoever"));
        assert_eq!(
            (letter.subject.clone(), letter.key(), letter.is_held),
            (None, None, false)
        );
        assert!(letter.reason.contains("not a letter of ours"));
    }
}
