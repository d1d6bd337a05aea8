//! Grading stored completions again: no engine is asked, and the first grades stay as they are.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::{Value, json};
use tidemill_aggregator::{Fold, verdict};
use tidemill_archive::{Entry, Index, Limits, Row, Sample, Samples, Writer, Written};
use tidemill_domain::{
    Benchmark, EvaluationEvent, EvaluationId, EvaluationResult, Grade, Item, ItemKey, Manifest, ResultState,
};
use tidemill_grader::{Grader, Runners};
use tidemill_service::{Context, now};
use tidemill_tasks::Overrides;

use crate::arguments::Regrade;
use crate::exit::Done;
use crate::session::{self, Need, Session};
use crate::view::Following;
use crate::{archive, output, table};

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

/// What a regrade found.
#[derive(Serialize)]
struct Regraded {
    evaluation: EvaluationId,
    /// The how-many-th regrade of the evaluation, from 1.
    regrade: u32,
    /// Where it is kept in the object store.
    folder: String,
    /// What had been said before.
    old: EvaluationResult,
    /// What this regrade says.
    new: EvaluationResult,
    /// Samples that were graded again.
    graded: u64,
    /// Samples without a completion that can be read: they keep what they had.
    kept: u64,
    changed: usize,
    /// How often one outcome became another.
    transitions: Vec<Transition>,
    changes: Vec<Change>,
}

/// One outcome that became another, or the same with another score.
#[derive(Debug, PartialEq, Serialize)]
struct Transition {
    from: &'static str,
    to: &'static str,
    samples: usize,
}

/// A sample whose outcome or score is another one now.
#[derive(Serialize)]
struct Change {
    benchmark: String,
    item: String,
    sample: u32,
    old: Judged,
    new: Judged,
    reason: String,
}

#[derive(Debug, PartialEq, Serialize)]
struct Judged {
    outcome: &'static str,
    score: Option<f64>,
    extracted: Option<String>,
    grader: Option<String>,
}

impl Judged {
    fn of(row: &Row<'_>) -> Self {
        let grade = row.graded();
        Self {
            outcome: row.outcome(),
            score: grade.map(|grade| grade.score),
            extracted: grade.and_then(|grade| grade.extracted.clone()),
            grader: grade.map(|grade| grade.grader.clone()),
        }
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
    suit(context, event, &manifest, &changed).await?;
    let samples = Samples::open(context, event, &manifest).await?;
    let (number, folder) = claim(context, &args.evaluation).await?;
    let fold = Fold::new(&changed, context.store.columns(&changed).await?);
    let mut work = Work::new(context, event, &changed, fold, &folder);
    let source = samples.folder().map(str::to_owned);
    work.grade_all(samples).await?;
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
    work.store(&regraded, provenance).await?;
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

/// A regrade under way.
struct Work<'a> {
    context: &'a Context,
    event: &'a EvaluationEvent,
    manifest: &'a Arc<Manifest>,
    graders: Vec<Grader>,
    runners: Runners,
    fold: Fold,
    writer: Option<Writer>,
    folder: &'a str,
    changes: Vec<Change>,
    graded: u64,
    kept: u64,
}

impl<'a> Work<'a> {
    fn new(
        context: &'a Context,
        event: &'a EvaluationEvent,
        manifest: &'a Arc<Manifest>,
        fold: Fold,
        folder: &'a str,
    ) -> Self {
        let graders = manifest.benchmarks.iter();
        let graders =
            graders.map(|benchmark| Grader::new(&benchmark.grader, &benchmark.reasoning).measuring(&benchmark.metrics));
        Self {
            context,
            event,
            manifest,
            graders: graders.collect(),
            runners: Runners::of(&context.config.grader),
            fold,
            writer: Some(Writer::new(&context.store, folder, Limits::default())),
            folder,
            changes: Vec::new(),
            graded: 0,
            kept: 0,
        }
    }

    async fn grade_all(&mut self, mut samples: Samples) -> anyhow::Result<()> {
        let (manifest, store) = (Arc::clone(self.manifest), self.context.store.clone());
        while let Some(sample) = samples.next().await? {
            let found = tidemill_archive::item(&store, &manifest, &sample.key).await?;
            let (benchmark, item) = found.with_context(|| format!("{} is not in the manifest", sample.key))?;
            self.grade(benchmark, &item, sample).await?;
        }
        Ok(())
    }

