//! Tensor bytes to finite 32-bit floats.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
};

use safetensors::tensor::Dtype;

use super::ShardSet;
use crate::Error;

/// Reads single tensors of a checkpoint, converted to `f32` and scanned for NaN and infinity.
#[derive(Debug)]
pub(crate) struct Weights<'a> {
    shards: &'a ShardSet,
}

/// A matrix in row-major order.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) values: Vec<f32>,
}

impl<'a> Weights<'a> {
    /// Reads from `shards`.
    pub(crate) fn new(shards: &'a ShardSet) -> Self {
        Self { shards }
    }

    /// The vector called `name`, of `length` values.
    pub(crate) fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, Error> {
        self.values(name, &[length])
    }

    /// The matrix called `name`.
    pub(crate) fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, Error> {
        Ok(Matrix {
            rows,
            columns,
            values: self.values(name, &[rows, columns])?,
        })
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let (shard, info) = self.shards.require(name, shape)?;
        let (start, end) = info.data_offsets;
        let mut bytes = vec![0; end - start];
        let mut read = || -> std::io::Result<()> {
            let mut file = File::open(&shard.path)?;
            file.seek(SeekFrom::Start(shard.data_start + start as u64))?;
            file.read_exact(&mut bytes)
        };
        read().map_err(|error| Error::read(&shard.path, error))?;
        let values = to_f32(&bytes, info.dtype);
        if values.iter().all(|value| value.is_finite()) {
            return Ok(values);
        }
        Err(Error::NonFinite {
            path: shard.path.clone(),
            tensor: name.to_owned(),
        })
    }
}

/// Converts little-endian tensor bytes; both 16-bit types convert without loss.
fn to_f32(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    match dtype {
        Dtype::BF16 => pairs(bytes).map(|bits| f32::from_bits(u32::from(bits) << 16)).collect(),
        Dtype::F16 => pairs(bytes).map(half_to_f32).collect(),
        _ => bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|chunk| f32::from_le_bytes(*chunk))
            .collect(),
    }
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.as_chunks::<2>().0.iter().map(|chunk| u16::from_le_bytes(*chunk))
}

/// IEEE 754 half precision to single precision.
fn half_to_f32(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((bits >> 10) & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    };
    sign * magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_converts_exactly() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x3555, 0.333_251_95),
        ] {
            assert_eq!(half_to_f32(bits), value);
        }
        assert!(half_to_f32(0x7c00).is_infinite());
        assert!(half_to_f32(0x7e00).is_nan());
    }

    #[test]
    fn brain_floats_are_the_upper_half_of_a_float() {
        assert_eq!(to_f32(&[0x80, 0x3f, 0x20, 0xc1], Dtype::BF16), [1.0, -10.0]);
    }
}
