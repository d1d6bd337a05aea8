//! Manifests with their graders compiled, kept while they are in use.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_domain::{Completion, Digest, Grade, GraderSpec, Item, Manifest, Timestamp};
use tidemill_storage::Store;

use crate::grade::outcome_without_grading;
use crate::lanes::LaneName;
use crate::{Grader, Runners};

/// Suites kept. Completions of a few evaluations come mixed; as many manifests stay in memory anyway.
const KEPT: usize = 16;

/// A manifest and the graders of its benchmarks.
#[derive(Debug)]
pub struct Suite {
    manifest: Arc<Manifest>,
    graders: Vec<Grader>,
}

impl Suite {
    /// Compiles the graders of a manifest's benchmarks.
    #[must_use]
    pub fn new(manifest: Arc<Manifest>) -> Self {
        let graders = manifest
            .benchmarks
            .iter()
            .map(|benchmark| Grader::new(&benchmark.grader, &benchmark.reasoning).measuring(&benchmark.metrics))
            .collect();
        Self { manifest, graders }
    }

    /// The manifest, which says where the items are.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The grade of a completion of an item; `None` when the manifest does not declare its benchmark.
    pub(crate) fn grade(&self, item: &Item, completion: &Completion, now: Timestamp) -> Option<Grade> {
        let grader = self.graders.get(completion.key.benchmark as usize)?;
        Some(grader.grade(item, completion, now))
    }

    /// Where a completion is graded that is not graded in place.
    pub(crate) fn lane(&self, completion: &Completion) -> Option<LaneName> {
        let index = completion.key.benchmark;
        let benchmark = self.manifest.benchmarks.get(index as usize)?;
        if outcome_without_grading(completion).is_some() {
            return None;
        }
        LaneName::of(benchmark.grader.kind(), self.is_outside(index), completion.text.len())
    }

    /// Whether something outside of this process grades a benchmark.
    pub(crate) fn is_outside(&self, benchmark: u32) -> bool {
        self.graders.get(benchmark as usize).is_some_and(Grader::is_outside)
    }

    /// The grade of a completion of an item, with what has to be run for that; `None` when the manifest does not declare its
    /// benchmark.
    pub(crate) async fn grade_with(
        &self,
        runners: &Runners,
        item: &Item,
        completion: &Completion,
        clock: fn() -> Timestamp,
    ) -> Option<Grade> {
        let grader = self.graders.get(completion.key.benchmark as usize)?;
        Some(grader.grade_with(runners, item, completion, clock).await)
    }

    /// The kind of a benchmark's grader, for metrics.
    pub(crate) fn family(&self, benchmark: u32) -> &'static str {
        let benchmark = self.manifest.benchmarks.get(benchmark as usize);
        benchmark.map_or("none", |benchmark| GraderSpec::kind(&benchmark.grader))
    }
}

/// The suites in use.
#[derive(Debug, Default)]
pub(crate) struct Suites {
    recent: Mutex<VecDeque<(Digest, Arc<Suite>)>>,
}

impl Suites {
    /// The suite of a manifest's digest.
    pub(crate) async fn get(&self, store: &Store, digest: &Digest) -> Result<Arc<Suite>, tidemill_storage::Error> {
        if let Some(suite) = self.kept(digest) {
            return Ok(suite);
        }
        let suite = Arc::new(Suite::new(store.manifest(digest).await?));
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|(kept, _)| kept != digest);
        recent.push_front((digest.clone(), Arc::clone(&suite)));
        recent.truncate(KEPT);
        Ok(suite)
    }

    fn kept(&self, digest: &Digest) -> Option<Arc<Suite>> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let found = recent.iter().find(|(kept, _)| kept == digest)?;
        Some(Arc::clone(&found.1))
    }
}
