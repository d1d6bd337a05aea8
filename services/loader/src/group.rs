//! One server group, run by the loader that holds its lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_domain::{EvaluationEvent, EvaluationId, EvaluationState, GroupId, ItemKey, ServerGroup};
use tidemill_service::backoff::Backoff;
use tidemill_service::{Context, Held, acquire, now};
use tidemill_streams::{StateChange, buckets, declared, durable, live, subject};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::DropGuard;

use crate::dispatch::Dispatcher;
use crate::engine::{self, Engines};
use crate::inbox::Inbox;
use crate::released;

/// How long a group without evaluations is kept: suites of one checkpoint often arrive one after another.
const LINGER: Duration = Duration::from_secs(1);

/// How often items that stayed out, and attached engines, are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Completions that may wait for the dispatcher; beyond it their followers wait.
const COMPLETIONS_QUEUED: usize = 4_096;

/// Runs a group while it has evaluations. Several loaders may be here for one group: the one with the lease goes on.
pub(crate) async fn run(context: Context, group: GroupId, inbox: Arc<Inbox>) {
    let (coming, completed) = mpsc::channel(COMPLETIONS_QUEUED);
    let mut runner = Runner {
        context,
        group,
        inbox,
        live: Vec::new(),
        dispatcher: Dispatcher::default(),
        followed: HashMap::new(),
        coming,
    };
    let Some(lease) = runner.wait_for_lease().await else {
        return;
    };
    runner.run(completed, &lease).await;
    if !lease.lost().is_cancelled() {
        runner.close().await;
    }
}

struct Runner {
    context: Context,
    group: GroupId,
    inbox: Arc<Inbox>,
    /// The newest event of each evaluation that is not ended.
    live: Vec<EvaluationEvent>,
    dispatcher: Dispatcher,
    /// Evaluations that the dispatcher has, with the guards of their followers.
    followed: HashMap<EvaluationId, DropGuard>,
    coming: Sender<ItemKey>,
}

/// Why serving ended.
enum Ended {
    /// No evaluation is left.
    Idle,
    /// The lease was lost or the process drains.
    Stopped,
    /// The engine is gone.
    EngineLost(String),
    /// Attached engines did not come back.
    Abandoned(String),
}

impl Runner {
    async fn wait_for_lease(&mut self) -> Option<Held> {
        let key = format!("group.{}", self.group);
        loop {
            let inbox = Arc::clone(&self.inbox);
            let context = self.context.clone();
            tokio::select! {
                held = acquire(&context, &key) => return held,
                events = inbox.take() => self.absorb(events),
            }
            if self.live.is_empty() {
                return None;
            }
        }
    }

    async fn run(&mut self, mut completed: Receiver<ItemKey>, lease: &Held) {
        let mut starts = 0;
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
        loop {
            self.absorb(self.inbox.take_now());
            let Some(event) = self.live.last().cloned() else { return };
            self.announce(EvaluationState::Admitted).await;
            self.announce(EvaluationState::Starting).await;
            starts += 1;
            let context = self.context.clone();
            let started = tokio::select! {
                () = lease.lost().cancelled() => return,
                () = context.draining.cancelled() => return,
                started = engine::start(&context, &event) => started,
            };
            let failure = match started {
                Ok(mut engines) => {
                    let ended = self.serve(&mut engines, &mut completed, lease).await;
                    self.dispatcher.set_slots(0);
                    if !lease.lost().is_cancelled() {
                        self.withdraw().await;
                    }
                    engines.stop().await;
                    match ended {
                        Ended::Idle | Ended::Stopped => return,
                        Ended::EngineLost(reason) => format!("the engine ended while it served ({reason})"),
                        Ended::Abandoned(reason) => {
                            self.give_up(&reason).await;
                            continue;
                        }
                    }
                }
                Err(error) if error.is_passing() => error.to_string(),
                Err(error) => {
                    self.give_up(&error.to_string()).await;
                    continue;
                }
            };
            if starts >= self.context.config.loader.engine_starts {
                self.give_up(&format!("{failure}; {starts} starts were tried")).await;
                continue;
            }
            tracing::warn!(group = %self.group, reason = failure, starts, "starting the engine again");
            sleep(backoff.next_pause()).await;
        }
    }

