//! Causal attention of single rows, each over its own sequence, in plain loops of a fixed order.

use pulp::Arch;

use super::{cache::LayerCache, elementwise::exp};

/// Lanes of a dot product: partial sums that the compiler keeps in vector registers, added up in one fixed order.
const LANES: usize = 16;

/// The head layout of grouped-query attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
}

impl Heads {
    /// Attends from one row of queries to positions `0..length` of `cache`, writing the heads' results to `output`.
    ///
    /// `scores` is working space, kept by the caller so that no row allocates.
    pub(super) fn attend(
        self,
        queries: &[f32],
        cache: &LayerCache,
        length: usize,
        scores: &mut Vec<f32>,
        output: &mut [f32],
    ) {
        Arch::new().dispatch(
            #[inline(always)]
            || self.attend_with_vectors(queries, cache, length, scores, output),
        );
    }

    #[inline(always)]
    fn attend_with_vectors(
        self,
        queries: &[f32],
        cache: &LayerCache,
        length: usize,
        scores: &mut Vec<f32>,
        output: &mut [f32],
    ) {
        let (dim, width) = (self.head_dim, self.kv_heads * self.head_dim);
        let heads_per_kv = self.heads / self.kv_heads;
        let scale = 1.0 / (dim as f32).sqrt();
        for (head, (query, result)) in queries.chunks_exact(dim).zip(output.chunks_exact_mut(dim)).enumerate() {
            let offset = head / heads_per_kv * dim;
            scores.clear();
            let keys = cache.keys().chunks_exact(width).take(length);
            scores.extend(keys.map(
                #[inline(always)]
                |row| dot(query, &row[offset..offset + dim]) * scale,
            ));
            softmax(scores);
            result.fill(0.0);
            for (weight, row) in scores.iter().zip(cache.values().chunks_exact(width)) {
                for (sum, value) in result.iter_mut().zip(&row[offset..offset + dim]) {
                    *sum += weight * value;
                }
            }
        }
    }
}

#[inline(always)]
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left_lanes, left_rest) = left.as_chunks::<LANES>();
    let (right_lanes, right_rest) = right.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (x, y) in left_lanes.iter().zip(right_lanes) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(x, y)| x * y).sum();
    for half in [LANES / 2, LANES / 4, LANES / 8, 1] {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
    }
    sums[0] + rest
}

#[inline(always)]
fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = exp(*score - largest);
    }
    for score in scores.iter() {
        sum += *score;
    }
    for score in scores {
        *score /= sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cache::KvCache;

    #[test]
    fn attention_weighs_values_by_the_softmax_of_the_scores() {
        let mut cache = KvCache::with_capacity(1, 2, 2);
        cache.layer(0).store(0, &[0.0, 0.0], &[1.0, 10.0]);
        cache.layer(0).store(1, &[2f32.sqrt() * 3f32.ln(), 0.0], &[5.0, 50.0]);
        let heads = Heads {
            heads: 2,
            kv_heads: 1,
            head_dim: 2,
        };
        let mut output = [0.0; 4];
        heads.attend(&[1.0, 0.0, 0.0, 0.0], cache.layer(0), 2, &mut Vec::new(), &mut output);
        for (result, expected) in output.iter().zip([4.0, 40.0, 3.0, 30.0]) {
            assert!((result - expected).abs() < 1e-4, "{output:?}");
        }
        heads.attend(&[1.0, 0.0, 0.0, 0.0], cache.layer(0), 1, &mut Vec::new(), &mut output);
        assert_eq!(output, [1.0, 10.0, 1.0, 10.0]);
    }

    #[test]
    fn dot_product_covers_lengths_that_are_no_multiple_of_the_lanes() {
        let ones = [1.0; 19];
        assert_eq!(dot(&ones, &ones), 19.0);
    }
}
