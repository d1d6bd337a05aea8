//! Progress while evaluations run: bars on a terminal, plain lines elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::bail;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidemill_domain::{BenchmarkName, BenchmarkResult, EvaluationId, EvaluationState, GroupId, OutcomeCounts};
use tidemill_service::{Context, Obstacle, Wait, now};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::held::Held;
use crate::roles::Roles;
use crate::view::{self, Following, Known, News};
use crate::{output, replicas, sheet, table};

/// How often a plain progress line may be printed for an evaluation.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

/// How often requests in flight are asked for.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Follows evaluations to their ends, showing progress. `roles` are the services of this process, where it has any.
///
/// # Errors
/// When a service of this process cannot go on.
pub(crate) async fn follow(
    context: &Context,
    following: &mut Following,
    wanted: &Wanted,
    mut roles: Option<&mut Roles>,
    quiet: bool,
) -> anyhow::Result<()> {
    let mut screen = Screen::new(quiet);
    let mut held = Held::default();
    let mut replicas = replicas::News::default();
    let mut ask = interval(ASK_EVERY);
    ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if wanted.are_ended(following) {
            screen.finish(following, wanted);
            return Ok(());
        }
        tokio::select! {
            news = following.next() => if let News::Event(event) = news && wanted.includes(&event.evaluation) {
                screen.state(&following.view, &event.evaluation);
            },
            error = failed(&mut roles) => return Err(error),
            _ = ask.tick() => {
                screen.waits(&lasting(context));
                give_up_when_stalled(context)?;
                held.look(context).await;
                for news in wanted.evaluations.iter().filter_map(|evaluation| held.news(evaluation)) {
                    screen.warn(&news);
                }
                for news in replicas.look(&context.broker, &wanted.groups(following)).await {
                    screen.warn(&news);
                }
                screen.refresh(context, following, wanted).await;
            }
        }
    }
}

/// How long nothing may be stored before the command gives up. Services never do; a command has someone to tell.
const STALL_PATIENCE: Duration = Duration::from_secs(30);

/// # Errors
/// When nothing could be stored for longer than the patience: a stream, its disk or the object store is full. Graders that
/// are behind are waited for, as engines are.
fn give_up_when_stalled(context: &Context) -> anyhow::Result<()> {
    let mut waits = context.waits.all().into_iter();
    let is_too_long = |wait: &Wait| wait.on != Obstacle::Grading && wait.since.elapsed() >= STALL_PATIENCE;
    match waits.find(is_too_long) {
        None => Ok(()),
        Some(wait) => bail!(
            "nothing more is stored in {} ({}): {}, then run the same command again; nothing finished is lost",
            wait.on.label(),
            wait.reason,
            wait.on.remedy()
        ),
    }
}

/// A wait that is worth a line: what passes at the next try is not.
const SAID_AFTER: Duration = Duration::from_secs(2);

fn lasting(context: &Context) -> Vec<Wait> {
    let mut waits = context.waits.all();
    waits.retain(|wait| wait.since.elapsed() >= SAID_AFTER);
    waits
}

/// Runs `task` to its end, and says what it waits for meanwhile.
///
/// # Errors
/// When nothing could be stored for longer than the patience.
pub(crate) async fn with_waits<T>(context: &Context, task: impl Future<Output = T>) -> anyhow::Result<T> {
    let mut screen = Screen::new(true);
    let mut ask = interval(ASK_EVERY);
    let mut task = std::pin::pin!(task);
    loop {
        tokio::select! {
            done = &mut task => return Ok(done),
            _ = ask.tick() => {
                screen.waits(&lasting(context));
                give_up_when_stalled(context)?;
            }
        }
    }
}

async fn failed(roles: &mut Option<&mut Roles>) -> anyhow::Error {
    match roles {
        Some(roles) => roles.failed().await,
        None => std::future::pending().await,
    }
}

/// The evaluations that are waited for.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Their ids.
    pub(crate) evaluations: BTreeSet<EvaluationId>,
}

impl Wanted {
    fn includes(&self, id: &EvaluationId) -> bool {
        self.evaluations.contains(id)
    }

