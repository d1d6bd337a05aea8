//! What the model is taught: five skills that are learnt at different speeds and answered at different lengths.
//!
//! A problem's key decides by hash on which side of the split it falls, so that no held-out problem is ever trained on.

pub mod arithmetic;
pub mod divisor;
pub mod pattern;
pub mod words;

use serde_json::{Map, Value};

use crate::random::Random;

/// A skill; each is one benchmark of the demo suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skill {
    /// Sums of a number below a hundred and a digit.
    ArithmeticEasy,
    /// Sums and differences of two-digit numbers.
    ArithmeticHard,
    /// The greatest common divisor by repeated subtraction, one line per step.
    StepByStep,
    /// The letter that continues a repeating pattern.
    MultipleChoice,
    /// Small requests about a word, in the chat format.
    Chat,
}

/// A problem with its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// What decides the side of the split; equal for problems that give each other away.
    pub key: String,
    /// The text before the answer.
    pub prompt: String,
    /// The text that the model should write before it ends its turn.
    pub answer: String,
    /// Where learning starts, in characters of the prompt; at its end except where the prompt itself can be foretold.
    pub learn_from: usize,
    /// The row of the benchmark's data file, without an id.
    pub row: Map<String, Value>,
}

/// The side of the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Seen in training.
    Train,
    /// Never seen in training; the suite is made of these.
    HeldOut,
}

impl Skill {
    /// Every skill, in the order of the suite.
    pub const ALL: [Self; 5] = [
        Self::ArithmeticEasy,
        Self::ArithmeticHard,
        Self::StepByStep,
        Self::MultipleChoice,
        Self::Chat,
    ];

    /// The benchmark's name, also of its data file.
    pub fn name(self) -> &'static str {
        match self {
            Self::ArithmeticEasy => "arithmetic-easy",
            Self::ArithmeticHard => "arithmetic-hard",
            Self::StepByStep => "step-by-step",
            Self::MultipleChoice => "multiple-choice",
            Self::Chat => "chat",
        }
    }

    /// How often training draws this skill, out of a hundred.
    fn share(self) -> u64 {
        match self {
            Self::ArithmeticEasy => 34,
            Self::ArithmeticHard => 36,
            Self::StepByStep => 10,
            Self::MultipleChoice => 8,
            Self::Chat => 12,
        }
    }

    /// Draws a skill for training.
    pub fn draw(random: &mut Random) -> Self {
        let mut mark = random.below(Self::ALL.iter().map(|skill| skill.share()).sum());
        for skill in Self::ALL {
            if mark < skill.share() {
                return skill;
            }
            mark -= skill.share();
        }
        Self::Chat
    }

    /// Draws a problem from one side of the split.
    pub fn problem(self, side: Side, random: &mut Random) -> Problem {
        loop {
            let problem = match self {
                Self::ArithmeticEasy => arithmetic::easy(random),
                Self::ArithmeticHard => arithmetic::hard(random),
                Self::StepByStep => divisor::problem(random),
                Self::MultipleChoice => pattern::problem(random),
                Self::Chat => words::problem(random),
            };
            if problem.side() == side {
                return problem;
            }
        }
    }
}

impl Problem {
    /// Says on which side the problem falls: one in eight is held out.
    pub fn side(&self) -> Side {
        if fnv1a(self.key.as_bytes()).is_multiple_of(8) {
            Side::HeldOut
        } else {
            Side::Train
        }
    }
}

/// The Fowler-Noll-Vo hash, variant 1a, followed by a mixing step because its low bits are weak.
fn fnv1a(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32
}

/// Makes a row of a data file.
fn row<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_prompt_is_on_both_sides_of_the_split() {
        for skill in Skill::ALL {
            let draw = |side, seed| -> HashSet<String> {
                let mut random = Random::new(seed);
                (0..3_000).map(|_| skill.problem(side, &mut random).prompt).collect()
            };
            let trained = draw(Side::Train, 1);
            let held_out = draw(Side::HeldOut, 2);
            assert!(held_out.len() >= 100, "{skill:?} holds out {} prompts", held_out.len());
            assert!(trained.is_disjoint(&held_out), "{skill:?}");
        }
    }

    #[test]
    fn about_one_problem_in_eight_is_held_out() {
        let mut random = Random::new(3);
        let held_out = (0..8_000)
            .filter(|_| arithmetic::hard(&mut random).side() == Side::HeldOut)
            .count();
        assert!((900..1_100).contains(&held_out), "{held_out}");
    }

    #[test]
    fn problems_are_printable_and_learning_starts_inside_the_prompt() {
        let mut random = Random::new(4);
        for skill in Skill::ALL {
            let problem = skill.problem(Side::Train, &mut random);
            assert!(problem.learn_from <= crate::tokenizer::encode(&problem.prompt).len());
            assert!(
                problem
                    .answer
                    .chars()
                    .all(|character| character == '\n' || (' '..='~').contains(&character))
            );
        }
    }
}
