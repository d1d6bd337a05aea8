//! Parking: what there is of an answer is kept in a bucket while it is not whole, so that whoever takes the item next goes on
//! from there. It only saves tokens: when the bucket is away or full, an item is asked for from the start, and nothing waits.
//!
//! Of two processes that hold one item, the one that is further on has its tokens in the bucket: each write names the revision
//! that it replaces, and who finds another's tokens there gives way to more of them. What the item's completion is, DONE alone
//! decides.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::kv::{Store, UpdateErrorKind};
use tidemill_codec::{Body, Envelope, encode};
use tidemill_domain::{Asked, GenerationKey, ItemKey, Parked, Partial, Release};
use tidemill_service::fault::{self, Point};
use tidemill_service::{Context, Delivery, leader};
use tidemill_streams::{buckets, subject};
use tidemill_telemetry::{Metric, Warning};
use tokio::sync::{OnceCell, watch};
use tokio::time::timeout;

use crate::attempt::GivenBack;

/// How long an item waits for an answer of the bucket.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tries of one write that others come before: whoever loses so often is not the one that is further on.
const MOST_TRIES: usize = 4;

/// The bucket as the items of one group see it.
pub(crate) struct Parking {
    context: Context,
    bucket: OnceCell<Store>,
    /// Items in flight of which something lies in the bucket.
    held: Mutex<HashSet<ItemKey>>,
}

/// The place of one item.
pub(crate) struct Spot<'a> {
    parking: &'a Parking,
    release: &'a Release,
    asked: Asked<'a>,
    generation: Option<GenerationKey>,
    /// The revision of what lies there, 0 for nothing, as far as is known.
    revision: u64,
    /// The object that holds it, where it is large.
    body: Option<String>,
}

/// What lies in the bucket.
enum There {
    Nothing,
    /// Tokens of this very draw.
    Ours {
        partial: Partial,
        body: Option<String>,
    },
    /// Of another request, or damaged: nobody goes on with it.
    Useless(String),
    /// Of a newer version.
    Newer,
}

impl Parking {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            bucket: OnceCell::new(),
            held: Mutex::default(),
        }
    }

    /// The place of what a release asks for.
    pub(crate) const fn spot<'a>(&'a self, release: &'a Release, asked: Asked<'a>) -> Spot<'a> {
        Spot {
            parking: self,
            release,
            asked,
            generation: None,
            revision: 0,
            body: None,
        }
    }

    /// Something may lie there: not for an item that comes for the first time, over a connection that was never lost.
    pub(crate) fn may_hold(&self, release: &Release, delivery: &Delivery) -> bool {
        release.again || delivery.delivered > 1 || *self.context.broker.connections.borrow() > 1
    }

    /// Removes what lies there of an item whose completion is stored.
    pub(crate) async fn clear(&self, item: &ItemKey) {
        if self.forget(item) {
            self.remove(item).await;
        }
    }

    /// Removes what may lie there of an item that comes again although its completion is stored: whoever stored that may have
    /// ended before, or never have known what another one saved.
    pub(crate) async fn clear_of(&self, release: &Release, delivery: &Delivery) {
        if self.may_hold(release, delivery) {
            self.forget(&release.key);
            self.remove(&release.key).await;
        }
    }

    /// Leaves what lies there of an item to whoever takes it next. Returns whether there was something.
    pub(crate) fn forget(&self, item: &ItemKey) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(item)
    }

    fn hold(&self, item: &ItemKey) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(item.clone());
    }

    async fn bucket(&self) -> Result<&Store, String> {
        let open = || self.context.jetstream().get_key_value(buckets::PARKED.name);
        self.bucket.get_or_try_init(open).await.map_err(text)
    }

    /// Leaves no mark of a deletion behind, which would stay for as long as the bucket keeps its entries.
    async fn remove(&self, item: &ItemKey) {
        let removing = async {
            let bucket = self.bucket().await?;
            let filter = format!("{}{}", bucket.prefix, subject::parked(item));
            bucket.stream.purge().filter(filter).await.map_err(text)
        };
        let removed = timeout(PATIENCE, removing).await;
        match removed.unwrap_or_else(|_| Err(unanswered())) {
            Ok(_) => fault::point(Point::GeneratorUnparked),
            Err(reason) => tracing::debug!(item_id = %item, reason, "saved tokens are not removed; they expire"),
        }
    }
}

