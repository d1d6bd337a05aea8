//! Rows to items, written block by block: templates, examples and targets of a benchmark, with every fault of every row.

use std::fmt;

use minijinja::{Environment, Value};
use serde_json::Value as Json;
use tidemill_domain::{
    Benchmark, Block, BlockRef, Digest, GraderSpec, Item, Message, Outline, Packer, Prompt, WholeBenchmark,
};

use crate::answer::{self, Answer};
use crate::code_spec;
use crate::data::{DataFile, Row, RowError};
use crate::decode::{BenchmarkEntry, PromptSource};
use crate::error::{Place, Problems};
use crate::faults::Faults;
use crate::fields::Located;
use crate::grader_spec::Material;
use crate::ids::{Ids, content_digest};
use crate::judge_spec;
use crate::material;
use crate::shots::{Shots, continuation};
use crate::sink::{Sink, Stopped};
use crate::template::{Filter, Template, environment, row_context};

/// Renders a benchmark into the sink, block by block; `None` when anything in it is wrong, after reporting all of it.
pub(crate) fn benchmark(
    entry: &BenchmarkEntry,
    problems: &mut Problems,
    sink: &mut dyn Sink,
) -> Result<Option<Benchmark>, Stopped> {
    let environment = environment();
    let templates = match Templates::compile(&environment, entry) {
        Ok(templates) => templates,
        Err(fault) => {
            problems.error(fault.place(entry), fault.message);
            return Ok(None);
        }
    };
    let mut faults = Faults::new(entry.place.clone());
    let shots = match &entry.shots {
        Some(wish) => Shots::load(wish, entry, &environment, &templates, &mut faults),
        None => Shots::none(),
    };
    let mut rendering = Rendering {
        entry,
        templates,
        // Examples that could not be read would only be reported again for each item.
        shots: if faults.is_empty() { shots } else { Shots::none() },
        ids: Ids::default(),
        packer: Packer::default(),
        blocks: Vec::new(),
        outlines: Vec::new(),
        sink,
        remarks: Remarks::default(),
        faults,
    };
    rendering.read(&entry.data.value)?;
    rendering.settle(problems)
}

/// A field of the suite file that a row does not satisfy.
pub(crate) struct Fault {
    field: &'static str,
    message: String,
}

impl Fault {
    fn of(field: &'static str) -> impl Fn(String) -> Self {
        move |message| Self { field, message }
    }

    fn place(&self, entry: &BenchmarkEntry) -> Place {
        entry.place_of(self.field)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message)
    }
}

impl BenchmarkEntry {
    /// Where a field of this benchmark stands.
    fn place_of(&self, field: &'static str) -> Place {
        let line = match field {
            "prompt" | "messages" => Some(self.prompt.line),
            "target" => Some(self.target.line),
            "choices" => self.choices.as_ref().map(|choices| choices.line),
            "id" => self.id.as_ref().map(|id| id.line),
            "cluster" => self.cluster.as_ref().map(|cluster| cluster.line),
            "subset" => self.subset.as_ref().map(|subset| subset.line),
            "weight" => self.weight.as_ref().map(|weight| weight.line),
            "filter" => self.filter.as_ref().map(|filter| filter.line),
            "system" => self.system.as_ref().map(|system| system.line),
            "data" => Some(self.data.line),
            field if field.starts_with("grader.") => {
                let material = self.material.iter().find(|material| material.field == field);
                material.map(|material| material.source.line)
            }
            "few_shot" => self.shots.as_ref().map(|shots| shots.count_line),
            _ => None,
        };
        let place = self.place.field(field);
        line.map_or_else(|| place.clone(), |line| place.line(line))
    }
}

/// A benchmark's templates, compiled once.
pub(crate) struct Templates<'e> {
    filter: Option<Filter<'e>>,
    system: Option<Template<'e>>,
    prompt: PromptTemplate<'e>,
    target: Template<'e>,
    choices: Option<Template<'e>>,
    material: Vec<(&'e Material, Template<'e>)>,
    grader: &'e GraderSpec,
    unanswerable: bool,
}

enum PromptTemplate<'e> {
    Text(Template<'e>),
    Chat(Vec<(&'e str, Template<'e>)>),
}

