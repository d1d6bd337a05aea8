//! From an announcement to queued evaluations.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use tidemill_archive::{is_fault_of_grading, is_fault_of_serving};
use tidemill_config::Loader;
use tidemill_domain::{
    Class, Digest, EvaluationEvent, EvaluationId, EvaluationState, GroupId, LANE, Outcome, RolledBack, RunId, Source,
    Step, TeamId, Timeline, Timestamp, Written,
};
use tidemill_service::backoff::Backoff;
use tidemill_service::fault::{self, Point};
use tidemill_service::{Context, Delivery, Failure, Obstacle, Published, Settled, dead, now};
use tidemill_storage::Store;
use tidemill_streams::StateChange;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::board;
use crate::checkpoint::{self, Incomplete, LocateError};
use crate::group::ungraded;
use crate::registry;
use crate::suites::{self, Rendered, SuiteError};

/// What an evaluation without the generation cache adds to its identity, so that its draws are its own.
const NO_CACHE: &str = "no-cache";

/// How often an incomplete checkpoint is looked at again.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Why an announcement became no evaluation.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// The announcement does not parse.
    #[error("not a checkpoint event: {0}")]
    Malformed(String),
    /// A schema that this version does not know.
    #[error("checkpoint event of schema {0}; this version knows schema 1: upgrade the loader")]
    Schema(u32),
    /// The address names no folder.
    #[error(transparent)]
    Location(#[from] LocateError),
    /// The address is a server's, and no model name was given.
    #[error("{uri} is a server, so the announcement must name the model it serves (\"model\": \"...\")")]
    NoModel {
        /// The address.
        uri: String,
    },
    /// The announcement names no team, and the configured one is no name.
    #[error("[loader] default_team is {name:?}, which is not the name of a team: {reason}")]
    Team {
        /// What is configured.
        name: String,
        /// Why it is no name.
        reason: String,
    },
    /// It is not complete.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    /// It stayed incomplete.
    #[error("{incomplete}; given up after {waited:?}: announce it again when it is written")]
    Expired {
        /// What was missing at last.
        incomplete: Incomplete,
        /// How long it was waited for.
        waited: Duration,
    },
    /// It vanished while it was read, or its disk does not answer.
    #[error("checkpoint {uri}: {source}")]
    Unreadable {
        /// The address.
        uri: String,
        /// Why.
        source: std::io::Error,
    },
    /// A suite is wrong.
    #[error(transparent)]
    Suite(#[from] SuiteError),
    /// The broker did not take an event.
    #[error(transparent)]
    Publish(#[from] tidemill_service::PublishError),
    /// What is known of an evaluation could not be read, or not be put back into the streams.
    #[error("open evaluation {evaluation} again: {source}")]
    Restore {
        /// Which one.
        evaluation: EvaluationId,
        /// Why.
        source: Box<tidemill_archive::Error>,
    },
    /// The broker could not be asked.
    #[error("look up evaluation {evaluation}: {reason}")]
    Lookup {
        /// Which one.
        evaluation: EvaluationId,
        /// Why.
        reason: String,
    },
}

impl IntakeError {
    /// Whether trying again may help.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Suite(SuiteError::Storage(error)) => error.class(),
            Self::Suite(SuiteError::Registry(_)) => Class::Transient,
            Self::Publish(error) => error.class(),
            Self::Restore { source, .. } => source.class(),
            Self::Lookup { .. } => Class::Transient,
            Self::Unreadable { source, .. } if source.kind() != ErrorKind::NotFound => Class::Transient,
            Self::Schema(_) => Class::Newer,
            _ => Class::Permanent,
        }
    }

    /// The suites are right, and there is nothing that could answer them.
    const fn is_of_the_checkpoint(&self) -> bool {
        matches!(
            self,
            Self::Location(_)
                | Self::NoModel { .. }
                | Self::Incomplete(_)
                | Self::Expired { .. }
                | Self::Unreadable { .. }
        )
    }
}

/// An evaluation that an announcement asked for.
#[derive(Debug, Clone)]
pub struct Queued {
    /// Its newest event.
    pub event: EvaluationEvent,
    /// It had been asked for before.
    pub known: bool,
    /// Samples that an engine had failed, and that are asked for again.
    pub again: u64,
    /// Samples that a grader had failed, and whose answers are graded again.
    pub graded_again: u64,
}

