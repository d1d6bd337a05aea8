//! Linear layers whose result for a row does not depend on the rows beside it.
//!
//! A general matrix multiplication picks its kernel and the blocking of its sums by the shape of the operands: one row goes
//! another way than sixteen, and the sums round differently. Here every output is one sum over the inputs in ascending order,
//! whatever the number of rows, threads or vector lanes; products and sums are rounded separately (no fused multiply-add), so
//! that processors agree too. Vectors run across outputs, never along a sum.
//!
//! The price: about half the peak rate of a fused kernel, and no blocking along the sum, so that rows of weights too wide for the
//! first-level cache (some thousands of inputs) are read more slowly. A model of a few million parameters notices neither.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};
use candle_nn::Module;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::values;
use crate::checkpoint::Matrix;

/// Outputs computed side by side: two vectors of eight.
const PANEL: usize = 16;
/// Rows computed side by side. With two vectors each they fill the sixteen vector registers of x86-64 beside the operands.
const TILE: usize = 4;

/// `y = x W^T (+ b)`.
#[derive(Debug)]
pub(super) struct Linear {
    inputs: usize,
    outputs: usize,
    /// For each group of [`PANEL`] outputs, the weights by input: `[outputs / PANEL][inputs]`, filled up with zeros.
    panels: Vec<[f32; PANEL]>,
    bias: Option<Vec<f32>>,
}

impl Linear {
    /// Packs a weight in the checkpoint's layout, outputs by inputs.
    pub(super) fn new(weight: &Matrix, bias: Option<Vec<f32>>) -> Self {
        let (outputs, inputs) = (weight.rows, weight.columns);
        let mut panels = vec![[0.0; PANEL]; outputs.div_ceil(PANEL) * inputs];
        for (output, line) in weight.values.chunks_exact(inputs).enumerate() {
            let panel = &mut panels[output / PANEL * inputs..][..inputs];
            for (group, value) in panel.iter_mut().zip(line) {
                group[output % PANEL] = *value;
            }
        }
        Self {
            inputs,
            outputs,
            panels,
            bias,
        }
    }

    fn multiply(&self, rows: &[f32]) -> Vec<f32> {
        let count = rows.len() / self.inputs;
        let mut products = vec![[0.0; PANEL]; count * self.outputs.div_ceil(PANEL)];
        let rows = Rows::pack(rows, self.inputs);
        let arch = Arch::new();
        let work = |(panel, products): (&[[f32; PANEL]], &mut [[f32; PANEL]])| {
            arch.dispatch(MultiplyPanel {
                panel,
                rows: &rows,
                products,
            });
        };
        if rayon::current_num_threads() == 1 {
            self.panels
                .chunks_exact(self.inputs)
                .zip(products.chunks_exact_mut(count))
                .for_each(work);
        } else {
            self.panels
                .par_chunks_exact(self.inputs)
                .zip(products.par_chunks_exact_mut(count))
                .for_each(work);
        }
        self.gather(&products, count)
    }

    /// Brings products from `[panel][row]` into `[row][output]` and adds the bias.
    fn gather(&self, products: &[[f32; PANEL]], count: usize) -> Vec<f32> {
        let mut output = Vec::with_capacity(count * self.outputs);
        for row in 0..count {
            let mut left = self.outputs;
            for panel in products[row..].iter().step_by(count) {
                output.extend_from_slice(&panel[..left.min(PANEL)]);
                left -= left.min(PANEL);
            }
        }
        if let Some(bias) = &self.bias {
            for line in output.chunks_exact_mut(self.outputs) {
                line.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
            }
        }
        output
    }
}

/// Input rows: whole tiles interleaved, `[tile][input][row]`, and the rows left over as they are.
struct Rows<'a> {
    tiles: Vec<[f32; TILE]>,
    single: &'a [f32],
}

impl<'a> Rows<'a> {
    fn pack(rows: &'a [f32], inputs: usize) -> Self {
        let whole = rows.len() / (TILE * inputs) * TILE * inputs;
        let (tiled, single) = rows.split_at(whole);
        let mut tiles = vec![[0.0; TILE]; whole / TILE];
        for (tile, lines) in tiles.chunks_exact_mut(inputs).zip(tiled.chunks_exact(TILE * inputs)) {
            for (row, line) in lines.chunks_exact(inputs).enumerate() {
                for (group, value) in tile.iter_mut().zip(line) {
                    group[row] = *value;
                }
            }
        }
        Self { tiles, single }
    }
}