impl<'e> Templates<'e> {
    fn compile(environment: &'e Environment<'e>, entry: &'e BenchmarkEntry) -> Result<Self, Fault> {
        let filter = match &entry.filter {
            Some(source) => Some(Filter::compile(environment, &source.value).map_err(Fault::of("filter"))?),
            None => None,
        };
        let system = match &entry.system {
            Some(source) => Some(Template::text(environment, &source.value).map_err(Fault::of("system"))?),
            None => None,
        };
        let prompt = match &entry.prompt.value {
            PromptSource::Text(source) => {
                let template = Template::text(environment, source).map_err(Fault::of("prompt"))?;
                PromptTemplate::Text(template)
            }
            PromptSource::Chat(messages) => {
                let compile = |content| Template::text(environment, content).map_err(Fault::of("messages"));
                let turns = messages
                    .iter()
                    .map(|turn| Ok((turn.role.as_str(), compile(&turn.content)?)));
                PromptTemplate::Chat(turns.collect::<Result<_, Fault>>()?)
            }
        };
        let target = Template::value(environment, &entry.target.value).map_err(Fault::of("target"))?;
        let choices = match &entry.choices {
            Some(source) => Some(Template::value(environment, source.value.trim()).map_err(Fault::of("choices"))?),
            None => None,
        };
        let compile = |material: &'e Material| {
            let source = &material.source.value;
            let template = match material.is_json {
                true => Template::value(environment, source.trim()),
                false => Template::text(environment, source),
            };
            let template = template.map_err(Fault::of(material.field))?;
            Ok((material, template))
        };
        let material = entry.material.iter().map(compile).collect::<Result<_, Fault>>()?;
        Ok(Self {
            filter,
            system,
            prompt,
            target,
            choices,
            material,
            grader: &entry.grader,
            unanswerable: entry.unanswerable,
        })
    }

    /// The prompt of one row. Only a likelihood may be asked for without any context.
    pub(crate) fn prompt(&self, row: &Value) -> Result<Prompt, Fault> {
        match &self.prompt {
            PromptTemplate::Text(template) => {
                let text = template.render(row).map_err(Fault::of("prompt"))?;
                let may_be_empty = matches!(self.grader, GraderSpec::Likelihood { .. });
                if text.is_empty() && !may_be_empty {
                    return Err(Fault::of("prompt")("is empty".to_owned()));
                }
                Ok(Prompt::Text(text))
            }
            PromptTemplate::Chat(turns) => {
                let system = self.system.as_ref().map(|template| {
                    let content = template.render(row).map_err(Fault::of("system"))?;
                    Ok(Message {
                        role: "system".to_owned(),
                        content,
                    })
                });
                let turns = turns.iter().zip(1..).map(|((role, template), number)| {
                    let named = |message| Fault::of("messages")(format!("message {number}: {message}"));
                    let content = template.render(row).map_err(named)?;
                    if content.is_empty() {
                        return Err(named("is empty".to_owned()));
                    }
                    Ok(Message {
                        role: (*role).to_owned(),
                        content,
                    })
                });
                system
                    .into_iter()
                    .chain(turns)
                    .collect::<Result<_, _>>()
                    .map(Prompt::Chat)
            }
        }
    }

    /// What else the grader needs of one row.
    fn material(&self, row: &Value, prompt: &Prompt, answer: &Answer) -> Result<Vec<(String, String)>, Fault> {
        let judge = match self.grader {
            GraderSpec::Judge(spec) => Some((spec, judge_spec::context(spec, row, prompt, &answer.targets))),
            _ => None,
        };
        let render = |(material, template): &(&Material, Template<'_>)| {
            let text = match &judge {
                Some((spec, context)) => template
                    .render(context)
                    .and_then(|text| judge_spec::checked(spec, &material.name, text)),
                None if material.is_json => template.evaluate(row).and_then(|value| answer::text_or_json(&value)),
                None => template
                    .render(row)
                    .and_then(|text| code_spec::checked(&material.name, text)),
            };
            let text = text.map_err(Fault::of(material.field))?;
            Ok((material.name.to_string(), text))
        };
        let material = self.material.iter().map(render).collect::<Result<Vec<_>, Fault>>()?;
        match material::error(self.grader, &material) {
            Some((field, message)) => Err(Fault::of(field)(message)),
            None => Ok(material),
        }
    }

    /// The reference side of one row.
    pub(crate) fn answer(&self, row: &Value) -> Result<Answer, Fault> {
        let choices = match &self.choices {
            Some(template) => {
                let list = template.evaluate(row).and_then(|value| answer::choice_texts(&value));
                list.map_err(Fault::of("choices"))?
            }
            None => Vec::new(),
        };
        let target = self.target.evaluate(row).map_err(Fault::of("target"))?;
        answer::resolve(self.grader, &target, choices, self.unanswerable).map_err(Fault::of("target"))
    }
}

