//! What is measured of each row, and how rows become one number.

use serde_json::Value as Json;

use crate::native::AggregationRule;
pub use crate::normalise::Normalise;
use crate::python;
use crate::task::OutputType;

/// A metric of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// What is measured of a row.
    pub measure: Measure,
    /// How texts are made comparable, for [`Measure::ExactMatch`].
    pub options: Normalise,
    /// How rows become one number.
    pub aggregation: Aggregation,
    /// Whether more is better.
    pub higher_is_better: bool,
}

impl Metric {
    /// A metric with everything that it has where a file says no more.
    #[must_use]
    pub fn of(measure: Measure) -> Self {
        Self {
            measure,
            options: Normalise::default(),
            aggregation: measure.aggregation(),
            higher_is_better: measure.higher_is_better(),
        }
    }

    /// Whether it cannot be taken of what a chain leaves as a list.
    pub(crate) fn needs_one_text(&self) -> bool {
        self.measure.is_of_texts() || !self.options.regexes_to_ignore.is_empty()
    }
}

/// What is measured of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// The likeliest choice is right; for `loglikelihood`, the target is the greedy answer.
    Acc,
    /// The same, log-likelihoods divided by the choices' lengths in characters.
    AccNorm,
    /// The same, divided by their lengths in bytes.
    AccBytes,
    /// The same, less the log-likelihood without the prompt.
    AccMutualInfo,
    /// Texts are equal; of choices, the right one is the greedy answer.
    ExactMatch,
    /// Right and chosen choice, for F1.
    F1,
    /// The same, for Matthews' correlation.
    Mcc,
    /// Squared distance of the choices' probabilities from the truth.
    BrierScore,
    /// Log-likelihood of the target.
    Perplexity,
    /// Log-likelihood of a text and its words.
    WordPerplexity,
    /// Log-likelihood of a text and its bytes.
    BytePerplexity,
    /// The same, in bits.
    BitsPerByte,
    /// Reference and answer, for BLEU.
    Bleu,
    /// The same, for chrF.
    Chrf,
    /// The same, for chrF++.
    ChrfPlusPlus,
}

impl Measure {
    /// Every measure.
    pub const ALL: [Self; 15] = [
        Self::Acc,
        Self::AccNorm,
        Self::AccBytes,
        Self::AccMutualInfo,
        Self::ExactMatch,
        Self::F1,
        Self::Mcc,
        Self::BrierScore,
        Self::Perplexity,
        Self::WordPerplexity,
        Self::BytePerplexity,
        Self::BitsPerByte,
        Self::Bleu,
        Self::Chrf,
        Self::ChrfPlusPlus,
    ];

    /// Its name in task files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Acc => "acc",
            Self::AccNorm => "acc_norm",
            Self::AccBytes => "acc_bytes",
            Self::AccMutualInfo => "acc_mutual_info",
            Self::ExactMatch => "exact_match",
            Self::F1 => "f1",
            Self::Mcc => "mcc",
            Self::BrierScore => "brier_score",
            Self::Perplexity => "perplexity",
            Self::WordPerplexity => "word_perplexity",
            Self::BytePerplexity => "byte_perplexity",
            Self::BitsPerByte => "bits_per_byte",
            Self::Bleu => "bleu",
            Self::Chrf => "chrf",
            Self::ChrfPlusPlus => "chrf++",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.name() == name)
    }

    /// The metrics of an output type where a file names none.
    pub(crate) const fn defaults(output_type: OutputType) -> &'static [Self] {
        match output_type {
            OutputType::GenerateUntil => &[Self::ExactMatch],
            OutputType::MultipleChoice => &[Self::Acc, Self::AccNorm],
            OutputType::Loglikelihood => &[Self::Perplexity, Self::Acc],
            OutputType::LoglikelihoodRolling => &[Self::WordPerplexity, Self::BytePerplexity, Self::BitsPerByte],
        }
    }

    /// Itself, where the output type gives it a value.
    pub(crate) fn fits(self, output_type: OutputType) -> Option<Self> {
        let fits = match output_type {
            OutputType::GenerateUntil => {
                matches!(self, Self::ExactMatch | Self::Bleu | Self::Chrf | Self::ChrfPlusPlus)
            }
            OutputType::MultipleChoice => matches!(
                self,
                Self::Acc
                    | Self::AccNorm
                    | Self::AccBytes
                    | Self::AccMutualInfo
                    | Self::ExactMatch
                    | Self::F1
                    | Self::Mcc
                    | Self::BrierScore
            ),
            OutputType::Loglikelihood => matches!(self, Self::Acc | Self::Perplexity),
            OutputType::LoglikelihoodRolling => {
                matches!(self, Self::WordPerplexity | Self::BytePerplexity | Self::BitsPerByte)
            }
        };
        fits.then_some(self)
    }

    /// Whether its value comes from all answers and references together.
    pub(crate) const fn is_of_texts(self) -> bool {
        matches!(self, Self::Bleu | Self::Chrf | Self::ChrfPlusPlus)
    }

    /// Whether it is defined where a row has a list of targets.
    pub(crate) const fn takes_lists(self) -> bool {
        !self.is_of_texts() && !matches!(self, Self::F1 | Self::Mcc | Self::BrierScore)
    }

    pub(crate) const fn aggregation(self) -> Aggregation {
        match self {
            Self::F1 => Aggregation::F1,
            Self::Mcc => Aggregation::Mcc,
            Self::BrierScore => Aggregation::BrierScore,
            Self::Perplexity => Aggregation::Perplexity,
            Self::WordPerplexity | Self::BytePerplexity => Aggregation::WeightedPerplexity,
            Self::BitsPerByte => Aggregation::BitsPerByte,
            Self::Bleu => Aggregation::Bleu,
            Self::Chrf => Aggregation::Chrf,
            Self::ChrfPlusPlus => Aggregation::ChrfPlusPlus,
            _ => Aggregation::Mean,
        }
    }

    pub(crate) const fn higher_is_better(self) -> bool {
        let lower = matches!(
            self,
            Self::BrierScore | Self::Perplexity | Self::WordPerplexity | Self::BytePerplexity | Self::BitsPerByte
        );
        !lower
    }
}

