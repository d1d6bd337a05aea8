//! BLEU as sacreBLEU computes it: n-grams of one to four words, smoothing `exp`.

use std::collections::hash_map::Entry;

use crate::Error;
use crate::error::comparable;
use crate::ngrams::{Counts, Vocabulary, counts, matches, total};
use crate::python::{is_space, split};

const ORDERS: usize = 4;
const WORD_BITS: u32 = 32;

/// How many numbers [`bleu_counts`] gives: words of prediction and target, matches of each order, n-grams of each order.
pub const BLEU_COUNTS: usize = 2 + 2 * ORDERS;

/// How a text becomes words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tokenisation {
    /// As `mteval-v13a` does, the usual one.
    #[default]
    V13a,
    /// Each character a word.
    Characters,
    /// At white space alone: the text is in words already.
    None,
}

/// What a sentence adds to a corpus; element-wise sums of these are the corpus's.
///
/// Over several targets an n-gram counts as often as the target with most of it has it, and the length is that of the target
/// nearest in length.
///
/// # Errors
/// No target, or one too long.
pub fn bleu_counts<T: AsRef<str>>(
    prediction: &str,
    targets: &[T],
    tokenisation: Tokenisation,
) -> Result<Vec<f64>, Error> {
    comparable(targets)?;
    let mut vocabulary = Vocabulary::default();
    let said = words(prediction, tokenisation, &mut vocabulary);
    let targets = targets
        .iter()
        .map(|target| words(target.as_ref(), tokenisation, &mut vocabulary));
    let targets: Vec<Vec<u32>> = targets.collect();
    let nearest = |target: &Vec<u32>| (target.len().abs_diff(said.len()), target.len());
    let target_words = targets.iter().map(nearest).min().map_or(0, |(_, length)| length);
    let mut numbers = vec![said.len() as f64, target_words as f64];
    let orders = 1..=ORDERS;
    numbers.extend(orders.clone().map(|order| {
        let wanted = merged(&targets, order);
        matches(&said, order, WORD_BITS, wanted) as f64
    }));
    numbers.extend(orders.map(|order| total(&said, order) as f64));
    Ok(numbers)
}

fn merged(targets: &[Vec<u32>], order: usize) -> Counts {
    let mut all = Counts::new();
    for target in targets {
        for (gram, count) in counts(target, order, WORD_BITS) {
            match all.entry(gram) {
                Entry::Occupied(mut known) => *known.get_mut() = count.max(*known.get()),
                Entry::Vacant(free) => {
                    free.insert(count);
                }
            }
        }
    }
    all
}

/// BLEU of one sentence, 0 to 100, over the orders that it is long enough for.
///
/// `counts` are one sentence's [`bleu_counts`]; the result is not a number for anything of another length.
#[must_use]
pub fn sentence_bleu(counts: &[f64]) -> f64 {
    bleu(counts, true)
}

/// BLEU of a corpus, 0 to 100.
///
/// `counts` are the sums of its sentences' [`bleu_counts`]; the result is not a number for anything of another length.
#[must_use]
pub fn corpus_bleu(counts: &[f64]) -> f64 {
    bleu(counts, false)
}

fn bleu(counts: &[f64], only_reached_orders: bool) -> f64 {
    let Ok([said, wanted, rest @ ..]) = <&[f64; BLEU_COUNTS]>::try_from(counts) else {
        return f64::NAN;
    };
    let (correct, all) = rest.split_at(ORDERS);
    if correct.iter().all(|&count| count == 0.0) {
        return 0.0;
    }
    let mut smoothing = 1.0;
    let mut logarithms = 0.0;
    let mut reached = 0;
    for (&correct, &all) in correct.iter().zip(all) {
        if all == 0.0 {
            break;
        }
        reached += 1;
        let precision = if correct == 0.0 {
            smoothing *= 2.0;
            100.0 / (smoothing * all)
        } else {
            100.0 * correct / all
        };
        logarithms += precision.ln();
    }
    if reached < ORDERS && !only_reached_orders {
        return 0.0;
    }
    let brevity = if said < wanted {
        (1.0 - wanted / said).exp()
    } else {
        1.0
    };
    brevity * (logarithms / f64::from(reached as u32)).exp()
}

fn words(text: &str, tokenisation: Tokenisation, vocabulary: &mut Vocabulary) -> Vec<u32> {
    let text = text.trim_end_matches(is_space);
    match tokenisation {
        Tokenisation::V13a => vocabulary.all(split(&tokenised_13a(text))),
        Tokenisation::None => vocabulary.all(split(text)),
        Tokenisation::Characters => {
            let mut bytes = [0; 4];
            let letters = text.chars().filter(|letter| !is_space(*letter));
            letters
                .map(|letter| vocabulary.id(letter.encode_utf8(&mut bytes)))
                .collect()
        }
    }
}

/// Words and marks apart, with spaces between them.
fn tokenised_13a(text: &str) -> String {
    let mut text = text.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    if text.contains('&') {
        for (entity, letter) in [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")] {
            text = text.replace(entity, letter);
        }
    }
    let text = symbols_apart(&text);
    let text = pairs(&text, |one, other| {
        (!one.is_ascii_digit() && is_stop(other)).then_some([one, ' ', other, ' '])
    });
    let text = pairs(&text, |one, other| {
        (is_stop(one) && !other.is_ascii_digit()).then_some([' ', one, ' ', other])
    });
    pairs(&text, |one, other| {
        (one.is_ascii_digit() && other == '-').then_some([one, ' ', other, ' '])
    })
}

const fn is_stop(letter: char) -> bool {
    matches!(letter, '.' | ',')
}

fn symbols_apart(text: &str) -> String {
    let mut apart = String::with_capacity(text.len() + text.len() / 4);
    apart.push(' ');
    for letter in text.chars() {
        if matches!(letter, '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/') {
            apart.extend([' ', letter, ' ']);
        } else {
            apart.push(letter);
        }
    }
    apart.push(' ');
    apart
}

/// Rewrites pairs of letters from left to right; a pair that is rewritten is used up.
fn pairs(text: &str, rewrite: impl Fn(char, char) -> Option<[char; 4]>) -> String {
    let mut kept = String::with_capacity(text.len() + text.len() / 8);
    let mut letters = text.chars();
    let mut held = letters.next();
    while let Some(one) = held {
        let Some(other) = letters.next() else {
            kept.push(one);
            break;
        };
        if let Some(rewritten) = rewrite(one, other) {
            kept.extend(rewritten);
            held = letters.next();
        } else {
            kept.push(one);
            held = Some(other);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_another_length_give_no_number() {
        assert!(corpus_bleu(&[1.0; 9]).is_nan() && sentence_bleu(&[]).is_nan());
    }

    #[test]
    fn sentences_add_up_to_their_corpus() {
        let one = bleu_counts("the cat sat on the mat", &["the cat sat on a mat"], Tokenisation::V13a).unwrap();
        let doubled: Vec<f64> = one.iter().map(|count| 2.0 * count).collect();
        assert_eq!(corpus_bleu(&one), corpus_bleu(&doubled));
        assert_eq!(one.len(), BLEU_COUNTS);
    }
}
