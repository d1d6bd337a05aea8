//! Reads the suite file: fields, their rules and their lines. Data files are only located here.

use std::collections::HashMap;
use std::path::Path;

use tidemill_domain::{
    BenchmarkName, Continuation, GraderSpec, Metric, Penalties, Reasoning, Settings, SuiteName, SuiteRef, Tier,
};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::data::DataFile;
use crate::error::{BenchmarkLabel, Place, Problems};
use crate::fields::{Fields, Located, any, line_of};
use crate::grader_spec::{self, GraderEntry, Material};
use crate::groups::{self, GroupEntry};
use crate::shots_spec::{self, ShotsEntry};
use crate::suite::{MAX_FAILURE_RATE, MAX_TOKENS, REPETITION_PENALTY, SAMPLES, TOP_P};
use crate::task::{self, TaskEntry};
use crate::{options, template};

/// A suite file that was read. What could not be is missing here and was reported.
pub(crate) struct Decoded {
    pub(crate) suite: Option<SuiteRef>,
    pub(crate) max_failure_rate: f64,
    pub(crate) benchmarks: Vec<BenchmarkEntry>,
    pub(crate) groups: Vec<GroupEntry>,
    /// The names of all benchmarks as written, also of those that could not be read.
    pub(crate) names: Vec<String>,
    /// Benchmarks that task files describe.
    pub(crate) tasks: Vec<TaskEntry>,
}

/// A benchmark that is complete enough to be rendered.
pub(crate) struct BenchmarkEntry {
    pub(crate) place: Place,
    pub(crate) name: BenchmarkName,
    pub(crate) data: Located<DataFile>,
    pub(crate) id: Option<Located<String>>,
    pub(crate) system: Option<Located<String>>,
    pub(crate) prompt: Located<PromptSource>,
    pub(crate) target: Located<String>,
    pub(crate) choices: Option<Located<String>>,
    pub(crate) shots: Option<ShotsEntry>,
    pub(crate) cluster: Option<Located<String>>,
    pub(crate) subset: Option<Located<String>>,
    pub(crate) weight: Option<Located<String>>,
    pub(crate) filter: Option<Located<String>>,
    pub(crate) limit: Option<u64>,
    pub(crate) settings: Settings,
    pub(crate) penalties: Penalties,
    pub(crate) continuation: Continuation,
    /// Of the settings' samples.
    pub(crate) spare_samples: u32,
    pub(crate) reasoning: Reasoning,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) grader: GraderSpec,
    pub(crate) material: Vec<Material>,
    /// A row whose target is empty has no answer.
    pub(crate) unanswerable: bool,
}

/// The templates of a prompt.
pub(crate) enum PromptSource {
    Text(String),
    Chat(Vec<MessageSource>),
}

/// The template of one turn.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageSource {
    pub(crate) role: String,
    pub(crate) content: String,
}

/// Reads a suite file's text.
pub(crate) fn decode(file: &Path, text: &str, problems: &mut Problems) -> Decoded {
    let place = Place::of(file);
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return suite(text, table.get_ref(), &place, problems);
    }
    for error in errors {
        let line = error.span().map(|span| line_of(text, span.start));
        let place = line.map_or_else(|| place.clone(), |line| place.line(line));
        problems.error(place, format!("is not TOML: {}", error.message()));
    }
    Decoded {
        suite: None,
        max_failure_rate: MAX_FAILURE_RATE,
        benchmarks: Vec::new(),
        groups: Vec::new(),
        names: Vec::new(),
        tasks: Vec::new(),
    }
}

fn suite(text: &str, table: &DeTable<'_>, place: &Place, problems: &mut Problems) -> Decoded {
    let mut fields = Fields::new(text, table, place.line(1), "", problems);
    let name = fields.required::<String>("name", |name| valid(SuiteName::try_new(name.as_str())));
    let version = fields.required::<String>("version", |version| version_rule(version));
    let tier = fields.or_default("tier", Tier::default(), any);
    let max_failure_rate = fields.or_default("max_failure_rate", MAX_FAILURE_RATE, share);
    let defaults = options::defaults(text, &mut fields);
    let tables = fields.raw("benchmark");
    let names = names(tables);
    let (benchmarks, tasks) = match tables.map(|value| (value, value.get_ref().as_array())) {
        Some((_, Some(array))) if !array.is_empty() => decode_benchmarks(text, array.iter(), defaults, &mut fields),
        Some((value, Some(_))) => {
            let line = fields.line(value);
            fields.error("benchmark", line, "is empty: a suite needs at least one [[benchmark]]");
            Default::default()
        }
        Some((value, None)) => {
            let line = fields.line(value);
            fields.error("benchmark", line, "must be an array of tables, written [[benchmark]]");
            Default::default()
        }
        None => {
            fields
                .problems()
                .error(place.clone(), "has no [[benchmark]]; a suite needs at least one");
            Default::default()
        }
    };
    options::warn_of_unused_system(text, defaults, tables, &mut fields);
    options::warn_of_defaults_beside_tasks(text, defaults, tables, &mut fields);
    let groups = groups::decode(text, &mut fields);
    fields.finish(|_| None);
    let suite = (|| {
        Some(SuiteRef {
            name: SuiteName::try_new(name?.value).ok()?,
            version: version?.value,
            tier,
        })
    })();
    Decoded {
        suite,
        max_failure_rate,
        benchmarks,
        groups,
        names,
        tasks,
    }
}

