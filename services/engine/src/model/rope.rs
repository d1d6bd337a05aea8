//! Rotary position embedding in the half-split layout of Llama checkpoints on the hub.

use crate::checkpoint::{ModelConfig, RopeScaling};

/// Cosines and sines per position, computed once.
#[derive(Debug)]
pub(super) struct Rope {
    half: usize,
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Rope {
    /// Tables for positions `0..context_length`.
    pub(super) fn new(config: &ModelConfig, context_length: usize) -> Self {
        let half = config.head_dim / 2;
        let frequencies: Vec<f64> = (0..half).map(|index| frequency(config, index)).collect();
        // Angles are formed in single precision, as the reference implementation does.
        let angles = (0..context_length).flat_map(|position| {
            frequencies
                .iter()
                .map(move |frequency| position as f32 * *frequency as f32)
        });
        let (cosines, sines) = angles.map(|angle| (angle.cos(), angle.sin())).unzip();
        Self { half, cosines, sines }
    }

    /// Rotates each head of `heads` for `position`.
    pub(super) fn rotate(&self, heads: &mut [f32], position: usize) {
        let table = position * self.half..(position + 1) * self.half;
        let (cosines, sines) = (&self.cosines[table.clone()], &self.sines[table]);
        for head in heads.chunks_exact_mut(2 * self.half) {
            let (low, high) = head.split_at_mut(self.half);
            for (((x, y), cosine), sine) in low.iter_mut().zip(high).zip(cosines).zip(sines) {
                (*x, *y) = (*x * cosine - *y * sine, *y * cosine + *x * sine);
            }
        }
    }
}

fn frequency(config: &ModelConfig, index: usize) -> f64 {
    let frequency = config.rope_theta.powf(-2.0 * index as f64 / config.head_dim as f64);
    config
        .rope_scaling
        .map_or(frequency, |scaling| scaled(frequency, scaling))
}

/// Llama 3.1's scaling: short waves stay, long ones are stretched by the factor, those between are blended.
fn scaled(frequency: f64, scaling: RopeScaling) -> f64 {
    let turns = scaling.original_context * frequency / (2.0 * std::f64::consts::PI);
    if turns > scaling.high_freq_factor {
        return frequency;
    }
    if turns < scaling.low_freq_factor {
        return frequency / scaling.factor;
    }
    let blend = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
    (1.0 - blend) * frequency / scaling.factor + blend * frequency
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_scaling_leaves_short_waves_and_stretches_long_ones() {
        let scaling = RopeScaling {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_context: 8192.0,
        };
        assert_eq!(scaled(1.0, scaling), 1.0);
        assert_eq!(scaled(1e-5, scaling), 1e-5 / 8.0);
        let between = scaled(1.5e-3, scaling);
        assert!(between > 1.5e-3 / 8.0 && between < 1.5e-3);
    }
}
