//! chrF and chrF++ as sacreBLEU computes them: F2 over n-grams of one to six characters, and of one and two words for chrF++.

use crate::Error;
use crate::error::comparable;
use crate::ngrams::{Vocabulary, counts, matches, total};
use crate::python::{is_space, split};

const CHARACTER_ORDERS: usize = 6;
const WORD_ORDERS: usize = 2;
/// Six characters of 21 bits fit into 128.
const CHARACTER_BITS: u32 = 21;
const WORD_BITS: u32 = 32;
/// Recall counts twice as much as precision.
const BETA: f64 = 2.0;

/// What a sentence adds to a corpus, against the target where its score is highest: for each order the n-grams of the
/// prediction, those of the target, and those in both. 18 numbers, with `words` (chrF++) 24; element-wise sums are the corpus's.
///
/// # Errors
/// No target, or one too long.
pub fn chrf_counts<T: AsRef<str>>(prediction: &str, targets: &[T], words: bool) -> Result<Vec<f64>, Error> {
    comparable(targets)?;
    let mut vocabulary = Vocabulary::default();
    let said = Units::new(prediction, words, &mut vocabulary);
    let mut best: Option<(f64, Vec<f64>)> = None;
    for target in targets {
        let counts = said.against(&Units::new(target.as_ref(), words, &mut vocabulary));
        let score = sentence_chrf(&counts);
        if best.as_ref().is_none_or(|(highest, _)| score > *highest) {
            best = Some((score, counts));
        }
    }
    best.map(|(_, counts)| counts).ok_or(Error::NoTarget)
}

/// chrF of one sentence, 0 to 100. A sentence and a corpus differ in nothing but what is summed.
#[must_use]
pub fn sentence_chrf(counts: &[f64]) -> f64 {
    corpus_chrf(counts)
}

/// chrF of a corpus, 0 to 100; chrF++ where the counts are those of words too.
///
/// `counts` are sums of [`chrf_counts`]; the result is not a number for anything of another length.
#[must_use]
pub fn corpus_chrf(counts: &[f64]) -> f64 {
    let orders = [CHARACTER_ORDERS, CHARACTER_ORDERS + WORD_ORDERS];
    if !orders.contains(&(counts.len() / 3)) || !counts.len().is_multiple_of(3) {
        return f64::NAN;
    }
    let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0.0);
    for order in counts.chunks_exact(3) {
        let &[said, wanted, same] = order else { continue };
        if said > 0.0 && wanted > 0.0 {
            precision += same / said;
            recall += same / wanted;
            orders += 1.0;
        }
    }
    if precision + recall == 0.0 {
        return 0.0;
    }
    let (precision, recall) = (precision / orders, recall / orders);
    let factor = BETA * BETA;
    100.0 * (1.0 + factor) * precision * recall / (factor * precision + recall)
}

/// A text as characters without white space, and as words where they count.
struct Units {
    characters: Vec<u32>,
    words: Option<Vec<u32>>,
}

impl Units {
    fn new(text: &str, words: bool, vocabulary: &mut Vocabulary) -> Self {
        let characters = text.chars().filter(|letter| !is_space(*letter)).map(u32::from);
        Self {
            characters: characters.collect(),
            words: words.then(|| vocabulary.all(split(text).flat_map(without_mark).filter(|word| !word.is_empty()))),
        }
    }

    fn against(&self, target: &Self) -> Vec<f64> {
        let mut numbers = Vec::new();
        for order in 1..=CHARACTER_ORDERS {
            compare(
                &self.characters,
                &target.characters,
                order,
                CHARACTER_BITS,
                &mut numbers,
            );
        }
        if let (Some(said), Some(wanted)) = (&self.words, &target.words) {
            for order in 1..=WORD_ORDERS {
                compare(said, wanted, order, WORD_BITS, &mut numbers);
            }
        }
        numbers
    }
}

/// Where the target is too short for an order, the prediction is not blamed.
fn compare(said: &[u32], target: &[u32], order: usize, bits: u32, numbers: &mut Vec<f64>) {
    let wanted = total(target, order);
    let all = if wanted == 0 { 0 } else { total(said, order) };
    let same = matches(said, order, bits, counts(target, order, bits));
    numbers.extend([all as f64, wanted as f64, same as f64]);
}

/// A word and the mark at its end, or else at its beginning.
fn without_mark(word: &str) -> [&str; 2] {
    let is_mark = |letter: char| letter.is_ascii_punctuation();
    if word.chars().nth(1).is_none() {
        [word, ""]
    } else if word.ends_with(is_mark) {
        let (word, mark) = word.split_at(word.len() - 1);
        [word, mark]
    } else if word.starts_with(is_mark) {
        let (mark, word) = word.split_at(1);
        [mark, word]
    } else {
        [word, ""]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_another_length_give_no_number() {
        assert!(corpus_chrf(&[1.0; 19]).is_nan() && corpus_chrf(&[]).is_nan());
        assert_eq!(corpus_chrf(&[0.0; 24]), 0.0);
    }
}
