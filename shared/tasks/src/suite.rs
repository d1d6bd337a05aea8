//! The suite file as its authors see it: every field, what it means and its default.
//!
//! These types document and describe the file, and write it; reading goes field by field in `decode`, because all errors
//! of a file are wanted at once and each with its line.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_domain::{
    CodeLimits, Continuation, JsonCheck, Normalise, Normaliser, ProgramPlace, RougeMeasure, Take, Tier, Tokenise,
    VerdictForm, Words,
};

pub(crate) const MAX_FAILURE_RATE: f64 = 0.02;
pub(crate) const MAX_TOKENS: u32 = 256;
pub(crate) const TOP_P: f64 = 1.0;
pub(crate) const REPETITION_PENALTY: f64 = 1.0;
pub(crate) const SAMPLES: u32 = 1;
pub(crate) const TAKE: Take = Take::Last;
pub(crate) const WORDS: Words = Words::Squad;
pub(crate) const ROUGE: RougeMeasure = RougeMeasure::Longest;
pub(crate) const TOKENISE: Tokenise = Tokenise::V13a;
pub(crate) const JSON_CHECK: JsonCheck = JsonCheck::Schema;
pub(crate) const SECONDS: u32 = 30;
pub(crate) const MAX_SECONDS: u32 = 600;
pub(crate) const NORMALISE: Normalise = Normalise::None;
pub(crate) const LANGUAGE: &str = "python";
pub(crate) const VOTES: u32 = 1;
pub(crate) const LABEL: &str = "GRADE";
pub(crate) const REPLY_TOKENS: u32 = 1_024;
pub(crate) const PROGRAM: ProgramPlace = ProgramPlace::Fenced;

/// A suite: a named, versioned set of benchmarks.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SuiteFile {
    /// The suite's name: 1 to 200 bytes without control characters.
    pub name: String,
    /// The suite's version, as a text. Raise it whenever results stop being comparable.
    pub version: String,
    /// How urgent the suite is. Default `in-training`.
    #[schemars(default)]
    pub tier: Tier,
    /// Share of failed samples, 0 to 1, above which an evaluation is invalid. Default 0.02.
    #[schemars(default = "defaults::max_failure_rate", range(min = 0.0, max = 1.0))]
    pub max_failure_rate: f64,
    /// Settings that stand for every benchmark that does not give its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<DefaultsTable>,
    /// The benchmarks, at least one; their names differ.
    #[schemars(length(min = 1))]
    pub benchmark: Vec<BenchmarkKind>,
    /// Means over several benchmarks. Default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub group: Vec<GroupTable>,
}

/// Settings of all benchmarks at once. A benchmark's own go before; what neither gives has the benchmark's default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct DefaultsTable {
    /// The system's turn of every benchmark with `messages`; those with `prompt` have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// How reasoning is told from the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningTable>,
    /// The cap on an answer's length in tokens, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// Sampling temperature, 0 or more; 0 is greedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub temperature: Option<f64>,
    /// Nucleus sampling: above 0, at most 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: Option<f64>,
    /// Texts that end an answer and are not part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(inner(inner(length(min = 1))))]
    pub stop: Option<Vec<String>>,
    /// Taken from a token's logit for each time that the answer holds it, -2 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -2.0, max = 2.0))]
    pub frequency_penalty: Option<f64>,
    /// Taken once from the logit of a token that the answer holds, -2 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -2.0, max = 2.0))]
    pub presence_penalty: Option<f64>,
    /// Divides the positive logits and multiplies the negative ones of tokens that prompt or answer hold: above 0, at most 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub repetition_penalty: Option<f64>,
    /// What becomes of a long answer that is interrupted: `exact` or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["exact", "never"]), with = "String")]
    pub continuation: Option<Continuation>,
    /// Base of the samples' seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Samples drawn for each item, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub samples: Option<u32>,
    /// Further samples of each item, drawn when nothing else waits for the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spare_samples: Option<u32>,
}

/// How reasoning is told from the answer. No answer is looked for in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ReasoningTable {
    /// By a name.
    Named(ReasoningName),
    /// By marks of its own.
    Marks(ReasoningMarks),
}

