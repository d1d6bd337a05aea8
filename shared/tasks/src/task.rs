//! Benchmarks that a task file of lm-evaluation-harness describes: one task, or a group of them.
//!
//! The file says what is asked and how answers are graded; here its rows become items. An item's id is its row's number from 0,
//! after the rows that the task leaves out, as in lm-evaluation-harness.

mod datasets;
mod item;

use std::path::{Path, PathBuf};

use tidemill_domain::{
    Aggregation, Average, Benchmark, BenchmarkName, BlockRef, Digest, GraderSpec, Group, GroupMean, Item, Member,
    Metric, MetricSource, Outline, Packer, Reasoning, Settings, WholeBenchmark, counted,
};
use tidemill_harness::filter::Chosen;
use tidemill_harness::metric::{self, Measure};
use tidemill_harness::native::AggregationRule;
use tidemill_harness::request::{Asker, ShotSource, Unasked};
use tidemill_harness::task::OutputType;
use tidemill_harness::{Child, Entry, Index, Kind, Refusal, Task};

use crate::error::{Place, Problems};
use crate::faults::Faults;
use crate::fields::{Fields, any};
use crate::render::NUL;
use crate::sink::{Sink, Stopped};
use datasets::{Datasets, Split};

/// A `[[benchmark]]` with `task`.
pub(crate) struct TaskEntry {
    place: Place,
    /// The task file.
    file: PathBuf,
    /// Where files of datasets are looked for: the suite's folder.
    base: PathBuf,
    datasets: Datasets,
    /// Where a group's tasks are looked for.
    folder: PathBuf,
    limit: Option<usize>,
    few_shot: Option<usize>,
    /// Stands before a text whose likelihood is asked for after nothing.
    start: String,
}

/// What a task file gave.
#[derive(Default)]
pub(crate) struct Rendered {
    /// Benchmarks, in the order of the group.
    pub(crate) benchmarks: Vec<Benchmark>,
    /// Means over them; members are counted from the first benchmark of the suite.
    pub(crate) groups: Vec<Group>,
    /// Whether all of it could be read.
    pub(crate) is_whole: bool,
}

/// Reads the fields of a `[[benchmark]]` that names a task file.
pub(crate) fn decode(mut fields: Fields<'_, '_>) -> Option<TaskEntry> {
    let place = fields.place().clone();
    let base = place.file.parent().unwrap_or(Path::new("")).to_owned();
    let exists = |path: &String| match base.join(path).exists() {
        true => Ok(()),
        false => Err(format!("{} does not exist", base.join(path).display())),
    };
    let task = fields.required::<String>("task", exists);
    let folder = fields.optional::<String>("task_folder", exists);
    let mapping = fields.optional::<String>("datasets", exists);
    let datasets = match &mapping {
        None => Some(Datasets::default()),
        Some(mapping) => match Datasets::read(&base.join(&mapping.value)) {
            Ok(datasets) => Some(datasets),
            Err(error) => {
                fields.error("datasets", mapping.line, error);
                None
            }
        },
    };
    let at_least_one = |limit: &usize| {
        if *limit == 0 {
            Err("must be 1 or more".to_owned())
        } else {
            Ok(())
        }
    };
    let limit = fields.optional::<usize>("limit", at_least_one);
    let few_shot = fields.optional::<usize>("few_shot", any);
    let start = fields.optional::<String>("start_text", any);
    fields.finish(|name| Some(format!("{name} cannot stand beside task: the task file says it")));
    let file = base.join(task?.value);
    let beside = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let beside = beside.unwrap_or(Path::new(".")).to_owned();
    Some(TaskEntry {
        place,
        folder: folder.map_or(beside, |folder| base.join(folder.value)),
        file,
        base,
        datasets: datasets?,
        limit: limit.map(|limit| limit.value),
        few_shot: few_shot.map(|count| count.value),
        start: start.map(|start| start.value).unwrap_or_default(),
    })
}

