//! What stands in for a manifest's graders, reasoning and metrics: the file that a regrade takes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use minijinja::Value;
use tidemill_domain::{
    Benchmark, CodeLanguage, GraderSpec, Item, JUDGE_PROMPT, JUDGE_REFERENCE, JsonCheck, JudgeSpec, Manifest, Metric,
    Reasoning, Words,
};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{BenchmarkLabel, Place, Problems, SuiteErrors};
use crate::fields::{Fields, Located, any, line_of, nearest};
use crate::options::Beside;
use crate::template::{Template, environment};
use crate::{grader_spec, judge_spec, load, options};

/// What a file says of how stored completions are graded.
///
/// `[grader]`, `reasoning` and `metrics` stand for every benchmark's; those of a `[[benchmark]]` with `name` for one benchmark's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overrides {
    all: Change,
    each: Vec<Named>,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Change {
    grader: Option<Replacement>,
    reasoning: Option<Reasoning>,
    metrics: Option<(Place, Vec<String>)>,
}

/// A grader in place of another one.
#[derive(Debug, Clone, PartialEq)]
struct Replacement {
    place: Place,
    spec: GraderSpec,
    /// What its judge is asked, where the file says so; else what the suite asked.
    asked: Vec<Asked>,
}

/// A text that a judge is shown.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    /// Its name among an item's material.
    name: String,
    field: &'static str,
    template: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Named {
    place: Place,
    name: String,
    change: Change,
}

impl Overrides {
    /// Reads a file.
    ///
    /// # Errors
    /// [`SuiteErrors`] with everything that is wrong, each with its line and key.
    pub fn read(path: &Path) -> Result<Self, SuiteErrors> {
        let mut problems = Problems::default();
        let read = load::read(path, &mut problems).and_then(|text| decode(path, &text, &mut problems));
        problems.settle(read).map(|(read, _)| read)
    }

    /// The file as it was read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The manifest as if its suite had said so: the same items, graded in another way.
    ///
    /// # Errors
    /// [`SuiteErrors`]: a benchmark that is not there, a grader for answers of another kind than there are, a metric over more
    /// samples than there are, or one that a group needs and that is gone.
    pub fn apply(&self, manifest: &Manifest) -> Result<Manifest, SuiteErrors> {
        let mut problems = Problems::default();
        let mut changed = manifest.clone();
        let names: Vec<&str> = manifest
            .benchmarks
            .iter()
            .map(|benchmark| benchmark.name.as_str())
            .collect();
        for named in self.each.iter().filter(|named| !names.contains(&named.name.as_str())) {
            let nearest = nearest(&named.name, &names).unwrap_or_default();
            let message = format!("no benchmark of the evaluation has this name; did you mean {nearest:?}?");
            problems.error(named.place.field("name"), message);
        }
        if let Some(Replacement { place, spec, .. }) = &self.all.grader
            && !manifest
                .benchmarks
                .iter()
                .any(|benchmark| spec.is_likelihood() == benchmark.is_likelihood())
        {
            let message = match spec.is_likelihood() {
                true => {
                    "likelihood compares choices' probabilities, and every benchmark of the evaluation has generated answers"
                }
                false => "nothing was generated in any benchmark of the evaluation: only likelihood can grade them",
            };
            problems.error(place.field("grader.kind"), message);
        }
        for benchmark in &mut changed.benchmarks {
            self.change(benchmark, &mut problems);
        }
        self.check_groups(&changed, &mut problems);
        problems.settle(Some(changed)).map(|(changed, _)| changed)
    }

