//! Putting an archived evaluation back into the streams, for one that is announced again with samples missing.

use async_nats::HeaderMap;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use bytes::Bytes;
use futures::StreamExt as _;
use tidemill_domain::{Completion, Digest, EvaluationEvent, Grade, ItemKey, TraceContext};
use tidemill_service::fault::{self, Point};
use tidemill_service::{Context, Follow, Followed, Published, Start, Ttl, now};
use tidemill_storage::CLAIM_ABOVE_BYTES;
use tidemill_streams::{declared, subject};

use crate::{Error, Known, Layout, Record, Records, Sample, Samples, State, Stored, purge};

/// Samples put back at once, each waiting for the broker.
const IN_FLIGHT: usize = 64;

/// Samples of an evaluation that have a completion, wherever that is.
///
/// # Errors
/// [`Error`].
pub async fn completions(context: &Context, event: &EvaluationEvent) -> Result<u64, Error> {
    let known = Records::open(context).await?.get(&event.evaluation).await?;
    if let Some(stored) = known.as_ref().and_then(|known| known.record.counts(event)) {
        return Ok(stored.completions);
    }
    let filter = subject::done_of_evaluation(&event.evaluation);
    // One a key, also where a completion was published again.
    let follow = Follow::open(context, declared::DONE, filter, true, Start::LastPerSubject).await;
    Ok(follow.backlog())
}

/// Brings the completions that have no grade before the graders again, each behind itself and behind no other: their messages
/// may be settled. Returns how many. The streams hold everything of the evaluation. Takes a byte a declared sample.
///
/// A crash in between, or the same again, has a few graded twice, of which the first grade counts.
///
/// # Errors
/// [`Error`].
pub async fn grade_again(context: &Context, event: &EvaluationEvent) -> Result<u64, Error> {
    let manifest = context.store.manifest(&event.manifest).await?;
    let layout = Layout::new(&event.evaluation, &manifest);
    let ordinal = |on: &str| usize::try_from(layout.ordinal(&subject::key_of(on)?)?).ok();
    let mut is_graded = vec![false; usize::try_from(layout.samples()).unwrap_or(usize::MAX)];
    let filter = subject::grade_of_evaluation(&event.evaluation);
    let mut grades = Follow::open(context, declared::GRADE, filter, true, Start::LastPerSubject).await;
    while let Some(message) = grades.next_known().await {
        if let Some(ordinal) = ordinal(&message.subject) {
            is_graded[ordinal] = true;
        }
    }
    let filter = subject::done_of_evaluation(&event.evaluation);
    let mut completions = Follow::open(context, declared::DONE, filter, true, Start::LastPerSubject).await;
    let (mut again, mut waiting) = (0, Vec::with_capacity(IN_FLIGHT));
    loop {
        let message = completions.next_known().await;
        let is_last = message.is_none();
        let ungraded = |message: &Followed| ordinal(&message.subject).is_some_and(|ordinal| !is_graded[ordinal]);
        waiting.extend(message.filter(ungraded).map(|message| message.sequence));
        if is_last || waiting.len() == IN_FLIGHT {
            let published = waiting.drain(..).map(|sequence| complete_again(context, sequence));
            again += futures::future::try_join_all(published).await?.into_iter().sum::<u64>();
        }
        if is_last {
            return Ok(again);
        }
    }
}

/// Publishes the completion with this sequence once more; 0 where it is gone or another one came after it.
async fn complete_again(context: &Context, sequence: u64) -> Result<u64, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::broker("read a completion of", declared::DONE.name, error);
    let stream = context.jetstream().get_stream_no_info(declared::DONE.name).await;
    let message = match stream.map_err(|error| failed(&error))?.get_raw_message(sequence).await {
        Ok(message) => message,
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(0),
        Err(error) => return Err(failed(&error)),
    };
    let trace = message.headers.get(TraceContext::HEADER);
    let trace = trace.and_then(|trace| TraceContext::parse(trace.as_str()));
    let (on, payload) = (message.subject.to_string(), message.payload.to_vec());
    let published = context
        .publisher
        .publish_again::<Completion>(on, payload, trace, sequence);
    Ok(u64::from(matches!(published.await?, Published::Stored(_))))
}

