//! What grades by something outside this process, and waits for it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_config::SandboxLevel;
use tidemill_domain::Item;
use tidemill_sandbox::{Fault, Level, Sandbox, Settings, Unavailable, Verdict};

use crate::Error;
use crate::answer::{Answer, Finding};
use crate::code::{self, Code, Task};
use crate::command::Commands;

/// How often a run is tried that says nothing of the program. A host that is busy for a moment is not for so long.
const TRIES: usize = 3;

/// How long it is remembered that there is no sandbox, before the host is looked at again.
const REMEMBERED: Duration = Duration::from_secs(30);

/// What a family that runs something gives at last.
pub(crate) type Judging<'a> = Pin<Box<dyn Future<Output = Result<Option<Finding>, Error>> + Send + 'a>>;

/// A family that asks something outside of this process.
///
/// Its rules, what to ask and what an answer means, are pure functions of their own.
pub(crate) trait Runner: fmt::Debug + Send + Sync {
    /// Kind and version. A change of what is accepted raises the version.
    fn name(&self) -> &'static str;

    /// Finds and judges the answer, with what this process has to run things; `None` where there is none.
    ///
    /// Fails with what is wrong with the item or outside, never with the answer.
    fn judge<'a>(&'a self, runners: &'a Runners, item: &'a Item, answer: &'a Answer<'a>) -> Judging<'a>;
}

/// What this process runs things with. It is set up when the first item asks for it.
#[derive(Debug, Default)]
pub struct Runners {
    settings: Settings,
    sandbox: tokio::sync::Mutex<Option<Sandbox>>,
    refused: Mutex<Option<(Instant, Unavailable)>>,
    pub(crate) commands: Commands,
}

impl Runners {
    /// With the sandbox that is configured.
    #[must_use]
    pub fn new(config: &tidemill_config::Sandbox) -> Self {
        Self {
            settings: settings(config),
            ..Self::default()
        }
    }

    /// With the sandbox and the programs that are configured.
    #[must_use]
    pub fn of(config: &tidemill_config::Grader) -> Self {
        Self {
            commands: Commands::new(config.commands.clone(), config.command_processes),
            ..Self::new(&config.sandbox)
        }
    }

    /// Says what the sandbox is made of, before it is opened.
    ///
    /// # Errors
    /// [`Error::Sandbox`] says what is missing and what to do.
    pub async fn sandbox_in_words(&self) -> Result<String, Error> {
        let described = Sandbox::describe(&self.settings).await;
        described.map_err(|refused| Error::Sandbox(refused.to_string()))
    }

    /// The sandbox, opened unless it is; who comes meanwhile waits.
    async fn sandbox(&self) -> Result<Sandbox, Error> {
        let mut kept = self.sandbox.lock().await;
        if let Some(sandbox) = &*kept {
            return Ok(sandbox.clone());
        }
        if let Some(refused) = self.refused_lately() {
            return Err(Error::Sandbox(refused.to_string()));
        }
        match Sandbox::open(&self.settings).await {
            Ok(sandbox) => {
                tracing::info!(%sandbox, "programs run in a sandbox");
                *kept = Some(sandbox.clone());
                Ok(sandbox)
            }
            Err(refused) => {
                let Unavailable { reason, remedy } = &refused;
                tracing::warn!(reason, remedy, "no program is run, for want of a sandbox");
                let said = refused.to_string();
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), refused));
                Err(Error::Sandbox(said))
            }
        }
    }

    /// Has the host looked at again before the next run: what was there may be gone, as files in a folder that is tidied.
    async fn forget(&self) {
        tracing::warn!("a sandbox does not start any more and is opened anew");
        *self.sandbox.lock().await = None;
    }

    fn refused_lately(&self) -> Option<Unavailable> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, refused) = refused.as_ref()?;
        (at.elapsed() < REMEMBERED).then(|| refused.clone())
    }
}

fn settings(config: &tidemill_config::Sandbox) -> Settings {
    Settings {
        bubblewrap: config.bubblewrap.clone(),
        python: config.python.clone(),
        level: match config.level {
            SandboxLevel::Namespaces => Level::Namespaces,
            SandboxLevel::Landlock => Level::Landlock,
            SandboxLevel::Cgroup => Level::Cgroup,
        },
        concurrency: (config.concurrency > 0).then_some(config.concurrency as usize),
        readable: config.readable.clone(),
        cgroup: config.cgroup.clone(),
        user: config.user,
        ..Settings::default()
    }
}

impl Runner for Code {
    fn name(&self) -> &'static str {
        code::NAME
    }

    fn judge<'a>(&'a self, runners: &'a Runners, item: &'a Item, answer: &'a Answer<'a>) -> Judging<'a> {
        Box::pin(async move {
            let Some((task, finding)) = self.task(item, answer)? else {
                return Ok(None);
            };
            let sandbox = runners.sandbox().await?;
            let ran = self.run(&sandbox, &task).await;
            if matches!(ran, Err(Fault::SetUp(_))) {
                runners.forget().await;
            }
            let verdict = ran.map_err(|fault| Error::Run(fault.to_string()))?;
            Ok(Some(code::judged(finding, &verdict, sandbox.level().label())))
        })
    }
}

impl Code {
    /// Runs a task until it tells something of the program, or has had its tries.
    async fn run(&self, sandbox: &Sandbox, task: &Task) -> Result<Verdict, Fault> {
        let mut tries = 1;
        loop {
            match self.run_once(sandbox, task).await {
                Err(fault) if fault.is_retryable() && tries < TRIES => {
                    tracing::debug!(%fault, tries, "a run in the sandbox told nothing and is tried again");
                    tries += 1;
                }
                ended => return ended,
            }
        }
    }

    async fn run_once(&self, sandbox: &Sandbox, task: &Task) -> Result<Verdict, Fault> {
        let limits = self.limits();
        match task {
            Task::Check(check) => sandbox.check(check, &limits).await,
            Task::Command(command, expected) => Ok(sandbox.run(command, &limits).await?.compared(expected)),
        }
    }
}