/// Samples of an invalid evaluation whose outcomes were taken back.
#[derive(Debug, Clone, Copy, Default)]
struct Retracted {
    /// With their completions.
    asked: u64,
    /// Their grades alone.
    graded: u64,
}

/// Handles one message of the CHECKPOINT stream.
pub(crate) async fn handle(context: Context, delivery: Delivery) -> Settled {
    let failed = |error: IntakeError| Failure::of(error.class(), &error);
    if delivery.subject.ends_with(".rolled_back") {
        let event: RolledBack = parse(&delivery.payload).map_err(failed)?;
        return supersede(&context, &event).await.map_err(failed);
    }
    if !delivery.subject.ends_with(".written") {
        tracing::debug!(subject = delivery.subject, "an event without meaning here");
        return Ok(());
    }
    let event: Written = parse(&delivery.payload).map_err(failed)?;
    let patience = context.config.loader.checkpoint_patience;
    tokio::select! {
        () = context.draining.cancelled() => Err(Failure::cancelled()),
        () = delivery.stopped.cancelled() => Err(Failure::cancelled()),
        taken = take_in(&context, &event, patience, delivery.delivered > 1) => taken.map_err(failed),
    }
}

/// Queues what an announcement asks for. Where there is no checkpoint its evaluations end with the reason, so that it is seen
/// where results are.
async fn take_in(context: &Context, event: &Written, patience: Duration, again: bool) -> Result<(), IntakeError> {
    match enqueue(context, event, patience, again, Ahead::default()).await {
        Err(error) if error.is_of_the_checkpoint() && error.class() == Class::Permanent => {
            refuse(context, event, &error.to_string()).await?;
            Err(error)
        }
        queued => queued.map(drop),
    }
}

/// Ends the evaluations of a checkpoint that is not there: as those of an engine that never came, they drain, and the aggregator
/// says that they are invalid.
async fn refuse(context: &Context, event: &Written, reason: &str) -> Result<(), IntakeError> {
    let source = Source::Checkpoint { uri: event.uri.clone() };
    for name in suites_of(context, event) {
        let suite = render(context, name).await?;
        let mut refused = evaluation_event(
            context,
            event,
            &source,
            &no_checkpoint(&event.run, event.step),
            suite,
            now(),
        )?;
        if let Some(known) = newest(context, &refused.evaluation).await? {
            refused.timeline.queued = refused.timeline.queued.max(after(&known));
        }
        let refused = refused.next(EvaluationState::Draining, now(), Some(reason.to_owned()));
        let (evaluation, run, step) = (refused.evaluation.clone(), &event.run, event.step.0);
        context.publisher.publish(&StateChange(refused), None).await?;
        tracing::error!(evaluation_id = %evaluation, run_id = %run, step, reason, "there is no checkpoint to evaluate");
    }
    Ok(())
}

/// Stands for the identity of a checkpoint that was announced and is not there.
fn no_checkpoint(run: &RunId, step: Step) -> Digest {
    let step = step.0.to_string();
    Digest::of_parts(["no checkpoint", run.as_str(), &step].map(str::as_bytes))
}

/// An evaluation is of a checkpoint; else it says that the one which was announced is not there.
#[must_use]
pub fn has_checkpoint(event: &EvaluationEvent) -> bool {
    event.checkpoint != no_checkpoint(&event.run, event.step)
}

/// Takes an earlier refusal of an evaluation back: its checkpoint is there now.
async fn supersede_refusal(context: &Context, event: &Written, manifest: &Digest) -> Result<(), IntakeError> {
    let refused = evaluation_id(event, &no_checkpoint(&event.run, event.step), manifest);
    let Some(known) = newest(context, &refused).await? else {
        return Ok(());
    };
    if known.state == EvaluationState::Superseded {
        return Ok(());
    }
    let reason = "the checkpoint was announced again, and is there".to_owned();
    let mut next = known.next(EvaluationState::Superseded, now(), Some(reason));
    next.result.clone_from(&known.result);
    context.publisher.publish(&StateChange(next), None).await?;
    Ok(())
}

/// The newest event of an evaluation; `None` when it is not known.
async fn newest(context: &Context, evaluation: &EvaluationId) -> Result<Option<EvaluationEvent>, IntakeError> {
    let newest = board::newest(context, evaluation).await;
    newest.map_err(|reason| IntakeError::Lookup {
        evaluation: evaluation.clone(),
        reason,
    })
}

