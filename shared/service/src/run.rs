//! From arguments to exit code: the same for every service.

use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tidemill_config::Config;
use tidemill_storage::{Address, Store};
use tidemill_telemetry::LogFormat;
use tokio::signal::unix::{SignalKind, signal};

use crate::{Admin, Context, connect, prepare};

/// The exit codes of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Drained.
    Drained = 0,
    /// Broker or store cannot be reached.
    Unavailable = 69,
    /// A bug, or the drain's deadline was missed.
    Failed = 70,
    /// The configuration is wrong.
    Configuration = 78,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status as u8)
    }
}

/// The arguments of every service.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Configuration file (TOML); one file serves all services
    #[arg(long, env = "TIDEMILL_CONFIG")]
    pub config: Option<PathBuf>,
    /// Broker address; overrides `url` of `[broker]`
    #[arg(long, env = "NATS_URL")]
    pub nats: Option<String>,
    /// Object store address; overrides `uri` of `[storage]`
    #[arg(long, env = "TIDEMILL_STORE")]
    pub store: Option<String>,
    /// Admin listener address; overrides `admin` of `[service]`
    #[arg(long)]
    pub admin: Option<String>,
    /// Data directory; the default object store is `objects` in it
    #[arg(long, env = "TIDEMILL_DATA_DIR", default_value = ".tidemill")]
    pub data_dir: PathBuf,
    /// Print the effective configuration and exit
    #[arg(long)]
    pub dump_config: bool,
}

impl Args {
    /// The effective configuration: defaults, file, environment, these flags.
    ///
    /// # Errors
    /// With every problem found.
    pub fn configuration(&self) -> Result<Config, tidemill_config::Error> {
        let mut config = tidemill_config::load(self.config.as_deref(), std::env::vars())?;
        if let Some(url) = &self.nats {
            config.broker.url.clone_from(url);
        }
        if let Some(uri) = &self.store {
            config.storage.uri.clone_from(uri);
        }
        if let Some(admin) = &self.admin {
            config.service.admin.clone_from(admin);
        }
        Ok(config)
    }

    /// The address of the object store.
    #[must_use]
    pub fn store_address(&self, config: &Config) -> Address {
        if config.storage.uri.is_empty() {
            // One folder has one address, however its path was written.
            let absolute = || std::path::absolute(&self.data_dir).unwrap_or_else(|_| self.data_dir.clone());
            let folder = self.data_dir.canonicalize().unwrap_or_else(|_| absolute());
            Address::of_folder(&folder.join("objects"))
        } else {
            Address::parse(&config.storage.uri)
        }
    }
}

/// An error after which a service cannot go on, with its exit code.
#[derive(Debug)]
pub struct Fatal {
    /// The exit code.
    pub status: ExitStatus,
    /// What happened and what to do.
    pub reason: String,
}

impl Fatal {
    fn new(status: ExitStatus, reason: impl ToString) -> Self {
        Self {
            status,
            reason: reason.to_string(),
        }
    }
}

const DEFAULT_BROKER: &str = "nats://127.0.0.1:4222";

/// Runs a service from its arguments to its exit code.
///
/// In this order: configuration, logs, admin listener, broker and streams, ready, `body` until a signal, drain, exit code.
pub fn run<B, F>(role: &'static str, args: &Args, body: B) -> ExitCode
where
    B: FnOnce(Context) -> F,
    F: Future<Output = Result<(), Fatal>>,
{
    let config = match args.configuration() {
        Ok(config) => config,
        Err(error) => return report(role, &Fatal::new(ExitStatus::Configuration, error)),
    };
    if args.dump_config {
        use std::io::Write as _;
        let written = std::io::stdout().write_all(tidemill_config::dump(&config).as_bytes());
        return if written.is_ok() {
            ExitStatus::Drained.into()
        } else {
            ExitStatus::Failed.into()
        };
    }
    let format = if config.service.log_json {
        LogFormat::Json
    } else {
        LogFormat::Text
    };
    tidemill_telemetry::init_logs(format, &config.service.log);
    tidemill_telemetry::install();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(role, &Fatal::new(ExitStatus::Failed, error)),
    };
    match runtime.block_on(serve(role, args, config, body)) {
        Ok(()) => ExitStatus::Drained.into(),
        Err(fatal) => report(role, &fatal),
    }
}

fn report(role: &str, fatal: &Fatal) -> ExitCode {
    use std::io::Write as _;
    // Standard error may be closed; the exit code still tells.
    drop(writeln!(std::io::stderr(), "{role}: {}", fatal.reason));
    fatal.status.into()
}

async fn serve<B, F>(role: &'static str, args: &Args, config: Config, body: B) -> Result<(), Fatal>
where
    B: FnOnce(Context) -> F,
    F: Future<Output = Result<(), Fatal>>,
{
    let unavailable = |error: &dyn std::fmt::Display| Fatal::new(ExitStatus::Unavailable, error);
    tracing::info!(role, version = env!("CARGO_PKG_VERSION"), config = ?args.config, "starting");
    let admin = Admin::bind(&config.service.admin).await.map_err(|error| {
        Fatal::new(
            ExitStatus::Configuration,
            format!("admin listener {}: {error}", config.service.admin),
        )
    })?;
    let store =
        Store::open(args.store_address(&config)).map_err(|error| Fatal::new(ExitStatus::Configuration, error))?;
    let url = if config.broker.url.is_empty() {
        DEFAULT_BROKER
    } else {
        &config.broker.url
    };
    let broker = connect(&config, url, role).await.map_err(|error| unavailable(&error))?;
    prepare(&broker, &config, &store, false)
        .await
        .map_err(|error| unavailable(&error))?;
    let grace = config.service.shutdown_grace;
    let context = Context::new(role, broker, store, Arc::new(config));
    tokio::spawn(crate::status::answer(context.clone()));
    admin.set_ready(true);
    tracing::info!(role, admin = %admin.address(), "ready");
    let ended = until_signal(&context, grace, body(context.clone())).await;
    admin.set_ready(false);
    context.close().await;
    ended
}

/// Runs `body` until it ends by itself, or until a signal and then through its drain. A second signal exits at once.
///
/// # Errors
/// What `body` says, or that the drain's deadline was missed.
pub async fn until_signal<F>(context: &Context, grace: std::time::Duration, body: F) -> Result<(), Fatal>
where
    F: Future<Output = Result<(), Fatal>>,
{
    let failed = |error: std::io::Error| Fatal::new(ExitStatus::Failed, error);
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    tokio::pin!(body);
    tokio::select! {
        ended = &mut body => return ended,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!(role = context.role, grace_seconds = grace.as_secs(), "draining");
    context.draining.cancel();
    let deadline = tokio::time::sleep(grace);
    tokio::pin!(deadline);
    tokio::select! {
        ended = &mut body => ended,
        () = &mut deadline => {
            context.cancelled.cancel();
            Err(Fatal::new(ExitStatus::Failed, format!("not drained within {grace:?}")))
        }
        _ = terminate.recv() => Err(Fatal::new(ExitStatus::Failed, "second signal")),
        _ = interrupt.recv() => Err(Fatal::new(ExitStatus::Failed, "second signal")),
    }
}
