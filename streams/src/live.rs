//! Declared against live: plan, apply, check.

use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::{self, stream};
use futures::future::{try_join, try_join_all};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use tokio::time::Instant;

use crate::buckets::Bucket;
use crate::{Durable, Retention, Stream, buckets, declared, durable};

/// One way in which the broker is not as declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The stream, consumer or bucket.
    pub name: String,
    /// What differs; `existence` when it is not there.
    pub field: &'static str,
    /// As declared.
    pub declared: String,
    /// As found.
    pub live: String,
}

impl Difference {
    /// Nothing of that name is there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.field == EXISTENCE
    }
}

/// Streams that one broker makes at once: more than there are.
const MADE_AT_ONCE: usize = 64;

/// How long servers of a cluster may take to join it.
const JOINED_WITHIN: Duration = Duration::from_secs(10);

/// The field of what is not there at all.
const EXISTENCE: &str = "existence";

impl std::fmt::Display for Difference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_missing() {
            return write!(formatter, "{}: is not there", self.name);
        }
        write!(
            formatter,
            "{}: {} is {}, declared {}",
            self.name, self.field, self.live, self.declared
        )
    }
}

/// Why the broker could not be asked or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request for a stream failed.
    #[error("{action} {name}: {source}")]
    Request {
        /// What was tried.
        action: &'static str,
        /// On what.
        name: String,
        /// What came back.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There are not enough servers for the copies asked for.
    #[error(
        "{action} {name}: {replicas} copies need {replicas} servers in one cluster, and this broker has fewer of them up: start more, or set `replicas` of [broker] to 1"
    )]
    TooFewServers {
        /// What was tried.
        action: &'static str,
        /// On what.
        name: String,
        /// The copies asked for.
        replicas: usize,
        /// Others may still join.
        is_cluster: bool,
    },
}

/// The server's codes for: no suitable peers for placement, insufficient resources.
const TOO_FEW_SERVERS: [u64; 2] = [10_005, 10_023];
/// The server's code for: replicas without a cluster.
const NO_CLUSTER: u64 = 10_074;

/// The failure to give `name` so many copies.
fn not_placed<E: std::error::Error + Send + Sync + 'static>(
    action: &'static str,
    name: &str,
    replicas: usize,
) -> impl FnOnce(E) -> Error + use<E> {
    let name = name.to_owned();
    move |source| {
        let is_cluster = codes(&source).any(|code| TOO_FEW_SERVERS.contains(&code));
        if replicas > 1 && (is_cluster || codes(&source).any(|code| code == NO_CLUSTER)) {
            Error::TooFewServers {
                action,
                name,
                replicas,
                is_cluster,
            }
        } else {
            failed(action, &name)(source)
        }
    }
}

/// The server's codes in an error and its sources.
fn codes<'a>(error: &'a (dyn std::error::Error + 'static)) -> impl Iterator<Item = u64> + 'a {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.filter_map(|error| {
        let answer = error.downcast_ref::<jetstream::Error>().cloned();
        let answer = answer.or_else(|| match error.downcast_ref::<CreateStreamError>()?.kind() {
            CreateStreamErrorKind::JetStream(answer) => Some(answer),
            _ => None,
        });
        answer.map(|answer| answer.error_code().0)
    })
}

fn failed<E: std::error::Error + Send + Sync + 'static>(
    action: &'static str,
    name: &str,
) -> impl FnOnce(E) -> Error + use<E> {
    let name = name.to_owned();
    move |source| Error::Request {
        action,
        name,
        source: Box::new(source),
    }
}

