//! The processes: thin shells that carry out what the real steps say.

mod aggregator;
mod generator;
mod grader;
mod lease;
mod loader;
mod publishing;

use tokio::time::Instant;

use crate::plan::Role;
use crate::world::{Input, Reach};

/// A process.
pub(crate) trait Worker {
    /// Takes an input; what it wants done goes out through `reach`.
    fn handle(&mut self, input: Input, reach: &mut Reach<'_>);

    /// The lease that it acts under; none has the empty name.
    fn lease(&self) -> &'static str {
        ""
    }

    /// It believes that it holds its lease.
    fn holds(&self, _now: Instant) -> bool {
        false
    }
}

/// A fresh process.
pub(crate) fn new(role: Role) -> Box<dyn Worker> {
    match role {
        Role::Loader => Box::<loader::Loader>::default(),
        Role::Generator => Box::<generator::Generator>::default(),
        Role::Grader => Box::<grader::Grader>::default(),
        Role::Aggregator => Box::<aggregator::Aggregator>::default(),
    }
}
