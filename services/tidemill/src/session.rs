//! What every command that talks to the broker begins with.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use tidemill_config::Config;
use tidemill_service::{Admin, Broker, Context, connect, prepare};
use tidemill_storage::{Address, Store};
use tidemill_streams::{buckets, declared, live};
use tidemill_telemetry::LogFormat;

use crate::arguments::Place;
use crate::broker::OwnBroker;
use crate::data_dir::{self, Claimed, DataDir};
use crate::output;

/// What a command needs of the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// To run services: another owner of the data directory is an error.
    Alone,
    /// To read or to announce: the broker of another owner will do.
    Any,
    /// To follow what others do: without an owner there is nothing to follow.
    Others,
}

/// A connection to the broker, with the broker itself where it is ours.
pub(crate) struct Session {
    pub(crate) context: Context,
    own: Option<OwnBroker>,
}

/// The effective configuration of a command, logging started.
pub(crate) fn configuration(place: &Place, default_log: &str) -> anyhow::Result<Config> {
    let config = place.common.configuration()?;
    if place.common.dump_config {
        output::data(tidemill_config::dump(&config).trim_end())?;
        std::process::exit(0);
    }
    let format = if config.service.log_json {
        LogFormat::Json
    } else {
        LogFormat::Text
    };
    let filter = if config.service.log == tidemill_config::Service::default().log {
        default_log
    } else {
        &config.service.log
    };
    tidemill_telemetry::init_logs(format, filter);
    Ok(config)
}

/// The admin listener of a command that runs services, where one was asked for.
pub(crate) async fn admin(place: &Place) -> anyhow::Result<Option<Admin>> {
    let Some(address) = &place.common.admin else {
        return Ok(None);
    };
    tidemill_telemetry::install();
    let admin = Admin::bind(address)
        .await
        .with_context(|| format!("admin listener {address}"))?;
    admin.set_ready(true);
    output::note(&format!("admin http://{} (/livez /readyz /metrics)", admin.address()));
    Ok(Some(admin))
}

/// Runs an async body on a runtime of its own.
pub(crate) fn block_on<T>(body: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads(RUNTIME_THREADS) {
        builder.worker_threads(threads);
    }
    builder
        .enable_all()
        .build()
        .context("start the runtime")?
        .block_on(body)
}

/// The runtime's own setting of how many threads it has.
const RUNTIME_THREADS: &str = "TOKIO_WORKER_THREADS";

/// How many threads this process or its broker is to have, `None` where the environment says it in `variable`.
pub(crate) fn threads(variable: &str) -> Option<usize> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    share_of(cores, std::env::var_os(variable).is_some())
}

/// Half of the cores for each of the two: with a thread for each core in both, threads that look for work and find none cost
/// up to a tenth of all processor time on two busy cores.
fn share_of(cores: usize, is_set: bool) -> Option<usize> {
    (!is_set).then_some((cores / 2).max(1))
}

impl Session {
    /// Connects to the named broker, to that of the data directory's owner, or to one that is started now.
    pub(crate) async fn open(place: &Place, config: Config, need: Need) -> anyhow::Result<Self> {
        let (session, ()) = Self::open_beside(place, config, need, |_, _| ()).await?;
        Ok(session)
    }

    /// As [`Session::open`]. `begin` is called as soon as the object store is known, before a broker is started: for what
    /// needs none and can be done meanwhile.
    pub(crate) async fn open_beside<T>(
        place: &Place,
        config: Config,
        need: Need,
        begin: impl FnOnce(&Store, &Config) -> T,
    ) -> anyhow::Result<(Self, T)> {
        let place = claim(place, &config, need)?;
        let store = Store::open(place.store.clone())?;
        let begun = begin(&store, &config);
        let (url, own) = place.reach(&config).await?;
        match Self::join(&url, config, store, own.is_some()).await {
            Ok(context) => Ok((Self { context, own }, begun)),
            Err(error) => {
                if let Some(own) = own {
                    own.stop().await;
                }
                Err(error)
            }
        }
    }

    async fn join(url: &str, config: Config, store: Store, is_own: bool) -> anyhow::Result<Context> {
        let broker = connect(&config, url, "command").await?;
        if is_own {
            register_store(&broker, &store).await;
            forget_the_dead(&broker).await;
        }
        prepare(&broker, &config, &store, true).await?;
        if is_own {
            live::size_cache(&broker.jetstream, config.cache.max_bytes, true).await?;
        }
        Ok(Context::new("command", broker, store, Arc::new(config)))
    }

    /// The broker was started for this command and ends with it: nobody else is there.
    pub(crate) const fn has_own_broker(&self) -> bool {
        self.own.is_some()
    }

    /// The broker's address.
    pub(crate) fn url(&self) -> &str {
        &self.context.broker.url
    }

