//! The command, run to its end.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tidemill_testkit::Service;

/// How a run of the command ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub log: String,
}

/// Longest run of a command in these tests, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the command to its end.
///
/// # Errors
/// When it cannot be started or does not end.
pub fn tidemill(arguments: &[&str]) -> Result<Ran> {
    let mut service = Service::tidemill()?.args(arguments).env_remove("NATS_URL").spawn()?;
    let status = service.wait(PATIENCE)?;
    Ok(Ran {
        code: status.code(),
        output: service.output(),
        log: service.log().join("\n"),
    })
}

impl Ran {
    /// Standard output as JSON.
    ///
    /// # Errors
    /// When it is not, with what was printed.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.output).with_context(|| format!("not JSON: {:?}; log: {}", self.output, self.log))
    }
}