/// How the values of rows become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregation {
    /// The arithmetic mean.
    Mean,
    /// The mean of what is a number.
    NanMean,
    /// The value in the middle, the upper one of two.
    Median,
    /// e to the negative mean.
    Perplexity,
    /// e to the negative weighted mean.
    WeightedPerplexity,
    /// The negative weighted mean in bits.
    BitsPerByte,
    /// F1 of the class 1.
    F1,
    /// Matthews' correlation.
    Mcc,
    /// The mean of Brier scores.
    BrierScore,
    /// BLEU of the whole.
    Bleu,
    /// chrF of the whole.
    Chrf,
    /// chrF++ of the whole.
    ChrfPlusPlus,
    /// A function that is done natively.
    Native(AggregationRule),
}

impl Aggregation {
    const NAMED: [Self; 12] = [
        Self::Mean,
        Self::NanMean,
        Self::Median,
        Self::Perplexity,
        Self::WeightedPerplexity,
        Self::BitsPerByte,
        Self::F1,
        Self::Mcc,
        Self::BrierScore,
        Self::Bleu,
        Self::Chrf,
        Self::ChrfPlusPlus,
    ];

    /// Its name in task files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::NanMean => "nanmean",
            Self::Median => "median",
            Self::Perplexity => "perplexity",
            Self::WeightedPerplexity => "weighted_perplexity",
            Self::BitsPerByte => "bits_per_byte",
            Self::F1 => "f1",
            Self::Mcc => "matthews_corrcoef",
            Self::BrierScore => "brier_score",
            Self::Bleu => "bleu",
            Self::Chrf => "chrf",
            Self::ChrfPlusPlus => "chrf++",
            Self::Native(AggregationRule::WeightedF1) => "weighted_f1_score",
            Self::Native(AggregationRule::MicroF1) => "micro_f1_score",
        }
    }

    /// The shape of the function, where it is one that is done natively.
    pub(crate) const fn shape(self) -> Option<&'static str> {
        match self {
            Self::Native(AggregationRule::WeightedF1) => Some("weighted-f1"),
            Self::Native(AggregationRule::MicroF1) => Some("micro-f1"),
            _ => None,
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|aggregation| aggregation.name() == name)
    }

    pub(crate) fn names() -> Vec<&'static str> {
        Self::NAMED.iter().map(|aggregation| aggregation.name()).collect()
    }

    /// Whether it can be taken of what a measure gives for a row.
    pub(crate) const fn takes(self, measure: Measure) -> bool {
        match measure {
            Measure::F1 | Measure::Mcc => matches!(self, Self::F1 | Self::Mcc | Self::Native(_)),
            Measure::BrierScore => matches!(self, Self::BrierScore),
            Measure::WordPerplexity | Measure::BytePerplexity | Measure::BitsPerByte => {
                matches!(self, Self::WeightedPerplexity | Self::BitsPerByte)
            }
            Measure::Bleu | Measure::Chrf | Measure::ChrfPlusPlus => {
                matches!(self, Self::Bleu | Self::Chrf | Self::ChrfPlusPlus)
            }
            _ => matches!(self, Self::Mean | Self::NanMean | Self::Median | Self::Perplexity),
        }
    }
}

