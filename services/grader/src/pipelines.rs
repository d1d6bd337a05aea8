//! Family `pipelines`: the filters and metrics of a task file of lm-evaluation-harness.
//!
//! Each column of the grading (a chain of filters and a metric) is a metric of the benchmark. The score is the first of them that
//! lies between 0 and 1 where more is better. Where there is none, it is the probability that the model gave to what was asked for,
//! or of a generated answer the first column's own value of it: BLEU or chrF of the one answer, turned round where less is better.

use serde_json::{Map, Value as Json};
use tidemill_domain::{ChoiceScore, Digest, Item, Measured};
use tidemill_harness::Grading;
use tidemill_harness::grading::Target;
use tidemill_harness::metric::{self, Gold, Likelihoods, Measure};
use tidemill_harness::python;
use tidemill_harness::task::OutputType;
use tidemill_scoring::{Tokenisation, bleu_counts, chrf_counts, sentence_bleu, sentence_chrf};

use crate::Error;
use crate::answer::{Answer, Credit, Finding};
use crate::family::Family;
use crate::likelihood::check;

const NAME: &str = "pipelines@1";
const FILTERS: &str = "filters@1";
const LARGEST: &str = "largest-likelihood@1";

/// A grading, compiled.
#[derive(Debug, Clone)]
pub(crate) struct Pipelines {
    grading: Grading,
}

impl Family for Pipelines {
    fn name(&self) -> &'static str {
        NAME
    }

    /// The harness does not know of cut answers.
    fn measures_cut_answers(&self) -> bool {
        true
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        if self.grading.output_type != OutputType::GenerateUntil {
            return Err(Error::Pipelines(
                "the task asks for log-probabilities, and there is a text".to_owned(),
            ));
        }
        let value = material(item, "target")?;
        let row = self.row(item)?;
        let target = Target {
            value: &value,
            is_list: item.material("targets_are_lists").is_some(),
            row: &row,
        };
        let (values, filtered) = self
            .grading
            .of_answer(answer.text(), target)
            .map_err(Error::Pipelines)?;
        let votes = self.grading.votes(answer.text(), &row).map_err(Error::Pipelines)?;
        let measures = values
            .iter()
            .zip(self.measures())
            .map(|(value, of)| measured(of, value));
        let measures = measures.collect::<Result<Vec<_>, _>>()?;
        let credit = self.credit(&measures).or_else(|| self.credit_of_one(&measures));
        let credit = credit.ok_or_else(|| Error::Pipelines("none gives this answer a value".to_owned()))?;
        let measures = measures.into_iter().zip(&votes);
        let measures = measures.map(|(measure, vote)| voted(measure, vote.as_ref())).collect();
        let extracted = match &filtered {
            Json::Array(only) if only.len() == 1 => python::str(&only[0]),
            other => python::str(other),
        };
        Ok(Some(self.finding(FILTERS, &extracted, credit, measures)))
    }
}

impl Pipelines {
    /// Reads the grading that a manifest holds.
    pub(crate) fn try_new(grading: &str) -> Result<Self, Error> {
        let grading = Grading::parse(grading).map_err(Error::Pipelines)?;
        Ok(Self { grading })
    }

    /// Grades what the model says of the item's continuations.
    pub(crate) fn score(&self, item: &Item, scores: &[ChoiceScore]) -> Result<Option<Finding>, Error> {
        check(item, scores)?;
        let sums: Vec<f64> = scores.iter().map(|score| score.log_probability).collect();
        if let Some(sum) = sums.iter().find(|sum| !sum.is_finite()) {
            return Err(Error::Scores(format!("a log-probability is {sum}")));
        }
        let first = scores
            .first()
            .ok_or_else(|| Error::Scores("there are none".to_owned()))?;
        let text = item.choices.first().map_or("", String::as_str);
        let (values, extracted, likely) = match self.grading.output_type {
            OutputType::MultipleChoice => self.choices(item, scores, &sums)?,
            OutputType::LoglikelihoodRolling => (
                self.grading.of_text(text, sums[0]),
                text.to_owned(),
                (sums[0] / text.len().max(1) as f64).exp(),
            ),
            _ => {
                let per_token = (sums[0] / f64::from(first.tokens.max(1))).exp();
                (
                    self.grading.of_target(sums[0], first.is_greedy),
                    text.to_owned(),
                    per_token,
                )
            }
        };
        let of = |(value, of): (&Option<metric::Measured>, Measure)| match value {
            Some(value) => measured(of, value),
            None => Ok(None),
        };
        let measures = values
            .iter()
            .zip(self.measures())
            .map(of)
            .collect::<Result<Vec<_>, _>>()?;
        let credit = self.credit(&measures).unwrap_or(Credit::Part(likely));
        Ok(Some(self.finding(LARGEST, &extracted, credit, measures)))
    }

