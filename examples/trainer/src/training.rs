//! The training loop.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use candle_core::{D, Device, Tensor, Var};
use serde::Serialize;

use crate::announce::Announcer;
use crate::batch::{Batch, Packer};
use crate::evaluation::{self, Score};
use crate::model::{Model, Shape};
use crate::optimizer::{Optimizer, Rates};
use crate::random::Random;
use crate::{checkpoint, suite};

/// What a training run is made of.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The model's size.
    pub shape: Shape,
    /// Decides weights and data.
    pub seed: u64,
    /// Steps of the learning rate's schedule.
    pub steps: usize,
    /// Steps after which a checkpoint is written; training ends with the last of them.
    pub checkpoints: Vec<usize>,
    /// Rows of a shard; two shards make a batch.
    pub rows: usize,
    /// Tokens of a row.
    pub length: usize,
    /// The highest learning rate of embeddings, head and norms.
    pub rate: f64,
}

/// One line of the training log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// Steps done.
    pub step: usize,
    /// Mean loss per learnt token since the last line, in nats.
    pub loss: f64,
    /// Seconds spent so far, evaluation included.
    pub seconds: u64,
    /// Greedy accuracy on held-out problems.
    pub scores: Vec<Score>,
}

/// Shards of a batch, each computed by a thread of its own; fixed, so that sums round alike on every machine.
const SHARDS: usize = 2;
/// How much higher the rate of the matrices inside the layers is.
const MUON_RATIO: f32 = 4.0;
const WARM_UP: f64 = 0.04;
const LOWEST_RATE: f64 = 0.05;

/// A model in training.
pub struct Trainer {
    recipe: Recipe,
    vars: Vec<Var>,
    model: Model,
    optimizer: Optimizer,
    packer: Packer,
}

impl Trainer {
    /// Draws the initial weights.
    ///
    /// # Errors
    /// The tensor library fails.
    pub fn try_new(recipe: Recipe) -> candle_core::Result<Self> {
        let vars = initial_weights(&recipe.shape, recipe.seed)?;
        let model = Model::try_new(recipe.shape.clone(), vars.iter().map(|var| var.as_tensor().clone()))?;
        let names: Vec<String> = recipe.shape.weights().into_iter().map(|(name, _)| name).collect();
        let optimizer = Optimizer::try_new(names.iter().map(String::as_str).zip(&vars))?;
        let packer = Packer::new(recipe.seed.wrapping_add(1), recipe.length);
        Ok(Self {
            recipe,
            vars,
            model,
            optimizer,
            packer,
        })
    }

    /// The model as it stands.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The weights as they stand, in the order of [`Shape::weights`].
    pub fn weights(&self) -> &[Var] {
        &self.vars
    }

    /// Learns from one batch; gives the mean loss per learnt token.
    ///
    /// # Errors
    /// The tensor library fails.
    pub fn step(&mut self, step: usize) -> candle_core::Result<f64> {
        let batches = (0..SHARDS)
            .map(|_| self.packer.batch(self.recipe.rows))
            .collect::<candle_core::Result<Vec<_>>>()?;
        let learnt: usize = batches.iter().map(|batch| batch.targets.len()).sum();
        let (model, vars) = (&self.model, &self.vars);
        let shards = std::thread::scope(|scope| {
            let shards: Vec<_> = batches
                .iter()
                .map(|batch| scope.spawn(move || shard(model, vars, batch, learnt)))
                .collect();
            shards
                .into_iter()
                .map(|shard| shard.join().map_err(|_| panicked())?)
                .collect::<candle_core::Result<Vec<_>>>()
        })?;
        let mut total = 0.0;
        let mut gradients: Vec<Vec<f32>> = self.vars.iter().map(|var| vec![0.0; var.elem_count()]).collect();
        for (loss, parts) in shards {
            total += loss;
            for (sum, part) in gradients.iter_mut().flatten().zip(parts.iter().flatten()) {
                *sum += part;
            }
        }
        let adam = self.rate(step) as f32;
        self.optimizer.step(
            &gradients,
            Rates {
                muon: adam * MUON_RATIO,
                adam,
            },
        )?;
        Ok(total)
    }

    /// Linear warm-up, then half a cosine down to a twentieth.
    fn rate(&self, step: usize) -> f64 {
        let done = (step + 1) as f64 / self.recipe.steps as f64;
        let rest = ((done - WARM_UP) / (1.0 - WARM_UP)).clamp(0.0, 1.0);
        let cosine = LOWEST_RATE + (1.0 - LOWEST_RATE) * 0.5 * (1.0 + (std::f64::consts::PI * rest).cos());
        self.recipe.rate * (done / WARM_UP).min(1.0) * cosine
    }
}

/// Trains from the start to the last checkpoint, writing checkpoints and `training.json` into `out`.
///
/// # Errors
/// A checkpoint cannot be written, or the tensor library fails. A failed announcement is no error.
pub fn run(recipe: Recipe, out: &Path, announcer: Option<&Announcer>, mut report: impl FnMut(&Progress)) -> Result<()> {
    let began = Instant::now();
    let examination = suite::examination(EXAMINED);
    let mut trainer = Trainer::try_new(recipe)?;
    let (mut log, mut losses) = (Vec::new(), Vec::new());
    for step in 1..=trainer.recipe.checkpoints.iter().copied().max().unwrap_or(0) {
        losses.push(trainer.step(step - 1)?);
        let is_checkpoint = trainer.recipe.checkpoints.contains(&step);
        if !is_checkpoint && !step.is_multiple_of(REPORT_EVERY) {
            continue;
        }
        let mut scores = Vec::new();
        if is_checkpoint {
            let path = save(&trainer, out, step)?;
            // The one line that a training loop needs.
            announcer.map(|announcer| announcer.announce(&path, step));
            scores = evaluation::examine(trainer.model(), &examination)?;
        }
        let loss = losses.iter().sum::<f64>() / losses.len() as f64;
        losses.clear();
        let progress = Progress {
            step,
            loss,
            seconds: began.elapsed().as_secs(),
            scores,
        };
        report(&progress);
        log.push(progress);
    }
    let log = serde_json::to_string_pretty(&log)?;
    std::fs::write(out.join("training.json"), log + "\n").context("write the training log")
}

