//! How many items may be out: what generators say they take of the group at present, within what its replicas may be sent.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::jetstream::kv::{Entry, Operation, Watch};
use futures::StreamExt as _;
use tidemill_domain::GroupId;
use tidemill_service::Context;
use tidemill_service::backoff::Backoff;
use tidemill_streams::buckets;
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Runner;

/// What is assumed while no generator said anything: enough for the first turnaround of a large group, and no queue before a
/// small one.
const START: usize = 1_024;

/// A generator that did not say anything for so long is gone: it says something every two seconds.
const FRESH_FOR: Duration = Duration::from_secs(8);

/// A level that is still being found is taken for so many times as high: it is told five times a second, and doubles up to twice
/// between two words.
const GROWS: usize = 4;

/// Words of generators that may wait for the dispatcher: those of many in one look.
const HEARD: usize = 256;

/// What each generator takes.
#[derive(Debug, Default)]
pub(super) struct Capacity {
    generators: HashMap<String, Word>,
}

/// The last word of a generator.
#[derive(Debug, Clone, Copy)]
struct Word {
    slots: u32,
    /// It was the first one, or a quarter above the one before.
    grows: bool,
    said: Instant,
}

impl Word {
    /// Slots that the generator may have until its next word. Without these it would find READY empty each time that its level
    /// rises, and a level that nothing fills does not rise.
    fn slots(self) -> usize {
        let slots = self.slots as usize;
        if self.grows {
            (slots * GROWS).min(START.max(slots))
        } else {
            slots
        }
    }
}

/// What a generator said; `slots` is `None` when it took its word back.
#[derive(Debug)]
pub(super) struct Heartbeat {
    generator: String,
    slots: Option<u32>,
}

impl Capacity {
    fn note(&mut self, heartbeat: Heartbeat, now: Instant) {
        match heartbeat.slots {
            Some(slots) => {
                let before = self.generators.get(&heartbeat.generator);
                let grows = before.is_none_or(|before| u64::from(slots) * 4 > u64::from(before.slots) * 5);
                let word = Word {
                    slots,
                    grows,
                    said: now,
                };
                self.generators.insert(heartbeat.generator, word);
            }
            None => drop(self.generators.remove(&heartbeat.generator)),
        }
    }

    /// Slots in which an item can be at present, within the bound.
    fn slots(&mut self, bound: usize, now: Instant) -> usize {
        self.generators
            .retain(|_, word| now.duration_since(word.said) < FRESH_FOR);
        if self.generators.is_empty() {
            return bound.min(START);
        }
        let slots = self.generators.values().map(|word| word.slots());
        // Whoever takes nothing now may take something in a moment, and must find it.
        slots.sum::<usize>().clamp(bound.min(1), bound.max(1)).min(bound)
    }

    /// Those of the slots that generators said they have.
    fn said(&self, bound: usize) -> usize {
        let slots: usize = self.generators.values().map(|word| word.slots as usize).sum();
        slots.min(bound)
    }
}

/// What generators say of a group, as long as this lives.
pub(super) struct Heartbeats {
    heard: Receiver<Heartbeat>,
    _stop: DropGuard,
}

impl Heartbeats {
    pub(super) fn new(context: &Context, group: &GroupId) -> Self {
        let mut listening = Listening {
            context: context.clone(),
            group: group.clone(),
            connections: context.broker.connections.clone(),
            watch: None,
            backoff: Backoff::standard(),
        };
        let (say, heard) = mpsc::channel(HEARD);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        // A task of its own: who listens between other things would never get to open the watch.
        tokio::spawn(async move {
            loop {
                let heartbeat = tokio::select! {
                    () = stopped.cancelled() => return,
                    heartbeat = listening.next() => heartbeat,
                };
                if say.send(heartbeat).await.is_err() {
                    return;
                }
            }
        });
        Self {
            heard,
            _stop: stop.drop_guard(),
        }
    }

    /// The next word of a generator.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Option<Heartbeat> {
        self.heard.recv().await
    }
}

/// The watch, opened anew after each reconnect.
struct Listening {
    context: Context,
    group: GroupId,
    connections: watch::Receiver<u64>,
    watch: Option<Watch>,
    backoff: Backoff,
}

impl Listening {
    async fn next(&mut self) -> Heartbeat {
        loop {
            let Some(watch) = &mut self.watch else {
                self.open().await;
                continue;
            };
            tokio::select! { biased;
                Ok(()) = self.connections.changed() => self.watch = None,
                entry = watch.next() => match entry {
                    Some(Ok(entry)) => {
                        self.backoff.reset();
                        if let Some(heartbeat) = heartbeat(&entry) {
                            return heartbeat;
                        }
                    }
                    Some(Err(_)) | None => self.watch = None,
                }
            }
        }
    }

    async fn open(&mut self) {
        self.connections.mark_unchanged();
        let opened = async {
            let bucket = self.context.jetstream().get_key_value(buckets::CAPACITY.name).await;
            let bucket = bucket.map_err(|error| error.to_string())?;
            let keys = buckets::capacity_of_group(&self.group);
            bucket.watch_with_history(keys).await.map_err(|error| error.to_string())
        };
        match opened.await {
            Ok(watch) => self.watch = Some(watch),
            Err(reason) => {
                tracing::debug!(reason, "what generators take is not known; trying again");
                sleep(self.backoff.next_pause()).await;
            }
        }
    }
}