/// Marks of reasoning that have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReasoningName {
    /// Between `<think>` and `</think>`, or `<thinking>` and `</thinking>`.
    Think,
    /// There is none: all of the text is the answer.
    None,
}

/// The marks around reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ReasoningMarks {
    /// What begins it.
    #[schemars(length(min = 1))]
    pub open: String,
    /// What ends it.
    #[schemars(length(min = 1))]
    pub close: String,
}

/// A mean over several benchmarks.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GroupTable {
    /// The group's name, unique among groups and benchmarks.
    pub name: String,
    /// Names of benchmarks; `*` in a name stands for any text. What several of them name counts once.
    #[schemars(length(min = 1))]
    pub benchmarks: Vec<String>,
    /// `macro`: the mean of the benchmarks' means. `micro`: the mean over the items of all. Default `macro`.
    #[schemars(default, extend("enum" = ["macro", "micro"]), with = "String")]
    pub mean: MeanName,
    /// How much benchmarks count, above 0, by name or pattern; a name goes before a pattern. Default 1 each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub weights: BTreeMap<String, f64>,
    /// The metric that is averaged, of which every benchmark of the group has one with this name. Default the score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
}

/// How benchmarks become one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeanName {
    /// The mean of the benchmarks' means.
    #[default]
    Macro,
    /// The mean over the items of all.
    Micro,
}

/// Which rows of `few_shot_data` become an item's examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FewShotChoice {
    /// The first ones.
    #[default]
    First,
    /// Drawn for each item, from a seed.
    Random,
}

/// What a `[[benchmark]]` says: all of it here, or the task file that says it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum BenchmarkKind {
    /// Everything is said here.
    Written(Box<BenchmarkTable>),
    /// A task file says it.
    Task(TaskTable),
}

/// Benchmarks that a task file of lm-evaluation-harness describes: its data, prompts, settings and grader (docs/harness.md).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TaskTable {
    /// A task or a group: the path of a `.yaml` file, relative to the suite file.
    pub task: String,
    /// Which local files hold datasets of the hub: a TOML file of `[[dataset]]`, relative to the suite file. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datasets: Option<String>,
    /// Where a group's tasks are looked for, relative to the suite file. Default the task file's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_folder: Option<String>,
    /// Only the first rows of each task, this many, at least 1. Default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
    /// Solved examples before each prompt, unless the task itself asks for 0. Default the task's own count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub few_shot: Option<u32>,
    /// Stands before a text whose likelihood is asked for after nothing, for instance the tokeniser's start token. Default nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_text: Option<String>,
}