const REPORT_EVERY: usize = 50;
/// Problems per skill in the quick examination at a checkpoint.
const EXAMINED: usize = 60;

fn save(trainer: &Trainer, out: &Path, step: usize) -> Result<PathBuf> {
    let path = out.join(format!("step-{step:04}"));
    checkpoint::write(&path, &trainer.recipe.shape, trainer.weights())
        .with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Loss and gradients of one shard, both divided by the tokens learnt in the whole batch.
fn shard(model: &Model, vars: &[Var], batch: &Batch, learnt: usize) -> candle_core::Result<(f64, Vec<Vec<f32>>)> {
    let loss = (loss(model, batch)? / learnt as f64)?;
    let gradients = loss.backward()?;
    let flat = |var: &Var| match gradients.get(var) {
        Some(gradient) => gradient.flatten_all()?.to_vec1::<f32>(),
        None => Ok(vec![0.0; var.elem_count()]),
    };
    Ok((
        f64::from(loss.to_scalar::<f32>()?),
        vars.iter().map(flat).collect::<candle_core::Result<_>>()?,
    ))
}

/// The summed cross entropy of the learnt tokens.
fn loss(model: &Model, batch: &Batch) -> candle_core::Result<Tensor> {
    let device = &Device::Cpu;
    let learnt = model.hidden(&batch.input, None)?;
    let learnt = learnt.index_select(&Tensor::from_slice(&batch.positions, batch.positions.len(), device)?, 0)?;
    let logits = model.logits(&learnt)?;
    let targets = Tensor::from_slice(&batch.targets, (batch.targets.len(), 1), device)?;
    let chosen = logits.gather(&targets, 1)?.squeeze(1)?;
    let largest = logits.max_keepdim(D::Minus1)?.detach();
    let total = logits.broadcast_sub(&largest)?.exp()?.sum(D::Minus1)?.log()?;
    ((total + largest.squeeze(1)?)? - chosen)?.sum_all()
}

fn panicked() -> candle_core::Error {
    candle_core::Error::Msg("a shard's thread panicked".to_owned())
}

/// Normal weights, as wide as one over the square root of their fan-in; the two matrices that write to the residual stream are narrower.
fn initial_weights(shape: &Shape, seed: u64) -> candle_core::Result<Vec<Var>> {
    let mut random = Random::new(seed);
    let narrow = 1.0 / (2.0 * shape.layers as f64).sqrt();
    let weight = |(name, dimensions): (String, Vec<usize>)| {
        let count = dimensions.iter().product();
        let values: Vec<f32> = if dimensions.len() == 1 {
            vec![1.0; count]
        } else {
            let fan_in = dimensions[dimensions.len() - 1] as f64;
            let writes_to_stream = name.contains("o_proj") || name.contains("down_proj");
            let deviation = fan_in.sqrt().recip() * if writes_to_stream { narrow } else { 1.0 };
            (0..count).map(|_| (random.normal() * deviation) as f32).collect()
        };
        Var::from_vec(values, dimensions, &Device::Cpu)
    };
    shape.weights().into_iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn small() -> Recipe {
        let shape = Shape {
            hidden: 32,
            intermediate: 64,
            layers: 2,
            heads: 2,
            key_heads: 1,
            head_width: 16,
            ..Shape::TINY
        };
        Recipe {
            shape,
            seed: 7,
            steps: 30,
            checkpoints: vec![30],
            rows: 2,
            length: 64,
            rate: 1e-2,
        }
    }

    #[test]
    fn a_few_steps_lower_the_loss_and_equal_seeds_agree() {
        let losses = || -> Vec<f64> {
            let mut trainer = Trainer::try_new(small()).unwrap();
            (0..30).map(|step| trainer.step(step).unwrap()).collect()
        };
        let (first, second) = (losses(), losses());
        assert_eq!(first, second);
        assert!(
            (first[0] - (crate::tokenizer::VOCABULARY as f64).ln()).abs() < 1.5,
            "{}",
            first[0]
        );
        assert!(first[25..].iter().sum::<f64>() / 5.0 < 0.8 * first[0], "{first:?}");
    }

    #[test]
    fn problems_in_one_row_do_not_see_one_another() {
        let trainer = Trainer::try_new(small()).unwrap();
        let hidden = |tokens: Vec<u32>, starts: Vec<u32>| {
            let tokens = Tensor::from_vec(tokens, (1, starts.len()), &Device::Cpu).unwrap();
            let input = crate::model::Input {
                tokens,
                starts: std::sync::Arc::new(starts),
            };
            trainer.model().hidden(&input, None).unwrap().to_vec2::<f32>().unwrap()
        };
        let alone = hidden(vec![20, 30, 40], vec![0, 0, 0]);
        let packed = hidden(vec![50, 60, 20, 30, 40], vec![0, 0, 2, 2, 2]);
        let difference = alone
            .iter()
            .flatten()
            .zip(packed[2..].iter().flatten())
            .map(|(a, b)| (a - b).abs());
        assert!(difference.fold(0.0, f32::max) < 1e-4);
    }
}
