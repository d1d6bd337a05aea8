//! `generation_kwargs` and where rows come from.

use serde_json::Value as Json;

use super::fields::Keys;
use super::function_reason;
use crate::task::{Dataset, Generation, OutputType};
use crate::yaml::{Node, Value};

/// `generation_kwargs`, with the defaults of lm-evaluation-harness.
pub(super) fn read(
    keys: &mut Keys<'_>,
    output_type: OutputType,
    fewshot_delimiter: &str,
    notices: &mut Vec<String>,
) -> Generation {
    let mut generation = Generation::default();
    let delimiter = vec![fewshot_delimiter.to_owned()];
    let node = keys.take("generation_kwargs").filter(|node| !node.is_null());
    let Some(node) = node else {
        generation.until = delimiter;
        return generation;
    };
    let Value::Map(map) = &node.value else {
        keys.refuse_at(
            &node.place,
            "generation_kwargs",
            format!("takes a mapping, not {}", node.kind()),
        );
        return generation;
    };
    if output_type != OutputType::GenerateUntil {
        notices.push(format!(
            "generation_kwargs has no effect with output_type {}",
            output_type.name()
        ));
    }
    let mut inner = Keys::new(map, &node.place, "generation_kwargs", keys.refusals());
    let keys = &mut inner;
    generation.until = match keys.take("until") {
        None => delimiter,
        Some(node) => until(keys, node),
    };
    let caps = ["max_tokens", "max_gen_toks", "max_new_tokens", "max_completion_tokens"];
    let cap = caps
        .into_iter()
        .filter_map(|key| keys.count(key).map(|count| (key, count)))
        .next();
    if let Some((key, count)) = cap {
        match u32::try_from(count) {
            Ok(count) if count > 0 => generation.max_gen_toks = count,
            _ => keys.refuse(key, "takes a count, 1 or more"),
        }
    }
    let samples = keys.flag("do_sample");
    let temperature = keys.number("temperature");
    if temperature.is_some_and(|temperature| !temperature.is_finite() || temperature < 0.0) {
        keys.refuse("temperature", "must be a number of 0 or more");
    }
    generation.temperature = temperature.unwrap_or(0.0);
    if samples && temperature.is_none() {
        notices.push("do_sample without a temperature is greedy, as a completions server is asked".to_owned());
    }
    if !samples && keys.is_set("do_sample") && generation.temperature > 0.0 {
        notices
            .push("do_sample: false has no effect beside a temperature, as a completions server is asked".to_owned());
    }
    generation.top_p = keys.number("top_p");
    if generation.top_p.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
        keys.refuse("top_p", "must be a number above 0 and at most 1");
    }
    generation.top_k = keys.count("top_k").and_then(|count| i64::try_from(count).ok());
    if keys.count("num_beams").is_some_and(|beams| beams > 1) {
        keys.refuse("num_beams", "asks for beam search, which no server is asked for here");
    }
    inner.finish();
    generation
}

fn until(keys: &mut Keys<'_>, node: &Node) -> Vec<String> {
    let texts = match node.json() {
        Ok(Json::Null) => return Vec::new(),
        Ok(Json::String(text)) => return vec![text],
        Ok(Json::Array(texts)) => texts.into_iter().map(|text| text.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    texts.unwrap_or_else(|| {
        keys.refuse_at(&node.place, "until", "takes a text or a list of texts");
        Vec::new()
    })
}

/// Formats of local files that a `dataset_path` can name.
const FORMATS: [&str; 3] = ["json", "csv", "parquet"];
const OTHER_FORMATS: [&str; 8] = [
    "arrow",
    "text",
    "xml",
    "imagefolder",
    "audiofolder",
    "videofolder",
    "webdataset",
    "hdf5",
];
/// Arguments that say how a dataset on the hub is fetched, which a file that was fetched already does not need.
const FETCHING: [&str; 7] = [
    "trust_remote_code",
    "revision",
    "verification_mode",
    "streaming",
    "cache_dir",
    "download_mode",
    "token",
];

/// `dataset_path`, `dataset_name` and `dataset_kwargs`.
pub(super) fn dataset(keys: &mut Keys<'_>, notices: &mut Vec<String>) -> Dataset {
    let mut dataset = Dataset {
        path: keys.text("dataset_path").unwrap_or_default(),
        name: keys.text("dataset_name"),
        ..Dataset::default()
    };
    if dataset.path.is_empty() && !keys.is_set("custom_dataset") && !keys.is_set("dataset_path") {
        keys.refuse("dataset_path", "is missing");
    }
    if OTHER_FORMATS.contains(&dataset.path.as_str()) {
        let reason = format!(
            "names format {:?}; formats that are read here: {}",
            dataset.path,
            FORMATS.join(", ")
        );
        keys.refuse("dataset_path", reason);
    }
    let is_format = FORMATS.contains(&dataset.path.as_str());
    let Some(node) = keys.take("dataset_kwargs").filter(|node| !node.is_null()) else {
        if is_format {
            keys.refuse(
                "dataset_kwargs",
                format!("is missing: dataset_path {} needs data_files", dataset.path),
            );
        }
        return dataset;
    };
    let Value::Map(map) = &node.value else {
        keys.refuse_at(
            &node.place,
            "dataset_kwargs",
            format!("takes a mapping, not {}", node.kind()),
        );
        return dataset;
    };
    let mut inner = Keys::new(map, &node.place, "dataset_kwargs", keys.refusals());
    let keys = &mut inner;
    for key in FETCHING {
        keys.ignore(key);
    }
    match keys.take("data_files") {
        Some(files) if is_format => dataset.data_files = data_files(keys, files),
        Some(_) => notices.push("dataset_kwargs.data_files picks files of a dataset on the hub; map them".to_owned()),
        None if is_format => keys.refuse(
            "data_files",
            format!("is missing: dataset_path {} needs it", dataset.path),
        ),
        None => {}
    }
    dataset.data_dir = keys.text("data_dir");
    if let Some(names) = keys.take("column_names") {
        match names.json() {
            Ok(Json::Array(names)) => {
                dataset.column_names = names.into_iter().map(|name| name.as_str().map(str::to_owned)).collect();
            }
            _ => keys.refuse_at(&names.place, "column_names", "takes a list of names"),
        }
    }
    let has_no_header = keys.look("header").is_some_and(Node::is_null);
    if keys.take("header").is_some() && !(has_no_header && dataset.column_names.is_some()) {
        keys.refuse("header", "is only understood as null beside column_names");
    }
    inner.finish();
    dataset
}

fn data_files(keys: &mut Keys<'_>, node: &Node) -> Vec<(String, Vec<String>)> {
    let list = |json: Json| match json {
        Json::String(file) => Some(vec![file]),
        Json::Array(files) => files.into_iter().map(|file| file.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    let files = match node.json() {
        Ok(Json::Object(splits)) => {
            let splits = splits.into_iter().map(|(split, files)| Some((split, list(files)?)));
            splits.collect::<Option<Vec<_>>>()
        }
        // Files without a split are all of a split that is called train.
        Ok(other) => list(other).map(|files| vec![("train".to_owned(), files)]),
        Err(_) => None,
    };
    files.unwrap_or_else(|| {
        let reason =
            function_reason(node).unwrap_or_else(|| "takes a path, a list of paths, or these by split".to_owned());
        keys.refuse_at(&node.place, "data_files", reason);
        Vec::new()
    })
}