    fn change(&self, benchmark: &mut Benchmark, problems: &mut Problems) {
        let named = self.each.iter().find(|named| named.name == benchmark.name.as_str());
        let own = named.map(|named| &named.change);
        let is_likelihood = benchmark.is_likelihood();
        let replacement = self.replacement(benchmark);
        if let Some(Replacement { place, spec, .. }) = replacement
            && spec.is_likelihood() != is_likelihood
        {
            let message = match is_likelihood {
                true => "nothing was generated in this benchmark: only likelihood can grade it",
                false => "likelihood compares choices' probabilities, and this benchmark has generated answers",
            };
            problems.error(place.field("grader.kind"), message);
        }
        if let Some(replacement) = replacement {
            if let Some(message) = replacement.cannot_be_asked(&benchmark.grader) {
                let place = replacement.place.field("grader.prompt");
                let place = place.benchmark(BenchmarkLabel::Name(benchmark.name.to_string()));
                problems.error(place, message);
            }
            benchmark.grader = replacement.spec.clone();
        }
        let of_all = Some(&self.all);
        let reasoning = [own, of_all]
            .into_iter()
            .flatten()
            .find_map(|change| change.reasoning.clone());
        benchmark.reasoning = reasoning.unwrap_or_else(|| benchmark.reasoning.clone());
        let metrics = [own, of_all]
            .into_iter()
            .flatten()
            .find_map(|change| change.metrics.as_ref());
        if replacement.is_none() && metrics.is_none() {
            return;
        }
        let kept = benchmark.metrics.iter().filter(|metric| !metric.source.is_measure());
        let kept: Vec<String> = kept.map(|metric| metric.name.clone()).collect();
        let names = metrics.map_or(&kept, |(_, names)| names);
        let own = own_metrics(benchmark);
        let beside = Beside {
            own: &own,
            takes_names: options::measures_by_name(&benchmark.grader),
        };
        match (
            options::read_metrics(names, benchmark.settings.samples, beside),
            metrics,
        ) {
            (Ok(metrics), _) => benchmark.metrics = metrics,
            (Err(message), Some((place, _))) => {
                let place = place.benchmark(BenchmarkLabel::Name(benchmark.name.to_string()));
                problems.error(place, message);
            }
            // What a suite asked for has the samples that it needs.
            (Err(_), None) => {}
        }
    }

    /// The grader that the file has for a benchmark: its own, else the one for all that it can grade.
    fn replacement(&self, benchmark: &Benchmark) -> Option<&Replacement> {
        let named = self.each.iter().find(|named| named.name == benchmark.name.as_str());
        let of_all = self.all.grader.as_ref();
        let fits = |grader: &&Replacement| grader.spec.is_likelihood() == benchmark.is_likelihood();
        named
            .and_then(|named| named.change.grader.as_ref())
            .or_else(|| of_all.filter(fits))
    }

    /// Whether the file's judge of a benchmark is asked what the file says.
    #[must_use]
    pub fn asks_anew(&self, benchmark: &Benchmark) -> bool {
        self.replacement(benchmark)
            .is_some_and(|grader| !grader.asked.is_empty())
    }

    /// A stored item of a benchmark as it is graded again: with what the file's judge is asked, where the file says so.
    ///
    /// # Errors
    /// What a template lacks of the item.
    pub fn item<'i>(&self, benchmark: &Benchmark, item: &'i Item) -> Result<Cow<'i, Item>, String> {
        match self.replacement(benchmark) {
            Some(Replacement {
                spec: GraderSpec::Judge(spec),
                asked,
                ..
            }) if !asked.is_empty() => judged_anew(spec, asked, item).map(Cow::Owned),
            _ => Ok(Cow::Borrowed(item)),
        }
    }

    fn check_groups(&self, changed: &Manifest, problems: &mut Problems) {
        let places = self.each.iter().map(|named| &named.change).chain([&self.all]);
        let Some((place, _)) = places.filter_map(|change| change.metrics.as_ref()).next() else {
            return;
        };
        for group in &changed.groups {
            let Some(metric) = &group.metric else { continue };
            let members = group
                .members
                .iter()
                .filter_map(|member| changed.benchmarks.get(member.benchmark as usize));
            let has = |benchmark: &&Benchmark| benchmark.metrics.iter().any(|known: &Metric| known.name == *metric);
            for benchmark in members.filter(|benchmark| !has(benchmark)) {
                let place = place.benchmark(BenchmarkLabel::Name(benchmark.name.to_string()));
                let message = format!("group {:?} is a mean of {metric}: name it too", group.name);
                problems.error(place, message);
            }
        }
    }
}

impl Replacement {
    /// Why a judge that is asked what the suite asked would not be understood.
    fn cannot_be_asked(&self, before: &GraderSpec) -> Option<String> {
        let (GraderSpec::Judge(old), GraderSpec::Judge(new), []) = (before, &self.spec, self.asked.as_slice()) else {
            return None;
        };
        let differs = old.wanted() != new.wanted() || old.is_pair != new.is_pair;
        let kind = |spec: &JudgeSpec| if spec.is_pair { "of two answers " } else { "" };
        differs.then(|| {
            format!(
                "is missing: the stored prompts ask {}for {}, and this judge is to end {}with {}",
                kind(old),
                old.wanted(),
                kind(new),
                new.wanted()
            )
        })
    }
}

