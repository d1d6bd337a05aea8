//! One replica: its model, who waits for it, and what it was told to do wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::ledger::Ledger;
use crate::config::Config;
use crate::faults::{Active, Fault, FaultKind, Seen};
use crate::model::{Arrival, Engine, Finished, Refusal, SequenceId, Step, Totals};

/// How far a sequence is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Progress {
    Tokens(u32),
    Finished(Finished),
}

/// What handlers, the driver and the listener of a replica share.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) index: u16,
    pub(super) config: Arc<Config>,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    /// Whether it listens.
    pub(super) is_up: watch::Sender<bool>,
    /// Counts how often its faults were set.
    pub(super) faults_set: watch::Sender<u64>,
    state: Mutex<State>,
    /// The driver has something to look at.
    wake: Notify,
}

#[derive(Debug)]
struct State {
    engine: Engine,
    waiters: HashMap<SequenceId, Waiter>,
    /// How many of the waiters stream.
    streams: usize,
    requests: u64,
    faults: Active,
    faults_since: Instant,
    stall: Option<Stall>,
    patience: Option<Patience>,
    died_in: Totals,
}

#[derive(Debug, Clone, Copy)]
enum Stall {
    ForEver,
    Until(Instant),
}

/// A time in which the replica asked to be left alone.
#[derive(Debug, Clone, Copy)]
struct Patience {
    since: Instant,
    until: Instant,
}

/// What is on its way when a client learns that it should wait is not held against it.
const ON_THE_WAY: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Waiter {
    progress: watch::Sender<Progress>,
    streams: bool,
    told: u32,
}

/// Figures of a moment, for `/metrics`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) running: u32,
    pub(super) waiting: u32,
    pub(super) kv_use: f64,
    pub(super) totals: Totals,
}