    /// The groups that serve them.
    fn groups(&self, following: &Following) -> BTreeSet<GroupId> {
        let known = self.evaluations.iter().filter_map(|id| following.view.get(id));
        let live = known.filter(|known| !known.event.state.is_ended());
        live.map(|known| known.event.group.clone()).collect()
    }

    /// Every one has ended.
    pub(crate) fn are_ended(&self, following: &Following) -> bool {
        let ended = |id| following.view.get(id).is_some_and(|known| known.event.state.is_ended());
        self.evaluations.iter().all(ended)
    }
}

struct Screen {
    bars: Option<MultiProgress>,
    rows: BTreeMap<(EvaluationId, String), ProgressBar>,
    printed: BTreeMap<EvaluationId, (Instant, u64)>,
    states: BTreeMap<EvaluationId, EvaluationState>,
    /// What was said to be waited for.
    waits: Vec<Obstacle>,
    quiet: bool,
    layout: Layout,
}

/// What a line of a benchmark has room for, by the columns of the terminal.
#[derive(Debug, Clone, Copy)]
struct Layout {
    columns: usize,
}

impl Layout {
    /// Columns below which there is no bar.
    const WITH_BAR: usize = 110;
    /// Columns that a short name takes.
    const NAME: usize = 28;

    const fn has_bar(self) -> bool {
        self.columns >= Self::WITH_BAR
    }

    const fn template(self) -> &'static str {
        if self.has_bar() {
            "{prefix:28} {bar:10} {pos:>5}/{len:5} {msg}"
        } else {
            "{prefix} {pos}/{len} {msg}"
        }
    }

    /// Columns that are left for the message of a benchmark.
    fn room(self, name: &str) -> usize {
        let name = name.chars().count();
        let counts = " 12345/12345 ".len();
        let taken = if self.has_bar() {
            name.max(Self::NAME) + " 1234567890".len() + counts
        } else {
            name + counts
        };
        self.columns.saturating_sub(taken)
    }
}

/// What stands behind the count of a benchmark's samples.
struct Message<'a> {
    benchmark: &'a BenchmarkResult,
    /// Requests in flight and time that is left, where they are told.
    tail: &'a str,
    is_ended: bool,
}

impl Message<'_> {
    /// What was cut, failed or is missing comes first and is told whatever the room; of the rest what fits, each whole: a mean over a
    /// part of the samples never stands without what it can become.
    fn within(&self, room: usize) -> String {
        let outcomes = &self.benchmark.outcomes;
        let tail = self.tail.trim_start_matches(", ").to_owned();
        let rest = [table::standing(self.benchmark), tail, told(&answers(outcomes))];
        let mut text = told(&marks(outcomes, self.is_ended));
        for part in rest.into_iter().filter(|part| !part.is_empty()) {
            let gap = if text.is_empty() { "" } else { "  " };
            if text.chars().count() + gap.len() + part.chars().count() <= room {
                text.push_str(gap);
                text.push_str(&part);
            }
        }
        text
    }
}

fn name(known: &Known, benchmark: &BenchmarkName) -> String {
    format!("{} {benchmark}", known.event.step)
}