    async fn serve(&mut self, engines: &mut Engines, completed: &mut Receiver<ItemKey>, lease: &Held) -> Ended {
        // Before the state is announced: an evaluation that was serving already may have items out.
        self.take_up().await;
        if let Err(reason) = self.open(engines).await {
            return Ended::Abandoned(reason);
        }
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut away = Away::default();
        let mut idle_since: Option<Instant> = None;
        loop {
            self.take_up().await;
            self.announce(EvaluationState::Serving).await;
            let releases = self.dispatcher.release(Instant::now());
            if !releases.is_empty() {
                released::publish(&self.context, &self.group, releases).await;
            }
            if self.live.is_empty() {
                let since = *idle_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= LINGER {
                    return Ended::Idle;
                }
            } else {
                idle_since = None;
            }
            let inbox = Arc::clone(&self.inbox);
            tokio::select! { biased;
                () = lease.lost().cancelled() => return Ended::Stopped,
                () = self.context.draining.cancelled() => return Ended::Stopped,
                reason = engines.ended() => return Ended::EngineLost(reason),
                events = inbox.take() => self.absorb(events),
                Some(key) = completed.recv() => {
                    away = Away::default();
                    self.dispatcher.complete(&key);
                    while let Ok(key) = completed.try_recv() {
                        self.dispatcher.complete(&key);
                    }
                }
                () = sleep(LINGER), if idle_since.is_some() => {}
                _ = look.tick() => {
                    let overdue = self.dispatcher.overdue(Instant::now());
                    released::publish(&self.context, &self.group, overdue).await;
                    if engines.are_attached()
                        && self.dispatcher.left() > 0
                        && let Some(reason) = away.look(engines, self.context.config.loader.engine_patience).await
                    {
                        return Ended::Abandoned(reason);
                    }
                }
            }
        }
    }

    /// Makes the group known to generators.
    async fn open(&mut self, engines: &Engines) -> Result<(), String> {
        let event = self.live.last().ok_or("no evaluation is left")?;
        let record = ServerGroup {
            schema: 1,
            group: self.group.clone(),
            checkpoint: event.checkpoint.clone(),
            replicas: engines.replicas.clone(),
            context_length: engines.context_length,
            updated: now(),
        };
        let slots = record.slots();
        let consumer = durable::generator(&self.group, slots);
        live::ensure(self.context.jetstream(), &consumer)
            .await
            .map_err(|error| error.to_string())?;
        let bytes = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
        let groups = self.groups().await?;
        groups
            .put(self.group.as_str(), bytes.into())
            .await
            .map_err(|error| error.to_string())?;
        self.dispatcher.set_slots(slots as usize);
        self.announce(EvaluationState::Serving).await;
        Ok(())
    }

    async fn groups(&self) -> Result<async_nats::jetstream::kv::Store, String> {
        self.context
            .jetstream()
            .get_key_value(buckets::GROUPS.name)
            .await
            .map_err(|error| error.to_string())
    }

    /// Takes the group's record away: generators send it nothing more and give waiting items back.
    async fn withdraw(&self) {
        match self.groups().await {
            Ok(groups) => {
                if let Err(error) = groups.delete(self.group.as_str()).await {
                    tracing::warn!(group = %self.group, %error, "record not withdrawn");
                }
            }
            Err(error) => tracing::warn!(group = %self.group, error, "record not withdrawn"),
        }
    }

    /// Gives live evaluations that the dispatcher does not have yet to it.
    async fn take_up(&mut self) {
        for event in self.live.clone() {
            if self.followed.contains_key(&event.evaluation) {
                continue;
            }
            let manifest = match self.context.store.manifest(&event.manifest).await {
                Ok(manifest) => manifest,
                Err(error) => {
                    self.abandon(&event, &format!("its manifest cannot be read: {error}"))
                        .await;
                    continue;
                }
            };
            let (known, guard) = released::completions(&self.context, &event.evaluation, self.coming.clone()).await;
            let again = event.timeline.serving.is_some() || !known.is_empty();
            self.dispatcher.add(
                event.evaluation.clone(),
                event.manifest.clone(),
                manifest,
                &known,
                again,
            );
            self.followed.insert(event.evaluation.clone(), guard);
        }
    }