/// The names of benchmarks as they are written.
fn names(tables: Option<&Spanned<DeValue<'_>>>) -> Vec<String> {
    let tables = tables
        .and_then(|value| value.get_ref().as_array())
        .into_iter()
        .flatten();
    let name = |table: &Spanned<DeValue<'_>>| {
        let name = table.get_ref().as_table()?.get("name")?;
        name.get_ref().as_str().map(str::to_owned)
    };
    tables.filter_map(name).collect()
}

fn decode_benchmarks<'a, 'i: 'a>(
    text: &str,
    tables: impl Iterator<Item = &'a Spanned<DeValue<'i>>>,
    defaults: Option<&'a DeTable<'i>>,
    suite: &mut Fields<'_, 'i>,
) -> (Vec<BenchmarkEntry>, Vec<TaskEntry>) {
    let mut names = HashMap::new();
    let (mut entries, mut tasks) = (Vec::new(), Vec::new());
    for (value, number) in tables.zip(1..) {
        let line = suite.line(value);
        let Some(table) = value.get_ref().as_table() else {
            suite.error("benchmark", line, format!("entry {number} is not a table"));
            continue;
        };
        let name = table.get("name").and_then(|name| name.get_ref().as_str());
        let label = name.map_or(BenchmarkLabel::Number(number), |name| {
            BenchmarkLabel::Name(name.to_owned())
        });
        let place = Place::of(&suite.place().file).line(line).benchmark(label);
        let mut fields = Fields::new(text, table, place, "", suite.problems()).or_from(defaults);
        if let Some(name) = name {
            let here = fields.line_of_field("name");
            if let Some(earlier) = names.insert(name.to_owned(), here) {
                fields.error(
                    "name",
                    here,
                    format!("is that of the benchmark in line {earlier} already"),
                );
            }
        }
        if table.contains_key("task") {
            tasks.extend(task::decode(fields));
        } else {
            entries.extend(benchmark(text, fields));
        }
    }
    (entries, tasks)
}

fn benchmark(text: &str, mut fields: Fields<'_, '_>) -> Option<BenchmarkEntry> {
    let base = fields.place().file.parent().unwrap_or(Path::new("")).to_owned();
    let name = fields.required::<String>("name", |name| valid(BenchmarkName::try_new(name.as_str())));
    let data = fields.required::<String>("data", |data| DataFile::locate(data, &base).map(|_| ()));
    let id = fields.optional::<String>("id", |name| column(name));
    let prompt = prompt(&mut fields);
    let system = options::system(&mut fields);
    let target = fields.required("target", |target: &String| template::check(target));
    let choices = fields.optional("choices", |choices: &String| template::check_expression(choices));
    let shots = shots_spec::decode(&mut fields, &base);
    let cluster = fields.optional::<String>("cluster", |name| column(name));
    let subset = fields.optional::<String>("subset", |name| column(name));
    let weight = fields.optional::<String>("weight", |name| column(name));
    let filter = fields.optional("filter", |filter: &String| template::check_filter(filter));
    let limit = fields.optional("limit", |limit: &u64| at_least_one(*limit));
    let entry = grader(text, &mut fields);
    let unanswerable = entry.as_ref().is_some_and(|entry| entry.unanswerable);
    let (grader, material) = entry.map_or((None, Vec::new()), |entry| (Some(entry.spec), entry.material));
    let (settings, spare_samples) = settings(&mut fields, grader.as_ref());
    let penalties = penalties(&mut fields);
    let continuation = continuation(&mut fields, &penalties);
    let reasoning = options::reasoning(&mut fields);
    let metrics = options::metrics(&mut fields, settings.samples, grader.as_ref());
    if let Some(grader) = &grader {
        choices_rule(&mut fields, grader);
        likelihood_rule(&mut fields, grader);
    }
    let place = fields.place().clone();
    fields.finish(|_| None);
    let lacks_choices = choices.is_none() && matches!(grader, Some(GraderSpec::Likelihood { .. }));
    if lacks_choices {
        return None;
    }
    let data = data?;
    let file = DataFile::locate(&data.value, &base).ok()?;
    Some(BenchmarkEntry {
        place,
        name: BenchmarkName::try_new(name?.value).ok()?,
        data: data.map(|_| file),
        id,
        system,
        prompt: prompt?,
        target: target?,
        choices,
        shots,
        cluster,
        subset,
        weight,
        filter,
        limit: limit.map(|limit| limit.value),
        settings,
        penalties,
        continuation,
        spare_samples,
        reasoning,
        metrics,
        grader: grader?,
        material,
        unanswerable,
    })
}

