//! ROUGE-1, ROUGE-2 and ROUGE-L, as the package `rouge_score` computes them.

use crate::error::comparable;
use crate::ngrams::{Vocabulary, counts, matches, total};
use crate::{Error, lcs, porter};

/// How texts become words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rouge {
    /// Words of more than three letters are compared by their stems.
    pub stem: bool,
}

/// Precision, recall and their harmonic mean, each 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RougeScore {
    /// Of the prediction, what the target has.
    pub precision: f64,
    /// Of the target, what the prediction has.
    pub recall: f64,
    /// Their harmonic mean.
    pub f1: f64,
}

/// Each score against the target where its F1 is highest.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RougeScores {
    /// Words.
    pub one: RougeScore,
    /// Pairs of words.
    pub two: RougeScore,
    /// The longest common subsequence of words; `None` when two texts are too long for it.
    pub longest: Option<RougeScore>,
}

const WORD_BITS: u32 = 32;

impl Rouge {
    /// Scores a prediction.
    ///
    /// # Errors
    /// No target, or one too long.
    pub fn score<T: AsRef<str>>(self, prediction: &str, targets: &[T]) -> Result<RougeScores, Error> {
        comparable(targets)?;
        let mut vocabulary = Vocabulary::default();
        let said = self.words(prediction, &mut vocabulary);
        let mut best: Option<RougeScores> = None;
        for target in targets {
            let scores = pair(&said, &self.words(target.as_ref(), &mut vocabulary));
            best = Some(match best {
                Some(best) => best.or(scores),
                None => scores,
            });
        }
        best.ok_or(Error::NoTarget)
    }

    fn words(self, text: &str, vocabulary: &mut Vocabulary) -> Vec<u32> {
        let text = text.to_lowercase();
        let is_apart = |letter: char| !letter.is_ascii_lowercase() && !letter.is_ascii_digit();
        let words = text.split(is_apart).filter(|word| !word.is_empty());
        if !self.stem {
            return vocabulary.all(words);
        }
        let stemmed = |word: &str| match word.len() {
            0..=3 => vocabulary.id(word),
            _ => vocabulary.id(&porter::stem(word)),
        };
        words.map(stemmed).collect()
    }
}

impl RougeScores {
    /// Score by score the better one, the first of equals.
    fn or(self, next: Self) -> Self {
        let better = |one: RougeScore, other: RougeScore| if other.f1 > one.f1 { other } else { one };
        Self {
            one: better(self.one, next.one),
            two: better(self.two, next.two),
            longest: self.longest.zip(next.longest).map(|(one, other)| better(one, other)),
        }
    }
}

fn pair(said: &[u32], target: &[u32]) -> RougeScores {
    let by_order = |order| {
        let wanted = counts(target, order, WORD_BITS);
        let same = matches(said, order, WORD_BITS, wanted);
        score(same, total(said, order), total(target, order))
    };
    let longest = lcs::length(target, said);
    RougeScores {
        one: by_order(1),
        two: by_order(2),
        longest: longest.map(|same| score(same, said.len(), target.len())),
    }
}

fn score(same: usize, said: usize, wanted: usize) -> RougeScore {
    let precision = same as f64 / said.max(1) as f64;
    let recall = same as f64 / wanted.max(1) as f64;
    let sum = precision + recall;
    RougeScore {
        precision,
        recall,
        f1: if sum > 0.0 { 2.0 * precision * recall / sum } else { 0.0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_target_and_a_long_one_are_refused() {
        let none: [&str; 0] = [];
        assert_eq!(Rouge::default().score("a", &none), Err(Error::NoTarget));
        let long = "a".repeat(crate::MAX_TARGET_BYTES + 1);
        let bytes = long.len();
        assert_eq!(Rouge::default().score("a", &[long]), Err(Error::LongTarget { bytes }));
    }

    #[test]
    fn each_score_has_its_own_best_target() {
        let scores = Rouge::default().score("a b c", &["c b a", "a b x y"]).unwrap();
        assert_eq!(scores.one.f1, 1.0);
        assert_eq!(scores.two.precision, 0.5);
    }
}
