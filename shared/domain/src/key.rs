//! The key of one unit of work.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::EvaluationId;

/// One declared (item, sample) of an evaluation: what is released, completed and graded exactly once.
///
/// `benchmark` and `item` are ordinals in the evaluation's manifest, `sample` is the n-th draw for the item, all from 0.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ItemKey {
    /// The evaluation that declared it.
    pub evaluation: EvaluationId,
    /// Ordinal of the benchmark in the manifest.
    pub benchmark: u32,
    /// Ordinal of the item in the benchmark.
    pub item: u32,
    /// The n-th draw for the item.
    pub sample: u32,
}

impl fmt::Display for ItemKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}/{}/{}/{}",
            self.evaluation, self.benchmark, self.item, self.sample
        )
    }
}
