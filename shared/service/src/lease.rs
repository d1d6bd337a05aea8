//! Leases: at most one process does a thing that would be wasteful, never harmful, to do twice.

pub mod rule;

use std::time::Duration;

use async_nats::jetstream::kv::{Store, UpdateError, UpdateErrorKind};
use tidemill_streams::buckets;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::rule::{Answer, Lease, RENEW_EVERY};
use crate::{Context, leader};

/// How often a taken lease is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A lease that is held. It is renewed in the background and given back when dropped.
#[derive(Debug)]
pub struct Held {
    lost: CancellationToken,
    certainty: Certainty,
    _release: DropGuard,
}

/// Until when a lease is certain to be held: asked right before each act that its holder alone may do.
#[derive(Debug, Clone)]
pub struct Certainty(watch::Receiver<Instant>);

impl Held {
    /// Cancelled when the lease could not be renewed: another process may hold it now.
    #[must_use]
    pub const fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// A handle on whether the lease is held at this moment.
    #[must_use]
    pub fn certainty(&self) -> Certainty {
        self.certainty.clone()
    }
}

impl Certainty {
    /// Nobody else can hold the lease now. False in a process that was suspended for longer than the lease's age, from
    /// its first instruction on.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        Instant::now() < *self.0.borrow()
    }
}

/// Waits until the lease `key` is free, and takes it; `None` when the context drains first.
///
/// A holder that was killed keeps it until the bucket's age has passed; one that ended in order gives it back at once.
pub async fn acquire(context: &Context, key: &str) -> Option<Held> {
    loop {
        // On its own: a try that was dropped between the broker's yes and ours would leave the lease taken. Whoever does
        // not wait for its outcome any more drops what it took, which gives it back.
        let (trying, wanted) = (context.clone(), key.to_owned());
        let mut trying = context.leases.spawn(async move { try_acquire(&trying, &wanted).await });
        tokio::select! { biased;
            () = context.draining.cancelled() => return None,
            held = &mut trying => if let Ok(Some(held)) = held { return Some(held) },
        }
        tokio::select! {
            () = context.draining.cancelled() => return None,
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

async fn try_acquire(context: &Context, key: &str) -> Option<Held> {
    let leases = context.jetstream().get_key_value(buckets::LEASES.name).await.ok()?;
    let value = context.holder.to_string();
    let sent = Instant::now();
    let revision = leases.create(key, value.clone().into()).await.ok()?;
    let lease = Lease::taken(revision, sent);
    let (lost, release) = (CancellationToken::new(), CancellationToken::new());
    let (until, certainty) = watch::channel(lease.until());
    let renewal = Renewal {
        leases,
        key: key.to_owned(),
        value,
        lease,
        until,
        lost: lost.clone(),
        release: release.clone(),
    };
    context.leases.spawn(renewal.run());
    tracing::debug!(lease = key, "lease taken");
    Some(Held {
        lost,
        certainty: Certainty(certainty),
        _release: release.drop_guard(),
    })
}

struct Renewal {
    leases: Store,
    key: String,
    value: String,
    lease: Lease,
    until: watch::Sender<Instant>,
    lost: CancellationToken,
    release: CancellationToken,
}

impl Renewal {
    async fn run(mut self) {
        loop {
            tokio::select! { biased;
                () = self.release.cancelled() => return self.give_back().await,
                () = sleep(RENEW_EVERY) => {}
            }
            let sent = Instant::now();
            // An answer that comes when the lease is over is none.
            let answer = timeout_at(self.lease.until(), self.renew())
                .await
                .unwrap_or(Answer::Away);
            if !self.lease.note(answer, sent, Instant::now()) {
                tracing::warn!(lease = self.key, ?answer, "lease lost");
                self.until.send_replace(Instant::now());
                self.lost.cancel();
                return;
            }
            self.until.send_replace(self.lease.until());
        }
    }

    async fn renew(&self) -> Answer {
        let written = self
            .leases
            .update(&self.key, self.value.clone().into(), self.lease.revision());
        let error = match written.await {
            Ok(revision) => return Answer::Written(revision),
            Err(error) => error,
        };
        match leader::entry(&self.leases, &self.key).await {
            Ok(Some(entry)) if entry.value == self.value.as_bytes() => Answer::Ours(entry.revision),
            Ok(Some(_)) => Answer::NotOurs,
            _ if is_away(&error) => Answer::Away,
            _ => Answer::NotOurs,
        }
    }

    async fn give_back(&self) {
        let revision = Some(self.lease.revision());
        if let Err(error) = self.leases.delete_expect_revision(&self.key, revision).await {
            tracing::debug!(lease = self.key, %error, "lease not given back; it expires");
        }
    }
}

/// The broker did not answer, as opposed to: someone else holds the lease.
fn is_away(error: &UpdateError) -> bool {
    matches!(error.kind(), UpdateErrorKind::TimedOut | UpdateErrorKind::Other)
}
