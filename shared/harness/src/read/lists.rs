//! `filter_list` and `metric_list`.

use serde_json::Value as Json;

use super::fields::Keys;
use super::function_reason;
use crate::filter::{MultiChoice, RegexStep, Step};
use crate::metric::{Aggregation, Measure, Metric};
use crate::native;
use crate::normalise::Normalise;
use crate::pattern::Pattern;
use crate::refusal::Place;
use crate::task::{OutputType, Pipeline};
use crate::yaml::{Map, Node, Value};

/// The pattern of a `regex` filter that names none.
const REGEX_PATTERN: &str = r"#### (\-?[0-9\.\,]+)";
const FALLBACK: &str = "[invalid]";
const NAMES_NONE: &str = "is empty, so nothing would be measured; leave it out for what the output_type has by default";

/// `filter_list`; without one, the first answer counts under the name `none`.
pub(super) fn pipelines(keys: &mut Keys<'_>, output_type: OutputType) -> Vec<Pipeline> {
    let default = || {
        vec![Pipeline {
            name: "none".to_owned(),
            steps: vec![Step::TakeFirst],
        }]
    };
    let Some(node) = keys.take("filter_list").filter(|node| !node.is_null()) else {
        return default();
    };
    let Value::List(entries) = &node.value else {
        keys.refuse_at(&node.place, "filter_list", format!("takes a list, not {}", node.kind()));
        return default();
    };
    if entries.is_empty() {
        keys.refuse_at(&node.place, "filter_list", NAMES_NONE);
    }
    let mut pipelines = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let prefix = format!("filter_list[{index}]");
        let Value::Map(map) = &entry.value else {
            keys.refuse_at(&entry.place, &prefix, "takes a mapping with name and filter");
            continue;
        };
        let mut inner = Keys::new(map, &entry.place, &prefix, keys.refusals());
        if let Some(pipeline) = pipeline(&mut inner, output_type) {
            pipelines.push(pipeline);
        }
        inner.finish();
    }
    pipelines
}

fn pipeline(keys: &mut Keys<'_>, output_type: OutputType) -> Option<Pipeline> {
    let name = keys.text("name");
    if name.is_none() {
        keys.refuse("name", "is missing");
    }
    let Some(node) = keys.take("filter") else {
        keys.refuse("filter", "is missing");
        return None;
    };
    let Value::List(functions) = &node.value else {
        keys.refuse_at(&node.place, "filter", "takes a list");
        return None;
    };
    let mut steps = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        let prefix = format!("filter[{index}]");
        let Value::Map(map) = &function.value else {
            keys.refuse_at(&function.place, &prefix, "takes a mapping with function");
            continue;
        };
        let full = format!("{}.{prefix}", keys.prefix());
        let mut inner = Keys::new(map, &function.place, &full, keys.refusals());
        if let Some(step) = step(&mut inner, map) {
            if output_type != OutputType::GenerateUntil && step != Step::TakeFirst {
                inner.refuse(
                    "function",
                    "changes texts, and this output_type answers with likelihoods",
                );
            }
            steps.push(step);
        }
        inner.finish();
    }
    Some(Pipeline { name: name?, steps })
}

fn step(keys: &mut Keys<'_>, map: &Map) -> Option<Step> {
    let node = map.get("function");
    let name = match node.map(|node| &node.value) {
        Some(Value::Text(name)) => {
            keys.ignore("function");
            name.clone()
        }
        Some(_) => {
            keys.ignore_all(map);
            let reason = node
                .and_then(function_reason)
                .unwrap_or_else(|| "takes the name of a filter".to_owned());
            keys.refuse("function", reason);
            return None;
        }
        None => {
            keys.refuse("function", "is missing");
            return None;
        }
    };
    match name.as_str() {
        "take_first" => Some(Step::TakeFirst),
        "take_first_k" => keys.count("k").map(Step::TakeFirstK),
        "majority_vote" => Some(Step::MajorityVote),
        "remove_whitespace" => Some(Step::RemoveWhitespace),
        "lowercase" => Some(Step::Lowercase),
        "uppercase" => Some(Step::Uppercase),
        "map" => mapping(keys),
        "regex" => regex(keys).map(Step::Regex),
        "multi_choice_regex" => {
            let regex = regex(keys)?;
            Some(Step::MultiChoiceRegex(MultiChoice {
                regex,
                ignore_case: keys.flag("ignore_case"),
                ignore_punctuation: keys.flag("ignore_punctuation"),
                regexes_to_ignore: patterns(keys, "regexes_to_ignore"),
            }))
        }
        "custom" => {
            keys.ignore_all(map);
            keys.refuse(
                "function",
                "custom runs Python code, which is not run here; use the other filters",
            );
            None
        }
        other => {
            keys.ignore_all(map);
            let known = "take_first, take_first_k, majority_vote, remove_whitespace, lowercase, uppercase, map, regex, multi_choice_regex";
            keys.refuse(
                "function",
                format!("is {other:?}; filters that are known here: {known}"),
            );
            None
        }
    }
}

