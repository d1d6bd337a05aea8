//! The generation cache: what was generated from the same weights for the same request is not asked for again, whichever
//! evaluation asks.
//!
//! A generation is stored before its completion is, so that whoever finds the completion finds the generation too, and an
//! item that was answered but not recorded when its generator was killed is not asked for again. The cache only saves work:
//! when it is away, full or gone, items go on without it after at most [`PATIENCE`], and it is left alone for a while. An
//! entry that is not exactly what was stored is a miss.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::message::PublishMessage;
use tidemill_codec::{Body, Envelope, claim, decode, encode, seal, unseal};
use tidemill_domain::{Asked, Benchmark, Completion, Digest, Generation, GenerationKey, GroupId, Item, Release, Reuse};
use tidemill_domain::{Class, ServerGroup};
use tidemill_service::{Context, Delivery, Failure, leader, now};
use tidemill_storage::CLAIM_ABOVE_BYTES;
use tidemill_streams::{declared, subject};
use tidemill_telemetry::{Metric, Warning};
use tokio::time::{Instant, timeout};

use crate::keys::{Held, Keys};

/// How long an item waits for an answer of the cache.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long nothing is stored after a store that failed: a cache that does not answer must not slow every item.
const REST: Duration = Duration::from_secs(10);

/// Generations that may wait to be stored late; those beyond are not stored.
const LATE: usize = 4_096;

/// What all groups of a process share about generations.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    in_flight: Arc<Keys<GenerationKey>>,
    /// Generations that could not be stored while the broker was away.
    late: Mutex<HashSet<GenerationKey>>,
    rest: Rest,
}

/// The time for which the cache is left alone.
#[derive(Debug, Default)]
struct Rest(Mutex<Option<Instant>>);

impl Rest {
    /// Leaves it alone from now on for a while. True when it was not left alone already: of what is in flight then, many fail.
    fn begin(&self, now: Instant) -> bool {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.replace(now + REST).is_none_or(|until| until <= now)
    }

    fn lasts(&self, now: Instant) -> bool {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| now < until)
    }
}

/// The cache as one server group sees it.
pub(crate) struct Cache {
    context: Context,
    group: GroupId,
    weights: Digest,
    generations: Arc<Generations>,
}

/// The right to generate what was not found; nobody else of this process does so meanwhile.
pub(crate) struct Wanted(Option<Held<GenerationKey>>);

/// What the cache had for a release.
pub(crate) enum Earlier {
    /// The completion of its sample.
    Found(Box<Completion>),
    /// Nothing: an engine is to be asked.
    None(Wanted),
}

/// Why a look found nothing.
#[derive(Debug)]
enum Missed {
    /// There is no entry.
    Nothing,
    /// What is there is not what was stored.
    Damaged(String),
    /// The cache did not answer.
    Failed(String),
}

impl Cache {
    pub(crate) fn new(context: &Context, group: &ServerGroup, generations: Arc<Generations>) -> Self {
        Self {
            context: context.clone(),
            group: group.group.clone(),
            weights: group.checkpoint.clone(),
            generations,
        }
    }

    /// Looks for an earlier generation of what a release asks for, after whoever of this process generates it now.
    ///
    /// There is no look where nothing can be there: a release that the dispatcher does not know to be cached, delivered for
    /// the first time over a connection that was never lost.
    ///
    /// # Errors
    /// A transient failure while the broker is away: nothing could be recorded either.
    ///
    /// # Cancel safety
    /// Dropping the future gives the generation back to others.
    pub(crate) async fn earlier(
        &self,
        release: &Release,
        delivery: &Delivery,
        benchmark: &Benchmark,
        item: &Item,
    ) -> Result<Earlier, Failure> {
        if release.reuse == Reuse::Never || !self.context.config.cache.enabled {
            return Ok(Earlier::None(Wanted(None)));
        }
        let key = Asked::of(&self.weights, benchmark, item, release.key.sample).key();
        let held = Arc::clone(&self.generations.in_flight).hold(key).await;
        let reconnected = *self.context.broker.connections.borrow() > 1;
        let may_be_there =
            release.reuse == Reuse::Likely || release.again || delivery.delivered > 1 || held.waited() || reconnected;
        if may_be_there && let Some(generation) = self.find(key, release.reuse).await? {
            let completion = generation.answer(release.key.clone(), release.manifest.clone(), now());
            return Ok(Earlier::Found(Box::new(completion)));
        }
        Ok(Earlier::None(Wanted(Some(held))))
    }

    async fn find(&self, key: GenerationKey, reuse: Reuse) -> Result<Option<Generation>, Failure> {
        let looked = timeout(PATIENCE, self.look(key)).await;
        let missed = match looked.unwrap_or_else(|_| Err(Missed::Failed(format!("no answer within {PATIENCE:?}")))) {
            Ok(generation) => {
                count_look("hit");
                return Ok(Some(generation));
            }
            Err(missed) => missed,
        };
        match missed {
            Missed::Nothing => count_look(if reuse == Reuse::Likely { "evicted" } else { "miss" }),
            Missed::Damaged(reason) => {
                count_look("damaged");
                if self.is_said("a cached generation is unusable", &reason) {
                    tracing::warn!(generation = %key, group = %self.group, reason, "a cached generation is unusable; generating it anew");
                }
            }
            Missed::Failed(reason) => {
                count_look("failed");
                if self.context.broker.client.connection_state() != State::Connected {
                    return Err(Failure::of(Class::Transient, &std::io::Error::other(reason)));
                }
                if self.is_said("the generation cache does not answer", &reason) {
                    tracing::warn!(generation = %key, group = %self.group, reason, "the generation cache does not answer; generating");
                }
            }
        }
        Ok(None)
    }

