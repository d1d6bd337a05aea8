//! How often the handling of a message failed, counted where a kill of the process does not undo it.
//!
//! The broker counts deliveries, which kills, preemption and lost acknowledgements use up as well. Failures are counted in a
//! bucket of their own, under the message's place in its stream, and only when there is one: an item that goes well costs
//! nothing. A count that cannot be written is lost, which gives the message one more try.

use std::time::Duration;

use tidemill_streams::buckets;

use crate::Context;

/// Longest wait for the broker: a failure is settled in any case.
const PATIENCE: Duration = Duration::from_secs(2);

/// Counts a failure of the message and returns how many there are now, at least 1.
pub(crate) async fn count(context: &Context, stream: &str, sequence: u64) -> u32 {
    match tokio::time::timeout(PATIENCE, try_count(context, stream, sequence)).await {
        Ok(Ok(failures)) => failures,
        Ok(Err(error)) => {
            tracing::debug!(stream, sequence, %error, "failure not counted");
            1
        }
        Err(_) => {
            tracing::debug!(stream, sequence, "failure not counted: the broker does not answer");
            1
        }
    }
}

async fn try_count(context: &Context, stream: &str, sequence: u64) -> Result<u32, async_nats::Error> {
    let bucket = context.jetstream().get_key_value(buckets::FAILURES.name).await?;
    let key = format!("{stream}.{sequence}");
    // One process has the message at a time; where two have it after all, one of the two failures counts.
    let known = bucket.get(&key).await?;
    let before = known.and_then(|value| std::str::from_utf8(&value).ok()?.parse::<u32>().ok());
    let failures = before.unwrap_or(0).saturating_add(1);
    bucket.put(&key, failures.to_string().into()).await?;
    Ok(failures)
}