    fn choices(
        &self,
        item: &Item,
        scores: &[ChoiceScore],
        sums: &[f64],
    ) -> Result<(Vec<Option<metric::Measured>>, String, f64), Error> {
        let choices: Vec<String> = serde_json::from_value(material(item, "choices")?).map_err(unreadable)?;
        let gold = gold(item)?;
        let are_greedy: Vec<bool> = scores.iter().map(|score| score.is_greedy).collect();
        let likelihoods = Likelihoods {
            sums,
            are_greedy: &are_greedy,
            unconditional: &[],
        };
        let most = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let chosen = sums.iter().position(|sum| *sum == most).and_then(|at| choices.get(at));
        let total: f64 = sums.iter().map(|sum| (sum - most).exp()).sum();
        let right = gold
            .indices
            .iter()
            .filter_map(|index| sums.get(usize::try_from(*index).ok()?));
        let likely = right.map(|sum| (sum - most).exp()).sum::<f64>() / total;
        let values = self.grading.of_choices(&choices, &gold, &likelihoods);
        Ok((values, chosen.cloned().unwrap_or_default(), likely))
    }

    fn row(&self, item: &Item) -> Result<Map<String, Json>, Error> {
        let mut row = Map::new();
        if item.material("choices").is_some() {
            row.insert("choices".to_owned(), material(item, "choices")?);
        }
        Ok(row)
    }

    fn measures(&self) -> impl Iterator<Item = Measure> {
        self.grading.columns().map(|(_, metric)| metric.measure)
    }

    fn credit(&self, measures: &[Option<Measured>]) -> Option<Credit> {
        self.grading
            .columns()
            .zip(measures)
            .find_map(|((_, metric), value)| match value {
                Some(Measured::Value(value)) if metric.higher_is_better && (0.0..=1.0).contains(value) => {
                    Some(if value.fract() == 0.0 {
                        Credit::Whole(*value > 0.5)
                    } else {
                        Credit::Part(*value)
                    })
                }
                _ => None,
            })
    }

    /// The first value of a single answer, 0 to 1, where none is one that counts as it is.
    fn credit_of_one(&self, measures: &[Option<Measured>]) -> Option<Credit> {
        let of_one = |(metric, measure): (&metric::Metric, &Option<Measured>)| {
            let value = match measure.as_ref()? {
                Measured::Value(value) => *value,
                Measured::Counts(counts) if metric.measure == Measure::Bleu => (sentence_bleu(counts) / 100.0).min(1.0),
                Measured::Counts(counts) => (sentence_chrf(counts) / 100.0).min(1.0),
                _ => return None,
            };
            let value = if metric.higher_is_better { value } else { 1.0 - value };
            (0.0..=1.0).contains(&value).then_some(Credit::Part(value))
        };
        let metrics = self.grading.columns().map(|(_, metric)| metric);
        metrics.zip(measures).find_map(of_one)
    }

    fn finding(
        &self,
        extractor: &'static str,
        extracted: &str,
        credit: Credit,
        measures: Vec<Option<Measured>>,
    ) -> Finding {
        let names = self.grading.columns().map(|(name, _)| name);
        let measures = names.zip(measures).filter_map(|(name, value)| Some((name, value?)));
        Finding {
            measures: measures.collect(),
            ..Finding::new(extractor, extracted, credit)
        }
    }
}

fn material(item: &Item, name: &'static str) -> Result<Json, Error> {
    let text = item.material(name).ok_or(Error::Target { wanted: name })?;
    serde_json::from_str(text).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::Pipelines(format!(
        "the item's material is no JSON of the kind that is needed: {error}"
    ))
}

fn gold(item: &Item) -> Result<Gold, Error> {
    let gold = material(item, "gold")?;
    let is_list = gold.is_array();
    let indices = if is_list { gold } else { Json::Array(vec![gold]) };
    Ok(Gold {
        indices: serde_json::from_value(indices).map_err(unreadable)?,
        is_list,
    })
}