impl Screen {
    fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal() && !quiet;
        let bars = terminal.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(4)));
        Self {
            bars,
            rows: BTreeMap::new(),
            printed: BTreeMap::new(),
            states: BTreeMap::new(),
            waits: Vec::new(),
            quiet,
            layout: Layout {
                columns: sheet::width_of_notes().unwrap_or(Layout::WITH_BAR),
            },
        }
    }

    fn state(&mut self, view: &view::View, id: &EvaluationId) {
        let Some(known) = view.get(id) else { return };
        let event = &known.event;
        let is_news = self.states.insert(id.clone(), event.state) != Some(event.state);
        if !is_news || matches!(event.state, EvaluationState::Queued | EvaluationState::Admitted) {
            return;
        }
        let reason = event
            .reason
            .as_deref()
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        self.say(&format!(
            "{} step {} {}: {}{reason}",
            event.run,
            event.step,
            event.suite.name,
            event.state.label()
        ));
    }

    /// Says what is waited for when that begins, and when it is over; also where progress is not shown.
    fn waits(&mut self, waits: &[Wait]) {
        for wait in waits.iter().filter(|wait| !self.waits.contains(&wait.on)) {
            self.tell(&format!("waiting on {}", wait.line()));
        }
        for on in self.waits.iter().filter(|on| waits.iter().all(|wait| wait.on != **on)) {
            self.tell(&format!("going on: {} is no longer in the way", on.label()));
        }
        self.waits = waits.iter().map(|wait| wait.on).collect();
    }

    fn say(&self, line: &str) {
        if !self.quiet {
            self.tell(line);
        }
    }

    fn tell(&self, line: &str) {
        match &self.bars {
            // A closed terminal shows nothing either way.
            Some(bars) => drop(bars.println(line)),
            None => output::note(line),
        }
    }

    /// Says what an operator must know also where nothing else is shown.
    fn warn(&mut self, line: &str) {
        if self.quiet {
            output::note(line);
        } else {
            self.say(line);
        }
    }

    async fn refresh(&mut self, context: &Context, following: &Following, wanted: &Wanted) {
        for known in following.view.evaluations() {
            if !wanted.includes(&known.event.evaluation) || known.event.state == EvaluationState::Queued {
                continue;
            }
            let in_flight = match known.event.state {
                EvaluationState::Serving => view::in_flight(context, &known.event).await,
                _ => None,
            };
            if self.bars.is_some() {
                self.prepare(context, known).await;
                self.draw(known, in_flight);
            } else {
                self.print(known, in_flight);
            }
        }
    }

    /// Shows all benchmarks of an evaluation from its beginning, before any has a result.
    async fn prepare(&mut self, context: &Context, known: &Known) {
        let id = &known.event.evaluation;
        if self.rows.keys().any(|(row, _)| row == id) {
            return;
        }
        let Ok(manifest) = context.store.manifest(&known.event.manifest).await else {
            return;
        };
        for benchmark in &manifest.benchmarks {
            self.row(known, &benchmark.name, benchmark.samples());
        }
    }

    fn draw(&mut self, known: &Known, in_flight: Option<usize>) {
        let result = known.result();
        let tail = progress(known, in_flight);
        let layout = self.layout;
        for (index, benchmark) in result.benchmarks.iter().enumerate() {
            let bar = self.row(known, &benchmark.name, benchmark.samples);
            bar.set_position(benchmark.samples - benchmark.outcomes.missing);
            let tail = if index == 0 { tail.as_str() } else { "" };
            let message = Message {
                benchmark,
                tail,
                is_ended: known.event.state.is_ended(),
            };
            bar.set_message(message.within(layout.room(&name(known, &benchmark.name))));
        }
    }

    fn row(&mut self, known: &Known, benchmark: &BenchmarkName, samples: u64) -> &ProgressBar {
        let key = (known.event.evaluation.clone(), benchmark.to_string());
        let bars = self.bars.clone().unwrap_or_default();
        let layout = self.layout;
        self.rows.entry(key).or_insert_with(|| {
            let style = ProgressStyle::with_template(layout.template());
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = bars.add(ProgressBar::new(samples).with_style(style));
            bar.set_prefix(name(known, benchmark));
            bar
        })
    }

    fn print(&mut self, known: &Known, in_flight: Option<usize>) {
        let done = known.samples_done();
        let id = known.event.evaluation.clone();
        if let Some((at, printed)) = self.printed.get(&id)
            && (at.elapsed() < PLAIN_EVERY || *printed == done)
        {
            return;
        }
        self.printed.insert(id, (Instant::now(), done));
        let result = known.result();
        let shown = result.benchmarks.iter();
        let scores: Vec<String> = shown
            .map(|benchmark| {
                format!(
                    "{} {} ({})",
                    benchmark.name,
                    table::standing(benchmark),
                    outcomes(&benchmark.outcomes, known.event.state.is_ended())
                )
            })
            .collect();
        let event = &known.event;
        self.say(&format!(
            "{} step {}: {done}/{} samples{}  {}",
            event.run,
            event.step,
            event.samples,
            progress(known, in_flight),
            scores.join("; ")
        ));
    }

    fn finish(&mut self, following: &Following, wanted: &Wanted) {
        for known in following.view.evaluations() {
            if wanted.includes(&known.event.evaluation) && self.bars.is_some() {
                self.draw(known, None);
            }
        }
        self.rows.values().for_each(ProgressBar::abandon);
    }
}

