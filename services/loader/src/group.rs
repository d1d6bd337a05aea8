//! One server group, run by the loader that holds its lease.

mod awaited;
mod away;
mod capacity;
mod evaluations;
mod grading;
mod history;
mod record;
mod turn;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_domain::{EvaluationEvent, EvaluationId, EvaluationState, GroupId, Timestamp};
use tidemill_service::backoff::Backoff;
use tidemill_service::fault::{self, Point};
use tidemill_service::{Context, Waiting, dead};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::awaited::Awaited;
use self::away::Away;
use self::capacity::{Capacity, Heartbeats};
use self::grading::Grading;
pub(crate) use self::grading::ungraded;
use self::history::History;
use crate::dispatch::Dispatcher;
use crate::engine::{self, Change, EngineError, Engines};
use crate::inbox::Inbox;
use crate::released::{self, Completed};

/// How long a group without evaluations is kept: suites of one checkpoint often arrive one after another.
const LINGER: Duration = Duration::from_secs(1);

/// How often items that stayed out, and attached engines, are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often the graders' backlog is looked at.
const LOOK_AT_GRADING_EVERY: Duration = Duration::from_millis(500);

/// Completions that may wait for the dispatcher; beyond it their followers wait.
const COMPLETIONS_QUEUED: usize = 4_096;

/// How long a loader that is not certain of its lease waits before it looks again whether it is.
const UNCERTAIN_FOR: Duration = Duration::from_millis(200);

/// An engine that served for so long was started well: the starts before it do not count any more.
const SERVED_WELL: Duration = Duration::from_secs(60);

/// Runs a group while it has evaluations. Several loaders may be here for one group: the one with the lease goes on.
/// Where the lease is lost, the group begins anew, as it would in another loader.
pub(crate) async fn run(context: Context, group: GroupId, inbox: Arc<Inbox>, room: Arc<Semaphore>) {
    let mut runner = Runner::new(context.clone(), group, inbox, room);
    while let Some(turn) = runner.wait_for_turn().await {
        runner.context = context.under(turn.lease());
        fault::point(Point::LoaderLeaseTaken);
        runner.run(turn.lost()).await;
        if !turn.lost().is_cancelled() {
            runner.close().await;
            fault::point(Point::LoaderConsumerDeleted);
            return;
        }
        tracing::warn!(group = %runner.group, "the group's lease was lost; waiting for it again");
        runner.begin_anew();
    }
}

struct Runner {
    context: Context,
    group: GroupId,
    inbox: Arc<Inbox>,
    room: Arc<Semaphore>,
    /// The newest event of each evaluation that is not ended.
    live: Vec<EvaluationEvent>,
    dispatcher: Dispatcher,
    /// The dispatcher knows what the generation cache holds.
    knows_cache: bool,
    /// Items that are held as dead letters.
    held: dead::Held,
    /// Evaluations that the dispatcher has, with the guards of their followers.
    followed: HashMap<EvaluationId, DropGuard>,
    /// Evaluations whose manifest is not there.
    awaited: Awaited,
    /// When this runner last published a state of an evaluation: its own older ones still come back to it.
    spoken: HashMap<EvaluationId, Timestamp>,
    /// The most requests that the group's replicas may be sent at once.
    bound: usize,
    /// What generators take of the group at present.
    capacity: Capacity,
    history: History,
    coming: Sender<Completed>,
    completed: Receiver<Completed>,
    /// Since the object store did not give a manifest; it is asked again a while after.
    store_away: Option<(Instant, Waiting)>,
    /// The group's record as this runner wrote it, while it is to be there.
    record: Option<Vec<u8>>,
}

/// Why serving ended.
enum Ended {
    /// No evaluation is left.
    Idle,
    /// The lease was lost or the process drains.
    Stopped,
    /// The newest evaluation is to be served elsewhere.
    Moved,
    /// The engine is gone.
    EngineLost(String),
    /// Attached engines did not come back.
    Abandoned(String),
}

/// The starts of a group's engine that failed one after another.
struct Starts {
    failed: u32,
    backoff: Backoff,
}

impl Starts {
    fn none() -> Self {
        Self {
            failed: 0,
            backoff: Backoff::new(Duration::from_millis(200), Duration::from_secs(10)),
        }
    }
}

impl Runner {
    fn new(context: Context, group: GroupId, inbox: Arc<Inbox>, room: Arc<Semaphore>) -> Self {
        let (coming, completed) = mpsc::channel(COMPLETIONS_QUEUED);
        Self {
            context,
            group,
            inbox,
            room,
            live: Vec::new(),
            dispatcher: Dispatcher::default(),
            knows_cache: false,
            held: dead::Held::default(),
            followed: HashMap::new(),
            awaited: Awaited::default(),
            spoken: HashMap::new(),
            bound: 0,
            capacity: Capacity::default(),
            history: History::default(),
            coming,
            completed,
            store_away: None,
            record: None,
        }
    }

