//! Bodies of completions that no message names: collected, since nothing will ever read them.
//!
//! A generator stores a large body before it publishes the message that names it. Killed in between, or faster than by
//! somebody else, it leaves a body behind. What DONE says decides: once a key has its completion, every other body of
//! that key is an orphan, because the first write won. A body whose key has no completion may belong to a publish that is
//! under way, however long the broker refuses it: it stays while its evaluation does, and for [`GRACE`] after.

use std::time::Duration;

use async_nats::jetstream::stream::{DirectGetErrorKind, Stream};
use futures::TryStreamExt as _;
use tidemill_codec::{Body, Envelope};
use tidemill_domain::EvaluationId;
use tidemill_service::{Context, acquire, now};
use tidemill_storage::Claim;
use tidemill_streams::{declared, subject};
use tidemill_telemetry::Metric;
use tokio::time::sleep;

use crate::{board, cached};

/// The lease of whoever collects: more than one would do the work twice.
const LEASE: &str = "claims";

/// The pause between two rounds.
const EVERY: Duration = Duration::from_secs(600);

/// How old a body without a completion must be, once its evaluation has ended.
pub const GRACE: Duration = Duration::from_secs(24 * 3600);

/// What a round found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Round {
    /// Bodies that were looked at.
    pub looked: u64,
    /// Bodies that were removed.
    pub collected: u64,
    /// Their size together.
    pub bytes: u64,
}

/// Collects now and then until the context drains.
pub(crate) async fn run(context: &Context) {
    while let Some(held) = acquire(context, LEASE).await {
        while !held.lost().is_cancelled() {
            // A round lists the whole store, so that it ends with the process or the lease, wherever it is.
            let collected = tokio::select! { biased;
                () = context.draining.cancelled() => return,
                () = held.lost().cancelled() => break,
                collected = collect(context, GRACE) => collected,
            };
            match collected {
                Ok(round) if round.collected > 0 => {
                    tracing::info!(
                        collected = round.collected,
                        bytes = round.bytes,
                        "bodies that no message names"
                    );
                }
                Ok(_) => {}
                Err(reason) => tracing::warn!(
                    reason,
                    "bodies that no message names are not collected; the next round tries again"
                ),
            }
            tokio::select! {
                () = context.draining.cancelled() => return,
                () = held.lost().cancelled() => {}
                () = sleep(EVERY) => {}
            }
        }
    }
}

/// Removes the bodies that no message names or will name, those of evicted generations too. Those of ended evaluations without any completion go once they
/// are older than `grace`.
///
/// Lists a page at a time and asks DONE once for each body, so it takes little memory whatever there is.
///
/// # Errors
/// Why the store or the broker could not be asked; what was removed before stays removed.
///
/// # Cancel safety
/// Dropping the future ends the round: what was removed stays removed, and the next round finds the rest.
pub async fn collect(context: &Context, grace: Duration) -> Result<Round, String> {
    cached::sweep_bodies(context).await;
    let mut round = Round::default();
    for evaluation in context.store.claimed_evaluations().await.map_err(text)? {
        let done = context.jetstream().get_stream_no_info(declared::DONE.name).await;
        let done = done.map_err(text)?;
        let is_over = is_over(context, &evaluation).await?;
        let mut claims = context.store.claims(&evaluation);
        while let Some(claim) = claims.try_next().await.map_err(text)? {
            round.looked += 1;
            let is_orphan = match named(&done, &claim).await? {
                Some(key) => key != claim.key,
                None => is_over && now().seconds_since(claim.written) >= grace.as_secs_f64(),
            };
            if is_orphan {
                context.store.delete(&claim.key).await.map_err(text)?;
                round.collected += 1;
                round.bytes += claim.bytes;
                tidemill_telemetry::count(Metric::OrphansCollected, []);
                tidemill_telemetry::add(Metric::OrphanBytesCollected, claim.bytes, []);
            }
        }
    }
    Ok(round)
}

/// The key of the body that the completion of a claim's item names, empty where it holds its body itself; `None` when
/// there is no completion.
async fn named(done: &Stream<()>, claim: &Claim) -> Result<Option<String>, String> {
    match done.direct_get_last_for_subject(subject::done(&claim.item)).await {
        Ok(message) => Ok(Some(
            match Envelope::open(&message.payload).map(|envelope| envelope.body) {
                Ok(Body::Claimed(key)) => key.to_owned(),
                Ok(Body::Here(_)) => String::new(),
                // What is there cannot be read, so nothing is known of what it names.
                Err(_) => claim.key.clone(),
            },
        )),
        Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
        Err(error) => Err(text(error)),
    }
}

/// The evaluation ended, or nothing is known of it any more.
async fn is_over(context: &Context, evaluation: &EvaluationId) -> Result<bool, String> {
    let newest = board::newest(context, evaluation).await?;
    Ok(newest.is_none_or(|event| event.state.is_ended()))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
