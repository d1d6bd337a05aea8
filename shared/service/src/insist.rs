//! Writing to the object store until it is written: what an engine generated is not given up because a disk is full.

use tidemill_codec::Wire;
use tidemill_domain::ItemKey;

use crate::backoff::Backoff;
use crate::waits::Obstacle;
use crate::{Context, Failure};

/// Replaces a message that is too large by a claim on the object store, and waits while the store takes no writes.
///
/// # Errors
/// A failure to be settled: cancelled when the process's grace is over, else what the store says of the message itself.
pub async fn check_in<T: Wire>(context: &Context, item: &ItemKey, message: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let mut backoff = Backoff::standard();
    let mut waiting = None;
    loop {
        let error = match context.store.check_in::<T>(item, message.clone()).await {
            Ok(sent) => {
                // A small message goes as it is, and says nothing of the store.
                if sent != message {
                    context.waits.passed(Obstacle::ObjectStore);
                }
                return Ok(sent);
            }
            Err(error) if error.is_of_the_store() => error,
            Err(error) => return Err(error.into()),
        };
        let reason = error.to_string();
        tracing::warn!(reason, "the object store does not take a body; waiting");
        waiting
            .get_or_insert_with(|| context.waits.begin(Obstacle::ObjectStore, &reason))
            .because(&reason);
        tokio::select! {
            () = context.cancelled.cancelled() => return Err(Failure::cancelled()),
            () = tokio::time::sleep(backoff.next_pause()) => {}
        }
    }
}
