//! What stands in for a manifest's graders, reasoning and metrics: the file that a regrade takes.

use std::path::Path;

use tidemill_domain::{Benchmark, CodeLanguage, GraderSpec, Item, JsonCheck, Manifest, Metric, Reasoning};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{BenchmarkLabel, Place, Problems, SuiteErrors};
use crate::fields::{Fields, Located, any, line_of, nearest};
use crate::{grader_spec, load, options};

/// What a file says of how stored completions are graded.
///
/// `[grader]`, `reasoning` and `metrics` stand for every benchmark's; those of a `[[benchmark]]` with `name` for one benchmark's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overrides {
    all: Change,
    each: Vec<Named>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Change {
    grader: Option<GraderSpec>,
    reasoning: Option<Reasoning>,
    metrics: Option<(Place, Vec<String>)>,
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
        if let Some((named, grader)) = named.and_then(|named| Some((named, named.change.grader.as_ref()?))) {
            if is_by_likelihood(grader) != is_likelihood {
                let message = match is_likelihood {
                    true => "nothing was generated in this benchmark: only likelihood can grade it",
                    false => "likelihood compares choices' probabilities, and this benchmark has generated answers",
                };
                problems.error(named.place.field("grader.kind"), message);
            }
            benchmark.grader = grader.clone();
        } else if let Some(grader) = &self.all.grader {
            // A grader for all is for all that it can grade.
            if is_by_likelihood(grader) == is_likelihood {
                benchmark.grader = grader.clone();
            }
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
        let kept = benchmark.metrics.iter().filter(|metric| !metric.source.is_measure());
        let kept: Vec<String> = kept.map(|metric| metric.name.clone()).collect();
        let names = metrics.map_or(&kept, |(_, names)| names);
        let own = benchmark.grader.metrics();
        match (options::read_metrics(names, benchmark.settings.samples, &own), metrics) {
            (Ok(metrics), _) => benchmark.metrics = metrics,
            (Err(message), Some((place, _))) => {
                let place = place.benchmark(BenchmarkLabel::Name(benchmark.name.to_string()));
                problems.error(place, message);
            }
            // What a suite asked for has the samples that it needs.
            (Err(_), None) => {}
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
    if let Some(missing) = needed.iter().find(|name| item.material(name).is_none()) {
        return Some(format!(
            "has no {missing}, which grader kind {} needs{advice}",
            grader.kind()
        ));
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

fn is_letter_among(target: &str, choices: usize) -> bool {
    let [letter @ b'A'..=b'Z'] = target.as_bytes() else {
        return false;
    };
    choices == 0 || usize::from(letter - b'A') < choices
}

const fn is_by_likelihood(grader: &GraderSpec) -> bool {
    grader.is_likelihood()
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
    };
    if let Some(value) = fields.raw("benchmark") {
        match value.get_ref().as_array() {
            Some(tables) => {
                overrides.each = tables
                    .iter()
                    .filter_map(|table| named(text, table, &mut fields))
                    .collect();
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
    // How many samples there are is known of each benchmark; here only the names can be wrong.
    let rule = |names: &Vec<String>| options::read_metrics(names, u32::MAX, &[]).map(|_| ());
    let metrics = fields.optional("metrics", rule);
    let at = |Located { value, line }| (fields.place().line(line).field("metrics"), value);
    Change {
        grader,
        reasoning,
        metrics: metrics.map(at),
    }
}

fn grader(text: &str, fields: &mut Fields<'_, '_>, written: &str) -> Option<GraderSpec> {
    let value = fields.raw("grader")?;
    let line = fields.line(value);
    let Some(table) = value.get_ref().as_table() else {
        fields.error("grader", line, format!("must be a table, written {written}"));
        return None;
    };
    let place = fields.place().line(line);
    let grader = Fields::new(text, table, place, "grader.", fields.problems()).for_stored_items();
    let entry = grader_spec::decode(grader)?;
    // What a kind renders by default was rendered for the items already.
    let is_given = |field: &str| table.contains_key(field.strip_prefix("grader.").unwrap_or(field));
    if let Some(material) = entry.material.iter().find(|material| is_given(material.field)) {
        let message = "cannot be rendered anew for items that are stored: they keep what their suite gave them";
        fields.error(material.field, material.source.line, message);
    }
    Some(entry.spec)
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
            ("grading = 1\n[grader]\nkind = \"exact\"\n", "grading"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(part), "{text:?}: {said}");
        }
    }

    #[test]
    fn a_named_grader_goes_before_the_one_for_all() {
        let text = "[grader]\nkind = \"exact\"\n[[benchmark]]\nname = \"b\"\n[benchmark.grader]\nkind = \"numeric\"\n";
        let graders = read(text).unwrap();
        let kind = |change: &Change| change.grader.as_ref().map(GraderSpec::kind);
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
            ("metrics = [\"maj@1\"]\n", "group \"all\" is a mean of pass@1"),
        ] {
            let said = read(text).unwrap().apply(&manifest).unwrap_err().to_string();
            assert!(said.contains(part), "{text:?}: {said}");
        }
    }

    #[test]
    fn a_grader_that_needs_what_an_item_lacks_does_not_fit_it() {
        let spec = |text: &str| read(&format!("[grader]\n{text}\n")).unwrap().all.grader.unwrap();
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
                None,
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
