//! Sums and differences, answered in one go.

use serde_json::Value;

use super::{Problem, row};
use crate::random::Random;

/// Draws a sum of a number below a hundred and a digit.
pub fn easy(random: &mut Random) -> Problem {
    sum(random.between(1, 99), random.between(1, 9))
}

/// Draws a sum or a difference of two-digit numbers; a difference is never negative.
pub fn hard(random: &mut Random) -> Problem {
    let (left, right) = (random.between(10, 99), random.between(10, 99));
    if random.below(2) == 0 {
        sum(left, right)
    } else {
        difference(left.max(right), left.min(right))
    }
}

/// The key is the same both ways round: `3+5` would give `5+3` away.
fn sum(left: u64, right: u64) -> Problem {
    let key = format!("sum {} {}", left.min(right), left.max(right));
    problem(key, format!("{left}+{right}"), left + right)
}

fn difference(left: u64, right: u64) -> Problem {
    problem(
        format!("difference {left} {right}"),
        format!("{left}-{right}"),
        left - right,
    )
}

fn problem(key: String, question: String, answer: u64) -> Problem {
    let prompt = format!("Q: {question}\nA:");
    Problem {
        key,
        learn_from: prompt.len(),
        prompt,
        answer: format!(" {answer}"),
        row: row([
            ("question", Value::from(question)),
            ("answer", Value::from(answer.to_string())),
        ]),
    }
}