/// What a measure gives for one row.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// A number.
    Value(f64),
    /// A number that counts as often as its weight says.
    Weighted {
        /// The sum.
        value: f64,
        /// How many it is the sum of.
        weight: f64,
    },
    /// The right choice and the one that was chosen; a truth of -100 is none of the choices.
    Labels {
        /// Right.
        truth: i64,
        /// Chosen.
        predicted: i64,
    },
    /// Reference and answer.
    Texts {
        /// The accepted answers.
        references: Vec<String>,
        /// The answer.
        answer: String,
    },
}

/// The right choices of a row of `multiple_choice`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gold {
    /// Indices; -100 stood for what is none of the choices in items of before.
    pub indices: Vec<i64>,
    /// Whether the target is a list, of which any counts.
    pub is_list: bool,
}

/// What a model says of the choices of a row.
#[derive(Debug, Clone, Copy)]
pub struct Likelihoods<'a> {
    /// The log-likelihood of each choice after the prompt, at least one.
    pub sums: &'a [f64],
    /// Whether each choice is what greedy decoding gives.
    pub are_greedy: &'a [bool],
    /// The log-likelihood of each choice after nothing, where `acc_mutual_info` is measured.
    pub unconditional: &'a [f64],
}

/// A row of `multiple_choice`. `None` where the measure does not apply.
#[must_use]
pub fn of_choices(
    measure: Measure,
    choices: &[String],
    gold: &Gold,
    likelihoods: &Likelihoods<'_>,
) -> Option<Measured> {
    let sums = likelihoods.sums;
    let by = |length: fn(&String) -> usize| {
        let shares = sums
            .iter()
            .zip(choices)
            .map(|(sum, choice)| sum / length(choice) as f64);
        best(&shares.collect::<Vec<_>>())
    };
    let is_right = |chosen: Option<usize>| {
        let chosen = chosen.and_then(|chosen| i64::try_from(chosen).ok());
        Measured::Value(f64::from(u8::from(
            chosen.is_some_and(|chosen| gold.indices.contains(&chosen)),
        )))
    };
    let single = || (!gold.is_list).then(|| gold.indices.first().copied()).flatten();
    let labels = || {
        let predicted = i64::try_from(best(sums)?).ok()?;
        Some(Measured::Labels {
            truth: single()?,
            predicted,
        })
    };
    match measure {
        Measure::Acc => Some(is_right(best(sums))),
        Measure::AccNorm => Some(is_right(by(|choice| choice.chars().count()))),
        Measure::AccBytes => Some(is_right(by(String::len))),
        Measure::AccMutualInfo => {
            if likelihoods.unconditional.len() != sums.len() {
                return None;
            }
            let gains = sums
                .iter()
                .zip(likelihoods.unconditional)
                .map(|(sum, without)| sum - without);
            Some(is_right(best(&gains.collect::<Vec<_>>())))
        }
        Measure::ExactMatch => {
            let greedy = |index: &i64| {
                usize::try_from(*index)
                    .ok()
                    .and_then(|at| likelihoods.are_greedy.get(at).copied())
            };
            let any = gold.indices.iter().any(|index| greedy(index).unwrap_or(false));
            Some(Measured::Value(f64::from(u8::from(any))))
        }
        Measure::F1 | Measure::Mcc => labels(),
        Measure::BrierScore => brier(sums, usize::try_from(single()?).ok()?),
        _ => None,
    }
}

/// The first of the largest; something that is no number counts as largest, as in NumPy.
fn best(values: &[f64]) -> Option<usize> {
    let mut chosen: Option<(usize, f64)> = None;
    for (at, value) in values.iter().copied().enumerate() {
        if value.is_nan() {
            return Some(at);
        }
        if chosen.is_none_or(|(_, most)| value > most) {
            chosen = Some((at, value));
        }
    }
    chosen.map(|(at, _)| at)
}

fn brier(sums: &[f64], truth: usize) -> Option<Measured> {
    if truth >= sums.len() {
        return None;
    }
    let most = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = sums.iter().map(|sum| (sum - most).exp()).collect();
    let total: f64 = powers.iter().sum();
    let distance = |(at, power): (usize, &f64)| (power / total - f64::from(u8::from(at == truth))).powi(2);
    Some(Measured::Value(powers.iter().enumerate().map(distance).sum()))
}