fn prompt(fields: &mut Fields<'_, '_>) -> Option<Located<PromptSource>> {
    let text = fields.optional("prompt", |prompt: &String| template::check(prompt));
    let chat = fields.optional("messages", |messages: &Vec<MessageSource>| messages_rule(messages));
    match (fields.raw("prompt").is_some(), fields.raw("messages").is_some()) {
        (true, true) => {
            let line = fields.line_of_field("messages");
            fields.error("messages", line, "cannot stand beside prompt: give one of them");
            None
        }
        (false, false) => {
            let place = fields.place().clone();
            fields.problems().error(place, "needs either prompt or messages");
            None
        }
        _ => text
            .map(|text| text.map(PromptSource::Text))
            .or(chat.map(|chat| chat.map(PromptSource::Chat))),
    }
}

fn messages_rule(messages: &[MessageSource]) -> Result<(), String> {
    turns_rule(messages, "user", "the user's")
}

/// What turns must be: known roles, the system's first, templates in order, and the last one's role.
pub(crate) fn turns_rule(messages: &[MessageSource], last_role: &str, whose: &str) -> Result<(), String> {
    let mut turns_began = false;
    for (message, number) in messages.iter().zip(1..) {
        match message.role.as_str() {
            "system" if turns_began => {
                return Err(format!("message {number}: system must come before all other messages"));
            }
            "system" => {}
            "user" | "assistant" => turns_began = true,
            role => {
                return Err(format!(
                    "message {number}: role {role:?} is none of system, user, assistant"
                ));
            }
        }
        template::check(&message.content).map_err(|error| format!("message {number}: {error}"))?;
    }
    match messages.last() {
        Some(last) if last.role == last_role => Ok(()),
        Some(last) => Err(format!(
            "the last message must be {whose}, but its role is {}",
            last.role
        )),
        None => Err("is empty".to_owned()),
    }
}

fn grader(text: &str, fields: &mut Fields<'_, '_>) -> Option<GraderEntry> {
    let Some(value) = fields.raw("grader") else {
        fields.missing("grader");
        return None;
    };
    let line = fields.line(value);
    let Some(table) = value.get_ref().as_table() else {
        fields.error("grader", line, "must be a table, written [benchmark.grader]");
        return None;
    };
    let place = fields.place().line(line);
    grader_spec::decode(Fields::new(text, table, place, "grader.", fields.problems()))
}

/// The settings, and how many of their samples are spare ones.
pub(crate) fn settings(fields: &mut Fields<'_, '_>, grader: Option<&GraderSpec>) -> (Settings, u32) {
    let is_likelihood = matches!(grader, Some(GraderSpec::Likelihood { .. }));
    let mut settings = Settings {
        max_tokens: fields.or_default("max_tokens", MAX_TOKENS, |tokens| {
            if is_likelihood {
                Ok(())
            } else {
                at_least_one(u64::from(*tokens))
            }
        }),
        temperature: fields.or_default("temperature", 0.0, temperature),
        top_p: fields.or_default("top_p", TOP_P, top_p),
        stop: fields.or_default("stop", Vec::new(), |stop: &Vec<String>| {
            if stop.iter().any(String::is_empty) {
                Err("holds an empty text".to_owned())
            } else {
                Ok(())
            }
        }),
        seed: fields.or_default("seed", 0, any),
        samples: fields.or_default("samples", SAMPLES, |samples| at_least_one(u64::from(*samples))),
    };
    let samples = settings.samples;
    let spare_samples = fields.or_default("spare_samples", 0, |spare: &u32| match samples.checked_add(*spare) {
        Some(_) => Ok(()),
        None => Err(format!(
            "is {spare}: with samples = {samples} that makes {} for each item, which is more than {}",
            u64::from(samples) + u64::from(*spare),
            u32::MAX
        )),
    });
    settings.samples = samples.saturating_add(spare_samples);
    if settings.samples > 1 && (is_likelihood || settings.temperature == 0.0) {
        let reason = if is_likelihood {
            "nothing is drawn by grader kind likelihood"
        } else {
            "temperature is 0"
        };
        let field = if samples > 1 { "samples" } else { "spare_samples" };
        let line = fields.line_of_field(field);
        let message = format!(
            "all {} samples of an item will be alike, because {reason}",
            settings.samples
        );
        fields.warn(field, line, message);
    }
    (settings, spare_samples)
}

