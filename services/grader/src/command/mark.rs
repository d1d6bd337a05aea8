//! What belongs to a process that grades, wherever it moved to: all that it starts inherits a mark in its environment.
//!
//! A process group is not enough, which `setsid` leaves, nor is a tree, in which what outlives its parent hangs elsewhere. What
//! clears its environment is not found.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Holds the mark.
pub(super) const VARIABLE: &str = "TIDEMILL_GRADING_PROGRAM";

/// How often is looked for what was started while others were ended: what is ended starts nothing more.
const ROUNDS: u32 = 16;

/// A value that no other process of this or an earlier grader has.
#[derive(Debug)]
pub(super) struct Mark(String);

impl Mark {
    pub(super) fn new() -> Self {
        let random = || RandomState::new().build_hasher().finish();
        Self(format!("{}-{:016x}{:016x}", std::process::id(), random(), random()))
    }

    pub(super) fn value(&self) -> &OsStr {
        OsStr::new(&self.0)
    }

    /// Ends every process with the mark that may be looked at.
    pub(super) fn end_all(&self) {
        let mut ended = HashSet::new();
        for _ in 0..ROUNDS {
            let mut is_new = false;
            for (pid, process) in self.found() {
                is_new |= ended.insert(pid);
                if let Err(error) = pidfd_send_signal(&process, Signal::KILL) {
                    tracing::debug!(%error, "what a grading program started had ended already");
                }
            }
            if !is_new {
                return;
            }
        }
    }

    fn found(&self) -> Vec<(i32, OwnedFd)> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| Some((pid, self.open(pid)?))).collect()
    }

    /// The process of an id, if it has the mark. It is opened before it is looked at, so that what is ended is what was looked at.
    fn open(&self, pid: i32) -> Option<OwnedFd> {
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let entry = format!("{VARIABLE}={}", self.0);
        let mut entries = environment.split(|byte| *byte == 0);
        entries.any(|found| found == entry.as_bytes()).then_some(process)
    }
}
