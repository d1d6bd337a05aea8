//! One process in a sandbox of its own, from start to end.

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinHandle;

use crate::bubblewrap::{self, ENVIRONMENT, FILTER};
use crate::channel::{Channel, Received};
use crate::host::{Host, Role};
use crate::tree::{self, Usage};
use crate::value::Value;
use crate::watch::Watch;
use crate::{Fault, Limits};

/// From the start to the first word of an interpreter, on a host that is busy with as many others.
const STARTING: Duration = Duration::from_secs(30);

/// How long a process that has closed its channel may take to end by itself.
const LEAVING: Duration = Duration::from_secs(2);

/// Bytes of what a process prints to its standard error that are kept.
const KEPT: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Confined {
    pub(crate) channel: Channel,
    pub(crate) watch: Watch,
    child: Owned,
    printed: Printed,
    killed_before: u64,
}

/// How a sandbox ended.
#[derive(Debug)]
pub(crate) struct End {
    /// Of bubblewrap, which ends as the guest does, with 128 and the signal where one ended it.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) printed: String,
    pub(crate) most: Usage,
    /// For how long it wanted a CPU and had none.
    pub(crate) starved: Duration,
    pub(crate) was_killed_for_memory: bool,
    /// The host killed something for want of memory meanwhile.
    pub(crate) is_host_short_of_memory: bool,
}

impl Confined {
    /// Starts a role with its job, up to the point where it is confined and the guest's turn comes.
    pub(crate) async fn start(
        host: &Host,
        role: Role,
        limits: &Limits,
        job: Vec<(&str, Value)>,
    ) -> Result<Self, Fault> {
        let mut confined = Self::waiting(host, role, limits).await?;
        let common = [
            ("packages", Value::texts(&host.packages)),
            ("landlock", Value::Bool(host.has_landlock)),
            ("limits", limits.of_process()),
        ];
        confined
            .channel
            .send(&Value::dict(common.into_iter().chain(job)).encoded())
            .await;
        if role == Role::Probe {
            return Ok(confined);
        }
        let started = tokio::time::timeout(STARTING, confined.channel.receive()).await;
        match started {
            Ok(Received::Frame(frame)) if frame == b"S" => Ok(confined),
            Ok(_) => Err(confined.failed("the launcher did not confine itself").await),
            Err(_) => Err(confined.failed("the launcher took too long").await),
        }
    }

    /// Starts a role up to where it waits for its job: it has read nothing yet, so it can be put under watch first.
    async fn waiting(host: &Host, role: Role, limits: &Limits) -> Result<Self, Fault> {
        let killed_before = tree::killed_for_memory();
        let mut child = Owned(command(host, role, limits)?.spawn().map_err(set_up)?);
        let (Some(sink), Some(source), Some(printed)) =
            (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take())
        else {
            return Err(Fault::SetUp("the sandbox has no channel".to_owned()));
        };
        let mut channel = Channel::new(sink, source, limits.output_bytes);
        let printed = Printed::of(printed);
        let first = tokio::time::timeout(STARTING, channel.receive()).await;
        if first != Ok(Received::Frame(b"R".to_vec())) {
            child.kill_all();
            let status = child.0.wait().await.map_err(set_up)?;
            let printed = printed.whole().await;
            return Err(Fault::SetUp(format!("it did not start ({status}): {}", printed.trim())));
        }
        let root = child.0.id().and_then(|pid| tree::children(pid).first().copied());
        let root = root.ok_or_else(|| Fault::SetUp("the sandbox has no first process".to_owned()))?;
        let group = host
            .cgroups
            .as_ref()
            .map(|groups| groups.make(limits))
            .transpose()
            .map_err(set_up)?;
        if let Some(group) = &group {
            group.take(&tree::members(root)).map_err(set_up)?;
        }
        Ok(Self {
            channel,
            watch: Watch::new(root, group, *limits).map_err(set_up)?,
            child,
            printed,
            killed_before,
        })
    }