    fn absorb(&mut self, events: Vec<EvaluationEvent>) {
        for event in events {
            let is_live = !event.state.is_ended() && event.state != EvaluationState::Draining;
            self.live.retain(|known| known.evaluation != event.evaluation);
            if is_live {
                self.live.push(event);
            } else {
                self.dispatcher.remove(&event.evaluation);
                self.followed.remove(&event.evaluation);
            }
        }
        self.live.sort_by_key(|event| event.timeline.queued);
    }

    /// Publishes a state for every live evaluation that is not in it or past it.
    async fn announce(&mut self, state: EvaluationState) {
        for event in &mut self.live {
            let is_past = event.state == state || (event.state == EvaluationState::Serving && state != event.state);
            if is_past {
                continue;
            }
            let next = event.next(state, now(), None);
            match self.context.publisher.publish(&StateChange(next.clone()), None).await {
                Ok(_) => *event = next,
                Err(error) => tracing::warn!(evaluation_id = %event.evaluation, %error, "state not published"),
            }
        }
    }

    /// Ends every live evaluation: what is known will be counted, and the result is invalid with the reason.
    async fn give_up(&mut self, reason: &str) {
        tracing::error!(group = %self.group, reason, "given up");
        for event in std::mem::take(&mut self.live) {
            self.abandon(&event, reason).await;
        }
    }

    async fn abandon(&mut self, event: &EvaluationEvent, reason: &str) {
        self.dispatcher.remove(&event.evaluation);
        self.followed.remove(&event.evaluation);
        self.live.retain(|known| known.evaluation != event.evaluation);
        self.recall(&event.evaluation).await;
        let next = event.next(EvaluationState::Draining, now(), Some(reason.to_owned()));
        if let Err(error) = self.context.publisher.publish(&StateChange(next), None).await {
            tracing::warn!(evaluation_id = %event.evaluation, %error, "state not published");
        }
    }

    /// Takes back what was released and not taken.
    async fn recall(&self, evaluation: &EvaluationId) {
        let filter = subject::ready_of_evaluation(&self.group, evaluation);
        let stream = self.context.jetstream().get_stream_no_info(declared::READY.name).await;
        let purged = match stream {
            Ok(stream) => stream
                .purge()
                .filter(filter)
                .await
                .map(drop)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = purged {
            tracing::warn!(evaluation_id = %evaluation, error, "releases not taken back");
        }
    }

    /// Leaves nothing of the group behind, while nobody else runs it.
    async fn close(&mut self) {
        if !self.live.is_empty() {
            // Draining: another loader will go on where this one stopped.
            return;
        }
        let name = durable::generator(&self.group, 1).name;
        if let Err(error) = self
            .context
            .jetstream()
            .delete_consumer_from_stream(&name, declared::READY.name)
            .await
        {
            tracing::debug!(consumer = name, %error, "consumer not deleted");
        }
    }
}

/// Since when no attached engine has answered.
#[derive(Debug, Default)]
struct Away {
    since: Option<Instant>,
}

impl Away {
    /// Looks whether any replica answers. Returns the reason to give up when none has for longer than the patience.
    async fn look(&mut self, engines: &Engines, patience: Duration) -> Option<String> {
        for replica in &engines.replicas {
            if tidemill_inference::is_reachable(&replica.url).await {
                self.since = None;
                return None;
            }
        }
        let urls: Vec<&str> = engines.replicas.iter().map(|replica| replica.url.as_str()).collect();
        let since = *self.since.get_or_insert_with(Instant::now);
        tracing::warn!(
            urls = urls.join(" "),
            seconds = since.elapsed().as_secs(),
            "no engine answers; waiting"
        );
        (since.elapsed() >= patience).then(|| format!("no engine at {} answered for {patience:?}", urls.join(", ")))
    }
}
