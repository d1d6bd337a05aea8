//! The part of a task that grades answers, as a text that travels with its rows.
//!
//! The text is a task file of the keys that matter (`output_type`, `filter_list`, `metric_list`), so it is read and checked by
//! what reads task files.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::filter::{MultiChoice, RegexStep, Step};
use crate::metric::{self, Gold, Likelihoods, Measure, Measured, Metric};
use crate::read;
use crate::refusal::Place;
use crate::rows::Row;
use crate::task::{OutputType, Pipeline, Task};
use crate::yaml::{self, Value};

/// Filters and metrics of a task, compiled.
#[derive(Debug, Clone, PartialEq)]
pub struct Grading {
    /// What was asked of the model.
    pub output_type: OutputType,
    /// The filters.
    pub pipelines: Vec<Pipeline>,
    /// The metrics.
    pub metrics: Vec<Metric>,
    /// Answers to each request, of which the filters take one.
    pub repeats: u32,
}

/// What a row's answer is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The target.
    pub value: &'a Json,
    /// Whether targets are lists, of which any counts.
    pub is_list: bool,
    /// The row's columns that filters read: `choices`.
    pub row: &'a Row,
}

impl Task {
    /// What grades the task's answers.
    #[must_use]
    pub fn grading(&self) -> Grading {
        Grading {
            output_type: self.output_type,
            pipelines: self.pipelines.clone(),
            metrics: self.metrics.clone(),
            repeats: self.repeats,
        }
    }
}

impl Grading {
    /// Reads what [`Grading::text`] wrote.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file = Path::new("grading").into();
        let node = yaml::parse(text, &file).map_err(|refusal| refusal.to_string())?;
        let Value::Map(map) = &node.value else {
            return Err("the grading is no mapping".to_owned());
        };
        let place = Place { file, line: 0 };
        read::grading(map, &place).map_err(|refusals| {
            let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            lines.join("\n")
        })
    }

    /// The grading as a text.
    #[must_use]
    pub fn text(&self) -> String {
        let pipelines: Vec<String> = self.pipelines.iter().map(pipeline).collect();
        let metrics: Vec<Json> = self.metrics.iter().map(metric).collect();
        let repeats = match self.repeats {
            0 | 1 => String::new(),
            repeats => format!(",\"repeats\":{repeats}"),
        };
        format!(
            "{{\"output_type\":{},\"filter_list\":[{}],\"metric_list\":{}{repeats}}}",
            json!(self.output_type.name()),
            pipelines.join(","),
            Json::from(metrics)
        )
    }

    /// Pipelines and metrics in the order in which values are given, with the names under which they are reported: that of the
    /// metric, and behind a comma that of the filters unless it is `none`.
    pub fn columns(&self) -> impl Iterator<Item = (String, &Metric)> {
        self.pipelines.iter().flat_map(move |pipeline| {
            self.metrics.iter().map(move |metric| {
                let name = metric.measure.name();
                let name = match pipeline.name.as_str() {
                    "none" => name.to_owned(),
                    filters => format!("{name},{filters}"),
                };
                (name, metric)
            })
        })
    }

    /// The values of a generated answer, one a column, and what the first filters made of it. Of several answers to a row: the
    /// values that it has if filters take it.
    ///
    /// # Errors
    /// Filters or metrics cannot be applied to it: lm-evaluation-harness would stop here.
    pub fn of_answer(&self, answer: &str, target: Target<'_>) -> Result<(Vec<Measured>, Json), String> {
        let answers = [answer.to_owned()];
        let (mut values, mut first) = (Vec::new(), None);
        for pipeline in &self.pipelines {
            let filtered = match self.repeats {
                0 | 1 => pipeline.apply(&answers, target.row)?,
                _ => pipeline.apply_to_one(answer, target.row)?,
            };
            for metric in &self.metrics {
                values.push(metric::of_answer(metric, target.value, target.is_list, &filtered)?);
            }
            first.get_or_insert(filtered);
        }
        Ok((values, first.unwrap_or(Json::Null)))
    }

    /// What a generated answer votes for, one a column; `None` where filters count no votes.
    ///
    /// # Errors
    /// As [`Grading::of_answer`].
    pub fn votes(&self, answer: &str, row: &Row) -> Result<Vec<Option<Json>>, String> {
        let mut votes = Vec::new();
        for pipeline in &self.pipelines {
            let vote = if self.repeats > 1 {
                pipeline.vote(answer, row)?
            } else {
                None
            };
            votes.extend(self.metrics.iter().map(|_| vote.clone()));
        }
        Ok(votes)
    }

    /// The values of a row of choices, one a column; `None` where a metric does not apply.
    #[must_use]
    pub fn of_choices(&self, choices: &[String], gold: &Gold, likelihoods: &Likelihoods<'_>) -> Vec<Option<Measured>> {
        self.each(|measure| metric::of_choices(measure, choices, gold, likelihoods))
    }

    /// The values of a target's likelihood, one a column.
    #[must_use]
    pub fn of_target(&self, sum: f64, is_greedy: bool) -> Vec<Option<Measured>> {
        self.each(|measure| metric::of_target(measure, sum, is_greedy))
    }

    /// The values of a whole text's likelihood, one a column.
    #[must_use]
    pub fn of_text(&self, text: &str, sum: f64) -> Vec<Option<Measured>> {
        self.each(|measure| metric::of_text(measure, text, sum))
    }

    fn each(&self, of: impl Fn(Measure) -> Option<Measured>) -> Vec<Option<Measured>> {
        self.columns().map(|(_, metric)| of(metric.measure)).collect()
    }
}

