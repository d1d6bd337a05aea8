//! A quick greedy examination on held-out problems, to see the curves while training.
//!
//! It is no substitute for the pipeline: one sample, no scoring of likelihoods, exact text.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{D, Device, Result, Tensor};
use serde::Serialize;

use crate::model::{Cache, Input, Model};
use crate::skills::{Problem, Skill};
use crate::tokenizer;

/// How one skill fared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// The benchmark's name.
    pub skill: &'static str,
    /// Problems posed.
    pub problems: usize,
    /// Share of the answers that end as they should.
    pub accuracy: f64,
    /// Answers that hit the cap.
    pub truncated: usize,
    /// Median, 90th percentile and largest length of an answer, in tokens with the end.
    pub lengths: [usize; 3],
}

/// Poses every problem and compares the last line of the answer.
///
/// # Errors
/// The tensor library fails.
pub fn examine(model: &Model, examination: &[(Skill, usize, Vec<Problem>)]) -> Result<Vec<Score>> {
    let score = |(skill, cap, problems): &(Skill, usize, Vec<Problem>)| {
        let answers = answers(model, problems, *cap)?;
        let is_right = |(answer, problem): &(&Vec<u32>, &Problem)| {
            answer.last() == Some(&tokenizer::END)
                && last_line(&tokenizer::decode(&answer[..answer.len() - 1])) == last_line(&problem.answer)
        };
        let right = answers.iter().zip(problems).filter(is_right).count();
        let truncated = answers
            .iter()
            .filter(|answer| answer.last() != Some(&tokenizer::END))
            .count();
        let mut lengths: Vec<usize> = answers.iter().map(Vec::len).collect();
        lengths.sort_unstable();
        let at = |share: usize| {
            lengths
                .get((lengths.len() * share / 100).min(lengths.len() - 1))
                .copied()
                .unwrap_or(0)
        };
        Ok(Score {
            skill: skill.name(),
            problems: problems.len(),
            accuracy: right as f64 / problems.len().max(1) as f64,
            truncated,
            lengths: [at(50), at(90), at(100)],
        })
    };
    examination.iter().map(score).collect()
}

fn last_line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or(text)
}

/// Answers greedily, prompts of equal length together.
fn answers(model: &Model, problems: &[Problem], cap: usize) -> Result<Vec<Vec<u32>>> {
    let mut by_length: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let prompts: Vec<Vec<u32>> = problems
        .iter()
        .map(|problem| tokenizer::encode(&problem.prompt))
        .collect();
    for (index, prompt) in prompts.iter().enumerate() {
        by_length.entry(prompt.len()).or_default().push(index);
    }
    let mut answers = vec![Vec::new(); problems.len()];
    for group in by_length.into_values() {
        let together: Vec<&[u32]> = group.iter().map(|&index| prompts[index].as_slice()).collect();
        for (index, answer) in group.iter().zip(complete(model, &together, cap)?) {
            answers[*index] = answer;
        }
    }
    Ok(answers)
}

/// Completes prompts of one length until each has ended or the cap is reached.
fn complete(model: &Model, prompts: &[&[u32]], cap: usize) -> Result<Vec<Vec<u32>>> {
    let mut cache = Cache::default();
    let mut answers: Vec<Vec<u32>> = vec![Vec::new(); prompts.len()];
    let mut next = prompts.concat();
    let is_done = |answer: &Vec<u32>| answer.last() == Some(&tokenizer::END);
    for _ in 0..cap {
        let time = next.len() / prompts.len();
        let starts = Arc::new(vec![0; next.len()]);
        let tokens = Tensor::from_vec(next, (prompts.len(), time), &Device::Cpu)?;
        let hidden = model.hidden(&Input { tokens, starts }, Some(&mut cache))?;
        let last = hidden
            .reshape((prompts.len(), time, ()))?
            .narrow(1, time - 1, 1)?
            .squeeze(1)?
            .contiguous()?;
        next = model.logits(&last)?.argmax(D::Minus1)?.to_vec1()?;
        for (answer, &token) in answers.iter_mut().zip(&next) {
            if !is_done(answer) {
                answer.push(token);
            }
        }
        if answers.iter().all(is_done) {
            break;
        }
    }
    Ok(answers)
}