struct Rendering<'e> {
    entry: &'e BenchmarkEntry,
    templates: Templates<'e>,
    shots: Shots,
    ids: Ids,
    packer: Packer,
    blocks: Vec<BlockRef>,
    outlines: Vec<Digest>,
    sink: &'e mut dyn Sink,
    remarks: Remarks,
    faults: Faults,
}

/// What is odd about rows: of each field the first is shown, the others are counted.
#[derive(Default)]
struct Remarks(Vec<Remark>);

struct Remark {
    field: &'static str,
    row: u64,
    text: String,
    count: u64,
}

impl Rendering<'_> {
    fn read(&mut self, file: &DataFile) -> Result<(), Stopped> {
        let rows = match file.rows() {
            Ok(rows) => rows,
            Err(error) => {
                self.unreadable(error);
                return Ok(());
            }
        };
        let limit = self.entry.limit.unwrap_or(u64::MAX);
        let (mut seen, mut kept) = (0_u64, 0_u64);
        for row in rows {
            seen += 1;
            match row {
                Ok(row) => {
                    let context = row_context(&row);
                    if self.passes(&row, &context) {
                        kept += 1;
                        if let Some(item) = self.item(&row, &context) {
                            self.keep(item)?;
                        }
                    }
                }
                Err(error) => {
                    kept += 1;
                    self.unreadable(error);
                }
            }
            if kept >= limit {
                break;
            }
        }
        if seen == 0 {
            let message = "holds no rows; a benchmark needs at least one".to_owned();
            self.unreadable(RowError { row: None, message });
        } else if kept == 0 {
            let place = self.entry.place_of("filter").data(&self.entry.data.value.written, None);
            let rows = if seen == 1 {
                "its only row".to_owned()
            } else {
                format!("any of its {seen} rows")
            };
            self.faults
                .push(place, format!("does not keep {rows}; a benchmark needs at least one"));
        }
        Ok(())
    }

    /// Whether the filter keeps a row; one that it cannot judge is kept, so that it is not looked for in vain, and reported.
    fn passes(&mut self, row: &Row, context: &Value) -> bool {
        let Some(filter) = &self.templates.filter else {
            return true;
        };
        let passes = filter.passes(&row.columns, context).map_err(Fault::of("filter"));
        self.check(row, passes).unwrap_or(true)
    }

    /// Once a row is wrong, the others are only looked at: a benchmark with a fault is stored no further.
    fn keep(&mut self, item: Item) -> Result<(), Stopped> {
        if self.faults.is_empty()
            && let Some((block, end)) = self.packer.push(item)
        {
            self.store(block, end)?;
        }
        Ok(())
    }

    fn store(&mut self, block: Block, end: u32) -> Result<(), Stopped> {
        let outline = Outline::of(&block.items);
        self.blocks.push(self.sink.block(block, end)?);
        self.outlines.push(self.sink.outline(outline)?);
        Ok(())
    }

    fn item(&mut self, row: &Row, context: &Value) -> Option<Item> {
        let needs_digest = self.entry.id.is_none() || self.shots.are_wanted();
        let digest = if needs_digest {
            content_digest(&row.columns)
        } else {
            String::new()
        };
        let id = match &self.entry.id {
            Some(column) => self.ids.take_column_id(row.number, &row.columns, &column.value),
            None => self.ids.make_content_id(row.number, &digest),
        };
        let id_field = if self.entry.id.is_some() { "id" } else { "data" };
        let id = self.check(row, id.map_err(Fault::of(id_field)));
        let cluster = self.check(row, label(&self.entry.cluster, row).map_err(Fault::of("cluster")));
        let subset = self.check(row, label(&self.entry.subset, row).map_err(Fault::of("subset")));
        let weight = self.check(row, weight(&self.entry.weight, row).map_err(Fault::of("weight")));
        let prompt = self.templates.prompt(context);
        let prompt = self.check(row, prompt);
        let answer = self.templates.answer(context);
        let answer = self.check(row, answer);
        let (prompt, answer) = (prompt?, answer?);
        let material = self.templates.material(context, &prompt, &answer);
        let material = self.check(row, material);
        let (id, cluster, subset, weight) = (id?, cluster?, subset?, weight?);
        let material = material?;
        let prompt = self.shots.prepend(prompt, &id, &digest).map_err(Fault::of("few_shot"));
        let prompt = self.check(row, prompt)?;
        let prompt = self.check(row, self.sound(prompt))?;
        self.check(row, readable(&answer))?;
        self.remarks.note("target", row.number, answer.ambiguity);
        self.remarks.note(self.prompt_field(), row.number, long(&prompt));
        Some(Item {
            id,
            choices: self.choices(&prompt, answer.choices),
            prompt,
            targets: answer.targets,
            correct_choice: answer.correct,
            cluster,
            subset,
            weight,
            material,
        })
    }

    /// Choices whose likelihood is asked for continue the prompt; others are options as they are.
    fn choices(&self, prompt: &Prompt, choices: Vec<String>) -> Vec<String> {
        match (self.templates.grader, prompt) {
            (GraderSpec::Likelihood { .. }, Prompt::Text(prompt)) => {
                choices.iter().map(|choice| continuation(prompt, choice)).collect()
            }
            _ => choices,
        }
    }

    /// A prompt that every server takes as it is.
    fn sound(&self, prompt: Prompt) -> Result<Prompt, Fault> {
        let holds_nul = match &prompt {
            Prompt::Text(text) => text.contains('\0'),
            Prompt::Chat(turns) => turns.iter().any(|turn| turn.content.contains('\0')),
        };
        match holds_nul {
            true => Err(Fault::of(self.prompt_field())(NUL.to_owned())),
            false => Ok(prompt),
        }
    }

    const fn prompt_field(&self) -> &'static str {
        match self.entry.prompt.value {
            PromptSource::Text(_) => "prompt",
            PromptSource::Chat(_) => "messages",
        }
    }

    fn check<T>(&mut self, row: &Row, result: Result<T, Fault>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(mut fault) => {
                if fault.message.ends_with("is undefined") {
                    fault.message = format!("{}; {}", fault.message, columns_of(row));
                }
                let place = fault
                    .place(self.entry)
                    .data(&self.entry.data.value.written, Some(row.number));
                self.faults.push(place, fault.message);
                None
            }
        }
    }

    fn unreadable(&mut self, error: RowError) {
        let place = self
            .entry
            .place_of("data")
            .data(&self.entry.data.value.written, error.row);
        self.faults.push(place, error.message);
    }

    fn settle(mut self, problems: &mut Problems) -> Result<Option<Benchmark>, Stopped> {
        self.remarks.report(self.entry, problems);
        let is_whole = self.faults.is_empty();
        if is_whole && let Some((block, end)) = self.packer.rest() {
            self.store(block, end)?;
        }
        self.faults.report(problems);
        if !is_whole {
            return Ok(None);
        }
        let items = self.packer.packed();
        let columns = self.sink.columns(self.packer.columns())?;
        let benchmark = WholeBenchmark {
            name: self.entry.name.clone(),
            settings: self.entry.settings.clone(),
            grader: self.entry.grader.clone(),
            items: Vec::new(),
        };
        let mut benchmark = benchmark.located(self.blocks, items, columns);
        benchmark.outlines = self.outlines;
        benchmark.spare_samples = self.entry.spare_samples;
        benchmark.penalties = self.entry.penalties;
        benchmark.continuation = self.entry.continuation;
        benchmark.reasoning = self.entry.reasoning.clone();
        benchmark.metrics = self.entry.metrics.clone();
        Ok(Some(benchmark))
    }
}

