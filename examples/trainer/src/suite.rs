//! The data files of the demo suite.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::random::Random;
use crate::skills::words::{self, Request};
use crate::skills::{Problem, Side, Skill};

/// Decides which held-out problems are in the suite; part of its version.
const SEED: u64 = 20_260_101;

/// Draws after which a skill with too few held-out problems stays short, rather than drawing for ever.
const DRAWS: usize = 10_000;

/// Writes one file per benchmark into `directory`.
///
/// # Errors
/// A file cannot be written.
pub fn write(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    for skill in Skill::ALL {
        let path = directory.join(format!("{}.jsonl", skill.name()));
        std::fs::write(&path, lines(skill)).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// A benchmark's data file: one JSON object per line, with an id.
pub fn lines(skill: Skill) -> String {
    let line = |(index, problem): (usize, Problem)| {
        let mut row = problem.row;
        row.shift_insert(
            0,
            "id".to_owned(),
            Value::from(format!("{}-{:03}", skill.name(), index + 1)),
        );
        format!("{}\n", Value::from(row))
    };
    problems(skill).into_iter().enumerate().map(line).collect()
}

/// The held-out problems of a benchmark, all different.
pub fn problems(skill: Skill) -> Vec<Problem> {
    let mut random = Random::new(SEED + skill as u64);
    let mut keys = HashSet::new();
    let mut problems = Vec::new();
    for _ in 0..DRAWS {
        if problems.len() >= size(skill) {
            break;
        }
        let problem = skill.problem(Side::HeldOut, &mut random);
        if !keys.insert(problem.key.clone()) {
            continue;
        }
        match problem.row.get("word").and_then(Value::as_str) {
            Some(word) => problems.extend(Request::ALL.map(|request| words::about(word, request))),
            None => problems.push(problem),
        }
    }
    problems
}

/// What the model is asked: skill, cap on the answer, the first problems up to a limit.
pub fn examination(limit: usize) -> Vec<(Skill, usize, Vec<Problem>)> {
    let examined = |skill| (skill, cap(skill), problems(skill).into_iter().take(limit).collect());
    Skill::ALL.into_iter().map(examined).collect()
}

/// The suite's `max_tokens`.
fn cap(skill: Skill) -> usize {
    if skill == Skill::StepByStep { 160 } else { 12 }
}

fn size(skill: Skill) -> usize {
    match skill {
        Skill::ArithmeticEasy => 80,
        Skill::ArithmeticHard => 150,
        Skill::StepByStep => 100,
        Skill::MultipleChoice => 120,
        Skill::Chat => 90,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_data_equal_regenerated_data() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demo/data");
        for skill in Skill::ALL {
            let path = shipped.join(format!("{}.jsonl", skill.name()));
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                lines(skill),
                "{}",
                path.display()
            );
        }
    }

    #[test]
    fn every_problem_of_the_suite_is_held_out_and_different() {
        for skill in Skill::ALL {
            let problems = problems(skill);
            let prompts: HashSet<&str> = problems.iter().map(|problem| problem.prompt.as_str()).collect();
            assert_eq!((prompts.len(), problems.len()), (size(skill), size(skill)));
            assert!(problems.iter().all(|problem| problem.side() == Side::HeldOut));
        }
    }
}
