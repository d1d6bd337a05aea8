//! Version 3 of what has changed since. Bodies of it are converted as long as retention keeps them.

use serde::{Deserialize, Serialize};
use tidemill_domain::{
    BenchmarkName, BlockRef, ClustersRef, Continuation, Digest, Penalties, Reasoning, Settings, SuiteRef,
};

use crate::{Wire, v1};

/// A manifest, version 3: without groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The suite it was rendered from.
    pub suite: SuiteRef,
    /// Share of failed samples above which an evaluation is invalid.
    pub max_failure_rate: f64,
    /// At least one.
    pub benchmarks: Vec<Benchmark>,
}

/// A benchmark of it: without reasoning marks, metrics, subsets and weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    /// Its name.
    pub name: BenchmarkName,
    /// How completions are asked for.
    pub settings: Settings,
    /// How they are graded.
    pub grader: v1::GraderSpec,
    /// How many items it has.
    pub items: u32,
    /// The blocks that hold them.
    pub blocks: Vec<BlockRef>,
    /// Which items belong together.
    pub clusters: Option<ClustersRef>,
    /// What makes repeated tokens less likely.
    pub penalties: Penalties,
    /// What becomes of an answer that is interrupted.
    pub continuation: Continuation,
    /// How many of the samples are drawn only in slots that nothing else wants.
    pub spare_samples: u32,
    /// The outline of each block.
    pub outlines: Vec<Digest>,
}

impl Wire for Manifest {
    const SCHEMA: u16 = 4;
    const VERSION: u16 = 3;
    const NAME: &'static str = "manifest";
}

impl From<Manifest> for tidemill_domain::Manifest {
    fn from(old: Manifest) -> Self {
        Self {
            suite: old.suite,
            max_failure_rate: old.max_failure_rate,
            benchmarks: old.benchmarks.into_iter().map(Into::into).collect(),
            groups: Vec::new(),
        }
    }
}

impl From<Benchmark> for tidemill_domain::Benchmark {
    fn from(old: Benchmark) -> Self {
        Self {
            name: old.name,
            settings: old.settings,
            grader: old.grader.into(),
            items: old.items,
            blocks: old.blocks,
            clusters: old.clusters,
            penalties: old.penalties,
            continuation: old.continuation,
            spare_samples: old.spare_samples,
            outlines: old.outlines,
            reasoning: Reasoning::default(),
            metrics: Vec::new(),
            subsets: None,
            weights: None,
        }
    }
}
