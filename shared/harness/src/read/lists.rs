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
            // Of two chains of one name the last one counts, in the place of the first.
            match pipelines
                .iter_mut()
                .find(|known: &&mut Pipeline| known.name == pipeline.name)
            {
                Some(known) => *known = pipeline,
                None => pipelines.push(pipeline),
            }
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
        "take_first_k" => {
            let count = keys.count("k");
            if !keys.is_set("k") {
                keys.refuse("k", "is missing");
            }
            count.map(Step::TakeFirstK)
        }
        "majority_vote" => Some(Step::MajorityVote),
        "remove_whitespace" => Some(Step::RemoveWhitespace),
        "lowercase" => Some(Step::Lowercase),
        "uppercase" => Some(Step::Uppercase),
        "map" => mapping(keys),
        "regex" => regex(keys).map(Step::Regex),
        "multi_choice_regex" => {
            let regex = regex(keys);
            let ignore_case = keys.flag("ignore_case");
            let ignore_punctuation = keys.flag("ignore_punctuation");
            let regexes_to_ignore = patterns(keys, "regexes_to_ignore");
            Some(Step::MultiChoiceRegex(MultiChoice {
                regex: regex?,
                ignore_case,
                ignore_punctuation,
                regexes_to_ignore,
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
    let entries = match keys.take("mapping_dict") {
        None => Some(Vec::new()),
        Some(node) if node.is_null() => Some(Vec::new()),
        Some(node) => pairs(keys, node),
    };
    let default = value(keys, "default_value").unwrap_or(Json::Null);
    Some(Step::Map {
        entries: entries?,
        default,
    })
}

fn pairs(keys: &mut Keys<'_>, node: &Node) -> Option<Vec<(Json, Json)>> {
    let reason = match &node.value {
        Value::Map(map) => {
            let pairs = map
                .iter()
                .map(|(key, value)| Some((key.json().ok()?, value.json().ok()?)));
            match pairs.collect::<Option<Vec<_>>>() {
                Some(pairs) if pairs.iter().any(|(key, _)| key.is_array() || key.is_object()) => {
                    "takes texts, numbers and booleans as keys".to_owned()
                }
                Some(pairs) => return Some(pairs),
                None => function_reason(node).unwrap_or_default(),
            }
        }
        _ => format!("takes a mapping, not {}", node.kind()),
    };
    keys.refuse_at(&node.place, "mapping_dict", reason);
    None
}

/// A value of any kind that is data.
fn value(keys: &mut Keys<'_>, key: &'static str) -> Option<Json> {
    let node = keys.take(key)?;
    let value = node.json().ok();
    if value.is_none() {
        keys.refuse_at(&node.place, key, function_reason(node).unwrap_or_default());
    }
    value
}

fn regex(keys: &mut Keys<'_>) -> Option<RegexStep> {
    let source = match keys.take("regex_pattern").map(|node| (node.text(), node)) {
        None => Some(REGEX_PATTERN.to_owned()),
        Some((Some(source), _)) => Some(source.to_owned()),
        Some((None, node)) => {
            keys.refuse("regex_pattern", format!("takes a text, not {}", node.kind()));
            None
        }
    };
    let group_select = match keys.take("group_select").map(|node| &node.value) {
        None => 0,
        Some(Value::Int(number)) => *number,
        Some(_) => {
            keys.refuse("group_select", "takes an integer");
            0
        }
    };
    let fallback = value(keys, "fallback").unwrap_or_else(|| match keys.is_set("fallback") {
        true => Json::Null,
        false => Json::String(FALLBACK.to_owned()),
    });
    let source = source?;
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
    let Some(node) = keys.take(key).filter(|node| !node.is_null()) else {
        return Vec::new();
    };
    let sources: Option<Vec<String>> = match node.json() {
        // One text is iterated letter by letter, each of them a pattern.
        Ok(Json::String(text)) => Some(text.chars().map(String::from).collect()),
        Ok(Json::Array(sources)) => sources.into_iter().map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    let Some(sources) = sources else {
        keys.refuse_at(&node.place, key, "takes a list of regular expressions");
        return Vec::new();
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

/// Refuses chains that give a metric something that it cannot be taken of, whatever the answers are.
pub(super) fn refuse_unfit(keys: &mut Keys<'_>, pipelines: &[Pipeline], metrics: &[Metric], has_choices: bool) {
    for pipeline in pipelines {
        let name = &pipeline.name;
        let is_one_text = pipeline.steps.last() == Some(&Step::TakeFirst);
        for metric in metrics.iter().filter(|metric| metric.needs_one_text() && !is_one_text) {
            let metric = metric.measure.name();
            keys.refuse(
                "filter_list",
                format!("{name} gives {metric} a list; end it by take_first"),
            );
        }
        let maps = pipeline.steps.iter().rev();
        let map = maps.filter_map(|step| match step {
            Step::Map { entries, default } => Some(entries.iter().map(|(_, to)| to).chain([default])),
            _ => None,
        });
        // The choice that is right is a text, and is not made one of the kind that it is compared with.
        if has_choices && map.take(1).flatten().any(|to| !to.is_string()) {
            let reason = "to other values than texts (default_value is null where it is left out) is not done here beside doc_to_choice";
            keys.refuse("filter_list", format!("{name}: map {reason}"));
        }
    }
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
    let higher_is_better = match keys.is_set("higher_is_better") {
        true => keys.flag("higher_is_better"),
        false => measure.higher_is_better(),
    };
    keys.ignore("higher_is_better");
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
