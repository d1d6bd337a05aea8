//! Progress while evaluations run: bars on a terminal, plain lines elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::bail;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidemill_domain::{BenchmarkName, EvaluationId, EvaluationState, GroupId, OutcomeCounts};
use tidemill_service::{Context, Obstacle, Wait, now};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::held::Held;
use crate::roles::Roles;
use crate::view::{self, Following, Known, News};
use crate::{output, replicas, table};

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
        for (index, benchmark) in result.benchmarks.iter().enumerate() {
            let bar = self.row(known, &benchmark.name, benchmark.samples);
            bar.set_position(benchmark.samples - benchmark.outcomes.missing);
            let tail = if index == 0 { tail.as_str() } else { "" };
            bar.set_message(format!(
                "{:>12}{tail}  {}",
                table::standing(benchmark),
                outcomes(&benchmark.outcomes)
            ));
        }
    }

    fn row(&mut self, known: &Known, benchmark: &BenchmarkName, samples: u64) -> &ProgressBar {
        let key = (known.event.evaluation.clone(), benchmark.to_string());
        let bars = self.bars.clone().unwrap_or_default();
        self.rows.entry(key).or_insert_with(|| {
            let style = ProgressStyle::with_template("{prefix:28} {bar:10} {pos:>5}/{len:5} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = bars.add(ProgressBar::new(samples).with_style(style));
            bar.set_prefix(format!("{} {}", known.event.step, benchmark));
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
                    outcomes(&benchmark.outcomes)
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

fn outcomes(outcomes: &OutcomeCounts) -> String {
    let failed = outcomes.failed() - outcomes.missing;
    let mut text = format!("{} right, {} wrong", outcomes.correct, outcomes.incorrect);
    for (count, what) in [
        (outcomes.no_answer, "no answer"),
        (outcomes.truncated, "truncated"),
        (failed, "FAILED"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}