fn heartbeat(entry: &Entry) -> Option<Heartbeat> {
    let slots = match entry.operation {
        Operation::Put => {
            let capacity: tidemill_domain::Capacity = serde_json::from_slice(&entry.value).ok()?;
            Some(capacity.slots)
        }
        Operation::Delete | Operation::Purge => None,
    };
    Some(Heartbeat {
        generator: entry.key.clone(),
        slots,
    })
}

impl Runner {
    pub(super) fn note_capacity(&mut self, heartbeat: Heartbeat) {
        self.capacity.note(heartbeat, Instant::now());
        self.apply_capacity();
    }

    pub(super) fn apply_capacity(&mut self) {
        let slots = self.capacity.slots(self.bound, Instant::now());
        self.dispatcher.set_slots(slots);
        self.dispatcher.set_sure(self.capacity.said(self.bound));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidemill_config::Config;
    use tidemill_domain::Digest;
    use tidemill_service::{connect, prepare};
    use tidemill_storage::{Address, Store};
    use tidemill_testkit::Broker;

    use super::*;

    fn said(generator: &str, slots: Option<u32>) -> Heartbeat {
        Heartbeat {
            generator: generator.to_owned(),
            slots,
        }
    }

    #[test]
    fn slots_are_what_fresh_generators_take_within_the_bound() {
        let (mut capacity, now) = (Capacity::default(), Instant::now());
        assert_eq!((capacity.slots(64, now), capacity.slots(100_000, now)), (64, START));
        assert_eq!(capacity.said(64), 0, "what is assumed is none that anybody has");
        let mut note = |generator: &str, slots, at| {
            capacity.note(said(generator, Some(slots)), at);
            capacity.note(said(generator, Some(slots)), at);
        };
        note("a", 30, now);
        note("b", 40, now + FRESH_FOR / 2);
        assert_eq!((capacity.slots(64, now), capacity.slots(1_000, now)), (64, 70));
        assert_eq!((capacity.said(64), capacity.said(1_000)), (64, 70));
        assert_eq!(capacity.slots(1_000, now + FRESH_FOR), 40, "the first one is gone");
        capacity.note(said("b", None), now);
        assert_eq!(capacity.slots(64, now), 64, "nobody is left who said anything");
        assert_eq!(capacity.slots(0, now), 0);
    }

    #[test]
    fn a_level_that_rises_finds_items_before_it_is_told() {
        let (mut capacity, now) = (Capacity::default(), Instant::now());
        let mut slots = |told| {
            capacity.note(said("a", Some(told)), now);
            capacity.slots(100_000, now)
        };
        // Found by doubling, then held.
        assert_eq!(
            [96, 192, 280, 280, 300, 290].map(&mut slots),
            [384, 768, START, 280, 300, 290]
        );
        assert_eq!(
            [2_000, 2_100].map(&mut slots),
            [2_000, 2_100],
            "no further than at the start"
        );
    }

    #[test]
    fn a_generator_that_takes_nothing_finds_an_item_when_it_does() {
        let (mut capacity, now) = (Capacity::default(), Instant::now());
        capacity.note(said("a", Some(0)), now);
        assert_eq!((capacity.slots(64, now), capacity.slots(0, now)), (1, 0));
    }

    #[tokio::test]
    async fn what_generators_say_of_a_group_is_heard() {
        let (broker, folder) = (Broker::start().unwrap(), tempfile::tempdir().unwrap());
        let config = Config::default();
        let connection = connect(&config, &broker.url(), "test").await.unwrap();
        let store = Store::open(Address::of_folder(folder.path())).unwrap();
        prepare(&connection, &config, &store, true).await.unwrap();
        let context = Context::new("loader", connection, store, Arc::new(config));
        let group = GroupId::from_digest(&Digest::of(b"group"));
        let bucket = context.jetstream().get_key_value(buckets::CAPACITY.name).await.unwrap();
        let said = |slots: u32| {
            let capacity = tidemill_domain::Capacity {
                schema: 1,
                slots,
                in_flight: 0,
                replicas: Vec::new(),
            };
            serde_json::to_vec(&capacity).unwrap().into()
        };
        bucket.put(format!("{group}.one"), said(7)).await.unwrap();
        bucket.put("other.one", said(100)).await.unwrap();
        let (mut heartbeats, mut capacity) = (Heartbeats::new(&context, &group), Capacity::default());
        let mut hear = async || {
            capacity.note(heartbeats.next().await.unwrap(), Instant::now());
            capacity.slots(64, Instant::now())
        };
        assert_eq!(hear().await, 7 * GROWS);
        bucket.put(format!("{group}.two"), said(5)).await.unwrap();
        assert_eq!(hear().await, 12 * GROWS);
        bucket.delete(format!("{group}.one")).await.unwrap();
        assert_eq!(hear().await, 5 * GROWS);
    }
}
