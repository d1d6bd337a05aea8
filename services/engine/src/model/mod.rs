//! The Llama forward pass over a ragged batch.
//!
//! A step is a flat list of [`Row`]s: one token each of any sequence at any position, prompt tokens and newly drawn ones
//! alike. The result of a row depends on its own sequence alone, bit for bit: every sum in it has one order,
//! whatever else is computed ([`linear`], [`attention`]). Prefill, decode, batch size and neighbours are therefore invisible in the results.

mod attention;
mod cache;
mod elementwise;
mod linear;
mod llama;
mod rope;

use candle_core::{CpuStorage, Layout, Result};

pub(crate) use cache::KvCache;
pub(crate) use llama::{Llama, check_tensors};

/// One token to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Index of the sequence among the caches given to the step.
    pub(crate) sequence: usize,
    /// Place of the token in its sequence, from 0. Rows of one sequence come in ascending order without gaps.
    pub(crate) position: usize,
    /// The token itself.
    pub(crate) token: u32,
    /// Whether the distribution of the next token is wanted.
    pub(crate) wants_logits: bool,
}

/// What the scheduler needs of a model; a trait so that scheduling is tested without one.
pub(crate) trait Decoder {
    /// Keys and values of one sequence.
    type Cache;

    /// An empty cache with room for `capacity` tokens.
    fn new_cache(&self, capacity: usize) -> Self::Cache;

    /// Number of logits per row.
    fn vocab_size(&self) -> usize;

    /// Computes `rows`, storing keys and values, and returns the logits of the rows that want them, one after the other.
    ///
    /// A step that failed may be repeated: keys and values are stored by position, so the second try overwrites the first.
    fn forward(&self, rows: &[Row], caches: &mut [&mut Self::Cache]) -> Result<Vec<f32>>;
}

/// The values of a contiguous tensor of 32-bit floats.
fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&values[start..end]),
        _ => candle_core::bail!("expected contiguous 32-bit floats"),
    }
}
