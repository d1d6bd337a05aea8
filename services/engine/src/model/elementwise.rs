//! Element-by-element operations, always on the calling thread and the same on every processor.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use pulp::{Arch, Simd, WithSimd};

use super::values;

/// `x + y`.
pub(super) fn add(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    left.apply_op2_no_bwd(right, &Add)
}

/// `silu(x) * y`, the activation of the feed-forward layer.
pub(super) fn gate(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    left.apply_op2_no_bwd(right, &Gate)
}

struct Add;

struct Gate;

impl CustomOp2 for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn cpu_fwd(&self, x: &CpuStorage, x_at: &Layout, y: &CpuStorage, y_at: &Layout) -> Result<(CpuStorage, Shape)> {
        let (x, y) = (values(x, x_at)?, values(y, y_at)?);
        let output = x.iter().zip(y).map(|(x, y)| x + y).collect();
        Ok((CpuStorage::F32(output), x_at.shape().clone()))
    }
}

impl CustomOp2 for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn cpu_fwd(&self, x: &CpuStorage, x_at: &Layout, y: &CpuStorage, y_at: &Layout) -> Result<(CpuStorage, Shape)> {
        let (x, y) = (values(x, x_at)?, values(y, y_at)?);
        let mut output = vec![0.0; x.len()];
        Arch::new().dispatch(GateAll {
            x,
            y,
            output: &mut output,
        });
        Ok((CpuStorage::F32(output), x_at.shape().clone()))
    }
}

struct GateAll<'a> {
    x: &'a [f32],
    y: &'a [f32],
    output: &'a mut [f32],
}

impl WithSimd for GateAll<'_> {
    type Output = ();

    // Inlined into the function that `dispatch` compiles per kind of processor.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        for ((result, x), y) in self.output.iter_mut().zip(self.x).zip(self.y) {
            *result = x / (1.0 + exp(-x)) * y;
        }
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
