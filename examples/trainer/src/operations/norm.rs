//! Root-mean-square normalisation over the last axis.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::{copied, numbers};

/// Scales each row to unit root mean square (`epsilon` added to the mean square), then by `weight`.
///
/// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
pub fn root_mean_square_norm(rows: &Tensor, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
    rows.apply_op2(weight, Norm { epsilon })
}

struct Norm {
    epsilon: f32,
}

impl Norm {
    fn inverse(&self, row: &[f32]) -> f32 {
        let square: f32 = row.iter().map(|value| value * value).sum();
        1.0 / (square / row.len() as f32 + self.epsilon).sqrt()
    }
}

impl CustomOp2 for Norm {
    fn name(&self) -> &'static str {
        "root-mean-square-norm"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        let (values, weight) = (numbers(s1, l1)?, numbers(s2, l2)?);
        let mut result = Vec::with_capacity(values.len());
        for row in values.chunks_exact(weight.len()) {
            let inverse = self.inverse(row);
            result.extend(row.iter().zip(weight).map(|(value, weight)| value * inverse * weight));
        }
        Ok((CpuStorage::F32(result), l1.shape().clone()))
    }

    fn bwd(
        &self,
        rows: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (values, weights, grads) = (copied(rows)?, copied(weight)?, copied(grad)?);
        let width = weights.len();
        let mut for_rows = Vec::with_capacity(values.len());
        let mut for_weight = vec![0.0; width];
        for (row, grad) in values.chunks_exact(width).zip(grads.chunks_exact(width)) {
            let inverse = self.inverse(row);
            let along: f32 = row
                .iter()
                .zip(grad)
                .zip(&weights)
                .map(|((value, grad), weight)| value * grad * weight)
                .sum();
            let pull = along * inverse * inverse * inverse / width as f32;
            for_rows.extend(
                row.iter()
                    .zip(grad)
                    .zip(&weights)
                    .map(|((value, grad), weight)| grad * weight * inverse - value * pull),
            );
            for ((sum, value), grad) in for_weight.iter_mut().zip(row).zip(grad) {
                *sum += value * grad * inverse;
            }
        }
        Ok((
            Some(Tensor::from_vec(for_rows, rows.shape(), rows.device())?),
            Some(Tensor::from_vec(for_weight, weight.shape(), weight.device())?),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_gradients, random_var};
    use super::*;

    #[test]
    fn gradients_match_differences() {
        let (rows, weight) = (random_var(&[3, 6], 1), random_var(&[6], 2));
        check_gradients(&[rows.clone(), weight.clone()], || {
            root_mean_square_norm(&rows, &weight, 1e-5)
        });
    }
}