/// A row of `loglikelihood`.
#[must_use]
pub fn of_target(measure: Measure, sum: f64, is_greedy: bool) -> Option<Measured> {
    match measure {
        Measure::Perplexity => Some(Measured::Value(sum)),
        Measure::Acc => Some(Measured::Value(f64::from(u8::from(is_greedy)))),
        _ => None,
    }
}

/// A row of `loglikelihood_rolling`: the log-likelihood of a whole text.
#[must_use]
pub fn of_text(measure: Measure, text: &str, sum: f64) -> Option<Measured> {
    let weight = match measure {
        Measure::WordPerplexity => words(text),
        Measure::BytePerplexity | Measure::BitsPerByte => text.len(),
        _ => return None,
    };
    Some(Measured::Weighted {
        value: sum,
        weight: weight as f64,
    })
}

/// How many parts runs of white space cut a text into: one more than there are runs.
fn words(text: &str) -> usize {
    let mut runs = 0;
    let mut was_space = false;
    for letter in text.chars() {
        let is_space = python::is_space(letter);
        runs += usize::from(is_space && !was_space);
        was_space = is_space;
    }
    runs + 1
}

/// A row of `generate_until`: what a chain of filters made of the answers, against the target.
///
/// # Errors
/// The two cannot be compared: lm-evaluation-harness would stop here.
pub fn of_answer(metric: &Metric, target: &Json, targets_are_lists: bool, filtered: &Json) -> Result<Measured, String> {
    if metric.measure == Measure::ExactMatch {
        return exact_match(&metric.options, target, targets_are_lists, filtered).map(Measured::Value);
    }
    if targets_are_lists {
        return Err(format!(
            "{} is not defined for a target that is a list",
            metric.measure.name()
        ));
    }
    let answer = match filtered {
        Json::String(answer) => answer.clone(),
        other => {
            return Err(format!(
                "{} needs one text, not {other}; end the filters with take_first",
                metric.measure.name()
            ));
        }
    };
    Ok(Measured::Texts {
        references: vec![python::str(target)],
        answer,
    })
}

fn exact_match(options: &Normalise, target: &Json, targets_are_lists: bool, filtered: &Json) -> Result<f64, String> {
    if targets_are_lists {
        let single = std::slice::from_ref(target);
        let targets = target.as_array().map_or(single, Vec::as_slice);
        let single = std::slice::from_ref(filtered);
        let answers = filtered.as_array().map_or(single, Vec::as_slice);
        // Texts that stand for arrays: of one element, or of as many as the other.
        let is_pairwise = answers.len() == targets.len();
        if filtered.is_array() && !options.regexes_to_ignore.is_empty() {
            return Err("regexes_to_ignore needs one text; end the filters with take_first".to_owned());
        }
        if answers.is_empty() || (!is_pairwise && answers.len() > 1 && targets.len() > 1) {
            return Err(format!(
                "{} answers cannot be compared with {} targets",
                answers.len(),
                targets.len()
            ));
        }
        let mut any = false;
        for (place, target) in targets.iter().enumerate() {
            for (_, answer) in answers
                .iter()
                .enumerate()
                .filter(|(at, _)| !is_pairwise || *at == place)
            {
                any |= equal(options, target, answer)?;
            }
        }
        return Ok(f64::from(u8::from(any)));
    }
    match filtered {
        Json::Array(answers) if !answers.is_empty() => {
            if !options.regexes_to_ignore.is_empty() {
                return Err("regexes_to_ignore needs one text; end the filters with take_first".to_owned());
            }
            let mut right = 0_u32;
            for answer in answers {
                right += u32::from(equal(options, target, answer)?);
            }
            Ok(f64::from(right) / answers.len() as f64)
        }
        answer => {
            let target = python::cast(target, answer)?;
            equal(options, &target, answer).map(|equal| f64::from(u8::from(equal)))
        }
    }
}

fn equal(options: &Normalise, target: &Json, answer: &Json) -> Result<bool, String> {
    match (target, answer) {
        (Json::String(target), Json::String(answer)) => Ok(options.apply(target)? == options.apply(answer)?),
        (target, answer) if options.changes_texts() => Err(format!("{target} and {answer} are no texts to be changed")),
        (target, answer) => Ok(python::equal(target, answer)),
    }
}
