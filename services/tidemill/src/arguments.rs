//! The command line: every command with its flags, examples and exit codes, as `--help` shows them.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand, ValueEnum};
use tidemill_domain::{EngineKind, EvaluationId, RunId, Step, TeamId};

use crate::compare::{self, Operand};

/// Evaluates model checkpoints fast enough that the results still matter.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tidemill demo                                            evaluate the shipped checkpoints, live
  tidemill evaluate --suite suite.toml --checkpoint DIR    evaluate a checkpoint on the embedded engine
  tidemill evaluate --suite suite.toml --endpoint http://127.0.0.1:8000 --model NAME
  tidemill results --run llama                             the table of a run
  tidemill doctor                                          what is wrong here, and what to do

Exit codes: 0 done; 1 done, but an evaluation is invalid or a threshold failed; 2 could not be done.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Evaluate the shipped checkpoints of a tiny model on this machine, and show how
    Demo(Demo),
    /// Evaluate one checkpoint or endpoint to its end; the same command again resumes
    Evaluate(Box<Evaluate>),
    /// Run all services on this machine until a signal
    Up(Up),
    /// Publish that a checkpoint was written, or that a run went back
    Announce(Announce),
    /// Show results
    Results(Results),
    /// Show every item of an evaluation: prompt, completion, grade
    Items(Items),
    /// Compare two evaluations item by item: is the second better, and how sure is that
    Compare(Compare),
    /// Grade the stored completions of an evaluation again, beside its first grades
    Regrade(Regrade),
    /// Check a suite file, or show what it sends and how that is graded, without sending anything
    Suite(Suite),
    /// Show where the items of ended evaluations are, or archive one now
    Archive(Archive),
    /// Follow results as they come
    Watch(Watch),
    /// Show, retry or drop what could not be processed
    Dead(Dead),
    /// Check this machine, the broker, the streams and the store
    Doctor(Doctor),
    /// Compare the broker's streams with their declarations, or apply them
    Streams(Streams),
    /// Show or clear what was generated before, which evaluations of the same weights share
    Cache(Cache),
    /// Run a loader as a process of its own
    Loader(tidemill_service::Args),
    /// Run a generator as a process of its own
    Generator(tidemill_service::Args),
    /// Run a grader as a process of its own
    Grader(tidemill_service::Args),
    /// Run an aggregator as a process of its own
    Aggregator(tidemill_service::Args),
    /// Serve a checkpoint with the embedded engine, or simulate an engine (OpenAI-compatible)
    Engine(Box<Engine>),
    /// Run a program that ends when its parent does
    #[command(hide = true)]
    ExecWithParent(ExecWithParent),
}

#[derive(Debug, clap::Args)]
#[command(override_usage = "tidemill engine --checkpoint <DIR> [OPTIONS]\n       tidemill engine --simulate <FILE>")]
#[command(after_help = "\
Examples:
  tidemill engine --checkpoint runs/llama/step-900
  tidemill engine --simulate ops/bench/engine.toml

A simulated engine has no model: its file says how fast it is, how long its answers are, how many are right, and what goes
wrong. All keys and their defaults are in ops/bench/engine.toml; an empty file is a good start:

  replicas = 2
  speed = 20.0              # virtual seconds in one of the wall's
  [engine]
  max_num_seqs = 256
  step = \"8ms\"
  [[fault]]
  kind = \"overloaded\"
  retry_after = \"2s\"
  requests = [100, 300]

It prints one address a replica. GET /simulate/report says what it saw and how fast that could have been done.")]
pub(crate) struct Engine {
    /// Simulate an engine as this file says; no other option goes with it
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub(crate) simulate: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) embedded: Option<tidemill_engine::EngineArgs>,
}

/// Where the broker and the data are.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Place {
    #[command(flatten)]
    pub(crate) common: tidemill_service::Args,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("served").required(true))]
#[command(after_help = "\
Examples:
  tidemill evaluate --suite suite.toml --checkpoint runs/llama/step-900 --run llama --step 900
  tidemill evaluate --suite suite.toml --endpoint http://a:8000 --endpoint http://b:8000 --model llama --json

