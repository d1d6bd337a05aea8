//! A broker of our own: nats-server as a child, in the data directory, on a free loopback port.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use tidemill_config::SyncInterval;
use tidemill_service::backoff::Backoff;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::arguments::ExecWithParent;
use crate::data_dir::DataDir;
use crate::{output, session};

/// Most bytes of all streams together; the declared limits are far below.
const MAX_STORE_GIB: u32 = 32;

/// How long the server may take to listen. Replaying a large store takes seconds.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks into its log while it starts.
const LOOK_AT_LOG_EVERY: Duration = Duration::from_millis(500);

/// How long it may take to stop before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A running broker that is started again when it dies and stops with this process.
pub(crate) struct OwnBroker {
    url: String,
    stop: CancellationToken,
    keeper: tokio::task::JoinHandle<()>,
    _data_dir: DataDir,
}

impl OwnBroker {
    /// Starts the broker and waits until it listens.
    pub(crate) async fn start(data_dir: DataDir, sync: SyncInterval) -> anyhow::Result<Self> {
        let server = find_server()?;
        let launcher = Launcher {
            server,
            lock: data_dir.lock()?,
            folder: data_dir.path().to_owned(),
            sync,
        };
        let (child, port) = launcher.launch(None).await?;
        let url = format!("nats://127.0.0.1:{port}");
        data_dir.note(&url)?;
        let stop = CancellationToken::new();
        let keeper = tokio::spawn(keep(launcher, port, child, stop.clone()));
        Ok(Self {
            url,
            stop,
            keeper,
            _data_dir: data_dir,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Stops the broker and waits for its end.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.keeper.await {
            output::note(&format!("the broker's keeper died: {error}"));
        }
    }
}

async fn keep(launcher: Launcher, port: u16, mut child: Child, stop: CancellationToken) {
    let mut backoff = Backoff::standard();
    loop {
        tokio::select! {
            () = stop.cancelled() => return terminate(child).await,
            status = child.wait() => {
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                tracing::error!(status, log = %launcher.folder.join(LOG).display(), "the broker ended; starting it again");
            }
        }
        child = loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(backoff.next_pause()) => {}
            }
            match launcher.launch(Some(port)).await {
                Ok((child, _)) => break child,
                Err(error) => tracing::error!(error = format!("{error:#}"), "the broker does not start"),
            }
        };
    }
}

async fn terminate(mut child: Child) {
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id as i32))
        && let Err(error) = kill_process(pid, Signal::TERM)
    {
        tracing::debug!(%error, "the broker had ended");
    }
    if timeout(STOP_PATIENCE, child.wait()).await.is_err() {
        drop(child.kill().await);
    }
}

const LOG: &str = "broker.log";

/// The server's setting of how many threads work at once; one that is in the environment stays.
const SERVER_THREADS: &str = "GOMAXPROCS";

/// What it takes to start the server, for the first time or again.
struct Launcher {
    server: PathBuf,
    folder: PathBuf,
    lock: std::fs::File,
    sync: SyncInterval,
}

impl Launcher {
    async fn launch(&self, port: Option<u16>) -> anyhow::Result<(Child, u16)> {
        let ports = self.folder.join("broker-ports");
        std::fs::create_dir_all(&ports).with_context(|| format!("create {}", ports.display()))?;
        for entry in std::fs::read_dir(&ports)?.flatten() {
            std::fs::remove_file(entry.path()).with_context(|| format!("remove {}", entry.path().display()))?;
        }
        let configuration = self.folder.join("broker.conf");
        std::fs::write(
            &configuration,
            configuration_text(&self.folder, &ports, port, self.sync)?,
        )
        .context("write broker.conf")?;
        has_room(&ports).with_context(|| {
            format!(
                "the broker has no room in {}: make some, or name another --data-dir",
                self.folder.display()
            )
        })?;
        let log = self.folder.join(LOG);
        let log_size = std::fs::metadata(&log).map_or(0, |file| file.len());
        let mut child = self.spawn(&configuration)?;
        let begun = Instant::now();
        let mut look_at = LOOK_AT_LOG_EVERY;
        loop {
            if let Some(port) = listening(&ports) {
                return Ok((child, port));
            }
            if let Some(status) = child.try_wait()? {
                bail!(
                    "the broker ended at its start ({status}): {}",
                    last_words(&log, log_size)
                );
            }
            if begun.elapsed() >= look_at {
                look_at = begun.elapsed() + LOOK_AT_LOG_EVERY;
                if let Some(reason) = unwritten_ports(&log, log_size) {
                    terminate(child).await;
                    bail!("the broker cannot say where it listens: {reason}");
                }
            }
            if begun.elapsed() > START_PATIENCE {
                terminate(child).await;
                bail!(
                    "the broker does not listen after {START_PATIENCE:?}: see {}",
                    log.display()
                );
            }
            sleep(Duration::from_millis(3)).await;
        }
    }

    /// The child holds the data directory's lock as its standard input: until it has ended, nobody else opens its store.
    fn spawn(&self, configuration: &Path) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("find this program")?;
        let mut command = Command::new(program);
        command
            .args(["exec-with-parent", "--parent", &std::process::id().to_string(), "--"])
            .arg(&self.server)
            .arg("--config")
            .arg(configuration)
            .stdin(self.lock.try_clone().context("share the data directory's lock")?)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(threads) = session::threads(SERVER_THREADS) {
            command.env(SERVER_THREADS, threads.to_string());
        }
        tidemill_service::children::spawn(command).with_context(|| format!("start {}", self.server.display()))
    }
}

