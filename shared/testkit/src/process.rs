//! Programs of ours as processes that a test can read, signal and kill.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::small_disk::SmallDisk;
use crate::watchdog::Watchdog;

/// Names the `tidemill` program to test, in place of the one that cargo built beside the running test or program.
pub const PROGRAM_VARIABLE: &str = "TIDEMILL_BIN";

const POLL: Duration = Duration::from_millis(5);
/// How long output may still arrive after a process has ended; longer only if a child of it keeps the pipe open.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);
const SHOWN_LINES: usize = 40;

/// A process that has not been started yet.
#[derive(Debug)]
pub struct Launch {
    command: Command,
    log: Option<PathBuf>,
}

/// A running or ended process; killed when dropped, and when the test process ends in whatever way.
#[derive(Debug)]
pub struct Service {
    name: String,
    child: Child,
    ended: Option<ExitStatus>,
    watchdog: Option<Watchdog>,
    stdout: Arc<Capture>,
    stderr: Arc<Capture>,
}

impl Service {
    /// Prepares the `tidemill` program: the one `TIDEMILL_BIN` names, else the one in the profile folder of the running test.
    ///
    /// # Errors
    /// When neither is there.
    pub fn tidemill() -> Result<Launch> {
        Ok(Self::program(tidemill_program()?))
    }

    /// Prepares the `tidemill` program inside a small disk, which it then sees.
    ///
    /// # Errors
    /// As [`tidemill`](Self::tidemill).
    pub fn tidemill_inside(disk: &SmallDisk) -> Result<Launch> {
        Ok(Launch {
            command: disk.command(tidemill_program()?),
            log: None,
        })
    }

    /// Prepares any program.
    #[must_use]
    pub fn program(program: impl AsRef<OsStr>) -> Launch {
        Launch {
            command: Command::new(program),
            log: None,
        }
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Lines of standard error so far.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.stderr.lines()
    }

    /// Standard output so far, as whole lines.
    #[must_use]
    pub fn output(&self) -> String {
        self.stdout
            .lines()
            .iter()
            .flat_map(|line| [line.as_str(), "\n"])
            .collect()
    }

    /// Waits for a line of standard error that holds `part`, and returns it; lines already written count.
    ///
    /// # Errors
    /// When none came within `timeout`, or the process ended without one; both show the last lines.
    pub fn wait_for_line(&self, part: &str, timeout: Duration) -> Result<String> {
        self.await_line(&self.stderr, part, timeout)
    }

    /// Waits for a line of standard output that holds `part`, and returns it; lines already written count.
    ///
    /// # Errors
    /// As [`wait_for_line`](Self::wait_for_line).
    pub fn wait_for_output(&self, part: &str, timeout: Duration) -> Result<String> {
        self.await_line(&self.stdout, part, timeout)
    }

    fn await_line(&self, capture: &Capture, part: &str, timeout: Duration) -> Result<String> {
        let (found, ended) = capture.wait_for(part, Instant::now() + timeout);
        found.with_context(|| {
            let why = if ended {
                "ended its output".to_owned()
            } else {
                format!("ran for {timeout:?}")
            };
            format!(
                "{} {why} without a line holding {part:?}; the end of its log:\n{}",
                self.name,
                self.tail()
            )
        })
    }

    /// Sends a signal; a process that has ended gets none.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.poll()?.is_none() {
            kill_process(Pid::from_child(&self.child), signal)
                .with_context(|| format!("failed to signal {}", self.name))?;
        }
        Ok(())
    }

    /// Asks the process to end (SIGTERM).
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn terminate(&mut self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Kills the process (SIGKILL) and waits until it is gone. One that has ended already is left as it is.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn kill9(&mut self) -> Result<()> {
        if self.poll()?.is_none() {
            self.watchdog = None;
            self.child
                .kill()
                .with_context(|| format!("failed to kill {}", self.name))?;
            self.ended = Some(self.child.wait()?);
        }
        Ok(())
    }

    /// Waits for the process to end by itself, and for the rest of its output.
    ///
    /// # Errors
    /// When it has not ended within `timeout`; the end of its log is shown, and it goes on running.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.poll()? {
                let grace = Instant::now() + OUTPUT_GRACE;
                self.stdout.wait_for_end(grace);
                self.stderr.wait_for_end(grace);
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!(
                    "{} did not end within {timeout:?}; the end of its log:\n{}",
                    self.name,
                    self.tail()
                );
            }
            thread::sleep(POLL);
        }
    }

    /// The exit status if the process has ended.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
            if self.ended.is_some() {
                self.watchdog = None;
            }
        }
        Ok(self.ended)
    }

    fn tail(&self) -> String {
        let lines = self.log();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let killed = self.kill9();
        debug_assert!(killed.is_ok(), "{killed:?}");
    }
}

