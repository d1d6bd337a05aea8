//! Looks at a running sandbox, for what the kernel bounds by process and we bound for the whole tree.

use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::net::unix::pipe::Receiver;

use crate::cgroup::Group;
use crate::tree::{self, Usage};
use crate::{Limit, Limits};

/// How often it looks: a guest can fill some hundred MiB meanwhile, and most runs are over in two looks.
const EVERY: Duration = Duration::from_millis(25);

/// How long the kernel may take to end what was killed.
const ENDING: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Watch {
    /// The first process of the sandbox's own numbering: with it all others end.
    root: u32,
    /// Its descriptor, which can be read once it has ended. The runtime waits for one of a process as for that of a pipe.
    handle: Receiver,
    pub(crate) group: Option<Group>,
    limits: Limits,
    most: Mutex<Usage>,
}

impl Watch {
    pub(crate) fn new(root: u32, group: Option<Group>, limits: Limits) -> std::io::Result<Self> {
        let pid = i32::try_from(root).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| std::io::Error::other("no process"))?;
        let handle = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        Ok(Self {
            root,
            handle: Receiver::from_owned_fd_unchecked(handle)?,
            group,
            limits,
            most: Mutex::default(),
        })
    }

    /// Ends with the limit that the tree is over; never for one that stays within all.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn over(&self) -> Limit {
        let mut looks = tokio::time::interval(EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let usage = self.look();
            if usage.memory_bytes > self.limits.memory_bytes {
                return Limit::Memory;
            }
            if usage.cpu > Duration::from_secs(self.limits.cpu_seconds()) {
                return Limit::Cpu;
            }
            if tree::files(self.root) > self.limits.files {
                return Limit::Files;
            }
        }
    }

    fn look(&self) -> Usage {
        let tree = tree::usage(self.root, self.limits.memory_bytes);
        let group = self.group.as_ref().map(Group::usage).unwrap_or_default();
        let usage = tree.larger(group);
        let mut most = self.most.lock().unwrap_or_else(PoisonError::into_inner);
        *most = most.larger(usage);
        usage
    }

    /// The most that was seen, with a last look.
    pub(crate) fn most(&self) -> Usage {
        self.look();
        *self.most.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the whole tree and waits until nothing of it is left; false when something is.
    pub(crate) async fn kill(&self) -> bool {
        if let Some(group) = &self.group {
            group.kill();
        }
        // Ended already is what is wanted.
        if let Err(error) = pidfd_send_signal(self.handle.as_fd(), Signal::KILL) {
            tracing::trace!(%error, "a sandbox had ended");
        }
        tokio::time::timeout(ENDING, self.handle.readable())
            .await
            .is_ok_and(|ended| ended.is_ok())
    }
}
