//! Grading stored completions again: no engine is asked, and the first grades stay as they are.

mod progress;
mod report;
mod work;

use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tidemill_aggregator::Fold;
use tidemill_archive::{Layout, Samples};
use tidemill_domain::{
    Benchmark, EvaluationEvent, EvaluationId, EvaluationResult, GraderSpec, ItemKey, Manifest, ResultState,
};
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

/// What is stored of a regrade beside its rows.
pub(crate) struct Stored {
    pub(crate) state: ResultState,
    graders: Vec<Value>,
}

impl Stored {
    /// Reads what the n-th regrade of an evaluation left.
    pub(crate) async fn read(context: &Context, evaluation: &EvaluationId, number: u32) -> anyhow::Result<Self> {
        let folder = folder(evaluation, number);
        let document = async |name: &str| -> anyhow::Result<Value> {
            let bytes = context.store.get(&format!("{folder}/{name}")).await?;
            Ok(serde_json::from_slice(&bytes)?)
        };
        let read = async {
            let mut result = document("result.json").await?;
            let mut provenance = document("provenance.json").await?;
            Ok::<_, anyhow::Error>(Self {
                state: serde_json::from_value(result["state"].take())?,
                graders: serde_json::from_value(provenance["graders"].take())?,
            })
        };
        let read = read.await;
        read.with_context(|| format!("no regrade {number} of evaluation {evaluation} was finished"))
    }

    /// The manifest as the regrade graded by it: what its grades measure is named there.
    pub(crate) fn regraded(&self, manifest: &Manifest) -> Manifest {
        let mut manifest = manifest.clone();
        manifest
            .benchmarks
            .iter_mut()
            .for_each(|benchmark| self.grades(benchmark));
        manifest
    }

    /// Gives a benchmark the grader, the reasoning and the metrics of the regrade.
    pub(crate) fn grades(&self, benchmark: &mut Benchmark) {
        let name = benchmark.name.as_str();
        let Some(grader) = self.graders.iter().find(|grader| grader["benchmark"] == name) else {
            return;
        };
        if let Ok(spec) = serde_json::from_value(grader["settings"].clone()) {
            benchmark.grader = spec;
        }
        if let Ok(reasoning) = serde_json::from_value(grader["reasoning"].clone()) {
            benchmark.reasoning = reasoning;
        }
        // Regrades of before do not say how their metrics are made.
        benchmark.metrics = serde_json::from_value(grader["measured"].clone()).unwrap_or_default();
    }
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
    suit(context, event, &manifest, &changed, overrides).await?;
    let samples = Samples::open(context, event, &manifest).await?;
    let (number, folder) = claim(context, &args.evaluation).await?;
    let fold = Fold::new(&changed, context.store.columns(&changed).await?);
    let source = samples.folder().map(str::to_owned);
    let grading = Grading::new(context, &changed, overrides, args.failed);
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
    let mut provenance = provenance(event, &manifest, &changed, source);
    if let Some(file) = &args.grader {
        provenance["grader_file"] = json!(file.display().to_string());
        provenance["grader_file_text"] = json!(overrides.text());
    }
    provenance["judges"] = judges(context, &changed);
    work.store(context, &regraded, provenance).await?;
    Ok(regraded)
}

/// Refuses graders that can do nothing with the items as they are stored, before anything is written.
async fn suit(
    context: &Context,
    event: &EvaluationEvent,
    old: &Manifest,
    new: &Manifest,
    overrides: &Overrides,
) -> anyhow::Result<()> {
    let pairs = (0_u32..).zip(old.benchmarks.iter().zip(&new.benchmarks));
    for (ordinal, (old, benchmark)) in pairs {
        if old.grader == benchmark.grader && !overrides.asks_anew(benchmark) {
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
            let unfit = match overrides.item(benchmark, &item) {
                Ok(item) => tidemill_tasks::misfit(&benchmark.grader, &item),
                Err(reason) => Some(reason),
            };
            if let Some(reason) = unfit {
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

/// The numbers of an evaluation's regrades, in order.
pub(crate) async fn numbers(context: &Context, evaluation: &EvaluationId) -> anyhow::Result<Vec<u32>> {
    let folders = context.store.folders(&tidemill_archive::folder(evaluation)).await?;
    let numbers = folders
        .iter()
        .filter_map(|name| name.strip_prefix("regrade-")?.parse::<u32>().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// What every finished regrade of an evaluation says, in order.
pub(crate) async fn results(
    context: &Context,
    evaluation: &EvaluationId,
) -> anyhow::Result<Vec<(u32, EvaluationResult)>> {
    let mut found = Vec::new();
    for number in numbers(context, evaluation).await? {
        let name = format!("{}/result.json", folder(evaluation, number));
        match context.store.get(&name).await {
            Ok(bytes) => found.push((number, serde_json::from_slice(&bytes).with_context(|| name)?)),
            // It is under way, or was given up.
            Err(tidemill_storage::Error::Missing { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Takes the next free number: whoever regrades at the same time gets another one.
async fn claim(context: &Context, evaluation: &EvaluationId) -> anyhow::Result<(u32, String)> {
    let mut number = numbers(context, evaluation).await?.last().map_or(1, |last| last + 1);
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

fn provenance(event: &EvaluationEvent, manifest: &Manifest, changed: &Manifest, source: Option<String>) -> Value {
    let graders = manifest.benchmarks.iter().zip(&changed.benchmarks);
    let graders = graders.map(|(old, new)| {
        json!({
            "benchmark": new.name,
            "grader": Grader::new(&new.grader, &new.reasoning).name(),
            "settings": new.grader,
            "replaced": new.grader != old.grader,
            "reasoning": new.reasoning,
            "metrics": new.metrics.iter().map(|metric| &metric.name).collect::<Vec<_>>(),
            "measured": new.metrics,
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
        "grader_file": Value::Null,
        "graders": graders.collect::<Vec<_>>(),
        "at": now(),
    })
}

/// The models that judge, by the names under which they are configured.
fn judges(context: &Context, manifest: &Manifest) -> Value {
    let named = manifest
        .benchmarks
        .iter()
        .filter_map(|benchmark| match &benchmark.grader {
            GraderSpec::Judge(spec) => Some(&spec.judge),
            _ => None,
        });
    let configured = &context.config.grader.judge;
    let models = named.map(|name| (name.clone(), json!(configured.get(name).map(|judge| &judge.model))));
    Value::Object(models.collect())
}
