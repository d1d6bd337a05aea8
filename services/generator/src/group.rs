//! One server group: its engines as they come and go, and the worker that takes its items.

use std::sync::Arc;

use tidemill_domain::{Replica, ServerGroup};
use tidemill_inference::{Client, ClientError, Described, OpenAi, Options};
use tidemill_service::leader::Looks;
use tidemill_service::{Context, work};
use tidemill_streams::durable;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::attempt::Signals;
use crate::cache::{Cache, Generations};
use crate::item::Worker;
use crate::keys::Keys;
use crate::parking::Parking;
use crate::pool::{Member, Pool, Terms};
use crate::pulse::{Board, Pulse};

/// What all groups of this process share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// The requests that may be in flight.
    pub(crate) room: Arc<Semaphore>,
    /// The items in flight.
    pub(crate) keys: Arc<Keys>,
    /// The generations in flight, and how the cache fares.
    pub(crate) generations: Arc<Generations>,
    /// Looks for completions.
    pub(crate) looks: Looks,
    /// The levels of all groups, for metrics.
    pub(crate) board: Arc<Board>,
}

/// Takes the group's items until it is stopped, and sees what is in flight through. The group's record may change meanwhile:
/// replicas that are new get work at once, and those that are gone finish what they have.
pub(crate) async fn run(context: Context, mut record: watch::Receiver<ServerGroup>, signals: Signals, shared: Shared) {
    let group = record.borrow_and_update().clone();
    let terms = Terms {
        seed: seed(&context.holder),
        stall_patience: context.config.generator.stall_timeout,
        most: context.config.generator.max_in_flight.max(1),
    };
    let pool = Pool::new(Vec::new(), terms);
    let mut membership = Membership::default();
    membership.follow(&context, &pool, &group.replicas);
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
        looks: shared.looks,
    });
    tracing::info!(group = %group.group, replicas = group.replicas.len(), "serving");
    let handling = Arc::clone(&worker);
    let working = work(&context, &durable, worker.pool.slots(), &stop, move |delivery| {
        let worker = Arc::clone(&handling);
        async move { worker.handle(delivery).await }
    });
    let following = async {
        while record.changed().await.is_ok() {
            let replicas = record.borrow_and_update().replicas.clone();
            membership.follow(&context, &worker.pool, &replicas);
        }
        std::future::pending::<()>().await;
    };
    let pulse = Pulse::new(&context, &group.group, &worker.pool, &shared.board);
    let taking = async { tokio::join!(working, pulse.beat(&stop)) };
    tokio::select! {
        ((), ()) = taking => {}
        () = worker.pool.look_after() => {}
        () = following => {}
    }
    tracing::info!(group = %group.group, "no longer serving");
}

/// Generators that are told the same by a server are to do it at different times.
fn seed(holder: &str) -> u64 {
    let digest = tidemill_domain::Digest::of(holder.as_bytes());
    digest
        .as_str()
        .bytes()
        .fold(0, |seed, byte| seed.rotate_left(7) ^ u64::from(byte))
}

/// The replicas that the pool has, by what is known of them.
#[derive(Default)]
struct Membership(Vec<(Replica, usize)>);

impl Membership {
    /// Makes the pool's replicas those of the record. One of which only the bound changed stays the same.
    fn follow(&mut self, context: &Context, pool: &Pool<OpenAi>, replicas: &[Replica]) {
        let (staying, leaving): (Vec<_>, Vec<_>) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(known, _)| replicas.iter().any(|new| is_same(known, new)));
        for (gone, index) in leaving {
            tracing::info!(engine = gone.url, "replica left");
            pool.leave(index);
        }
        self.0 = staying;
        for replica in replicas {
            if let Some((known, index)) = self.0.iter_mut().find(|(known, _)| is_same(known, replica)) {
                if known.max_in_flight != replica.max_in_flight {
                    pool.set_bound(*index, replica.max_in_flight);
                }
                *known = replica.clone();
                continue;
            }
            match member(context, replica) {
                Ok(member) => self.0.push((replica.clone(), pool.join(member))),
                Err(error) => tracing::error!(engine = replica.url, %error, "replica cannot be used"),
            }
        }
    }
}

/// They are one replica, perhaps with another bound.
fn is_same(one: &Replica, other: &Replica) -> bool {
    let bounded = Replica {
        max_in_flight: one.max_in_flight,
        ..other.clone()
    };
    *one == bounded
}

fn member(context: &Context, replica: &Replica) -> Result<Member<OpenAi>, ClientError> {
    let options = Options {
        max_in_flight: replica.max_in_flight as usize,
        request_timeout: context.config.generator.request_timeout,
        ..Options::from_environment()
    };
    let client = Client::new(&replica.url, &options)?;
    let described = Described {
        context_length: replica.context_length,
        owned_by: replica.owned_by.clone(),
    };
    Ok(Member {
        name: client.url().to_owned(),
        engine: OpenAi::new(client, &replica.model, replica.kind).described(described),
        max_in_flight: replica.max_in_flight,
    })
}

/// A group that is served.
pub(crate) struct Serving {
    record: watch::Sender<ServerGroup>,
    stop: CancellationToken,
}

impl Serving {
    /// Serves a group, whose record is followed from now on.
    pub(crate) fn new(group: ServerGroup, stop: CancellationToken) -> (Self, watch::Receiver<ServerGroup>) {
        let (record, follow) = watch::channel(group);
        (Self { record, stop }, follow)
    }

    /// Takes a new record up. False when it is of other weights, so that everything begins anew.
    pub(crate) fn takes(&self, group: &ServerGroup) -> bool {
        if self.stop.is_cancelled() || self.record.is_closed() || self.record.borrow().checkpoint != group.checkpoint {
            return false;
        }
        self.record.send_if_modified(|known| {
            let is_new = known.replicas != group.replicas;
            known.clone_from(group);
            is_new
        });
        true
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
