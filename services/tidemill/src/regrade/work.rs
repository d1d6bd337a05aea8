//! A regrade under way: samples are read, graded several at once, and taken in in the manifest's order.

use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use futures::{Stream, TryStreamExt as _};
use serde_json::Value;
use tidemill_aggregator::{Fold, verdict_of_regrade};
use tidemill_archive::{Entry, Index, Limits, Row, Sample, Samples, Writer, Written};
use tidemill_domain::{EvaluationEvent, EvaluationResult, Grade, Manifest, ResultState};
use tidemill_grader::Regrading;
use tidemill_service::Context;
use tidemill_storage::StoredItem;
use tidemill_tasks::Overrides;

use super::progress::Progress;
use super::report::{Change, Regraded, change};

/// What every sample is graded with.
pub(super) struct Grading<'a> {
    pub(super) context: &'a Context,
    /// As if the suite had said so.
    pub(super) manifest: &'a Arc<Manifest>,
    overrides: &'a Overrides,
    /// What has a verdict keeps it.
    only_failed: bool,
    regrading: Regrading,
}

/// A sample that was read, with its new grade; `None` for one that keeps what it had.
struct Graded {
    sample: Sample,
    item: StoredItem,
    grade: Option<Grade>,
}

impl<'a> Grading<'a> {
    pub(super) fn new(
        context: &'a Context,
        manifest: &'a Arc<Manifest>,
        overrides: &'a Overrides,
        only_failed: bool,
    ) -> Self {
        Self {
            context,
            manifest,
            overrides,
            only_failed,
            regrading: Regrading::new(context, Arc::clone(manifest)),
        }
    }

    /// All samples in their order, of which so many are graded at once as the configuration allows.
    fn all(&self, samples: Samples) -> impl Stream<Item = anyhow::Result<Graded>> {
        let samples = futures::stream::try_unfold(samples, |mut samples| async move {
            let next = samples.next().await?;
            Ok::<_, anyhow::Error>(next.map(|sample| (sample, samples)))
        });
        samples
            .map_ok(|sample| self.one(sample))
            .try_buffered(self.regrading.at_once())
    }

    async fn one(&self, sample: Sample) -> anyhow::Result<Graded> {
        let key = &sample.key;
        let undeclared = || format!("{key} is not in the manifest");
        let found = tidemill_archive::item(&self.context.store, self.manifest, key).await?;
        let (benchmark, item) = found.with_context(undeclared)?;
        let is_wanted = !self.only_failed || !has_verdict(&sample);
        let grade = match sample.completion().ok().flatten().filter(|_| is_wanted) {
            Some(completion) => {
                let asked = self.overrides.item(benchmark, &item);
                let asked = asked.map_err(|reason| anyhow::anyhow!("grade {key}: {reason}"))?;
                let graded = self.regrading.grade(&asked, &completion).await;
                let graded = graded.map_err(|postponed| anyhow::anyhow!("grade {key}: {postponed}"))?;
                Some(graded.with_context(undeclared)?)
            }
            None => None,
        };
        Ok(Graded { sample, item, grade })
    }
}

/// It has a grade that can be read, of a grader that did its work.
fn has_verdict(sample: &Sample) -> bool {
    let grade = sample.grade().ok().flatten();
    grade.is_some_and(|grade| !tidemill_archive::is_fault_of_grading(grade.outcome))
}

/// What came of it so far.
pub(super) struct Work<'a> {
    event: &'a EvaluationEvent,
    manifest: &'a Manifest,
    fold: Fold,
    writer: Writer,
    pub(super) changes: Vec<Change>,
    pub(super) graded: u64,
    pub(super) kept: u64,
}

impl<'a> Work<'a> {
    /// `folder` is where its rows are written.
    pub(super) fn new(grading: &Grading<'a>, event: &'a EvaluationEvent, fold: Fold, folder: &str) -> Self {
        Self {
            event,
            manifest: grading.manifest,
            fold,
            writer: Writer::new(&grading.context.store, folder, Limits::default()),
            changes: Vec::new(),
            graded: 0,
            kept: 0,
        }
    }

    pub(super) async fn take_all(
        &mut self,
        grading: &Grading<'_>,
        samples: Samples,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let mut graded = std::pin::pin!(grading.all(samples));
        while let Some(one) = graded.try_next().await? {
            self.take(one).await?;
            progress.step();
        }
        progress.finish();
        Ok(())
    }

    async fn take(&mut self, Graded { sample, item, grade }: Graded) -> anyhow::Result<()> {
        let key = sample.key.clone();
        let benchmark = self.manifest.benchmark_of(&key);
        let benchmark = benchmark.with_context(|| format!("{key} is not in the manifest"))?;
        let before = Row::new(self.event, benchmark, &item, sample.clone());
        let after = match &grade {
            Some(grade) => {
                let message = Bytes::from(tidemill_codec::encode(grade)?);
                let sample = Sample {
                    grade: Some(message),
                    ..sample
                };
                Row::new(self.event, benchmark, &item, sample)
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
        self.writer.push(&after, Vec::new()).await?;
        Ok(())
    }

    /// The new result: by the same sums and the same rule as the first one.
    pub(super) fn result(&self, old: &EvaluationResult) -> EvaluationResult {
        let (state, reason) = if old.state == ResultState::Superseded || !self.fold.is_complete() {
            (old.state, old.reason.clone())
        } else {
            let verdict = verdict_of_regrade(&self.fold, self.manifest.max_failure_rate);
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
    pub(super) async fn store(self, context: &Context, regraded: &Regraded, provenance: Value) -> anyhow::Result<()> {
        let Written {
            items,
            claims,
            rows,
            completions,
        } = self.writer.finish().await?;
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
            context
                .store
                .put(&format!("{}/{name}", regraded.folder), content)
                .await?;
        }
        index.put(&context.store, &regraded.folder).await?;
        Ok(())
    }
}
