//! What a manifest declares, by ordinals: the one place that asks for items.

use tidemill_domain::{Benchmark, EvaluationId, ItemKey, Manifest};
use tidemill_storage::{Store, StoredItem};

use crate::Error;

/// The order of the declared samples: benchmark by benchmark, item by item, sample by sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    evaluation: EvaluationId,
    /// Of each benchmark: the ordinal of its first sample, its items, and its samples an item.
    benchmarks: Vec<(u64, u64, u32)>,
    samples: u64,
}

impl Layout {
    /// The layout of an evaluation's manifest.
    #[must_use]
    pub fn new(evaluation: &EvaluationId, manifest: &Manifest) -> Self {
        let mut samples = 0;
        let mut benchmarks = Vec::with_capacity(manifest.benchmarks.len());
        for benchmark in &manifest.benchmarks {
            let each = benchmark.settings.samples.max(1);
            benchmarks.push((samples, benchmark.samples() / u64::from(each), each));
            samples += benchmark.samples();
        }
        Self {
            evaluation: evaluation.clone(),
            benchmarks,
            samples,
        }
    }

    /// Declared samples.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// The ordinal of a key; `None` when it is not declared.
    #[must_use]
    pub fn ordinal(&self, key: &ItemKey) -> Option<u64> {
        let (first, items, each) = self.benchmarks.get(key.benchmark as usize)?;
        let is_declared = u64::from(key.item) < *items && key.sample < *each && key.evaluation == self.evaluation;
        is_declared.then(|| first + u64::from(key.item) * u64::from(*each) + u64::from(key.sample))
    }

    /// The key of an ordinal; `None` past the last.
    #[must_use]
    pub fn key(&self, ordinal: u64) -> Option<ItemKey> {
        if ordinal >= self.samples {
            return None;
        }
        let benchmark = self.benchmarks.partition_point(|(first, ..)| *first <= ordinal) - 1;
        let (first, _, each) = self.benchmarks[benchmark];
        let within = ordinal - first;
        Some(ItemKey {
            evaluation: self.evaluation.clone(),
            benchmark: benchmark as u32,
            item: (within / u64::from(each)) as u32,
            sample: (within % u64::from(each)) as u32,
        })
    }
}

/// The benchmark and the item of a key; `None` when the manifest does not declare it.
///
/// # Errors
/// [`Error::Storage`].
pub async fn item<'m>(
    store: &Store,
    manifest: &'m Manifest,
    key: &ItemKey,
) -> Result<Option<(&'m Benchmark, StoredItem)>, Error> {
    let item = store.item(manifest, key).await?;
    Ok(manifest.benchmark_of(key).zip(item))
}
