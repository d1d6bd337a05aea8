//! What a grader tells of itself, by family: how much it holds, and how long grades take.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidemill_domain::Grade;
use tidemill_service::{Context, Load, now};
use tidemill_telemetry::Metric;
use tokio::time::{MissedTickBehavior, interval};

use crate::pool::Pool;
use crate::turns::Level;

/// Also how soon it is noticed that a lane stands still which was quick before.
const EVERY: Duration = Duration::from_secs(1);

/// The last grades whose latencies make a mean.
const SMOOTHED: u64 = 64;

/// How long grades took, by family.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Mutex<BTreeMap<&'static str, Latency>>);

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Latency {
    graded: u64,
    seconds: f64,
}

impl Latency {
    fn and(self, seconds: f64) -> Self {
        let graded = self.graded + 1;
        Self {
            graded,
            seconds: self.seconds + (seconds - self.seconds) / graded.min(SMOOTHED) as f64,
        }
    }
}

impl Latencies {
    /// Takes note of a grade that is stored.
    pub(crate) fn record(&self, grade: &Grade, family: &'static str) {
        let outcome = grade.outcome.label();
        tidemill_telemetry::count(Metric::Grades, [("outcome", outcome), ("family", family)]);
        let seconds = grade.graded.seconds_since(grade.finished);
        tidemill_telemetry::observe(Metric::GradeLatencySeconds, seconds, [("family", family)]);
        let mut latencies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let latency = latencies.entry(family).or_default();
        *latency = latency.and(seconds);
    }

    fn all(&self) -> BTreeMap<&'static str, Latency> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Tells it every second until the context drains.
pub(crate) async fn report(context: &Context, pool: &Pool, latencies: &Latencies) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known = BTreeSet::new();
    loop {
        tokio::select! { biased;
            () = context.draining.cancelled() => return,
            _ = ticks.tick() => tell(context, pool, latencies, &mut known),
        }
    }
}

fn tell(context: &Context, pool: &Pool, latencies: &Latencies, known: &mut BTreeSet<&'static str>) {
    let latencies = latencies.all();
    let levels = pool.levels(known);
    for (family, level) in &levels {
        for (state, count) in [
            ("running", level.running),
            ("waiting", level.waiting),
            ("given_back", level.back),
        ] {
            tidemill_telemetry::set(
                Metric::GradesHeld,
                count as f64,
                [("family", *family), ("state", state)],
            );
        }
        tidemill_telemetry::set(Metric::GradesHeldAgeSeconds, age(level), [("family", *family)]);
    }
    for family in latencies.keys().chain(levels.keys()).collect::<BTreeSet<_>>() {
        let latency = latencies.get(family).copied().unwrap_or_default();
        let level = levels.get(family).copied().unwrap_or_default();
        context.loads.set(load(family, latency, &level));
    }
}

fn load(family: &str, latency: Latency, level: &Level) -> Load {
    Load {
        kind: family.to_owned(),
        done: latency.graded,
        latency_seconds: latency.seconds,
        running: level.running,
        waiting: level.waiting,
        given_back: level.back,
        oldest_seconds: age(level),
    }
}

fn age(level: &Level) -> f64 {
    level.oldest.map_or(0.0, |oldest| now().seconds_since(oldest).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_the_mean_of_the_first_and_follows_the_last_ones() {
        let mut latency = Latency::default().and(1.0).and(3.0);
        assert_eq!(
            latency,
            Latency {
                graded: 2,
                seconds: 2.0
            }
        );
        for _ in 0..1_000 {
            latency = latency.and(10.0);
        }
        assert!((latency.seconds - 10.0).abs() < 0.01, "{latency:?}");
    }
}