impl Replica {
    pub(super) fn new(index: u16, config: Arc<Config>, ledger: Arc<Mutex<Ledger>>) -> Self {
        let state = State {
            engine: Engine::new(config.engine.clone()),
            waiters: HashMap::new(),
            streams: 0,
            requests: 0,
            faults: Active::new(&config.faults, index),
            faults_since: Instant::now(),
            stall: None,
            patience: None,
            died_in: Totals::default(),
        };
        Self {
            index,
            config,
            ledger,
            is_up: watch::channel(true).0,
            faults_set: watch::channel(0).0,
            state: Mutex::new(state),
            wake: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a request that begins.
    pub(super) fn number(&self) -> u64 {
        let mut state = self.lock();
        state.requests += 1;
        state.requests
    }

    /// Asks every client to wait; a time that runs already stays as it is.
    pub(super) fn ask_for_patience(&self, wait: Duration) {
        let now = Instant::now();
        let mut state = self.lock();
        if state.patience.is_none_or(|patience| patience.until <= now) {
            state.patience = Some(Patience {
                since: now,
                until: now + wait,
            });
        }
    }

    /// Whether a request comes now that should have waited.
    pub(super) fn is_early(&self) -> bool {
        let now = Instant::now();
        let is_within = |patience: Patience| now > patience.since + ON_THE_WAY && now < patience.until;
        self.lock().patience.is_some_and(is_within)
    }

    /// What goes wrong with a request; its prompt's text is made only where a fault reads it.
    pub(super) fn fault(
        &self,
        number: u64,
        hash: u64,
        is_probe: bool,
        prompt: impl FnOnce() -> String,
    ) -> Option<Fault> {
        let mut state = self.lock();
        let elapsed = state.faults_since.elapsed();
        let prompt = if state.faults.reads_prompts() {
            prompt()
        } else {
            String::new()
        };
        let seen = Seen {
            number,
            hash,
            prompt: &prompt,
            is_probe,
        };
        state.faults.meet(seen, elapsed)
    }

    /// Whether a fault that begins by itself is there.
    pub(super) fn holds(&self, kind: FaultKind) -> bool {
        let state = self.lock();
        state.faults.holds(kind, state.faults_since.elapsed())
    }

    /// Sets other faults; what an earlier one stalled goes on.
    pub(super) fn set_faults(&self, faults: &[Fault]) {
        let mut state = self.lock();
        state.faults = Active::new(faults, self.index);
        state.faults_since = Instant::now();
        state.stall = None;
        drop(state);
        self.wake.notify_one();
        self.faults_set.send_modify(|times| *times += 1);
    }

    /// The faults that begin by themselves, each with what is left until it does.
    pub(super) fn timed_faults(&self) -> Vec<(Fault, Duration)> {
        let state = self.lock();
        let elapsed = state.faults_since.elapsed();
        let left = |fault: &Fault| (fault.clone(), fault.after.saturating_sub(elapsed));
        state.faults.timed().map(left).collect()
    }

    /// How often each fault was met.
    pub(super) fn faults_met(&self) -> Vec<(FaultKind, u64)> {
        self.lock().faults.met().collect()
    }

    /// Gives the sequences of a request to the model: all or none.
    pub(super) fn submit(self: &Arc<Self>, arrivals: Vec<Arrival>, streams: bool) -> Result<Ticket, Refusal> {
        let mut state = self.lock();
        let mut ticket = Ticket {
            replica: Arc::clone(self),
            places: Vec::with_capacity(arrivals.len()),
        };
        for arrival in arrivals {
            match state.engine.submit(arrival) {
                Ok(id) => {
                    let (progress, receiver) = watch::channel(Progress::Tokens(0));
                    let waiter = Waiter {
                        progress,
                        streams,
                        told: 0,
                    };
                    state.streams += usize::from(streams);
                    state.waiters.insert(id, waiter);
                    ticket.places.push((id, receiver));
                }
                Err(refusal) => {
                    // The ticket's end gives the others back, and needs the lock for it.
                    drop(state);
                    drop(ticket);
                    return Err(refusal);
                }
            }
        }
        drop(state);
        self.wake.notify_one();
        Ok(ticket)
    }

    /// Stops giving tokens, for a time or for ever.
    pub(super) fn stall(&self, lasts: Option<Duration>) {
        self.lock().stall = Some(lasts.map_or(Stall::ForEver, |lasts| Stall::Until(Instant::now() + lasts)));
    }

    /// Loses all sequences and caches, and stops listening.
    pub(super) fn die(&self) {
        {
            let mut state = self.lock();
            state.died_in = add(&state.died_in, state.engine.totals());
            state.engine = state.engine.renewed();
            state.waiters.clear();
            state.streams = 0;
        }
        self.ledger().death();
        self.is_up.send_replace(false);
    }

    pub(super) fn rise(&self) {
        self.is_up.send_replace(true);
        self.wake.notify_one();
    }

    pub(super) fn load(&self) -> Load {
        let state = self.lock();
        Load {
            running: state.engine.running(),
            waiting: state.engine.waiting(),
            kv_use: state.engine.kv_use(),
            totals: add(&state.died_in, state.engine.totals()),
        }
    }

    /// Forgets what was counted, and, where nobody waits, what is cached.
    pub(super) fn reset(&self) {
        let mut state = self.lock();
        if state.waiters.is_empty() {
            state.engine = state.engine.renewed();
            state.died_in = Totals::default();
        }
        state.requests = 0;
    }

    /// Computes steps as they are due, for ever.
    ///
    /// A step is computed when it begins and told when it ends, so that what arrives meanwhile is in the next one. Where the
    /// wall clock is ahead, steps follow each other at once: the virtual times stay those of the model.
    pub(super) async fn drive(&self) {
        let began = Instant::now();
        let speed = self.config.speed;
        let mut was_idle = true;
        loop {
            self.wait_out_stalls(&mut was_idle).await;
            let step = {
                let mut state = self.lock();
                if was_idle && speed > 0.0 {
                    state.engine.idle_until(began.elapsed().mul_f64(speed));
                }
                state.engine.step()
            };
            let Some(step) = step else {
                was_idle = true;
                self.wake.notified().await;
                continue;
            };
            was_idle = false;
            if speed > 0.0 {
                let due = began + step.ended_at.div_f64(speed);
                if due > Instant::now() {
                    tokio::time::sleep_until(due).await;
                } else {
                    tokio::task::yield_now().await;
                }
            } else {
                tokio::task::yield_now().await;
            }
            self.tell(&step);
        }
    }

    async fn wait_out_stalls(&self, was_idle: &mut bool) {
        loop {
            let stall = self.lock().stall;
            match stall {
                None => return,
                Some(Stall::ForEver) => self.wake.notified().await,
                Some(Stall::Until(end)) if end > Instant::now() => {
                    tokio::select! {
                        () = tokio::time::sleep_until(end) => {}
                        () = self.wake.notified() => {}
                    }
                }
                Some(Stall::Until(_)) => self.lock().stall = None,
            }
            *was_idle = true;
        }
    }

    /// Tells those who wait what a step brought.
    fn tell(&self, step: &Step) {
        let mut state = self.lock();
        for finished in &step.finished {
            if let Some(waiter) = state.waiters.remove(&finished.id) {
                state.streams -= usize::from(waiter.streams);
                waiter.progress.send_replace(Progress::Finished(*finished));
            }
        }
        if state.streams == 0 {
            return;
        }
        let interval = self.config.stream_interval;
        let State { engine, waiters, .. } = &mut *state;
        for (id, tokens) in engine.progress() {
            let Some(waiter) = waiters.get_mut(&id).filter(|waiter| waiter.streams) else {
                continue;
            };
            // The first token is always told at once.
            if tokens >= waiter.told + interval || (waiter.told == 0 && tokens > 0) {
                waiter.told = tokens;
                waiter.progress.send_replace(Progress::Tokens(tokens));
            }
        }
    }
}

fn add(left: &Totals, right: &Totals) -> Totals {
    Totals {
        steps: left.steps + right.steps,
        busy: left.busy + right.busy,
        running_seconds: left.running_seconds + right.running_seconds,
        present_seconds: left.present_seconds + right.present_seconds,
        preemptions: left.preemptions + right.preemptions,
        prefix_queries: left.prefix_queries + right.prefix_queries,
        prefix_hits: left.prefix_hits + right.prefix_hits,
        prompt_tokens: left.prompt_tokens + right.prompt_tokens,
        prefill_tokens: left.prefill_tokens + right.prefill_tokens,
        generated_tokens: left.generated_tokens + right.generated_tokens,
    }
}

/// The sequences of one request. Dropping it, as a closed connection does, aborts what has not ended.
#[derive(Debug)]
pub(super) struct Ticket {
    replica: Arc<Replica>,
    pub(super) places: Vec<(SequenceId, watch::Receiver<Progress>)>,
}

/// The replica lost the sequence.
#[derive(Debug)]
pub(super) struct Lost;

impl Ticket {
    /// Waits until every sequence has all its tokens.
    pub(super) async fn finished(&mut self) -> Result<Vec<Finished>, Lost> {
        let mut all = Vec::with_capacity(self.places.len());
        for (_, progress) in &mut self.places {
            let is_finished = |progress: &Progress| matches!(progress, Progress::Finished(_));
            match *progress.wait_for(is_finished).await.map_err(|_| Lost)? {
                Progress::Finished(finished) => all.push(finished),
                Progress::Tokens(_) => return Err(Lost),
            }
        }
        Ok(all)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.replica.lock();
        for (id, _) in &self.places {
            if let Some(waiter) = state.waiters.remove(id) {
                state.streams -= usize::from(waiter.streams);
                state.engine.abort(*id);
            }
        }
        drop(state);
        self.replica.wake.notify_one();
    }
}
