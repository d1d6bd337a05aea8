//! A real nats-server as a child of the test.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::port;
use crate::small_disk::SmallDisk;
use crate::watchdog::Watchdog;

/// Names the program to start, before any other place is searched.
pub const PROGRAM_VARIABLE: &str = "TIDEMILL_NATS_SERVER";

/// Recovery of a large store takes seconds; a test's store takes milliseconds, on a busy machine some hundred of them.
const START_DEADLINE: Duration = Duration::from_secs(20);
const STOP_DEADLINE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

/// A nats-server with JetStream on a loopback port, its store in a temporary folder.
///
/// Port and store stay the same over [`kill`](Self::kill) and [`restart`](Self::restart); both are gone once this is dropped. Methods block for
/// as long as the server takes, which is milliseconds.
#[derive(Debug)]
pub struct Broker {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    running: Option<Running>,
    // Last, so that the server ends before its disk.
    disk: Option<SmallDisk>,
}

#[derive(Debug)]
struct Running {
    // Before the child, so that it is called off before the child's process id can be given away.
    watchdog: Watchdog,
    child: Child,
}

impl Broker {
    /// Starts a server with default limits.
    ///
    /// # Errors
    /// When no nats-server is found, or it does not answer within 20 seconds.
    pub fn start() -> Result<Self> {
        Self::start_with("")
    }

    /// Starts a server with `settings`, in the syntax of its configuration file, added to ours.
    ///
    /// For limits: `Broker::start_with("max_payload: 64KB")`, or `"jetstream { max_file_store: 1MB }"`, which adds to our own section.
    ///
    /// # Errors
    /// As [`start`](Self::start); a setting the server refuses is shown in the error.
    pub fn start_with(settings: &str) -> Result<Self> {
        Self::started(None, settings)
    }

    /// Starts a server with its store on a small disk, which [`disk`](Self::disk) gives access to; it stays over restarts.
    ///
    /// # Errors
    /// As [`start_with`](Self::start_with).
    pub fn start_on(disk: SmallDisk, settings: &str) -> Result<Self> {
        Self::started(Some(disk), settings)
    }

    fn started(disk: Option<SmallDisk>, settings: &str) -> Result<Self> {
        let mut broker = Self::prepare(disk, settings)?;
        broker.restart()?;
        Ok(broker)
    }

    /// A server with its port, folder and configuration, not yet started.
    pub(crate) fn prepare(disk: Option<SmallDisk>, settings: &str) -> Result<Self> {
        let program = find_program()?;
        let folder = TempDir::with_prefix("tidemill-broker-").context("failed to make a folder for the broker")?;
        let port = port::listen()?.local_addr()?.port();
        let broker = Self {
            program,
            folder,
            port,
            running: None,
            disk,
        };
        broker.write_configuration(settings)?;
        Ok(broker)
    }

    /// The address clients connect to.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The loopback port, the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process id while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// The small disk that holds the store, where the server was started on one.
    #[must_use]
    pub fn disk(&self) -> Option<&SmallDisk> {
        self.disk.as_ref()
    }