fn pipeline(pipeline: &Pipeline) -> String {
    let steps: Vec<String> = pipeline.steps.iter().map(step).collect();
    format!("{{\"name\":{},\"filter\":[{}]}}", json!(pipeline.name), steps.join(","))
}

fn step(step: &Step) -> String {
    let step = match step {
        Step::TakeFirst => json!({"function": "take_first"}),
        Step::TakeFirstK(count) => json!({"function": "take_first_k", "k": count}),
        Step::MajorityVote => json!({"function": "majority_vote"}),
        Step::RemoveWhitespace => json!({"function": "remove_whitespace"}),
        Step::Lowercase => json!({"function": "lowercase"}),
        Step::Uppercase => json!({"function": "uppercase"}),
        // Keys that are no texts keep their kind, which JSON has no place for.
        Step::Map { entries, default } => {
            let entries: Vec<String> = entries.iter().map(entry).collect();
            let (entries, default) = (entries.join(","), written(default));
            return format!("{{\"function\":\"map\",\"mapping_dict\":{{{entries}}},\"default_value\":{default}}}");
        }
        Step::Regex(step) => regex("regex", step),
        Step::MultiChoiceRegex(step) => multi_choice(step),
    };
    written(&step)
}

fn entry((from, to): &(Json, Json)) -> String {
    // A colon behind a key without quotes needs its space.
    let space = if from.is_string() { "" } else { " " };
    format!("{}:{space}{}", written(from), written(to))
}

/// A value as JSON, but that numbers with an exponent have a point before it: they are texts to YAML otherwise.
fn written(value: &Json) -> String {
    let all = |values: Vec<String>| values.join(",");
    match value {
        Json::Number(number) if number.is_f64() => {
            let digits = crate::python::repr(value);
            match digits.split_once('e') {
                Some((mantissa, power)) if !mantissa.contains('.') => format!("{mantissa}.0e{power}"),
                _ => digits,
            }
        }
        Json::Array(values) => format!("[{}]", all(values.iter().map(written).collect())),
        Json::Object(map) => {
            let entry = |(key, value): (&String, &Json)| format!("{}:{}", json!(key), written(value));
            format!("{{{}}}", all(map.iter().map(entry).collect()))
        }
        other => other.to_string(),
    }
}

fn regex(name: &str, step: &RegexStep) -> Json {
    json!({"function": name, "regex_pattern": step.source, "group_select": step.group_select, "fallback": step.fallback})
}

fn multi_choice(step: &MultiChoice) -> Json {
    let mut json = regex("multi_choice_regex", &step.regex);
    json["ignore_case"] = step.ignore_case.into();
    json["ignore_punctuation"] = step.ignore_punctuation.into();
    let patterns: Vec<&str> = step
        .regexes_to_ignore
        .iter()
        .map(|(source, _)| source.as_str())
        .collect();
    json["regexes_to_ignore"] = json!(patterns);
    json
}

fn metric(metric: &Metric) -> Json {
    let mut json = json!({"metric": metric.measure.name()});
    if metric.higher_is_better != metric.measure.higher_is_better() {
        json["higher_is_better"] = metric.higher_is_better.into();
    }
    let options = &metric.options;
    for (key, is_set) in [
        ("ignore_case", options.ignore_case),
        ("ignore_punctuation", options.ignore_punctuation),
        ("ignore_numbers", options.ignore_numbers),
    ] {
        if is_set {
            json[key] = true.into();
        }
    }
    let patterns: Vec<&str> = options.sources().collect();
    if !patterns.is_empty() {
        json["regexes_to_ignore"] = json!(patterns);
    }
    json
}
