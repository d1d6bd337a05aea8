//! Reaching the broker, and telling what is wrong when it is not what is needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream::{self, ContextBuilder};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use tidemill_config::Config;
use tidemill_storage::Store;
use tidemill_streams::{buckets, live};
use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::leader;

/// The oldest server that has everything we use.
const OLDEST_SERVER: (u64, u64) = (2, 12);

/// A connection to the broker that repairs itself.
#[derive(Debug, Clone)]
pub struct Broker {
    /// The connection.
    pub client: Client,
    /// JetStream over it.
    pub jetstream: jetstream::Context,
    /// Counts connections: a change means that pulls and ordered consumers must be made again.
    pub connections: watch::Receiver<u64>,
    /// The address as configured, or several separated by commas.
    pub url: String,
}

/// Why a service cannot work with the broker.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing answers.
    #[error("no broker at {url} within {waited:?} ({source}): start one, or name another with --nats or NATS_URL")]
    Unreachable {
        /// The address.
        url: String,
        /// How long it was tried.
        waited: Duration,
        /// The last failure.
        source: async_nats::ConnectError,
    },
    /// It asks who is there, and does not know this one.
    #[error(
        "the broker at {url} refuses who asks: name a user by nats://USER:PASSWORD@HOST:PORT, or a file by `credentials` of [broker]"
    )]
    Unauthorised {
        /// The address.
        url: String,
    },
    /// The credentials cannot be used.
    #[error("credentials {path}: {source}")]
    Credentials {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The server is too old.
    #[error("the broker at {url} is nats-server {found}, but {}.{} or newer is needed: upgrade it, or get one with ops/get-nats-server", OLDEST_SERVER.0, OLDEST_SERVER.1)]
    TooOld {
        /// The address.
        url: String,
        /// Its version.
        found: String,
    },
    /// JetStream is off.
    #[error("the broker at {url} runs without JetStream: start it with -js and a store directory")]
    NoJetStream {
        /// The address.
        url: String,
    },
    /// Streams differ from their declarations.
    #[error("the broker's streams are not as declared ({}): run `tidemill streams plan`, then `tidemill streams apply`", .differences.join("; "))]
    Streams {
        /// Each difference.
        differences: Vec<String>,
    },
    /// The other services use another object store.
    #[error(
        "the object store here is {ours}, but this broker's services use {theirs}: name that by --store, TIDEMILL_STORE or [storage] uri, or run where `tidemill up` does (--data-dir)"
    )]
    OtherStore {
        /// The store configured here.
        ours: String,
        /// The store registered at the broker.
        theirs: String,
    },
    /// What is stored was written by a newer Tidemill.
    #[error(
        "what this broker stores is of format {found}, and this is Tidemill {}, which knows format {STORE_FORMAT}: upgrade it, or use another broker or data directory",
        env!("CARGO_PKG_VERSION")
    )]
    NewerStore {
        /// The format found, as it is written: a number and the version that wrote it.
        found: String,
    },
    /// A request failed.
    #[error("{0}")]
    Request(String),
    /// Streams could not be asked or made.
    #[error(transparent)]
    Live(#[from] live::Error),
}

/// The version of all that lies in the broker and the object store together. It is raised when an older Tidemill must not
/// touch what a newer one has written; a wire type's own version does not need that, because unknown ones are held.
const STORE_FORMAT: u32 = 1;

/// Publishes whose acknowledgement may be outstanding: beyond about 10,000 queued messages the server refuses more.
const MAX_UNACKNOWLEDGED_PUBLISHES: usize = 4_000;

/// How long a publish waits for its acknowledgement before it is sent again. The one that was under way when a leader died
/// gets none; repeating one that was stored is answered by the broker as already there.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);

/// Connects, and checks that the server is recent and has JetStream.
///
/// # Errors
/// [`ConnectError`], with what to do.
pub async fn connect(config: &Config, url: &str, name: &str) -> Result<Broker, ConnectError> {
    let (connected, mut connections) = watch::channel(0_u64);
    let client = reach(config, url, name, connected).await?;
    // The event of this first connection comes by another way than the connection: a reader that saw it later would take
    // it for a reconnect. It is waited for, but not for ever.
    drop(tokio::time::timeout(Duration::from_secs(1), connections.wait_for(|count| *count > 0)).await);
    connections.mark_unchanged();
    let found = client.server_info().version;
    if !is_recent(&found) {
        return Err(ConnectError::TooOld { url: shown(url), found });
    }
    let jetstream = ContextBuilder::new()
        .timeout(Duration::from_secs(10))
        .ack_timeout(ACK_TIMEOUT)
        .max_ack_inflight(MAX_UNACKNOWLEDGED_PUBLISHES)
        .backpressure_on_inflight(true)
        .build(client.clone());
    if !client.server_info().jetstream {
        return Err(ConnectError::NoJetStream { url: shown(url) });
    }
    Ok(Broker {
        client,
        jetstream,
        connections,
        url: url.to_owned(),
    })
}