impl Spot<'_> {
    /// What lies there to go on from.
    ///
    /// # Errors
    /// When the broker is away: nothing could be recorded either.
    pub(crate) async fn find(&mut self) -> Result<Option<Partial>, GivenBack> {
        let looked = timeout(PATIENCE, self.look()).await;
        match looked.unwrap_or_else(|_| Err(unanswered())) {
            Ok(There::Ours { partial, body }) => {
                self.body = body;
                self.parking.hold(&self.release.key);
                count("found");
                Ok(Some(partial))
            }
            Ok(There::Useless(reason)) => {
                tracing::info!(item_id = %self.release.key, reason, "saved tokens are of no use and removed");
                self.parking.remove(&self.release.key).await;
                self.revision = 0;
                count("useless");
                Ok(None)
            }
            Ok(There::Nothing | There::Newer) => Ok(None),
            Err(reason) => {
                count("failed");
                if self.parking.context.broker.client.connection_state() != State::Connected {
                    return Err(GivenBack::Stopped);
                }
                let warning = Warning {
                    message: "saved tokens cannot be read",
                    scope: self.release.key.evaluation.as_str(),
                    reason: &reason,
                };
                if tidemill_telemetry::is_said(warning) {
                    tracing::warn!(item_id = %self.release.key, reason, "saved tokens cannot be read; asking from the start");
                }
                Ok(None)
            }
        }
    }

    /// Saves each partial answer that comes.
    pub(crate) async fn follow(&mut self, mut partials: watch::Receiver<Option<Partial>>) -> Infallible {
        while partials.changed().await.is_ok() {
            let partial = partials.borrow_and_update().clone();
            if let Some(partial) = partial {
                self.save(&partial).await;
            }
        }
        std::future::pending().await
    }

    /// Saves what there is, unless somebody has saved more.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it saved or not.
    pub(crate) async fn save(&mut self, partial: &Partial) {
        let saved = timeout(PATIENCE, self.put(partial)).await;
        match saved.unwrap_or_else(|_| Err(unanswered())) {
            Ok(()) => {
                count("saved");
                fault::point(Point::GeneratorParked);
            }
            Err(reason) => {
                count("failed");
                tracing::debug!(item_id = %self.release.key, reason, "tokens not saved");
            }
        }
    }

    async fn put(&mut self, partial: &Partial) -> Result<(), String> {
        let item = &self.release.key;
        let parked = Parked {
            generation: self.generation(),
            manifest: self.release.manifest.clone(),
            partial: partial.clone(),
        };
        let message = encode(&parked).map_err(text)?;
        let message = self.parking.context.store.check_in::<Parked>(item, message).await;
        let message = message.map_err(text)?;
        // Noted first: a write whose answer is lost may be there all the same.
        self.parking.hold(item);
        for _ in 0..MOST_TRIES {
            let bucket = self.parking.bucket().await?;
            let key = subject::parked(item);
            match bucket.update(key, message.clone().into(), self.revision).await {
                Ok(revision) => {
                    self.revision = revision;
                    let body = claimed(&message);
                    self.replace_body(body).await;
                    return Ok(());
                }
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {}
                Err(error) => return Err(text(error)),
            }
            match self.look().await? {
                There::Ours { partial: there, .. } if there.completion_tokens >= partial.completion_tokens => {
                    return Ok(());
                }
                There::Newer => return Err("what lies there is of a newer version".to_owned()),
                There::Ours { .. } | There::Nothing | There::Useless(_) => {}
            }
        }
        Err("others saved theirs meanwhile".to_owned())
    }

    /// Looks what lies there, and notes its revision.
    async fn look(&mut self) -> Result<There, String> {
        let bucket = self.parking.bucket().await?;
        // Of the leader: a copy that is behind would have tokens generated twice.
        let entry = leader::entry(bucket, &subject::parked(&self.release.key)).await;
        let Some(entry) = entry.map_err(text)? else {
            self.revision = 0;
            return Ok(There::Nothing);
        };
        self.revision = entry.revision;
        let parked = self.parking.context.store.check_out::<Parked>(&entry.value).await;
        Ok(match parked {
            Ok(parked) if parked.generation == self.generation() => There::Ours {
                partial: parked.partial,
                body: claimed(&entry.value),
            },
            Ok(parked) => There::Useless(format!("they are of {}", parked.generation)),
            Err(tidemill_storage::Error::Codec(tidemill_codec::Error::UnknownVersion { .. })) => There::Newer,
            Err(error @ (tidemill_storage::Error::Access { .. } | tidemill_storage::Error::Interrupted(_))) => {
                return Err(text(error));
            }
            Err(error) => There::Useless(text(error)),
        })
    }

    /// The key of the request, made once it is needed: most answers are never saved.
    fn generation(&mut self) -> GenerationKey {
        *self.generation.get_or_insert_with(|| self.asked.key())
    }

    /// Removes the object of what was replaced. Where that fails, it is collected with those that no message names.
    async fn replace_body(&mut self, body: Option<String>) {
        let before = std::mem::replace(&mut self.body, body);
        let Some(before) = before.filter(|before| Some(before) != self.body.as_ref()) else {
            return;
        };
        if let Err(error) = self.parking.context.store.delete(&before).await {
            tracing::debug!(key = before, %error, "a replaced body is not removed; it is collected later");
        }
    }
}