fn mapping(keys: &mut Keys<'_>) -> Option<Step> {
    let entries = match keys.take("mapping_dict").map(|node| &node.value) {
        Some(Value::Map(map)) => {
            let entries = map
                .iter()
                .filter_map(|(key, value)| Some((key.json().ok()?, value.json().ok()?)));
            entries.collect()
        }
        _ => Vec::new(),
    };
    let default = keys
        .take("default_value")
        .and_then(|node| node.json().ok())
        .unwrap_or(Json::Null);
    Some(Step::Map { entries, default })
}

fn regex(keys: &mut Keys<'_>) -> Option<RegexStep> {
    let source = keys.text("regex_pattern").unwrap_or_else(|| REGEX_PATTERN.to_owned());
    let group_select = match keys.take("group_select").map(|node| &node.value) {
        None | Some(Value::Null) => 0,
        Some(Value::Int(number)) => *number,
        Some(_) => {
            keys.refuse("group_select", "takes an integer");
            0
        }
    };
    let fallback = match keys.take("fallback").map(Node::json) {
        None => Json::String(FALLBACK.to_owned()),
        Some(Ok(fallback)) => fallback,
        Some(Err(_)) => Json::Null,
    };
    match Pattern::new(&source) {
        Ok(pattern) => Some(RegexStep {
            source,
            pattern,
            group_select,
            fallback,
        }),
        Err(error) => {
            keys.refuse("regex_pattern", error);
            None
        }
    }
}

fn patterns(keys: &mut Keys<'_>, key: &'static str) -> Vec<(String, Pattern)> {
    let sources = match keys.take(key).map(Node::json) {
        None | Some(Ok(Json::Null)) => return Vec::new(),
        // One text is iterated letter by letter, each of them a pattern.
        Some(Ok(Json::String(text))) => text.chars().map(String::from).collect(),
        Some(Ok(Json::Array(sources))) => {
            let sources: Option<Vec<String>> = sources.into_iter().map(|one| one.as_str().map(str::to_owned)).collect();
            sources.unwrap_or_default()
        }
        Some(_) => Vec::new(),
    };
    let mut patterns = Vec::new();
    for source in sources {
        match Pattern::new(&source) {
            Ok(pattern) => patterns.push((source, pattern)),
            Err(error) => keys.refuse(key, error),
        }
    }
    patterns
}

/// `metric_list`; without one, the metrics of the output type.
pub(super) fn metrics(keys: &mut Keys<'_>, output_type: OutputType) -> Vec<Metric> {
    let Some(node) = keys.take("metric_list").filter(|node| !node.is_null()) else {
        return Measure::defaults(output_type)
            .iter()
            .map(|measure| Metric::of(*measure))
            .collect();
    };
    let Value::List(entries) = &node.value else {
        keys.refuse_at(&node.place, "metric_list", format!("takes a list, not {}", node.kind()));
        return Vec::new();
    };
    if entries.is_empty() {
        keys.refuse_at(&node.place, "metric_list", NAMES_NONE);
    }
    let mut metrics: Vec<Metric> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let prefix = format!("metric_list[{index}]");
        let Value::Map(map) = &entry.value else {
            keys.refuse_at(&entry.place, &prefix, "takes a mapping with metric");
            continue;
        };
        let mut inner = Keys::new(map, &entry.place, &prefix, keys.refusals());
        if let Some(metric) = metric(&mut inner, map, &entry.place, output_type) {
            // Of two entries for one metric the last one counts, in the place of the first.
            match metrics.iter_mut().find(|known| known.measure == metric.measure) {
                Some(known) => *known = metric,
                None => metrics.push(metric),
            }
        }
        inner.finish();
    }
    metrics
}

