//! The replicas of a group as items see them: wait for one, use it, tell what happened.
//!
//! Items wait in one queue. A place that becomes free is handed to one of them, whom it suits, and nobody else wakes: with
//! thousands in flight each answer costs the same as with ten. Spare samples get what nothing else waits for. Replicas come and go while items wait and are asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::OptionFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tidemill_domain::{Capacity, Prompt};
use tidemill_inference::{Engine, Load, ProbeError};
use tidemill_service::Slots;
use tidemill_telemetry::Warning;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::health::Looked;
use crate::replicas::{Change, Pick, Place, Replicas, Sign, Took};
pub(crate) use crate::routing::Wish;
use crate::routing::{self, Barred, Queue};
use crate::sent::Sent;

/// How long a replica may take to tell its load, before it is asked only whether it is there, and how long to say that.
/// An engine may tell the one between two steps alone.
const LOAD_PATIENCE: Duration = Duration::from_secs(1);
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// How long a spare sample waits before it asks for a place at all: items that are released together come in any order.
const SPARES_YIELD: Duration = Duration::from_millis(250);

/// Requests in flight for each item that is taken ahead: the next is at hand when a place becomes free, a place has a choice, and
/// what is being recorded and acknowledged keeps no place empty. And how many are at least and at most.
const TAKEN_AHEAD: u32 = 4;
const AHEAD_AT_LEAST: u32 = 4;
const AHEAD_AT_MOST: u32 = 256;

/// An engine with the name that records and logs give it, and the most requests it is sent at once.
#[derive(Debug)]
pub(crate) struct Member<E> {
    pub(crate) engine: E,
    pub(crate) name: String,
    pub(crate) max_in_flight: u32,
}

/// The engines of one server group.
pub(crate) struct Pool<E> {
    state: Mutex<State<E>>,
    /// Replicas joined or left, or a time changed at which something is due.
    stirred: Notify,
    /// What the group's worker is to take at once.
    slots: watch::Sender<Slots>,
    /// Prompts that were sent to any of the replicas.
    sent: Mutex<Sent>,
    /// The most that it is to take, whatever the replicas want.
    most: u32,
}

struct State<E> {
    replicas: Replicas,
    queue: Queue<oneshot::Sender<Granted>>,
    members: BTreeMap<usize, Arc<Seat<E>>>,
}

type Granted = Result<Place, Hopeless>;

/// A replica that is used.
struct Seat<E> {
    index: usize,
    member: Member<E>,
    /// Cancelled, and made anew, when what is in flight there is lost.
    life: Mutex<CancellationToken>,
    /// It is to be looked at sooner than was planned.
    nudge: Notify,
}

/// No replica will ever take a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("every engine refuses every request: {0}")]
pub(crate) struct Hopeless(String);

/// How the engines of a pool are judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Keeps this generator's jitter apart from that of others.
    pub(crate) seed: u64,
    /// How long an engine may go on without a token before it counts as standing still.
    pub(crate) stall_patience: Duration,
    /// The most items that are taken at once.
    pub(crate) most: u32,
}

impl<E: Engine> Pool<E> {
    pub(crate) fn new(members: Vec<Member<E>>, terms: Terms) -> Self {
        let pool = Self {
            state: Mutex::new(State {
                replicas: Replicas::new(terms.seed, terms.stall_patience),
                queue: Queue::default(),
                members: BTreeMap::new(),
            }),
            stirred: Notify::new(),
            slots: watch::Sender::new(Slots::fixed(1)),
            sent: Mutex::default(),
            most: terms.most,
        };
        for member in members {
            pool.join(member);
        }
        pool
    }

    /// Adds a replica, which gets work at once, and returns its number.
    pub(crate) fn join(&self, member: Member<E>) -> usize {
        let mut state = self.lock();
        let index = state.replicas.join(&member.name, member.max_in_flight, Instant::now());
        let seat = Seat {
            index,
            member,
            life: Mutex::default(),
            nudge: Notify::new(),
        };
        state.members.insert(index, Arc::new(seat));
        self.changed(&mut state);
        self.stirred.notify_one();
        index
    }

    /// Sends a replica nothing more; what it has in flight goes on.
    pub(crate) fn leave(&self, index: usize) {
        let mut state = self.lock();
        state.replicas.leave(index);
        self.changed(&mut state);
    }

    /// Changes the most that a replica is sent.
    pub(crate) fn set_bound(&self, index: usize, bound: u32) {
        let mut state = self.lock();
        state.replicas.set_bound(index, bound);
        self.changed(&mut state);
    }

