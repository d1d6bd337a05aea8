//! Manifests with their graders compiled, kept while they are in use.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_domain::{Completion, Digest, Grade, GraderSpec, Item, Manifest, Timestamp};
use tidemill_storage::Store;

use crate::{Grader, Tools};

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
        Self::with_tools(manifest, &Tools::default())
    }

    /// As [`Suite::new`], for a service that has what families outside this process need.
    #[must_use]
    pub fn with_tools(manifest: Arc<Manifest>, tools: &Tools) -> Self {
        let graders = manifest
            .benchmarks
            .iter()
            .map(|benchmark| {
                let grader = Grader::with_tools(&benchmark.grader, &benchmark.reasoning, tools);
                grader.measuring(&benchmark.metrics)
            })
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

    /// The grader of a benchmark, where it judges outside this process.
    pub(crate) fn outside(&self, benchmark: u32) -> Option<&Grader> {
        self.graders
            .get(benchmark as usize)
            .filter(|grader| grader.is_outside())
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
    tools: Tools,
}

impl Suites {
    /// No suites yet, for graders with these tools.
    pub(crate) fn new(tools: Tools) -> Self {
        Self {
            recent: Mutex::default(),
            tools,
        }
    }

    /// The suite of a manifest's digest.
    pub(crate) async fn get(&self, store: &Store, digest: &Digest) -> Result<Arc<Suite>, tidemill_storage::Error> {
        if let Some(suite) = self.kept(digest) {
            return Ok(suite);
        }
        let suite = Arc::new(Suite::with_tools(store.manifest(digest).await?, &self.tools));
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