/// Makes the streams hold everything of an evaluation again, so that nothing finished is asked for again.
///
/// It is finished before the evaluation is queued anew. A crash in between leaves the archive as it was. It always leaves
/// a record that says so, also of an evaluation without one: whoever is archiving the life before commits nothing then.
///
/// # Errors
/// [`Error`]; [`Error::Outrun`] when a later life of the evaluation has been archived already.
pub async fn restore(context: &Context, event: &EvaluationEvent) -> Result<(), Error> {
    let records = Records::open(context).await?;
    loop {
        let known = records.get(&event.evaluation).await?;
        let record = known.as_ref().map(|known| &known.record);
        if record.is_some_and(|record| record.is_after(event)) {
            let evaluation = event.evaluation.clone();
            return Err(Error::Outrun { evaluation });
        }
        let is_in_streams = record.is_none_or(|record| record.state == State::Archived);
        let stored = record.and_then(|record| record.counts(event));
        if let Some(stored) = stored.filter(|_| !is_in_streams) {
            // A purge may be under way, here or in a process that stood still: after this one it finds nothing.
            purge(context, &event.evaluation, stored).await?;
            publish_again(context, event, stored).await?;
            fault::point(Point::ArchiveRestored);
        }
        match reopen(&records, event, known.as_ref()).await {
            Err(Error::Outrun { .. }) => {}
            reopened => {
                fault::point(Point::ArchiveReopened);
                return reopened;
            }
        }
    }
}

/// Also where it says so already: each write outruns whoever read the record before.
async fn reopen(records: &Records, event: &EvaluationEvent, known: Option<&Known>) -> Result<(), Error> {
    let of_this_life = known.filter(|known| known.record.is_of(event));
    let record = match of_this_life {
        Some(known) => known.record.enter(State::Reopened, now()),
        None => Record::new(event, State::Reopened, now(), None),
    };
    records.put(record, known).await.map(drop)
}

async fn publish_again(context: &Context, event: &EvaluationEvent, stored: &Stored) -> Result<(), Error> {
    let manifest = context.store.manifest(&event.manifest).await?;
    let samples = Samples::of_folder(context, event, &manifest, &stored.folder).await?;
    let samples = futures::stream::unfold(Some(samples), |samples| async {
        let mut samples = samples?;
        match samples.next().await {
            Ok(sample) => sample.map(|sample| (Ok(sample), Some(samples))),
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut put = Box::pin(
        samples
            .map(|sample| async move { put_back(context, sample?, stored).await })
            .buffer_unordered(IN_FLIGHT),
    );
    while let Some(put) = put.next().await {
        put?;
    }
    Ok(())
}

/// The grade first: a completion without one would be graded anew.
async fn put_back(context: &Context, sample: Sample, stored: &Stored) -> Result<(), Error> {
    let Sample { key, completion, grade } = sample;
    let publisher = &context.publisher;
    if let Some(grade) = grade {
        let payload = small::<Grade>(context, &key, grade, stored).await?;
        publisher
            .publish_bytes::<Grade>(subject::grade(&key), payload, None, Ttl::Stream, HeaderMap::new())
            .await?;
    }
    if let Some(completion) = completion {
        let payload = small::<Completion>(context, &key, completion, stored).await?;
        publisher
            .publish_bytes::<Completion>(subject::done(&key), payload, None, Ttl::Stream, HeaderMap::new())
            .await?;
    }
    Ok(())
}

/// A body too large for a message goes back under a key of its own: a late purge of the first one must not take it.
async fn small<T: tidemill_codec::Wire>(
    context: &Context,
    key: &ItemKey,
    message: Bytes,
    stored: &Stored,
) -> Result<Vec<u8>, Error> {
    if message.len() <= CLAIM_ABOVE_BYTES {
        return Ok(message.to_vec());
    }
    let again = Digest::of(stored.folder.as_bytes());
    let claim = format!(
        "claims/{}/{}-{}",
        key.evaluation,
        &again.hex()[..16],
        Digest::of(&message).hex()
    );
    context.store.put(&claim, message.to_vec()).await?;
    Ok(tidemill_codec::claim::<T>(&claim))
}
