//! Family `command`: a program of the suite's author judges, over lines of JSON.
//!
//! A suite only names the program; it runs where the grader's configuration names the same program with the same arguments,
//! because whoever writes a suite must not run programs on graders by that alone. Processes live for many answers and are
//! pooled. One that dies, is silent for too long or says what was not asked for is ended; its answer is judged again by another.

mod process;
mod protocol;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidemill_domain::Item;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

use crate::Error;
use crate::answer::Answer;
use crate::outside::{Fault, Judging, Outside};
use process::Process;
use protocol::Request;

/// The pause before a program that failed is started again; doubled with each failure after another.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(10);

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

    /// The family that asks this program.
    pub(crate) fn family(&self, command: &[String], seconds: u32) -> Result<Command, Error> {
        if !self.allowed.iter().any(|allowed| allowed == command) {
            return Err(Error::Forbidden {
                command: format!("{command:?}"),
            });
        }
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pools
            .entry(command.to_vec())
            .or_insert_with(|| Arc::new(Pool::new(command, self.processes)));
        Ok(Command {
            pool: Arc::clone(pool),
            limit: Duration::from_secs(u64::from(seconds)),
        })
    }
}

/// A program that judges.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pool: Arc<Pool>,
    limit: Duration,
}

impl Outside for Command {
    fn name(&self) -> &'static str {
        "command@1"
    }

    fn judge<'a>(&'a self, key: &'a str, item: &'a Item, answer: &'a Answer<'a>, text: &'a str) -> Judging<'a> {
        Box::pin(async move {
            let request = Request::of(key, item, answer, text);
            let said = self.pool.ask(&request.line()?, key, self.limit).await?;
            protocol::finding(said, answer.text())
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
    async fn ask(&self, line: &str, key: &str, limit: Duration) -> Result<protocol::Answered, Fault> {
        let _permit = self.free.acquire().await.map_err(|error| fault(error.to_string()))?;
        let asked = self.ask_one(line, key, limit).await;
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match &asked {
            Ok(_) => *health = Health::default(),
            Err(_) => {
                let pause = MIN_PAUSE.saturating_mul(1 << health.failures.min(16)).min(MAX_PAUSE);
                health.failures += 1;
                health.not_before = Some(Instant::now() + pause);
            }
        }
        asked.map_err(|reason| fault(format!("{}: {reason}", self.command.join(" "))))
    }

    async fn ask_one(&self, line: &str, key: &str, limit: Duration) -> Result<protocol::Answered, String> {
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
        let said = timeout(limit, process.exchange(line)).await;
        let said = said.map_err(|_| format!("gave no answer within {} s", limit.as_secs()))??;
        let answered = protocol::answered(&said, key)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
        Ok(answered)
    }
}

fn fault(reason: String) -> Fault {
    Fault {
        reason,
        is_transient: true,
    }
}

#[cfg(test)]
mod tests;
