//! The one clock of services.

use std::time::SystemTime;

use tidemill_domain::Timestamp;

/// Names the file that moves this process's clock, where the crate is built for tests with `fault-points`: it holds a
/// number of seconds, negative for the past, and is read each time the clock is.
#[cfg(feature = "fault-points")]
const OFFSET_VARIABLE: &str = "TIDEMILL_CLOCK_OFFSET_FILE";

/// The time now. It may jump either way, as wall clocks do: it is written down and shown, and nothing waits for it.
#[must_use]
pub fn now() -> Timestamp {
    let now = Timestamp::from(SystemTime::now());
    #[cfg(feature = "fault-points")]
    let now = Timestamp(now.0.saturating_add(offset_micros()));
    now
}

#[cfg(feature = "fault-points")]
fn offset_micros() -> i64 {
    let file = std::env::var_os(OFFSET_VARIABLE);
    let text = file.and_then(|file| std::fs::read_to_string(file).ok());
    let seconds: i64 = text.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    seconds.saturating_mul(1_000_000)
}
