//! Operations with a forward and a backward pass of their own.
//!
//! Composed of plain tensor operations each would make five to fifteen passes over its input, and a training step
//! would take three times as long. Everything is `f32` on the processor, contiguous, with the last axis innermost.

mod attention;
mod gate;
mod norm;
mod rotary;

pub use attention::masked_softmax;
pub use gate::gated_silu;
pub use norm::root_mean_square_norm;
pub use rotary::Rotary;

use candle_core::{CpuStorage, Layout, Result, Tensor, bail};

/// The numbers of a contiguous tensor.
fn numbers<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (layout.contiguous_offsets(), storage) {
        (Some((start, end)), CpuStorage::F32(values)) => Ok(&values[start..end]),
        _ => bail!("operation needs a contiguous f32 tensor"),
    }
}

/// A copy of a tensor's numbers, for backward passes.
fn copied(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.flatten_all()?.to_vec1()
}

#[cfg(test)]
pub(crate) use tests::random_var;

#[cfg(test)]
mod tests {
    use candle_core::{Device, Result, Tensor, Var};

    use crate::random::Random;

    pub(crate) fn random_var(shape: &[usize], seed: u64) -> Var {
        let mut random = Random::new(seed);
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| random.normal() as f32).collect();
        Var::from_vec(values, shape, &Device::Cpu).unwrap()
    }

    /// Compares the gradient of a weighted sum of the outputs with central differences, at every coordinate.
    pub(super) fn check_gradients(inputs: &[Var], operation: impl Fn() -> Result<Tensor>) {
        let weights = random_var(operation().unwrap().dims(), 99);
        let value = || (operation().unwrap() * weights.as_tensor()).unwrap().sum_all().unwrap();
        let gradients = value().backward().unwrap();
        for input in inputs {
            let original: Vec<f32> = input.flatten_all().unwrap().to_vec1().unwrap();
            let analytic: Vec<f32> = gradients.get(input).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            for index in 0..original.len() {
                let shifted = |by: f32| {
                    let mut values = original.clone();
                    values[index] += by;
                    input
                        .set(&Tensor::from_vec(values, input.dims(), &Device::Cpu).unwrap())
                        .unwrap();
                    value().to_scalar::<f32>().unwrap()
                };
                let numeric = (shifted(5e-3) - shifted(-5e-3)) / 1e-2;
                let tolerance = 2e-2 * analytic[index].abs().max(1.0);
                assert!(
                    (numeric - analytic[index]).abs() < tolerance,
                    "{index}: {numeric} against {}",
                    analytic[index]
                );
            }
            input
                .set(&Tensor::from_vec(original, input.dims(), &Device::Cpu).unwrap())
                .unwrap();
        }
    }
}
