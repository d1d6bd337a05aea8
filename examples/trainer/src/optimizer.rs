//! The optimiser: Muon for the matrices inside the layers, AdamW for everything else.
//!
//! Muon's directions cost a few matrix products per step, shared by two threads.

use std::thread;

use candle_core::{Result, Tensor, Var};

const FIRST: f32 = 0.9;
const SECOND: f32 = 0.98;
const EPSILON: f32 = 1e-8;
const MOMENTUM: f32 = 0.95;
const WEIGHT_DECAY: f32 = 0.05;
const LARGEST_NORM: f32 = 1.0;
/// Threads that share the matrices; their number does not change the result.
const THREADS: usize = 2;

/// The optimiser's memory of every weight.
pub struct Optimizer {
    slots: Vec<Slot>,
    steps: i32,
}

/// Learning rates of one step.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// For matrices inside the layers.
    pub muon: f32,
    /// For embeddings, head and norms.
    pub adam: f32,
}

struct Slot {
    var: Var,
    values: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Muon,
    Adam { decays: bool },
}

impl Optimizer {
    /// Takes charge of named variables; matrices decay, vectors do not.
    ///
    /// # Errors
    /// A variable is not of `f32`.
    pub fn try_new<'a>(vars: impl IntoIterator<Item = (&'a str, &'a Var)>) -> Result<Self> {
        let slot = |(name, var): (&str, &Var)| {
            let values: Vec<f32> = var.flatten_all()?.to_vec1()?;
            let zeros = vec![0.0; values.len()];
            let is_matrix = var.rank() == 2;
            let kind = if is_matrix && name.contains(".layers.") {
                Kind::Muon
            } else {
                Kind::Adam { decays: is_matrix }
            };
            Ok(Slot {
                var: var.clone(),
                values,
                first: zeros.clone(),
                second: zeros,
                kind,
            })
        };
        Ok(Self {
            slots: vars.into_iter().map(slot).collect::<Result<_>>()?,
            steps: 0,
        })
    }

    /// Takes one step against the gradients, given in the order of the variables.
    ///
    /// # Errors
    /// A gradient of another length than its variable.
    pub fn step(&mut self, gradients: &[Vec<f32>], rates: Rates) -> Result<()> {
        self.steps += 1;
        let norm = gradients
            .iter()
            .flatten()
            .map(|value| f64::from(value * value))
            .sum::<f64>()
            .sqrt() as f32;
        let clip = (LARGEST_NORM / norm.max(1e-12)).min(1.0);
        let steps = self.steps;
        let part = self.slots.len().div_ceil(THREADS).max(1);
        thread::scope(|scope| {
            let parts = self.slots.chunks_mut(part).zip(gradients.chunks(part));
            let update = |(slots, gradients): (&mut [Slot], &[Vec<f32>])| {
                slots
                    .iter_mut()
                    .zip(gradients)
                    .try_for_each(|(slot, gradient)| slot.update(gradient, clip, steps, rates))
            };
            let threads: Vec<_> = parts.map(|part| scope.spawn(move || update(part))).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| panicked())?)
        })
    }
}

impl Slot {
    fn update(&mut self, gradient: &[f32], clip: f32, steps: i32, rates: Rates) -> Result<()> {
        match self.kind {
            Kind::Muon => self.muon(gradient, rates.muon)?,
            Kind::Adam { decays } => {
                let decay = if decays { rates.adam * WEIGHT_DECAY } else { 0.0 };
                self.adam(gradient, clip, steps, rates.adam, 1.0 - decay);
            }
        }
        self.var
            .set(&Tensor::from_slice(&self.values, self.var.dims(), self.var.device())?)
    }

    /// Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.
    fn adam(&mut self, gradient: &[f32], clip: f32, steps: i32, rate: f32, keep: f32) {
        let (first_bias, second_bias) = (1.0 - FIRST.powi(steps), 1.0 - SECOND.powi(steps));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((value, gradient), (first, second)) in self.values.iter_mut().zip(gradient).zip(moments) {
            let gradient = gradient * clip;
            *first = FIRST * *first + (1.0 - FIRST) * gradient;
            *second = SECOND * *second + (1.0 - SECOND) * gradient * gradient;
            *value = *value * keep - rate * (*first / first_bias) / ((*second / second_bias).sqrt() + EPSILON);
        }
    }

    /// Source: Jordan and others, "Muon: An optimizer for hidden layers in neural networks", 2024.
    fn muon(&mut self, gradient: &[f32], rate: f32) -> Result<()> {
        let (rows, columns) = self.var.dims2()?;
        let blend = self.first.iter_mut().zip(gradient).map(|(first, gradient)| {
            *first = MOMENTUM * *first + (1.0 - MOMENTUM) * gradient;
            MOMENTUM * *first + (1.0 - MOMENTUM) * gradient
        });
        let direction = orthogonal(&Tensor::from_vec(blend.collect(), (rows, columns), self.var.device())?)?;
        let direction: Vec<f32> = direction.flatten_all()?.to_vec1()?;
        let scaled = rate * (rows as f32 / columns as f32).max(1.0).sqrt();
        let keep = 1.0 - rate * WEIGHT_DECAY;
        for (value, direction) in self.values.iter_mut().zip(&direction) {
            *value = *value * keep - scaled * direction;
        }
        Ok(())
    }
}

/// Brings a matrix's singular values near one by five steps of Newton and Schulz.
fn orthogonal(matrix: &Tensor) -> Result<Tensor> {
    let (rows, columns) = matrix.dims2()?;
    let is_tall = rows > columns;
    let norm = f64::from(matrix.sqr()?.sum_all()?.to_scalar::<f32>()?).sqrt();
    let mut near = (if is_tall {
        matrix.t()?.contiguous()?
    } else {
        matrix.clone()
    } / (norm + 1e-7))?;
    for _ in 0..5 {
        let square = near.matmul(&near.t()?)?;
        let bend = ((&square * -4.7750)? + (square.matmul(&square)? * 2.0315)?)?;
        near = ((&near * 3.4445)? + bend.matmul(&near)?)?;
    }
    if is_tall { near.t()?.contiguous() } else { Ok(near) }
}

fn panicked() -> candle_core::Error {
    candle_core::Error::Msg("an optimiser thread panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::random_var;

    #[test]
    fn steps_walk_down_a_bowl() {
        let (vector, matrix) = (random_var(&[3], 1), random_var(&[4, 6], 2));
        let vars = [("norm", &vector), ("model.layers.0.o_proj", &matrix)];
        let mut optimizer = Optimizer::try_new(vars).unwrap();
        for step in 0..400 {
            let gradients = vars.map(|(_, var)| var.flatten_all().unwrap().to_vec1::<f32>().unwrap());
            let rate = 0.05 * (1.0 - step as f32 / 400.0);
            optimizer.step(&gradients, Rates { muon: rate, adam: rate }).unwrap();
        }
        for (name, var) in vars {
            let values = var.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert!(values.iter().all(|value| value.abs() < 0.05), "{name} {values:?}");
        }
    }

    #[test]
    fn singular_values_come_near_one() {
        let tall = random_var(&[8, 3], 3);
        let near = orthogonal(tall.as_tensor()).unwrap();
        let square = near.t().unwrap().matmul(&near).unwrap().to_vec2::<f32>().unwrap();
        for (row, values) in square.iter().enumerate() {
            assert!((0.4..1.6).contains(&values[row]), "{square:?}");
        }
    }
}