    /// What the group's worker is to take at once, as it changes.
    pub(crate) fn slots(&self) -> watch::Receiver<Slots> {
        self.slots.subscribe()
    }

    /// The replicas as others are told of them.
    pub(crate) fn capacity(&self) -> Capacity {
        let mut capacity = self.lock().replicas.capacity(Instant::now());
        capacity.slots = self.taken(capacity.slots);
        capacity
    }

    /// The share of a prompt that was sent to one of the replicas before, 0 to 1; it counts as sent from now on.
    pub(crate) fn sent_before(&self, prompt: &Prompt) -> f64 {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).share(prompt)
    }

    /// A replica serves that is not one of these.
    pub(crate) fn has_other(&self, barred: &Barred) -> bool {
        self.lock().replicas.has_other(barred)
    }

    /// Preemptions that the engines counted.
    pub(crate) fn preemptions(&self) -> u64 {
        self.lock().replicas.preemptions()
    }

    /// Waits for a replica with room and books one request there.
    ///
    /// # Cancel safety
    /// Nothing stays booked when the future is dropped.
    pub(crate) async fn book(&self, wish: Wish) -> Result<Booking<'_, E>, Hopeless> {
        if wish.is_spare {
            tokio::time::sleep(SPARES_YIELD).await;
        }
        loop {
            let place = self.place(wish).await?;
            if let Some(booking) = self.booking(place) {
                return Ok(booking);
            }
        }
    }

    async fn place(&self, wish: Wish) -> Granted {
        let mut ticket = {
            let mut state = self.lock();
            if state.queue.is_empty() {
                match state.replicas.pick(Instant::now(), &wish) {
                    Pick::Replica(index) => return Ok(state.replicas.book(index, &wish)),
                    Pick::Hopeless(reason) => return Err(Hopeless(reason)),
                    // Something may become due, and nobody has waited for it so far.
                    Pick::Wait(_) => self.stirred.notify_one(),
                }
            }
            let (sender, granted) = oneshot::channel();
            let number = state.queue.push(wish, sender);
            self.hand_out(&mut state);
            Ticket {
                pool: self,
                number,
                granted,
            }
        };
        // The sender lives in the queue until it has sent, and the queue as long as the pool.
        let granted = (&mut ticket.granted).await;
        granted.unwrap_or_else(|_| Err(Hopeless("the queue is gone".to_owned())))
    }

    /// `None` where the replica is gone.
    fn booking(&self, place: Place) -> Option<Booking<'_, E>> {
        let state = self.lock();
        let seat = state.members.get(&place.index).cloned()?;
        if state.replicas.in_flight(place.index) == 1 {
            seat.nudge.notify_one();
        }
        let life = seat.life.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(Booking {
            pool: self,
            index: place.index,
            place,
            is_flowing: AtomicBool::new(false),
            seat,
            life,
        })
    }

    /// Hands free places to those that wait, until there are no more of either.
    fn hand_out(&self, state: &mut State<E>) {
        let now = Instant::now();
        while let Some((first, wish)) = state.queue.first() {
            let chosen = match state.replicas.only_one(now) {
                Some(index) => {
                    let replicas = &state.replicas;
                    let ticket = state.queue.choose(|wish| replicas.fit(index, wish));
                    ticket.map(|ticket| (ticket, index))
                }
                None => match state.replicas.pick(now, &wish) {
                    Pick::Replica(index) => Some((first, index)),
                    Pick::Wait(_) => None,
                    Pick::Hopeless(reason) => {
                        if let Some((_, waits)) = state.queue.remove(first) {
                            drop(waits.send(Err(Hopeless(reason))));
                        }
                        continue;
                    }
                },
            };
            let Some((ticket, index)) = chosen else { return };
            let Some((wish, waits)) = state.queue.remove(ticket) else {
                return;
            };
            let place = state.replicas.book(index, &wish);
            if let Err(Ok(place)) = waits.send(Ok(place)) {
                // It was given up just now.
                state.replicas.free(place);
            }
        }
    }

    /// Tells the worker how much to take, and hands out what became free.
    fn changed(&self, state: &mut State<E>) {
        self.hand_out(state);
        let slots = Slots {
            taken: self.taken(state.replicas.allowed()) as usize,
            max_ack_pending: Some(i64::from(state.replicas.bound().max(1))),
        };
        self.slots.send_if_modified(|sent| {
            let is_new = *sent != slots;
            *sent = slots;
            is_new
        });
    }

    /// The items that are taken at once where so many requests are to be in flight.
    fn taken(&self, allowed: u32) -> u32 {
        let ahead = (allowed / TAKEN_AHEAD).clamp(AHEAD_AT_LEAST, AHEAD_AT_MOST);
        (allowed + ahead).min(self.most).max(1)
    }

    /// Looks after the replicas until the future is dropped: their loads, whether they are there, and what becomes due.
    pub(crate) async fn look_after(&self) {
        let mut looking = FuturesUnordered::new();
        let mut looked_after = 0;
        loop {
            let due = {
                let mut state = self.lock();
                let new = state.members.range(looked_after..).map(|(_, seat)| Arc::clone(seat));
                let new: Vec<_> = new.collect();
                for seat in new {
                    looked_after = seat.index + 1;
                    looking.push(self.look_after_one(seat));
                }
                self.changed(&mut state);
                self.due(&state)
            };
            let due = OptionFuture::from(due.map(sleep_until));
            tokio::select! {
                () = self.stirred.notified() => {}
                Some(gone) = looking.next() => drop(self.lock().members.remove(&gone)),
                Some(()) = due => {}
            }
        }
    }

    /// When those that wait may get something though nothing happens.
    fn due(&self, state: &State<E>) -> Option<Instant> {
        let (_, wish) = state.queue.first()?;
        match state.replicas.pick(Instant::now(), &wish) {
            Pick::Wait(due) => due,
            Pick::Replica(_) | Pick::Hopeless(_) => None,
        }
    }

    /// Looks at one replica again and again, never twice at once, until it is forgotten. Returns its number.
    async fn look_after_one(&self, seat: Arc<Seat<E>>) -> usize {
        loop {
            let next = self.lock().replicas.next_look(seat.index, Instant::now());
            let Some(at) = next else { return seat.index };
            tokio::select! {
                () = sleep_until(at) => {}
                () = seat.nudge.notified() => continue,
            }
            let is_stopped = self.lock().replicas.is_stopped(seat.index);
            let (looked, load) = look(&seat.member.engine, is_stopped).await;
            let why = looked.clone();
            let mut state = self.lock();
            let pieces = seat.member.engine.progress();
            let change = state.replicas.looked(seat.index, looked, load, pieces, Instant::now());
            self.apply(&mut state, &seat, change, Why::Away(why.why()));
        }
    }

    /// Does what a change of a replica asks for.
    fn apply(&self, state: &mut State<E>, seat: &Seat<E>, change: Change, why: Why<'_>) {
        let engine = seat.member.name.as_str();
        match change {
            Change::None => return,
            Change::Level => {}
            Change::Opened => {
                let warning = Warning {
                    message: "engine takes no requests",
                    scope: engine,
                    reason: why.text(),
                };
                match why {
                    _ if !tidemill_telemetry::is_said(warning) => {}
                    Why::Refusal(reason) => tracing::error!(engine, reason, "engine refuses every request"),
                    Why::Away(reason) => {
                        tracing::warn!(engine, reason, "engine is away; its items wait or go elsewhere");
                    }
                }
                seat.nudge.notify_one();
            }
            Change::Died => {
                let lost = state.replicas.in_flight(seat.index);
                tracing::warn!(
                    engine,
                    lost,
                    reason = why.text(),
                    "engine is dead or stands still; its items go elsewhere or wait"
                );
                let mut life = seat.life.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *life).cancel();
                seat.nudge.notify_one();
            }
            Change::Closed => tracing::info!(engine, "engine answers again"),
        }
        self.stirred.notify_one();
        self.changed(state);
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a replica is sent nothing more.
#[derive(Clone, Copy)]
enum Why<'a> {
    /// It would refuse every request, with this reason.
    Refusal(&'a str),
    /// It is away, or as good as that.
    Away(&'a str),
}

impl<'a> Why<'a> {
    const fn text(self) -> &'a str {
        match self {
            Self::Refusal(reason) | Self::Away(reason) => reason,
        }
    }
}

