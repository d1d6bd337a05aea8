//! Back-pressure from grading: while as many completions wait for their grades as may, nothing more is released.

use async_nats::jetstream::consumer::pull;
use tidemill_domain::counted_as;
use tidemill_service::{Context, Obstacle, Waiting};
use tidemill_streams::durable;

/// What the graders' backlog allows, and whether it holds the dispatcher up.
#[derive(Debug, Default)]
pub(super) struct Grading {
    waiting: Option<Waiting>,
}

impl Grading {
    /// Asks how far grading is behind, and returns how many releases it allows until the next look; `None` where the broker
    /// does not say, which allows no more than the last look did.
    ///
    /// `out` are this group's items without a known completion, `left` its samples without one.
    pub(super) async fn look(&mut self, context: &Context, out: usize, left: u64) -> Option<usize> {
        let ungraded = match ungraded(context).await {
            Ok(ungraded) => ungraded,
            Err(error) => {
                tracing::debug!(%error, "the graders' backlog is not known");
                return None;
            }
        };
        let bound = u64::from(context.config.loader.max_ungraded);
        let allowed = allowance(bound, ungraded, out as u64);
        self.note(
            context,
            allowed == 0 && left > out as u64 && ungraded > 0,
            ungraded,
            bound,
        );
        Some(usize::try_from(allowed).unwrap_or(usize::MAX))
    }

    fn note(&mut self, context: &Context, is_held_up: bool, ungraded: u64, bound: u64) {
        if !is_held_up {
            if self.waiting.take().is_some() {
                tracing::info!("the graders caught up; releasing again");
            }
            return;
        }
        let reason = format!(
            "{}; with {bound} nothing more is released",
            counted_as(
                ungraded,
                "completion waits for its grade",
                "completions wait for their grades"
            )
        );
        match &self.waiting {
            Some(waiting) => waiting.because(&reason),
            None => {
                tracing::warn!(reason, "waiting for the graders");
                self.waiting = Some(context.waits.begin(Obstacle::Grading, &reason));
            }
        }
    }
}

/// Releases that keep the ungraded below the bound even if everything that is out is completed before the next look.
const fn allowance(bound: u64, ungraded: u64, out: u64) -> u64 {
    bound.saturating_sub(ungraded).saturating_sub(out)
}

/// Completions that no grader has finished, over all evaluations.
pub(crate) async fn ungraded(context: &Context) -> Result<u64, async_nats::Error> {
    let durable = durable::grader();
    let consumer = context
        .jetstream()
        .get_consumer_from_stream::<pull::Config, _, _>(&durable.name, durable.stream.name)
        .await?;
    let info = consumer.cached_info();
    Ok(info.num_pending + info.num_ack_pending as u64)
}

#[cfg(test)]
mod tests {
    use super::allowance;

    #[test]
    fn what_is_out_counts_as_if_it_were_ungraded_already() {
        assert_eq!(allowance(100, 0, 0), 100);
        assert_eq!(allowance(100, 60, 30), 10);
        assert_eq!(allowance(100, 60, 40), 0);
        assert_eq!(allowance(100, 500, 0), 0);
    }
}
