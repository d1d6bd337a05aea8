//! A control group (version 2) for each run: the kernel bounds memory, swap and processes of the whole tree.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::tree::Usage;
use crate::{Limits, Unavailable};

const NEEDED: [&str; 2] = ["memory", "pids"];
const REMEDY: &str = "give sandbox.cgroup a folder of a control group (version 2) that is delegated to this service with the \
                      controllers memory and pids and holds no process, or leave it out";

/// A folder in which each run gets a group of its own.
#[derive(Debug)]
pub(crate) struct Cgroups {
    folder: PathBuf,
    made: AtomicU64,
}

impl Cgroups {
    /// Takes the folder if groups with limits can be made in it.
    pub(crate) fn open(folder: &Path) -> Result<Self, Unavailable> {
        let unusable = |why: String| Unavailable::new(format!("the control group {}: {why}", folder.display()), REMEDY);
        let controllers =
            fs::read_to_string(folder.join("cgroup.controllers")).map_err(|error| unusable(error.to_string()))?;
        let has = |wanted: &&str| !controllers.split_whitespace().any(|name| name == *wanted);
        let missing: Vec<&str> = NEEDED.into_iter().filter(has).collect();
        if !missing.is_empty() {
            return Err(unusable(format!("has no controller {}", missing.join(" and "))));
        }
        fs::write(folder.join("cgroup.subtree_control"), "+memory +pids")
            .map_err(|error| unusable(format!("does not pass its controllers on: {error}")))?;
        let groups = Self {
            folder: folder.to_owned(),
            made: AtomicU64::new(0),
        };
        let tried = groups.make(&Limits::default());
        tried.map_err(|error| unusable(format!("takes no group with limits: {error}")))?;
        Ok(groups)
    }

    /// Makes a group with a run's limits.
    pub(crate) fn make(&self, limits: &Limits) -> io::Result<Group> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(format!("run-{}-{number}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Group { folder };
        group.set("memory.max", &limits.memory_bytes.to_string())?;
        group.set("memory.oom.group", "1")?;
        group.set("pids.max", &limits.processes.saturating_add(2).to_string())?;
        // Without swap the kernel does not have the file.
        match group.set("memory.swap.max", "0") {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(group),
        }
    }
}

/// One run's group; it goes when this does.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
}

impl Group {
    fn set(&self, file: &str, content: &str) -> io::Result<()> {
        fs::OpenOptions::new()
            .write(true)
            .open(self.folder.join(file))
            .and_then(|mut file| io::Write::write_all(&mut file, content.as_bytes()))
    }

    /// Takes processes in; what they start later is in as well.
    pub(crate) fn take(&self, pids: &[u32]) -> io::Result<()> {
        pids.iter()
            .try_for_each(|pid| self.set("cgroup.procs", &pid.to_string()))
    }

    pub(crate) fn usage(&self) -> Usage {
        let number = |file: &str, name: &str| number_in(&fs::read_to_string(self.folder.join(file)).ok()?, name);
        Usage {
            cpu: Duration::from_micros(number("cpu.stat", "usage_usec ").unwrap_or_default()),
            memory_bytes: number("memory.current", "").unwrap_or_default(),
        }
    }

    /// The kernel killed the group because it was over its memory.
    pub(crate) fn was_killed_for_memory(&self) -> bool {
        let events = fs::read_to_string(self.folder.join("memory.events")).unwrap_or_default();
        number_in(&events, "oom_kill ").is_some_and(|count| count > 0)
    }

    /// Kills all that is in the group.
    pub(crate) fn kill(&self) {
        if let Err(error) = self.set("cgroup.kill", "1") {
            tracing::debug!(%error, "a control group was not killed at once; its processes are, one by one");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "a control group stays behind");
        }
    }
}

fn number_in(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_the_controllers_is_refused_with_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let refused = Cgroups::open(folder.path()).unwrap_err();
        assert!(refused.reason.contains("No such file"), "{refused}");
        fs::write(folder.path().join("cgroup.controllers"), "cpu pids\n").unwrap();
        let refused = Cgroups::open(folder.path()).unwrap_err();
        assert!(refused.reason.ends_with("has no controller memory"), "{refused}");
    }

    /// A folder takes no limits: only the kernel's own has the files in each new group.
    #[test]
    fn a_folder_that_is_no_control_group_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        let refused = Cgroups::open(folder.path()).unwrap_err();
        assert!(refused.reason.contains("takes no group with limits"), "{refused}");
    }

    #[test]
    fn what_a_group_used_is_read_from_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("group");
        fs::create_dir(&path).unwrap();
        let group = Group { folder: path.clone() };
        fs::write(path.join("cpu.stat"), "usage_usec 1500000\nuser_usec 3\n").unwrap();
        fs::write(path.join("memory.current"), "4096\n").unwrap();
        fs::write(path.join("memory.events"), "max 9\noom 2\noom_kill 0\n").unwrap();
        let cpu = Duration::from_millis(1500);
        assert_eq!(
            group.usage(),
            Usage {
                cpu,
                memory_bytes: 4096
            }
        );
        assert!(!group.was_killed_for_memory());
        fs::write(path.join("memory.events"), "max 9\noom 2\noom_kill 1\n").unwrap();
        assert!(group.was_killed_for_memory());
        fs::write(path.join("cgroup.procs"), "").unwrap();
        group.take(&[7]).unwrap();
        assert_eq!(fs::read_to_string(path.join("cgroup.procs")).unwrap(), "7");
        fs::remove_dir_all(&path).unwrap();
        fs::create_dir(&path).unwrap();
        drop(group);
        assert!(!path.exists());
    }
}