    async fn failed(self, what: &str) -> Fault {
        let end = self.end(true).await;
        match end {
            Ok(end) => Fault::SetUp(format!("{what}: {}", end.printed.trim())),
            Err(fault) => fault,
        }
    }

    /// Waits until the guest has ended by itself.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn left(child: &mut Child) {
        if let Err(error) = child.wait().await {
            tracing::warn!(%error, "a sandbox could not be waited for");
        }
    }

    /// The parts that a run waits for at once.
    pub(crate) const fn parts(&mut self) -> (&mut Channel, &Watch, &mut Child) {
        (&mut self.channel, &self.watch, &mut self.child.0)
    }

    /// Ends the sandbox and everything in it, at once or after some time to end by itself.
    ///
    /// # Errors
    /// [`Fault::Host`] when something could not be killed.
    pub(crate) async fn end(mut self, at_once: bool) -> Result<End, Fault> {
        let status = if at_once {
            None
        } else {
            tokio::time::timeout(LEAVING, self.child.0.wait())
                .await
                .ok()
                .and_then(Result::ok)
        };
        let (most, starved) = self.watch.most();
        let was_killed_for_memory = self
            .watch
            .group
            .as_ref()
            .is_some_and(crate::cgroup::Group::was_killed_for_memory);
        if !self.watch.kill().await {
            return Err(Fault::Host("the kernel does not end what was killed".to_owned()));
        }
        if status.is_none() {
            // It ends with its guest; killed, for all to be over whatever it waits for.
            self.child
                .0
                .kill()
                .await
                .map_err(|error| Fault::Host(error.to_string()))?;
        }
        Ok(End {
            status,
            printed: self.printed.whole().await,
            most,
            starved,
            was_killed_for_memory,
            is_host_short_of_memory: tree::killed_for_memory() > self.killed_before,
        })
    }
}

/// Bubblewrap, and what it has started so far. Until it is told to go on, which is when bubblewrap has set its names up, its
/// first process waits for bubblewrap alone and would outlive it; both are of one process group, and are killed at once.
#[derive(Debug)]
struct Owned(Child);

impl Owned {
    /// Kills bubblewrap and, while that sets the sandbox up, what it has started.
    fn kill_all(&self) {
        // A process that was not waited for keeps its number, and so the group's.
        let group = self
            .0
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw);
        if let Some(group) = group
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::trace!(%error, "a sandbox had ended");
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.kill_all();
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err wants")]
fn set_up(error: std::io::Error) -> Fault {
    Fault::SetUp(error.to_string())
}

fn command(host: &Host, role: Role, limits: &Limits) -> Result<Command, Fault> {
    let filter = FdMapping {
        parent_fd: host.filter().map_err(set_up)?.into(),
        child_fd: FILTER,
    };
    let mut command = Command::new(&host.bubblewrap);
    command
        .args(bubblewrap::arguments(host, role, limits))
        .env_clear()
        .envs(ENVIRONMENT)
        .current_dir("/")
        // What is sent to the grader's group, as by a terminal, is for the grader: its sandboxes end with what they run.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(user) = host.user {
        command.uid(user).gid(user);
    }
    command
        .fd_mappings(vec![filter])
        .map_err(|error| Fault::SetUp(error.to_string()))?;
    Ok(command)
}

/// What a process prints, read to its end so that it never waits for us, and kept up to a bound.
#[derive(Debug)]
struct Printed {
    kept: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

impl Printed {
    fn of(mut source: ChildStderr) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&kept);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; 16 << 10];
            while let Ok(size @ 1..) = source.read(&mut buffer).await {
                let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                let room = KEPT.saturating_sub(kept.len()).min(size);
                kept.extend(buffer.iter().take(room));
            }
        });
        Self { kept, reading }
    }

    /// All that is kept, once nobody can print any more.
    async fn whole(mut self) -> String {
        // All who could have it open are gone.
        if tokio::time::timeout(LEAVING, &mut self.reading).await.is_err() {
            tracing::warn!("what a sandbox printed did not end with it");
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

impl Drop for Printed {
    fn drop(&mut self) {
        self.reading.abort();
    }
}
