//! The replicas of a group as items see them: wait for one, use it, tell what happened.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::OptionFuture;
use tidemill_inference::Engine;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::replicas::{Change, Pick, Replicas, Sign};

/// An engine with the name that records and logs give it, and the most requests it is sent at once.
#[derive(Debug)]
pub(crate) struct Member<E> {
    pub(crate) engine: E,
    pub(crate) name: String,
    pub(crate) max_in_flight: u32,
}

/// The engines of one server group.
pub(crate) struct Pool<E> {
    members: Vec<Member<E>>,
    replicas: Mutex<Replicas>,
    /// A place became free, or a replica fit.
    room: Notify,
    /// A replica became unfit.
    opened: Notify,
}

/// What a request wants of its replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Wish {
    /// Taken only where no other has room.
    pub(crate) avoid: Option<usize>,
    /// What it has in common with others whose prompts begin alike; 0 for nothing.
    pub(crate) prefix: u64,
    /// The tokens that its answer is expected to have; 0 where nobody knows.
    pub(crate) expected_tokens: u32,
}

/// No replica will ever take a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("every engine refuses every request: {0}")]
pub(crate) struct Hopeless(String);

impl<E: Engine> Pool<E> {
    pub(crate) fn new(members: Vec<Member<E>>) -> Self {
        Self {
            replicas: Mutex::new(Replicas::new(members.iter().map(|member| member.max_in_flight))),
            members,
            room: Notify::new(),
            opened: Notify::new(),
        }
    }

    /// Waits for a replica with room and books one request there.
    ///
    /// # Cancel safety
    /// Nothing stays booked when the future is dropped.
    pub(crate) async fn book(&self, wish: Wish) -> Result<Booking<'_, E>, Hopeless> {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            // Listens before it looks, so that nothing is missed in between.
            room.as_mut().enable();
            let until = {
                let mut replicas = self.lock();
                match replicas.pick(Instant::now(), wish.avoid) {
                    Pick::Replica(index) => {
                        replicas.book(index);
                        return Ok(Booking { pool: self, index });
                    }
                    Pick::Wait(until) => until,
                    Pick::Hopeless(reason) => return Err(Hopeless(reason)),
                }
            };
            let timer = OptionFuture::from(until.map(sleep_until));
            tokio::select! {
                () = room => {}
                Some(()) = timer => {}
            }
        }
    }

    /// Looks after replicas that are away until the future is dropped.
    pub(crate) async fn look_after(&self) {
        loop {
            let opened = self.opened.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            let next = self.lock().next_look();
            let Some((index, look_at)) = next else {
                opened.await;
                continue;
            };
            tokio::select! {
                () = opened => continue,
                () = sleep_until(look_at) => {}
            }
            let looked = self.members[index].engine.alive().await;
            let answered = self.lock().looked(index, looked.is_ok(), Instant::now());
            let engine = self.members[index].name.as_str();
            if answered {
                tracing::info!(engine, "engine answers again");
                self.room.notify_waiters();
            } else if let Err(error) = looked {
                tracing::debug!(engine, %error, "engine still away");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Replicas> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request's place at a replica, given back when dropped.
pub(crate) struct Booking<'a, E: Engine> {
    pool: &'a Pool<E>,
    pub(crate) index: usize,
}

impl<E: Engine> Booking<'_, E> {
    pub(crate) fn engine(&self) -> &E {
        &self.pool.members[self.index].engine
    }

    pub(crate) fn name(&self) -> &str {
        &self.pool.members[self.index].name
    }

    /// Tells what the request told about the replica.
    pub(crate) fn note(&self, sign: Sign) {
        let reason = match &sign {
            Sign::Refusing(reason) => Some(reason.clone()),
            _ => None,
        };
        let may_grow = sign == Sign::Good;
        let change = self.pool.lock().note(self.index, sign, Instant::now());
        match (change, reason) {
            (Change::Opened, reason) => {
                match reason {
                    Some(reason) => tracing::error!(engine = self.name(), reason, "engine refuses every request"),
                    None => tracing::warn!(engine = self.name(), "engine is away; its items wait or go elsewhere"),
                }
                self.pool.opened.notify_waiters();
            }
            (Change::Closed, _) => self.pool.room.notify_waiters(),
            (Change::None, _) if may_grow => self.pool.room.notify_one(),
            (Change::None, _) => {}
        }
    }
}

impl<E: Engine> Drop for Booking<'_, E> {
    fn drop(&mut self) {
        self.pool.lock().free(self.index);
        self.pool.room.notify_one();
    }
}
