//! From rows to what a model is asked, byte for byte.

use minijinja::Value;
use serde_json::Value as Json;

use crate::metric::{self, Aggregation, Gold, Measure};
use crate::python;
use crate::rows::Row;
use crate::shots::Drawer;
use crate::task::{FEWSHOT_SEED, Field, OutputType, Task};
use crate::template::{Templates, context};

/// What is asked for one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// What is asked.
    pub request: Request,
    /// The target, for [`Request::Generate`]; the text itself for the other kinds but choices.
    pub target: Json,
    /// The choices' texts, without what stands before them, for [`Request::Choices`].
    pub choices: Vec<String>,
    /// The right choices, for [`Request::Choices`].
    pub gold: Option<Gold>,
}

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A text after a prompt.
    Generate {
        /// The prompt.
        prompt: String,
    },
    /// The likelihood of each continuation after its context.
    Choices {
        /// Contexts and continuations, one pair a choice.
        pairs: Vec<(String, String)>,
        /// Continuations whose likelihood after nothing is asked too.
        unconditional: Vec<String>,
    },
    /// The likelihood of one continuation.
    Continue {
        /// What stands before.
        context: String,
        /// What is measured.
        continuation: String,
    },
    /// The likelihood of a whole text.
    Whole {
        /// The text.
        text: String,
    },
}

/// Where examples come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShotSource<'t> {
    /// Rows of a split.
    Split(&'t str),
    /// Rows that stand in the task file.
    Samples(&'t [Row]),
}

impl Task {
    /// The split that is evaluated.
    #[must_use]
    pub fn evaluated_split(&self) -> &str {
        let split = self.test_split.as_deref().or(self.validation_split.as_deref());
        split.unwrap_or_default()
    }

    /// Where examples come from: the split or rows that are named, else the training split, else the validation split, else
    /// the evaluated rows themselves.
    #[must_use]
    pub fn shot_source(&self) -> ShotSource<'_> {
        let shots = &self.shots;
        match (&shots.split, &shots.samples) {
            (Some(split), _) => ShotSource::Split(split),
            (None, Some(samples)) => ShotSource::Samples(samples),
            (None, None) => {
                let split = self.training_split.as_deref().or(self.validation_split.as_deref());
                ShotSource::Split(split.unwrap_or_else(|| self.evaluated_split()))
            }
        }
    }

    /// Whether examples come from the evaluated rows because no other split is named, so that a row may be its own example.
    #[must_use]
    pub fn shots_are_evaluated_rows(&self) -> bool {
        let shots = &self.shots;
        let names_none = shots.split.is_none() && shots.samples.is_none();
        let has_no_other = self.training_split.is_none() && self.validation_split.is_none();
        self.num_fewshot.unwrap_or(0) > 0 && names_none && has_no_other
    }

    /// The rows of a split that count.
    ///
    /// # Errors
    /// As [`Task::keeps`].
    pub fn kept(&self, rows: Vec<Row>, are_shots: bool) -> Result<Vec<Row>, String> {
        let mut kept = Vec::new();
        for row in rows {
            if self.keeps(&row, are_shots)? {
                kept.push(row);
            }
        }
        Ok(kept)
    }

    /// Whether a row of a split counts.
    ///
    /// # Errors
    /// It lacks the column that decides.
    pub fn keeps(&self, row: &Row, is_shot: bool) -> Result<bool, String> {
        let rule = if is_shot && self.shots.split.is_some() {
            &self.shots.rows
        } else {
            &self.rows
        };
        rule.as_ref().map_or(Ok(true), |rule| rule.keeps(row))
    }
}

/// Why a row cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", .example.map(|at| format!("example {at}: ")).unwrap_or_default())]
pub struct Unasked {
    /// Which of the rows that examples come from is at fault, from 0; none where the row itself is.
    pub example: Option<usize>,
    /// The field and what is wrong with it.
    pub reason: String,
}

impl From<String> for Unasked {
    fn from(reason: String) -> Self {
        Self { example: None, reason }
    }
}

/// Asks for row after row, in their order.
#[derive(Debug)]
pub struct Asker<'t> {
    task: &'t Task,
    templates: Templates,
    columns: Vec<String>,
    pool: Vec<Row>,
    drawer: Drawer,
    texts_are_choices: bool,
    targets_are_lists: bool,
}