/// When a life may begin that is later than a known one: a clock that was set back makes no earlier life.
fn after(known: &EvaluationEvent) -> Option<Timestamp> {
    Some(Timestamp(known.life().0 + 1))
}

/// The version of checkpoint events that is read.
const SCHEMA: u32 = 1;

/// Reads an event of our schema. The schema is looked at first: the rest of another one may mean anything.
fn parse<T: serde::de::DeserializeOwned>(payload: &[u8]) -> Result<T, IntakeError> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        schema: u32,
    }
    let malformed = |error: serde_json::Error| IntakeError::Malformed(error.to_string());
    let Versioned { schema } = serde_json::from_slice(payload).map_err(malformed)?;
    match schema {
        SCHEMA => serde_json::from_slice(payload).map_err(malformed),
        schema if schema > SCHEMA => Err(IntakeError::Schema(schema)),
        schema => Err(IntakeError::Malformed(format!("schema {schema}, which never was"))),
    }
}

/// Queues the evaluations of an announcement: one for each suite. Announcing the same thing twice is one evaluation.
///
/// A checkpoint that is not complete is waited for, at most `patience`.
///
/// # Errors
/// [`IntakeError`].
pub async fn queue(context: &Context, event: &Written, patience: Duration) -> Result<Vec<Queued>, IntakeError> {
    enqueue(context, event, patience, false, Ahead::default()).await
}

/// As [`queue`], with suites that began to be rendered before.
///
/// # Errors
/// [`IntakeError`].
pub async fn queue_rendered(
    context: &Context,
    event: &Written,
    patience: Duration,
    ahead: Ahead,
) -> Result<Vec<Queued>, IntakeError> {
    enqueue(context, event, patience, false, ahead).await
}

/// Suites that are rendered while there is no broker yet: rendering takes the object store alone.
#[derive(Debug, Default)]
pub struct Ahead {
    rendering: HashMap<String, JoinHandle<Result<Rendered, SuiteError>>>,
}

impl Ahead {
    /// Begins to render suites, each on a thread of its own.
    #[must_use]
    pub fn begin(store: &Store, config: &Loader, suites: &[String]) -> Self {
        let begin = |name: &String| {
            let (store, config, suite) = (store.clone(), config.clone(), name.clone());
            let rendering = tokio::spawn(async move { suites::render(&store, &config, &suite).await });
            (name.clone(), rendering)
        };
        Self {
            rendering: suites.iter().map(begin).collect(),
        }
    }

    /// What became of a suite; `None` when it was not begun, or is to be tried again.
    async fn rendered(&mut self, name: &str) -> Option<Result<Rendered, SuiteError>> {
        match self.rendering.remove(name)?.await {
            Ok(Err(SuiteError::Storage(_))) | Err(_) => None,
            Ok(rendered) => Some(rendered),
        }
    }
}

fn suites_of<'a>(context: &'a Context, event: &'a Written) -> &'a [String] {
    if event.suites.is_empty() {
        &context.config.loader.default_suites
    } else {
        &event.suites
    }
}

/// As [`queue`]. With `again` it may have been begun before, by a loader that died over it.
async fn enqueue(
    context: &Context,
    event: &Written,
    patience: Duration,
    again: bool,
    mut ahead: Ahead,
) -> Result<Vec<Queued>, IntakeError> {
    let seen = now();
    let names = suites_of(context, event);
    if names.is_empty() {
        return Err(SuiteError::None.into());
    }
    let mut rendered = Vec::with_capacity(names.len());
    for name in names {
        rendered.push(match ahead.rendered(name).await {
            Some(rendered) => rendered?,
            None => render(context, name).await?,
        });
    }
    let (source, checkpoint) = identify(event, patience).await?;
    for suite in &rendered {
        registry::register(context, suite).await?;
    }
    let mut queued = Vec::with_capacity(rendered.len());
    for suite in rendered {
        supersede_refusal(context, event, &suite.manifest).await?;
        let evaluation = evaluation_event(context, event, &source, &checkpoint, suite, seen)?;
        queued.push(enter(context, evaluation, again).await?);
    }
    Ok(queued)
}

