//! All services inside this process.

use std::time::Duration;

use tidemill_loader::Scope;
use tidemill_service::{Context, Fatal};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::evaluate::stop_signal;

/// The services that were started.
pub(crate) struct Roles {
    context: Context,
    tasks: JoinSet<(&'static str, Result<(), Fatal>)>,
}

/// The exit code of a process that a second signal ended; its children end with it.
const INTERRUPTED: i32 = 130;

/// What remains after the grace for flushing and stopping engines.
const AFTER_GRACE: Duration = Duration::from_secs(8);

impl Roles {
    /// Starts loader, generator, grader and aggregator.
    pub(crate) fn start(context: &Context, scope: Scope) -> Self {
        let mut tasks = JoinSet::new();
        tokio::spawn(tidemill_service::status::answer(context.clone()));
        let role = |name| context.role(name);
        let loader = role("loader");
        tasks.spawn(async move { ("loader", Box::pin(tidemill_loader::run(loader, scope)).await) });
        let generator = role("generator");
        tasks.spawn(async move { ("generator", tidemill_generator::run(generator).await) });
        let grader = role("grader");
        tasks.spawn(async move { ("grader", tidemill_grader::run(grader).await) });
        let aggregator = role("aggregator");
        tasks.spawn(async move { ("aggregator", tidemill_aggregator::run(aggregator).await) });
        Self {
            context: context.clone(),
            tasks,
        }
    }

    /// Waits until a service ends, which none does by itself: the reason why it cannot go on.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match self.tasks.join_next().await {
            Some(Ok((role, Ok(())))) => anyhow::anyhow!("the {role} ended by itself"),
            Some(Ok((role, Err(fatal)))) => anyhow::anyhow!("the {role} cannot go on: {}", fatal.reason),
            Some(Err(error)) => anyhow::anyhow!("a service died: {error}"),
            None => std::future::pending().await,
        }
    }

    /// Drains all services: what is in flight is finished within the grace. A signal meanwhile ends the process at once.
    pub(crate) async fn drain(self, grace: Duration) {
        tokio::select! {
            () = self.drain_fully(grace) => {}
            _ = stop_signal() => std::process::exit(INTERRUPTED),
        }
    }

    async fn drain_fully(mut self, grace: Duration) {
        self.context.draining.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(grace, all).await.is_ok() {
            return;
        }
        tracing::warn!("the grace is over; what is left is taken up by the next run");
        self.context.cancelled.cancel();
        let rest = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(AFTER_GRACE, rest).await.is_err() {
            self.tasks.abort_all();
        }
    }
}