    async fn grade(&mut self, benchmark: &Benchmark, item: &Item, sample: Sample) -> anyhow::Result<()> {
        let key = sample.key.clone();
        let before = Row::new(self.event, benchmark, item, sample.clone());
        let grader = &self.graders[key.benchmark as usize];
        let grade = match before.completed() {
            Some(completion) => Some(grader.grade_with(&self.runners, item, completion, now).await),
            None => None,
        };
        let after = match &grade {
            Some(grade) => {
                let message = Bytes::from(tidemill_codec::encode(grade)?);
                let sample = Sample {
                    grade: Some(message),
                    ..sample
                };
                Row::new(self.event, benchmark, item, sample)
            }
            None => before.clone(),
        };
        self.graded += u64::from(grade.is_some());
        self.kept += u64::from(grade.is_none());
        match (after.graded(), &after.grade) {
            (Some(grade), _) => drop(self.fold.apply(grade)),
            (None, Some(_)) => drop(self.fold.apply_unreadable(&key)),
            (None, None) => {}
        }
        if let Some(grade) = &grade {
            self.changes.extend(change(&before, &after, grade));
        }
        if let Some(writer) = &mut self.writer {
            writer.push(&after, Vec::new()).await?;
        }
        Ok(())
    }

    /// The new result: by the same sums and the same rule as the first one.
    fn result(&self, old: &EvaluationResult) -> EvaluationResult {
        let (state, reason) = if old.state == ResultState::Superseded || !self.fold.is_complete() {
            (old.state, old.reason.clone())
        } else {
            let verdict = verdict(&self.fold, self.manifest.max_failure_rate);
            (verdict.state, verdict.reason)
        };
        let benchmarks = self.fold.results();
        EvaluationResult {
            state,
            reason,
            groups: self.fold.groups(&benchmarks),
            benchmarks,
            ..old.clone()
        }
    }