/// Looks whether an engine is there, and at its load where it says. Of one that is stopped the load shows too little: another
/// server may have come back in its place.
async fn look<E: Engine>(engine: &E, is_stopped: bool) -> (Looked, Load) {
    if is_stopped {
        let looked = look_for(engine).await;
        if looked != Looked::Answered {
            return (looked, Load::default());
        }
    }
    // One that says nothing may not have been asked.
    if engine.capabilities().metrics
        && let Ok(Ok(load)) = timeout(LOAD_PATIENCE, engine.load()).await
        && load != Load::default()
    {
        return (Looked::Answered, load);
    }
    let looked = if is_stopped {
        Looked::Answered
    } else {
        look_for(engine).await
    };
    (looked, Load::default())
}

async fn look_for<E: Engine>(engine: &E) -> Looked {
    match timeout(LOOK_PATIENCE, engine.alive()).await {
        Ok(Ok(())) => Looked::Answered,
        Ok(Err(error)) => {
            tracing::debug!(%error, "engine not found at a look");
            found(&error)
        }
        Err(_) => Looked::Silent,
    }
}

/// What an error at a look tells. Whatever answers with a status is there, though perhaps not the engine itself.
fn found(error: &ProbeError) -> Looked {
    match error {
        ProbeError::Another { .. } => Looked::Another(error.to_string()),
        ProbeError::Unauthorised { .. } | ProbeError::WrongModel { .. } => Looked::Refusing(error.to_string()),
        ProbeError::Unready { .. }
        | ProbeError::NotOpenAi { .. }
        | ProbeError::NoAnswer { .. }
        | ProbeError::NoPromptLogprobs { .. } => Looked::Unready,
        ProbeError::Silent { .. } => Looked::Silent,
        ProbeError::Client(_) | ProbeError::Unreachable { .. } => Looked::Nobody,
    }
}

