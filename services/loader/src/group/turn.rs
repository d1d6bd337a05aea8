//! A group's turn: the lease, so that one loader runs it, and room for its engine here.

use std::sync::Arc;
use std::time::Duration;

use tidemill_service::{Held, acquire};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Runner;

/// How long room is kept for a group whose lease is not free at once.
const ROOM_KEPT: Duration = Duration::from_secs(3);

/// How long a try for the lease that is not wanted any more may take to its end.
const TRY_ENDS: Duration = Duration::from_secs(2);

/// The right to run a group.
pub(super) struct Turn {
    lease: Held,
    _room: OwnedSemaphorePermit,
}

impl Turn {
    pub(super) const fn lease(&self) -> &Held {
        &self.lease
    }

    /// Cancelled when another loader may run the group.
    pub(super) const fn lost(&self) -> &CancellationToken {
        self.lease.lost()
    }
}

impl Runner {
    /// Waits for the lease, and for room. `None` when nothing is left to run.
    ///
    /// A loader without room keeps no lease: one with room may take the group over.
    pub(super) async fn wait_for_turn(&mut self) -> Option<Turn> {
        let mut kept = None;
        loop {
            let (lease, still_kept) = self.wait_for_lease(kept.take()).await?;
            let room = still_kept.or_else(|| Arc::clone(&self.room).try_acquire_owned().ok());
            if let Some(room) = room {
                return Some(Turn { lease, _room: room });
            }
            drop(lease);
            kept = Some(self.wait_for_room().await?);
        }
    }

    async fn wait_for_lease(
        &mut self,
        mut room: Option<OwnedSemaphorePermit>,
    ) -> Option<(Held, Option<OwnedSemaphorePermit>)> {
        let (context, inbox) = (self.context.clone(), Arc::clone(&self.inbox));
        let key = format!("group.{}", self.group);
        let keep_until = Instant::now() + ROOM_KEPT;
        self.absorb(inbox.take_now()).await;
        // Pinned: a try that is dropped between the broker's yes and ours would leave the lease taken.
        let mut lease = std::pin::pin!(acquire(&context, &key));
        while !self.live.is_empty() {
            tokio::select! {
                held = &mut lease => return held.map(|held| (held, room)),
                events = inbox.take() => self.absorb(events).await,
                () = sleep_until(keep_until), if room.is_some() => room = None,
            }
        }
        drop(timeout(TRY_ENDS, lease).await);
        None
    }

    async fn wait_for_room(&mut self) -> Option<OwnedSemaphorePermit> {
        let (draining, inbox) = (self.context.draining.clone(), Arc::clone(&self.inbox));
        // Pinned: it keeps its place in the queue.
        let mut room = std::pin::pin!(Arc::clone(&self.room).acquire_owned());
        while !self.live.is_empty() {
            tokio::select! {
                () = draining.cancelled() => return None,
                permit = &mut room => return permit.ok(),
                events = inbox.take() => self.absorb(events).await,
            }
        }
        None
    }
}
