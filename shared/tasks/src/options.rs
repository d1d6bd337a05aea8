//! What a benchmark says beside its prompt and grader: settings that it shares, the system's turn, reasoning and metrics.

use tidemill_domain::{Aggregation, GraderSpec, Metric, MetricSource, Reasoning};
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use crate::decode;
use crate::error::Problems;
use crate::fields::{Fields, Located, line_of, nearest};
use crate::template;

/// Reads `[defaults]`, and reports what is wrong in it whether or not a benchmark uses it.
pub(crate) fn defaults<'a, 'i>(text: &'a str, suite: &mut Fields<'a, 'i>) -> Option<&'a DeTable<'i>> {
    let value = suite.raw("defaults")?;
    let line = suite.line(value);
    let Some(table) = value.get_ref().as_table() else {
        suite.error("defaults", line, "must be a table, written [defaults]");
        return None;
    };
    // What is odd about settings shows in the benchmarks that have them.
    let mut problems = Problems::default();
    let place = suite.place().line(line);
    let mut fields = Fields::new(text, table, place, "defaults.", &mut problems);
    fields.optional("system", |system: &String| template::check(system));
    reasoning(&mut fields);
    decode::settings(&mut fields, None);
    let penalties = decode::penalties(&mut fields);
    decode::continuation(&mut fields, &penalties);
    fields.finish(|name| {
        let is_of_benchmarks = [
            "prompt", "messages", "data", "target", "grader", "metrics", "few_shot", "limit",
        ];
        is_of_benchmarks
            .contains(&name)
            .then(|| "is not shared: each benchmark gives its own".to_owned())
    });
    suite.problems().take_errors(problems);
    Some(table)
}

/// Warns of a system's turn in `[defaults]` that no benchmark has a chat for.
pub(crate) fn warn_of_unused_system(
    text: &str,
    defaults: Option<&DeTable<'_>>,
    benchmarks: Option<&Spanned<DeValue<'_>>>,
    suite: &mut Fields<'_, '_>,
) {
    let Some(system) = defaults.and_then(|defaults| defaults.get("system")) else {
        return;
    };
    let mut tables = benchmarks
        .and_then(|value| value.get_ref().as_array())
        .into_iter()
        .flatten()
        .filter_map(|table| table.get_ref().as_table());
    if tables.all(|table| table.get("messages").is_none()) {
        let place = suite.place().line(line_of(text, system.span().start));
        let message = "has no effect: no benchmark has messages; write it into their prompts instead";
        suite.problems().warn(place.field("defaults.system"), message);
    }
}

/// Warns of what `[defaults]` holds and benchmarks by a task file do not take: the file says it.
pub(crate) fn warn_of_defaults_beside_tasks(
    text: &str,
    defaults: Option<&DeTable<'_>>,
    benchmarks: Option<&Spanned<DeValue<'_>>>,
    suite: &mut Fields<'_, '_>,
) {
    let tables = benchmarks.and_then(|value| value.get_ref().as_array());
    let tables = tables
        .into_iter()
        .flatten()
        .filter_map(|table| table.get_ref().as_table());
    let tasks: Vec<bool> = tables.map(|table| table.contains_key("task")).collect();
    if !tasks.contains(&true) {
        return;
    }
    let on = if tasks.contains(&false) {
        "on the benchmarks that have a task, whose file says it"
    } else {
        "here: each benchmark has a task, whose file says it"
    };
    // That of the system's turn is said already where it has no effect at all.
    let keys = defaults.into_iter().flat_map(|defaults| defaults.iter());
    for (key, value) in keys.filter(|(key, _)| *key.get_ref() != "system") {
        let place = suite.place().line(line_of(text, value.span().start));
        let place = place.field(format!("defaults.{}", key.get_ref()));
        suite.problems().warn(place, format!("has no effect {on}"));
    }
}

/// The system's turn of a chat; that of `[defaults]` is of no effect where there is no chat, or one with its own.
pub(crate) fn system(fields: &mut Fields<'_, '_>) -> Option<Located<String>> {
    let is_own = fields.gives("system");
    let is_chat = fields.raw("messages").is_some();
    if is_own && !is_chat {
        let line = fields.line_of_field("system");
        let message = "needs messages: a completions endpoint takes one text; write it into prompt instead";
        fields.error("system", line, message);
    }
    let has_message = fields
        .raw("messages")
        .and_then(|value| value.get_ref().as_array())
        .is_some_and(|turns| {
            let role = |turn: &Spanned<DeValue<'_>>| {
                turn.get_ref()
                    .as_table()?
                    .get("role")?
                    .get_ref()
                    .as_str()
                    .map(str::to_owned)
            };
            turns.iter().any(|turn| role(turn).is_some_and(|role| role == "system"))
        });
    if has_message && is_own {
        let line = fields.line_of_field("system");
        fields.error(
            "system",
            line,
            "cannot stand beside a system message in messages: give one of them",
        );
    }
    let system = fields.optional("system", |system: &String| {
        if system.is_empty() {
            return Err("must not be empty".to_owned());
        }
        template::check(system)
    })?;
    (is_chat && !has_message).then_some(system)
}