/// Renders a suite and stores its manifest, and waits while the object store takes no writes.
async fn render(context: &Context, name: &str) -> Result<Rendered, SuiteError> {
    let mut backoff = Backoff::standard();
    let mut waiting = None;
    loop {
        let error = match suites::render(&context.store, &context.config.loader, name).await {
            Err(SuiteError::Storage(error)) if error.is_of_the_store() => error,
            rendered => return rendered,
        };
        let reason = error.to_string();
        tracing::warn!(suite = name, reason, "the manifest cannot be stored; waiting");
        waiting
            .get_or_insert_with(|| context.waits.begin(Obstacle::ObjectStore, &reason))
            .because(&reason);
        sleep(backoff.next_pause()).await;
    }
}

async fn identify(event: &Written, patience: Duration) -> Result<(Source, Digest), IntakeError> {
    let uri = event.uri.clone();
    if uri.starts_with("http://") || uri.starts_with("https://") {
        let model = event.model.clone().ok_or(IntakeError::NoModel { uri: uri.clone() })?;
        let urls: Vec<String> = std::iter::once(uri).chain(event.replicas.iter().cloned()).collect();
        let digest = endpoint_identity(event, &urls, &model);
        return Ok((Source::Endpoint { urls, model }, digest));
    }
    let folder = checkpoint::locate(&uri)?;
    let complete = wait_until_complete(&folder, patience).await?;
    let digested = tokio::task::spawn_blocking(move || checkpoint::digest(&complete)).await;
    let digest = digested.map_err(std::io::Error::other).and_then(|result| result);
    Ok((
        Source::Checkpoint { uri: uri.clone() },
        digest.map_err(|source| IntakeError::Unreadable { uri, source })?,
    ))
}

/// A server does not show its weights. What it is said to serve is its identity: the model, the run and the step. The
/// addresses count only where the run is not named, so that a named checkpoint may move to another port.
fn endpoint_identity(event: &Written, urls: &[String], model: &str) -> Digest {
    let step = event.step.0.to_string();
    let mut parts = vec!["endpoint", model, event.run.as_str(), &step];
    if event.run.as_str() == UNNAMED_RUN {
        parts.extend(urls.iter().map(|url| url.trim_end_matches('/').trim_end_matches("/v1")));
    }
    Digest::of_parts(parts.into_iter().map(str::as_bytes))
}

/// The run of an evaluation that was asked for without one.
pub const UNNAMED_RUN: &str = "adhoc";

async fn wait_until_complete(folder: &Path, patience: Duration) -> Result<checkpoint::Complete, IntakeError> {
    let begun = Instant::now();
    loop {
        let looking = folder.to_owned();
        let inspected = tokio::task::spawn_blocking(move || checkpoint::inspect(&looking)).await;
        let incomplete = match inspected {
            Ok(Ok(complete)) => return Ok(complete),
            Ok(Err(incomplete)) => incomplete,
            Err(error) => Incomplete {
                folder: folder.to_owned(),
                what: error.to_string(),
            },
        };
        if patience.is_zero() {
            return Err(incomplete.into());
        }
        if begun.elapsed() >= patience {
            return Err(IntakeError::Expired {
                incomplete,
                waited: patience,
            });
        }
        tracing::info!(reason = incomplete.what, folder = %folder.display(), "waiting for the checkpoint");
        sleep(LOOK_EVERY.min(patience)).await;
    }
}

fn evaluation_event(
    context: &Context,
    event: &Written,
    source: &Source,
    checkpoint: &Digest,
    suite: Rendered,
    seen: Timestamp,
) -> Result<EvaluationEvent, IntakeError> {
    let at = now();
    let written = Some(event.written_at.unwrap_or(seen));
    let mut timeline = Timeline {
        written,
        seen: Some(seen),
        ..Timeline::default()
    };
    timeline.enter(EvaluationState::Queued, at);
    Ok(EvaluationEvent {
        schema: 1,
        evaluation: evaluation_id(event, checkpoint, &suite.manifest),
        state: EvaluationState::Queued,
        at,
        run: event.run.clone(),
        step: event.step,
        team: team(context, event)?,
        checkpoint: checkpoint.clone(),
        decision_value: event.decision_value,
        suite: suite.suite,
        manifest: suite.manifest,
        group: GroupId::from_digest(checkpoint),
        source: source.clone(),
        max_in_flight: event.max_in_flight,
        no_cache: event.no_cache,
        samples: suite.samples,
        reason: None,
        timeline,
        result: None,
    })
}

