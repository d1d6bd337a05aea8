//! Grades stored completions anew, with what a grader of the same configuration has: its runners, and as many at once.
//!
//! There is one who asks, so nobody takes turns; a lane's places are all that is left of its rule.

use std::sync::Arc;
use std::time::Duration;

use tidemill_config::Grader as Config;
use tidemill_domain::{Completion, Grade, Item, Manifest};
use tidemill_service::{Context, now};
use tokio::sync::Semaphore;

use crate::lanes::LaneName;
use crate::{Postponed, Runners, Suite};

/// Grades completions of one manifest.
#[derive(Debug)]
pub struct Regrading {
    suite: Arc<Suite>,
    runners: Runners,
    /// Of each lane: its places.
    lanes: [Semaphore; LaneName::ALL.len()],
    at_once: usize,
    delay: Duration,
}

impl Regrading {
    /// With the runners and the lanes of the context's configuration, and what graders share through its broker.
    #[must_use]
    pub fn new(context: &Context, manifest: Arc<Manifest>) -> Self {
        let config = &context.config.grader;
        Self::with(config, Runners::of(config).within(context), manifest)
    }

    fn with(config: &Config, runners: Runners, manifest: Arc<Manifest>) -> Self {
        Self {
            suite: Arc::new(Suite::new(manifest)),
            runners,
            lanes: LaneName::ALL.map(|lane| Semaphore::new(lane.room(config).at_once)),
            at_once: config.max_in_flight.max(1) as usize,
            delay: config.delay,
        }
    }

    /// How many completions are worth having in hand at once: beyond, none of them would be graded any sooner.
    #[must_use]
    pub const fn at_once(&self) -> usize {
        self.at_once
    }

    /// Grades a completion: in place, or once its lane has a place for it. `None` when the manifest does not declare its
    /// benchmark.
    ///
    /// # Errors
    /// [`Postponed`] where it cannot be graded by this process any more. What only has to wait is waited for.
    ///
    /// # Cancel safety
    /// What runs ends, and nothing is graded.
    pub async fn grade(&self, item: &Item, completion: &Completion) -> Result<Option<Grade>, Postponed> {
        let is_slowed = !self.delay.is_zero();
        let lane = self.suite.lane(completion);
        let Some(lane) = lane.or(is_slowed.then_some(LaneName::Blocking)) else {
            return Ok(self.suite.grade(item, completion, now()));
        };
        if !self.suite.is_outside(completion.key.benchmark) {
            return self.on_a_thread(lane, item.clone(), completion.clone()).await;
        }
        loop {
            let place = self.place(lane).await?;
            let graded = self.suite.grade_with(&self.runners, item, completion, now).await;
            drop(place);
            match graded.transpose() {
                // As many wait for this judge as may: those have their turn first.
                Err(Postponed { pause: Some(pause), .. }) => tokio::time::sleep(pause).await,
                graded => return graded,
            }
        }
    }

    async fn on_a_thread(
        &self,
        lane: LaneName,
        item: Item,
        completion: Completion,
    ) -> Result<Option<Grade>, Postponed> {
        let _place = self.place(lane).await?;
        let (suite, delay) = (Arc::clone(&self.suite), self.delay);
        let graded = tokio::task::spawn_blocking(move || {
            std::thread::sleep(delay);
            suite.grade(&item, &completion, now())
        });
        graded.await.map_err(|error| ended(&error))
    }

    async fn place(&self, lane: LaneName) -> Result<tokio::sync::SemaphorePermit<'_>, Postponed> {
        self.lanes[lane.index()].acquire().await.map_err(|error| ended(&error))
    }
}

fn ended(error: &dyn std::fmt::Display) -> Postponed {
    Postponed {
        reason: error.to_string(),
        pause: None,
    }
}

#[cfg(test)]
#[path = "regrading_tests.rs"]
mod tests;