/// Every difference between what is declared and what is there.
///
/// # Errors
/// When the broker does not answer; a stream that is not there is a difference, not an error.
pub async fn plan(js: &jetstream::Context, replicas: usize) -> Result<Vec<Difference>, Error> {
    // Asked for together: each answer takes a fraction of a millisecond, and all of them one after another tens of them.
    let streams = try_join_all(declared::ALL.iter().map(|stream| plan_stream(js, stream, replicas)));
    let buckets = try_join_all(buckets::ALL.iter().map(|bucket| plan_bucket(js, bucket, replicas)));
    let (streams, buckets) = try_join(streams, buckets).await?;
    let mut differences = streams.concat();
    for durable in durable::fixed() {
        if differences
            .iter()
            .any(|difference| difference.name == durable.stream.name && difference.is_missing())
        {
            differences.push(missing(&durable.name));
            continue;
        }
        match js
            .get_consumer_from_stream::<jetstream::consumer::pull::Config, _, _>(&durable.name, durable.stream.name)
            .await
        {
            Ok(live) => compare_durable(&durable, &live, &mut differences),
            Err(error) if error.to_string().contains("consumer not found") => differences.push(missing(&durable.name)),
            Err(error) => return Err(failed("look up consumer", &durable.name)(error)),
        }
    }
    differences.extend(buckets.into_iter().flatten());
    Ok(differences)
}

async fn plan_stream(js: &jetstream::Context, declared: &Stream, replicas: usize) -> Result<Vec<Difference>, Error> {
    let mut differences = Vec::new();
    match js.get_stream(declared.name).await {
        Ok(live) => {
            let mut wanted = declared.config(replicas);
            if declared.retention == Retention::Cache {
                // Its size is the deployment's choice: see `size_cache`.
                wanted.max_bytes = live.cached_info().config.max_bytes;
            }
            compare(&wanted, &live.cached_info().config, &mut differences);
        }
        Err(error) if is_missing(&error.kind()) => differences.push(missing(declared.name)),
        Err(error) => return Err(failed("look up stream", declared.name)(error)),
    }
    Ok(differences)
}

async fn plan_bucket(js: &jetstream::Context, bucket: &Bucket, replicas: usize) -> Result<Vec<Difference>, Error> {
    let mut differences = Vec::new();
    match js.get_stream(bucket.stream()).await {
        Ok(live) => compare_bucket(bucket, replicas, &live.cached_info().config, &mut differences),
        Err(error) if is_missing(&error.kind()) => differences.push(missing(bucket.name)),
        Err(error) => return Err(failed("look up bucket", bucket.name)(error)),
    }
    Ok(differences)
}

/// Makes the broker as declared. Returns what it changed.
///
/// # Errors
/// When the broker refuses, for instance because a change would lose messages.
pub async fn apply(js: &jetstream::Context, replicas: usize) -> Result<Vec<Difference>, Error> {
    let differences = plan(js, replicas).await?;
    carry_out(js, replicas, &differences).await?;
    Ok(differences)
}

/// Does away with what a [`plan`] found. What somebody else made as declared meanwhile is no failure.
///
/// # Errors
/// As [`apply`].
pub async fn carry_out(js: &jetstream::Context, replicas: usize, differences: &[Difference]) -> Result<(), Error> {
    let of = |name: &str| differences.iter().find(|difference| difference.name == name);
    let streams = declared::ALL
        .iter()
        .filter_map(|stream| Some((stream, of(stream.name)?)));
    let buckets = buckets::ALL
        .iter()
        .filter_map(|bucket| Some((bucket, of(bucket.name)?)));
    // Several brokers elect a leader for each stream that is made or changed, which takes them longer for many at once than
    // for one after another; one broker has nothing to elect.
    let at_once = if replicas > 1 || !differences.iter().all(Difference::is_missing) {
        1
    } else {
        MADE_AT_ONCE
    };
    let streams = futures::stream::iter(streams)
        .map(|(stream, difference)| once_placed(move || apply_stream(js, stream, replicas, difference)))
        .buffered(at_once);
    streams.try_collect::<()>().await?;
    let buckets = futures::stream::iter(buckets)
        .map(|(bucket, difference)| once_placed(move || apply_bucket(js, bucket, replicas, difference)))
        .buffered(at_once);
    buckets.try_collect::<()>().await?;
    for durable in durable::fixed().iter().filter(|durable| of(&durable.name).is_some()) {
        ensure(js, durable).await?;
    }
    Ok(())
}