fn metric(keys: &mut Keys<'_>, map: &Map, place: &Place, output_type: OutputType) -> Option<Metric> {
    let name = match map.get("metric").map(|node| (&node.value, node)) {
        Some((Value::Text(name), _)) => {
            keys.ignore("metric");
            name.clone()
        }
        Some((_, node)) => {
            keys.ignore_all(map);
            let reason = function_reason(node).unwrap_or_else(|| "takes the name of a metric".to_owned());
            keys.refuse("metric", reason);
            return None;
        }
        None => {
            keys.refuse_at(place, "metric", "is missing");
            return None;
        }
    };
    if keys.flag("hf_evaluate") && output_type == OutputType::GenerateUntil {
        keys.ignore_all(map);
        keys.refuse(
            "hf_evaluate",
            format!("loads metric {name} from the hub, which is not reached from here"),
        );
        return None;
    }
    let Some(measure) = Measure::named(&name) else {
        keys.ignore_all(map);
        let known = Measure::ALL.map(Measure::name).join(", ");
        keys.refuse(
            "metric",
            format!("{name} is not known; metrics that are known here: {known}"),
        );
        return None;
    };
    let Some(fitting) = measure.fits(output_type) else {
        keys.ignore_all(map);
        let reason = format!("{name} is not defined for output_type {}", output_type.name());
        keys.refuse("metric", reason);
        return None;
    };
    let aggregation = aggregation(keys, fitting);
    let higher_is_better = match keys.take("higher_is_better").map(|node| &node.value) {
        Some(Value::Bool(boolean)) => *boolean,
        _ => measure.higher_is_better(),
    };
    let options = options(keys, map, measure, output_type);
    Some(Metric {
        measure,
        options,
        aggregation: aggregation?,
        higher_is_better,
    })
}

fn aggregation(keys: &mut Keys<'_>, measure: Measure) -> Option<Aggregation> {
    let node = match keys.take("aggregation") {
        None => return Some(measure.aggregation()),
        Some(node) => node,
    };
    let aggregation = match &node.value {
        Value::Null => Some(measure.aggregation()),
        Value::Text(name) => Aggregation::named(name),
        Value::Function(name) => native::aggregation(name, &node.place.file).map(Aggregation::Native),
        _ => None,
    };
    let Some(aggregation) = aggregation else {
        let reason = function_reason(node).unwrap_or_else(|| {
            let name = node.text().unwrap_or("of another kind");
            format!("{name} is not known; known here: {}", Aggregation::names().join(", "))
        });
        keys.refuse("aggregation", reason);
        return None;
    };
    if !aggregation.takes(measure) {
        let reason = format!(
            "{} cannot be taken of what {} gives for a row",
            aggregation.name(),
            measure.name()
        );
        keys.refuse("aggregation", reason);
        return None;
    }
    Some(aggregation)
}

/// What remains in an entry: options of the metric's function, which only texts are compared by.
fn options(keys: &mut Keys<'_>, map: &Map, measure: Measure, output_type: OutputType) -> Normalise {
    if measure != Measure::ExactMatch || output_type != OutputType::GenerateUntil {
        // The functions of other metrics are not called with them.
        if output_type == OutputType::GenerateUntil {
            let known = ["metric", "aggregation", "higher_is_better", "hf_evaluate"];
            let others: Vec<String> = map.named().map(|(name, _)| name.to_owned()).collect();
            if let Some(other) = others.iter().find(|name| !known.contains(&name.as_str())) {
                keys.refuse(other, format!("is no option of metric {}", measure.name()));
            }
        }
        keys.ignore_all(map);
        return Normalise::default();
    }
    Normalise {
        ignore_case: keys.flag("ignore_case"),
        ignore_punctuation: keys.flag("ignore_punctuation"),
        ignore_numbers: keys.flag("ignore_numbers"),
        regexes_to_ignore: patterns(keys, "regexes_to_ignore"),
    }
}
