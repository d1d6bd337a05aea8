//! Causal attention of single rows, each over its own sequence, in plain loops of a fixed order.

use pulp::{Arch, Simd, WithSimd};

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

/// Attention of one row.
pub(super) struct Attend<'a> {
    pub(super) heads: Heads,
    pub(super) queries: &'a [f32],
    pub(super) cache: &'a LayerCache,
    /// How many positions of the cache are attended to.
    pub(super) length: usize,
    /// Working space, kept by the caller so that no row allocates.
    pub(super) scores: &'a mut Vec<f32>,
    /// The heads' results.
    pub(super) output: &'a mut [f32],
}

impl Attend<'_> {
    /// Computes the output, with the widest vectors that the processor has.
    pub(super) fn run(self) {
        Arch::new().dispatch(self);
    }
}

impl WithSimd for Attend<'_> {
    type Output = ();

    // Everything below is inlined into the function that `dispatch` compiles per kind of processor. Hence loops instead of
    // iterator adapters: a closure called by the library would be compiled for the oldest processor.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Heads {
            heads,
            kv_heads,
            head_dim,
        } = self.heads;
        let width = kv_heads * head_dim;
        let scale = 1.0 / (head_dim as f32).sqrt();
        self.scores.clear();
        self.scores.resize(self.length, 0.0);
        let outputs = self.output.chunks_exact_mut(head_dim);
        for (head, (query, result)) in self.queries.chunks_exact(head_dim).zip(outputs).enumerate() {
            let offset = head / (heads / kv_heads) * head_dim;
            for (score, row) in self.scores.iter_mut().zip(self.cache.keys().chunks_exact(width)) {
                *score = dot(query, &row[offset..offset + head_dim]) * scale;
            }
            softmax(self.scores);
            weigh(self.scores, self.cache.values(), width, offset, result);
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
    let mut rest = 0.0;
    for (x, y) in left_rest.iter().zip(right_rest) {
        rest += x * y;
    }
    fold(sums, add) + rest
}

/// Replaces scores by their softmax.
#[inline(always)]
fn softmax(scores: &mut [f32]) {
    let largest = reduce(scores, f32::NEG_INFINITY, larger);
    for score in scores.iter_mut() {
        *score = exp(*score - largest);
    }
    let sum = reduce(scores, 0.0, add);
    for score in scores {
        *score /= sum;
    }
}

/// The sum of the rows of `values`, each from `offset` on, times their `weights`; each sum in order of position.
#[inline(always)]
fn weigh(weights: &[f32], values: &[f32], width: usize, offset: usize, result: &mut [f32]) {
    let (chunks, rest) = result.as_chunks_mut::<LANES>();
    let rest_offset = offset + chunks.len() * LANES;
    for (index, chunk) in chunks.iter_mut().enumerate() {
        let at = offset + index * LANES;
        let mut sums = [0.0; LANES];
        for (weight, row) in weights.iter().zip(values.chunks_exact(width)) {
            for (sum, value) in sums.iter_mut().zip(&row[at..at + LANES]) {
                *sum += weight * value;
            }
        }
        *chunk = sums;
    }
    for (index, sum) in rest.iter_mut().enumerate() {
        *sum = 0.0;
        for (weight, row) in weights.iter().zip(values.chunks_exact(width)) {
            *sum += weight * row[rest_offset + index];
        }
    }
}

#[inline(always)]
fn add(x: f32, y: f32) -> f32 {
    x + y
}

#[inline(always)]
fn larger(x: f32, y: f32) -> f32 {
    if x > y { x } else { y }
}

/// Combines all values, lane by lane and then the lanes.
#[inline(always)]
fn reduce(values: &[f32], start: f32, combine: impl Fn(f32, f32) -> f32 + Copy) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [start; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = combine(lanes[lane], chunk[lane]);
        }
    }
    let mut result = fold(lanes, combine);
    for value in rest {
        result = combine(result, *value);
    }
    result
}

#[inline(always)]
fn fold(mut lanes: [f32; LANES], combine: impl Fn(f32, f32) -> f32) -> f32 {
    for half in [LANES / 2, LANES / 4, LANES / 8, 1] {
        for lane in 0..half {
            lanes[lane] = combine(lanes[lane], lanes[lane + half]);
        }
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cache::KvCache;

    fn attend(heads: Heads, queries: &[f32], cache: &LayerCache, length: usize, output: &mut [f32]) {
        Attend {
            heads,
            queries,
            cache,
            length,
            scores: &mut Vec::new(),
            output,
        }
        .run();
    }

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
        attend(heads, &[1.0, 0.0, 0.0, 0.0], cache.layer(0), 2, &mut output);
        for (result, expected) in output.iter().zip([4.0, 40.0, 3.0, 30.0]) {
            assert!((result - expected).abs() < 1e-4, "{output:?}");
        }
        attend(heads, &[1.0, 0.0, 0.0, 0.0], cache.layer(0), 1, &mut output);
        assert_eq!(output, [1.0, 10.0, 1.0, 10.0]);
    }

    #[test]
    fn head_dims_that_are_no_multiple_of_the_lanes_are_covered() {
        let width = LANES + 3;
        let mut cache = KvCache::with_capacity(1, width, 40);
        for position in 0..40 {
            let value: Vec<f32> = (0..width).map(|at| (position * at) as f32).collect();
            cache.layer(0).store(position, &vec![0.0; width], &value);
        }
        let heads = Heads {
            heads: 1,
            kv_heads: 1,
            head_dim: width,
        };
        let mut output = vec![9.0; width];
        attend(heads, &vec![1.0; width], cache.layer(0), 40, &mut output);
        for (at, value) in output.iter().enumerate() {
            assert!((value - 19.5 * at as f32).abs() < 1e-3, "{output:?}");
        }
    }

    #[test]
    fn dot_product_covers_lengths_that_are_no_multiple_of_the_lanes() {
        let ones = [1.0; 19];
        assert_eq!(dot(&ones, &ones), 19.0);
    }
}