/// Servers of a cluster that are started at once join it one after another, and a busy one is taken for away for moments: too few
/// are so only when they still are after a while.
async fn once_placed<F: Future<Output = Result<(), Error>>>(mut apply: impl FnMut() -> F) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match apply().await {
            Err(Error::TooFewServers { is_cluster: true, .. }) if begun.elapsed() < JOINED_WITHIN => {
                tokio::time::sleep(JOINED_WITHIN / 40).await;
            }
            applied => return applied,
        }
    }
}

async fn apply_stream(
    js: &jetstream::Context,
    declared: &Stream,
    replicas: usize,
    difference: &Difference,
) -> Result<(), Error> {
    let mut config = declared.config(replicas);
    // Making one that is there already, as it is to be, succeeds; one that was made otherwise meanwhile is changed below.
    if difference.is_missing() && js.create_stream(config.clone()).await.is_ok() {
        return Ok(());
    }
    if let Ok(live) = js.get_stream(declared.name).await {
        config.max_bytes = kept_limit(config.max_bytes, live.cached_info().config.max_bytes);
    }
    let applied = js.create_or_update_stream(config).await;
    applied
        .map(drop)
        .map_err(not_placed("apply stream", declared.name, replicas))
}

async fn apply_bucket(
    js: &jetstream::Context,
    bucket: &Bucket,
    replicas: usize,
    difference: &Difference,
) -> Result<(), Error> {
    let config = bucket.config(replicas);
    if difference.is_missing() && js.create_key_value(config.clone()).await.is_ok() {
        return Ok(());
    }
    let applied = js.create_or_update_key_value(config).await;
    applied
        .map(drop)
        .map_err(not_placed("apply bucket", bucket.name, replicas))
}

/// Compares the bound of the generation cache with the configured one, and sets it where `apply` says so; making it
/// smaller lets the oldest generations go. `None` when it is as configured.
///
/// # Errors
/// When the cache is not there, or the broker does not answer or refuses.
pub async fn size_cache(js: &jetstream::Context, max_bytes: u64, apply: bool) -> Result<Option<Difference>, Error> {
    let name = declared::CACHE.name;
    let live = js.get_stream(name).await.map_err(failed("look up stream", name))?;
    let mut config = live.cached_info().config.clone();
    let wanted = i64::try_from(max_bytes).unwrap_or(i64::MAX);
    if config.max_bytes == wanted {
        return Ok(None);
    }
    let difference = Difference {
        name: name.to_owned(),
        field: "max_bytes",
        declared: wanted.to_string(),
        live: config.max_bytes.to_string(),
    };
    if apply {
        config.max_bytes = wanted;
        js.update_stream(config)
            .await
            .map_err(failed("apply size of stream", name))?;
    }
    Ok(Some(difference))
}

/// Has the broker forget the pulls whose readers are gone, and returns how many are left. A broker that is told to stop
/// tells every pull that it knows of and then waits 50 ms for whoever may hear it.
///
/// # Errors
/// When the broker does not answer.
pub async fn forget_pulls(js: &jetstream::Context) -> Result<usize, Error> {
    // It looks for a pull's reader when it is asked about the pull's consumer.
    let asked = declared::ALL.iter().map(|stream| open_pulls(js, stream.name));
    Ok(try_join_all(asked).await?.into_iter().sum())
}

async fn open_pulls(js: &jetstream::Context, name: &str) -> Result<usize, Error> {
    let stream = js
        .get_stream_no_info(name)
        .await
        .map_err(failed("look up stream", name))?;
    let consumers: Vec<_> = stream
        .consumers()
        .try_collect()
        .await
        .map_err(failed("list consumers of", name))?;
    Ok(consumers.iter().map(|consumer| consumer.num_waiting).sum())
}

