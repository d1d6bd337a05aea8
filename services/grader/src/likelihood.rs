//! Family `likelihood`: the choice with the largest summed log-probability is the answer; nothing is generated.

use tidemill_domain::{ChoiceScore, Item, Measured, Normalise};
use tidemill_inference::ROUNDING;

use crate::Error;
use crate::answer::{Credit, Finding};

pub(crate) const NAME: &str = "likelihood@1";
const LARGEST: &str = "largest-likelihood@1";

/// What is measured beside the score, in the order of [`tidemill_domain::GraderSpec::metrics`].
const MEASURED: [(&str, Normalise); 3] = [
    ("accuracy_raw", Normalise::None),
    ("accuracy_per_byte", Normalise::Bytes),
    ("accuracy_per_token", Normalise::Tokens),
];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Likelihood {
    pub(crate) normalise: Normalise,
}

impl Likelihood {
    /// Compares the choices; of equal ones the first wins, so the result never depends on anything but the scores.
    pub(crate) fn judge(self, item: &Item, scores: &[ChoiceScore]) -> Result<Option<Finding>, Error> {
        let correct = item
            .correct_choice
            .map(|index| index as usize)
            .filter(|&index| index < item.choices.len())
            .ok_or(Error::Target {
                wanted: "the right choice",
            })?;
        check(item, scores)?;
        let best = best(self.normalise, item, scores)?;
        // A way that this item does not allow, as a choice of no bytes, costs the others nothing.
        let named = MEASURED.iter().filter_map(|(name, normalise)| {
            let best = self::best(*normalise, item, scores).ok()?;
            let is_right = f64::from(u8::from(best == correct));
            Some(((*name).to_owned(), Measured::Value(is_right)))
        });
        let finding = Finding::new(LARGEST, &item.choices[best], Credit::Whole(best == correct))
            .known_as(&item.choices[best])
            .because(self.reason(best, correct));
        Ok(Some(Finding {
            measures: named.collect(),
            ..finding
        }))
    }

    fn reason(self, best: usize, correct: usize) -> String {
        let per = match self.normalise {
            Normalise::None => "",
            Normalise::Bytes => " per byte",
            Normalise::Tokens => " per token",
        };
        format!("choice {best} has the largest log-probability{per}; choice {correct} is right")
    }
}

/// The choice with the largest value; of equal ones the first.
fn best(normalise: Normalise, item: &Item, scores: &[ChoiceScore]) -> Result<usize, Error> {
    let mut best = (0, f64::NEG_INFINITY);
    for (index, (choice, score)) in item.choices.iter().zip(scores).enumerate() {
        let value = value(normalise, choice, score)?;
        if value > best.1 {
            best = (index, value);
        }
    }
    Ok(best.0)
}

fn value(normalise: Normalise, choice: &str, score: &ChoiceScore) -> Result<f64, Error> {
    let length = match normalise {
        Normalise::None => 1.0,
        Normalise::Bytes => choice.trim_start().len() as f64,
        Normalise::Tokens => f64::from(score.tokens),
    };
    let value = score.log_probability / length;
    if value.is_finite() && score.log_probability <= ROUNDING * f64::from(score.tokens) {
        return Ok(value);
    }
    Err(Error::Scores(format!(
        "the log-probability of {choice:?} is {} over {length}",
        score.log_probability
    )))
}

