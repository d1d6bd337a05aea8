//! A disk that fills up: a tmpfs of a given size that only chosen processes see.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::watchdog::Watchdog;

/// Mounts the disk in its own mount namespace, says so, and keeps the namespace until it is killed.
const SCRIPT: &str = r#"mount -t tmpfs -o "size=$1" tmpfs "$2" && echo mounted && exec sleep 2147483647"#;

/// Ways to a mount namespace: without rights, as an ordinary user of a host that allows it, and as root.
const WAYS: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];

/// A small disk, seen by the processes that are started inside it and by no other; gone when dropped.
#[derive(Debug)]
pub struct SmallDisk {
    // Before the child, so that it is called off before the child's process id can be given away.
    watchdog: Option<Watchdog>,
    keeper: Child,
    is_user_namespace: bool,
    folder: TempDir,
}

impl SmallDisk {
    /// Makes a disk of `bytes`.
    ///
    /// # Errors
    /// When this host allows neither an unprivileged mount namespace nor, to this user, a real one; the error says what
    /// it answered. A test must then say loudly that it tried something else.
    pub fn new(bytes: u64) -> Result<Self> {
        let folder = TempDir::with_prefix("tidemill-disk-").context("failed to make a folder for the disk")?;
        let mut refusals = Vec::new();
        for way in WAYS {
            match mount(way, bytes, folder.path()) {
                Ok(keeper) => {
                    let watchdog = Watchdog::over(keeper.id()).context("failed to watch over the disk")?;
                    return Ok(Self {
                        watchdog: Some(watchdog),
                        keeper,
                        is_user_namespace: way.contains(&"--user"),
                        folder,
                    });
                }
                Err(refusal) => refusals.push(format!("unshare {}: {refusal:#}", way.join(" "))),
            }
        }
        bail!("no small disk on this host: {}", refusals.join("; "))
    }

    /// Where the disk is, for processes inside.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A command that runs `program` inside; arguments and environment may be added. Its process is the program itself.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.keeper.id().to_string(), "--mount"]);
        if self.is_user_namespace {
            command.args(["--user", "--preserve-credentials"]);
        }
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        command.arg(format!("--wd={}", here.display())).arg("--").arg(program);
        command
    }

    /// Gives the disk another size; what it holds stays.
    ///
    /// # Errors
    /// When it cannot be mounted anew.
    pub fn resize(&self, bytes: u64) -> Result<()> {
        let remounted = self
            .command("mount")
            .args(["-o", &format!("remount,size={bytes}")])
            .arg(self.path())
            .output()?;
        if !remounted.status.success() {
            bail!(
                "failed to resize the disk: {}",
                String::from_utf8_lossy(&remounted.stderr)
            );
        }
        Ok(())
    }

    /// Bytes that are free.
    ///
    /// # Errors
    /// When the disk cannot be asked.
    pub fn free(&self) -> Result<u64> {
        let asked = self
            .command("stat")
            .args(["--file-system", "--format=%a %S"])
            .arg(self.path())
            .output()?;
        let text = String::from_utf8_lossy(&asked.stdout).into_owned();
        let mut numbers = text.split_whitespace().filter_map(|number| number.parse::<u64>().ok());
        let (blocks, size) = (numbers.next(), numbers.next());
        blocks
            .zip(size)
            .map(|(blocks, size)| blocks * size)
            .context("failed to ask the disk")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.watchdog = None;
        let ended = self.keeper.kill().and_then(|()| self.keeper.wait());
        debug_assert!(ended.is_ok(), "{ended:?}");
    }
}

fn mount(way: &[&str], bytes: u64, folder: &Path) -> Result<Child> {
    let mut keeper = Command::new("unshare")
        .args(way)
        .args(["sh", "-c", SCRIPT, "disk", &bytes.to_string()])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("failed to start unshare")?;
    let mut said = String::new();
    if let Some(output) = keeper.stdout.take() {
        BufReader::new(output).read_line(&mut said)?;
    }
    if said.trim() == "mounted" {
        return Ok(keeper);
    }
    let refused = keeper.wait_with_output()?;
    bail!("{}", String::from_utf8_lossy(&refused.stderr).trim().to_owned())
}