/// Creates a durable, or updates it to its declaration.
///
/// # Errors
/// When the stream is not there or the broker refuses.
pub async fn ensure(js: &jetstream::Context, durable: &Durable) -> Result<PullConsumer, Error> {
    js.create_consumer_on_stream(durable.config(), durable.stream.name)
        .await
        .map_err(failed("create consumer", &durable.name))
}

fn is_missing(kind: &GetStreamErrorKind) -> bool {
    // 10059 is the server's code for a stream that is not there.
    matches!(kind, GetStreamErrorKind::JetStream(error) if error.error_code().0 == 10_059)
}

fn missing(name: &str) -> Difference {
    Difference {
        name: name.to_owned(),
        field: EXISTENCE,
        declared: "there".to_owned(),
        live: "missing".to_owned(),
    }
}

/// A limit that an operator raised is kept: that is what is done when a stream is full, and it must not stop a service from
/// starting.
const fn kept_limit(declared: i64, live: i64) -> i64 {
    let is_raised = live < 0 || live > declared;
    if is_raised { live } else { declared }
}

/// The policy's name in the server's configuration.
const fn retention(policy: stream::RetentionPolicy) -> &'static str {
    match policy {
        stream::RetentionPolicy::Limits => "limits",
        stream::RetentionPolicy::Interest => "interest",
        stream::RetentionPolicy::WorkQueue => "workqueue",
    }
}

const fn discard(policy: stream::DiscardPolicy) -> &'static str {
    match policy {
        stream::DiscardPolicy::Old => "old",
        stream::DiscardPolicy::New => "new",
    }
}

/// A stream without one keeps its messages for ever.
fn age(age: Duration) -> String {
    if age.is_zero() {
        "none".to_owned()
    } else {
        format!("{age:?}")
    }
}

fn compare(declared: &stream::Config, live: &stream::Config, differences: &mut Vec<Difference>) {
    let fields = [
        ("subjects", declared.subjects.join(", "), live.subjects.join(", ")),
        (
            "retention",
            retention(declared.retention).to_owned(),
            retention(live.retention).to_owned(),
        ),
        (
            "discard",
            discard(declared.discard).to_owned(),
            discard(live.discard).to_owned(),
        ),
        (
            "discard_new_per_subject",
            declared.discard_new_per_subject.to_string(),
            live.discard_new_per_subject.to_string(),
        ),
        (
            "max_messages_per_subject",
            declared.max_messages_per_subject.to_string(),
            live.max_messages_per_subject.to_string(),
        ),
        (
            "max_bytes",
            kept_limit(declared.max_bytes, live.max_bytes).to_string(),
            live.max_bytes.to_string(),
        ),
        ("max_age", age(declared.max_age), age(live.max_age)),
        (
            "max_consumers",
            declared.max_consumers.to_string(),
            live.max_consumers.to_string(),
        ),
        (
            "num_replicas",
            declared.num_replicas.to_string(),
            live.num_replicas.to_string(),
        ),
        (
            "allow_direct",
            declared.allow_direct.to_string(),
            live.allow_direct.to_string(),
        ),
        (
            "allow_message_ttl",
            declared.allow_message_ttl.to_string(),
            live.allow_message_ttl.to_string(),
        ),
    ];
    differences.extend(fields.into_iter().filter(|(_, declared, live)| declared != live).map(
        |(field, wanted, found)| Difference {
            name: declared.name.clone(),
            field,
            declared: wanted,
            live: found,
        },
    ));
}

