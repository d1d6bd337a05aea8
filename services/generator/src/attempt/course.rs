//! What one item has come to so far: its costs, and how fresh the knowledge is that nobody else has finished it.

use std::time::Duration;

use futures::future::BoxFuture;
use tidemill_service::Failure;
use tidemill_service::backoff::Backoff;
use tokio::time::{Instant, sleep};

use super::Tally;
use crate::step::{Action, Event, next};

/// Looks whether the item's completion is recorded.
type Look<'a> = Box<dyn Fn() -> BoxFuture<'a, Result<bool, Failure>> + Send + Sync + 'a>;

/// The age of a look, most of it a wait for a slot, after which an item is looked up again before it is asked for. After a
/// broker was lost two generators may hold one item, and the one that waits would ask for what the other has finished
/// meanwhile. A look that is younger is not repeated: where slots are free, an item is looked up once.
pub(crate) const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// An item while it is asked for.
pub(crate) struct Course<'a> {
    pub(crate) tally: Tally,
    look: Look<'a>,
    looked: Instant,
}

impl<'a> Course<'a> {
    /// Begins with a look that was just taken.
    pub(crate) fn begin(look: impl Fn() -> BoxFuture<'a, Result<bool, Failure>> + Send + Sync + 'a) -> Self {
        Self {
            tally: Tally::default(),
            look: Box::new(look),
            looked: Instant::now(),
        }
    }

    /// With a last look that was sent at `looked`.
    pub(crate) fn after(mut self, looked: Instant) -> Self {
        self.looked = looked;
        self
    }

    /// Whether somebody else has finished the item, looked up anew where the last look is too old to say. A process that
    /// was suspended, or waited long for an engine, learns here that its item was delivered to another one.
    ///
    /// Waits while the broker is away.
    pub(crate) async fn is_overtaken(&mut self) -> bool {
        let mut backoff = Backoff::standard();
        let mut is_fresh = self.looked.elapsed() <= LOOK_AGAIN_AFTER;
        while !is_fresh {
            let sent = Instant::now();
            let recorded = (self.look)().await;
            if let Err(failure) = &recorded {
                tracing::debug!(reason = failure.reason, "completion not looked up; trying again");
                sleep(backoff.next_pause()).await;
                continue;
            }
            let ago = sent.elapsed();
            match next(Event::Looked { recorded, ago }) {
                Action::Settle(_) => return true,
                Action::Ask => (self.looked, is_fresh) = (sent, true),
                Action::LookUp | Action::Publish { .. } => {}
            }
        }
        false
    }
}