/// All rows times one panel.
struct MultiplyPanel<'a> {
    panel: &'a [[f32; PANEL]],
    rows: &'a Rows<'a>,
    products: &'a mut [[f32; PANEL]],
}

impl WithSimd for MultiplyPanel<'_> {
    type Output = ();

    // Inlined into the function that `dispatch` compiles per kind of processor.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let inputs = self.panel.len();
        let (tiles, rest) = self.products.as_chunks_mut::<TILE>();
        for (tile, products) in self.rows.tiles.chunks_exact(inputs).zip(tiles) {
            *products = multiply_tile(self.panel, tile);
        }
        for (line, product) in self.rows.single.chunks_exact(inputs).zip(rest) {
            [*product] = multiply_tile(self.panel, line.as_chunks::<1>().0);
        }
    }
}

/// The products of `ROWS` rows with one panel. Each sum starts at zero and runs over the inputs in ascending order.
#[inline(always)]
fn multiply_tile<const ROWS: usize>(panel: &[[f32; PANEL]], tile: &[[f32; ROWS]]) -> [[f32; PANEL]; ROWS] {
    let mut sums = [[0.0; PANEL]; ROWS];
    for (weights, values) in panel.iter().zip(tile) {
        for row in 0..ROWS {
            for output in 0..PANEL {
                sums[row][output] += values[row] * weights[output];
            }
        }
    }
    sums
}

impl CustomOp1 for &Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let rows = values(storage, layout)?;
        let output = self.multiply(rows);
        let shape = (output.len() / self.outputs, self.outputs);
        Ok((CpuStorage::F32(output), shape.into()))
    }
}

impl Module for Linear {
    /// Applies the layer to `[rows, inputs]`.
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        if input.dims2()?.1 != self.inputs {
            candle_core::bail!("a layer of {} inputs was given {:?}", self.inputs, input.shape());
        }
        input.apply_op1_no_bwd(&self)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::sampling::Draws;

    fn noise(seed: u64, length: usize) -> Vec<f32> {
        let draws = Draws::new(seed, 0);
        (0..length)
            .map(|position| draws.uniform(position) as f32 - 0.5)
            .collect()
    }

    fn apply(layer: &Linear, rows: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let input = Tensor::from_vec(rows.concat(), (rows.len(), rows[0].len()), &Device::Cpu).unwrap();
        layer.forward(&input).unwrap().to_vec2().unwrap()
    }

    #[test]
    fn a_row_is_bit_equal_alone_and_among_others_at_any_place_and_with_any_threads() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for (inputs, outputs) in [(32, 64), (64, 33), (257, 384), (1100, 70)] {
            let weight = Matrix {
                rows: outputs,
                columns: inputs,
                values: noise(1, inputs * outputs),
            };
            let layer = Linear::new(&weight, Some(noise(2, outputs)));
            let row = noise(3, inputs);
            let alone = apply(&layer, std::slice::from_ref(&row))[0].clone();
            for count in [2, 4, 5, 16, 39] {
                for place in [0, count / 2, count - 1] {
                    let mut rows: Vec<_> = (0..count).map(|other| noise(10 + other as u64, inputs)).collect();
                    rows[place] = row.clone();
                    assert_eq!(
                        apply(&layer, &rows)[place],
                        alone,
                        "{inputs}x{outputs}, row {place} of {count}"
                    );
                    assert_eq!(pool.install(|| apply(&layer, &rows))[place], alone);
                }
            }
        }
    }

    #[test]
    fn a_layer_multiplies_by_the_transposed_weight_and_adds_the_bias() {
        let (inputs, outputs) = (70, 37);
        let weight = Matrix {
            rows: outputs,
            columns: inputs,
            values: noise(1, inputs * outputs),
        };
        let (bias, rows) = (noise(2, outputs), [noise(3, inputs), noise(4, inputs)]);
        let results = apply(&Linear::new(&weight, Some(bias.clone())), &rows);
        for (row, result) in rows.iter().zip(results) {
            for (output, value) in result.iter().enumerate() {
                let line = &weight.values[output * inputs..][..inputs];
                let exact: f64 = line.iter().zip(row).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                assert!((exact + f64::from(bias[output]) - f64::from(*value)).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn a_row_of_the_wrong_width_is_refused() {
        let layer = Linear::new(
            &Matrix {
                rows: 2,
                columns: 3,
                values: vec![0.0; 6],
            },
            None,
        );
        assert!(
            layer
                .forward(&Tensor::zeros((1, 2), candle_core::DType::F32, &Device::Cpu).unwrap())
                .is_err()
        );
    }
}
