//! Which letter continues a repeating pattern, measured by the likelihood of four choices.

use serde_json::Value;

use super::{Problem, row};
use crate::random::Random;

const LETTERS: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";
const CHOICES: usize = 4;

/// Draws a pattern of two to four different letters, shown at least twice and broken off anywhere.
pub fn problem(random: &mut Random) -> Problem {
    let mut letters = *LETTERS;
    random.shuffle(&mut letters);
    let period = random.between(2, 4) as usize;
    let shown = 2 * period + random.index(2 * period);
    let letter = |position: usize| char::from(letters[position % period]);
    let pattern = (0..shown)
        .map(|position| letter(position).to_string())
        .collect::<Vec<_>>()
        .join(" ");
    let answer = format!(" {}", letter(shown));
    let (choices, target) = choices(&letters, period, shown, random);
    let prompt = format!("Pattern: {pattern}\nNext:");
    Problem {
        key: format!(
            "pattern {}",
            letters[..period]
                .iter()
                .map(|&byte| char::from(byte))
                .collect::<String>()
        ),
        // After one period the letters can be foretold, and teach the same lesson as the answer.
        learn_from: "Pattern:".len() + 2 * period,
        prompt,
        answer,
        row: row([
            ("pattern", Value::from(pattern)),
            ("period", Value::from(period)),
            ("choices", Value::from(choices)),
            ("answer", Value::from(target)),
        ]),
    }
}

/// The right letter, the others of the pattern, and strangers, in random order. Each begins with the space that
/// separates it from the prompt.
fn choices(letters: &[u8; 26], period: usize, shown: usize, random: &mut Random) -> (Vec<String>, usize) {
    let mut order: Vec<usize> = (0..period)
        .map(|offset| (shown + offset) % period)
        .chain(period..CHOICES)
        .collect();
    random.shuffle(&mut order);
    let target = order
        .iter()
        .position(|&position| position == shown % period)
        .unwrap_or_default();
    (
        order
            .into_iter()
            .map(|position| format!(" {}", char::from(letters[position])))
            .collect(),
        target,
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_target_is_the_answer_among_four_different_choices() {
        let mut random = Random::new(1);
        for _ in 0..200 {
            let problem = problem(&mut random);
            let choices: Vec<&str> = problem.row["choices"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| c.as_str().unwrap())
                .collect();
            assert_eq!(
                choices[problem.row["answer"].as_u64().unwrap() as usize],
                problem.answer
            );
            assert_eq!(choices.iter().collect::<HashSet<_>>().len(), CHOICES);
        }
    }

    #[test]
    fn learning_starts_where_the_pattern_repeats() {
        let problem = problem(&mut Random::new(2));
        let period = problem.row["period"].as_u64().unwrap() as usize;
        let foretold = &problem.prompt[problem.learn_from..problem.learn_from + 2];
        let first = &problem.prompt[problem.learn_from - 2 * period..problem.learn_from - 2 * period + 2];
        assert_eq!(foretold, first);
    }
}
