//! One server group: its engines, and the worker that takes its items.

use std::sync::Arc;

use tidemill_domain::{Replica, ServerGroup};
use tidemill_inference::{Client, ClientError, OpenAi, Options};
use tidemill_service::{Context, work};
use tidemill_streams::durable;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::attempt::Signals;
use crate::cache::{Cache, Generations};
use crate::item::Worker;
use crate::keys::Keys;
use crate::parking::Parking;
use crate::pool::{Member, Pool};

/// What all groups of this process share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// The requests that may be in flight.
    pub(crate) room: Arc<Semaphore>,
    /// The items in flight.
    pub(crate) keys: Arc<Keys>,
    /// The generations in flight, and how the cache fares.
    pub(crate) generations: Arc<Generations>,
}

/// Takes the group's items until it is stopped, and sees what is in flight through.
pub(crate) async fn run(context: Context, group: ServerGroup, signals: Signals, shared: Shared) {
    let pool = match pool(&context, &group) {
        Ok(pool) => pool,
        Err(error) => {
            tracing::error!(group = %group.group, %error, "the group's engines cannot be used");
            return;
        }
    };
    let slots = group.slots().min(context.config.generator.max_in_flight).max(1);
    let durable = durable::generator(&group.group, group.slots());
    let stop = signals.stopped.clone();
    let worker = Arc::new(Worker {
        context: context.clone(),
        pool,
        signals,
        room: shared.room,
        keys: shared.keys,
        cache: Cache::new(&context, &group, shared.generations),
        parking: Parking::new(&context),
        weights: group.checkpoint.clone(),
    });
    tracing::info!(group = %group.group, slots, replicas = group.replicas.len(), "serving");
    let handling = Arc::clone(&worker);
    let working = work(&context, &durable, slots as usize, &stop, move |delivery| {
        let worker = Arc::clone(&handling);
        async move { worker.handle(delivery).await }
    });
    tokio::select! {
        () = working => {}
        () = worker.pool.look_after() => {}
    }
    tracing::info!(group = %group.group, "no longer serving");
}

fn pool(context: &Context, group: &ServerGroup) -> Result<Pool<OpenAi>, ClientError> {
    let members: Result<Vec<Member<OpenAi>>, ClientError> =
        group.replicas.iter().map(|replica| member(context, replica)).collect();
    Ok(Pool::new(members?))
}

fn member(context: &Context, replica: &Replica) -> Result<Member<OpenAi>, ClientError> {
    let options = Options {
        max_in_flight: replica.max_in_flight as usize,
        request_timeout: context.config.generator.request_timeout,
        ..Options::from_environment()
    };
    let client = Client::new(&replica.url, &options)?;
    Ok(Member {
        name: client.url().to_owned(),
        engine: OpenAi::new(client, &replica.model, replica.kind),
        max_in_flight: replica.max_in_flight,
    })
}

/// A group that is served.
pub(crate) struct Serving {
    replicas: Vec<Replica>,
    stop: CancellationToken,
}

impl Serving {
    pub(crate) const fn new(replicas: Vec<Replica>, stop: CancellationToken) -> Self {
        Self { replicas, stop }
    }

    /// The record says what is served already.
    pub(crate) fn is(&self, group: &ServerGroup) -> bool {
        self.replicas == group.replicas && !self.stop.is_cancelled()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
