//! Rotary position embedding, first half against second half as Hugging Face lays it out.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::numbers;

/// The table of angles for every position of a context.
///
/// Source: Su and others, "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
#[derive(Debug, Clone)]
pub struct Rotary {
    /// Cosine and sine, position by position, half a head wide.
    angles: Arc<Vec<(f32, f32)>>,
    half: usize,
}

impl Rotary {
    /// Computes the angles for heads of `width` (even) over `context` positions.
    pub fn new(width: usize, context: usize, theta: f64) -> Self {
        let half = width / 2;
        let angle = |position: usize, pair: usize| position as f64 * theta.powf(-(pair as f64) / half as f64);
        let angles = (0..context)
            .flat_map(|position| (0..half).map(move |pair| angle(position, pair)))
            .map(|angle| (angle.cos() as f32, angle.sin() as f32))
            .collect();
        Self {
            angles: Arc::new(angles),
            half,
        }
    }

    /// Rotates `[batch, heads, time, width]`, whose first time step is at position `start`.
    pub fn rotate(&self, heads: &Tensor, start: usize) -> Result<Tensor> {
        heads.contiguous()?.apply_op1(Rotation {
            rotary: self.clone(),
            start,
            direction: 1.0,
        })
    }
}

struct Rotation {
    rotary: Rotary,
    start: usize,
    direction: f32,
}

impl CustomOp1 for Rotation {
    fn name(&self) -> &'static str {
        "rotary"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let half = self.rotary.half;
        let (_, _, time, width) = layout.shape().dims4()?;
        let values = numbers(storage, layout)?;
        let mut result = vec![0.0; values.len()];
        for (index, (row, out)) in values
            .chunks_exact(width)
            .zip(result.chunks_exact_mut(width))
            .enumerate()
        {
            let position = self.start + index % time;
            let angles = &self.rotary.angles[position * half..(position + 1) * half];
            let ((first, second), (out_first, out_second)) = (row.split_at(half), out.split_at_mut(half));
            for pair in 0..half {
                let (cosine, sine) = (angles[pair].0, angles[pair].1 * self.direction);
                out_first[pair] = first[pair] * cosine - second[pair] * sine;
                out_second[pair] = second[pair] * cosine + first[pair] * sine;
            }
        }
        Ok((CpuStorage::F32(result), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let back = Self {
            rotary: self.rotary.clone(),
            start: self.start,
            direction: -self.direction,
        };
        Ok(Some(grad.contiguous()?.apply_op1_no_bwd(&back)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_gradients, random_var};
    use super::*;

    #[test]
    fn gradients_match_differences() {
        let heads = random_var(&[1, 2, 3, 4], 1);
        let rotary = Rotary::new(4, 8, 10_000.0);
        check_gradients(std::slice::from_ref(&heads), || rotary.rotate(&heads, 2));
    }

    #[test]
    fn products_depend_on_distance_alone() {
        let (query, key) = (random_var(&[1, 1, 1, 4], 1), random_var(&[1, 1, 1, 4], 2));
        let rotary = Rotary::new(4, 16, 10_000.0);
        let product = |query_at, key_at| {
            let rotated = (rotary.rotate(&query, query_at).unwrap() * rotary.rotate(&key, key_at).unwrap()).unwrap();
            rotated.sum_all().unwrap().to_scalar::<f32>().unwrap()
        };
        assert!((product(5, 2) - product(12, 9)).abs() < 1e-5);
        assert!((product(5, 2) - product(5, 3)).abs() > 1e-3);
    }
}
