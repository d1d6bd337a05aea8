//! The statistics of results: means and their errors, intervals, comparisons, and what a comparison could have shown.
//!
//! The unit of every error is the item: samples of one item are averaged before they come here, because drawing the same item
//! again tells nothing about other items. Where items share a passage or are translations of each other, the unit is their
//! cluster. Nothing here knows what a grade or a manifest is, and nothing draws at random without a seed: the same numbers
//! give the same figures, byte for byte, on every machine.
//!
//! `docs/statistics.md` says which figure is used when. The figures are compared with those of SciPy, statsmodels and
//! scikit-learn: `ops/statistics/golden.py` computes what the tests read.

mod alike;
mod bootstrap;
mod clusters;
mod corpus;
mod coverage;
mod distribution;
mod groups;
mod interval;
mod items;
mod labels;
mod many;
mod mcnemar;
mod paired;
mod power;
mod samples;

#[cfg(test)]
mod golden_tests;

pub use alike::{effective_count, is_rounding, unseen_interval, unseen_share};
pub use bootstrap::{Jackknife, Resampled, Resampling, Units};
pub use clusters::Clusters;
pub use corpus::{bits_per_weight, perplexity};
pub use coverage::bounds;
pub use distribution::{normal_p, normal_quantile, student_p, student_quantile};
pub use groups::{
    Part, macro_interval, macro_mean, micro_interval, micro_mean, pooled_standard_error, welch_satterthwaite,
};
pub use interval::{
    CONFIDENCE, Method, Z_95, clip, normal_interval, student_interval, wilson_interval, wilson_of_share,
};
pub use items::{Items, Weighted};
pub use labels::{Average, Pairs};
pub use many::holm;
pub use mcnemar::{Discordant, McNemarMethod};
pub use paired::{Difference, Pair, difference, difference_by_bootstrap};
pub use power::{Design, Spread, within_variance};
pub use samples::{MAX_VOTERS, Vote, majority_at, pass_at, voters};