    /// Writes what is beside the rows; the index is last.
    async fn store(&mut self, regraded: &Regraded, provenance: Value) -> anyhow::Result<()> {
        let writer = self.writer.take().context("the rows are written once")?;
        let Written {
            items,
            claims,
            rows,
            completions,
        } = writer.finish().await?;
        let mut lines = Vec::new();
        for change in &regraded.changes {
            serde_json::to_writer(&mut lines, change)?;
            lines.push(b'\n');
        }
        let mut index = Index {
            schema: 1,
            evaluation: self.event.evaluation.clone(),
            manifest: self.event.manifest.clone(),
            rows,
            completions,
            items,
            claims,
            documents: Vec::new(),
        };
        for (name, content) in [
            ("result.json", serde_json::to_vec_pretty(&regraded.new)?),
            ("changes.jsonl", lines),
            ("provenance.json", serde_json::to_vec_pretty(&provenance)?),
        ] {
            index.documents.push(Entry::of(name, &content, None));
            self.context
                .store
                .put(&format!("{}/{name}", self.folder), content)
                .await?;
        }
        index.put(&self.context.store, self.folder).await?;
        Ok(())
    }
}

/// The change of a sample, when its outcome or score is another one.
fn change(before: &Row<'_>, after: &Row<'_>, grade: &Grade) -> Option<Change> {
    let (old, new) = (Judged::of(before), Judged::of(after));
    if (old.outcome, old.score) == (new.outcome, new.score) {
        return None;
    }
    let reason = grade.reason.clone().unwrap_or_else(|| why(&old, &new));
    Some(Change {
        benchmark: before.benchmark.name.to_string(),
        item: before.item.id.clone(),
        sample: before.ordinals[2],
        old,
        new,
        reason,
    })
}

fn why(old: &Judged, new: &Judged) -> String {
    let named = |grader: &Option<String>| grader.clone().unwrap_or_else(|| "nobody".to_owned());
    let found = |extracted: &Option<String>| {
        extracted
            .as_ref()
            .map_or("nothing".to_owned(), |text| format!("{text:?}"))
    };
    if old.extracted == new.extracted {
        return format!(
            "{} judged {} as {} did not",
            named(&new.grader),
            found(&new.extracted),
            named(&old.grader)
        );
    }
    format!(
        "{} found {} where {} had found {}",
        named(&new.grader),
        found(&new.extracted),
        named(&old.grader),
        found(&old.extracted)
    )
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

/// How often which outcome became which, the most frequent first.
fn transitions(changes: &[Change]) -> Vec<Transition> {
    let mut counted: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for change in changes {
        *counted.entry((change.old.outcome, change.new.outcome)).or_default() += 1;
    }
    let transition = |((from, to), samples)| Transition { from, to, samples };
    let mut transitions: Vec<Transition> = counted.into_iter().map(transition).collect();
    transitions.sort_by_key(|transition| std::cmp::Reverse(transition.samples));
    transitions
}

/// Changes that people are shown; all are in the JSON and in the stored `changes.jsonl`.
const SHOWN: usize = 20;

fn show(regraded: &Regraded, json: bool) -> anyhow::Result<()> {
    if json {
        return output::data(&serde_json::to_string_pretty(regraded)?);
    }
    output::data("before:")?;
    output::data(&table::results(std::slice::from_ref(&regraded.old)))?;
    output::data(&format!("regrade {}:", regraded.regrade))?;
    output::data(&table::results(std::slice::from_ref(&regraded.new)))?;
    output::data(&format!(
        "{} samples graded again, {} changed, {} kept as they were",
        regraded.graded, regraded.changed, regraded.kept
    ))?;
    for Transition { from, to, samples } in &regraded.transitions {
        output::data(&format!("  {from} -> {to}: {samples}"))?;
    }
    if regraded.changed > 0 {
        output::data(&changes(&regraded.changes))?;
    }
    if regraded.changed > SHOWN {
        output::note(&format!("{} more; --json prints all", regraded.changed - SHOWN));
    }
    output::note(&format!(
        "kept in {} of the object store; its items: tidemill items {} --regrade {}",
        regraded.folder, regraded.evaluation, regraded.regrade
    ));
    Ok(())
}

fn changes(changes: &[Change]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_BORDERS_ONLY_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["benchmark", "item", "sample", "outcome", "score", "extracted", "reason"]);
    for change in changes.iter().take(SHOWN) {
        let (old, new) = (&change.old, &change.new);
        let score = |judged: &Judged| judged.score.map_or("-".to_owned(), |score| format!("{score:.3}"));
        let extracted = |judged: &Judged| {
            judged
                .extracted
                .as_ref()
                .map_or("-".to_owned(), |text| format!("{text:?}"))
        };
        table.add_row([
            change.benchmark.clone(),
            change.item.clone(),
            change.sample.to_string(),
            format!("{} -> {}", old.outcome, new.outcome),
            format!("{} -> {}", score(old), score(new)),
            format!("{} -> {}", extracted(old), extracted(new)),
            change.reason.clone(),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(from: &'static str, to: &'static str) -> Change {
        let judged = |outcome, score, extracted: &str| Judged {
            outcome,
            score: Some(score),
            extracted: Some(extracted.to_owned()),
            grader: Some("exact@1".to_owned()),
        };
        Change {
            benchmark: "b".to_owned(),
            item: "q1".to_owned(),
            sample: 0,
            old: judged(from, 0.0, "1"),
            new: judged(to, 1.0, "1.0"),
            reason: "equal numbers".to_owned(),
        }
    }

    #[test]
    fn changes_are_counted_by_kind_and_shown_with_old_and_new() {
        let all = [
            change("no_answer", "correct"),
            change("incorrect", "correct"),
            change("incorrect", "correct"),
        ];
        let counted: Vec<_> = transitions(&all)
            .iter()
            .map(|one| (one.from, one.to, one.samples))
            .collect();
        assert_eq!(counted, [("incorrect", "correct", 2), ("no_answer", "correct", 1)]);
        let table = changes(&all[..1]);
        for part in [
            "q1",
            "no_answer -> correct",
            "0.000 -> 1.000",
            "\"1\" -> \"1.0\"",
            "equal numbers",
        ] {
            assert!(table.contains(part), "{part:?} is missing in\n{table}");
        }
    }
}
