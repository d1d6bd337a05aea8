//! Looks at a running sandbox, for what the kernel bounds by process and we bound for the whole tree.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::net::unix::pipe::Receiver;

use crate::cgroup::Group;
use crate::tree::{self, Identity, Process, Usage};
use crate::{Limit, Limits};

/// How often it looks: a guest can fill some hundred MiB meanwhile, and most runs are over in two looks.
const EVERY: Duration = Duration::from_millis(25);

/// How long the kernel may take to end what was killed.
const ENDING: Duration = Duration::from_secs(10);

/// A look that comes later than this says nothing of the time before: who looks was not run itself.
const BLIND: Duration = Duration::from_millis(250);

/// Who was seen at the last look, and what is known of those who are gone.
#[derive(Debug, Default)]
struct Seen {
    last: HashMap<Identity, Process>,
    /// CPU time of those who vanished, at their last look.
    vanished: Duration,
    /// CPU time that others have got into their account since, by waiting.
    accounted: Duration,
}

impl Seen {
    /// Takes a look in, and says whether somebody wanted a CPU then and wants it still. That the tree as a whole did at both looks
    /// proves nothing: children that come and go leave no account of the CPU that they had.
    fn take(&mut self, processes: &[Process]) -> bool {
        let now: HashMap<Identity, Process> = processes.iter().map(|one| (one.id, *one)).collect();
        let gone = self.last.values().filter(|one| !now.contains_key(&one.id));
        self.vanished += gone.map(|one| one.own + one.waited).sum::<Duration>();
        let mut wanted_throughout = false;
        for (one, before) in now.values().filter_map(|one| Some((one, self.last.get(&one.id)?))) {
            self.accounted += one.waited.saturating_sub(before.waited);
            wanted_throughout |= one.wants && before.wants;
        }
        self.last = now;
        wanted_throughout
    }

    /// CPU time that is in nobody's account: the kernel keeps none of children that a process ignores. It is less than they used.
    /// Of all looks together, for an account is in whole clock ticks.
    fn lost(&self) -> Duration {
        self.vanished.saturating_sub(self.accounted)
    }
}

/// How the host served what it was to run.
#[derive(Debug, Default)]
struct Served {
    last: Option<Instant>,
    first_cpu: Duration,
    /// One and the same process wanted a CPU, and had one or not.
    wanted: Duration,
    /// Nobody looked.
    unseen: Duration,
}

impl Served {
    fn look(&mut self, now: Instant, cpu: Duration, wants: bool) {
        let Some(last) = self.last.replace(now) else {
            self.first_cpu = cpu;
            return;
        };
        let since = now.saturating_duration_since(last);
        if since > BLIND {
            self.unseen += since;
        } else if wants {
            self.wanted += since;
        }
    }

    /// For how long it wanted a CPU and had none. Time that nobody saw counts as such.
    fn starved(&self, cpu: Duration) -> Duration {
        (self.unseen + self.wanted).saturating_sub(cpu.saturating_sub(self.first_cpu))
    }
}

#[derive(Debug)]
pub(crate) struct Watch {
    /// The first process of the sandbox's own numbering: with it all others end.
    root: u32,
    /// Its descriptor, which can be read once it has ended. The runtime waits for one of a process as for that of a pipe.
    handle: Receiver,
    pub(crate) group: Option<Group>,
    limits: Limits,
    most: Mutex<(Usage, Seen, Served)>,
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
        let (mut tree, processes) = tree::look(self.root, self.limits.memory_bytes);
        let group = self.group.as_ref().map(Group::usage).unwrap_or_default();
        let mut state = self.most.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, seen, served) = &mut *state;
        let wanted = seen.take(&processes);
        tree.cpu += seen.lost();
        let usage = tree.larger(group);
        *most = most.larger(usage);
        served.look(Instant::now(), usage.cpu, wanted);
        usage
    }

    /// The most that was seen, with a last look; and for how long it wanted a CPU and had none.
    pub(crate) fn most(&self) -> (Usage, Duration) {
        self.look();
        let state = self.most.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, _, served) = &*state;
        (*most, served.starved(most.cpu))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is starved of a second that is looked at every `every` milliseconds, in which it used `cpu` of the CPU.
    fn starved(every: u64, cpu: u64, wants: impl Fn(u64) -> bool) -> u128 {
        let start = Instant::now();
        let mut served = Served::default();
        for at in (0..=1000).step_by(usize::try_from(every).unwrap()) {
            // What was used before the first look is not of this time.
            let used = Duration::from_millis(500 + cpu * at / 1000);
            served.look(start + Duration::from_millis(at), used, wants(at));
        }
        served.starved(Duration::from_millis(500 + cpu)).as_millis()
    }

    #[test]
    fn a_host_starves_what_wants_a_cpu_and_has_none() {
        assert_eq!(starved(25, 0, |_| false), 0, "it slept");
        assert_eq!(starved(25, 1000, |_| true), 0, "it ran");
        assert_eq!(starved(25, 200, |_| true), 800, "it ran for a fifth of the time");
        assert_eq!(starved(25, 100, |at| at <= 400), 300, "it slept then");
        assert_eq!(starved(25, 2000, |_| true), 0, "it ran on two cores");
        assert_eq!(starved(500, 0, |_| false), 1000, "nobody was run to look");
    }
    /// A process of this number, that has used so many milliseconds itself and in children that it waited for.
    fn process(pid: u32, own: u64, waited: u64, wants: bool) -> Process {
        Process {
            id: Identity { pid, since: 1 },
            own: Duration::from_millis(own),
            waited: Duration::from_millis(waited),
            memory_bytes: 0,
            wants,
        }
    }

    #[test]
    fn a_tree_of_children_that_vanish_is_not_starved_and_what_was_seen_of_them_counts() {
        let mut seen = Seen::default();
        let mut wanted = Vec::new();
        for child in 0..10 {
            wanted.push(seen.take(&[process(1, 5, 0, false), process(100 + child, 8, 0, true)]));
        }
        assert!(wanted.iter().all(|wanted| !wanted), "each look saw another one");
        assert_eq!(seen.lost(), Duration::from_millis(9 * 8));
    }

    #[test]
    fn what_somebody_waited_for_is_in_that_ones_account_and_counts_once() {
        let mut seen = Seen::default();
        for (number, waited) in [(100, 0), (101, 10), (102, 30), (103, 40), (104, 60)] {
            seen.take(&[process(1, 0, waited, false), process(number, 15, 0, true)]);
        }
        assert_eq!(seen.lost(), Duration::ZERO);
    }

    #[test]
    fn who_waits_for_a_cpu_at_two_looks_wanted_it_in_between() {
        let mut seen = Seen::default();
        assert!(
            !seen.take(&[process(7, 0, 0, true)]),
            "nothing is known of the time before"
        );
        assert!(seen.take(&[process(7, 0, 0, true)]));
        assert!(!seen.take(&[process(7, 0, 0, false)]), "it sleeps");
        assert!(!seen.take(&[process(7, 0, 0, true)]), "it slept");
        let again = Process {
            id: Identity { pid: 7, since: 2 },
            ..process(7, 0, 0, true)
        };
        assert!(!seen.take(&[again]), "another one of that number");
    }
}
