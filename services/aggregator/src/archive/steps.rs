//! The steps of archiving and purging, in the order of their effects.

use tidemill_archive::{
    Entry, Error, Index, Known, Layout, Limits, Live, Record, Records, Row, Sample, State, Stored, Writer, folder,
    item, purge, verify,
};
use tidemill_domain::{Digest, EvaluationEvent, EvaluationId};
use tidemill_service::fault::{self, Point};
use tidemill_service::{Context, now, outcome};
use tidemill_telemetry::Metric;

use super::provenance::{self, Seen};

/// Archives an evaluation that ended, unless that is done. Returns its record.
///
/// # Errors
/// [`Error`]; nothing counts then but what counted before.
pub(super) async fn archive(context: &Context, event: &EvaluationEvent, limits: Limits) -> Result<Known, Error> {
    let records = Records::open(context).await?;
    let before = records.get(&event.evaluation).await?;
    if let Some(known) = before.as_ref().filter(|known| is_settled(&known.record, event)) {
        return Ok(known.clone());
    }
    // After the record is read: who announces the evaluation again writes that first.
    if !may_archive(context, event, before.as_ref()).await? {
        let evaluation = event.evaluation.clone();
        return Err(Error::Outrun { evaluation });
    }
    let place = format!("{}/{}", folder(&event.evaluation), attempt(context));
    let written = match Box::pin(write(context, event, &place, limits)).await {
        Ok(written) => written,
        Err(error) => {
            forget(context, &place).await;
            return Err(error);
        }
    };
    let Some(stored) = written else {
        return commit(&records, event, before.as_ref(), None).await;
    };
    if let Err(error) = verify(&context.store, &stored).await {
        forget(context, &place).await;
        return Err(error);
    }
    fault::point(Point::ArchiveWritten);
    let committed = commit(&records, event, before.as_ref(), Some(stored.clone())).await;
    match &committed {
        Ok(_) => {
            fault::point(Point::ArchiveCommitted);
            tidemill_telemetry::add(Metric::ArchivedRows, stored.rows, []);
            tidemill_telemetry::add(Metric::ArchivedBytes, stored.bytes, []);
            sweep(context, &event.evaluation, &place).await;
        }
        Err(error) if is_void(error) => forget(context, &place).await,
        Err(_) => {}
    }
    committed
}

/// The record that was to be written is not there. After a lost answer it may be, and its folder is what counts: the next
/// archive sweeps that away if not.
pub(super) const fn is_void(committed: &Error) -> bool {
    matches!(committed, Error::Outrun { .. })
}

/// This life is the last one that is known, it ended, and nobody is about to announce it again.
async fn may_archive(context: &Context, event: &EvaluationEvent, before: Option<&Known>) -> Result<bool, Error> {
    let is_outlived = before.is_some_and(|known| known.record.is_after(event));
    let is_announced = before.is_some_and(|known| {
        let age = now().seconds_since(known.record.at);
        let is_young = (0.0..context.config.archive.after.as_secs_f64()).contains(&age);
        known.record.state == State::Reopened && known.record.is_of(event) && is_young
    });
    if is_outlived || is_announced {
        return Ok(false);
    }
    let newest = outcome::newest_event(context, &event.evaluation).await;
    let newest = newest.map_err(|failure| Error::Broker {
        action: "read the events of evaluation",
        what: event.evaluation.to_string(),
        reason: failure.reason,
    })?;
    Ok(newest.is_none_or(|newest| newest.state.is_ended() && newest.life() == event.life()))
}

/// Archives an evaluation that ended without waiting for its time; with `purge` its items also leave the broker.
///
/// # Errors
/// [`Error`]; nothing is purged then that is not archived.
pub async fn archive_now(context: &Context, event: &EvaluationEvent, purge: bool) -> Result<Record, Error> {
    let known = Box::pin(archive(context, event, Limits::default())).await?;
    if !purge {
        return Ok(known.record);
    }
    Box::pin(purge_archived(context, event)).await.map(|known| known.record)
}

fn is_settled(record: &Record, event: &EvaluationEvent) -> bool {
    let is_open = matches!(record.state, State::Waiting | State::Reopened);
    record.is_of(event) && !is_open
}

/// No two tries share a folder: what one leaves behind is never taken for another's.
fn attempt(context: &Context) -> String {
    let holder = Digest::of(context.holder.as_bytes());
    format!("{:016x}-{}", now().0, &holder.hex()[..8])
}

