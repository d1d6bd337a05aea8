//! What one item has come to so far: its costs, and how fresh the knowledge is that nobody else has finished it.

use futures::future::BoxFuture;
use tidemill_service::Failure;
use tidemill_service::backoff::Backoff;
use tokio::time::{Instant, sleep};

use super::Tally;
use crate::step::{Action, Event, LOOK_IS_GOOD_FOR, next};

/// Looks whether the item's completion is recorded.
type Look<'a> = Box<dyn Fn() -> BoxFuture<'a, Result<bool, Failure>> + Send + Sync + 'a>;

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

    /// Whether somebody else has finished the item, looked up anew where the last look is too old to say. A process that
    /// was suspended, or waited long for an engine, learns here that its item was delivered to another one.
    ///
    /// Waits while the broker is away.
    pub(crate) async fn is_overtaken(&mut self) -> bool {
        let mut backoff = Backoff::standard();
        while self.looked.elapsed() > LOOK_IS_GOOD_FOR {
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
                Action::Ask => self.looked = sent,
                Action::LookUp | Action::Publish { .. } => {}
            }
        }
        false
    }
}