fn evaluation_id(event: &Written, checkpoint: &Digest, manifest: &Digest) -> EvaluationId {
    let step = event.step.0.to_string();
    let mut identity = vec![event.run.as_str(), &step, checkpoint.as_str(), manifest.as_str(), LANE];
    identity.extend(event.no_cache.then_some(NO_CACHE));
    EvaluationId::from_digest(&Digest::of_parts(identity.into_iter().map(str::as_bytes)))
}

fn team(context: &Context, event: &Written) -> Result<TeamId, IntakeError> {
    if let Some(team) = &event.team {
        return Ok(team.clone());
    }
    let name = &context.config.loader.default_team;
    TeamId::try_new(name.as_str()).map_err(|error| IntakeError::Team {
        name: name.clone(),
        reason: error.to_string(),
    })
}

/// Publishes the evaluation as queued, unless it is known. One that is known is queued again
/// where samples are missing and nobody works on them, or where it is to be served otherwise than before.
async fn enter(context: &Context, event: EvaluationEvent, again: bool) -> Result<Queued, IntakeError> {
    loop {
        // Before anything that is decided by what is known.
        let last = board::last_queued(context, &event.evaluation).await;
        let last = last.map_err(|reason| IntakeError::Lookup {
            evaluation: event.evaluation.clone(),
            reason,
        })?;
        if let Some(queued) = enter_after(context, event.clone(), again, last).await? {
            return Ok(queued);
        }
        tracing::debug!(evaluation_id = %event.evaluation, "queued by somebody else at the same moment; looking again");
    }
}

/// As [`enter`], where nobody queued the evaluation since the event of sequence `last`; `None` where somebody did. Two that
/// queue it at once would else begin two lives, of which the second in the stream may be the older one.
async fn enter_after(
    context: &Context,
    mut event: EvaluationEvent,
    again: bool,
    last: u64,
) -> Result<Option<Queued>, IntakeError> {
    let restore = |source| IntakeError::Restore {
        evaluation: event.evaluation.clone(),
        source: Box::new(source),
    };
    let (mut had_ended, mut retracted) = (false, Retracted::default());
    let known = newest(context, &event.evaluation).await?;
    if let Some(known) = known {
        let reopen = match known.state {
            EvaluationState::Superseded => true,
            EvaluationState::Invalid if lacks_outcomes(&known) || has_failures(&known) => true,
            EvaluationState::Invalid | EvaluationState::Draining => {
                tidemill_archive::completions(context, &known).await.map_err(restore)? < event.samples
            }
            // A server that moved, or may take more or less, is announced again while its evaluation waits for it.
            state => !state.is_ended() && (known.source != event.source || known.max_in_flight != event.max_in_flight),
        };
        if !reopen {
            if !known.state.is_ended() {
                grade_what_is_left(context, &known, again).await?;
            }
            return Ok(Some(Queued {
                event: known,
                known: true,
                again: 0,
                graded_again: 0,
            }));
        }
        tidemill_archive::restore(context, &known).await.map_err(restore)?;
        had_ended = known.state.is_ended();
        if known.state == EvaluationState::Invalid {
            retracted = retract_failures(context, &known).await?;
        }
        event.timeline.queued = event.timeline.queued.max(after(&known));
    }
    let published = context
        .publisher
        .publish_after(&StateChange(event.clone()), last)
        .await?;
    if published == Published::AlreadyThere && !is_queued(context, &event).await? {
        return Ok(None);
    }
    fault::point(Point::LoaderEvaluationQueued);
    tracing::info!(evaluation_id = %event.evaluation, run_id = %event.run, step = event.step.0, suite = %event.suite.name, samples = event.samples, "queued");
    if had_ended {
        // After it is queued: of an evaluation that has ended no outcome is recorded for what cannot be graded.
        let completions = grade_again(context, &event).await.map_err(restore)?;
        tracing::info!(evaluation_id = %event.evaluation, completions, retracted = retracted.asked, "opened again; so many had no grade, and so many are asked for again");
    }
    Ok(Some(Queued {
        event,
        known: false,
        again: retracted.asked,
        graded_again: retracted.graded,
    }))
}

/// What is known of the evaluation is this very life of it: the broker stored it, and its answer was lost.
async fn is_queued(context: &Context, event: &EvaluationEvent) -> Result<bool, IntakeError> {
    let known = newest(context, &event.evaluation).await?;
    Ok(known.is_some_and(|known| known.life() == event.life()))
}