Without --nats or NATS_URL a broker of its own is started in the data directory. The same command again resumes; when all
is done it answers from what is stored, without a request to the engine.")]
pub(crate) struct Evaluate {
    /// Suite file (TOML)
    #[arg(long)]
    pub(crate) suite: PathBuf,
    /// Base address of a server that holds the checkpoint; several times for replicas
    #[arg(long, requires = "model", group = "served")]
    pub(crate) endpoint: Vec<String>,
    /// The model name that the server serves
    #[arg(long, requires = "endpoint")]
    pub(crate) model: Option<String>,
    /// Folder of a checkpoint, served by the embedded engine
    #[arg(long, group = "served")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// The training run
    #[arg(long)]
    pub(crate) run: Option<RunId>,
    /// The training step
    #[arg(long, value_parser = step, default_value = "0")]
    pub(crate) step: Step,
    /// The team that pays
    #[arg(long)]
    pub(crate) team: Option<TeamId>,
    /// Most requests in flight over all endpoints
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_in_flight: Option<u32>,
    /// Draw every sample anew, as an evaluation of its own: nothing is taken from the generation cache or left in it
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// How long the return of an engine that was lost is waited for
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) engine_patience: Option<Duration>,
    /// Which engine the endpoints are, for instance behind a gateway; overrides `engine_kind` of `[loader]`. Found when not given
    #[arg(long, value_name = "KIND", requires = "endpoint", value_parser = PossibleValuesParser::new(EngineKind::ALL.map(EngineKind::label)))]
    pub(crate) engine_kind: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