/// A benchmark: data, prompt, settings and grader. Exactly one of `prompt` and `messages` is given.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, extend("oneOf" = [{ "required": ["prompt"] }, { "required": ["messages"] }]))]
pub struct BenchmarkTable {
    /// The benchmark's name, unique in the suite: 1 to 200 bytes without control characters.
    pub name: String,
    /// The rows: a path relative to the suite file or a `file:///` URI, ending in `.jsonl`, `.csv` (either also with `.gz` or
    /// `.zst`) or `.parquet`. Values of a CSV file are texts.
    pub data: String,
    /// The column that holds a row's id, a text or an integer; ids `1` and `"1"` count as equal and equal ids are refused.
    /// Without it an id is made from the row's content, and equal rows are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The prompt, a template over the row's columns; sent to the completions endpoint as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The turns of a chat prompt, each a template; sent to the chat endpoint. The last turn is the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<MessageTable>>,
    /// The system's turn before `messages`, a template. Default that of `[defaults]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The accepted answer, a template. When it is exactly one expression that evaluates to a list, each element is accepted.
    ///
    /// For kind `likelihood`: the right choice, as an index from 0 or as its text. For kind `choice`: a letter, an index or
    /// (where `choices` is given) a text. An integer is an index; a text is looked for among the choices first.
    pub target: String,
    /// The choices: a template of exactly one expression that evaluates to a list. For kinds `likelihood`, which needs it, and
    /// `choice`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<String>,
    /// Solved examples put before each prompt, so many of the rows of `few_shot_data`, never the item itself. Default 0, or as
    /// many as `few_shot_ids`.
    #[schemars(default)]
    pub few_shot: u32,
    /// Where the examples come from, as in `data`. Equal rows count once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub few_shot_data: Option<String>,
    /// Which rows: `first`, the same for all items, or `random`, drawn for each item by a rule that never changes
    /// (docs/suites.md). Default `first`.
    #[schemars(default, extend("enum" = ["first", "random"]), with = "String")]
    pub few_shot_choice: FewShotChoice,
    /// Seed of `random`. Default 0.
    #[schemars(default)]
    pub few_shot_seed: u64,
    /// These rows, in this order, by what the column `id` holds in `few_shot_data`. Default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "Vec<TextOrInteger>")]
    pub few_shot_ids: Vec<String>,
    /// A template of one whole example with its answer, for benchmarks with `prompt`. Default the prompt, a space unless it ends in
    /// white space, and the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub few_shot_prompt: Option<String>,
    /// The turns of one example with its answer, each a template, for benchmarks with `messages`. Default the messages, and the
    /// target as the assistant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub few_shot_messages: Option<Vec<MessageTable>>,
    /// What follows each example, for benchmarks with `prompt`. Default an empty line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub few_shot_separator: Option<String>,
    /// The cap on an answer's length in tokens, always sent. At least 1; of no effect for kind `likelihood`. Default 256.
    #[schemars(default = "defaults::max_tokens")]
    pub max_tokens: u32,
    /// Sampling temperature, 0 or more; 0 is greedy. Default 0.
    #[schemars(default, range(min = 0.0))]
    pub temperature: f64,
    /// Nucleus sampling: above 0, at most 1, which keeps every token. Default 1.
    #[schemars(default = "defaults::top_p", range(min = 0.0, max = 1.0))]
    pub top_p: f64,
    /// Texts that end an answer and are not part of it. Default none.
    #[schemars(default, inner(length(min = 1)))]
    pub stop: Vec<String>,
    /// Taken from a token's logit for each time that the answer holds it, -2 to 2. Default 0.
    #[schemars(default, range(min = -2.0, max = 2.0))]
    pub frequency_penalty: f64,
    /// Taken once from the logit of a token that the answer holds, -2 to 2. Answers that are interrupted are then asked for
    /// anew, whatever `continuation` says. Default 0.
    #[schemars(default, range(min = -2.0, max = 2.0))]
    pub presence_penalty: f64,
    /// Divides the positive logits and multiplies the negative ones of tokens that prompt or answer hold: above 0, at most 2.
    /// Default 1, which changes nothing.
    #[schemars(default = "defaults::repetition_penalty", range(min = 0.0, max = 2.0))]
    pub repetition_penalty: f64,
    /// What becomes of a long answer that is interrupted: `exact` continues it from its tokens where that is the same draw,
    /// `never` asks for it anew. Default `exact`.
    #[schemars(default, extend("enum" = ["exact", "never"]), with = "String")]
    pub continuation: Continuation,
    /// Base of the samples' seeds. Default 0.
    #[schemars(default)]
    pub seed: u64,
    /// Samples drawn for each item, at least 1. Default 1.
    #[schemars(default = "defaults::samples", range(min = 1))]
    pub samples: u32,
    /// Further samples of each item, drawn when nothing else waits for the engine. They are declared like the others: all of them
    /// end, and all count. Default 0.
    #[schemars(default)]
    pub spare_samples: u32,
    /// The column that groups items which are not independent, for the standard error. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The column that names the part of the benchmark which an item belongs to; parts are also reported apart. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
    /// The column that says how much an item counts in means: a number above 0. Default 1 each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// What is measured beside the score: `pass@K`, the chance that one of K samples is right, and `maj@K`, the answer that most of
    /// K samples give; K is at most the samples of an item. Default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, inner(regex(pattern = "^((pass|maj)@[1-9][0-9]*|[A-Za-z0-9_.-]+)$")))]
    pub metrics: Vec<String>,
    /// How reasoning is told from the answer. Default `think`, or that of `[defaults]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningTable>,
    /// Only rows for which this expression is true; it sees the row's columns. Default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Only the first rows that pass the filter, this many, at least 1. Default all.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How answers are graded.
    pub grader: GraderTable,
}

/// One turn of a chat prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct MessageTable {
    /// Whose turn it is: `system` (before all others), `user` or `assistant`.
    #[schemars(extend("enum" = ["system", "user", "assistant"]))]
    pub role: String,
    /// The turn's text, a template over the row's columns.
    pub content: String,
}