/// What a value adds to the benchmark's metric.
fn measured(measure: Measure, value: &metric::Measured) -> Result<Option<Measured>, Error> {
    Ok(Some(match value {
        // A mean of log-likelihoods has a weight of one each.
        metric::Measured::Value(value) if measure == Measure::Perplexity => Measured::Weighted {
            value: *value,
            weight: 1.0,
        },
        metric::Measured::Value(value) => Measured::Value(*value),
        metric::Measured::Weighted { value, weight } => Measured::Weighted {
            value: *value,
            weight: *weight,
        },
        metric::Measured::Labels { truth, predicted } => Measured::Labels {
            // What is none of the choices is a class of its own.
            truth: u32::try_from(*truth).unwrap_or(u32::MAX),
            predicted: u32::try_from(*predicted).unwrap_or(u32::MAX),
        },
        metric::Measured::Texts { references, answer } => {
            let counts = match measure {
                Measure::Bleu => bleu_counts(answer, references, Tokenisation::V13a),
                of => chrf_counts(answer, references, of == Measure::ChrfPlusPlus),
            };
            Measured::Counts(counts.map_err(|error| Error::Pipelines(error.to_string()))?)
        }
    }))
}

/// A value with what its sample votes for. Only values can be voted on, which is checked where a task becomes a benchmark.
fn voted(measure: Option<Measured>, vote: Option<&Json>) -> Option<Measured> {
    match (measure, vote) {
        (Some(Measured::Value(value)), Some(vote)) => Some(Measured::Vote {
            answer: number_of(vote),
            value,
        }),
        (measure, _) => measure,
    }
}