async fn reach(config: &Config, url: &str, name: &str, connected: watch::Sender<u64>) -> Result<Client, ConnectError> {
    let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
    let begun = tokio::time::Instant::now();
    let addresses = addresses(url);
    loop {
        match options(config, user(&addresses), name, connected.clone())
            .await?
            .connect(&addresses)
            .await
        {
            Ok(client) => return Ok(client),
            Err(source) if is_refusal(&source) => {
                return Err(ConnectError::Unauthorised { url: shown(url) });
            }
            Err(source) if begun.elapsed() >= config.broker.connect_timeout => {
                let waited = config.broker.connect_timeout;
                return Err(ConnectError::Unreachable {
                    url: shown(url),
                    waited,
                    source,
                });
            }
            Err(_) => tokio::time::sleep(backoff.next_pause()).await,
        }
    }
}

/// The servers of one broker, as written: addresses separated by commas, with or without spaces.
fn addresses(url: &str) -> Vec<&str> {
    url.split(',')
        .map(str::trim)
        .filter(|address| !address.is_empty())
        .collect()
}

/// The address as it may be shown: without user and password.
fn shown(url: &str) -> String {
    let without = |address: &&str| match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        (_, None) => (*address).to_owned(),
    };
    addresses(url).iter().map(without).collect::<Vec<_>>().join(",")
}

/// The user and the password that the first address with any names.
fn user(addresses: &[&str]) -> Option<(String, String)> {
    addresses.iter().find_map(|address| {
        let address: ServerAddr = address.parse().ok()?;
        let user = address.username()?.to_owned();
        Some((user, address.password().unwrap_or_default().to_owned()))
    })
}

fn is_refusal(error: &async_nats::ConnectError) -> bool {
    matches!(
        error.kind(),
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation
    )
}

async fn options(
    config: &Config,
    user: Option<(String, String)>,
    name: &str,
    connected: watch::Sender<u64>,
) -> Result<ConnectOptions, ConnectError> {
    let first = connected.subscribe();
    // One that is being left may lose its broker before it is closed, which is no news.
    let is_left = Arc::new(AtomicBool::new(false));
    let options = match &config.broker.credentials {
        Some(path) => {
            ConnectOptions::with_credentials_file(path)
                .await
                .map_err(|source| ConnectError::Credentials {
                    path: path.display().to_string(),
                    source,
                })?
        }
        None => match user {
            Some((user, password)) => ConnectOptions::with_user_and_password(user, password),
            None => ConnectOptions::new(),
        },
    };
    Ok(options
        .name(format!("tidemill {name}"))
        .max_reconnects(None)
        .ping_interval(Duration::from_secs(5))
        .reconnect_delay_callback(move |tries| before_try(tries, *first.borrow() == 0))
        .event_callback(move |event| {
            let (connected, is_left) = (connected.clone(), Arc::clone(&is_left));
            async move {
                match event {
                    Event::Draining => is_left.store(true, Ordering::Relaxed),
                    Event::Disconnected if is_left.load(Ordering::Relaxed) => {}
                    Event::Connected => connected.send_modify(|count| *count += 1),
                    Event::Disconnected => tracing::warn!("the broker is away; reconnecting"),
                    Event::ServerError(error) => tracing::warn!(%error, "the broker reports an error"),
                    Event::Closed => {}
                    other => tracing::debug!(event = %other, "broker connection event"),
                }
            }
        }))
}

/// The pause before a try, counted from 1: the client asks for one before its very first try too, where there is nothing to
/// wait for. A connection that was lost is not made again at once: a server that closes each one would be asked without end.
fn before_try(tries: usize, never_connected: bool) -> Duration {
    if never_connected && tries <= 1 {
        return Duration::ZERO;
    }
    Duration::from_millis(50 << tries.min(5))
}

fn is_recent(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u64>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= OLDEST_SERVER
}

/// Makes sure that streams are as declared and that all services share one object store.
///
/// With `create`, missing streams are created; one that differs is never changed here, that is for `streams apply`.
///
/// # Errors
/// [`ConnectError::Streams`] or [`ConnectError::OtherStore`], and failures of the broker.
pub async fn prepare(broker: &Broker, config: &Config, store: &Store, create: bool) -> Result<(), ConnectError> {
    let replicas = config.broker.replicas;
    let mut differences = planned(broker, config).await?;
    if create && !differences.is_empty() && differences.iter().all(live::Difference::is_missing) {
        live::carry_out(&broker.jetstream, replicas, &differences).await?;
        differences.clear();
    }
    if !differences.is_empty() {
        let differences = differences.iter().map(ToString::to_string).collect();
        return Err(ConnectError::Streams { differences });
    }
    led(config, || agree_on_format(broker)).await?;
    led(config, || agree_on_store(broker, store)).await
}