/// A prompt of so many bytes is worth a word: most contexts are shorter.
const LONG_PROMPT_BYTES: usize = 1 << 20;

/// Why a text with a NUL character is refused.
pub(crate) const NUL: &str = "holds a NUL character (U+0000), at which some servers cut a text; take it out of the data, or out of what \
                   is rendered with `| replace(\"\\0\", \"\")`";

fn long(prompt: &Prompt) -> Option<String> {
    let bytes = match prompt {
        Prompt::Text(text) => text.len(),
        Prompt::Chat(turns) => turns.iter().map(|turn| turn.content.len()).sum(),
    };
    (bytes >= LONG_PROMPT_BYTES).then(|| format!("has {bytes} bytes, which is more than most contexts hold"))
}

fn readable(answer: &Answer) -> Result<(), Fault> {
    let holds_nul = |texts: &[String]| texts.iter().any(|text| text.contains('\0'));
    if holds_nul(&answer.choices) {
        return Err(Fault::of("choices")(NUL.to_owned()));
    }
    match holds_nul(&answer.targets) {
        true => Err(Fault::of("target")(NUL.to_owned())),
        false => Ok(()),
    }
}

/// The label that a column gives a row.
fn label(column: &Option<Located<String>>, row: &Row) -> Result<Option<String>, String> {
    let Some(column) = column.as_ref().map(|column| &column.value) else {
        return Ok(None);
    };
    match row.columns.get(column) {
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(Json::Number(number)) if !number.is_f64() => Ok(Some(number.to_string())),
        Some(other) => Err(format!("column {column} must hold a text or an integer, not {other}")),
        None => Err(missing_column(column, row)),
    }
}