    async fn look(&self, key: GenerationKey) -> Result<Generation, Missed> {
        // Of the leader: a copy that is behind would have it generated twice.
        let on = subject::cache(&self.group, &key);
        let last = leader::last(self.context.jetstream(), declared::CACHE.name, &on).await;
        let message = last.map_err(Missed::failed)?.ok_or(Missed::Nothing)?;
        let message = unseal(&message.payload).map_err(Missed::damaged)?;
        let generation: Generation = match Envelope::open(message).map_err(Missed::damaged)?.body {
            Body::Here(_) => decode(message).map_err(Missed::damaged)?,
            Body::Claimed(body) => {
                let body = self.context.store.get(body).await.map_err(|error| match error {
                    tidemill_storage::Error::Missing { .. } => Missed::damaged(error),
                    error => Missed::failed(error),
                })?;
                decode(unseal(&body).map_err(Missed::damaged)?).map_err(Missed::damaged)?
            }
        };
        if generation.key == key {
            Ok(generation)
        } else {
            Err(Missed::Damaged(format!("it is that of {}", generation.key)))
        }
    }

    fn is_said(&self, message: &'static str, reason: &str) -> bool {
        tidemill_telemetry::is_said(Warning {
            message,
            scope: self.group.as_str(),
            reason,
        })
    }

    /// Stores what was generated, where it may answer others, and notes in the completion what it is known by.
    pub(crate) async fn keep(&self, completion: &mut Completion, wanted: Wanted) {
        let Some(held) = wanted.0 else { return };
        completion.generation = Some(*held.key());
        if !self.store(completion).await && self.context.broker.client.connection_state() != State::Connected {
            let mut late = self.generations.late.lock().unwrap_or_else(PoisonError::into_inner);
            if late.len() < LATE {
                late.insert(*held.key());
            }
        }
    }

    /// Stores a generation whose completion was recorded and that could not be stored before, the broker being away.
    pub(crate) async fn keep_late(&self, completion: &Completion) {
        let is_late = completion.generation.is_some_and(|key| {
            let mut late = self.generations.late.lock().unwrap_or_else(PoisonError::into_inner);
            late.remove(&key)
        });
        if is_late {
            self.store(completion).await;
        }
    }

    /// Returns whether there was nothing to store or it is stored.
    async fn store(&self, completion: &Completion) -> bool {
        let Some(generation) = Generation::of(completion) else {
            return true;
        };
        if self.is_resting() {
            tidemill_telemetry::count(Metric::CacheStores, [("result", "failed")]);
            return false;
        }
        let stored = timeout(PATIENCE, self.put(&generation)).await;
        let reason = match stored.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}"))) {
            Ok(bytes) => {
                tidemill_telemetry::count(Metric::CacheStores, [("result", "stored")]);
                tidemill_telemetry::add(Metric::CacheStoredBytes, bytes as u64, []);
                return true;
            }
            Err(reason) => reason,
        };
        tidemill_telemetry::count(Metric::CacheStores, [("result", "failed")]);
        if self.context.broker.client.connection_state() == State::Connected {
            let is_news = self.generations.rest.begin(Instant::now());
            if is_news {
                tracing::warn!(group = %self.group, reason, "the generation cache takes nothing; it is left alone for {REST:?}");
            }
        }
        false
    }

    fn is_resting(&self) -> bool {
        self.generations.rest.lasts(Instant::now())
    }

    async fn put(&self, generation: &Generation) -> Result<usize, String> {
        let mut payload = seal(encode(generation).map_err(text)?);
        let bytes = payload.len();
        if bytes > CLAIM_ABOVE_BYTES {
            let body = tidemill_storage::cached_body(&self.group, &generation.key);
            self.context.store.put(&body, payload).await.map_err(text)?;
            payload = seal(claim::<Generation>(&body));
        }
        let message = PublishMessage::build().payload(payload.into());
        let subject = subject::cache(&self.group, &generation.key);
        let publishing = self.context.jetstream().send_publish(subject, message).await;
        publishing.map_err(text)?.await.map_err(text)?;
        Ok(bytes)
    }
}

impl Missed {
    fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }

    fn damaged(error: impl std::fmt::Display) -> Self {
        Self::Damaged(error.to_string())
    }
}

fn count_look(result: &'static str) {
    tidemill_telemetry::count(Metric::CacheLookups, [("result", result)]);
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_that_fail_together_one_is_told() {
        let (rest, now) = (Rest::default(), Instant::now());
        assert!(!rest.lasts(now));
        assert!(rest.begin(now));
        assert!(!rest.begin(now) && rest.lasts(now));
        assert!(!rest.lasts(now + REST));
        assert!(rest.begin(now + REST), "it is told anew");
    }
}