/// Writes the files of an archive, the index last. `None` when there is nothing to keep.
pub(super) async fn write(
    context: &Context,
    event: &EvaluationEvent,
    place: &str,
    limits: Limits,
) -> Result<Option<Stored>, Error> {
    let manifest = context.store.manifest(&event.manifest).await?;
    let layout = Layout::new(&event.evaluation, &manifest);
    let mut live = Live::open(context, &layout, &event.evaluation).await?;
    if live.is_empty() {
        return Ok(None);
    }
    let mut writer = Writer::new(&context.store, place, limits);
    let mut seen = Seen::default();
    let mut ordinal = 0;
    while let Some(key) = layout.key(ordinal) {
        let (completion, grade) = live.messages(ordinal).await?;
        let found = item(&context.store, &manifest, &key).await?;
        let (benchmark, item) = found.ok_or_else(|| Error::Encode(format!("{key} is not in the manifest")))?;
        let row = Row::new(event, benchmark, &item, Sample { key, completion, grade });
        seen.note(&row);
        writer.push(&row, live.take_claims()).await?;
        ordinal += 1;
    }
    let written = writer.finish().await?;
    let at = (live.undeclared(), now());
    let provenance = provenance::document(event, &manifest, &seen, &written, at);
    let documents = [
        ("result.json", serde_json::to_value(provenance::result(event))),
        ("provenance.json", Ok(provenance)),
    ];
    let mut index = Index {
        schema: 1,
        evaluation: event.evaluation.clone(),
        manifest: event.manifest.clone(),
        rows: written.rows,
        completions: written.completions,
        items: written.items,
        claims: written.claims,
        documents: Vec::new(),
    };
    for (name, document) in documents {
        let bytes = document.and_then(|document| serde_json::to_vec_pretty(&document));
        let bytes = bytes.map_err(|error| Error::Encode(error.to_string()))?;
        index.documents.push(Entry::of(name, &bytes, None));
        context.store.put(&format!("{place}/{name}"), bytes).await?;
    }
    put_index(context, place, &index, live.through()).await.map(Some)
}

async fn put_index(context: &Context, place: &str, index: &Index, through: (u64, u64)) -> Result<Stored, Error> {
    let digest = index.put(&context.store, place).await?;
    Ok(Stored {
        folder: place.to_owned(),
        index: digest,
        rows: index.rows,
        completions: index.completions,
        bytes: index.bytes(),
        done_through: through.0,
        grade_through: through.1,
    })
}

/// The archive counts from here on.
pub(super) async fn commit(
    records: &Records,
    event: &EvaluationEvent,
    before: Option<&Known>,
    stored: Option<Stored>,
) -> Result<Known, Error> {
    let state = if stored.is_some() {
        State::Archived
    } else {
        State::Empty
    };
    records.put(Record::new(event, state, now(), stored), before).await
}

/// Purges what an evaluation's archive holds, having read that once more. Returns its record.
///
/// # Errors
/// [`Error`]. An archive that is not whole any more counts no longer while the streams hold everything.
pub(super) async fn purge_archived(context: &Context, event: &EvaluationEvent) -> Result<Known, Error> {
    let records = Records::open(context).await?;
    let Some(known) = records.get(&event.evaluation).await? else {
        return commit_waiting(&records, event, None, "its record is gone").await;
    };
    let Some(stored) = known.record.counts(event).cloned() else {
        return Ok(known);
    };
    let known = match known.record.state {
        State::Purged => return Ok(known),
        State::Archived => match verify(&context.store, &stored).await {
            Ok(_) => {
                let purging = known.record.enter(State::Purging, now());
                let purging = records.put(purging, Some(&known)).await?;
                fault::point(Point::ArchivePurgeBegun);
                purging
            }
            Err(error @ (Error::Damaged { .. } | Error::Storage(tidemill_storage::Error::Missing { .. }))) => {
                tracing::error!(evaluation_id = %event.evaluation, %error, "an archive is damaged; it is written anew");
                return commit_waiting(&records, event, Some(&known), &error.to_string()).await;
            }
            Err(error) => return Err(error),
        },
        _ => known,
    };
    purge(context, &event.evaluation, &stored).await?;
    let purged = records
        .put(known.record.enter(State::Purged, now()), Some(&known))
        .await?;
    fault::point(Point::ArchivePurged);
    Ok(purged)
}

async fn commit_waiting(
    records: &Records,
    event: &EvaluationEvent,
    before: Option<&Known>,
    reason: &str,
) -> Result<Known, Error> {
    let mut record = Record::new(event, State::Waiting, now(), None);
    record.failure = Some(reason.to_owned());
    records.put(record, before).await
}

/// Says in the record why a step could not be done, for whoever looks.
pub(super) async fn note_failure(context: &Context, event: &EvaluationEvent, reason: &str) -> Result<(), Error> {
    let records = Records::open(context).await?;
    let before = records.get(&event.evaluation).await?;
    if before.as_ref().is_some_and(|known| known.record.is_after(event)) {
        return Ok(());
    }
    let of_this_life = before.as_ref().filter(|known| known.record.is_of(event));
    let mut record = match of_this_life {
        Some(known) => known.record.clone(),
        None => Record::new(event, State::Waiting, now(), None),
    };
    if record.failure.as_deref() == Some(reason) {
        return Ok(());
    }
    record.failure = Some(reason.to_owned());
    records.put(record, before.as_ref()).await.map(drop)
}

/// Removes a folder that does not count.
async fn forget(context: &Context, place: &str) {
    if let Err(error) = context.store.delete_folder(place).await {
        tracing::debug!(place, %error, "not removed; the next archive of this evaluation does it");
    }
}

/// Removes what earlier tries left; of regrades nothing.
async fn sweep(context: &Context, evaluation: &EvaluationId, kept: &str) {
    let all = folder(evaluation);
    let names = match context.store.folders(&all).await {
        Ok(names) => names,
        Err(error) => {
            tracing::debug!(evaluation_id = %evaluation, %error, "leftovers not looked for");
            return;
        }
    };
    for name in names.iter().filter(|name| !name.starts_with("regrade-")) {
        let place = format!("{all}/{name}");
        if place != kept {
            forget(context, &place).await;
        }
    }
}
