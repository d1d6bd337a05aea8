//! Token F1 and exact match, as the scripts of SQuAD and DROP compute them.

use std::collections::{BTreeSet, HashMap};

use crate::python::{joined, runs, split, stripped};

/// How texts are made comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalisation {
    /// Lower case, no ASCII punctuation, no English articles. A text that is empty then equals an empty one alone (SQuAD 2).
    Squad,
    /// As SQuAD, word by word, also split at hyphens; numbers by value; words count once; a target with numbers needs one of
    /// them. A target that is a JSON list of texts is an answer of several spans. F1 is rounded to two places.
    Drop,
}

/// How well a prediction matches its best target.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Match {
    /// It equals a target.
    pub is_exact: bool,
    /// 0 to 1.
    pub f1: f64,
}

/// The best exact match and the best F1 over the targets, which may be of different targets. No target gives no match.
#[must_use]
pub fn token_match<T: AsRef<str>>(prediction: &str, targets: &[T], by: Normalisation) -> Match {
    let said = normalised(prediction, by);
    let matches = targets.iter().map(|target| match by {
        Normalisation::Squad => squad(&said, &normalised(target.as_ref(), by)),
        Normalisation::Drop => drop_spans(&said, target.as_ref()),
    });
    matches.fold(Match::default(), |best, next| Match {
        is_exact: best.is_exact || next.is_exact,
        f1: best.f1.max(next.f1),
    })
}

/// The text as it is compared.
#[must_use]
pub fn normalised(text: &str, by: Normalisation) -> String {
    match by {
        Normalisation::Squad => joined(&without_articles(&without_punctuation(&text.to_lowercase()))),
        Normalisation::Drop => {
            let words = text.split([' ', '-']).map(drop_word);
            joined(&words.collect::<Vec<_>>().join(" "))
        }
    }
}

fn drop_word(word: &str) -> String {
    let word = word.to_lowercase();
    let bare = match number(&word) {
        Some(_) => word,
        None => without_punctuation(&word),
    };
    let valued = number(&bare).map_or(bare, |value| format!("{value:?}"));
    joined(&without_articles(&valued))
}

fn number(text: &str) -> Option<f64> {
    stripped(text).parse().ok()
}

fn without_punctuation(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_punctuation()).collect()
}

fn without_articles(text: &str) -> String {
    runs(text)
        .map(|(_, run)| if matches!(run, "a" | "an" | "the") { " " } else { run })
        .collect()
}

fn squad(said: &str, target: &str) -> Match {
    let is_exact = said == target;
    if said.is_empty() || target.is_empty() {
        return Match {
            is_exact,
            f1: f64::from(u8::from(is_exact)),
        };
    }
    let mut wanted: HashMap<&str, usize> = HashMap::new();
    for word in split(target) {
        *wanted.entry(word).or_default() += 1;
    }
    let target_words: usize = wanted.values().sum();
    let (mut words, mut same) = (0, 0);
    for word in split(said) {
        words += 1;
        if let Some(left) = wanted.get_mut(word).filter(|left| **left > 0) {
            *left -= 1;
            same += 1;
        }
    }
    Match {
        is_exact,
        f1: f1(same, words, target_words),
    }
}

fn f1(same: usize, said: usize, wanted: usize) -> f64 {
    if same == 0 {
        return 0.0;
    }
    let precision = same as f64 / said as f64;
    let recall = same as f64 / wanted as f64;
    2.0 * precision * recall / (precision + recall)
}

/// One prediction can take one span: the best, and the others are missed.
fn drop_spans(said: &str, target: &str) -> Match {
    let spans = spans(target);
    if spans.first().is_none_or(|span| stripped(span).is_empty()) {
        return Match::default();
    }
    let spans: Vec<String> = spans.iter().map(|span| normalised(span, Normalisation::Drop)).collect();
    let words: BTreeSet<&str> = split(said).collect();
    let best = spans.iter().map(|span| bag_f1(&words, &split(span).collect()));
    let mean = best.fold(0.0, f64::max) / spans.len() as f64;
    Match {
        is_exact: matches!(spans.as_slice(), [only] if only == said),
        f1: (mean * 100.0).round_ties_even() / 100.0,
    }
}

fn spans(target: &str) -> Vec<String> {
    serde_json::from_str(target).unwrap_or_else(|_| vec![target.to_owned()])
}

fn bag_f1(said: &BTreeSet<&str>, wanted: &BTreeSet<&str>) -> f64 {
    let numbers: Vec<&&str> = wanted.iter().filter(|word| number(word).is_some()).collect();
    if !numbers.is_empty() && !numbers.iter().any(|word| said.contains(**word)) {
        return 0.0;
    }
    let same = wanted.intersection(said).count();
    match (said.is_empty(), wanted.is_empty()) {
        (true, true) => 1.0,
        (true, false) | (false, true) => 0.0,
        _ => f1(same, said.len(), wanted.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_answer_is_right_where_none_is_wanted() {
        let squad = |said: &str, targets: &[&str]| token_match(said, targets, Normalisation::Squad);
        let right = Match {
            is_exact: true,
            f1: 1.0,
        };
        assert_eq!(squad("The.", &[""]), right);
        assert_eq!(squad("Paris", &[""]), Match::default());
        assert_eq!(squad("Paris", &[]), Match::default());
        assert_eq!(squad("paris", &["London", "the Paris!"]), right);
    }

    #[test]
    fn of_several_spans_one_prediction_takes_one() {
        let drop = |said: &str, target: &str| token_match(said, &[target], Normalisation::Drop);
        assert_eq!(drop("1,000 yards", "1000 yards").f1, 1.0);
        assert_eq!(drop("12 yards", "13 yards").f1, 0.0);
        let one_of_two = drop("Smith", r#"["Smith", "Jones"]"#);
        assert!(!one_of_two.is_exact);
        assert_eq!(one_of_two.f1, 0.5);
    }
}
