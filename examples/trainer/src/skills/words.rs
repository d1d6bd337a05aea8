//! Small requests about a made-up word, in the chat format.

use serde_json::Value;

use super::{Problem, row};
use crate::random::Random;
use crate::tokenizer::chat_prompt;

const CONSONANTS: &[u8] = b"bcdfghjklmnprstvwz";
const VOWELS: &[u8] = b"aeiou";

/// What is asked about a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Its first letter.
    First,
    /// The word in capitals.
    Capitals,
    /// The word from its end.
    Backwards,
}

impl Request {
    /// Every request, in the order in which the data file asks them.
    pub const ALL: [Self; 3] = [Self::First, Self::Capitals, Self::Backwards];
}

/// Draws a word and a request about it.
pub fn problem(random: &mut Random) -> Problem {
    let word = word(random);
    about(&word, Request::ALL[random.index(Request::ALL.len())])
}

/// Poses one request. The word alone is the key, so every request about it falls on the same side.
pub fn about(word: &str, request: Request) -> Problem {
    let (question, answer) = match request {
        Request::First => (format!("First letter of {word}?"), word.chars().take(1).collect()),
        Request::Capitals => (format!("Write {word} in capitals."), word.to_ascii_uppercase()),
        Request::Backwards => (
            format!("Spell {word} backwards."),
            word.chars().rev().collect::<String>(),
        ),
    };
    let prompt = chat_prompt(&question);
    Problem {
        key: format!("word {word}"),
        learn_from: crate::tokenizer::encode(&prompt).len(),
        prompt,
        row: row([
            ("word", Value::from(word)),
            ("question", Value::from(question)),
            ("answer", Value::from(answer.as_str())),
        ]),
        answer,
    }
}

/// Draws a word of three to six letters, consonants and vowels in turn.
fn word(random: &mut Random) -> String {
    let length = random.between(3, 6) as usize;
    let vowel_first = random.index(2);
    (0..length)
        .map(|position| {
            let letters = if (position + vowel_first).is_multiple_of(2) {
                CONSONANTS
            } else {
                VOWELS
            };
            char::from(letters[random.index(letters.len())])
        })
        .collect()
}