pub(crate) fn penalties(fields: &mut Fields<'_, '_>) -> Penalties {
    Penalties {
        frequency: fields.or_default("frequency_penalty", 0.0, penalty),
        presence: fields.or_default("presence_penalty", 0.0, penalty),
        repetition: fields.or_default("repetition_penalty", REPETITION_PENALTY, repetition_penalty),
    }
}

pub(crate) fn continuation(fields: &mut Fields<'_, '_>, penalties: &Penalties) -> Continuation {
    let given = fields.optional::<Continuation>("continuation", any);
    let inexact = if penalties.presence != 0.0 {
        Some("a presence_penalty")
    } else if penalties.frequency != 0.0 && penalties.repetition != REPETITION_PENALTY {
        Some("both a frequency_penalty and a repetition_penalty")
    } else {
        None
    };
    if let Some(exact) = given.as_ref().filter(|given| given.value == Continuation::Exact)
        && let Some(inexact) = inexact
    {
        let message =
            format!("has no effect: an answer with {inexact} cannot be continued exactly, so it is asked for anew");
        fields.warn("continuation", exact.line, message);
    }
    given.map_or_else(Continuation::default, |given| given.value)
}

fn choices_rule(fields: &mut Fields<'_, '_>, grader: &GraderSpec) {
    let given = fields.raw("choices").is_some();
    let line = fields.line_of_field("choices");
    match grader {
        GraderSpec::Likelihood { .. } if !given => fields.missing("choices"),
        GraderSpec::Likelihood { .. } | GraderSpec::Choice { .. } => {}
        other if given => {
            fields.error("choices", line, format!("is not used by grader kind {}", other.kind()));
        }
        _ => {}
    }
}

fn likelihood_rule(fields: &mut Fields<'_, '_>, grader: &GraderSpec) {
    if matches!(grader, GraderSpec::Likelihood { .. }) && fields.raw("messages").is_some() {
        let line = fields.line_of_field("messages");
        let message =
            "cannot be used by grader kind likelihood, because chat endpoints do not score given texts; use prompt";
        fields.error("messages", line, message);
    }
}

fn valid<T, E: ToString>(result: Result<T, E>) -> Result<(), String> {
    result.map(|_| ()).map_err(|error| error.to_string())
}

fn version_rule(version: &str) -> Result<(), String> {
    if version.is_empty() || version.chars().any(char::is_control) {
        return Err("must be a text without control characters, such as \"1\"".to_owned());
    }
    Ok(())
}

fn share(share: &f64) -> Result<(), String> {
    if (0.0..=1.0).contains(share) {
        Ok(())
    } else {
        Err(format!("must be from 0 to 1, but is {share}"))
    }
}

fn temperature(temperature: &f64) -> Result<(), String> {
    if temperature.is_finite() && *temperature >= 0.0 {
        return Ok(());
    }
    Err(format!("must be 0 or more, but is {temperature}"))
}

fn top_p(top_p: &f64) -> Result<(), String> {
    if *top_p > 0.0 && *top_p <= 1.0 {
        return Ok(());
    }
    Err(format!("must be above 0 and at most 1, but is {top_p}"))
}

fn penalty(penalty: &f64) -> Result<(), String> {
    if (-2.0..=2.0).contains(penalty) {
        return Ok(());
    }
    Err(format!("must be from -2 to 2, but is {penalty}"))
}

fn repetition_penalty(penalty: &f64) -> Result<(), String> {
    if *penalty > 0.0 && *penalty <= 2.0 {
        return Ok(());
    }
    Err(format!(
        "must be above 0 and at most 2 (1 changes nothing), but is {penalty}"
    ))
}

fn at_least_one(number: u64) -> Result<(), String> {
    if number == 0 {
        Err("must be at least 1, but is 0".to_owned())
    } else {
        Ok(())
    }
}

fn column(name: &str) -> Result<(), String> {
    if name.contains("{{") {
        return Err("must be the name of a column, not a template".to_owned());
    }
    if name.is_empty() {
        Err("must not be empty".to_owned())
    } else {
        Ok(())
    }
}
