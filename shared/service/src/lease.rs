//! Leases: at most one process does a thing that would be wasteful, never harmful, to do twice.

use std::time::Duration;

use async_nats::jetstream::kv::Store;
use tidemill_streams::buckets;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Context, leader};

/// A third of the bucket's age, so that two renewals may be lost.
const RENEW_EVERY: Duration = Duration::from_secs(3);

/// How often a taken lease is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A lease that is held. It is renewed in the background and given back when dropped.
#[derive(Debug)]
pub struct Held {
    lost: CancellationToken,
    _release: DropGuard,
}

impl Held {
    /// Cancelled when the lease could not be renewed: another process may hold it now.
    #[must_use]
    pub const fn lost(&self) -> &CancellationToken {
        &self.lost
    }
}

/// Waits until the lease `key` is free, and takes it; `None` when the context drains first.
///
/// A holder that was killed keeps it until the bucket's age has passed; one that ended in order gives it back at once.
pub async fn acquire(context: &Context, key: &str) -> Option<Held> {
    loop {
        tokio::select! { biased;
            () = context.draining.cancelled() => return None,
            held = try_acquire(context, key) => if held.is_some() { return held },
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
    let revision = leases.create(key, value.clone().into()).await.ok()?;
    let (lost, release) = (CancellationToken::new(), CancellationToken::new());
    let renewal = Renewal {
        leases,
        key: key.to_owned(),
        value,
        revision,
        lost: lost.clone(),
        release: release.clone(),
    };
    tokio::spawn(renewal.run());
    tracing::debug!(lease = key, "lease taken");
    Some(Held {
        lost,
        _release: release.drop_guard(),
    })
}

struct Renewal {
    leases: Store,
    key: String,
    value: String,
    revision: u64,
    lost: CancellationToken,
    release: CancellationToken,
}

impl Renewal {
    async fn run(mut self) {
        let mut renewed = tokio::time::Instant::now();
        loop {
            tokio::select! { biased;
                () = self.release.cancelled() => {
                    if let Err(error) = self.leases.delete_expect_revision(&self.key, Some(self.revision)).await {
                        tracing::debug!(lease = self.key, %error, "lease not given back; it expires");
                    }
                    return;
                }
                () = sleep(RENEW_EVERY) => {}
            }
            match self
                .leases
                .update(&self.key, self.value.clone().into(), self.revision)
                .await
            {
                Ok(revision) => {
                    self.revision = revision;
                    renewed = tokio::time::Instant::now();
                }
                Err(error) => {
                    let ours = leader::entry(&self.leases, &self.key).await.ok().flatten();
                    match ours.filter(|entry| entry.value == self.value.as_bytes()) {
                        // The answer to an update was lost, not the lease.
                        Some(entry) => self.revision = entry.revision,
                        None if renewed.elapsed() < buckets::LEASES.max_age.unwrap_or_default() && is_away(&error) => {}
                        None => {
                            tracing::warn!(lease = self.key, %error, "lease lost");
                            self.lost.cancel();
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// The broker did not answer, as opposed to: someone else holds the lease.
fn is_away(error: &async_nats::jetstream::kv::UpdateError) -> bool {
    use async_nats::jetstream::kv::UpdateErrorKind;
    matches!(error.kind(), UpdateErrorKind::TimedOut | UpdateErrorKind::Other)
}