/// Asks a broker that may still be electing the leader of what is asked for, as long as it may take to be reached.
async fn led<T, F>(config: &Config, ask: impl Fn() -> F) -> Result<T, ConnectError>
where
    F: Future<Output = Result<T, ConnectError>>,
{
    let mut backoff = Backoff::standard();
    let begun = tokio::time::Instant::now();
    loop {
        match ask().await {
            Err(ConnectError::Request(reason)) if begun.elapsed() < config.broker.connect_timeout => {
                tracing::debug!(reason, "the broker does not answer yet");
                tokio::time::sleep(backoff.next_pause()).await;
            }
            answered => return answered,
        }
    }
}

async fn meta(broker: &Broker) -> Result<async_nats::jetstream::kv::Store, ConnectError> {
    let meta = broker.jetstream.get_key_value(buckets::META.name).await;
    meta.map_err(|error| unread(&error))
}

fn unread(error: &dyn std::fmt::Display) -> ConnectError {
    ConnectError::Request(format!("read bucket {}: {error}", buckets::META.name))
}

/// The first one writes the format; whoever knows a lower one than is written stays away, also where it cannot be read.
async fn agree_on_format(broker: &Broker) -> Result<(), ConnectError> {
    let meta = meta(broker).await?;
    let ours = format!("{STORE_FORMAT} (Tidemill {})", env!("CARGO_PKG_VERSION"));
    if meta.create("format", ours.into()).await.is_ok() {
        return Ok(());
    }
    let found = leader::entry(&meta, "format").await.map_err(|error| unread(&error))?;
    let found = found.map(|entry| entry.value).unwrap_or_default();
    let found = String::from_utf8_lossy(&found).into_owned();
    let number = found
        .split_whitespace()
        .next()
        .and_then(|word| word.parse::<u32>().ok());
    if number.is_some_and(|format| format <= STORE_FORMAT) {
        return Ok(());
    }
    Err(ConnectError::NewerStore { found })
}

/// The plan of a broker that may still be electing its leaders: it is asked for as long as it may take to be reached.
async fn planned(broker: &Broker, config: &Config) -> Result<Vec<live::Difference>, live::Error> {
    // A request that comes while nobody leads is not answered at all, so none is waited for to its end.
    let patience = config.broker.connect_timeout;
    let mut backoff = Backoff::standard();
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < patience {
        let planned = live::plan(&broker.jetstream, config.broker.replicas);
        match tokio::time::timeout(patience / 4, planned).await {
            Ok(Ok(differences)) => return Ok(differences),
            Ok(Err(error)) => tracing::debug!(%error, "the broker's streams are not known yet"),
            Err(_) => tracing::debug!("the broker does not say what its streams are"),
        }
        tokio::time::sleep(backoff.next_pause()).await;
    }
    live::plan(&broker.jetstream, config.broker.replicas).await
}

async fn agree_on_store(broker: &Broker, store: &Store) -> Result<(), ConnectError> {
    let meta = meta(broker).await?;
    let ours = store.address().as_str();
    if meta.create("store", ours.to_owned().into()).await.is_ok() {
        return Ok(());
    }
    let theirs = leader::entry(&meta, "store").await.map_err(|error| unread(&error))?;
    let theirs = theirs.map(|entry| entry.value).unwrap_or_default();
    if theirs == ours.as_bytes() {
        return Ok(());
    }
    Err(ConnectError::OtherStore {
        ours: ours.to_owned(),
        theirs: String::from_utf8_lossy(&theirs).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{addresses, before_try, is_recent, shown, user};

    #[test]
    fn an_address_is_shown_without_who_asks() {
        for (url, without) in [
            ("nats://bob:se@cret@host:4222", "nats://host:4222"),
            ("nats://a:1, nats://u:p@b:2", "nats://a:1,nats://b:2"),
            ("bob:secret@host", "host"),
            ("nats://host", "nats://host"),
        ] {
            assert_eq!(shown(url), without);
        }
        assert_eq!(
            user(&["nats://a:1", "nats://u:p@b:2"]),
            Some(("u".to_owned(), "p".to_owned()))
        );
        assert_eq!(user(&["nats://a:1"]), None);
    }

    #[test]
    fn the_first_try_waits_for_nothing_and_each_later_one_does() {
        assert_eq!(before_try(1, true), Duration::ZERO);
        assert_eq!(before_try(2, true), Duration::from_millis(200));
        assert_eq!(before_try(1, false), Duration::from_millis(100));
        assert_eq!(before_try(50, false), Duration::from_millis(1_600));
    }

    #[test]
    fn addresses_are_separated_by_commas() {
        assert_eq!(addresses("nats://a:1"), ["nats://a:1"]);
        assert_eq!(addresses("nats://a:1, b:2,,c"), ["nats://a:1", "b:2", "c"]);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_recent("2.12.0"));
        assert!(is_recent("2.15.1-RC.3"));
        assert!(is_recent("3.0.0"));
        assert!(!is_recent("2.9.25"));
        assert!(!is_recent("2.11.9"));
        assert!(!is_recent("dev"));
    }
}
