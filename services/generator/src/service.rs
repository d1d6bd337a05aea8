//! The generator as a service: follows the bucket of server groups and runs a worker for each.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::kv::{Entry, Operation, Watch};
use futures::StreamExt as _;
use tidemill_domain::ServerGroup;
use tidemill_service::backoff::Backoff;
use tidemill_service::leader::Looks;
use tidemill_service::{Context, Fatal};
use tidemill_streams::{buckets, declared};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::attempt::Signals;
use crate::group::{self, Serving, Shared};

/// The part of the grace in which requests in flight may finish; the rest is for giving back what did not.
const FINISHING_SHARE: f64 = 0.9;

/// Runs a generator until the context drains.
///
/// # Errors
/// None at present: what fails is retried or recorded.
pub async fn run(context: Context) -> Result<(), Fatal> {
    let abandoned = context.cancelled.child_token();
    let mut groups = Groups {
        shared: Shared {
            room: Arc::new(Semaphore::new(context.config.generator.max_in_flight.max(1) as usize)),
            keys: Arc::default(),
            generations: Arc::default(),
            looks: Looks::open(&context.broker, declared::DONE),
            board: Arc::default(),
        },
        abandoned: abandoned.clone(),
        serving: HashMap::new(),
        tasks: JoinSet::new(),
        context: context.clone(),
    };
    groups.follow().await;
    groups.serving.clear();
    let grace = context.config.service.shutdown_grace.mul_f64(FINISHING_SHARE);
    tokio::select! {
        () = groups.finish() => return Ok(()),
        () = sleep(grace) => {
            tracing::warn!("requests in flight are given back: they would outlast the grace");
            abandoned.cancel();
        }
    }
    groups.finish().await;
    Ok(())
}

struct Groups {
    context: Context,
    shared: Shared,
    abandoned: CancellationToken,
    serving: HashMap<String, Serving>,
    tasks: JoinSet<()>,
}

impl Groups {
    /// Keeps a worker for each group in the bucket until the context drains. The watch is opened anew after each
    /// reconnect, since it takes long to notice one by itself.
    async fn follow(&mut self) {
        let draining = self.context.draining.clone();
        let mut connections = self.context.broker.connections.clone();
        let mut backoff = Backoff::standard();
        loop {
            connections.mark_unchanged();
            let opened = tokio::select! {
                () = draining.cancelled() => return,
                opened = self.watch() => opened,
            };
            let mut watch = match opened {
                Ok(watch) => watch,
                Err(reason) => {
                    self.pause(&mut backoff, &reason).await;
                    continue;
                }
            };
            loop {
                tokio::select! { biased;
                    () = draining.cancelled() => return,
                    Ok(()) = connections.changed() => break,
                    Some(ended) = self.tasks.join_next() => note_end(ended),
                    entry = watch.next() => match entry {
                        Some(Ok(entry)) => {
                            backoff.reset();
                            self.apply(&entry);
                        }
                        Some(Err(error)) => {
                            self.pause(&mut backoff, &error.to_string()).await;
                            break;
                        }
                        None => {
                            self.pause(&mut backoff, "the watch ended").await;
                            break;
                        }
                    },
                }
            }
        }
    }

    async fn watch(&self) -> Result<Watch, String> {
        let jetstream = self.context.jetstream();
        let bucket = jetstream.get_key_value(buckets::GROUPS.name).await;
        let bucket = bucket.map_err(|error| error.to_string())?;
        bucket.watch_with_history(">").await.map_err(|error| error.to_string())
    }

    async fn pause(&self, backoff: &mut Backoff, reason: &str) {
        tracing::debug!(reason, "server groups cannot be followed; trying again");
        tokio::select! {
            () = self.context.draining.cancelled() => {}
            () = sleep(backoff.next_pause()) => {}
        }
    }

    fn apply(&mut self, entry: &Entry) {
        if entry.operation != Operation::Put {
            self.serving.remove(&entry.key);
            return;
        }
        let group: ServerGroup = match serde_json::from_slice(&entry.value) {
            Ok(group) => group,
            Err(error) => {
                tracing::error!(group = entry.key, %error, "record of a server group not understood");
                return;
            }
        };
        if self
            .serving
            .get(&entry.key)
            .is_some_and(|serving| serving.takes(&group))
        {
            return;
        }
        // What was served under this key is stopped by being replaced.
        let stop = self.context.draining.child_token();
        let (serving, record) = Serving::new(group, stop.clone());
        self.serving.insert(entry.key.clone(), serving);
        let signals = Signals {
            stopped: stop,
            abandoned: self.abandoned.clone(),
        };
        self.tasks
            .spawn(group::run(self.context.clone(), record, signals, self.shared.clone()));
    }

    /// Waits for every worker, and says every five seconds that it does.
    async fn finish(&mut self) {
        let mut said = tokio::time::interval(Duration::from_secs(5));
        said.reset();
        loop {
            tokio::select! {
                ended = self.tasks.join_next() => match ended {
                    Some(ended) => note_end(ended),
                    None => return,
                },
                _ = said.tick() => tracing::info!(groups = self.tasks.len(), "finishing requests in flight"),
            }
        }
    }
}

fn note_end(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a group's worker died");
    }
}
