//! All services inside this process.

use std::time::Duration;

use crate::stops::stop_signal;
use tidemill_loader::Scope;
use tidemill_service::{Context, Fatal};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The services that were started.
pub(crate) struct Roles {
    context: Context,
    tasks: JoinSet<(&'static str, Result<(), Fatal>)>,
}

/// The exit code of a process that a second signal ended; its children end with it.
const INTERRUPTED: i32 = 130;

/// What is left of a drain that a signal shortens.
const MOMENT: Duration = Duration::from_secs(2);

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

    /// Drains after what was waited for came, with an error or not (`Ok`), or a signal did (`Err`), and gives what came.
    ///
    /// # Errors
    /// That of `outcome`, of either kind.
    pub(crate) async fn end<T>(
        self,
        outcome: Result<anyhow::Result<T>, anyhow::Error>,
        grace: Duration,
    ) -> anyhow::Result<T> {
        match outcome {
            Ok(came) => {
                self.drain(grace).await;
                came
            }
            Err(stopped) => {
                self.drain_after_signal(grace).await;
                Err(stopped)
            }
        }
    }

    /// Drains all services: what is in flight is finished within the grace. A signal meanwhile shortens that to a moment, so
    /// that what was waited for is still printed.
    pub(crate) async fn drain(self, grace: Duration) {
        let context = self.context.clone();
        let fully = self.drain_fully(grace);
        tokio::pin!(fully);
        tokio::select! {
            () = &mut fully => return,
            _ = stop_signal() => context.cancelled.cancel(),
        }
        tokio::select! {
            _ = timeout(MOMENT, fully) => {}
            _ = stop_signal() => std::process::exit(INTERRUPTED),
        }
    }

    /// As [`drain`](Self::drain), after a signal: the next one ends the process at once.
    pub(crate) async fn drain_after_signal(self, grace: Duration) {
        tokio::select! {
            () = self.drain_fully(grace) => {}
            _ = stop_signal() => std::process::exit(INTERRUPTED),
        }
    }

    async fn drain_fully(mut self, grace: Duration) {
        self.context.draining.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(grace, all).await.is_ok() {
            return self.context.close().await;
        }
        tracing::warn!("the grace is over; what is left is taken up by the next run");
        self.context.cancelled.cancel();
        let rest = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(AFTER_GRACE, rest).await.is_err() {
            self.tasks.abort_all();
        }
    }
}