/// An engine that does not compute log-probabilities says 0 for all of them, which is certainty for every choice at once.
pub(crate) fn check(item: &Item, scores: &[ChoiceScore]) -> Result<(), Error> {
    if scores.len() != item.choices.len() {
        return Err(Error::Scores(format!(
            "{} scores for {} choices",
            scores.len(),
            item.choices.len()
        )));
    }
    if scores.len() > 1 && scores.iter().all(|score| score.log_probability == 0.0) {
        return Err(Error::Scores("every log-probability is 0".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::item;

    fn scores(sums: &[f64]) -> Vec<ChoiceScore> {
        let score = |&log_probability: &f64| ChoiceScore {
            log_probability,
            tokens: 2,
            is_greedy: false,
        };
        sums.iter().map(score).collect()
    }

    fn judge(normalise: Normalise, choices: &[&str], sums: &[f64]) -> Result<bool, Error> {
        let item = tidemill_domain::Item {
            correct_choice: Some(0),
            ..item(&[], choices)
        };
        let finding = Likelihood { normalise }.judge(&item, &scores(sums))?;
        Ok(finding.unwrap().credit == Credit::Whole(true))
    }

    #[test]
    fn the_largest_sum_wins_raw_or_by_length() {
        let choices = [" a much longer choice", " short"];
        assert_eq!(judge(Normalise::None, &choices, &[-8.0, -4.0]), Ok(false));
        assert_eq!(judge(Normalise::Bytes, &choices, &[-8.0, -4.0]), Ok(true));
        assert_eq!(judge(Normalise::Tokens, &choices, &[-8.0, -4.0]), Ok(false));
    }

    #[test]
    fn every_way_of_comparing_is_measured_whichever_counts() {
        let item = tidemill_domain::Item {
            correct_choice: Some(0),
            ..item(&[], &[" a much longer choice", " short"])
        };
        let measured = |normalise, sums: &[f64]| {
            let finding = Likelihood { normalise }.judge(&item, &scores(sums)).unwrap().unwrap();
            (finding.credit.score(), finding.measures)
        };
        let expected: Vec<(String, Measured)> = [("raw", 0.0), ("per_byte", 1.0), ("per_token", 0.0)]
            .map(|(way, value)| (format!("accuracy_{way}"), Measured::Value(value)))
            .to_vec();
        assert_eq!(measured(Normalise::None, &[-8.0, -4.0]), (0.0, expected.clone()));
        assert_eq!(measured(Normalise::Bytes, &[-8.0, -4.0]), (1.0, expected));
        let spec = tidemill_domain::GraderSpec::Likelihood {
            normalise: Normalise::None,
        };
        assert_eq!(spec.metrics().len(), MEASURED.len());
    }

    #[test]
    fn of_equal_choices_the_first_wins() {
        assert_eq!(judge(Normalise::None, &["x", "y"], &[-1.0, -1.0]), Ok(true));
    }

    #[test]
    fn missing_and_impossible_scores_are_the_graders_fault() {
        for sums in [
            &[-1.0][..],
            &[-1.0, -2.0, -3.0],
            &[-1.0, f64::NAN],
            &[f64::NEG_INFINITY, -1.0],
            &[0.5, -1.0],
            &[0.0, 0.0],
        ] {
            assert!(judge(Normalise::None, &["x", "y"], sums).is_err(), "{sums:?}");
        }
        assert!(judge(Normalise::Bytes, &["", "y"], &[-1.0, -1.0]).is_err());
        assert_eq!(judge(Normalise::None, &["x", "y"], &[0.0, -1.0]), Ok(true));
    }

    #[test]
    fn what_passes_0_by_rounding_alone_is_compared_as_it_is() {
        let within = ROUNDING * 2.0;
        for normalise in [Normalise::None, Normalise::Bytes, Normalise::Tokens] {
            assert_eq!(judge(normalise, &["x", "y"], &[within, -1.0]), Ok(true));
            assert_eq!(judge(normalise, &["x", "y"], &[1e-4, within]), Ok(false));
            assert!(judge(normalise, &["x", "y"], &[within * 1.5, -1.0]).is_err());
        }
    }

    #[test]
    fn an_item_without_a_right_choice_is_the_graders_fault() {
        let likelihood = Likelihood {
            normalise: Normalise::None,
        };
        let mut item = item(&[], &["x", "y"]);
        assert!(likelihood.judge(&item, &scores(&[-1.0, -2.0])).is_err());
        item.correct_choice = Some(2);
        assert!(likelihood.judge(&item, &scores(&[-1.0, -2.0])).is_err());
    }
}