impl<'t> Asker<'t> {
    /// Looks at the first row, which decides what kind of task it is, and gets the examples ready.
    ///
    /// # Errors
    /// There is no row, the first one cannot be rendered, or a metric cannot be taken of such rows.
    pub fn new(task: &'t Task, first: &Row, pool: Vec<Row>) -> Result<Self, String> {
        let mut templates = Templates::default();
        for source in sources(task) {
            templates.add(source)?;
        }
        let mut asker = Self {
            task,
            templates,
            columns: first.keys().cloned().collect(),
            pool,
            drawer: Drawer::new(task.shots.sampler, FEWSHOT_SEED),
            texts_are_choices: false,
            targets_are_lists: false,
        };
        let seen = context(first);
        if task.output_type != OutputType::LoglikelihoodRolling || !is_absent(&task.text) {
            let text = asker.text(&task.text, first, &seen)?;
            asker.texts_are_choices = task.choices.is_some() && matches!(text, Json::Number(_));
        }
        asker.targets_are_lists = asker.target(&task.target, first, &seen)?.is_array();
        let unfit = task.metrics.iter().find(|metric| !metric.measure.takes_lists());
        match unfit.filter(|_| asker.targets_are_lists && !asker.texts_are_choices) {
            Some(metric) => Err(format!(
                "metric_list: {} is not defined for a doc_to_target that is a list",
                metric.measure.name()
            )),
            None => Ok(asker),
        }
    }

    /// Whether targets are lists, of which any answer counts; the first row decides.
    #[must_use]
    pub fn targets_are_lists(&self) -> bool {
        self.targets_are_lists
    }

    /// What is asked for the next row.
    ///
    /// # Errors
    /// The row, or an example that stands before it, cannot be rendered: which field, and why.
    pub fn ask(&mut self, row: &Row) -> Result<Asked, Unasked> {
        let seen = context(row);
        let task = self.task;
        let gen_prefix = self
            .resolved(task.gen_prefix.as_deref(), row, &seen)
            .map_err(named("gen_prefix"))?;
        let before = self.before(row, &seen)?;
        let choices = match &task.choices {
            Some(field) => self.choices(field, row, &seen)?,
            None => Vec::new(),
        };
        let target = self.target(&task.target, row, &seen)?;
        let text = match (task.output_type, is_absent(&task.text)) {
            (OutputType::LoglikelihoodRolling, true) => Json::String(String::new()),
            _ => self.text(&task.text, row, &seen)?,
        };
        let contexts = if self.texts_are_choices {
            let close = |choice: &String| before.clone() + &turn(choice, None, gen_prefix.as_deref(), "", "\n\n");
            choices.iter().map(close).collect()
        } else {
            let question = text_of(&text).map_err(named("doc_to_text"))?;
            vec![before + &turn(question, None, gen_prefix.as_deref(), &task.target_delimiter, "")]
        };
        Ok(self.asked(contexts, choices, text, target)?)
    }

    fn asked(&self, contexts: Vec<String>, choices: Vec<String>, text: Json, target: Json) -> Result<Asked, String> {
        let task = self.task;
        if task.output_type == OutputType::MultipleChoice && choices.len() == 1 {
            return Err("doc_to_choice: is one choice, which is right whatever a model says".to_owned());
        }
        let gold_of = if self.texts_are_choices { &text } else { &target };
        let gold = (task.output_type == OutputType::MultipleChoice).then(|| gold(gold_of, &choices));
        let gold = gold.transpose()?;
        if let Some(gold) = &gold
            && gold.is_list != self.targets_are_lists
            && !self.texts_are_choices
        {
            return Err("doc_to_target: is a list in some rows and none in others".to_owned());
        }
        if let Some(index) = self.beyond_two_classes(gold.as_ref()) {
            return Err(format!(
                "metric_list: f1 is that of choice 1 against choice 0, and choice {index} is right here"
            ));
        }
        if task.output_type == OutputType::GenerateUntil && target.as_array().is_some_and(Vec::is_empty) {
            return Err("doc_to_target: is an empty list, which no answer equals".to_owned());
        }
        let context = contexts.first().cloned().unwrap_or_default();
        let request = match task.output_type {
            OutputType::GenerateUntil => Request::Generate { prompt: context },
            OutputType::Loglikelihood => Request::Continue {
                context,
                continuation: text_of(&target).map_err(named("doc_to_target"))?.to_owned(),
            },
            OutputType::LoglikelihoodRolling => Request::Whole {
                text: text_of(&target).map_err(named("doc_to_target"))?.to_owned(),
            },
            OutputType::MultipleChoice => self.pairs(&contexts, &choices, &target),
        };
        let target = match (&request, &task.choices) {
            // With choices, the target of a generated text is one of them.
            (Request::Generate { .. }, Some(_)) => chosen(&target, &choices)?,
            _ => target,
        };
        if task.output_type == OutputType::GenerateUntil {
            self.comparable(&target)?;
        }
        Ok(Asked {
            request,
            target,
            choices,
            gold,
        })
    }