/// The first 64 bits of its text's hash, for all processes the same.
fn number_of(answer: &Json) -> u64 {
    let digest = Digest::of(answer.to_string().as_bytes());
    digest
        .hex()
        .get(..16)
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::answer::tests::item;

    fn pipelines(text: &Json) -> Pipelines {
        Pipelines::try_new(&text.to_string()).unwrap()
    }

    fn with(material: &[(&str, Json)], choices: &[&str]) -> Item {
        let material = material
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.to_string()));
        Item {
            material: material.collect(),
            ..item(&["x"], choices)
        }
    }

    fn score(log_probability: f64, is_greedy: bool) -> ChoiceScore {
        ChoiceScore {
            log_probability,
            tokens: 2,
            is_greedy,
        }
    }

    #[test]
    fn every_chain_of_filters_and_metric_is_a_metric_of_the_benchmark() {
        let grading = json!({"filter_list": [
            {"name": "strict", "filter": [{"function": "regex", "regex_pattern": "#### (\\d+)"}, {"function": "take_first"}]},
            {"name": "loose", "filter": [{"function": "regex", "regex_pattern": "\\d+", "group_select": -1}, {"function": "take_first"}]},
        ], "metric_list": [{"metric": "exact_match"}, {"metric": "bleu"}]});
        let item = with(&[("target", json!("7"))], &[]);
        let answer = Answer::whole("#### 5, no: 7");
        let finding = pipelines(&grading).judge(&item, &answer).unwrap().unwrap();
        assert_eq!(
            (finding.extracted.as_str(), finding.credit),
            ("5", Credit::Whole(false))
        );
        let names: Vec<&str> = finding.measures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["exact_match,strict", "bleu,strict", "exact_match,loose", "bleu,loose"]
        );
        assert_eq!(
            [&finding.measures[0].1, &finding.measures[2].1],
            [&Measured::Value(0.0), &Measured::Value(1.0)]
        );
        assert!(matches!(&finding.measures[3].1, Measured::Counts(counts) if counts.len() == 10));
    }

    #[test]
    fn where_texts_alone_are_measured_the_score_is_that_of_the_one_text() {
        let scored = |metrics: &Json, text: &str| {
            let item = with(&[("target", json!("the cat sat on the mat"))], &[]);
            let grading = json!({"metric_list": metrics});
            let finding = pipelines(&grading).judge(&item, &Answer::whole(text)).unwrap();
            finding.unwrap().credit
        };
        for metric in ["bleu", "chrf", "chrf++"] {
            let metrics = json!([{ "metric": metric }]);
            assert!(
                scored(&metrics, "the cat sat on the mat").score() > 1.0 - 1e-9,
                "{metric}"
            );
            assert_eq!(scored(&metrics, "qqq"), Credit::Part(0.0), "{metric}");
            let Credit::Part(some) = scored(&metrics, "the cat sat on a mat") else {
                panic!("{metric}")
            };
            assert!(some > 0.1 && some < 1.0, "{metric}: {some}");
        }
        // A value that counts as it is goes before, wherever it stands.
        let both = json!([{"metric": "bleu"}, {"metric": "exact_match"}]);
        assert_eq!(scored(&both, "the cat sat on a mat"), Credit::Whole(false));
        let lower = json!([{"metric": "exact_match", "higher_is_better": false}]);
        assert_eq!(scored(&lower, "no cat"), Credit::Part(1.0));
        assert_eq!(scored(&lower, "the cat sat on the mat"), Credit::Part(0.0));
    }

    #[test]
    fn samples_vote_for_what_the_filters_before_the_vote_make_of_them() {
        let regex = json!({"function": "regex", "regex_pattern": "(\\d+)"});
        let vote = [json!({"function": "majority_vote"}), json!({"function": "take_first"})];
        let grading = json!({"repeats": 3, "filter_list": [
            {"name": "first", "filter": [regex, {"function": "take_first"}]},
            {"name": "maj", "filter": [{"function": "take_first_k", "k": 2}, regex, vote[0], vote[1]]},
        ], "metric_list": [{"metric": "exact_match"}]});
        let item = with(&[("target", json!("7"))], &[]);
        let measures = |text| {
            let finding = pipelines(&grading).judge(&item, &Answer::whole(text)).unwrap();
            let measures = finding.unwrap().measures;
            measures.into_iter().map(|(_, measured)| measured).collect::<Vec<_>>()
        };
        let (one, same, other) = (measures("so 7"), measures("7, I say"), measures("8"));
        assert_eq!(one[0], Measured::Value(1.0));
        assert!(matches!(one[1], Measured::Vote { value: 1.0, .. }));
        assert_eq!(one, same);
        assert!(matches!((&one[1], &other[1]), (Measured::Vote { answer: one, .. },
            Measured::Vote { answer: other, value: 0.0 }) if one != other));
    }

    #[test]
    fn choices_are_scored_by_each_of_their_metrics() {
        let grading = json!({"output_type": "multiple_choice", "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}, {"metric": "mcc"}]});
        let item = with(
            &[("gold", json!(1)), ("choices", json!(["ab", "abcdef"]))],
            &[" ab", " abcdef"],
        );
        let finding = pipelines(&grading)
            .score(&item, &[score(-2.0, true), score(-3.0, false)])
            .unwrap()
            .unwrap();
        assert_eq!(
            (finding.extracted.as_str(), finding.credit),
            ("ab", Credit::Whole(false))
        );
        let labels = Measured::Labels { truth: 1, predicted: 0 };
        let named = |name: &str, measured| (name.to_owned(), measured);
        assert_eq!(
            finding.measures,
            [
                named("acc", Measured::Value(0.0)),
                named("acc_norm", Measured::Value(1.0)),
                named("mcc", labels)
            ]
        );
    }

    #[test]
    fn a_target_is_measured_by_its_likelihood() {
        let grading = json!({"output_type": "loglikelihood"});
        let item = with(&[], &[" word"]);
        let finding = pipelines(&grading).score(&item, &[score(-1.5, true)]).unwrap().unwrap();
        let perplexity = Measured::Weighted {
            value: -1.5,
            weight: 1.0,
        };
        let named = |name: &str, measured| (name.to_owned(), measured);
        let expected = [named("perplexity", perplexity), named("acc", Measured::Value(1.0))];
        assert_eq!(finding.measures, expected);
        assert_eq!(finding.credit, Credit::Whole(true));
    }

    #[test]
    fn what_cannot_be_graded_is_the_graders_fault() {
        let grading = json!({"metric_list": [{"metric": "exact_match"}]});
        let answer = Answer::whole("x");
        assert!(pipelines(&grading).judge(&with(&[], &[]), &answer).is_err());
        assert!(Pipelines::try_new("metric_list: [{metric: rouge}]").is_err());
        let grading = json!({"output_type": "loglikelihood"});
        assert!(
            pipelines(&grading)
                .score(&with(&[], &["a"]), &[score(f64::NAN, true)])
                .is_err()
        );
        assert!(pipelines(&grading).score(&with(&[], &["a"]), &[]).is_err());
    }
}