/// What a benchmark's grader measures anyway; of a task of the harness no file can name its like, so it has what it had.
fn own_metrics(benchmark: &Benchmark) -> Vec<Metric> {
    match &benchmark.grader {
        GraderSpec::Pipelines { .. } => {
            let measured = benchmark.metrics.iter().filter(|metric| metric.source.is_measure());
            measured.cloned().collect()
        }
        grader => grader.metrics(),
    }
}

/// An item with what another judge is asked of it.
fn judged_anew(spec: &JudgeSpec, asked: &[Asked], item: &Item) -> Result<Item, String> {
    let is_of_judge = |name: &str| judge_spec::MATERIAL.contains(&name);
    let given = item.material.iter().filter(|(name, _)| !is_of_judge(name));
    let given = given.map(|(name, text)| (name.clone(), Value::from(text.clone())));
    let own = [
        ("id".to_owned(), Value::from(item.id.clone())),
        ("choices".to_owned(), Value::from(item.choices.clone())),
    ];
    let row = Value::from(given.chain(own).collect::<BTreeMap<String, Value>>());
    let context = judge_spec::context(spec, &row, &item.prompt, &item.targets);
    let environment = environment();
    let rendered = asked.iter().map(|asked| {
        let template = Template::text(&environment, &asked.template);
        let text = template.and_then(|template| template.render(&context));
        let text = text.and_then(|text| judge_spec::checked(spec, &asked.name, text));
        let text = text.map_err(|message| match message.ends_with("is undefined") {
            true => format!("{}: {message}; {}", asked.field, held(&context)),
            false => format!("{}: {message}", asked.field),
        });
        Ok((asked.name.clone(), text?))
    });
    let rendered = rendered.collect::<Result<Vec<_>, String>>()?;
    let kept = item.material.iter().filter(|(name, _)| !is_of_judge(name)).cloned();
    Ok(Item {
        material: kept.chain(rendered).collect(),
        ..item.clone()
    })
}

/// What templates over a stored item may name.
fn held(context: &Value) -> String {
    let names = context.try_iter().into_iter().flatten();
    let mut names: Vec<String> = names
        .map(|name| name.to_string())
        .filter(|name| name != "row")
        .collect();
    names.sort_unstable();
    format!("of its row a stored item holds {}", names.join(", "))
}

/// Why a grader can do nothing with an item that was rendered for another one; `None` where it can.
#[must_use]
pub fn misfit(grader: &GraderSpec, item: &Item) -> Option<String> {
    let advice = "; stored items keep what their suite gave them: write the grader into the suite and evaluate that, which asks \
                  the engine for nothing that it has answered";
    let needed: &[&str] = match grader {
        GraderSpec::Code { language, .. } => match language {
            CodeLanguage::Python => &["tests", "entry_point"],
            CodeLanguage::Command { .. } => &["expected"],
        },
        GraderSpec::Instructions { .. } => &["instructions", "arguments"],
        GraderSpec::JsonSchema {
            check: JsonCheck::Schema,
            schema: None,
        } => &["schema"],
        GraderSpec::Judge(_) => &["judge_prompt"],
        _ => &[],
    };
    let is_by_target = !matches!(
        grader,
        GraderSpec::Code { .. }
            | GraderSpec::Instructions { .. }
            | GraderSpec::JsonSchema { .. }
            | GraderSpec::Command { .. }
            | GraderSpec::Judge(_)
            | GraderSpec::Likelihood { .. }
            | GraderSpec::Pipelines { .. }
    );
    if is_by_target && item.targets.is_empty() {
        return Some(format!(
            "has no target, which grader kind {} compares with{advice}",
            grader.kind()
        ));
    }
    let may_be_empty = matches!(
        grader,
        GraderSpec::Exact { .. } | GraderSpec::ExactNormalised { .. } | GraderSpec::F1 { words: Words::Squad }
    );
    if is_by_target && !may_be_empty && item.targets.iter().all(String::is_empty) {
        return Some(format!(
            "has no answer, which grader kind {} cannot tell from a wrong one{advice}",
            grader.kind()
        ));
    }
    if let Some(missing) = needed.iter().find(|name| item.material(name).is_none()) {
        let advice = match grader {
            GraderSpec::Judge(_) => "; add prompt to the grader: what the judge is asked",
            _ => advice,
        };
        return Some(format!(
            "has no {missing}, which grader kind {} needs{advice}",
            grader.kind()
        ));
    }
    if matches!(grader, GraderSpec::Likelihood { .. })
        && let Some(unfit) = unfit_for_likelihood(item)
    {
        return Some(format!(
            "{unfit}, and grader kind likelihood looks for the one right choice"
        ));
    }
    if let GraderSpec::Judge(spec) = grader
        && let Some(unfit) = unfit_for_judge(spec, item)
    {
        return Some(unfit);
    }
    let unfit = |target: &&String| match grader {
        GraderSpec::Numeric { .. } => !target.chars().any(char::is_numeric),
        GraderSpec::Choice { .. } => !is_letter_among(target, item.choices.len()),
        _ => false,
    };
    let target = item.targets.iter().find(unfit)?;
    let wanted = match grader {
        GraderSpec::Numeric { .. } => "holds no number",
        _ => "is no letter of a choice",
    };
    Some(format!(
        "has the target {target:?}, which {wanted}: grader kind {} would call every answer wrong{advice}",
        grader.kind()
    ))
}