/// How reasoning is told from the answer.
pub(crate) fn reasoning(fields: &mut Fields<'_, '_>) -> Reasoning {
    optional_reasoning(fields).unwrap_or_default()
}

/// The same, where it is said.
pub(crate) fn optional_reasoning(fields: &mut Fields<'_, '_>) -> Option<Reasoning> {
    let value = fields.optional("reasoning", |value: &Value| read_reasoning(value).map(|_| ()))?;
    read_reasoning(&value.value).ok()
}

fn read_reasoning(value: &Value) -> Result<Reasoning, String> {
    const FORMS: &str = "must be \"think\", \"none\" or { open = \"...\", close = \"...\" }";
    match value {
        Value::String(name) => match name.as_str() {
            "think" => Ok(Reasoning::Think),
            "none" => Ok(Reasoning::None),
            name => Err(format!("{FORMS}, not {name:?}")),
        },
        Value::Table(table) => {
            if let Some(unknown) = table.keys().find(|key| !["open", "close"].contains(&key.as_str())) {
                return Err(format!("{FORMS}; it has no {unknown:?}"));
            }
            let mark = |key: &str| match table.get(key).and_then(Value::as_str) {
                Some(mark) if !mark.is_empty() => Ok(mark.to_owned()),
                Some(_) => Err(format!("{FORMS}; {key} is empty")),
                None => Err(format!("{FORMS}; {key} is missing or no text")),
            };
            let (open, close) = (mark("open")?, mark("close")?);
            if open == close {
                return Err("has the same mark for open and close, which cannot be told apart".to_owned());
            }
            Ok(Reasoning::Marks { open, close })
        }
        _ => Err(FORMS.to_owned()),
    }
}

/// What is measured beside the score: what the grader measures anyway, and what the benchmark asks for.
pub(crate) fn metrics(fields: &mut Fields<'_, '_>, samples: u32, grader: Option<&GraderSpec>) -> Vec<Metric> {
    let own = grader.map(GraderSpec::metrics).unwrap_or_default();
    let beside = Beside {
        own: &own,
        // What is wrong with a grader of no kind is said already.
        takes_names: grader.is_none_or(measures_by_name),
    };
    let names = fields.optional("metrics", |names: &Vec<String>| {
        read_metrics(names, samples, beside).map(|_| ())
    });
    let names = names.map(|names| names.value).unwrap_or_default();
    read_metrics(&names, samples, beside).unwrap_or_default()
}

/// What a grader measures beside the score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beside<'a> {
    /// Anyway.
    pub(crate) own: &'a [Metric],
    /// Whatever has a name, and is measured if it says so.
    pub(crate) takes_names: bool,
}

/// Whether a grader measures what it likes, of which a benchmark names what it wants.
pub(crate) const fn measures_by_name(grader: &GraderSpec) -> bool {
    matches!(grader, GraderSpec::Command { .. })
}

/// Metrics by their names after those that a grader has anyway, for items with so many samples.
pub(crate) fn read_metrics(names: &[String], samples: u32, beside: Beside<'_>) -> Result<Vec<Metric>, String> {
    let mut metrics = beside.own.to_vec();
    for (name, number) in names.iter().zip(0..) {
        if names[..number].contains(name) {
            return Err(format!("names {name} twice"));
        }
        if beside.own.iter().all(|known| known.name != *name) {
            metrics.push(Metric {
                name: name.clone(),
                source: read_metric(name, samples, beside.takes_names)?,
                aggregation: Aggregation::Mean,
                higher_is_better: true,
            });
        }
    }
    Ok(metrics)
}

fn read_metric(name: &str, samples: u32, takes_names: bool) -> Result<MetricSource, String> {
    const FORMS: &str = "metrics are pass@K and maj@K, for instance pass@1 and maj@8";
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let Some((kind, count)) = name.split_once('@') else {
        if takes_names && !name.is_empty() && name.chars().all(is_plain) {
            return Ok(MetricSource::Measure);
        }
        let named = match takes_names {
            true => ", and what the grader's program measures by a name of letters, digits, -, _ and .",
            false => "; other names are what a grader of kind command measures",
        };
        return Err(format!("{name:?} is no metric; {FORMS}{named}"));
    };
    let count = match count.parse::<u32>() {
        Ok(parsed) if parsed > 0 && parsed.to_string() == count => parsed,
        _ => {
            return Err(format!(
                "{name:?} is no metric, because {count:?} is no count of samples; {FORMS}"
            ));
        }
    };
    if count > samples {
        let few = if samples == 1 {
            "1 sample".to_owned()
        } else {
            format!("{samples} samples")
        };
        return Err(format!(
            "{name} needs {count} samples of each item, but there is {few}: set samples = {count} or more"
        ));
    }
    match kind {
        "pass" => Ok(MetricSource::PassAt(count)),
        "maj" => Ok(MetricSource::MajorityAt(count)),
        kind => {
            let nearest = nearest(kind, &["pass", "maj"]).unwrap_or_default();
            Err(format!(
                "{name:?} is no metric; did you mean {nearest}@{count}? {FORMS}"
            ))
        }
    }
}
