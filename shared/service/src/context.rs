//! What a role of a process works with.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use tidemill_config::Config;
use tidemill_storage::Store;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::now;
use crate::connect::Broker;
use crate::lease::{Certainty, Held};
use crate::loads::Loads;
use crate::publish::Publisher;
use crate::waits::Waits;

/// A cheap handle on everything that a role shares with the rest of its process.
#[derive(Debug, Clone)]
pub struct Context {
    /// The role's name: `loader`, `generator`, `grader` or `aggregator`. It labels metrics and dead letters.
    pub role: &'static str,
    /// This process's name among others of its role, for leases and logs.
    pub holder: Arc<str>,
    /// The connection to the broker.
    pub broker: Broker,
    /// The way out.
    pub publisher: Publisher,
    /// What this process waits for.
    pub waits: Waits,
    /// How much this process has in hand.
    pub loads: Loads,
    /// The object store.
    pub store: Store,
    /// The effective configuration.
    pub config: Arc<Config>,
    /// Take nothing new: finish what is in flight, then return.
    pub draining: CancellationToken,
    /// The grace is over: drop everything now.
    pub cancelled: CancellationToken,
    /// The lease under which this role acts, where its acts need one.
    pub lease: Option<Certainty>,
    /// What takes, renews and gives back leases.
    pub(crate) leases: TaskTracker,
}

/// How long a process that ends waits until its leases are given back; after it they expire by age.
const GIVING_BACK: Duration = Duration::from_secs(2);

impl Context {
    /// Joins what a role needs.
    #[must_use]
    pub fn new(role: &'static str, broker: Broker, store: Store, config: Arc<Config>) -> Self {
        let cancelled = CancellationToken::new();
        let waits = Waits::default();
        Self {
            role,
            holder: holder(role).into(),
            publisher: Publisher::new(broker.jetstream.clone(), cancelled.clone(), waits.clone()),
            waits,
            loads: Loads::default(),
            broker,
            store,
            config,
            draining: CancellationToken::new(),
            cancelled,
            lease: None,
            leases: TaskTracker::new(),
        }
    }

    /// The same role, acting under a lease.
    #[must_use]
    pub fn under(&self, held: &Held) -> Self {
        Self {
            lease: Some(held.certainty()),
            ..self.clone()
        }
    }

    /// Nobody else can act in this role's place now. To be asked right before each act that needs the lease: a process
    /// that was suspended for longer than the lease's age finds out here, before it does what another one has done since.
    #[must_use]
    pub fn may_act(&self) -> bool {
        self.lease.as_ref().is_none_or(Certainty::is_certain)
    }

    /// The same process in another role; it drains and is cancelled with this one.
    #[must_use]
    pub fn role(&self, role: &'static str) -> Self {
        Self {
            role,
            holder: holder(role).into(),
            ..self.clone()
        }
    }

    /// Waits until leases that were dropped are given back, so that whoever comes next need not wait for their age. For the
    /// end of a process, once its roles have returned.
    pub async fn close(&self) {
        self.leases.close();
        if timeout(GIVING_BACK, self.leases.wait()).await.is_err() {
            tracing::debug!("leases not given back; they expire");
        }
    }

    /// The JetStream context.
    #[must_use]
    pub const fn jetstream(&self) -> &jetstream::Context {
        &self.broker.jetstream
    }
}

/// Role, process and start time: no two processes share it, also not after a restart with the same process id.
fn holder(role: &str) -> String {
    format!("{role}-{}-{:x}", std::process::id(), now().0)
}