/// Renders every task of an entry into the sink. `first` is how many benchmarks the suite has before.
pub(crate) fn render(
    entry: &TaskEntry,
    first: usize,
    problems: &mut Problems,
    sink: &mut dyn Sink,
) -> Result<Rendered, Stopped> {
    let (tasks, group) = match load(entry) {
        Ok(loaded) => loaded,
        Err(refusals) => {
            for refusal in refusals {
                problems.error(entry.place.field("task"), refusal.to_string());
            }
            return Ok(Rendered::default());
        }
    };
    let mut rendered = Rendered::default();
    let mut names: Vec<String> = Vec::new();
    let tasks = distinct(entry, tasks, problems);
    for task in &tasks {
        if let Some(benchmark) = benchmark(entry, task, problems, sink)? {
            names.push(task.name.clone());
            rendered.benchmarks.push(benchmark);
        }
    }
    rendered.is_whole = names.len() == tasks.len();
    if let Some(group) = &group {
        groups(group, &names, first, &mut rendered);
    }
    Ok(rendered)
}

/// Each task once: of several settings of one task, in several groups, the last counts.
fn distinct(entry: &TaskEntry, tasks: Vec<Task>, problems: &mut Problems) -> Vec<Task> {
    let mut distinct: Vec<Task> = Vec::new();
    for task in tasks {
        let Some(known) = distinct.iter_mut().find(|known| known.name == task.name) else {
            distinct.push(task);
            continue;
        };
        if *known != task {
            let place = place_of(entry, known);
            problems.warn(
                place,
                "is in several groups with different settings, of which the last count for all",
            );
        }
        *known = task;
    }
    distinct
}

fn load(entry: &TaskEntry) -> Result<(Vec<Task>, Option<tidemill_harness::Group>), Vec<Refusal>> {
    let file = Entry::read(&entry.file).map_err(|refusal| vec![refusal])?;
    if file.kind != Kind::Group {
        let task = file.task(None)?;
        return Ok((vec![with_shots(entry, task)], None));
    }
    let mut index = Index::build(&entry.folder).map_err(|error| {
        vec![Refusal {
            place: file.place.clone(),
            key: "task".to_owned(),
            reason: format!("{}: {error}", entry.folder.display()),
        }]
    })?;
    index.add(file.clone());
    let group = index.group(&file)?;
    let tasks = group
        .tasks()
        .into_iter()
        .map(|task| with_shots(entry, task.clone()))
        .collect();
    Ok((tasks, Some(group)))
}

/// A task that asks for no examples itself keeps to that.
fn with_shots(entry: &TaskEntry, mut task: Task) -> Task {
    if let Some(count) = entry.few_shot.filter(|_| task.num_fewshot.is_none_or(|own| own > 0)) {
        task.num_fewshot = Some(count);
    }
    task
}

fn benchmark(
    entry: &TaskEntry,
    task: &Task,
    problems: &mut Problems,
    sink: &mut dyn Sink,
) -> Result<Option<Benchmark>, Stopped> {
    let place = place_of(entry, task);
    for unfit in unfit(task) {
        problems.error(place.clone(), format!("{}: {unfit}", task.place.file.display()));
    }
    let name = match BenchmarkName::try_new(task.name.as_str()) {
        Ok(name) => name,
        Err(error) => {
            problems.error(place, error.to_string());
            return Ok(None);
        }
    };
    let (rows, pool) = match splits(entry, task) {
        Ok(read) => read,
        Err((at, reason)) => {
            problems.error(at.map_or(place.clone(), |at| located(&place, at)), reason);
            return Ok(None);
        }
    };
    let mut writer = Writer::new(sink);
    if !items(entry, (task, &place), rows, pool, problems, &mut writer)? {
        return Ok(None);
    }
    for notice in task.notices.iter().cloned().chain(own_examples(task)) {
        problems.warn(place.clone(), notice);
    }
    writer.benchmark(name, task).map(Some)
}

/// Where a task is spoken of; one without a name is known by its file.
fn place_of(entry: &TaskEntry, task: &Task) -> Place {
    match task.name.is_empty() {
        true => entry.place.field(format!("task of {}", task.place.file.display())),
        false => entry.place.field(format!("task {}", task.name)),
    }
}