/// Why choices cannot be compared: continuations and whole texts of a task of the harness have one, and its rows may have several
/// right ones.
fn unfit_for_likelihood(item: &Item) -> Option<&'static str> {
    let gold = item.material("gold").map(serde_json::from_str::<serde_json::Value>);
    match gold {
        _ if item.choices.len() < 2 => Some("has fewer than two choices"),
        Some(Ok(serde_json::Value::Array(right))) if right.len() > 1 => Some("has several right choices"),
        _ => match item.correct_choice {
            Some(right) if (right as usize) < item.choices.len() => None,
            _ => Some("names no right choice"),
        },
    }
}

fn unfit_for_judge(spec: &JudgeSpec, item: &Item) -> Option<String> {
    let prompt = item.material(JUDGE_PROMPT)?.to_owned();
    if let Err(message) = judge_spec::checked(spec, JUDGE_PROMPT, prompt) {
        return Some(format!("has a judge_prompt that {message}; add prompt to the grader"));
    }
    let is_alone = spec.is_pair && item.targets.is_empty() && item.material(JUDGE_REFERENCE).is_none();
    is_alone.then(|| "has nothing that its answer can be compared with: add reference to the grader".to_owned())
}

fn is_letter_among(target: &str, choices: usize) -> bool {
    let [letter @ b'A'..=b'Z'] = target.as_bytes() else {
        return false;
    };
    choices == 0 || usize::from(letter - b'A') < choices
}

fn decode(path: &Path, text: &str, problems: &mut Problems) -> Option<Overrides> {
    let place = Place::of(path);
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors {
            let line = error.span().map(|span| line_of(text, span.start));
            let place = line.map_or_else(|| place.clone(), |line| place.line(line));
            problems.error(place, format!("is not TOML: {}", error.message()));
        }
        return None;
    }
    let mut fields = Fields::new(text, table.get_ref(), place.line(1), "", problems);
    let mut overrides = Overrides {
        all: change(text, &mut fields, "[grader]"),
        each: Vec::new(),
        text: text.to_owned(),
    };
    if let Some(value) = fields.raw("benchmark") {
        match value.get_ref().as_array() {
            Some(tables) => {
                overrides.each = tables
                    .iter()
                    .filter_map(|table| named(text, table, &mut fields))
                    .collect();
                refuse_repeated(&overrides.each, fields.problems());
            }
            None => {
                let line = fields.line(value);
                fields.error("benchmark", line, "must be an array of tables, written [[benchmark]]");
            }
        }
    }
    let is_said = FIELDS.iter().chain(&["benchmark"]).any(|field| fields.gives(field));
    fields.finish(|_| None);
    if !is_said {
        let message = "changes nothing: it needs a [grader], reasoning or metrics, or a [[benchmark]] with one of them";
        problems.error(place, message);
    }
    Some(overrides)
}

/// One of two tables for a benchmark would be of no effect.
fn refuse_repeated(each: &[Named], problems: &mut Problems) {
    for (number, named) in each.iter().enumerate() {
        if each[..number].iter().any(|known| known.name == named.name) {
            let message = "has a [[benchmark]] before this one: write both into one";
            problems.error(named.place.field("name"), message);
        }
    }
}

