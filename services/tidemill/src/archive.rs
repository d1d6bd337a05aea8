//! Where the items of ended evaluations are.

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tidemill_archive::{Record, Records, State};
use tidemill_domain::{EvaluationId, counted};
use tidemill_service::Context;

use crate::arguments::{Archive, ArchiveAction, ArchiveList, ArchiveNow};
use crate::exit::Done;
use crate::output;
use crate::session::{self, Need, Session};
use crate::view::{Following, Known};

pub(crate) fn run(args: Archive) -> anyhow::Result<Done> {
    match args.action {
        ArchiveAction::List(args) => list(&args),
        ArchiveAction::Now(args) => now(&args),
    }
}

fn list(args: &ArchiveList) -> anyhow::Result<Done> {
    let config = session::configuration(&args.place, "warn")?;
    let rows = session::block_on(async {
        let session = Session::open(&args.place, config, Need::Any).await?;
        let rows = ended(&session.context).await;
        session.close().await;
        rows
    })?;
    if args.json {
        let rows: Vec<Value> = rows.iter().map(|(known, record)| row(known, record.as_ref())).collect();
        output::data(&serde_json::to_string_pretty(&rows)?)?;
        return Ok(Done::Valid);
    }
    if rows.is_empty() {
        output::note("no evaluation has ended yet");
    }
    for (known, record) in &rows {
        output::data(&line(known, record.as_ref()))?;
    }
    Ok(Done::Valid)
}

fn now(args: &ArchiveNow) -> anyhow::Result<Done> {
    let config = session::configuration(&args.place, "warn")?;
    let (known, record) = session::block_on(async {
        let session = Session::open(&args.place, config, Need::Any).await?;
        let archived = Box::pin(archive(&session.context, &args.evaluation, args.purge)).await;
        session.close().await;
        archived
    })?;
    output::data(&if args.json {
        row(&known, Some(&record)).to_string()
    } else {
        line(&known, Some(&record))
    })?;
    Ok(Done::Valid)
}

async fn archive(context: &Context, evaluation: &EvaluationId, purge: bool) -> anyhow::Result<(Known, Record)> {
    let following = Following::open(context).await;
    let known = find(&following, evaluation)?;
    let state = known.event.state;
    if !state.is_ended() {
        bail!(
            "evaluation {evaluation} is {}: it can be archived when it has ended",
            state.label()
        );
    }
    let archived = tidemill_aggregator::archive_now(context, &known.event, purge).await;
    let record = archived.with_context(|| format!("archive evaluation {evaluation} (nothing was lost; try again)"))?;
    Ok((known.clone(), record))
}

/// An evaluation by its id.
pub(crate) fn find<'a>(following: &'a Following, evaluation: &EvaluationId) -> anyhow::Result<&'a Known> {
    let known = following.view.get(evaluation);
    known.with_context(|| format!("no evaluation {evaluation} here; `tidemill results` lists them"))
}

/// Every evaluation that ended, with the record of its present life.
async fn ended(context: &Context) -> anyhow::Result<Vec<(Known, Option<Record>)>> {
    let records = Records::open(context).await?.all().await?;
    let mut records: HashMap<EvaluationId, Record> = records
        .into_iter()
        .map(|known| (known.record.evaluation.clone(), known.record))
        .collect();
    let following = Following::open(context).await;
    let ended = following.view.evaluations().into_iter();
    let ended = ended.filter(|known| known.event.state.is_ended()).map(|known| {
        let record = records.remove(&known.event.evaluation);
        (known.clone(), record.filter(|record| record.is_of(&known.event)))
    });
    Ok(ended.collect())
}

fn state(record: Option<&Record>) -> State {
    record.map_or(State::Waiting, |record| record.state)
}

fn row(known: &Known, record: Option<&Record>) -> Value {
    let stored = record.and_then(|record| record.stored.as_ref());
    json!({
        "evaluation": known.event.evaluation,
        "run": known.event.run,
        "step": known.event.step,
        "suite": known.event.suite.name,
        "state": state(record).label(),
        "since": record.map(|record| record.at),
        "folder": stored.map(|stored| &stored.folder),
        "rows": stored.map(|stored| stored.rows),
        "completions": stored.map(|stored| stored.completions),
        "bytes": stored.map(|stored| stored.bytes),
        "failure": record.and_then(|record| record.failure.as_ref()),
    })
}

fn line(known: &Known, record: Option<&Record>) -> String {
    let event = &known.event;
    let place = match record.and_then(|record| record.stored.as_ref()) {
        Some(stored) => format!(
            "{}, {} bytes in {}",
            counted(stored.rows, "row"),
            stored.bytes,
            stored.folder
        ),
        None => "in the broker alone".to_owned(),
    };
    let failure = record.and_then(|record| record.failure.as_ref());
    let failure = failure
        .map(|failure| format!("; last try: {failure}"))
        .unwrap_or_default();
    format!(
        "{}  {} step {} {}: {}, {place}{failure}",
        event.evaluation,
        event.run,
        event.step,
        event.suite.name,
        state(record).label()
    )
}

/// Failures that are shown.
const SHOWN: usize = 5;

/// What a person who looks after this should know.
pub(crate) async fn summary(context: &Context) -> anyhow::Result<String> {
    let ended = ended(context).await?;
    let count = |is_counted: fn(State) -> bool| {
        ended
            .iter()
            .filter(|(_, record)| is_counted(state(record.as_ref())))
            .count()
    };
    let waiting = count(|state| matches!(state, State::Waiting | State::Reopened));
    let said = format!(
        "{waiting} wait to be archived, {} wait to be purged, {} are out of the broker",
        count(|state| matches!(state, State::Archived | State::Purging)),
        count(|state| matches!(state, State::Purged | State::Empty)),
    );
    let failures: Vec<String> = ended
        .iter()
        .filter_map(|(known, record)| {
            let failure = record.as_ref()?.failure.as_ref()?;
            Some(format!("{}: {failure}", known.event.evaluation))
        })
        .collect();
    if failures.is_empty() {
        return Ok(said);
    }
    let shown = failures.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(" | ");
    bail!(
        "{said}; {} could not be done at the last try (nothing is purged, it is tried again): {shown}",
        failures.len()
    )
}