/// Writes an item for each row. False where a row is at fault, which is reported.
fn items(
    entry: &TaskEntry,
    (task, place): (&Task, &Place),
    rows: Split,
    mut pool: Split,
    problems: &mut Problems,
    writer: &mut Writer<'_>,
) -> Result<bool, Stopped> {
    let Some(first) = rows.rows.first() else {
        problems.error(place.clone(), format!("no rows are left of {}", rows.label()));
        return Ok(false);
    };
    if let Some(reason) = too_few(task, &rows, &pool) {
        problems.error(place.clone(), reason);
        return Ok(false);
    }
    let mut asker = match Asker::new(task, first, std::mem::take(&mut pool.rows)) {
        Ok(asker) => asker,
        Err(reason) => {
            problems.error(located(place, rows.place(0)), to_mend(task, &reason));
            return Ok(false);
        }
    };
    let shape = item::Shape {
        task,
        targets_are_lists: asker.targets_are_lists(),
        start: &entry.start,
    };
    let mut faults = Faults::new(place.clone());
    for (number, row) in rows.rows.iter().take(entry.limit.unwrap_or(usize::MAX)).enumerate() {
        let item = asker
            .ask(row)
            .and_then(|asked| Ok(item::of(&shape, number, asked, row)?));
        match item {
            Ok(item) if faults.is_empty() => writer.keep(item)?,
            Ok(_) => {}
            Err(Unasked { example, reason }) => {
                let at = example.map_or_else(|| rows.place(number), |at| pool.place(at));
                faults.push(located(place, at), to_mend(task, &reason));
            }
        }
    }
    let is_whole = faults.is_empty();
    faults.report(problems);
    Ok(is_whole)
}

/// Says that there are fewer rows to take examples from than each prompt needs.
fn too_few(task: &Task, rows: &Split, pool: &Split) -> Option<String> {
    let wanted = task.num_fewshot.filter(|wanted| *wanted > pool.rows.len())?;
    let label = match task.shot_source() {
        ShotSource::Samples(_) => "fewshot_config.samples".to_owned(),
        ShotSource::Split(split) if split == task.evaluated_split() => rows.label(),
        ShotSource::Split(_) => pool.label(),
    };
    Some(format!(
        "{wanted} examples are wanted before each row, and {} are there to choose from in {label}; lower few_shot of the suite, or \
         num_fewshot of {}",
        counted(pool.rows.len() as u64, "row"),
        task.place.file.display()
    ))
}

/// Says that rows are examples of each other, and may be of themselves.
fn own_examples(task: &Task) -> Option<String> {
    task.shots_are_evaluated_rows().then(|| {
        format!(
            "no split is named for the examples before each row, so they come from {}, the rows that are evaluated: a row's own \
             answer may stand in its prompt; name fewshot_split or training_split",
            task.evaluated_split()
        )
    })
}

/// Where something is wrong, in a file where that is known, and what.
type Fault = (Option<(String, u64)>, String);

/// The rows that are evaluated, and those that examples come from.
fn splits(entry: &TaskEntry, task: &Task) -> Result<(Split, Split), Fault> {
    let read = |split: &str, is_pool: bool| {
        let rows = entry.datasets.rows(&task.dataset, split, &entry.base);
        let kept = rows
            .map_err(|reason| (None, reason))?
            .kept(|row| task.keeps(row, is_pool));
        kept.map_err(|(at, reason)| (Some(at), to_mend(task, &reason)))
    };
    let rows = read(task.evaluated_split(), false)?;
    let pool = match task.shot_source() {
        _ if task.num_fewshot.unwrap_or(0) == 0 => Split::default(),
        ShotSource::Samples(samples) => Split::of_samples(samples),
        ShotSource::Split(split) => read(split, true)?,
    };
    Ok((rows, pool))
}

fn located(place: &Place, (data, row): (String, u64)) -> Place {
    place.data(&data, Some(row))
}

/// What is wrong with a row, and where that can be mended besides its own file.
fn to_mend(task: &Task, reason: &str) -> String {
    format!(
        "{reason}; mend the row, or what {} makes of it",
        task.place.file.display()
    )
}

