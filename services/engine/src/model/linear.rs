//! Linear layers whose result for a row does not depend on the rows beside it.
//!
//! A general matrix multiplication picks its kernel and the blocking of its sums by the shape of the operands: one row goes
//! another way than sixteen, and the sums round differently. Here every multiplication has exactly [`BLOCK_ROWS`] rows, the
//! last block filled up with zeros, so each output is summed in one order whatever else is computed.
//!
//! The price: a sequence that runs alone pays for sixteen rows in the linear layers (for a model of a million parameters about
//! half a millisecond per token), and a prompt is computed in slices of sixteen tokens instead of one large product, which costs
//! models that do not fit the processor's cache some speed.

use candle_core::{Device, Result, Tensor};
use candle_nn::Module;

use crate::checkpoint::Matrix;

/// Rows in every multiplication. Sixteen fills the vector units of current processors and is the default number of sequences.
pub(super) const BLOCK_ROWS: usize = 16;

/// Rounds a number of rows up to whole blocks.
pub(super) fn padded(rows: usize) -> usize {
    rows.next_multiple_of(BLOCK_ROWS)
}

/// `y = x W^T (+ b)`, with the weight kept transposed so that its rows need no repacking.
#[derive(Debug)]
pub(super) struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// Makes a layer of a weight in the checkpoint's layout, outputs by inputs.
    pub(super) fn new(weight: &Matrix, bias: Option<Vec<f32>>) -> Result<Self> {
        let transposed = weight.transposed();
        let shape = (transposed.rows, transposed.columns);
        let weight = Tensor::from_vec(transposed.values, shape, &Device::Cpu)?;
        let bias = bias.map(|bias| Tensor::new(bias, &Device::Cpu)).transpose()?;
        Ok(Self { weight, bias })
    }

    fn multiply(&self, input: &Tensor) -> Result<Tensor> {
        let rows = input.dim(0)?;
        if rows == BLOCK_ROWS {
            return input.matmul(&self.weight);
        }
        // Blocks are multiplied one by one: a batched product would be folded into one with more rows.
        let blocks = (0..rows)
            .step_by(BLOCK_ROWS)
            .map(|start| input.narrow(0, start, BLOCK_ROWS)?.matmul(&self.weight))
            .collect::<Result<Vec<_>>>()?;
        Tensor::cat(&blocks, 0)
    }
}

impl Module for Linear {
    /// Applies the layer to `[rows, inputs]`, where rows are a multiple of [`BLOCK_ROWS`].
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let product = self.multiply(input)?;
        match &self.bias {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Draws;

    fn noise(seed: u64, length: usize) -> Vec<f32> {
        let draws = Draws::new(seed, 0);
        (0..length)
            .map(|position| draws.uniform(position) as f32 - 0.5)
            .collect()
    }

    fn apply(layer: &Linear, rows: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let width = rows[0].len();
        let mut flat = rows.concat();
        flat.resize(padded(rows.len()) * width, 0.0);
        let input = Tensor::from_vec(flat, (padded(rows.len()), width), &Device::Cpu).unwrap();
        layer.forward(&input).unwrap().to_vec2().unwrap()
    }

    #[test]
    fn a_row_is_bit_equal_alone_and_among_others_at_any_place() {
        // Sizes on both sides of the library's blocking thresholds, and uneven ones.
        for (inputs, outputs) in [(32, 64), (64, 33), (257, 384), (1100, 70)] {
            let weight = Matrix {
                rows: outputs,
                columns: inputs,
                values: noise(1, inputs * outputs),
            };
            let layer = Linear::new(&weight, Some(noise(2, outputs))).unwrap();
            let row = noise(3, inputs);
            let alone = apply(&layer, std::slice::from_ref(&row))[0].clone();
            for count in [2, 5, 16, 40] {
                for place in [0, count / 2, count - 1] {
                    let mut rows: Vec<_> = (0..count).map(|other| noise(10 + other as u64, inputs)).collect();
                    rows[place] = row.clone();
                    assert_eq!(
                        apply(&layer, &rows)[place],
                        alone,
                        "{inputs}x{outputs}, row {place} of {count}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_layer_multiplies_by_the_transposed_weight_and_adds_the_bias() {
        let weight = Matrix {
            rows: 2,
            columns: 3,
            values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        };
        let layer = Linear::new(&weight, Some(vec![0.5, -0.5])).unwrap();
        assert_eq!(apply(&layer, &[vec![1.0, 1.0, 2.0]])[0], [9.5, 20.5]);
    }
}