/// An id as a suite writes it.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "it describes what is read elsewhere")]
enum TextOrInteger {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
}

/// How an answer is found and compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub enum GraderTable {
    /// The whole answer equals a target, white space at both ends aside.
    Exact {
        /// Compare without regard to case. Default false.
        #[schemars(default)]
        ignore_case: bool,
        /// Compare without punctuation. Default false.
        #[schemars(default)]
        ignore_punctuation: bool,
        /// What makes no difference between answer and target, in any order: `unicode` (NFKC), `latex` (dollar signs, `\text{}` and
        /// the like), `case`, `numbers` (thousands separators, zeros after the point), `punctuation`, `articles` (a, an, the),
        /// `whitespace`. Default none.
        #[schemars(default)]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        normalisers: Vec<Normaliser>,
        /// Rows may have no answer: an empty target, or an empty list, then says so, and an answer that says nothing is right.
        /// Without it an empty target is a mistake. Default false.
        #[schemars(default)]
        unanswerable: bool,
    },
    /// A pattern finds the answer, which must equal a target.
    Regex {
        /// The pattern; its first group, else the whole match, is the answer.
        pattern: String,
        /// Which match counts, `first` or `last`. Default `last`.
        #[schemars(default = "defaults::take", extend("enum" = ["first", "last"]), with = "String")]
        take: Take,
        /// Compare without regard to case. Default false.
        #[schemars(default)]
        ignore_case: bool,
        /// The number of the pattern's group that is the answer, 0 for the whole match. Default the first group, else the whole
        /// match.
        #[serde(skip_serializing_if = "Option::is_none")]
        group: Option<u32>,
        /// Patterns for answers in which the first finds nothing, tried in this order. Default none.
        #[schemars(default)]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        fallbacks: Vec<String>,
        /// What makes no difference between answer and target, as for kind `exact`. Default none.
        #[schemars(default)]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        normalisers: Vec<Normaliser>,
    },
    /// The last number of the answer equals the target as a number.
    Numeric {
        /// Narrows where the number is looked for: the last match's first group. Default everywhere.
        #[serde(skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
        /// Largest absolute difference that still counts as equal. Default 0.
        #[schemars(default, range(min = 0.0))]
        tolerance: f64,
    },
    /// The answer equals the target as mathematics: fractions, roots, units, percent, sets, intervals, formulas. It is what the last
    /// `\boxed{}` holds, else what is announced as the answer, else the last formula, else the last number.
    Math {
        /// Narrows where the answer is looked for: the last match's first group. Default everywhere.
        #[serde(skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
    },
    /// A letter or an option's text names one of the choices.
    Choice {
        /// Narrows where the letter is looked for: the last match's first group. Default everywhere.
        #[serde(skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
    },
    /// The choice with the largest summed log-probability is the answer; nothing is generated. Needs `prompt` and `choices`.
    Likelihood {
        /// What the sums are divided by before they are compared: `none`, `bytes` or `tokens`. Default `none`.
        #[schemars(default = "defaults::normalise", extend("enum" = ["none", "bytes", "tokens"]), with = "String")]
        normalise: Normalise,
    },
    /// The answer is a program, which is run in a sandbox and tested: Python by `tests`, anything else by what it prints.
    Code {
        /// What the program is written in, `python` or `command`. Default `python`.
        #[schemars(default = "defaults::language", extend("enum" = ["python", "command"]))]
        language: String,
        /// Where it stands in an answer: `fenced`, in a fenced block, else the whole answer; `continued`, the answer goes on
        /// where `prefix` ends. Default `fenced`.
        #[schemars(default = "defaults::program", extend("enum" = ["fenced", "continued"]), with = "String")]
        program: ProgramPlace,
        /// What stands before the program; a template over the row's columns. Default nothing, or the prompt for `continued`.
        #[serde(skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
        /// Python that the tests may use beside the program; a template. Default nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        prelude: Option<String>,
        /// Python that asserts; a template. Needed for `python`.
        #[serde(skip_serializing_if = "Option::is_none")]
        tests: Option<String>,
        /// Names of the program's functions that the tests call, between spaces or commas; a template. Needed for `python`.
        #[serde(skip_serializing_if = "Option::is_none")]
        entry_point: Option<String>,
        /// The absolute path of what runs the program, and its arguments. Needed for `command`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[schemars(default)]
        command: Vec<String>,
        /// The name of the file that holds the program, in the folder where the command starts. Default `program`.
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        /// What the command reads from its standard input; a template. Default nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<String>,
        /// What the command must print; a template. Needed for `command`.
        #[serde(skip_serializing_if = "Option::is_none")]
        expected: Option<String>,
        /// CPU time of the program, in seconds, at least 1. Default 10.
        #[schemars(default = "defaults::cpu_seconds", range(min = 1))]
        cpu_seconds: u32,
        /// Seconds from start to end, at least 1: a run that takes longer tells nothing and is tried again. Default 60.
        #[schemars(default = "defaults::wall_seconds", range(min = 1))]
        wall_seconds: u32,
        /// Memory of the program in MiB, at least 64. Default 1024.
        #[schemars(default = "defaults::memory_mib", range(min = 64))]
        memory_mib: u32,
    },
    /// Another model says what the answer is worth.
    Judge {
        /// The name of a judge in the graders' configuration, which holds its address and model.
        judge: String,
        /// What the judge is told first; a template. Default nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        system: Option<String>,
        /// What the judge is asked; a template over the row's columns and `question`, `target`, `format` (what a reply must end
        /// with) and `answer`, or `answer_a` and `answer_b` of a comparison.
        prompt: String,
        /// Compare the answer with another one, in both orders. Default false.
        #[schemars(default)]
        pairwise: bool,
        /// The answer that is compared with; a template. Default the target.
        #[serde(skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// The words that a judge may say, and what each is worth from 0 to 1: to the answer, or to `answer_a`. Default
        /// `{ CORRECT = 1, INCORRECT = 0 }`, of a comparison `{ A = 1, B = 0, TIE = 0.5 }`.
        #[serde(skip_serializing_if = "Option::is_none")]
        verdicts: Option<BTreeMap<String, f64>>,
        /// Instead of words, the worst and the best number that a judge may say. Default none.
        #[serde(skip_serializing_if = "Option::is_none")]
        scale: Option<[f64; 2]>,
        /// What stands before the verdict. Default `GRADE`.
        #[schemars(default = "defaults::label")]
        label: String,
        /// Where the verdict stands: `line`, the last line is label, colon and verdict; `json`, a reply ends with an object that
        /// holds the label. Default `line`.
        #[schemars(default)]
        form: VerdictForm,
        /// Verdicts that are asked for, odd; most of them decide. Default 1.
        #[schemars(default = "defaults::votes", range(min = 1, max = 99))]
        votes: u32,
        /// Of the judge; 0 is greedy, and more than one vote needs more. Default 0.
        #[schemars(default, range(min = 0, max = 2))]
        temperature: f64,
        /// The cap on the judge's reply in tokens. Default 1024.
        #[schemars(default = "defaults::reply_tokens", range(min = 1))]
        max_tokens: u32,
    },
    /// The share of words that the answer and its best target have in common: the harmonic mean of precision and recall.
    F1 {
        /// How texts are made comparable: `squad` or `drop`. Default `squad`.
        #[schemars(default = "defaults::words", extend("enum" = ["squad", "drop"]), with = "String")]
        words: Words,
        /// Rows may have no answer, as in SQuAD 2: an empty target, or an empty list, then says so, and an answer of which nothing
        /// is left is right. Without it an empty target is a mistake. For words `squad` alone. Default false.
        #[schemars(default)]
        unanswerable: bool,
    },
    /// ROUGE against the best target.
    Rouge {
        /// The score: `rouge1`, `rouge2` or `rougeL`; all three are measured. Default `rougeL`.
        #[schemars(default = "defaults::rouge", extend("enum" = ["rouge1", "rouge2", "rougeL"]), with = "String")]
        measure: RougeMeasure,
        /// Compare words of more than three letters by their stems. Default false.
        #[schemars(default)]
        stem: bool,
    },
    /// BLEU against all targets: of each answer as its score, of the corpus as a metric.
    Bleu {
        /// How texts become words: `13a`, `characters` or `none`. Default `13a`.
        #[schemars(default = "defaults::tokenise", extend("enum" = ["13a", "characters", "none"]), with = "String")]
        tokenise: Tokenise,
    },
    /// chrF against the best target: of each answer as its score, of the corpus as a metric.
    Chrf {
        /// Words too, as chrF++ has them. Default false.
        #[schemars(default)]
        words: bool,
    },
    /// Instructions that a program can check, IFEval's. It needs no target: `target` may be empty.
    Instructions {
        /// The ids of a row's instructions; a template that gives a list.
        instructions: String,
        /// The arguments of each, as maps; a template that gives a list. What is null there does not count.
        arguments: String,
        /// The score is that of the loose checks. Both are measured. Default false.
        #[schemars(default)]
        loose: bool,
    },
    /// JSON in the answer. `target` may be empty unless `check` is `equal`.
    #[serde(rename = "json_schema")]
    JsonSchema {
        /// What it must be: `valid` JSON at all, as the `schema` says, or `equal` to a target. Default `schema`.
        #[schemars(default = "defaults::json_check", extend("enum" = ["valid", "schema", "equal"]), with = "String")]
        check: JsonCheck,
        /// The schema, as JSON; a template over the row's columns. Needed for `schema`.
        #[serde(skip_serializing_if = "Option::is_none")]
        schema: Option<String>,
        /// The file of a schema of all rows, relative to the suite file, instead of `schema`.
        #[serde(skip_serializing_if = "Option::is_none")]
        schema_file: Option<String>,
    },
    /// A program of your own, which reads and writes a line of JSON an answer. It runs only where the graders' configuration
    /// names it, in `[grader] commands`. `target` may be empty.
    Command {
        /// The program and its arguments.
        #[schemars(length(min = 1), inner(length(min = 1)))]
        command: Vec<String>,
        /// How long one answer may take, 1 to 600. Default 30.
        #[schemars(default = "defaults::seconds", range(min = 1, max = 600))]
        seconds: u32,
        /// What else the program is given of a row: names, each with a template. A value that is no text becomes JSON.
        #[schemars(default)]
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        material: BTreeMap<String, String>,
    },
}