fn named<'i>(text: &str, value: &Spanned<DeValue<'i>>, file: &mut Fields<'_, 'i>) -> Option<Named> {
    let line = file.line(value);
    let Some(table) = value.get_ref().as_table() else {
        file.error("benchmark", line, "is not a table");
        return None;
    };
    let place = file.place().line(line);
    let mut fields = Fields::new(text, table, place.clone(), "", file.problems());
    let name = fields.required::<String>("name", any)?.value;
    let change = change(text, &mut fields, "[benchmark.grader]");
    let is_said = ["grader", "reasoning", "metrics"]
        .iter()
        .any(|field| fields.gives(field));
    if !is_said {
        fields.error("name", line, "changes nothing: it needs a grader, reasoning or metrics");
    }
    fields.finish(|_| None);
    Some(Named {
        place: place.benchmark(BenchmarkLabel::Name(name.clone())),
        name,
        change,
    })
}

/// What a file may change.
const FIELDS: [&str; 3] = ["grader", "reasoning", "metrics"];

fn change(text: &str, fields: &mut Fields<'_, '_>, written: &str) -> Change {
    let grader = grader(text, fields, written);
    let reasoning = options::optional_reasoning(fields);
    // How many samples there are, and what else is measured, is known of each benchmark; here only the names can be wrong.
    let any_grader = Beside {
        own: &[],
        takes_names: true,
    };
    let rule = |names: &Vec<String>| {
        let of_scores: Vec<String> = names.iter().filter(|name| name.contains('@')).cloned().collect();
        options::read_metrics(&of_scores, u32::MAX, any_grader).map(|_| ())
    };
    let metrics = fields.optional("metrics", rule);
    let at = |Located { value, line }| (fields.place().line(line).field("metrics"), value);
    Change {
        grader,
        reasoning,
        metrics: metrics.map(at),
    }
}