fn step(text: &str) -> Result<Step, std::num::ParseIntError> {
    text.parse().map(Step)
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill demo
  tidemill demo --fresh --json")]
pub(crate) struct Demo {
    /// Folder with `suite.toml` and `checkpoints/`; found beside this program when not given
    #[arg(long)]
    pub(crate) from: Option<PathBuf>,
    /// Forget earlier runs of the demo first
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Print the results as JSON, one evaluation a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill up --config tidemill.toml --admin 127.0.0.1:9090
  tidemill up --dump-config")]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill announce runs/llama/step-900 --run llama --step 900 --suite suites/smoke.toml
  tidemill announce --run llama --step 800 --rolled-back")]
pub(crate) struct Announce {
    /// Folder of the checkpoint
    #[arg(required_unless_present_any = ["rolled_back", "endpoint"])]
    pub(crate) path: Option<PathBuf>,
    /// The training run
    #[arg(long)]
    pub(crate) run: RunId,
    /// The training step; with --rolled-back the last one that still counts
    #[arg(long, value_parser = step)]
    pub(crate) step: Step,
    /// The team that pays
    #[arg(long)]
    pub(crate) team: Option<TeamId>,
    /// Name or file of a suite; several times for several. Without it the loader's default suites
    #[arg(long)]
    pub(crate) suite: Vec<String>,
    /// Address of a server that already holds the checkpoint, instead of a folder
    #[arg(long, requires = "model", conflicts_with = "path")]
    pub(crate) endpoint: Vec<String>,
    /// The model name that the server serves
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Draw every sample anew, as an evaluation of its own: nothing is taken from the generation cache or left in it
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// The run went back: later steps are void
    #[arg(long)]
    pub(crate) rolled_back: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// One array of objects.
    Json,
    /// One line a benchmark, with its score.
    Csv,
    /// One line a figure: scores, metrics, parts and groups; the column `row` says which.
    CsvLong,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill results --run llama
  tidemill results --format csv > results.csv
  tidemill results --format csv-long > figures.csv

csv has one line a benchmark. csv-long has the same columns for every figure: a benchmark's score, its metrics, its parts, then
the groups; filter or pivot by `row` (score, metric, subset, group), `metric`, `subset` and `group`.

The table lists the regrades of an evaluation behind it; JSON and CSV have the first grades alone.")]
pub(crate) struct Results {
    /// Only this run
    #[arg(long)]
    pub(crate) run: Option<RunId>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// The same as --format json
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill items 8af03198ea3b1495 --benchmark chat
  tidemill items 8af03198ea3b1495 --outcome truncated --json | head")]
pub(crate) struct Items {
    /// The evaluation, as `results` shows it
    pub(crate) evaluation: EvaluationId,
    /// Only this benchmark
    #[arg(long)]
    pub(crate) benchmark: Option<String>,
    /// Only this outcome, for instance `truncated`
    #[arg(long)]
    pub(crate) outcome: Option<String>,
    /// With the grades of this regrade instead of the first ones
    #[arg(long, value_name = "N")]
    pub(crate) regrade: Option<u32>,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill compare llama@800 llama@900
  tidemill compare 8af03198ea3b1495 51c2c5a9f0e77d1b --json
  tidemill compare base@0 llama@900 --suite smoke --allow engine --max-drop 0.01
  tidemill compare llama@800 llama@900 --metric pass@8
  tidemill compare llama@900 llama@900/regrade-1 --allow grader --allow grader-version

Differences are the second's mean minus the first's, over the items that both have a score of; with --metric the second's
figure minus the first's. /regrade-N behind an evaluation takes the grades of its N-th regrade. Evaluations that are not alike
are refused with what differs; --allow KEY compares them all the same, and the output says so. docs/statistics.md has every
figure. Exit codes: 0 done; 1 done, but something dropped by more than --max-drop; 2 could not be done.")]
pub(crate) struct Compare {
    /// The first evaluation: its id as `results` shows it, or RUN@STEP; of a regrade with /regrade-N behind it
    #[arg(value_name = "A")]
    pub(crate) first: Operand,
    /// The second
    #[arg(value_name = "B")]
    pub(crate) second: Operand,
    /// Compare this metric, as `results` names it, instead of the score
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    /// Only evaluations of this suite, where RUN@STEP has several
    #[arg(long)]
    pub(crate) suite: Option<String>,
    /// Compare although this differs; may be given several times
    #[arg(long, value_name = "KEY", value_parser = compare::key, long_help = compare::keys())]
    pub(crate) allow: Vec<String>,
    /// Exit 1 when a benchmark or a group is worse by more than this: of the score 0.01 is one point, of a metric it is as the
    /// metric is
    #[arg(long, value_name = "DROP", value_parser = drop_of)]
    pub(crate) max_drop: Option<f64>,
    /// Print everything as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

fn drop_of(text: &str) -> Result<f64, String> {
    let most = text.parse().ok().filter(|most: &f64| most.is_finite() && *most >= 0.0);
    most.ok_or_else(|| "it is a number from 0 on".to_owned())
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill regrade 8af03198ea3b1495
  tidemill regrade 8af03198ea3b1495 --failed
  tidemill regrade 8af03198ea3b1495 --grader graders.toml --json

The file holds graders as a suite does: [grader] for all benchmarks, or [[benchmark]] with name and [benchmark.grader].
Beside them, reasoning and metrics, for all or for one. Without a file each benchmark's own grader grades again, as this
version has it. No engine is asked, and the first grades stay.

Exit codes: 0 done; 1 done, but the new result is invalid; 2 could not be done.")]
pub(crate) struct Regrade {
    /// The evaluation, as `results` shows it
    pub(crate) evaluation: EvaluationId,
    /// A TOML file with other graders, reasoning or metrics
    #[arg(long, value_name = "FILE")]
    pub(crate) grader: Option<PathBuf>,
    /// Only samples that a grader failed (grader_error, ungraded) or never graded; the others keep their grades
    #[arg(long, conflicts_with = "grader")]
    pub(crate) failed: bool,
    /// Print both results and every change as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill suite check suite.toml
  tidemill suite show suite.toml gsm8k 17 --tokenizer runs/llama/step-900
  tidemill suite schema > suite.schema.json

A suite's first line `#:schema ./suite.schema.json` lets editors with a TOML language server (taplo) complete and check it.
Every key is in docs/suites.md.

Exit codes: 0 done; 2 the suite cannot be used, with every reason.")]
pub(crate) struct Suite {
    /// What to do
    #[command(subcommand)]
    pub(crate) action: SuiteAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SuiteAction {
    /// Render everything, and say what is wrong with it or what it amounts to
    Check(SuiteCheck),
    /// Show an item exactly as it is sent, and what its answers are compared with
    Show(SuiteShow),
    /// Print the JSON Schema of suite files, for editors
    Schema,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SuiteCheck {
    /// Suite file (TOML)
    pub(crate) file: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SuiteShow {
    /// Suite file (TOML)
    pub(crate) file: PathBuf,
    /// Only this benchmark; without it, an item of each
    pub(crate) benchmark: Option<String>,
    /// The item's id, or its number from 0; without it the first
    pub(crate) item: Option<String>,
    /// A checkpoint's tokenizer.json, or its folder, by which tokens are counted
    #[arg(long, value_name = "PATH")]
    pub(crate) tokenizer: Option<PathBuf>,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill archive list
  tidemill archive now 8af03198ea3b1495 --purge")]
pub(crate) struct Archive {
    /// What to do
    #[command(subcommand)]
    pub(crate) action: ArchiveAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveAction {
    /// Show every ended evaluation, and where its items are
    List(ArchiveList),
    /// Archive an evaluation that ended, without waiting for its time
    Now(ArchiveNow),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ArchiveList {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ArchiveNow {
    /// The evaluation, as `results` shows it
    pub(crate) evaluation: EvaluationId,
    /// Also take its completions and grades out of the broker
    #[arg(long)]
    pub(crate) purge: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill watch --run llama
  tidemill watch --json --nats nats://broker:4222")]
pub(crate) struct Watch {
    /// Only this run
    #[arg(long)]
    pub(crate) run: Option<RunId>,
    /// The messages of the RESULT stream, one a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill doctor
  tidemill doctor --json --nats nats://broker:4222

Exit codes: 0 all is well; 1 something is wrong.")]
pub(crate) struct Doctor {
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill streams plan --nats nats://broker:4222
  tidemill streams check --json")]
pub(crate) struct Streams {
    /// What to do
    #[command(subcommand)]
    pub(crate) action: StreamsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StreamsAction {
    /// Show what `apply` would change
    Plan(StreamsArgs),
    /// Make streams, consumers and buckets as declared
    Apply(StreamsArgs),
    /// Fail (exit 1) when the broker is not as declared
    Check(StreamsArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct StreamsArgs {
    /// Print the differences as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill dead list --evaluation 8af03198ea3b1495
  tidemill dead show 17
  tidemill dead retry 17 18
  tidemill dead retry --stage grader               after the graders were upgraded
  tidemill dead drop --all --reason 'cut by the disk that failed'

A letter is `held` while its item has no outcome: its evaluation stays open until it is retried or dropped. It is `recorded`
when its item ended, as a failure or otherwise, and `kept` when it belongs to no item.

Exit codes: 0 done; 1 done, but for some letters a retry has no effect; 2 could not be done.")]
pub(crate) struct Dead {
    /// What to do
    #[command(subcommand)]
    pub(crate) action: DeadAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadAction {
    /// List the dead letters
    List(DeadList),
    /// Show one with its content
    Show(DeadShow),
    /// Have messages delivered again, as they came; their letters are then removed
    Retry(DeadRetry),
    /// Give messages up: their items end as failures, and their letters are removed
    Drop(DeadDrop),
}

/// Which letters.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct DeadFilter {
    /// Only of this service: loader, generator or grader
    #[arg(long)]
    pub(crate) stage: Option<String>,
    /// Only of this evaluation
    #[arg(long)]
    pub(crate) evaluation: Option<EvaluationId>,
}

/// The letters to act on: named, filtered, or all.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct DeadSelection {
    /// Sequences, as `list` shows them
    #[arg(value_name = "SEQ", conflicts_with_all = ["all", "stage", "evaluation"])]
    pub(crate) sequences: Vec<u64>,
    /// Every letter
    #[arg(long)]
    pub(crate) all: bool,
    /// Those of this service: loader, generator or grader
    #[arg(long)]
    pub(crate) stage: Option<String>,
    /// Those of this evaluation
    #[arg(long)]
    pub(crate) evaluation: Option<EvaluationId>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeadList {
    #[command(flatten)]
    pub(crate) filter: DeadFilter,
    /// One array of objects
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeadShow {
    /// Its sequence, as `list` shows it
    #[arg(value_name = "SEQ")]
    pub(crate) sequence: u64,
    /// One object, with the whole payload in hexadecimal
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeadRetry {
    #[command(flatten)]
    pub(crate) selection: DeadSelection,
    /// One JSON object a letter
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeadDrop {
    #[command(flatten)]
    pub(crate) selection: DeadSelection,
    /// Why, for whoever reads the item's record
    #[arg(long, default_value = "no reason given")]
    pub(crate) reason: String,
    /// One JSON object a letter
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidemill cache stat --json
  tidemill cache clear --model llama-8b
  tidemill cache clear

An evaluation that is not to use the cache takes --no-cache; [cache] enabled = false switches it off.")]
pub(crate) struct Cache {
    /// What to do
    #[command(subcommand)]
    pub(crate) action: CacheAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheAction {
    /// Show how many generations are kept, of which models, and the bound
    Stat(CacheStat),
    /// Remove generations: later evaluations ask for them anew
    Clear(CacheClear),
}

#[derive(Debug, clap::Args)]
pub(crate) struct CacheStat {
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CacheClear {
    /// Only those of one model: the name that a server serves, a checkpoint's address, or a group as `cache stat` shows it
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Print what was removed as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExecWithParent {
    /// Process id of the parent
    #[arg(long)]
    pub(crate) parent: u32,
    /// Program and arguments
    #[arg(trailing_var_arg = true, required = true)]
    pub(crate) program: Vec<String>,
}
