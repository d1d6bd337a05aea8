//! What a sandbox's processes use, read from /proc: the kernel counts per process, and a guest has many.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most processes that are looked at; a limit of processes is far below.
const MOST: usize = 4096;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) memory_bytes: u64,
}

impl Usage {
    pub(crate) fn larger(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.max(other.cpu),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }
}

/// The children of a process, whichever of its threads made them.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// A process and all below it. Orphans of a sandbox are below its first process.
pub(crate) fn members(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children(pid));
        next += 1;
        if found.len() > MOST {
            break;
        }
    }
    found
}

/// One process at a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: Identity,
    /// CPU time of its own threads.
    pub(crate) own: Duration,
    /// CPU time of the children that it has waited for, and theirs.
    pub(crate) waited: Duration,
    pub(crate) memory_bytes: u64,
    /// It wants a CPU now.
    pub(crate) wants: bool,
}

/// A process for as long as the machine runs: numbers come again, but not at the same time, in clock ticks since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    pub(crate) since: u64,
}

/// The tree as it is now: what it uses, and has used in processes that were waited for, and who is in it. Memory that several
/// share counts once where the sum is above `enough`: exact numbers take time.
pub(crate) fn look(root: u32, enough: u64) -> (Usage, Vec<Process>) {
    let members = members(root);
    // The first process, the one that runs, and no other: then nothing in the sandbox keeps it waiting for the kernel.
    let is_alone = members.len() <= 2;
    let processes: Vec<Process> = members.iter().filter_map(|pid| process(*pid, is_alone)).collect();
    let mut sum = Usage::default();
    for one in &processes {
        sum.cpu += one.own + one.waited;
        sum.memory_bytes += one.memory_bytes;
    }
    if sum.memory_bytes > enough
        && let Some(shared) = members.iter().map(|pid| proportional(*pid)).sum::<Option<u64>>()
    {
        sum.memory_bytes = shared;
    }
    (sum, processes)
}

fn process(pid: u32, is_alone: bool) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let read = of_process(pid, &stat)?;
    // Clock ticks are too long for a process that lives for a few of them.
    let first_thread = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok();
    let exact = first_thread.and_then(|text| text.split_whitespace().next()?.parse().ok());
    Some(Process {
        own: read.own.max(Duration::from_nanos(exact.unwrap_or_default())),
        wants: threads_want(pid, &stat, is_alone),
        ..read
    })
}

/// Whether a thread of a process runs or waits for a CPU, or for a disk where nothing but the host can be why.
fn threads_want(pid: u32, stat: &str, is_alone: bool) -> bool {
    if field(stat, 20).is_some_and(|threads| threads == "1") {
        return match field(stat, 3) {
            Some("R") => true,
            Some("D") => is_alone,
            _ => false,
        };
    }
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    stats.into_iter().any(|stat| field(&stat, 3) == Some("R"))
}

/// A field of `/proc/PID/stat`, by its number in the manual.
fn field(stat: &str, number: usize) -> Option<&str> {
    // The name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(number - 3)
}

/// What its line says; whether it wants a CPU is not looked at.
fn of_process(pid: u32, stat: &str) -> Option<Process> {
    let field = |number: usize| field(stat, number)?.parse::<u64>().ok();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let time = |ticks: u64| Duration::from_millis(ticks * 1000 / per_second);
    Some(Process {
        id: Identity { pid, since: field(22)? },
        own: time(field(14)? + field(15)?),
        waited: time(field(16)? + field(17)?),
        memory_bytes: field(24)? * rustix::param::page_size() as u64,
        wants: false,
    })
}

/// A process's share of the memory that it has; nothing of one that has just ended.
fn proportional(pid: u32) -> Option<u64> {
    match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
        Ok(text) => proportional_of(&text).or(Some(0)),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        Err(_) => Some(0),
    }
}

fn proportional_of(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Files and folders in a sandbox's file systems that can be written.
pub(crate) fn files(root: u32) -> u64 {
    let inside = PathBuf::from(format!("/proc/{root}/root"));
    let used = |path: &Path| rustix::fs::statvfs(path).map_or(0, |stat| stat.f_files - stat.f_ffree);
    used(&inside.join("tmp")) + used(&inside.join("dev/shm"))
}

/// How many processes the host has killed for want of memory since it started.
pub(crate) fn killed_for_memory() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let per_second = rustix::param::clock_ticks_per_second();
        let page = rustix::param::page_size() as u64;
        let stat = format!("7 (a) S 9 (b)) S 1 7 7 0 -1 0 0 0 0 0 {per_second} 0 {per_second} 0 20 0 1 0 5 1000 3 0");
        let expected = Process {
            id: Identity { pid: 7, since: 5 },
            own: Duration::from_secs(1),
            waited: Duration::from_secs(1),
            memory_bytes: 3 * page,
            wants: false,
        };
        assert_eq!(of_process(7, &stat), Some(expected));
        assert_eq!(of_process(7, "7 (a) S 1"), None);
        assert_eq!(of_process(7, ""), None);
    }

    #[test]
    fn what_sleeps_wants_no_cpu() {
        let stat = |state: &str| format!("7 (a) R) {state} 1 7 7 0 -1 0 0 0 0 0 1 0 1 0 20 0 1 0 5 1000 3 0");
        for (state, is_alone, wants) in [
            ("R", true, true),
            ("R", false, true),
            ("S", true, false),
            ("T", true, false),
            ("D", true, true),
            // Who waits for a child that it made in its own memory is shown like who waits for a disk.
            ("D", false, false),
        ] {
            assert_eq!(threads_want(7, &stat(state), is_alone), wants, "{state} {is_alone}");
        }
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let seen = (0..1000).any(|_| {
            std::thread::yield_now();
            look(child.id(), u64::MAX).1.iter().all(|one| !one.wants)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen, "it never slept");
    }

    #[test]
    fn a_share_of_memory_is_in_kibibytes() {
        assert_eq!(
            proportional_of("55-56 ---p 0 00:00 0 [rollup]\nRss:  10 kB\nPss:   3 kB\nPss_Dirty: 9 kB"),
            Some(3072)
        );
        assert_eq!(proportional_of(""), None);
    }

    #[test]
    fn this_process_uses_memory_and_is_a_member_of_its_tree() {
        let own = std::process::id();
        assert_eq!(members(own).first(), Some(&own));
        assert!(look(own, u64::MAX).0.memory_bytes > 0);
        let (usage, processes) = look(own, 0);
        assert!(usage.memory_bytes > 0 && usage.cpu > Duration::ZERO);
        let this = processes.iter().find(|one| one.id.pid == own).unwrap();
        assert!(this.wants, "it runs, for it looks");
    }
}