fn compare_durable(declared: &Durable, live: &PullConsumer, differences: &mut Vec<Difference>) {
    let (declared, live) = (declared.config(), &live.cached_info().config);
    let fields = [
        (
            "filter_subject",
            declared.filter_subject.clone(),
            live.filter_subject.clone(),
        ),
        (
            "ack_wait",
            format!("{:?}", declared.ack_wait),
            format!("{:?}", live.ack_wait),
        ),
        (
            "max_ack_pending",
            declared.max_ack_pending.to_string(),
            live.max_ack_pending.to_string(),
        ),
        (
            "max_deliver",
            declared.max_deliver.to_string(),
            live.max_deliver.to_string(),
        ),
        // None of its own: as many as its stream has, and following it when that changes.
        (
            "num_replicas",
            declared.num_replicas.to_string(),
            live.num_replicas.to_string(),
        ),
    ];
    let name = declared.durable_name.unwrap_or_default();
    differences.extend(fields.into_iter().filter(|(_, declared, live)| declared != live).map(
        |(field, declared, live)| Difference {
            name: name.clone(),
            field,
            declared,
            live,
        },
    ));
}

fn compare_bucket(declared: &Bucket, replicas: usize, live: &stream::Config, differences: &mut Vec<Difference>) {
    let fields = [
        ("num_replicas", replicas.to_string(), live.num_replicas.to_string()),
        ("max_bytes", declared.max_bytes.to_string(), live.max_bytes.to_string()),
        ("max_age", age(declared.max_age.unwrap_or_default()), age(live.max_age)),
    ];
    differences.extend(fields.into_iter().filter(|(_, declared, live)| declared != live).map(
        |(field, declared_value, live)| Difference {
            name: declared.name.to_owned(),
            field,
            declared: declared_value,
            live,
        },
    ));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_nats::jetstream::stream::{DiscardPolicy, RetentionPolicy};

    use super::*;

    fn too_few(is_cluster: bool) -> Error {
        Error::TooFewServers {
            action: "apply stream",
            name: "DONE".to_owned(),
            replicas: 3,
            is_cluster,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn servers_of_a_cluster_may_join_a_little_later_and_others_are_not_waited_for() {
        let begun = Instant::now();
        let joined = begun + Duration::from_secs(3);
        let placed = once_placed(|| async move {
            if Instant::now() < joined {
                Err(too_few(true))
            } else {
                Ok(())
            }
        });
        placed.await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(4));
        let never = once_placed(|| async { Err(too_few(true)) }).await;
        assert!(matches!(never, Err(Error::TooFewServers { .. })));
        assert!(begun.elapsed() > JOINED_WITHIN, "they were waited for");
        let begun = Instant::now();
        once_placed(|| async { Err(too_few(false)) }).await.unwrap_err();
        assert_eq!(begun.elapsed(), Duration::ZERO, "one server alone stays alone");
    }

    #[test]
    fn differences_are_told_in_the_servers_words() {
        let declared = declared::READY.config(1);
        let mut live = declared.clone();
        live.retention = RetentionPolicy::Limits;
        live.discard = DiscardPolicy::Old;
        live.subjects = vec!["a.>".to_owned(), "b".to_owned()];
        live.max_age = Duration::from_secs(90);
        let mut differences = vec![missing("DONE")];
        compare(&declared, &live, &mut differences);
        let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "DONE: is not there",
                "READY: subjects is a.>, b, declared tm.ready.*.*.*.*.*",
                "READY: retention is limits, declared workqueue",
                "READY: discard is old, declared new",
                "READY: max_age is 90s, declared none",
            ]
        );
    }

    #[test]
    fn a_limit_that_was_raised_is_no_difference_and_a_lowered_one_is() {
        let differences = |max_bytes| {
            let declared = declared::DONE.config(1);
            let mut live = declared.clone();
            live.max_bytes = max_bytes;
            let mut differences = Vec::new();
            compare(&declared, &live, &mut differences);
            differences
                .iter()
                .map(|difference| difference.field)
                .collect::<Vec<_>>()
        };
        let limit = declared::DONE.max_bytes;
        assert!(differences(limit).is_empty() && differences(limit + 1).is_empty() && differences(-1).is_empty());
        assert_eq!(differences(limit - 1), ["max_bytes"]);
    }
}
