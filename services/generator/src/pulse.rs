//! What this generator can take, told to whoever dispatches, and its levels as metrics.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::kv::Store;
use tidemill_domain::{Capacity, GroupId};
use tidemill_inference::Engine;
use tidemill_service::{Context, Slots};
use tidemill_streams::buckets;
use tidemill_telemetry::Metric;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::pool::Pool;

/// Between two beats where nothing changes, and the shortest pause where something does.
const BEAT: Duration = Duration::from_secs(2);
const SHORTEST: Duration = Duration::from_millis(100);

/// How long the broker may take for one.
const PATIENCE: Duration = Duration::from_secs(2);

/// The heartbeat of one group in this process.
pub(crate) struct Pulse<'a, E> {
    context: &'a Context,
    pool: &'a Pool<E>,
    board: &'a Board,
    /// Its own: while a group that was stopped finishes what it has, another run of it may have begun.
    key: String,
}

/// Runs of groups in this process.
static RUNS: AtomicU64 = AtomicU64::new(0);

impl<'a, E: Engine> Pulse<'a, E> {
    pub(crate) fn new(context: &'a Context, group: &GroupId, pool: &'a Pool<E>, board: &'a Board) -> Self {
        Self {
            context,
            pool,
            board,
            key: format!("{group}.{}-{}", context.holder, RUNS.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Beats every two seconds, and at once when the number changed by much, until `stopped`: what is taken then is over, though
    /// what was taken goes on.
    pub(crate) async fn beat(&self, stopped: &CancellationToken) {
        let mut slots = self.pool.slots();
        while !stopped.is_cancelled() {
            let capacity = self.pool.capacity();
            let told = capacity.slots;
            self.board.put(&self.key, &capacity, self.pool.preemptions());
            self.write(&capacity).await;
            let beat = Instant::now();
            let next = async {
                sleep_until(beat + SHORTEST).await;
                tokio::select! {
                    () = sleep_until(beat + BEAT) => {}
                    () = changed_by_much(&mut slots, self.pool, told) => {}
                }
            };
            tokio::select! { biased;
                () = stopped.cancelled() => {}
                () = next => {}
            }
        }
        self.end().await;
    }

    /// Nothing is taken any more.
    async fn end(&self) {
        self.board.remove(&self.key);
        let deleting = async {
            self.bucket()
                .await?
                .delete(&self.key)
                .await
                .map_err(|error| error.to_string())
        };
        if let Ok(Err(reason)) = timeout(PATIENCE, deleting).await {
            tracing::debug!(key = self.key, reason, "capacity not taken back; it expires");
        }
    }

    async fn write(&self, capacity: &Capacity) {
        let writing = async {
            let bytes = serde_json::to_vec(capacity).map_err(|error| error.to_string())?;
            let bucket = self.bucket().await?;
            bucket
                .put(&self.key, bytes.into())
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        };
        match timeout(PATIENCE, writing).await {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => tracing::debug!(key = self.key, reason, "capacity not told"),
            Err(_) => tracing::debug!(key = self.key, "capacity not told: the broker does not answer"),
        }
    }

    async fn bucket(&self) -> Result<Store, String> {
        let jetstream = self.context.jetstream();
        let bucket = jetstream.get_key_value(buckets::CAPACITY.name).await;
        bucket.map_err(|error| error.to_string())
    }
}

/// Waits until the pool takes a quarter more or less than was told.
async fn changed_by_much<E: Engine>(slots: &mut watch::Receiver<Slots>, pool: &Pool<E>, told: u32) {
    while slots.changed().await.is_ok() {
        if is_much(told, pool.capacity().slots) {
            return;
        }
    }
    std::future::pending().await
}

/// A quarter more or less.
fn is_much(told: u32, now: u32) -> bool {
    u64::from(told.abs_diff(now)) * 4 > u64::from(told)
}

/// The levels of all groups of a process: a metric has one value for all of them.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<HashMap<String, Levels>>);

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Levels {
    allowed: u32,
    in_flight: u32,
    waiting: u32,
    kv_use: f64,
    preemptions: u64,
    away: u32,
}

impl Board {
    fn put(&self, key: &str, capacity: &Capacity, preemptions: u64) {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = groups.insert(key.to_owned(), Levels::of(capacity, preemptions));
        let before = before.map_or(0, |levels| levels.preemptions);
        tidemill_telemetry::add(Metric::EnginePreemptions, preemptions.saturating_sub(before), []);
        show(&groups);
    }

    fn remove(&self, key: &str) {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        groups.remove(key);
        show(&groups);
    }
}

fn show(groups: &HashMap<String, Levels>) {
    let sum = |level: fn(&Levels) -> u32| f64::from(groups.values().map(level).sum::<u32>());
    tidemill_telemetry::set(Metric::EngineAllowed, sum(|levels| levels.allowed), []);
    tidemill_telemetry::set(Metric::EngineInFlight, sum(|levels| levels.in_flight), []);
    tidemill_telemetry::set(Metric::EngineWaiting, sum(|levels| levels.waiting), []);
    tidemill_telemetry::set(Metric::EnginesAway, sum(|levels| levels.away), []);
    let fullest = groups.values().map(|levels| levels.kv_use).fold(0.0, f64::max);
    tidemill_telemetry::set(Metric::EngineKvUse, fullest, []);
}

impl Levels {
    fn of(capacity: &Capacity, preemptions: u64) -> Self {
        let replicas = &capacity.replicas;
        Self {
            allowed: capacity.slots,
            in_flight: capacity.in_flight,
            waiting: replicas.iter().filter_map(|replica| replica.waiting).sum(),
            kv_use: replicas.iter().filter_map(|replica| replica.kv_use).fold(0.0, f64::max),
            preemptions,
            away: replicas.iter().map(|replica| u32::from(replica.is_away)).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_nats::jetstream::kv::Operation;
    use futures::StreamExt as _;
    use tidemill_config::Config;
    use tidemill_inference::OpenAi;
    use tidemill_service::{connect, prepare};
    use tidemill_storage::{Address, Store as Objects};
    use tidemill_testkit::Broker;

    use super::*;
    use crate::pool::Terms;

    #[tokio::test]
    async fn a_run_that_is_stopped_takes_back_its_own_word_at_once_and_no_other() {
        let (broker, folder) = (Broker::start().unwrap(), tempfile::tempdir().unwrap());
        let config = Config::default();
        let connection = connect(&config, &broker.url(), "test").await.unwrap();
        let store = Objects::open(Address::of_folder(folder.path())).unwrap();
        prepare(&connection, &config, &store, true).await.unwrap();
        let context = Context::new("generator", connection, store, Arc::new(config));
        let terms = Terms {
            seed: 1,
            stall_patience: BEAT,
            most: 8,
        };
        let (pool, board, group) = (
            Pool::<OpenAi>::new(Vec::new(), terms),
            Board::default(),
            "0123456789abcdef".parse().unwrap(),
        );
        let pulse = || Pulse::new(&context, &group, &pool, &board);
        let (old, new) = (pulse(), pulse());
        let (stop_old, stop_new) = (CancellationToken::new(), CancellationToken::new());
        let mut told = old.bucket().await.unwrap().watch_all().await.unwrap();
        let mut gone = async |beats: &[&Pulse<'_, OpenAi>]| {
            let mut keys: Vec<&str> = beats.iter().map(|pulse| pulse.key.as_str()).collect();
            loop {
                let entry = told.next().await.unwrap().unwrap();
                if entry.operation != Operation::Put {
                    return entry.key;
                }
                keys.retain(|key| *key != entry.key);
                if keys.is_empty() {
                    return String::new();
                }
            }
        };
        let following = async {
            assert_eq!(gone(&[&old, &new]).await, "", "both said something");
            stop_old.cancel();
            // The old one still has what it took, and the new one goes on.
            assert_eq!(gone(&[&old]).await, old.key);
            assert!(new.bucket().await.unwrap().get(&new.key).await.unwrap().is_some());
            assert!(board.0.lock().unwrap().keys().eq([&new.key]));
            stop_new.cancel();
            assert_eq!(gone(&[&old]).await, new.key);
        };
        tokio::join!(old.beat(&stop_old), new.beat(&stop_new), following);
    }

    #[test]
    fn a_quarter_is_much() {
        assert!(!is_much(100, 125) && is_much(100, 126) && is_much(100, 74));
        assert!(is_much(0, 1) && !is_much(0, 0));
    }
}
