//! Family `command`: a program of the suite's author judges, over lines of JSON.
//!
//! A suite only names the program; it runs where the grader's configuration names the same program with the same arguments,
//! because whoever writes a suite must not run programs on graders by that alone. Processes live for many answers and are
//! pooled. One that dies, is silent for too long or says what was not asked for is ended; its answer is judged again by another.

mod mark;
mod process;
mod protocol;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidemill_domain::Item;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

use crate::answer::{Answer, Finding};
use crate::runner::{Judging, Runner};
use crate::{Error, Runners};
use process::Process;
use protocol::Request;

pub(crate) const NAME: &str = "command@1";
/// How often an answer is judged that a program fails on.
const TRIES: u32 = 3;

/// The pause before a program that failed is started again; doubled with each failure after another.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Failures in a row after which it is the program that fails, not on an answer: each one is then judged once.
const FAILS_ALWAYS: u32 = 9;

/// The programs that this grader may run, each with its processes.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    allowed: Vec<Vec<String>>,
    processes: u32,
    pools: Mutex<HashMap<Vec<String>, Arc<Pool>>>,
}

impl Commands {
    /// `processes` is how many run at once of each program, at least one.
    pub(crate) fn new(allowed: Vec<Vec<String>>, processes: u32) -> Self {
        Self {
            allowed,
            processes: processes.max(1),
            pools: Mutex::default(),
        }
    }

    /// The processes of a program, if it may run here.
    fn pool(&self, command: &[String]) -> Result<Arc<Pool>, Error> {
        if !self.allowed.iter().any(|allowed| allowed == command) {
            return Err(Error::Forbidden {
                command: format!("{command:?}"),
            });
        }
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pools
            .entry(command.to_vec())
            .or_insert_with(|| Arc::new(Pool::new(command, self.processes)));
        Ok(Arc::clone(pool))
    }
}

/// A program that judges.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) command: Vec<String>,
    /// How long one answer may take.
    pub(crate) limit: Duration,
}

impl Runner for Command {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge<'a>(&'a self, runners: &'a Runners, item: &'a Item, answer: &'a Answer<'a>) -> Judging<'a> {
        Box::pin(async move {
            let pool = runners.commands.pool(&self.command)?;
            let request = Request::of(item, answer);
            let mut tries = 1;
            loop {
                // The pool waits before it starts a program again that failed.
                match pool.judge(&request, self.limit).await {
                    Err(reason) if tries < TRIES && !pool.fails_always() => {
                        tracing::debug!(
                            reason,
                            tries,
                            "a grading program failed, and the answer is judged again"
                        );
                        tries += 1;
                    }
                    judged => return judged.map_err(Error::Unjudged),
                }
            }
        })
    }
}

/// The processes of one program.
#[derive(Debug)]
struct Pool {
    command: Vec<String>,
    /// As many as may run; who waits longest is next.
    free: Semaphore,
    idle: Mutex<Vec<Process>>,
    health: Mutex<Health>,
}

/// How the program fared of late.
#[derive(Debug, Default)]
struct Health {
    failures: u32,
    not_before: Option<Instant>,
}

impl Pool {
    fn new(command: &[String], processes: u32) -> Self {
        Self {
            command: command.to_vec(),
            free: Semaphore::new(processes as usize),
            idle: Mutex::default(),
            health: Mutex::default(),
        }
    }

    /// What a process says of a request; one that fails is ended, also when nobody waits any more.
    async fn judge(&self, request: &Request<'_>, limit: Duration) -> Result<Option<Finding>, String> {
        let _permit = self.free.acquire().await.map_err(|error| error.to_string())?;
        let judged = self.judge_once(request, limit).await;
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if judged.is_ok() {
            *health = Health::default();
        } else {
            let pause = MIN_PAUSE.saturating_mul(1 << health.failures.min(16)).min(MAX_PAUSE);
            health.failures += 1;
            health.not_before = Some(Instant::now() + pause);
        }
        judged.map_err(|reason| format!("{}: {reason}", self.command.join(" ")))
    }

    fn fails_always(&self) -> bool {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).failures >= FAILS_ALWAYS
    }

    async fn judge_once(&self, request: &Request<'_>, limit: Duration) -> Result<Option<Finding>, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut process = match idle {
            Some(process) => process,
            None => {
                let not_before = self.health.lock().unwrap_or_else(PoisonError::into_inner).not_before;
                if let Some(not_before) = not_before {
                    sleep_until(not_before).await;
                }
                Process::start(&self.command)?
            }
        };
        let said = timeout(limit, process.exchange(&request.line()?)).await;
        let said = said.map_err(|_| format!("gave no answer within {} s", limit.as_secs_f32()))??;
        let answered = request.answered(&said)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
        answered.finding(request.completion)
    }
}

#[cfg(test)]
mod tests;