/// The JSON Schema of a suite file, for editors and checks outside this program.
#[must_use]
pub fn suite_schema() -> serde_json::Value {
    schemars::schema_for!(SuiteFile).to_value()
}

mod defaults {
    //! The defaults as functions, which is how a schema's attributes take them.

    pub(super) fn max_failure_rate() -> f64 {
        super::MAX_FAILURE_RATE
    }

    pub(super) fn label() -> &'static str {
        super::LABEL
    }

    pub(super) fn votes() -> u32 {
        super::VOTES
    }

    pub(super) fn reply_tokens() -> u32 {
        super::REPLY_TOKENS
    }

    pub(super) fn language() -> &'static str {
        super::LANGUAGE
    }

    pub(super) fn program() -> super::ProgramPlace {
        super::PROGRAM
    }

    pub(super) fn cpu_seconds() -> u32 {
        super::CodeLimits::default().cpu_seconds
    }

    pub(super) fn wall_seconds() -> u32 {
        super::CodeLimits::default().wall_seconds
    }

    pub(super) fn memory_mib() -> u32 {
        super::CodeLimits::default().memory_mib
    }

    pub(super) fn max_tokens() -> u32 {
        super::MAX_TOKENS
    }

    pub(super) fn top_p() -> f64 {
        super::TOP_P
    }

    pub(super) fn repetition_penalty() -> f64 {
        super::REPETITION_PENALTY
    }

    pub(super) fn samples() -> u32 {
        super::SAMPLES
    }

    pub(super) fn take() -> tidemill_domain::Take {
        super::TAKE
    }

    pub(super) fn words() -> tidemill_domain::Words {
        super::WORDS
    }

    pub(super) fn rouge() -> tidemill_domain::RougeMeasure {
        super::ROUGE
    }

    pub(super) fn tokenise() -> tidemill_domain::Tokenise {
        super::TOKENISE
    }

    pub(super) fn json_check() -> tidemill_domain::JsonCheck {
        super::JSON_CHECK
    }

    pub(super) fn seconds() -> u32 {
        super::SECONDS
    }

    pub(super) fn normalise() -> tidemill_domain::Normalise {
        super::NORMALISE
    }
}