    /// What the server has logged since it was first started.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Kills the server (SIGKILL), as a crash would. Does nothing when it is down.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn kill(&mut self) -> Result<()> {
        let Some(Running { watchdog, mut child }) = self.running.take() else {
            return Ok(());
        };
        drop(watchdog);
        child.kill().context("failed to kill the broker")?;
        child.wait().context("failed to reap the broker")?;
        Ok(())
    }

    /// Stops the server in good order (SIGTERM). Does nothing when it is down.
    ///
    /// # Errors
    /// When it has not ended within 10 seconds.
    pub fn stop(&mut self) -> Result<()> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        kill_process(Pid::from_child(&running.child), Signal::TERM).context("failed to signal the broker")?;
        let deadline = Instant::now() + STOP_DEADLINE;
        while running.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("the broker did not stop within {STOP_DEADLINE:?}");
            }
            thread::sleep(POLL);
        }
        self.running = None;
        Ok(())
    }

    /// Starts the server again with other settings, on the same port and store.
    ///
    /// # Errors
    /// As [`start_with`](Self::start_with).
    pub fn restart_with(&mut self, settings: &str) -> Result<()> {
        self.write_configuration(settings)?;
        self.restart()
    }

    /// Starts the server again on the same port and store, killing it first if it runs.
    ///
    /// # Errors
    /// When it does not answer within 20 seconds.
    pub fn restart(&mut self) -> Result<()> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// As [`restart`](Self::restart), without waiting for an answer.
    pub(crate) fn launch(&mut self) -> Result<()> {
        self.kill()?;
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_path())?;
        let mut command = match &self.disk {
            Some(disk) => disk.command(&self.program),
            None => Command::new(&self.program),
        };
        let child = command
            .arg("--config")
            .arg(self.configuration_path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("failed to start {}", self.program.display()))?;
        let watchdog = Watchdog::over(child.id()).context("failed to watch over the broker")?;
        self.running = Some(Running { watchdog, child });
        Ok(())
    }

    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_DEADLINE;
        while !greets(self.port) {
            let ended = match &mut self.running {
                Some(running) => running.child.try_wait()?,
                None => bail!("the broker is not running"),
            };
            if let Some(status) = ended {
                bail!("the broker ended with {status}; its log:\n{}", self.log());
            }
            if Instant::now() > deadline {
                bail!(
                    "the broker did not answer within {START_DEADLINE:?}; its log:\n{}",
                    self.log()
                );
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn write_configuration(&self, settings: &str) -> Result<()> {
        let folder = self.disk.as_ref().map_or(self.folder.path(), SmallDisk::path);
        let text = configuration(self.port, &folder.join("store"), settings);
        fs::write(self.configuration_path(), text).context("failed to write the broker's configuration")
    }

    fn configuration_path(&self) -> PathBuf {
        self.folder.path().join("nats.conf")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("nats.log")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let killed = self.kill();
        debug_assert!(killed.is_ok(), "{killed:?}");
    }
}

/// The server takes the last of several sections of one name whole, so that our own one goes into the given one.
fn configuration(port: u16, store: &Path, settings: &str) -> String {
    const SECTION: &str = "jetstream {";
    let (before, section) = settings.split_once(SECTION).unwrap_or((settings, "}"));
    // The server's own limit is a part of what the disk has left, which need not hold what all streams may take.
    let room = if section.contains("max_file_store") {
        ""
    } else {
        "max_file_store: 64GB\n"
    };
    format!(
        "host: 127.0.0.1\nport: {port}\n{before}\n{SECTION} store_dir: {:?}\n{room}{section}\n",
        store.display().to_string()
    )
}

/// Whether a NATS server greets on `port`: it does so once its streams are recovered.
fn greets(port: u16) -> bool {
    let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return false;
    };
    if stream.set_read_timeout(Some(Duration::from_secs(1))).is_err() {
        return false;
    }
    let mut greeting = String::new();
    BufReader::new(stream).read_line(&mut greeting).is_ok() && greeting.starts_with("INFO ")
}

fn find_program() -> Result<PathBuf> {
    let manifest =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let (named, path) = (env::var_os(PROGRAM_VARIABLE), env::var_os("PATH"));
    locate(named.as_deref(), &manifest, path.as_deref())
        .context("no nats-server found: run `ops/get-nats-server`, or name one in TIDEMILL_NATS_SERVER")
}

/// The program named outright, else the one in `.tools/bin` of `start` or a folder above it, else the first on `path`.
fn locate(named: Option<&OsStr>, start: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    if let Some(named) = named {
        return Some(PathBuf::from(named));
    }
    let above = start.ancestors().map(|folder| folder.join(".tools/bin"));
    let on_path = path.into_iter().flat_map(env::split_paths);
    above
        .chain(on_path)
        .map(|folder| folder.join("nats-server"))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_settings_of_the_store_leave_it_where_it_is() {
        let given = configuration(
            7,
            Path::new("/s"),
            "max_payload: 1KB\njetstream { max_file_store: 1MB }",
        );
        assert_eq!(
            given,
            "host: 127.0.0.1\nport: 7\nmax_payload: 1KB\n\njetstream { store_dir: \"/s\"\n max_file_store: 1MB }\n"
        );
        assert!(
            configuration(7, Path::new("/s"), "").ends_with("jetstream { store_dir: \"/s\"\nmax_file_store: 64GB\n}\n")
        );
    }

    #[test]
    fn a_named_program_comes_before_tools_and_tools_before_path() {
        let root = TempDir::new().unwrap();
        let crate_folder = root.path().join("shared/kit");
        let (tools, path) = (root.path().join(".tools/bin"), root.path().join("path"));
        for folder in [&crate_folder, &tools, &path] {
            fs::create_dir_all(folder).unwrap();
        }
        let path_variable = Some(path.as_os_str());
        assert_eq!(locate(None, &crate_folder, path_variable), None);
        fs::write(path.join("nats-server"), "").unwrap();
        assert_eq!(
            locate(None, &crate_folder, path_variable),
            Some(path.join("nats-server"))
        );
        fs::write(tools.join("nats-server"), "").unwrap();
        assert_eq!(
            locate(None, &crate_folder, path_variable),
            Some(tools.join("nats-server"))
        );
        assert_eq!(
            locate(Some(OsStr::new("/n")), &crate_folder, path_variable),
            Some(PathBuf::from("/n"))
        );
    }
}
