//! A manifest with its items in it: how small ones are written down.

use serde::Serialize;

use crate::{
    Benchmark, BenchmarkName, BlockRef, ColumnsRef, Continuation, GraderSpec, Item, Manifest, Penalties, Reasoning,
    Settings, SuiteRef,
};

/// A rendered suite as one value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WholeManifest {
    /// The suite it was rendered from.
    pub suite: SuiteRef,
    /// Share of failed samples, 0 to 1, above which an evaluation is invalid.
    pub max_failure_rate: f64,
    /// At least one.
    pub benchmarks: Vec<WholeBenchmark>,
}

/// A benchmark with all its items.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WholeBenchmark {
    /// Its name, unique in the suite.
    pub name: BenchmarkName,
    /// How completions are asked for.
    pub settings: Settings,
    /// How they are graded.
    pub grader: GraderSpec,
    /// At least one.
    pub items: Vec<Item>,
}

impl WholeManifest {
    /// The manifest of benchmarks whose items were stored.
    #[must_use]
    pub fn located(self, benchmarks: Vec<Benchmark>) -> Manifest {
        Manifest {
            suite: self.suite,
            max_failure_rate: self.max_failure_rate,
            benchmarks,
            groups: Vec::new(),
        }
    }
}

impl WholeBenchmark {
    /// The benchmark whose items were stored in these blocks.
    #[must_use]
    pub fn located(self, blocks: Vec<BlockRef>, items: u32, columns: ColumnsRef) -> Benchmark {
        Benchmark {
            name: self.name,
            settings: self.settings,
            metrics: self.grader.metrics(),
            grader: self.grader,
            items,
            blocks,
            clusters: columns.clusters,
            penalties: Penalties::default(),
            continuation: Continuation::default(),
            spare_samples: 0,
            outlines: Vec::new(),
            reasoning: Reasoning::default(),
            subsets: columns.subsets,
            weights: columns.weights,
        }
    }
}