    /// Ends the session, and the broker where it is ours.
    pub(crate) async fn close(self) {
        tidemill_telemetry::say_rest();
        if self.own.is_some()
            && let Err(error) = live::forget_pulls(self.context.jetstream()).await
        {
            tracing::debug!(%error, "open pulls");
        }
        leave(&self.context.broker, self.own).await;
    }
}

/// Ends a connection, and then the broker where it is the process's own.
pub(crate) async fn leave(broker: &Broker, own: Option<OwnBroker>) {
    // Drained first: a client that is still there when its broker ends would try to reach it again.
    if let Err(error) = broker.client.drain().await {
        tracing::debug!(%error, "drain");
    }
    if let Some(own) = own {
        own.stop().await;
    }
}

/// A data directory that was moved or copied brings its own store with it, under another address than before.
async fn register_store(broker: &Broker, store: &Store) {
    // A new broker has no bucket yet; `prepare` makes it and registers the store.
    if let Ok(meta) = broker.jetstream.get_key_value(buckets::META.name).await
        && let Err(error) = meta.put("store", store.address().as_str().to_owned().into()).await
    {
        tracing::warn!(%error, "the object store's address was not registered");
    }
}

/// Leases, releases and the consumers of groups were of processes that are dead: nobody else could use this broker. The
/// next dispatcher releases what has no completion, without waiting until the dead ones' time is over.
async fn forget_the_dead(broker: &Broker) {
    for name in [format!("KV_{}", buckets::LEASES.name), declared::READY.name.to_owned()] {
        // A new broker has none of them yet.
        let Ok(stream) = broker.jetstream.get_stream_no_info(&name).await else {
            continue;
        };
        if let Err(error) = stream.purge().await {
            tracing::debug!(stream = name, %error, "not purged");
        }
    }
    let Ok(ready) = broker.jetstream.get_stream_no_info(declared::READY.name).await else {
        return;
    };
    let mut names = ready.consumer_names();
    while let Some(Ok(name)) = names.next().await {
        if let Err(error) = ready.delete_consumer(&name).await {
            tracing::debug!(consumer = name, %error, "not deleted");
        }
    }
}

/// Where the object store is, and the broker or what it takes to start one.
struct Found {
    store: Address,
    broker: Whose,
}

enum Whose {
    Ours(DataDir),
    Theirs(String),
}

/// Takes the data directory, or tells whose broker is used.
fn claim(place: &Place, config: &Config, need: Need) -> anyhow::Result<Found> {
    let found = |broker| Found {
        store: place.common.store_address(config),
        broker,
    };
    if !config.broker.url.is_empty() {
        return Ok(found(Whose::Theirs(config.broker.url.clone())));
    }
    let replicas = config.broker.replicas;
    anyhow::ensure!(
        replicas == 1,
        "[broker] replicas is {replicas}, and the broker of a data directory is one server: name {replicas} servers of one cluster with --nats A,B,C, or set it to 1"
    );
    match data_dir::claim(&place.common.data_dir)? {
        Claimed::Ours(_) if need == Need::Others => bail!(
            "nothing runs in data directory {}: start `tidemill up` or an evaluation there, or name a broker with --nats",
            place.common.data_dir.display()
        ),
        Claimed::Ours(data_dir) => Ok(found(Whose::Ours(data_dir))),
        Claimed::Theirs(running) if need != Need::Alone => Ok(found(Whose::Theirs(running.url))),
        Claimed::Theirs(running) => bail!(
            "data directory {} is in use by process {}: wait for it, name another with --data-dir, or join its broker with --nats {}",
            place.common.data_dir.display(),
            running.pid,
            running.url
        ),
    }
}

impl Found {
    /// The broker's address, and the broker where it is started now.
    async fn reach(self, config: &Config) -> anyhow::Result<(String, Option<OwnBroker>)> {
        match self.broker {
            Whose::Theirs(url) => Ok((url, None)),
            Whose::Ours(data_dir) => {
                let own = OwnBroker::start(data_dir, config.broker.sync_interval).await?;
                Ok((own.url().to_owned(), Some(own)))
            }
        }
    }
}

/// A read of the broker alone, for commands that must not create streams.
pub(crate) async fn connect_only(place: &Place, config: &Config) -> anyhow::Result<(Broker, Option<OwnBroker>)> {
    let (url, own) = claim(place, config, Need::Any)?.reach(config).await?;
    match connect(config, &url, "command").await {
        Ok(broker) => Ok((broker, own)),
        Err(error) => {
            if let Some(own) = own {
                own.stop().await;
            }
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::share_of;

    #[test]
    fn process_and_broker_share_the_cores_unless_the_environment_says_otherwise() {
        let cores = [1, 2, 3, 64].map(|cores| share_of(cores, false));
        assert_eq!(cores, [Some(1), Some(1), Some(1), Some(32)]);
        assert_eq!(share_of(64, true), None);
    }
}