fn claimed(message: &[u8]) -> Option<String> {
    match Envelope::open(message).ok()?.body {
        Body::Claimed(key) => Some(key.to_owned()),
        Body::Here(_) => None,
    }
}

fn count(result: &'static str) {
    tidemill_telemetry::count(Metric::Parked, [("result", result)]);
}

fn unanswered() -> String {
    format!("no answer within {PATIENCE:?}")
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidemill_config::Config;
    use tidemill_domain::{Digest, EvaluationId, LANE, Prompt, Question, Reuse};
    use tidemill_service::{connect, prepare};
    use tidemill_storage::{Address, CLAIM_ABOVE_BYTES};
    use tidemill_testkit::Broker;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn partial(tokens: u32) -> Partial {
        Partial {
            prompt_tokens: vec![1],
            tokens: (0..tokens).collect(),
            text: "x".repeat(tokens as usize),
            completion_tokens: u64::from(tokens),
            ..Partial::default()
        }
    }

    async fn parking(broker: &Broker, folder: &std::path::Path) -> Parking {
        let config = Config::default();
        let connection = connect(&config, &broker.url(), "test").await.unwrap();
        let store = tidemill_storage::Store::open(Address::of_folder(folder)).unwrap();
        prepare(&connection, &config, &store, true).await.unwrap();
        Parking::new(&Context::new("generator", connection, store, Arc::new(config)))
    }

    fn delivered(delivered: i64) -> Delivery {
        Delivery {
            subject: String::new(),
            payload: Vec::new().into(),
            trace: None,
            delivered,
            sequence: 1,
            stopped: CancellationToken::new(),
        }
    }

    async fn found(mut spot: Spot<'_>) -> Option<usize> {
        spot.find().await.unwrap().map(|partial| partial.tokens.len())
    }

    #[tokio::test]
    async fn fewer_tokens_never_replace_more_and_serve_no_other_request() {
        let (broker, folder) = (Broker::start().unwrap(), tempfile::tempdir().unwrap());
        let parking = parking(&broker, folder.path()).await;
        let release = Release {
            key: ItemKey {
                evaluation: EvaluationId::from_digest(&Digest::of(b"e")),
                benchmark: 0,
                item: 3,
                sample: 0,
            },
            manifest: Digest::of(b"manifest"),
            again: false,
            reuse: Reuse::Never,
            expected_tokens: 0,
            prefix: 0,
        };
        let (weights, prompt) = (Digest::of(b"weights"), Prompt::Text("Q".to_owned()));
        let asked = |sample| Asked {
            weights: &weights,
            lane: LANE,
            prompt: &prompt,
            question: Question::Score { choices: &[] },
            sample,
        };
        let spot = |sample| parking.spot(&release, asked(sample));
        assert_eq!(found(spot(0)).await, None);

        // Two processes that hold one item, of which neither knows what the other saves.
        let (mut first, mut second) = (spot(0), spot(0));
        first.save(&partial(10)).await;
        second.save(&partial(5)).await;
        assert_eq!(found(spot(0)).await, Some(10));
        second.save(&partial(20)).await;
        first.save(&partial(15)).await;
        assert_eq!(found(spot(0)).await, Some(20));

        // A large one lies in the object store, and what it replaces is removed there.
        let large = u32::try_from(CLAIM_ABOVE_BYTES).unwrap();
        second.save(&partial(large)).await;
        second.save(&partial(large + 1)).await;
        assert_eq!(found(spot(0)).await, Some(large as usize + 1));
        let claims = parking.context.store.claims(&release.key.evaluation);
        assert_eq!(futures::StreamExt::count(claims).await, 1);

        // Another draw of the item does not go on from it, and nobody finds it afterwards.
        assert_eq!(found(spot(1)).await, None);
        assert_eq!(found(spot(0)).await, None);

        // What is recorded leaves nothing behind, not even a mark.
        let mut bucket = parking.bucket().await.unwrap().stream.clone();
        first.save(&partial(1)).await;
        parking.clear(&release.key).await;
        assert_eq!(bucket.info().await.unwrap().state.messages, 0);
        assert!(!parking.forget(&release.key));

        // Of what another process saved, whoever gets the recorded item again.
        first.save(&partial(2)).await;
        parking.forget(&release.key);
        parking.clear_of(&release, &delivered(1)).await;
        assert_eq!(
            bucket.info().await.unwrap().state.messages,
            1,
            "it comes for the first time"
        );
        parking.clear_of(&release, &delivered(2)).await;
        assert_eq!(bucket.info().await.unwrap().state.messages, 0);
    }
}
