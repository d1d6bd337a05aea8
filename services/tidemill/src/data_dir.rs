//! The data directory: one owner at a time, and a note for others where its broker is.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

/// What `broker.json` says of a running broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    /// The broker's address.
    pub(crate) url: String,
    /// The process that owns it.
    pub(crate) pid: u32,
}

/// A data directory that this process owns until it ends.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// Held for its lock. The broker holds it too, so that no other one opens its store before it has closed it.
    lock: File,
}

/// Owned by this process, or by another one whose broker is at an address.
pub(crate) enum Claimed {
    Ours(DataDir),
    Theirs(Running),
}

const NOTE: &str = "broker.json";

/// How often, and in which steps, a directory is looked at whose owner cannot be told.
const LOOKS: u32 = 400;
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

/// Takes the directory, or tells who has it.
pub(crate) fn claim(path: &Path) -> anyhow::Result<Claimed> {
    std::fs::create_dir_all(path).with_context(|| format!("create data directory {}", path.display()))?;
    let path = path
        .canonicalize()
        .with_context(|| format!("data directory {}", path.display()))?;
    let file = path.join("lock");
    let mut lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&file)
        .with_context(|| format!("open {} (is the data directory writable?)", file.display()))?;
    for _ in 0..LOOKS {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => {
                if let Some(running) = read_note(&path).filter(|running| is_alive(running.pid)) {
                    return Ok(Claimed::Theirs(running));
                }
                // Its owner has just begun, or was killed and its broker is still closing the store.
                std::thread::sleep(LOOK_EVERY);
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("lock {}", file.display())),
            Ok(()) => return own(path, lock),
        }
    }
    let mut owner = String::new();
    lock.read_to_string(&mut owner)?;
    bail!(
        "data directory {} is in use by process {}, whose broker does not answer: wait for it or stop it",
        path.display(),
        owner.trim()
    )
}

fn own(path: PathBuf, mut lock: File) -> anyhow::Result<Claimed> {
    remove_note(&path)?;
    lock.set_len(0)?;
    lock.rewind()?;
    write!(lock, "{}", std::process::id())?;
    Ok(Claimed::Ours(DataDir { path, lock }))
}

/// A process that was killed and not yet collected by its parent answers signals and does nothing else: it is not alive.
fn is_alive(pid: u32) -> bool {
    let known = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| test_kill_process(pid).is_ok());
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status
        .rsplit(')')
        .next()
        .and_then(|fields| fields.trim_start().chars().next());
    known && !matches!(state, Some('Z' | 'X'))
}

fn read_note(path: &Path) -> Option<Running> {
    serde_json::from_slice(&std::fs::read(path.join(NOTE)).ok()?).ok()
}

fn remove_note(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path.join(NOTE)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context("remove the note of an earlier broker")
        }
        _ => Ok(()),
    }
}

impl DataDir {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The lock, for a child that must keep it until it ends.
    pub(crate) fn lock(&self) -> anyhow::Result<File> {
        self.lock.try_clone().context("share the data directory's lock")
    }

    /// Tells others where the broker is; written whole or not at all.
    pub(crate) fn note(&self, url: &str) -> anyhow::Result<()> {
        let running = Running {
            url: url.to_owned(),
            pid: std::process::id(),
        };
        let draft = self.path.join(format!("{NOTE}.{}", std::process::id()));
        std::fs::write(&draft, serde_json::to_vec(&running)?).context("write broker.json")?;
        std::fs::rename(&draft, self.path.join(NOTE)).context("write broker.json")
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // A note that stays is overwritten by the next owner.
        drop(remove_note(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_owner_is_told_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let Claimed::Ours(first) = claim(folder.path()).unwrap() else {
            panic!("free directory was refused")
        };
        first.note("nats://127.0.0.1:9").unwrap();
        let Claimed::Theirs(running) = claim(folder.path()).unwrap() else {
            panic!("taken twice")
        };
        assert_eq!(
            running,
            Running {
                url: "nats://127.0.0.1:9".to_owned(),
                pid: std::process::id()
            }
        );
        drop(first);
        assert!(matches!(claim(folder.path()).unwrap(), Claimed::Ours(_)));
    }
}
