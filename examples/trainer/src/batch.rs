//! Rows of packed problems.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use crate::model::Input;
use crate::random::Random;
use crate::skills::{Problem, Side, Skill};
use crate::tokenizer;

/// A batch of rows, each holding several problems that do not see one another.
pub struct Batch {
    /// What the model reads.
    pub input: Input,
    /// Positions, in the flattened batch, whose next token is to be learnt.
    pub positions: Vec<u32>,
    /// The next token at each of those positions.
    pub targets: Vec<u32>,
}

/// Packs an endless stream of problems into rows of one length.
pub struct Packer {
    random: Random,
    length: usize,
    waiting: Option<Sequence>,
}

/// A problem as tokens; those from `learn_from` on are learnt.
struct Sequence {
    tokens: Vec<u32>,
    learn_from: usize,
}

impl Packer {
    /// Starts a stream that the seed decides.
    pub fn new(seed: u64, length: usize) -> Self {
        Self {
            random: Random::new(seed),
            length,
            waiting: None,
        }
    }

    /// Packs the next batch of `rows` rows.
    ///
    /// # Errors
    /// Never in practice; the tensor library checks shapes.
    pub fn batch(&mut self, rows: usize) -> Result<Batch> {
        let mut tokens = vec![tokenizer::PAD; rows * self.length];
        let mut starts: Vec<u32> = Vec::with_capacity(rows * self.length);
        let (mut positions, mut targets) = (Vec::new(), Vec::new());
        for row in 0..rows {
            let mut filled = 0;
            while let Some(sequence) = self.next_that_fits(self.length - filled, filled == 0) {
                let base = row * self.length + filled;
                tokens[base..base + sequence.tokens.len()].copy_from_slice(&sequence.tokens);
                for place in sequence.learn_from.max(1)..sequence.tokens.len() {
                    positions.push((base + place - 1) as u32);
                    targets.push(sequence.tokens[place]);
                }
                starts.extend(std::iter::repeat_n(filled as u32, sequence.tokens.len()));
                filled += sequence.tokens.len();
            }
            starts.extend(std::iter::repeat_n(filled as u32, self.length - filled));
        }
        let tokens = Tensor::from_vec(tokens, (rows, self.length), &Device::Cpu)?;
        Ok(Batch {
            input: Input {
                tokens,
                starts: Arc::new(starts),
            },
            positions,
            targets,
        })
    }

    /// The next problem, or nothing when it has to wait for an empty row. One longer than a row is cut to it.
    fn next_that_fits(&mut self, room: usize, is_row_empty: bool) -> Option<Sequence> {
        let mut sequence = match self.waiting.take() {
            Some(sequence) => sequence,
            None => Sequence::from(Skill::draw(&mut self.random).problem(Side::Train, &mut self.random)),
        };
        if sequence.tokens.len() > room && !is_row_empty {
            self.waiting = Some(sequence);
            return None;
        }
        sequence.tokens.truncate(room);
        Some(sequence)
    }
}

impl From<Problem> for Sequence {
    fn from(problem: Problem) -> Self {
        let mut tokens = tokenizer::encode(&problem.prompt);
        tokens.extend(tokenizer::encode(&problem.answer));
        tokens.push(tokenizer::END);
        Self {
            tokens,
            learn_from: problem.learn_from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_batches() {
        let tokens = |seed| {
            Packer::new(seed, 96)
                .batch(3)
                .unwrap()
                .input
                .tokens
                .to_vec2::<u32>()
                .unwrap()
        };
        assert_eq!(tokens(1), tokens(1));
        assert_ne!(tokens(1), tokens(2));
    }

    #[test]
    fn targets_are_the_tokens_that_follow() {
        let batch = Packer::new(5, 128).batch(4).unwrap();
        let tokens: Vec<u32> = batch.input.tokens.flatten_all().unwrap().to_vec1().unwrap();
        assert!(batch.targets.contains(&tokenizer::END));
        for (&position, &target) in batch.positions.iter().zip(&batch.targets) {
            assert_eq!(tokens[position as usize + 1], target);
            assert_eq!(
                batch.input.starts[position as usize],
                batch.input.starts[position as usize + 1]
            );
        }
    }
}