    /// Forgets what was released and completed: another loader may have gone on meanwhile.
    fn begin_anew(&mut self) {
        self.followed.clear();
        self.dispatcher = Dispatcher::default();
        self.knows_cache = false;
        self.record = None;
        (self.coming, self.completed) = mpsc::channel(COMPLETIONS_QUEUED);
    }

    fn is_stopped(&self, lost: &CancellationToken) -> bool {
        lost.is_cancelled() || self.context.draining.is_cancelled()
    }

    async fn run(&mut self, lost: &CancellationToken) {
        let mut starts = Starts::none();
        while !self.is_stopped(lost) {
            self.absorb(self.inbox.take_now()).await;
            let Some(event) = self.live.last().cloned() else { return };
            self.announce(EvaluationState::Admitted).await;
            if self.is_answered().await {
                self.wait_for_grades(lost).await;
                continue;
            }
            self.announce(EvaluationState::Starting).await;
            let Some(started) = self.start(&event, lost).await else {
                continue;
            };
            let failure = match started {
                Ok(engines) => {
                    fault::point(Point::LoaderEngineStarted);
                    let begun = Instant::now();
                    let ended = self.serve_with(engines, lost).await;
                    if begun.elapsed() >= SERVED_WELL {
                        starts = Starts::none();
                    }
                    match ended {
                        Ended::Idle | Ended::Stopped => return,
                        Ended::Moved => continue,
                        Ended::EngineLost(reason) => Ok(format!("the engine ended while it served ({reason})")),
                        Ended::Abandoned(reason) => Err(reason),
                    }
                }
                Err(error) if error.is_passing() => Ok(error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if self.is_stopped(lost) {
                return;
            }
            self.after_failure(failure, &mut starts).await;
        }
    }

    /// Every declared sample has its completion: only grades are waited for, and no engine is needed.
    async fn is_answered(&self) -> bool {
        for event in &self.live {
            match tidemill_archive::completions(&self.context, event).await {
                Ok(completions) if completions >= event.samples => {}
                Ok(_) => return false,
                Err(error) => {
                    tracing::debug!(evaluation_id = %event.evaluation, %error, "completions not counted");
                    return false;
                }
            }
        }
        true
    }

    /// Has grades folded until something is new of the group's evaluations.
    async fn wait_for_grades(&mut self, lost: &CancellationToken) {
        loop {
            self.announce(EvaluationState::Serving).await;
            let inbox = Arc::clone(&self.inbox);
            tokio::select! { biased;
                () = lost.cancelled() => return,
                () = self.context.draining.cancelled() => return,
                events = inbox.take() => return self.absorb(events).await,
                // A state that could not be published is published again.
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Pauses before the next start where the failure may pass, and gives up where it will not.
    async fn after_failure(&mut self, failure: Result<String, String>, starts: &mut Starts) {
        let reason = match failure {
            Ok(reason) => {
                starts.failed += 1;
                if starts.failed < self.context.config.loader.engine_starts {
                    tracing::warn!(group = %self.group, reason, starts = starts.failed, "starting the engine again");
                    sleep(starts.backoff.next_pause()).await;
                    return;
                }
                format!("{reason}; {} starts were tried", starts.failed)
            }
            Err(reason) => reason,
        };
        self.give_up(&reason).await;
        *starts = Starts::none();
    }

    /// Starts the engines of an evaluation. `None` when they are not wanted any more.
    async fn start(
        &mut self,
        event: &EvaluationEvent,
        lost: &CancellationToken,
    ) -> Option<Result<Engines, EngineError>> {
        let (context, inbox) = (self.context.clone(), Arc::clone(&self.inbox));
        let mut started = std::pin::pin!(engine::start(&context, event));
        loop {
            tokio::select! { biased;
                () = lost.cancelled() => return None,
                () = context.draining.cancelled() => return None,
                started = &mut started => return Some(started),
                events = inbox.take() => self.absorb(events).await,
            }
            let newest = self.live.last()?;
            if engine::is_moved(&event.source, &newest.source) {
                return None;
            }
        }
    }

    async fn serve_with(&mut self, mut engines: Engines, lost: &CancellationToken) -> Ended {
        let ended = self.serve(&mut engines, lost).await;
        (self.bound, self.capacity) = (0, Capacity::default());
        self.dispatcher.set_slots(0);
        self.keep_lengths().await;
        if !lost.is_cancelled() {
            self.withdraw().await;
            fault::point(Point::LoaderRecordWithdrawn);
        }
        engines.stop().await;
        ended
    }

    async fn serve(&mut self, engines: &mut Engines, lost: &CancellationToken) -> Ended {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut look_at_grading = interval(LOOK_AT_GRADING_EVERY);
        look_at_grading.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heartbeats = Heartbeats::new(&self.context, &self.group);
        let mut grading = Grading::default();
        let mut away = Away::default();
        let mut idle_since: Option<Instant> = None;
        let mut is_open = false;
        let mut opening = Backoff::standard();
        loop {
            if self
                .live
                .last()
                .is_some_and(|newest| engines.are_elsewhere(&newest.source))
            {
                return Ended::Moved;
            }
            // Before the state is announced: an evaluation that was serving already may have items out.
            self.take_up(engines).await;
            // Before anything that generators see: a loader that stood still may have lost the lease without knowing.
            if !self.context.may_act() {
                if let Some(ended) = self.pause(engines, lost, UNCERTAIN_FOR).await {
                    return ended;
                }
                is_open = false;
                continue;
            }
            if let Some(newest) = self.live.last() {
                idle_since = None;
                is_open &= !engines.set_limit(newest.max_in_flight);
                if !is_open {
                    if let Err(reason) = self.open(engines).await {
                        tracing::warn!(group = %self.group, reason, "the group cannot be opened yet; trying again");
                        if let Some(ended) = self.pause(engines, lost, opening.next_pause()).await {
                            return ended;
                        }
                        continue;
                    }
                    opening.reset();
                }
                is_open = true;
            } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= LINGER {
                return Ended::Idle;
            }
            self.announce(EvaluationState::Serving).await;
            if !self.context.may_act() {
                continue;
            }
            let releases = self.dispatcher.release(Instant::now());
            if !releases.is_empty() {
                released::publish(&self.context, &self.group, releases).await;
            }
            let inbox = Arc::clone(&self.inbox);
            tokio::select! { biased;
                () = lost.cancelled() => return Ended::Stopped,
                () = self.context.draining.cancelled() => return Ended::Stopped,
                change = engines.changed() => match change {
                    Change::Ended(reason) => return Ended::EngineLost(reason),
                    Change::Joined => is_open = false,
                },
                events = inbox.take() => self.absorb(events).await,
                // Before completions, which may come without a pause.
                _ = look_at_grading.tick() => self.look_at_grading(&mut grading).await,
                Some(heartbeat) = heartbeats.next() => self.note_capacity(heartbeat),
                Some(expected) = self.history.next() => self.note_lengths(expected),
                Some(completed) = self.completed.recv() => {
                    away = Away::default();
                    self.note_completions(&completed);
                }
                () = sleep(LINGER), if idle_since.is_some() => {}
                _ = look.tick() => if let Some(reason) = self.look(engines, &mut away).await {
                    return Ended::Abandoned(reason);
                }
            }
        }
    }

    /// Waits before something is tried again, while the engines and the evaluations are attended to. Returns why serving
    /// ends where it does.
    async fn pause(&mut self, engines: &mut Engines, lost: &CancellationToken, pause: Duration) -> Option<Ended> {
        let inbox = Arc::clone(&self.inbox);
        tokio::select! { biased;
            () = lost.cancelled() => return Some(Ended::Stopped),
            () = self.context.draining.cancelled() => return Some(Ended::Stopped),
            change = engines.changed() => if let Change::Ended(reason) = change {
                return Some(Ended::EngineLost(reason));
            },
            events = inbox.take() => self.absorb(events).await,
            () = sleep(pause) => {}
        }
        None
    }

    fn note_completions(&mut self, first: &Completed) {
        self.note_completion(first);
        while let Ok(completed) = self.completed.try_recv() {
            self.note_completion(&completed);
        }
    }

    fn note_completion(&mut self, completed: &Completed) {
        self.dispatcher.complete_with(&completed.key, completed.length);
        let evaluation = &completed.key.evaluation;
        if self.dispatcher.left_of(evaluation) == Some(0) {
            let event = self.live.iter().find(|event| event.evaluation == *evaluation);
            if let Some(run) = event.map(|event| event.run.clone()) {
                self.keep_lengths_of(evaluation, &run);
            }
        }
    }

    async fn look_at_grading(&mut self, grading: &mut Grading) {
        let (out, left) = (self.dispatcher.out(), self.dispatcher.left());
        if let Some(allowance) = grading.look(&self.context, out, left).await {
            self.dispatcher.set_allowance(allowance);
        }
    }

    /// Tells the dispatcher what lies in the DEAD stream without an outcome, when that changed.
    async fn look_for_held(&mut self, now: Instant) {
        let dispatcher = &self.dispatcher;
        match self.held.look_among(&self.context, |key| dispatcher.lacks(key)).await {
            Ok(true) => self.dispatcher.hold(self.held.items(), now),
            Ok(false) => {}
            Err(failure) => tracing::debug!(reason = failure.reason, "dead letters not read"),
        }
    }

    /// Releases again what has been out for long. Returns the reason when attached engines stayed away for too long.
    async fn look(&mut self, engines: &Engines, away: &mut Away) -> Option<String> {
        self.keep_record().await;
        if !self.context.may_act() {
            return None;
        }
        let now = Instant::now();
        self.look_for_held(now).await;
        self.apply_capacity();
        self.keep_lengths_now_and_then();
        let overdue = self.dispatcher.overdue(now);
        released::publish(&self.context, &self.group, overdue).await;
        if !engines.are_attached() || self.dispatcher.left() == 0 {
            return None;
        }
        away.look(engines, self.context.config.loader.engine_patience).await
    }
}
