//! What a task file says, resolved.

use serde_json::{Map, Value as Json};

use crate::filter::Step;
use crate::metric::Metric;
use crate::native::{RowRule, TextRule};
use crate::refusal::Place;

/// The seed of the draw of examples, unless a run says otherwise.
pub const FEWSHOT_SEED: u64 = 1234;
/// The cap on an answer's length where a task gives none, in tokens.
pub const MAX_GEN_TOKS: u32 = 256;

/// A task that means here what it means in lm-evaluation-harness.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Its name in tables.
    pub alias: Option<String>,
    /// The file that defines it.
    pub place: Place,
    /// Where its rows come from.
    pub dataset: Dataset,
    /// The split that examples come from when nothing else is said.
    pub training_split: Option<String>,
    /// Evaluated where there is no test split.
    pub validation_split: Option<String>,
    /// The split that is evaluated.
    pub test_split: Option<String>,
    /// Which rows are kept.
    pub rows: Option<RowRule>,
    /// The prompt's question.
    pub text: Field,
    /// The accepted answer, its index among the choices, or a list of answers.
    pub target: Field,
    /// The choices.
    pub choices: Option<Field>,
    /// Stands before everything: a column or a template.
    pub description: String,
    /// Stands before the assistant's answer.
    pub gen_prefix: Option<String>,
    /// Between question and answer.
    pub target_delimiter: String,
    /// Between examples.
    pub fewshot_delimiter: String,
    /// How examples are made.
    pub shots: Shots,
    /// How many examples, where the file says it; none otherwise.
    pub num_fewshot: Option<usize>,
    /// What is asked of the model.
    pub output_type: OutputType,
    /// How answers are generated.
    pub generation: Generation,
    /// The filters, each with a name of its own.
    pub pipelines: Vec<Pipeline>,
    /// What is measured.
    pub metrics: Vec<Metric>,
    /// Answers to each request.
    pub repeats: u32,
    /// The task's own version, as it is printed.
    pub version: Option<String>,
    /// What the file says and has no effect here.
    pub notices: Vec<String>,
}

/// Where rows come from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dataset {
    /// A name on the hub, or a format: `json`, `csv`, `parquet`.
    pub path: String,
    /// The configuration of a dataset on the hub.
    pub name: Option<String>,
    /// Files by split, for a format; relative to the folder that the program runs in.
    pub data_files: Vec<(String, Vec<String>)>,
    /// The folder before `data_files`.
    pub data_dir: Option<String>,
    /// The names of CSV columns, for files without a header.
    pub column_names: Option<Vec<String>>,
}

/// What is asked of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputType {
    /// A text.
    GenerateUntil,
    /// The likelihood of each choice.
    MultipleChoice,
    /// The likelihood of the target.
    Loglikelihood,
    /// The likelihood of a whole text.
    LoglikelihoodRolling,
}

impl OutputType {
    /// Every kind.
    pub const ALL: [Self; 4] = [
        Self::GenerateUntil,
        Self::MultipleChoice,
        Self::Loglikelihood,
        Self::LoglikelihoodRolling,
    ];

    /// Its name in task files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GenerateUntil => "generate_until",
            Self::MultipleChoice => "multiple_choice",
            Self::Loglikelihood => "loglikelihood",
            Self::LoglikelihoodRolling => "loglikelihood_rolling",
        }
    }
}

/// Something that is made of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// The same for every row.
    Int(i64),
    /// A column's name, or a template where no column has this name.
    Source(String),
    /// The same list for every row.
    List(Vec<Json>),
    /// A function that is done natively.
    Native(TextRule),
}

/// How examples are chosen and written.
#[derive(Debug, Clone, PartialEq)]
pub struct Shots {
    /// How they are chosen.
    pub sampler: Sampler,
    /// The split they come from.
    pub split: Option<String>,
    /// Examples written in the file, where no split is given.
    pub samples: Option<Vec<Map<String, Json>>>,
    /// Which rows of the split are kept.
    pub rows: Option<RowRule>,
    /// The question, where it differs from the task's.
    pub text: Field,
    /// The answer, where it differs.
    pub target: Field,
    /// The choices, where they differ.
    pub choices: Option<Field>,
    /// Before the answer: a column or a template.
    pub gen_prefix: Option<String>,
    /// Between question and answer.
    pub target_delimiter: String,
    /// After each example.
    pub fewshot_delimiter: String,
}

/// How examples are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampler {
    /// Drawn with the seed, anew for each row.
    Seeded,
    /// The first ones.
    FirstN,
}

/// How answers are generated.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// Texts that end an answer.
    pub until: Vec<String>,
    /// The cap in tokens.
    pub max_gen_toks: u32,
    /// 0 is greedy.
    pub temperature: f64,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// The likeliest tokens that are kept.
    pub top_k: Option<i64>,
}

impl Default for Generation {
    fn default() -> Self {
        Self {
            until: Vec::new(),
            max_gen_toks: MAX_GEN_TOKS,
            temperature: 0.0,
            top_p: None,
            top_k: None,
        }
    }
}

/// A chain of filters, under whose name the values of metrics are reported.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// Its name; `none` where the file gives no filters.
    pub name: String,
    /// What is done to the answers, in order.
    pub steps: Vec<Step>,
}

impl Task {
    /// The shapes of the functions that are done natively for it.
    pub fn native_shapes(&self) -> impl Iterator<Item = &'static str> {
        let of_field = |field: &Field| match field {
            Field::Native(rule) => Some(rule.shape()),
            _ => None,
        };
        let shots = &self.shots;
        let fields = [Some(&self.text), Some(&self.target), self.choices.as_ref()];
        let shot_fields = [Some(&shots.text), Some(&shots.target), shots.choices.as_ref()];
        let rules = [self.rows.as_ref(), shots.rows.as_ref()];
        let fields = fields.into_iter().chain(shot_fields).flatten().filter_map(of_field);
        let aggregations = self.metrics.iter().filter_map(|metric| metric.aggregation.shape());
        fields
            .chain(rules.into_iter().flatten().map(RowRule::shape))
            .chain(aggregations)
    }
}
