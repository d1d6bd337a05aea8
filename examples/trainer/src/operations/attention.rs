//! The masked softmax of attention.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::{copied, numbers};

/// Turns scores into attention weights, each query seeing the keys from its segment's start up to itself.
///
/// `scores` is `[batch, key heads, group * queries, keys]`: the query heads that share a key head follow one another.
/// `starts` gives, row after row of the batch, the first key that each query may see. The last query is aligned with
/// the last key, so that the same function serves generation, where earlier keys come from a cache.
pub fn masked_softmax(scores: &Tensor, scale: f32, starts: &Arc<Vec<u32>>, queries: usize) -> Result<Tensor> {
    scores.apply_op1(MaskedSoftmax {
        scale,
        starts: Arc::clone(starts),
        queries,
    })
}

struct MaskedSoftmax {
    scale: f32,
    starts: Arc<Vec<u32>>,
    queries: usize,
}

impl MaskedSoftmax {
    /// The visible keys of each row of scores, in order.
    fn visible(&self, shape: &Shape) -> Result<impl Iterator<Item = std::ops::Range<usize>>> {
        let (batch, heads, grouped, keys) = shape.dims4()?;
        let past = keys - self.queries;
        Ok((0..batch * heads * grouped).map(move |index| {
            let (row, query) = (index / (heads * grouped), index % self.queries);
            self.starts[row * self.queries + query] as usize..past + query + 1
        }))
    }
}

impl CustomOp1 for MaskedSoftmax {
    fn name(&self) -> &'static str {
        "masked-softmax"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let values = numbers(storage, layout)?;
        let keys = layout.shape().dims4()?.3;
        let mut result = vec![0.0; values.len()];
        let rows = values.chunks_exact(keys).zip(result.chunks_exact_mut(keys));
        for ((row, out), visible) in rows.zip(self.visible(layout.shape())?) {
            let (row, out) = (&row[visible.clone()], &mut out[visible]);
            let largest = row.iter().fold(f32::NEG_INFINITY, |largest, &value| largest.max(value));
            let mut total = 0.0;
            for (out, value) in out.iter_mut().zip(row) {
                *out = ((value - largest) * self.scale).exp();
                total += *out;
            }
            out.iter_mut().for_each(|out| *out /= total);
        }
        Ok((CpuStorage::F32(result), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, weights: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let keys = weights.dims4()?.3;
        let (values, grads) = (copied(weights)?, copied(grad)?);
        let mut result = vec![0.0; values.len()];
        let rows = values
            .chunks_exact(keys)
            .zip(grads.chunks_exact(keys))
            .zip(result.chunks_exact_mut(keys));
        for (((weights, grad), out), visible) in rows.zip(self.visible(weights.shape())?) {
            let (weights, grad) = (&weights[visible.clone()], &grad[visible.clone()]);
            let mean: f32 = weights.iter().zip(grad).map(|(weight, grad)| weight * grad).sum();
            for ((out, weight), grad) in out[visible].iter_mut().zip(weights).zip(grad) {
                *out = weight * (grad - mean) * self.scale;
            }
        }
        Ok(Some(Tensor::from_vec(result, weights.shape(), weights.device())?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_gradients, random_var};
    use super::*;

    #[test]
    fn gradients_match_differences() {
        let scores = random_var(&[2, 1, 6, 3], 1);
        let starts = Arc::new(vec![0, 0, 2, 0, 1, 1]);
        check_gradients(std::slice::from_ref(&scores), || {
            masked_softmax(&scores, 0.5, &starts, 3)
        });
    }

    #[test]
    fn a_query_sees_its_segment_up_to_itself() {
        let scores = random_var(&[1, 1, 3, 4], 1);
        let weights = masked_softmax(&scores, 1.0, &Arc::new(vec![0, 2, 2]), 3).unwrap();
        let rows = weights
            .squeeze(0)
            .unwrap()
            .squeeze(0)
            .unwrap()
            .to_vec2::<f32>()
            .unwrap();
        let seen: Vec<Vec<bool>> = rows
            .iter()
            .map(|row| row.iter().map(|&weight| weight > 0.0).collect())
            .collect();
        assert_eq!(
            seen,
            [
                [true, true, false, false],
                [false, false, true, false],
                [false, false, true, true]
            ]
        );
        assert!(rows.iter().all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-6));
    }
}
