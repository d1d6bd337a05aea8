//! The brokers that are measured, and the program that is.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tidemill_testkit::process::{Launch, PROGRAM_VARIABLE};
use tidemill_testkit::{Broker, Cluster, Service};

use crate::{PATIENCE, usage};

/// How many servers keep each message, and when their disks must have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// One server.
    R1,
    /// One server that syncs its disk before each acknowledgement.
    R1Always,
    /// Three servers.
    R3,
    /// Three servers that sync their disks before each acknowledgement.
    R3Always,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::R1 => "R1",
            Self::R1Always => "R1 sync always",
            Self::R3 => "R3",
            Self::R3Always => "R3 sync always",
        })
    }
}

enum Running {
    One(Broker),
    Three(Cluster),
}

/// Brokers with Tidemill's streams.
pub(crate) struct Servers {
    running: Running,
    pub(crate) folder: TempDir,
    replicas: &'static str,
}

impl Servers {
    /// Starts them with empty stores and applies the streams.
    pub(crate) fn start(kind: Kind) -> Result<Self> {
        let settings = match kind {
            Kind::R1 | Kind::R3 => "",
            Kind::R1Always | Kind::R3Always => "jetstream { sync_interval: always }",
        };
        let (running, replicas) = match kind {
            Kind::R1 | Kind::R1Always => (Running::One(Broker::start_with(settings)?), "1"),
            Kind::R3 | Kind::R3Always => (Running::Three(Cluster::start_with(3, settings)?), "3"),
        };
        let folder = TempDir::with_prefix("tidemill-bench-")?;
        let servers = Self {
            running,
            folder,
            replicas,
        };
        let mut applying = servers.tidemill()?.args(["streams", "apply"]).spawn()?;
        let ended = applying.wait(PATIENCE)?;
        ensure!(ended.success(), "streams apply: {:?}", applying.log());
        if let Running::Three(cluster) = &servers.running {
            cluster.wait_until_in_sync()?;
        }
        Ok(servers)
    }

    pub(crate) fn url(&self) -> String {
        match &self.running {
            Running::One(broker) => broker.url(),
            Running::Three(cluster) => cluster.url(),
        }
    }

    /// The program that `TIDEMILL_BIN` names, else the one that was built with this one, at these brokers.
    pub(crate) fn tidemill(&self) -> Result<Launch> {
        let program = match std::env::var_os(PROGRAM_VARIABLE) {
            Some(named) => PathBuf::from(named),
            None => std::env::current_exe()?.with_file_name("tidemill"),
        };
        ensure!(program.is_file(), "{} is missing: build it first", program.display());
        Ok(Service::program(program)
            .env("NATS_URL", self.url())
            .env("TIDEMILL_DATA_DIR", self.folder.path().join("data"))
            .env("TIDEMILL_BROKER__REPLICAS", self.replicas))
    }

    /// CPU seconds that they have used since they were started.
    pub(crate) fn cpu(&self) -> f64 {
        let pids = match &self.running {
            Running::One(broker) => broker.pid().into_iter().collect(),
            Running::Three(cluster) => cluster.pids(),
        };
        pids.into_iter().map(usage::of).sum()
    }

    /// Writes a file beside the data.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).with_context(|| format!("write {name}"))?;
        Ok(path.display().to_string())
    }
}
