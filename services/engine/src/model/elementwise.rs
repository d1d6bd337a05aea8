//! Element-by-element operations, always on the calling thread and the same on every processor.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use pulp::Arch;

use super::values;

/// `x + y`.
pub(super) fn add(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    left.apply_op2_no_bwd(right, &Pairwise(|x, y| x + y))
}

/// `silu(x) * y`, the activation of the feed-forward layer.
pub(super) fn gate(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    left.apply_op2_no_bwd(
        right,
        &Pairwise(
            #[inline(always)]
            |x: f32, y: f32| x / (1.0 + exp(-x)) * y,
        ),
    )
}

struct Pairwise<F>(F);

impl<F: Fn(f32, f32) -> f32> CustomOp2 for Pairwise<F> {
    fn name(&self) -> &'static str {
        "pairwise"
    }

    fn cpu_fwd(
        &self,
        left: &CpuStorage,
        left_layout: &Layout,
        right: &CpuStorage,
        right_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (left, right) = (values(left, left_layout)?, values(right, right_layout)?);
        let output = Arch::new().dispatch(
            #[inline(always)]
            || left.iter().zip(right).map(|(x, y)| (self.0)(*x, *y)).collect(),
        );
        Ok((CpuStorage::F32(output), left_layout.shape().clone()))
    }
}

/// The exponential function, within two units in the last place, free of branches so that loops over it become vector code.
///
/// Arguments are cut to `-87..=88`, between which the result is a normal number.
///
/// Source: the range reduction and polynomial of Cephes' `expf`, Moshier, 1989.
#[inline(always)]
pub(super) fn exp(value: f32) -> f32 {
    /// Adding and subtracting it rounds to an integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let value = value.clamp(-87.0, 88.0);
    let rounded = value * std::f32::consts::LOG2_E + ROUND;
    let power = rounded - ROUND;
    let rest = value - power * 0.693_359_4 - power * -2.121_944_4e-4;
    let mut polynomial = 1.987_569_1e-4;
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        polynomial = polynomial * rest + coefficient;
    }
    let fraction = polynomial * rest * rest + rest + 1.0;
    let exponent = rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    fraction * f32::from_bits(exponent)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn the_exponential_is_exact_to_two_units() {
        for step in -8_700..=8_800 {
            let value = step as f32 / 100.0;
            let exact = f64::from(value).exp();
            let error = (f64::from(exp(value)) - exact).abs() / exact;
            assert!(error < 2.4e-7, "exp({value}) is off by {error:e}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(-1e9) < 1e-37);
    }

    #[test]
    fn the_gate_multiplies_by_the_sigmoid_linear_unit() {
        let tensor = |values: &[f32]| Tensor::new(values, &Device::Cpu).unwrap();
        let result = gate(&tensor(&[0.0, 1.0, -100.0]), &tensor(&[5.0, 2.0, 1.0])).unwrap();
        let result: Vec<f32> = result.to_vec1().unwrap();
        assert_eq!(result[0], 0.0);
        assert!((result[1] - 1.462_117).abs() < 1e-6);
        assert!(result[2].abs() < 1e-30);
        let sum: Vec<f32> = add(&tensor(&[1.0]), &tensor(&[2.0])).unwrap().to_vec1().unwrap();
        assert_eq!(sum, [3.0]);
    }
}