fn grader(text: &str, fields: &mut Fields<'_, '_>, written: &str) -> Option<Replacement> {
    let value = fields.raw("grader")?;
    let line = fields.line(value);
    let Some(table) = value.get_ref().as_table() else {
        fields.error("grader", line, format!("must be a table, written {written}"));
        return None;
    };
    let place = fields.place().line(line);
    let grader = Fields::new(text, table, place.clone(), "grader.", fields.problems()).for_stored_items();
    let entry = grader_spec::decode(grader)?;
    // What a kind renders by default was rendered for the items already.
    let is_given = |field: &str| table.contains_key(field.strip_prefix("grader.").unwrap_or(field));
    let given: Vec<_> = entry
        .material
        .into_iter()
        .filter(|material| is_given(material.field))
        .collect();
    let asked: Vec<Asked> = match &entry.spec {
        GraderSpec::Judge(_) => given
            .into_iter()
            .map(|material| Asked {
                name: material.name.into_owned(),
                field: material.field,
                template: material.source.value,
            })
            .collect(),
        _ => {
            if let Some(material) = given.first() {
                let message = "cannot be rendered anew for items that are stored: they keep what their suite gave them";
                fields.error(material.field, material.source.line, message);
            }
            Vec::new()
        }
    };
    if !asked.is_empty() && !asked.iter().any(|asked| asked.name == JUDGE_PROMPT) {
        let message = "is missing: with system or reference the whole question is another one";
        fields.error("grader.prompt", line, message);
    }
    Some(Replacement {
        place,
        spec: entry.spec,
        asked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Overrides, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graders.toml");
        std::fs::write(&path, text).unwrap();
        Overrides::read(&path).map_err(|errors| errors.to_string())
    }

    #[test]
    fn what_is_wrong_is_named_with_its_key() {
        for (text, part) in [
            ("", "changes nothing"),
            ("[grader]\nkind = \"exakt\"\n", "did you mean exact?"),
            ("[grader]\nkind = \"regex\"\npattern = \"(\"\n", "field grader.pattern"),
            ("[grader]\nkind = \"exact\"\ntolerance = 1\n", "tolerance"),
            ("[[benchmark]]\nname = \"a\"\n", "changes nothing"),
            ("[benchmark]\n", "written [[benchmark]]"),
            ("[grader\n", "is not TOML"),
            ("[grader]\nkind = \"f1\"\nunanswerable = true\n", "said by the suite"),
            ("grading = 1\n[grader]\nkind = \"exact\"\n", "grading"),
            ("metrics = [\"pas@1\", \"words\"]\n", "did you mean pass@1?"),
            (
                "[[benchmark]]\nname = \"a\"\nreasoning = \"none\"\n[[benchmark]]\nname = \"a\"\nmetrics = [\"pass@1\"]\n",
                ":4: benchmark \"a\": field name: has a [[benchmark]] before this one",
            ),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(part), "{text:?}: {said}");
        }
    }

    #[test]
    fn a_named_grader_goes_before_the_one_for_all() {
        let text = "[grader]\nkind = \"exact\"\n[[benchmark]]\nname = \"b\"\n[benchmark.grader]\nkind = \"numeric\"\n";
        let graders = read(text).unwrap();
        let kind = |change: &Change| change.grader.as_ref().map(|grader| grader.spec.kind());
        assert_eq!(kind(&graders.all), Some("exact"));
        assert_eq!(
            (graders.each[0].name.as_str(), kind(&graders.each[0].change)),
            ("b", Some("numeric"))
        );
    }

    #[test]
    fn reasoning_and_metrics_are_those_of_the_file_and_everything_else_stays() {
        let text = "reasoning = \"none\"\nmetrics = [\"pass@1\"]\n[[benchmark]]\nname = \"b\"\nmetrics = [\"maj@3\", \"pass@1\"]\n";
        let manifest = manifest();
        let changed = read(text).unwrap().apply(&manifest).unwrap();
        let metrics = |index: usize| {
            changed.benchmarks[index]
                .metrics
                .iter()
                .map(|metric| metric.name.as_str())
        };
        assert_eq!(metrics(0).collect::<Vec<_>>(), ["pass@1"]);
        assert_eq!(metrics(1).collect::<Vec<_>>(), ["maj@3", "pass@1"]);
        for (new, old) in changed.benchmarks.iter().zip(&manifest.benchmarks) {
            assert_eq!(new.reasoning, Reasoning::None);
            assert_eq!(
                (&new.grader, &new.settings, &new.name),
                (&old.grader, &old.settings, &old.name)
            );
        }
    }

    #[test]
    fn what_a_task_of_the_harness_measures_stays_while_its_grader_does() {
        let mut manifest = manifest();
        let task = &mut manifest.benchmarks[0];
        task.grader = GraderSpec::Pipelines {
            grading: "metric_list: [{metric: exact_match}]".to_owned(),
            by_likelihood: false,
        };
        let measured = ["exact_match,strict", "exact_match,loose"].map(|name| Metric {
            name: name.to_owned(),
            source: tidemill_domain::MetricSource::FirstMeasure,
            aggregation: tidemill_domain::Aggregation::Mean,
            higher_is_better: true,
        });
        let before: Vec<Metric> = measured.iter().cloned().chain(task.metrics.clone()).collect();
        task.metrics.clone_from(&before);
        let metrics = |text: &str| {
            read(text).unwrap().apply(&manifest).unwrap().benchmarks[0]
                .metrics
                .clone()
        };
        assert_eq!(metrics("reasoning = \"think\"\n"), before);
        let named = metrics("metrics = [\"maj@3\", \"pass@1\"]\n");
        assert_eq!(named[..2], measured);
        let names: Vec<&str> = named[2..].iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names, ["maj@3", "pass@1"]);
        let replaced = metrics("[grader]\nkind = \"exact\"\n");
        assert_eq!(replaced, before[2..], "another grader does not measure them");
    }

    #[test]
    fn a_program_measures_what_is_named() {
        let text = "metrics = [\"words\", \"pass@1\"]\n[grader]\nkind = \"command\"\ncommand = [\"true\"]\n";
        let changed = read(text).unwrap().apply(&manifest()).unwrap();
        let sources: Vec<_> = changed.benchmarks[0]
            .metrics
            .iter()
            .map(|metric| metric.source)
            .collect();
        assert_eq!(
            sources,
            [
                tidemill_domain::MetricSource::Measure,
                tidemill_domain::MetricSource::PassAt(1)
            ]
        );
        // Graded by the same program, they stay.
        let again = read("reasoning = \"think\"\n").unwrap().apply(&changed).unwrap();
        assert_eq!(again.benchmarks[0].metrics, changed.benchmarks[0].metrics);
    }

    #[test]
    fn a_likelihood_is_not_graded_where_no_choice_or_every_one_is_right() {
        let (_, mut item) = judged();
        let spec = read("[grader]\nkind = \"likelihood\"\n")
            .unwrap()
            .all
            .grader
            .unwrap()
            .spec;
        for (choices, right, gold, part) in [
            (2, Some(1), None, None),
            (2, Some(1), Some("1"), None),
            (2, Some(1), Some("[1]"), None),
            (1, Some(0), None, Some("fewer than two choices")),
            (3, Some(0), Some("[0, 2]"), Some("several right choices")),
            (2, None, Some("[]"), Some("no right choice")),
            (2, Some(2), None, Some("no right choice")),
        ] {
            item.choices = vec!["x".to_owned(); choices];
            item.correct_choice = right;
            item.material = gold
                .map(|gold| ("gold".to_owned(), gold.to_owned()))
                .into_iter()
                .collect();
            let said = misfit(&spec, &item);
            assert_eq!(said.is_some(), part.is_some(), "{said:?}");
            assert!(said.unwrap_or_default().contains(part.unwrap_or_default()));
        }
    }

    #[test]
    fn what_does_not_suit_the_evaluation_is_refused() {
        let manifest = manifest();
        for (text, part) in [
            (
                "metrics = [\"pass@4\"]\n",
                "benchmark \"a\": field metrics: pass@4 needs 4 samples",
            ),
            ("[[benchmark]]\nname = \"c\"\nreasoning = \"none\"\n", "did you mean"),
            (
                "[[benchmark]]\nname = \"a\"\n[benchmark.grader]\nkind = \"likelihood\"\n",
                "generated answers",
            ),
            (
                "[grader]\nkind = \"likelihood\"\n",
                "every benchmark of the evaluation has generated answers",
            ),
            ("metrics = [\"maj@1\"]\n", "group \"all\" is a mean of pass@1"),
            (
                "metrics = [\"pass@1\", \"words\"]\n",
                "\"words\" is no metric; metrics are pass@K and maj@K",
            ),
        ] {
            let said = read(text).unwrap().apply(&manifest).unwrap_err().to_string();
            assert!(said.contains(part), "{text:?}: {said}");
        }
    }

    #[test]
    fn a_grader_that_needs_what_an_item_lacks_does_not_fit_it() {
        let spec = |text: &str| read(&format!("[grader]\n{text}\n")).unwrap().all.grader.unwrap().spec;
        let item = |target: &str, choices: &[&str], material: &[&str]| Item {
            id: "1".to_owned(),
            prompt: tidemill_domain::Prompt::Text("p".to_owned()),
            targets: vec![target.to_owned()],
            choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
            correct_choice: None,
            cluster: None,
            subset: None,
            weight: 1.0,
            material: material
                .iter()
                .map(|name| ((*name).to_owned(), "x".to_owned()))
                .collect(),
        };
        let code = "kind = \"code\"\ncpu_seconds = 1";
        for (grader, item, part) in [
            ("kind = \"exact\"", item("Paris", &[], &[]), None),
            ("kind = \"numeric\"", item("about 7", &[], &[]), None),
            ("kind = \"numeric\"", item("Paris", &[], &[]), Some("holds no number")),
            ("kind = \"f1\"", item("", &[], &[]), None),
            ("kind = \"rouge\"", item("", &[], &[]), Some("has no answer")),
            ("kind = \"choice\"", item("B", &["x", "y"], &[]), None),
            ("kind = \"choice\"", item("C", &["x", "y"], &[]), Some("no letter")),
            ("kind = \"choice\"", item("Paris", &[], &[]), Some("no letter")),
            (code, item("x", &[], &["tests", "entry_point"]), None),
            (code, item("x", &[], &["entry_point"]), Some("has no tests")),
            (
                "kind = \"instructions\"",
                item("x", &[], &["arguments"]),
                Some("has no instructions"),
            ),
            ("kind = \"json_schema\"", item("x", &[], &["schema"]), None),
            (
                "kind = \"judge\"\njudge = \"j\"",
                item("x", &[], &["judge_prompt"]),
                Some("does not show the answer"),
            ),
            (
                "kind = \"judge\"\njudge = \"j\"",
                item("x", &[], &[]),
                Some("has no judge_prompt"),
            ),
            ("kind = \"json_schema\"", item("x", &[], &[]), Some("has no schema")),
        ] {
            let said = misfit(&spec(grader), &item);
            assert_eq!(said.is_some(), part.is_some(), "{grader}: {said:?}");
            assert!(said.unwrap_or_default().contains(part.unwrap_or_default()), "{grader}");
        }
    }

    const SCALE: &str = "[grader]\nkind = \"judge\"\njudge = \"other\"\nscale = [1, 10]\n";

    /// Items that one judge was to call right or wrong.
    fn judged() -> (Manifest, Item) {
        let mut manifest = manifest();
        let spec = "[grader]\nkind = \"judge\"\njudge = \"main\"\n";
        let spec = read(spec).unwrap().all.grader.unwrap().spec;
        for benchmark in &mut manifest.benchmarks {
            benchmark.grader = spec.clone();
        }
        let ask = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let item = Item {
            id: "1".to_owned(),
            prompt: tidemill_domain::Prompt::Text("Capital of Peru?".to_owned()),
            targets: vec!["Lima".to_owned()],
            choices: Vec::new(),
            correct_choice: None,
            cluster: None,
            subset: None,
            weight: 1.0,
            material: vec![
                ask(JUDGE_PROMPT, &format!("old {}", tidemill_domain::ANSWER_MARK)),
                ask(tidemill_domain::JUDGE_SYSTEM, "old"),
            ],
        };
        (manifest, item)
    }

    #[test]
    fn another_judge_is_asked_what_its_file_says_of_each_stored_item() {
        let (manifest, item) = judged();
        let asking =
            format!("{SCALE}prompt = \"{{{{ question }}}} {{{{ target }}}}: {{{{ answer }}}} {{{{ format }}}}\"\n");
        let overrides = read(&asking).unwrap();
        let changed = overrides.apply(&manifest).unwrap();
        let item_anew = overrides.item(&changed.benchmarks[0], &item).unwrap();
        let expected = format!(
            "Capital of Peru? Lima: {} a last line that is `GRADE: ` and a number from 1 to 10",
            tidemill_domain::ANSWER_MARK
        );
        assert_eq!(item_anew.material, [(JUDGE_PROMPT.to_owned(), expected)]);
        assert_eq!(misfit(&changed.benchmarks[0].grader, &item_anew), None);
        // The same judge again is asked what the suite asked.
        let same = read("[grader]\nkind = \"judge\"\njudge = \"another\"\n").unwrap();
        let changed = same.apply(&manifest).unwrap();
        assert_eq!(*same.item(&changed.benchmarks[0], &item).unwrap(), item);
    }

    #[test]
    fn a_judge_that_would_not_be_understood_is_refused() {
        let (manifest, item) = judged();
        let said = read(SCALE).unwrap().apply(&manifest).unwrap_err().to_string();
        for part in ["field grader.prompt", "CORRECT, INCORRECT", "a number from 1 to 10"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let said = read(&format!("{SCALE}system = \"Grade.\"\n")).unwrap_err();
        assert!(said.contains("field grader.prompt"), "{said}");
        for (prompt, part) in [
            ("{{ question }}", "does not show the answer"),
            (
                "{{ answer }} {{ worked }}",
                "holds answer, choices, format, id, question, target, targets",
            ),
        ] {
            let overrides = read(&format!("{SCALE}prompt = \"{prompt}\"\n")).unwrap();
            let changed = overrides.apply(&manifest).unwrap();
            let said = overrides.item(&changed.benchmarks[0], &item).unwrap_err();
            assert!(said.contains(part) && said.contains("grader.prompt"), "{said}");
        }
        // One answer alone was shown, and two are to be compared.
        let pair = "[grader]\nkind = \"judge\"\njudge = \"main\"\npairwise = true\n";
        let pair = read(pair).unwrap().all.grader.unwrap().spec;
        assert!(misfit(&pair, &item).unwrap().contains("answer_a"));
    }

    /// Benchmarks `a` and `b` of 3 samples, and the group `all` of their pass@1.
    fn manifest() -> Manifest {
        let suite = "name = \"s\"\nversion = \"1\"\n[defaults]\nsamples = 3\ntemperature = 0.5\n\
                     [[benchmark]]\nname = \"a\"\ndata = \"rows.jsonl\"\nprompt = \"{{ q }}\"\ntarget = \"{{ q }}\"\n\
                     metrics = [\"pass@1\"]\n[benchmark.grader]\nkind = \"exact\"\n\
                     [[benchmark]]\nname = \"b\"\ndata = \"rows.jsonl\"\nprompt = \"{{ q }}\"\ntarget = \"{{ q }}\"\n\
                     metrics = [\"pass@1\"]\n[benchmark.grader]\nkind = \"exact\"\n\
                     [[group]]\nname = \"all\"\nbenchmarks = [\"*\"]\nmetric = \"pass@1\"\n";
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("suite.toml"), suite).unwrap();
        std::fs::write(folder.path().join("rows.jsonl"), "{\"q\": 1}\n").unwrap();
        let loaded = crate::load(&folder.path().join("suite.toml"), &mut crate::Collected::default());
        loaded.unwrap().manifest
    }
}