fn progress(known: &Known, in_flight: Option<usize>) -> String {
    let in_flight = in_flight
        .map(|count| format!(", {count} in flight"))
        .unwrap_or_default();
    let left = known
        .seconds_left(now())
        .filter(|_| known.event.state == EvaluationState::Serving);
    let left = left.map(|seconds| format!(", {seconds:.0} s left")).unwrap_or_default();
    format!("{in_flight}{left}")
}

fn outcomes(outcomes: &OutcomeCounts, is_ended: bool) -> String {
    told(&[answers(outcomes), marks(outcomes, is_ended)].concat())
}

/// Samples that the model answered, or had nothing to say to.
fn answers(outcomes: &OutcomeCounts) -> Vec<(u64, &'static str)> {
    let always = [(outcomes.correct, "right"), (outcomes.incorrect, "wrong")];
    let where_any = [(outcomes.graded, "graded in part"), (outcomes.no_answer, "no answer")];
    let where_any = where_any.into_iter().filter(|(count, _)| *count > 0);
    always.into_iter().chain(where_any).collect()
}

/// Samples that are not to be overlooked. Until the end what is missing is still to come.
fn marks(outcomes: &OutcomeCounts, is_ended: bool) -> Vec<(u64, &'static str)> {
    let failed = outcomes.failed() - outcomes.missing;
    let missing = if is_ended { outcomes.missing } else { 0 };
    let counts = [
        (outcomes.truncated, "truncated"),
        (failed, "FAILED"),
        (missing, "MISSING"),
    ];
    counts.into_iter().filter(|(count, _)| *count > 0).collect()
}

fn told(counts: &[(u64, &'static str)]) -> String {
    let each = counts.iter().map(|(count, what)| format!("{count} {what}"));
    each.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::benchmark;

    fn shown() -> BenchmarkResult {
        BenchmarkResult {
            outcomes: OutcomeCounts {
                correct: 1_000,
                incorrect: 2_000,
                no_answer: 30,
                truncated: 8,
                engine_error: 12,
                missing: 950,
                ..OutcomeCounts::default()
            },
            ..benchmark(3_050, 4_000)
        }
    }

    fn message(is_ended: bool, room: usize) -> String {
        let message = Message {
            benchmark: &shown(),
            tail: ", 64 in flight, 30 s left",
            is_ended,
        };
        message.within(room)
    }

    #[test]
    fn what_was_cut_failed_or_is_missing_is_told_whatever_the_room() {
        assert_eq!(message(true, 0), "8 truncated, 12 FAILED, 950 MISSING");
        assert_eq!(
            message(false, 20),
            "8 truncated, 12 FAILED",
            "the rest is still to come"
        );
        assert_eq!(message(false, 50), "8 truncated, 12 FAILED  64 in flight, 30 s left");
        let all = message(false, 200);
        for part in [
            "64 in flight, 30 s left",
            "1000 right, 2000 wrong, 30 no answer",
            "coverage",
        ] {
            assert!(all.contains(part), "{part} is not in {all}");
        }
    }

    #[test]
    fn the_line_of_a_benchmark_fits_the_terminal() {
        for columns in [80, 100, 110, 160] {
            let layout = Layout { columns };
            for name in ["900 arithmetic-easy", "900 a-benchmark-of-a-name-that-is-long"] {
                let room = layout.room(name);
                let bar = if layout.has_bar() { 11 } else { 0 };
                let before = if layout.has_bar() {
                    name.len().max(28)
                } else {
                    name.len()
                };
                let line = before + bar + " 3050/4000 ".len() + message(false, room).chars().count();
                assert!(line <= columns, "{line} of {columns}");
            }
            assert!(layout.room("900 arithmetic-easy") >= "8 truncated, 12 FAILED, 950 MISSING".len());
        }
    }

    #[test]
    fn the_plain_line_tells_the_same() {
        let text = outcomes(&shown().outcomes, true);
        assert_eq!(
            text,
            "1000 right, 2000 wrong, 30 no answer, 8 truncated, 12 FAILED, 950 MISSING"
        );
    }
}