/// What the harness does and a suite of this version cannot.
fn unfit(task: &Task) -> Vec<String> {
    let mut unfit = Vec::new();
    for pipeline in &task.pipelines {
        match pipeline.chosen(task.repeats) {
            Err(reason) => unfit.push(format!(
                "filter_list: {} {reason}, which is not graded here",
                pipeline.name
            )),
            Ok(Chosen::Voted(_)) if samples(task) > 1 => unfit.extend(unfit_for_votes(task)),
            _ => {}
        }
    }
    if task.generation.top_k.is_some() {
        unfit.push("generation_kwargs.top_k: is not sent by this version".to_owned());
    }
    let until = &task.generation.until;
    if task.output_type == OutputType::GenerateUntil && until.iter().any(|text| text.contains('\0')) {
        unfit.push(format!("generation_kwargs.until: {NUL}"));
    }
    for metric in &task.metrics {
        if metric.measure == Measure::AccMutualInfo {
            unfit.push(
                "metric_list: acc_mutual_info asks for likelihoods after nothing, which is not done here".to_owned(),
            );
        }
        if let Err(aggregation) = aggregation(metric) {
            unfit.push(format!("metric_list: aggregation {aggregation} is not done here"));
        }
    }
    unfit
}

/// Votes are counted for values that are averaged alone.
fn unfit_for_votes(task: &Task) -> Option<String> {
    let is_mean = |metric: &metric::Metric| matches!(aggregation(metric), Ok(Aggregation::Mean));
    let other = task.metrics.iter().find(|metric| !is_mean(metric))?;
    Some(format!(
        "metric_list: {} of the answer that majority_vote takes is not graded here",
        other.measure.name()
    ))
}

/// What is not generated is the same however often it is asked for.
fn samples(task: &Task) -> u32 {
    match task.output_type {
        OutputType::GenerateUntil => task.repeats,
        _ => 1,
    }
}

fn aggregation(metric: &metric::Metric) -> Result<Aggregation, &'static str> {
    use metric::Aggregation as Named;
    Ok(match metric.aggregation {
        Named::Mean | Named::NanMean | Named::BrierScore if metric.measure != Measure::Perplexity => Aggregation::Mean,
        Named::Perplexity if metric.measure == Measure::Perplexity => Aggregation::Perplexity,
        Named::WeightedPerplexity => Aggregation::Perplexity,
        Named::BitsPerByte => Aggregation::BitsPerWeight,
        Named::F1 => Aggregation::F1(Average::Binary),
        Named::Native(AggregationRule::WeightedF1) => Aggregation::F1(Average::Weighted),
        Named::Native(AggregationRule::MicroF1) => Aggregation::F1(Average::Micro),
        Named::Mcc => Aggregation::Mcc,
        Named::Bleu if metric.measure == Measure::Bleu => Aggregation::Bleu,
        Named::Chrf if metric.measure == Measure::Chrf => Aggregation::Chrf,
        Named::ChrfPlusPlus if metric.measure == Measure::ChrfPlusPlus => Aggregation::Chrf,
        other => return Err(other.name()),
    })
}

fn metrics(task: &Task) -> Vec<Metric> {
    let sources = task.pipelines.iter().flat_map(|pipeline| {
        let source = match pipeline.chosen(task.repeats) {
            _ if samples(task) == 1 => MetricSource::Measure,
            Ok(Chosen::Voted(heard)) => MetricSource::VotedMeasure(heard),
            _ => MetricSource::FirstMeasure,
        };
        task.metrics.iter().map(move |_| source)
    });
    let of = |((name, metric), source): ((String, &metric::Metric), MetricSource)| Metric {
        name,
        source,
        aggregation: aggregation(metric).unwrap_or(Aggregation::Mean),
        higher_is_better: metric.higher_is_better,
    };
    task.grading().columns().zip(sources).map(of).collect()
}

