//! How far grading is behind: a level for the dashboard, never an input of the work.

use std::time::Duration;

use async_nats::jetstream::consumer::{Info, pull};
use tidemill_domain::Timestamp;
use tidemill_service::{Context, now};
use tidemill_streams::durable;
use tidemill_telemetry::Metric;
use tokio::time::{MissedTickBehavior, interval};

const EVERY: Duration = Duration::from_secs(5);

/// Reports the completions without a grade, and the age of the oldest, until the context drains.
pub(crate) async fn report(context: &Context) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! { biased;
            () = context.draining.cancelled() => return,
            _ = ticks.tick() => match backlog(context).await {
                Ok(backlog) => {
                    let places = [("stream", backlog.waiting), ("graders", backlog.in_hand)];
                    for (place, completions) in places {
                        tidemill_telemetry::set(Metric::GradeBacklog, completions as f64, [("place", place)]);
                    }
                    tidemill_telemetry::set(Metric::GradeBacklogAgeSeconds, backlog.oldest_age, []);
                }
                Err(error) => tracing::debug!(%error, "the backlog is not known"),
            },
        }
    }
}

/// How far grading is behind.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Backlog {
    /// Completions not yet delivered to a grader.
    pub waiting: u64,
    /// Completions delivered and not graded yet, those included that graders gave back for a while.
    pub in_hand: u64,
    /// Seconds since the oldest completion without a grade was stored; 0 when there is none.
    pub oldest_age: f64,
}

/// Asks the broker how far grading is behind.
///
/// # Errors
/// When the broker does not answer, or has no such consumer.
pub async fn backlog(context: &Context) -> Result<Backlog, async_nats::Error> {
    let durable = durable::grader();
    let stream = context.jetstream().get_stream_no_info(durable.stream.name).await?;
    let consumer = context
        .jetstream()
        .get_consumer_from_stream::<pull::Config, _, _>(&durable.name, durable.stream.name)
        .await?;
    let info = consumer.cached_info();
    if !is_behind(info) {
        return Ok(Backlog::default());
    }
    let oldest = stream.get_raw_message(info.ack_floor.stream_sequence + 1).await;
    // The message after the floor may be acknowledged or gone by now; the next report finds the one behind it.
    let age = oldest.ok().map_or(0.0, |message| {
        let micros = message.time.unix_timestamp_nanos() / 1_000;
        now().seconds_since(Timestamp(i64::try_from(micros).unwrap_or(i64::MAX)))
    });
    Ok(Backlog {
        waiting: info.num_pending,
        in_hand: info.num_ack_pending as u64,
        oldest_age: age.max(0.0),
    })
}

const fn is_behind(info: &Info) -> bool {
    info.num_pending > 0 || info.num_ack_pending > 0
}