    /// Says which metric fails whatever the answer is, as one that changes texts does where the target is none.
    fn comparable(&self, target: &Json) -> Result<(), String> {
        for pipeline in &self.task.pipelines {
            let Some(filtered) = pipeline.likely() else { continue };
            for metric in &self.task.metrics {
                let measured = metric::of_answer(metric, target, self.targets_are_lists, &filtered);
                measured.map_err(|error| {
                    let (metric, filters) = (metric.measure.name(), &pipeline.name);
                    format!(
                        "metric_list: {metric} of what filter_list {filters} leaves fails for every answer: {error}"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// A right choice that F1 of two classes has no place for.
    fn beyond_two_classes(&self, gold: Option<&Gold>) -> Option<i64> {
        let mut metrics = self.task.metrics.iter();
        let is_binary = metrics.any(|metric| metric.aggregation == Aggregation::F1);
        let beyond = gold?.indices.iter().copied().find(|index| *index > 1);
        beyond.filter(|_| is_binary)
    }

    fn pairs(&self, contexts: &[String], choices: &[String], target: &Json) -> Request {
        let delimiter = &self.task.target_delimiter;
        let pairs = if self.texts_are_choices {
            let continuation = format!("{delimiter}{}", python::str(target));
            contexts
                .iter()
                .map(|context| (context.clone(), continuation.clone()))
                .collect()
        } else {
            let context = contexts.first().cloned().unwrap_or_default();
            choices
                .iter()
                .map(|choice| (context.clone(), format!("{delimiter}{choice}")))
                .collect()
        };
        let is_mutual = self
            .task
            .metrics
            .iter()
            .any(|metric| metric.measure == Measure::AccMutualInfo);
        let alone = choices.iter().map(|choice| format!("{delimiter}{choice}"));
        Request::Choices {
            pairs,
            unconditional: if is_mutual { alone.collect() } else { Vec::new() },
        }
    }

    /// Everything that stands before the row's own question.
    fn before(&mut self, row: &Row, seen: &Value) -> Result<String, Unasked> {
        let task = self.task;
        let description = self
            .resolved(Some(&task.description), row, seen)
            .map_err(named("description"))?;
        let mut before = description.unwrap_or_default();
        let count = task.num_fewshot.unwrap_or(0);
        if count == 0 {
            return Ok(before);
        }
        let may_be_own = task.shots.split == task.test_split;
        let own = may_be_own.then_some(row);
        let drawn = self.drawer.draw(&self.pool, count, own).map_err(named("num_fewshot"))?;
        for at in drawn {
            let Some(example) = self.pool.get(at) else {
                continue;
            };
            let example = self.example(example).map_err(|reason| Unasked {
                example: Some(at),
                reason,
            });
            before.push_str(&example?);
        }
        Ok(before)
    }

    fn example(&self, row: &Row) -> Result<String, String> {
        let shots = &self.task.shots;
        let seen = context(row);
        let text = self.text(&shots.text, row, &seen)?;
        let choices = match &shots.choices {
            Some(field) => self.choices(field, row, &seen)?,
            None => Vec::new(),
        };
        let target = self.target(&shots.target, row, &seen)?;
        let gen_prefix = shots.gen_prefix.as_deref().filter(|source| !source.is_empty());
        let gen_prefix = match gen_prefix {
            Some(name) => self.resolved(Some(name), row, &seen).map_err(named("gen_prefix"))?,
            None => None,
        };
        let (question, choices) = match &text {
            Json::Number(_) if self.texts_are_choices => (chosen(&text, &choices)?, Vec::new()),
            _ => (text, choices),
        };
        let question = text_of(&question).map_err(named("doc_to_text"))?;
        let answer = match &target {
            Json::Number(_) | Json::Bool(_) if !choices.is_empty() => Some(chosen(&target, &choices)?),
            Json::Array(answers) => Some(answers.first().cloned().ok_or("doc_to_target: is an empty list")?),
            Json::String(text) if text.is_empty() => None,
            Json::Null => None,
            _ => Some(target.clone()),
        };
        let answer = answer
            .as_ref()
            .map(text_of)
            .transpose()
            .map_err(named("doc_to_target"))?;
        Ok(turn(
            question,
            answer,
            gen_prefix.as_deref(),
            &shots.target_delimiter,
            &shots.fewshot_delimiter,
        ))
    }

    /// A column, or what a template makes of the row.
    fn resolved(&self, source: Option<&str>, row: &Row, seen: &Value) -> Result<Option<String>, String> {
        let Some(source) = source else {
            return Ok(None);
        };
        match row.get(source) {
            Some(Json::Null) => Ok(None),
            Some(value) => text_of(value).map(|text| Some(text.to_owned())),
            None => self.templates.render(source, seen).map(Some),
        }
    }

    fn column(&self, source: &str, row: &Row) -> Option<Result<Json, String>> {
        let is_column = self.columns.iter().any(|column| column == source);
        is_column.then(|| {
            row.get(source)
                .cloned()
                .ok_or_else(|| format!("column {source} is missing"))
        })
    }

    fn text(&self, field: &Field, row: &Row, seen: &Value) -> Result<Json, String> {
        let value = match field {
            Field::Int(number) => Ok(Json::from(*number)),
            Field::List(_) => Err("is a list".to_owned()),
            Field::Native(rule) => rule.apply(row),
            Field::Source(source) => match self.column(source, row) {
                Some(value) => value,
                None => self
                    .templates
                    .render(source, seen)
                    .and_then(|text| self.number_of(text)),
            },
        };
        value.map_err(named("doc_to_text"))
    }

    /// Digits are an index where there are choices.
    fn number_of(&self, text: String) -> Result<Json, String> {
        if self.task.choices.is_some() && python::is_digits(&text) {
            return python::literal(&text);
        }
        Ok(Json::String(text))
    }

    fn target(&self, field: &Field, row: &Row, seen: &Value) -> Result<Json, String> {
        let value = match field {
            Field::Int(number) => Ok(Json::from(*number)),
            Field::List(values) => Ok(Json::Array(values.clone())),
            Field::Native(rule) => rule.apply(row),
            Field::Source(source) => match self.column(source, row) {
                Some(value) => value,
                None => self.templates.render(source, seen).and_then(|text| {
                    if text.len() >= 2 && text.starts_with('[') && text.ends_with(']') {
                        return Ok(python::literal(&text).unwrap_or(Json::String(text)));
                    }
                    self.number_of(text)
                }),
            },
        };
        value.map_err(named("doc_to_target"))
    }

    fn choices(&self, field: &Field, row: &Row, seen: &Value) -> Result<Vec<String>, String> {
        let list = match field {
            Field::Int(number) => Err(format!("is {number}, not a list")),
            Field::List(values) => Ok(Json::Array(values.clone())),
            Field::Native(rule) => rule.apply(row),
            Field::Source(source) => match self.column(source, row) {
                Some(value) => value,
                None => self.templates.render(source, seen).and_then(|text| {
                    python::literal(&text).map_err(|error| format!("renders to {text:?}, which {error}"))
                }),
            },
        };
        let texts = list.and_then(|list| match list {
            Json::Array(values) if values.is_empty() => Err("is an empty list".to_owned()),
            Json::Array(values) => values.iter().map(|value| text_of(value).map(str::to_owned)).collect(),
            other => Err(format!("is {other}, not a list")),
        });
        texts.map_err(named("doc_to_choice"))
    }
}

fn sources(task: &Task) -> Vec<&str> {
    let shots = &task.shots;
    let fields = [Some(&task.text), Some(&task.target), task.choices.as_ref()];
    let fields = fields
        .into_iter()
        .chain([Some(&shots.text), Some(&shots.target), shots.choices.as_ref()]);
    let of_fields = fields.flatten().filter_map(|field| match field {
        Field::Source(source) => Some(source.as_str()),
        _ => None,
    });
    let prefixes = [task.gen_prefix.as_deref(), shots.gen_prefix.as_deref()];
    of_fields
        .chain(prefixes.into_iter().flatten())
        .chain([task.description.as_str()])
        .collect()
}

fn is_absent(field: &Field) -> bool {
    matches!(field, Field::Source(source) if source.is_empty())
}

fn named(field: &'static str) -> impl Fn(String) -> String {
    move |error| format!("{field}: {error}")
}

fn text_of(value: &Json) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("is {value}, not a text"))
}

/// The choice that an index names.
fn chosen(index: &Json, choices: &[String]) -> Result<Json, String> {
    let count = i64::try_from(choices.len()).unwrap_or(i64::MAX);
    let number = match index {
        Json::Bool(boolean) => i64::from(*boolean),
        other => other
            .as_i64()
            .ok_or_else(|| format!("doc_to_target: is {other}, not an index of a choice"))?,
    };
    let at = if number < 0 { number + count } else { number };
    let choice = usize::try_from(at).ok().and_then(|at| choices.get(at));
    let choice = choice.ok_or_else(|| format!("doc_to_target: is {number}, outside of {count} choices"))?;
    Ok(Json::String(choice.clone()))
}

/// The right choices. A target that names none is refused: whatever a model says would be wrong.
fn gold(target: &Json, choices: &[String]) -> Result<Gold, String> {
    let count = choices.len();
    let within = |number: i64| {
        let is_within = usize::try_from(number).is_ok_and(|at| at < count);
        is_within
            .then_some(number)
            .ok_or_else(|| format!("doc_to_target: is {number}, outside of {count} choices, which count from 0"))
    };
    let one = |value: &Json| match value {
        Json::Bool(boolean) => within(i64::from(*boolean)),
        // A number with a point is none in Python either, whatever stands behind the point.
        Json::Number(number) => number.as_i64().map_or_else(
            || Err(format!("doc_to_target: is {number}, which is no index of a choice")),
            within,
        ),
        Json::String(text) => {
            let at = choices.iter().position(|choice| choice == text);
            let at = at.and_then(|at| i64::try_from(at).ok());
            at.ok_or_else(|| format!("doc_to_target: is {text:?}, which is none of the {count} choices"))
        }
        other => Err(format!("doc_to_target: is {other}, which names no choice")),
    };
    match target {
        Json::Array(values) if values.is_empty() => {
            Err("doc_to_target: is an empty list, which no choice is in".to_owned())
        }
        Json::Array(values) => {
            if let Some(text) = values.iter().find(|value| !value.is_number()) {
                return Err(format!("doc_to_target: holds {text}; a list of targets takes indices"));
            }
            Ok(Gold {
                indices: values.iter().map(one).collect::<Result<_, _>>()?,
                is_list: true,
            })
        }
        value => Ok(Gold {
            indices: vec![one(value)?],
            is_list: false,
        }),
    }
}

/// A question and, in an example, its answer.
fn turn(question: &str, answer: Option<&str>, gen_prefix: Option<&str>, delimiter: &str, end: &str) -> String {
    let gen_prefix = gen_prefix.filter(|prefix| !prefix.is_empty());
    let mut text = question.to_owned();
    let joins = match (answer, gen_prefix) {
        (_, Some(prefix)) => needs_delimiter(question, prefix),
        (Some(_), None) => true,
        (None, None) => false,
    };
    if joins {
        text.push_str(delimiter);
    }
    match (answer, gen_prefix) {
        (Some(answer), prefix) => {
            text.push_str(&delimited(prefix.unwrap_or_default(), answer));
            text.push_str(end);
        }
        (None, Some(prefix)) => text.push_str(prefix),
        (None, None) => {}
    }
    text
}

fn needs_delimiter(before: &str, after: &str) -> bool {
    let is_space = |letter: Option<char>| letter.is_some_and(python::is_space);
    !before.is_empty() && !is_space(before.chars().next_back()) && !is_space(after.chars().next())
}

fn delimited(prefix: &str, text: &str) -> String {
    if prefix.is_empty() || text.is_empty() {
        return format!("{prefix}{text}");
    }
    let delimiter = if needs_delimiter(prefix, text) { " " } else { "" };
    format!("{prefix}{delimiter}{text}")
}

/// What a template makes of a row.
///
/// # Errors
/// The template is wrong, or the row lacks what it names.
pub fn render(source: &str, row: &Row) -> Result<String, String> {
    Templates::default().render(source, &context(row))
}