fn configuration_text(folder: &Path, ports: &Path, port: Option<u16>, sync: SyncInterval) -> anyhow::Result<String> {
    // JSON strings are valid in the server's configuration, whatever a path holds.
    let quote = |path: PathBuf| serde_json::to_string(&path).context("a path that is not UTF-8");
    Ok(format!(
        "server_name: tidemill\nhost: \"127.0.0.1\"\nport: {port}\nports_file_dir: {ports}\nlog_file: {log}\nlogfile_size_limit: 16MB\n\
         jetstream {{\n  store_dir: {store}\n  max_file_store: {MAX_STORE_GIB}GB\n  max_memory_store: 256MB\n  sync_interval: {sync}\n}}\n",
        port = port.map_or(-1, i32::from),
        ports = quote(ports.to_owned())?,
        log = quote(folder.join(LOG))?,
        store = quote(folder.join("broker"))?,
    ))
}

fn listening(ports: &Path) -> Option<u16> {
    let file = std::fs::read_dir(ports).ok()?.flatten().next()?;
    let ports: serde_json::Value = serde_json::from_slice(&std::fs::read(file.path()).ok()?).ok()?;
    ports["nats"][0].as_str()?.rsplit(':').next()?.parse().ok()
}

/// Whether there is room for what the server writes at its start. It says nothing, and listens, where it cannot write on which
/// port, and its log may be on the same disk.
fn has_room(folder: &Path) -> std::io::Result<()> {
    const START_BYTES: usize = 64 << 10;
    let probe = folder.with_extension("room");
    let written = std::fs::write(&probe, vec![1; START_BYTES]);
    let removed = std::fs::remove_file(&probe);
    written.and(removed)
}

/// Why the server could not write on which port it listens.
fn unwritten_ports(log: &Path, from: u64) -> Option<String> {
    let text = std::fs::read(log).ok()?;
    let text = String::from_utf8_lossy(text.get(from as usize..)?).into_owned();
    let line = text.lines().find(|line| line.contains("rror writing ports file"))?;
    Some(line.to_owned())
}

/// What the server wrote since it was started that looks like a reason.
fn last_words(log: &Path, from: u64) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(text.get(from as usize..).unwrap_or_default()).into_owned();
    let reasons: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("[FTL]") || line.contains("[ERR]"))
        .collect();
    let reason = reasons
        .last()
        .copied()
        .or_else(|| text.lines().last())
        .unwrap_or("it said nothing");
    format!("{reason} (log: {})", log.display())
}

/// The nats-server to run: named by `TIDEMILL_NATS_SERVER`, in `.tools/bin` above here or above this program, or on `PATH`.
pub(crate) fn find_server() -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os("TIDEMILL_NATS_SERVER") {
        let named = PathBuf::from(named);
        if named.is_file() {
            return Ok(named);
        }
        bail!("TIDEMILL_NATS_SERVER names {}, which is not a file", named.display());
    }
    let here = std::env::current_dir().ok();
    let program = std::env::current_exe().ok();
    let above = here
        .iter()
        .chain(&program)
        .flat_map(|path| path.ancestors())
        .map(|folder| folder.join(".tools/bin"));
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = above
        .chain(std::env::split_paths(&on_path))
        .map(|folder| folder.join("nats-server"));
    candidates.into_iter().find(|candidate| candidate.is_file()).context(
        "no nats-server found: run ops/get-nats-server (make build does), put one on PATH, or name a running broker with --nats",
    )
}

/// Asks the kernel to end this process when its parent ends, then becomes the given program.
pub(crate) fn exec_with_parent(args: &ExecWithParent) -> ExitCode {
    let failed = |reason: String| {
        output::note(&format!("tidemill exec-with-parent: {reason}"));
        ExitCode::from(2)
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::TERM)) {
        return failed(error.to_string());
    }
    // The parent may have ended before the kernel was asked.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() as u32 != args.parent) {
        return failed("the parent has ended".to_owned());
    }
    let Some((program, arguments)) = args.program.split_first() else {
        return failed("no program given".to_owned());
    };
    let error = std::process::Command::new(program).args(arguments).exec();
    failed(format!("run {program}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_room_and_a_port_that_is_not_written_are_told() {
        let folder = tempfile::tempdir().unwrap();
        assert!(has_room(&folder.path().join("broker-ports")).is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(has_room(&folder.path().join("missing").join("broker-ports")).is_err());

        let log = folder.path().join(LOG);
        let before = "[ERR] Error writing ports file (old): no space left\n";
        std::fs::write(&log, format!("{before}[INF] Server is ready\n")).unwrap();
        assert_eq!(unwritten_ports(&log, before.len() as u64), None);
        let line = "[ERR] Error writing ports file (/d/x.ports): no space left on device";
        std::fs::write(&log, format!("{before}{line}\n[INF] Server is ready\n")).unwrap();
        assert_eq!(unwritten_ports(&log, before.len() as u64).as_deref(), Some(line));
    }
}
