//! Families that need more than text: a process, a sandbox, an endpoint.
//!
//! They are asked by the [service](crate::run), which waits for them without a thread. What is the same for all of them is here
//! and in [`crate::Grader`]: which completions they see, how often a fault is tried again, and that a fault is never a score.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidemill_domain::Item;

use crate::answer::{Answer, Finding};
use crate::command::Commands;

/// How often an answer is judged until it is: a fault of the moment is over by then, another costs no more.
pub(crate) const TRIES: u32 = 3;
/// The pause before an answer is judged again, doubled each time.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Why an answer was not judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// A fragment, as errors have it.
    pub(crate) reason: String,
    /// It may be over at the next try.
    pub(crate) is_transient: bool,
}

/// What an answer is worth, when it is known.
pub(crate) type Judging<'a> = Pin<Box<dyn Future<Output = Result<Option<Finding>, Fault>> + Send + 'a>>;

/// A way to judge answers by what is outside this process.
pub(crate) trait Outside: fmt::Debug + Send + Sync {
    /// Kind and version.
    fn name(&self) -> &'static str;

    /// Judges an answer; `None` where there is none. `key` names the sample, for what is outside and for logs.
    ///
    /// # Cancel safety
    /// What is dropped is judged by nobody; whatever runs for it ends.
    fn judge<'a>(&'a self, key: &'a str, item: &'a Item, answer: &'a Answer<'a>, text: &'a str) -> Judging<'a>;
}

/// What families outside this process need, made once by the service that grades.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    pub(crate) commands: Arc<Commands>,
}

impl Tools {
    /// The tools that a grader's configuration allows.
    #[must_use]
    pub fn new(config: &tidemill_config::Grader) -> Self {
        Self {
            commands: Arc::new(Commands::new(config.commands.clone(), config.command_processes)),
        }
    }
}
