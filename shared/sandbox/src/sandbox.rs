//! The sandbox as its users have it: opened once, then any number of runs, a bounded number at a time.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::bubblewrap::NOBODY;
use crate::host::Host;
use crate::probe::{Seen, probe};
use crate::selftest::self_test;
use crate::{Check, Command, Fault, Level, Limits, Ran, Unavailable, Verdict, check, command};

/// What a sandbox is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The program `bwrap`; found where systems have it unless it is given.
    pub bubblewrap: Option<PathBuf>,
    /// The Python interpreter of guests and tests; `/usr/bin/python3` before others unless it is given.
    pub python: Option<PathBuf>,
    /// The weakest level that will do.
    pub level: Level,
    /// Runs at a time; as many as the host has cores unless it is given. More make CPU limits unfair to programs.
    pub concurrency: Option<usize>,
    /// Folders beside the interpreter's and /usr that guests may read.
    pub readable: Vec<PathBuf>,
    /// A delegated control group (version 2) for the runs.
    pub cgroup: Option<PathBuf>,
    /// As a superuser: the user to become before anything else, for a superuser's processes have no limits.
    pub user: u32,
    /// The limits of the self-test.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bubblewrap: None,
            python: None,
            level: Level::Namespaces,
            concurrency: None,
            readable: Vec::new(),
            cgroup: None,
            user: NOBODY,
            limits: Limits::default(),
        }
    }
}

/// Runs untrusted programs. A clone is the same sandbox.
#[derive(Debug, Clone)]
pub struct Sandbox {
    host: Arc<Host>,
    places: Arc<Semaphore>,
    concurrency: usize,
    level: Level,
    seen: Seen,
}

impl Sandbox {
    /// Looks what the host offers, and tries it: the sandbox is looked at from inside, and runs programs that are known.
    ///
    /// # Errors
    /// Says what is missing and what to do about it. Without a sandbox nothing untrusted runs.
    pub async fn open(settings: &Settings) -> Result<Self, Unavailable> {
        let sandbox = Self::looked_at(settings).await?;
        self_test(&sandbox.host, &settings.limits, sandbox.concurrency).await?;
        Ok(sandbox)
    }

    /// Looks what the host offers and says it in words, without the programs that are known: a tenth of a second.
    ///
    /// # Errors
    /// As [`Sandbox::open`].
    pub async fn describe(settings: &Settings) -> Result<String, Unavailable> {
        Self::looked_at(settings).await.map(|sandbox| sandbox.to_string())
    }

    async fn looked_at(settings: &Settings) -> Result<Self, Unavailable> {
        let mut host = Host::find(settings).await?;
        let seen = probe(&host, &settings.limits).await?;
        host.has_landlock = seen.landlock > 0;
        let level = level(&host);
        if level < settings.level {
            let reason = format!("the level {} is asked for and this host offers {level}", settings.level);
            return Err(Unavailable::new(reason, remedy(settings.level)));
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let concurrency = settings.concurrency.unwrap_or(cores).max(1);
        Ok(Self {
            host: Arc::new(host),
            places: Arc::new(Semaphore::new(concurrency)),
            concurrency,
            level,
            seen,
        })
    }

    /// How well it contains.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Runs at a time.
    #[must_use]
    pub const fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// Runs a program's tests.
    ///
    /// # Errors
    /// A [`Fault`] says nothing of the program.
    ///
    /// # Cancel safety
    /// The run ends and leaves nothing behind.
    pub async fn check(&self, check: &Check, limits: &Limits) -> Result<Verdict, Fault> {
        let _place = self.place().await?;
        check::check(&self.host, check, limits).await
    }

    /// Runs a command.
    ///
    /// # Errors
    /// A [`Fault`] says nothing of the command.
    ///
    /// # Cancel safety
    /// The run ends and leaves nothing behind.
    pub async fn run(&self, command: &Command, limits: &Limits) -> Result<Ran, Fault> {
        let _place = self.place().await?;
        command::run(&self.host, command, limits).await
    }

    async fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Fault> {
        let place = self.places.acquire().await;
        place.map_err(|error| Fault::Host(error.to_string()))
    }
}

/// What it is made of, for people.
impl fmt::Display for Sandbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { python, landlock } = &self.seen;
        write!(formatter, "level {}: bubblewrap, seccomp", self.level)?;
        if *landlock > 0 {
            write!(formatter, ", Landlock {landlock}")?;
        }
        if self.host.cgroups.is_some() {
            formatter.write_str(", control groups")?;
        }
        write!(formatter, "; Python {python}, {} at a time", self.concurrency)
    }
}

const fn level(host: &Host) -> Level {
    match (host.has_landlock, host.cgroups.is_some()) {
        (true, true) => Level::Cgroup,
        (true, false) => Level::Landlock,
        (false, _) => Level::Namespaces,
    }
}

const fn remedy(level: Level) -> &'static str {
    match level {
        Level::Namespaces | Level::Landlock => {
            "use a kernel with Landlock (5.13 or newer, `landlock` among the boot parameter lsm=), or ask for a weaker level by \
             sandbox.level"
        }
        Level::Cgroup => {
            "give a delegated control group by sandbox.cgroup on a kernel with Landlock, or ask for a weaker level"
        }
    }
}