fn settings(task: &Task) -> Settings {
    let generation = &task.generation;
    Settings {
        max_tokens: generation.max_gen_toks,
        temperature: generation.temperature,
        top_p: generation.top_p.unwrap_or(1.0),
        stop: generation
            .until
            .iter()
            .filter(|stop| !stop.is_empty())
            .cloned()
            .collect(),
        seed: 0,
        samples: samples(task),
    }
}

/// Packs items and stores the blocks.
struct Writer<'s> {
    sink: &'s mut dyn Sink,
    packer: Packer,
    blocks: Vec<BlockRef>,
    outlines: Vec<Digest>,
}

impl<'s> Writer<'s> {
    fn new(sink: &'s mut dyn Sink) -> Self {
        Self {
            sink,
            packer: Packer::default(),
            blocks: Vec::new(),
            outlines: Vec::new(),
        }
    }

    fn keep(&mut self, item: Item) -> Result<(), Stopped> {
        match self.packer.push(item) {
            Some((block, end)) => self.store(block, end),
            None => Ok(()),
        }
    }

    fn store(&mut self, block: tidemill_domain::Block, end: u32) -> Result<(), Stopped> {
        let outline = Outline::of(&block.items);
        self.blocks.push(self.sink.block(block, end)?);
        self.outlines.push(self.sink.outline(outline)?);
        Ok(())
    }

    fn benchmark(mut self, name: BenchmarkName, task: &Task) -> Result<Benchmark, Stopped> {
        if let Some((block, end)) = self.packer.rest() {
            self.store(block, end)?;
        }
        let items = self.packer.packed();
        let columns = self.sink.columns(self.packer.columns())?;
        let whole = WholeBenchmark {
            name,
            settings: settings(task),
            grader: GraderSpec::Pipelines {
                grading: task.grading().text(),
                by_likelihood: task.output_type != OutputType::GenerateUntil,
            },
            items: Vec::new(),
        };
        let mut benchmark = whole.located(self.blocks, items, columns);
        benchmark.outlines = self.outlines;
        benchmark.reasoning = Reasoning::None;
        benchmark.metrics = metrics(task);
        Ok(benchmark)
    }
}

/// A mean for each metric of a group, and of the groups inside of it.
fn groups(group: &tidemill_harness::Group, names: &[String], first: usize, rendered: &mut Rendered) {
    for aggregate in &group.aggregates {
        for column in group.columns(aggregate) {
            let members = members(group, &column, names, first);
            if members.is_empty() {
                continue;
            }
            let mean = match aggregate.weight_by_size {
                true => GroupMean::Micro,
                false => GroupMean::Macro,
            };
            add(&group.name, column, members, mean, &mut rendered.groups);
        }
    }
    for child in &group.children {
        if let Child::Group(inner) = child {
            groups(inner, names, first, rendered);
        }
    }
}

/// The benchmarks with a metric; one that is in several groups inside of it counts as often.
fn members(group: &tidemill_harness::Group, column: &str, names: &[String], first: usize) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    let of_task = |task: &&Task| task.grading().columns().any(|(name, _)| name == column);
    for task in group.tasks().into_iter().filter(of_task) {
        let at = names.iter().position(|name| *name == task.name);
        let Some(benchmark) = at.and_then(|at| u32::try_from(first + at).ok()) else {
            continue;
        };
        match members.iter_mut().find(|member| member.benchmark == benchmark) {
            Some(member) => member.weight += 1.0,
            None => members.push(Member { benchmark, weight: 1.0 }),
        }
    }
    members
}

/// Adds a mean; of two means of one metric the last one counts, in the place of the first.
fn add(group: &str, column: String, members: Vec<Member>, mean: GroupMean, groups: &mut Vec<Group>) {
    let full = format!("{group} {column}");
    let is_same =
        |known: &&mut Group| known.metric.as_ref() == Some(&column) && (known.name == group || known.name == full);
    if let Some(known) = groups.iter_mut().find(is_same) {
        (known.members, known.mean) = (members, mean);
        return;
    }
    let is_taken = groups.iter().any(|known| known.name == group);
    groups.push(Group {
        name: if is_taken { full } else { group.to_owned() },
        members,
        mean,
        metric: Some(column),
    });
}