/// Weights whose squares, and sums of a billion of these, every float can hold.
const WEIGHTS: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

/// How much a row counts.
fn weight(column: &Option<Located<String>>, row: &Row) -> Result<f64, String> {
    let Some(column) = column.as_ref().map(|column| &column.value) else {
        return Ok(1.0);
    };
    let weight = match row.columns.get(column) {
        Some(Json::Number(number)) => number.as_f64(),
        Some(Json::String(text)) => text.trim().parse().ok(),
        Some(_) => None,
        None => return Err(missing_column(column, row)),
    };
    match weight {
        Some(weight) if WEIGHTS.contains(&weight) => Ok(weight),
        Some(weight) if weight.is_finite() && weight > 0.0 => Err(format!(
            "column {column} holds {weight:e}; a weight must be from {:e} to {:e}, for their squares are added up",
            WEIGHTS.start(),
            WEIGHTS.end()
        )),
        _ => Err(format!(
            "column {column} must hold a number above 0, not {}; leave rows out that do not count, by filter",
            row.columns[column]
        )),
    }
}

fn missing_column(column: &str, row: &Row) -> String {
    format!("column {column} is missing; {}", columns_of(row))
}

/// Columns that are named in full.
const NAMED_COLUMNS: usize = 12;

/// What a row has, for whoever misspelt a column.
fn columns_of(row: &Row) -> String {
    let names: Vec<&str> = row.columns.keys().take(NAMED_COLUMNS).map(String::as_str).collect();
    let rest = row.columns.len() - names.len();
    match (names.is_empty(), rest) {
        (true, _) => "the row is empty".to_owned(),
        (false, 0) => format!("the row has {}", names.join(", ")),
        (false, rest) => format!("the row has {} and {rest} more", names.join(", ")),
    }
}

impl Remarks {
    fn note(&mut self, field: &'static str, row: u64, text: Option<String>) {
        let Some(text) = text else { return };
        match self.0.iter_mut().find(|remark| remark.field == field) {
            Some(remark) => remark.count += 1,
            None => self.0.push(Remark {
                field,
                row,
                text,
                count: 1,
            }),
        }
    }

    fn report(&self, entry: &BenchmarkEntry, problems: &mut Problems) {
        for remark in &self.0 {
            let place = entry
                .place_of(remark.field)
                .data(&entry.data.value.written, Some(remark.row));
            let others = match remark.count - 1 {
                0 => String::new(),
                1 => "; likewise in 1 more row".to_owned(),
                others => format!("; likewise in {others} more rows"),
            };
            problems.warn(place, format!("{}{others}", remark.text));
        }
    }
}
