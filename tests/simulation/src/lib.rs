//! A seeded simulation of the whole pipeline: the real steps of every service, against a broker, a network and an engine
//! that misbehave.
//!
//! What decides is the code that runs in production: the loader's [dispatcher](tidemill_loader::dispatch), the
//! generator's [steps](tidemill_generator::step) and its [items in flight](tidemill_generator::Keys), the grader's
//! [steps](tidemill_grader::step) and grades, the aggregator's [fold](tidemill_aggregator::Fold), the rules of
//! [settling](tidemill_service::settle::decide) and of [leases](tidemill_service::lease::rule). The rest is a model:
//! processes that die, are suspended and drain between any two effects, a [broker](crate::Simulation) that delivers again
//! and forgets, and time. Everything follows from one seed. What is not here: real sockets, real disks, threads; those are
//! the end-to-end tests' part.

mod breakage;
mod broker;
mod chance;
mod plan;
mod suite;
mod summary;
mod workers;
mod world;

pub use breakage::Breakage;
pub use summary::Summary;

use crate::world::World;

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct Simulation {
    seed: u64,
    breakage: Option<Breakage>,
    is_calm: bool,
    is_traced: bool,
}

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// What happened.
    pub summary: Summary,
    /// Every event, when it was traced.
    pub trace: Vec<String>,
    /// What must not be, if it was.
    pub violation: Option<String>,
}

impl Simulation {
    /// The run of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            breakage: None,
            is_calm: false,
            is_traced: false,
        }
    }

    /// The same run with a rule broken.
    #[must_use]
    pub const fn broken(mut self, breakage: Breakage) -> Self {
        self.breakage = Some(breakage);
        self
    }

    /// The same run without faults.
    #[must_use]
    pub const fn calm(mut self) -> Self {
        self.is_calm = true;
        self
    }

    /// Keeps a line for each event.
    #[must_use]
    pub const fn traced(mut self) -> Self {
        self.is_traced = true;
        self
    }

    /// Runs to the end, or to the first thing that must not be.
    #[must_use]
    pub fn run(self) -> Outcome {
        let world = World::new(self.seed, self.is_calm, self.breakage, self.is_traced);
        let (summary, trace, violation) = world.run();
        Outcome {
            summary,
            trace,
            violation,
        }
    }
}
