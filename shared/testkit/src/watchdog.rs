//! Ends a child process when this process ends, however that happens.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Waits for its standard input to end, which the kernel brings about when the writing process is gone, then kills.
const SCRIPT: &str = r#"trap '' HUP INT TERM; read -r _; kill -9 "$1""#;

/// Kills one process as soon as this process is gone, or when told to.
///
/// A small shell holds the reading end of a pipe whose writing end is ours alone. A parent-death signal would need `unsafe`, and
/// would fire when the *thread* that started the child ends, as threads of a test do.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    /// Watches over the process `pid`, which the caller has not reaped yet.
    pub(crate) fn over(pid: u32) -> io::Result<Self> {
        Command::new("sh")
            .args(["-c", SCRIPT, "watchdog", &pid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(Self)
    }
}

impl Drop for Watchdog {
    /// Calls the watch off; the watched process is left alone.
    fn drop(&mut self) {
        // Killed before its input closes, so it cannot take the closing for our death.
        let called_off = self.0.kill().and_then(|()| self.0.wait());
        debug_assert!(called_off.is_ok(), "failed to call off a watchdog");
    }
}