/// Takes back what an engine or a grader failed in an evaluation that ended invalid, before it is queued again: nobody folds it
/// now. What lies in DEAD stays as it is, since it would not be released: `tidemill dead retry` is for that.
async fn retract_failures(context: &Context, known: &EvaluationEvent) -> Result<Retracted, IntakeError> {
    if !has_failures(known) {
        return Ok(Retracted::default());
    }
    let lookup = |failure: Failure| IntakeError::Lookup {
        evaluation: known.evaluation.clone(),
        reason: failure.reason,
    };
    let restore = |source| IntakeError::Restore {
        evaluation: known.evaluation.clone(),
        source: Box::new(source),
    };
    let letters = dead::letters(context).await.map_err(lookup)?;
    let kept = letters.iter().filter_map(dead::Letter::key).collect();
    let asked = tidemill_archive::retract_failures(context, known, &kept).await;
    let graded = tidemill_archive::retract_grades(context, known, &kept).await;
    Ok(Retracted {
        asked: asked.map_err(restore)?,
        graded: graded.map_err(restore)?,
    })
}

/// An engine or a grader failed samples of an evaluation that ended.
fn has_failures(known: &EvaluationEvent) -> bool {
    let mut benchmarks = known.result.iter().flat_map(|result| &result.benchmarks);
    benchmarks.any(|benchmark| {
        let mut outcomes = benchmark.outcomes;
        let mut all = Outcome::ALL.into_iter();
        all.any(|outcome| (is_fault_of_serving(outcome) || is_fault_of_grading(outcome)) && *outcomes.slot(outcome) > 0)
    })
}

/// Brings the ungraded completions of an evaluation before the graders again, however often the broker is away meanwhile:
/// nobody else will.
async fn grade_again(context: &Context, event: &EvaluationEvent) -> Result<u64, tidemill_archive::Error> {
    let mut backoff = Backoff::standard();
    loop {
        match tidemill_archive::grade_again(context, event).await {
            Err(error) if error.class() == Class::Transient => {
                tracing::warn!(evaluation_id = %event.evaluation, %error, "completions not brought to the graders yet");
                sleep(backoff.next_pause()).await;
            }
            ended => return ended,
        }
    }
}

/// Brings completions of a live evaluation before the graders again that none will grade otherwise, because a loader died
/// between queueing it again and that. They are known by graders that have nothing left to do; an announcement that comes
/// `again`, as after such a death, waits for that.
async fn grade_what_is_left(context: &Context, known: &EvaluationEvent, again: bool) -> Result<(), IntakeError> {
    let lookup = |reason: String| IntakeError::Lookup {
        evaluation: known.evaluation.clone(),
        reason,
    };
    let left = ungraded(context).await;
    if matches!(left, Ok(0)) {
        let completions = grade_again(context, known).await;
        let completions = completions.map_err(|error| lookup(error.to_string()))?;
        tracing::info!(evaluation_id = %known.evaluation, completions, "known; so many had no grade");
        return Ok(());
    }
    if again {
        return Err(lookup("the graders still have something to do".to_owned()));
    }
    Ok(())
}

/// It ended without a result, or with samples that have no grade.
fn lacks_outcomes(known: &EvaluationEvent) -> bool {
    let Some(result) = &known.result else { return true };
    result.benchmarks.iter().any(|benchmark| benchmark.outcomes.missing > 0)
}

/// Marks the evaluations of later steps as superseded; their results stay.
async fn supersede(context: &Context, event: &RolledBack) -> Result<(), IntakeError> {
    for known in board::all(context).await {
        if known.run == event.run && known.step > event.to_step && known.state != EvaluationState::Superseded {
            let reason = format!("run {} went back to step {}", event.run, event.to_step);
            let mut next = known.next(EvaluationState::Superseded, now(), Some(reason));
            next.result = known.result.clone();
            context.publisher.publish(&StateChange(next), None).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_does_not_answer_is_tried_again_and_a_file_that_went_is_not() {
        let class = |kind: ErrorKind| {
            let (uri, source) = ("/c".to_owned(), kind.into());
            IntakeError::Unreadable { uri, source }.class()
        };
        assert_eq!(class(ErrorKind::Other), Class::Transient);
        assert_eq!(class(ErrorKind::StaleNetworkFileHandle), Class::Transient);
        assert_eq!(class(ErrorKind::NotFound), Class::Permanent);
    }
}
