//! Grading stored completions again: no engine is asked, and the first grades stay as they are.

mod progress;
mod report;
mod work;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tidemill_aggregator::Fold;
use tidemill_archive::{Layout, Samples};
use tidemill_domain::{EvaluationEvent, EvaluationId, ItemKey, Manifest, ResultState};
use tidemill_grader::Grader;
use tidemill_service::{Context, now};
use tidemill_tasks::Overrides;

use self::progress::Progress;
use self::report::{Regraded, show, transitions};
use self::work::{Grading, Work};
use crate::archive;
use crate::arguments::Regrade;
use crate::exit::Done;
use crate::session::{self, Need, Session};
use crate::view::Following;

pub(crate) fn run(args: Regrade) -> anyhow::Result<Done> {
    let overrides = args
        .grader
        .as_deref()
        .map(Overrides::read)
        .transpose()?
        .unwrap_or_default();
    let config = session::configuration(&args.place, "warn")?;
    let regraded = session::block_on(async {
        let session = Session::open(&args.place, config, Need::Any).await?;
        let regraded = Box::pin(regrade(&session.context, &args, &overrides)).await;
        session.close().await;
        regraded
    })?;
    show(&regraded, args.json)?;
    Ok(if regraded.new.state == ResultState::Invalid {
        Done::Invalid
    } else {
        Done::Valid
    })
}

/// The folder of an evaluation's n-th regrade.
pub(crate) fn folder(evaluation: &EvaluationId, number: u32) -> String {
    format!("{}/regrade-{number}", tidemill_archive::folder(evaluation))
}

async fn regrade(context: &Context, args: &Regrade, overrides: &Overrides) -> anyhow::Result<Regraded> {
    let following = Following::open(context).await;
    let known = archive::find(&following, &args.evaluation)?;
    let event = &known.event;
    if !event.state.is_ended() {
        bail!(
            "evaluation {} is {}: it can be graded again when it has ended",
            args.evaluation,
            event.state.label()
        );
    }
    let manifest = context.store.manifest(&event.manifest).await?;
    let changed = Arc::new(overrides.apply(&manifest)?);
    suit(context, event, &manifest, &changed).await?;
    let samples = Samples::open(context, event, &manifest).await?;
    let (number, folder) = claim(context, &args.evaluation).await?;
    let fold = Fold::new(&changed, context.store.columns(&changed).await?);
    let source = samples.folder().map(str::to_owned);
    let grading = Grading::new(context, &changed);
    let mut work = Work::new(&grading, event, fold, &folder);
    let mut progress = Progress::begin(Layout::new(&event.evaluation, &manifest).samples(), args.json);
    work.take_all(&grading, samples, &mut progress).await?;
    let old = known.result();
    let new = work.result(&old);
    let regraded = Regraded {
        evaluation: args.evaluation.clone(),
        regrade: number,
        folder: folder.clone(),
        changed: work.changes.len(),
        transitions: transitions(&work.changes),
        graded: work.graded,
        kept: work.kept,
        changes: std::mem::take(&mut work.changes),
        old,
        new,
    };
    let provenance = provenance(event, &manifest, &changed, source, args.grader.as_deref());
    work.store(context, &regraded, provenance).await?;
    Ok(regraded)
}

/// Refuses graders that can do nothing with the items as they are stored, before anything is written.
async fn suit(context: &Context, event: &EvaluationEvent, old: &Manifest, new: &Manifest) -> anyhow::Result<()> {
    let pairs = (0_u32..).zip(old.benchmarks.iter().zip(&new.benchmarks));
    for (ordinal, (old, benchmark)) in pairs {
        if old.grader == benchmark.grader {
            continue;
        }
        for item in 0..benchmark.items {
            let key = ItemKey {
                evaluation: event.evaluation.clone(),
                benchmark: ordinal,
                item,
                sample: 0,
            };
            let found = tidemill_archive::item(&context.store, new, &key).await?;
            let (_, item) = found.with_context(|| format!("{key} is not in the manifest"))?;
            if let Some(reason) = tidemill_tasks::misfit(&benchmark.grader, &item) {
                bail!(
                    "benchmark {} cannot be graded so: item {:?} {reason}",
                    benchmark.name,
                    item.id
                );
            }
        }
    }
    Ok(())
}

/// Takes the next free number: whoever regrades at the same time gets another one.
async fn claim(context: &Context, evaluation: &EvaluationId) -> anyhow::Result<(u32, String)> {
    let all = tidemill_archive::folder(evaluation);
    let taken = context.store.folders(&all).await?;
    let numbers = taken
        .iter()
        .filter_map(|name| name.strip_prefix("regrade-")?.parse::<u32>().ok());
    let mut number = numbers.max().unwrap_or(0) + 1;
    loop {
        let folder = folder(evaluation, number);
        let begun = json!({ "schema": 1, "begun": now(), "by": &*context.holder });
        if context
            .store
            .put_new(&format!("{folder}/begun.json"), serde_json::to_vec_pretty(&begun)?)
            .await?
        {
            return Ok((number, folder));
        }
        number += 1;
    }
}

fn provenance(
    event: &EvaluationEvent,
    manifest: &Manifest,
    changed: &Manifest,
    source: Option<String>,
    file: Option<&Path>,
) -> Value {
    let graders = manifest.benchmarks.iter().zip(&changed.benchmarks);
    let graders = graders.map(|(old, new)| {
        json!({
            "benchmark": new.name,
            "grader": Grader::new(&new.grader, &new.reasoning).name(),
            "settings": new.grader,
            "replaced": new.grader != old.grader,
            "reasoning": new.reasoning,
            "metrics": new.metrics.iter().map(|metric| &metric.name).collect::<Vec<_>>(),
        })
    });
    json!({
        "schema": 1,
        "evaluation": event.evaluation,
        "run": event.run,
        "step": event.step,
        "checkpoint": event.checkpoint,
        "suite": event.suite,
        "manifest": event.manifest,
        "versions": { "tidemill": env!("CARGO_PKG_VERSION") },
        "completions": source.unwrap_or_else(|| "the streams".to_owned()),
        "grader_file": file.map(|path| path.display().to_string()),
        "graders": graders.collect::<Vec<_>>(),
        "at": now(),
    })
}
