//! Graders that stand in for a manifest's: the file that a regrade takes.

use std::path::Path;

use tidemill_domain::{Benchmark, GraderSpec};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{BenchmarkLabel, Place, Problems, SuiteErrors};
use crate::fields::{Fields, any, line_of, nearest};
use crate::{grader_spec, load};

/// Graders by benchmark, as a file names them.
///
/// `[grader]` stands for every benchmark's; a `[[benchmark]]` with `name` and `[benchmark.grader]` for one benchmark's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graders {
    all: Option<GraderSpec>,
    each: Vec<Named>,
}

#[derive(Debug, Clone, PartialEq)]
struct Named {
    place: Place,
    name: String,
    grader: GraderSpec,
}

impl Graders {
    /// Reads a file of graders.
    ///
    /// # Errors
    /// [`SuiteErrors`] with everything that is wrong, each with its line and key.
    pub fn read(path: &Path) -> Result<Self, SuiteErrors> {
        let mut problems = Problems::default();
        let graders = load::read(path, &mut problems).and_then(|text| decode(path, &text, &mut problems));
        problems.settle(graders).map(|(graders, _)| graders)
    }

    /// The grader of each benchmark: this file's where it names one, else the benchmark's own.
    ///
    /// # Errors
    /// [`SuiteErrors`]: a benchmark that is not there, or a grader for answers of another kind than there are.
    pub fn of(&self, benchmarks: &[Benchmark]) -> Result<Vec<GraderSpec>, SuiteErrors> {
        let mut problems = Problems::default();
        let names: Vec<&str> = benchmarks.iter().map(|benchmark| benchmark.name.as_str()).collect();
        for named in self.each.iter().filter(|named| !names.contains(&named.name.as_str())) {
            let nearest = nearest(&named.name, &names).unwrap_or_default();
            let message = format!("no benchmark of the evaluation has this name; did you mean {nearest:?}?");
            problems.error(named.place.field("name"), message);
        }
        let graders = benchmarks
            .iter()
            .map(|benchmark| self.one(benchmark, &mut problems))
            .collect();
        problems.settle(Some(graders)).map(|(graders, _)| graders)
    }

    fn one(&self, benchmark: &Benchmark, problems: &mut Problems) -> GraderSpec {
        let own = || benchmark.grader.clone();
        if let Some(named) = self.each.iter().find(|named| named.name == benchmark.name.as_str()) {
            if is_likelihood(&named.grader) != benchmark.is_likelihood() {
                let message = match benchmark.is_likelihood() {
                    true => "nothing was generated in this benchmark: only likelihood can grade it",
                    false => "likelihood compares choices' probabilities, and this benchmark has generated answers",
                };
                problems.error(named.place.field("grader.kind"), message);
            }
            return named.grader.clone();
        }
        // A grader for all is for all that it can grade.
        let fitting = self
            .all
            .as_ref()
            .filter(|grader| is_likelihood(grader) == benchmark.is_likelihood());
        fitting.cloned().unwrap_or_else(own)
    }
}

const fn is_likelihood(grader: &GraderSpec) -> bool {
    matches!(grader, GraderSpec::Likelihood { .. })
}

fn decode(path: &Path, text: &str, problems: &mut Problems) -> Option<Graders> {
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
    let mut graders = Graders {
        all: grader(text, &mut fields, "[grader]"),
        each: Vec::new(),
    };
    if let Some(value) = fields.raw("benchmark") {
        match value.get_ref().as_array() {
            Some(tables) => {
                graders.each = tables
                    .iter()
                    .filter_map(|table| named(text, table, &mut fields))
                    .collect()
            }
            None => {
                let line = fields.line(value);
                fields.error("benchmark", line, "must be an array of tables, written [[benchmark]]");
            }
        }
    }
    fields.finish(|_| None);
    if graders == Graders::default() {
        problems.error(
            place,
            "names no grader: it needs a [grader] or a [[benchmark]] with one",
        );
    }
    Some(graders)
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
    let grader = grader(text, &mut fields, "[benchmark.grader]");
    if grader.is_none() {
        fields.missing("grader");
    }
    fields.finish(|_| None);
    Some(Named {
        place: place.benchmark(BenchmarkLabel::Name(name.clone())),
        name,
        grader: grader?,
    })
}

fn grader(text: &str, fields: &mut Fields<'_, '_>, written: &str) -> Option<GraderSpec> {
    let value = fields.raw("grader")?;
    let line = fields.line(value);
    let Some(table) = value.get_ref().as_table() else {
        fields.error("grader", line, format!("must be a table, written {written}"));
        return None;
    };
    let place = fields.place().line(line);
    let entry = grader_spec::decode(Fields::new(text, table, place, "grader.", fields.problems()))?;
    if let Some(material) = entry.material.first() {
        let message = "cannot be rendered anew for items that are stored: they keep what their suite gave them";
        fields.error(material.field, material.source.line, message);
    }
    Some(entry.spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Graders, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graders.toml");
        std::fs::write(&path, text).unwrap();
        Graders::read(&path).map_err(|errors| errors.to_string())
    }

    #[test]
    fn what_is_wrong_is_named_with_its_key() {
        for (text, part) in [
            ("", "names no grader"),
            ("[grader]\nkind = \"exakt\"\n", "did you mean exact?"),
            ("[grader]\nkind = \"regex\"\npattern = \"(\"\n", "field grader.pattern"),
            ("[grader]\nkind = \"exact\"\ntolerance = 1\n", "tolerance"),
            ("[[benchmark]]\nname = \"a\"\n", "field grader: is missing"),
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
        assert_eq!(graders.all.as_ref().map(GraderSpec::kind), Some("exact"));
        assert_eq!(
            (graders.each[0].name.as_str(), graders.each[0].grader.kind()),
            ("b", "numeric")
        );
    }
}
