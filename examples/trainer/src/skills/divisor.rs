//! The greatest common divisor by repeated subtraction, written out line by line.
//!
//! The number of lines is the sum of the partial quotients of the continued fraction of the two numbers, whose
//! distribution has a heavy tail: most answers are short, and a few are longer than any sensible cap.

use serde_json::Value;

use super::{Problem, row};
use crate::random::Random;

/// Draws a pair below a hundred, the larger number first.
pub fn problem(random: &mut Random) -> Problem {
    let larger = random.between(20, 99);
    let smaller = random.between(2, larger - 1);
    let (lines, divisor) = subtractions(larger, smaller);
    let prompt = format!("Q: gcd({larger},{smaller})\nA:");
    Problem {
        key: format!("gcd {larger} {smaller}"),
        learn_from: prompt.len(),
        prompt,
        answer: format!("\n{}\nAnswer: {divisor}", lines.join("\n")),
        row: row([
            ("larger", Value::from(larger)),
            ("smaller", Value::from(smaller)),
            ("steps", Value::from(lines.len())),
            ("answer", Value::from(divisor.to_string())),
        ]),
    }
}

fn subtractions(larger: u64, smaller: u64) -> (Vec<String>, u64) {
    let (mut high, mut low) = (larger, smaller);
    let mut lines = Vec::new();
    while low > 0 {
        lines.push(format!("{high}-{low}={}", high - low));
        (high, low) = (low.max(high - low), low.min(high - low));
    }
    (lines, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtraction_ends_at_the_divisor() {
        let (lines, divisor) = subtractions(84, 36);
        assert_eq!(lines, ["84-36=48", "48-36=12", "36-12=24", "24-12=12", "12-12=0"]);
        assert_eq!(divisor, 12);
    }

    #[test]
    fn answer_lengths_have_a_heavy_tail() {
        let mut random = Random::new(1);
        let mut lengths: Vec<usize> = (0..2_000).map(|_| problem(&mut random).answer.len()).collect();
        lengths.sort_unstable();
        let (median, near_the_end) = (lengths[1_000], lengths[1_980]);
        assert!(
            near_the_end > 3 * median,
            "median {median}, 99th percentile {near_the_end}"
        );
    }
}