/// A wait for a place, given up when dropped.
struct Ticket<'a, E: Engine> {
    pool: &'a Pool<E>,
    number: routing::Ticket,
    granted: oneshot::Receiver<Granted>,
}

impl<E: Engine> Drop for Ticket<'_, E> {
    fn drop(&mut self) {
        if self.granted.is_terminated() {
            return;
        }
        let mut state = self.pool.lock();
        state.queue.remove(self.number);
        self.granted.close();
        if let Ok(Ok(place)) = self.granted.try_recv() {
            state.replicas.free(place);
            self.pool.hand_out(&mut state);
        }
    }
}

/// One request's place at a replica, given back when dropped.
pub(crate) struct Booking<'a, E: Engine> {
    pool: &'a Pool<E>,
    pub(crate) index: usize,
    place: Place,
    /// Its answer has begun.
    is_flowing: AtomicBool,
    seat: Arc<Seat<E>>,
    life: CancellationToken,
}

impl<E: Engine> Booking<'_, E> {
    pub(crate) fn engine(&self) -> &E {
        &self.seat.member.engine
    }

    pub(crate) fn name(&self) -> &str {
        &self.seat.member.name
    }

    /// Waits until the replica is known to be dead, or to stand still: the request will not be answered.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn lost(&self) {
        self.life.cancelled().await;
    }

    /// The request is sent now. False when the place holds no more, for what became known of the replica since it was
    /// booked: then nothing may be sent.
    pub(crate) fn begin(&mut self) -> bool {
        if self.life.is_cancelled() {
            return false;
        }
        let mut state = self.pool.lock();
        state.replicas.begin(&mut self.place, Instant::now())
    }

    /// Its replica is sent nothing at present but what tries it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.pool.lock().replicas.is_stopped(self.index)
    }

    /// The first token of the answer is there.
    pub(crate) fn flows(&self) {
        if !self.is_flowing.swap(true, Ordering::Relaxed) {
            let mut state = self.pool.lock();
            let change = state.replicas.flows(self.place, Instant::now());
            self.pool.apply(&mut state, &self.seat, change, Why::Away(""));
        }
    }

    /// Tells what an answer was.
    pub(crate) fn took(&self, took: Took) {
        self.pool.lock().replicas.took(self.place, took, Instant::now());
    }

    /// Tells what the request told about the replica.
    pub(crate) fn note(&self, sign: Sign) {
        let told = sign.clone();
        let why = match &told {
            Sign::Refusing(reason) => Why::Refusal(reason),
            _ => Why::Away(told.why()),
        };
        let mut state = self.pool.lock();
        let now = Instant::now();
        if let Some(pieces) = self.engine().progress().filter(|_| sign == Sign::Away) {
            // What came before it went away says nothing of what it does now.
            state.replicas.progressed(self.index, pieces, now);
        }
        let change = state.replicas.note(self.index, sign, now);
        self.pool.apply(&mut state, &self.seat, change, why);
    }
}

impl<E: Engine> Drop for Booking<'_, E> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        if *self.is_flowing.get_mut() {
            state.replicas.ended(self.index);
        }
        state.replicas.free(self.place);
        self.pool.hand_out(&mut state);
    }
}

#[cfg(test)]
mod tests;