impl Launch {
    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Takes an environment variable away.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Sets the folder the process starts in.
    #[must_use]
    pub fn current_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Writes standard error to a file too, for reading after the test.
    #[must_use]
    pub fn log_to(mut self, file: impl Into<PathBuf>) -> Self {
        self.log = Some(file.into());
        self
    }

    /// Starts the process, its standard input empty.
    ///
    /// # Errors
    /// When the program cannot be started or the log file cannot be made.
    pub fn spawn(mut self) -> Result<Service> {
        let program = PathBuf::from(self.command.get_program());
        let log = self
            .log
            .as_deref()
            .map(File::create)
            .transpose()
            .context("failed to make the log file")?;
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start {}", program.display()))?;
        let watchdog = Watchdog::over(child.id()).context("failed to watch over the process")?;
        Ok(Service {
            name: program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            stdout: Capture::start(child.stdout.take(), None),
            stderr: Capture::start(child.stderr.take(), log),
            watchdog: Some(watchdog),
            ended: None,
            child,
        })
    }
}

fn tidemill_program() -> Result<PathBuf> {
    let program = match env::var_os(PROGRAM_VARIABLE) {
        Some(named) => PathBuf::from(named),
        None => built_beside_test("tidemill")?,
    };
    if !program.is_file() {
        bail!("{} is missing: build it with `cargo build --bins`", program.display());
    }
    Ok(program)
}

fn built_beside_test(name: &str) -> Result<PathBuf> {
    let test = env::current_exe().context("failed to find the running test")?;
    // A test lies one folder below the programs, a program among them.
    let folders = test.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    let found = folders.clone().find(|program| program.is_file());
    found
        .or_else(|| folders.last())
        .context("the running test is in no profile folder")
}

/// Lines read from a pipe by a thread of their own.
#[derive(Debug, Default)]
struct Capture {
    state: Mutex<Captured>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Captured {
    lines: Vec<String>,
    ended: bool,
}

impl Capture {
    fn start(pipe: Option<impl Read + Send + 'static>, log: Option<File>) -> Arc<Self> {
        let capture = Arc::new(Self::default());
        let reader = Arc::clone(&capture);
        thread::spawn(move || {
            if let Some(pipe) = pipe {
                reader.read(pipe, log);
            }
            reader.update(|captured| captured.ended = true);
        });
        capture
    }

    fn read(&self, pipe: impl Read, mut log: Option<File>) {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            // The log is a convenience: a full disk must not stop the process under test by blocking its pipe.
            log = log.filter(|file| { file }.write_all(&line).is_ok());
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
            self.update(|captured| captured.lines.push(text));
            line.clear();
        }
    }

    fn update(&self, change: impl FnOnce(&mut Captured)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn lines(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).lines.clone()
    }

    /// The first line that holds `part`, if it comes before `deadline` or the end; and whether the output has ended.
    fn wait_for(&self, part: &str, deadline: Instant) -> (Option<String>, bool) {
        let find = |captured: &Captured| captured.lines.iter().find(|line| line.contains(part)).cloned();
        self.wait_until(
            deadline,
            |captured| captured.ended || find(captured).is_some(),
            |captured| (find(captured), captured.ended),
        )
    }

    fn wait_for_end(&self, deadline: Instant) {
        self.wait_until(deadline, |captured| captured.ended, |_| ());
    }

    fn wait_until<T>(
        &self,
        deadline: Instant,
        done: impl Fn(&Captured) -> bool,
        look: impl FnOnce(&Captured) -> T,
    ) -> T {
        let left = deadline.saturating_duration_since(Instant::now());
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, left, |captured| !done(captured));
        look(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}
