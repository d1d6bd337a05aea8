//! When an evaluation that drains has nothing more to come.

use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::stream::PeerInfo;
use tidemill_domain::EvaluationId;
use tidemill_service::Context;
use tidemill_streams::{declared, subject};
use tokio::time::Instant;

/// Without a new grade for so long nothing is waited for: a completion that no grader could grade counts as missing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks that must agree: a completion may be on its way between the engine and the stream.
const LOOKS: u32 = 2;

/// What was seen while an evaluation drains.
#[derive(Debug, Default)]
pub struct Draining {
    since: Option<Instant>,
    /// The number of completions at the last look, and at how many looks in a row all of them were graded.
    seen: Option<(u64, u32)>,
}

impl Draining {
    /// Every completion of the evaluation has been graded, and none came between looks; or patience is over.
    pub(crate) async fn is_over(
        &mut self,
        context: &Context,
        evaluation: &EvaluationId,
        graded: u64,
        last_change: Instant,
    ) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.max(last_change).elapsed() >= PATIENCE {
            return true;
        }
        match completions(context, evaluation).await {
            Ok(completions) => self.look(completions, graded),
            Err(error) => {
                tracing::debug!(evaluation_id = %evaluation, %error, "completions not counted");
                false
            }
        }
    }

    /// Looks at how many completions there are and how many of them are graded. True when all are, at enough looks in a
    /// row, and none came between.
    pub fn look(&mut self, completions: u64, graded: u64) -> bool {
        let agreeing = match self.seen {
            _ if completions > graded => 0,
            Some((before, agreeing)) if before == completions => agreeing + 1,
            _ => 1,
        };
        self.seen = Some((completions, agreeing));
        agreeing >= LOOKS
    }
}

/// How many completions an evaluation has: one a key, also where an operator had one delivered again.
///
/// Counted by a consumer in the memory of one of the servers that have a copy. Where that copy may be behind its leader's, the
/// count is refused: an evaluation that ended with it would miss completions.
async fn completions(context: &Context, evaluation: &EvaluationId) -> Result<u64, async_nats::Error> {
    let stream = context.jetstream().get_stream_no_info(declared::DONE.name).await?;
    let copies = stream.get_info().await?.cluster.unwrap_or_default();
    let config = pull::Config {
        filter_subject: subject::done_of_evaluation(evaluation),
        deliver_policy: DeliverPolicy::LastPerSubject,
        headers_only: true,
        inactive_threshold: Duration::from_secs(1),
        memory_storage: true,
        ..pull::Config::default()
    };
    let consumer = context
        .jetstream()
        .create_consumer_on_stream(config, declared::DONE.name)
        .await?;
    let info = consumer.cached_info();
    stream.delete_consumer(&info.name).await?;
    let server = info.cluster.as_ref().and_then(|cluster| cluster.leader.as_deref());
    if copies
        .replicas
        .iter()
        .any(|copy| Some(copy.name.as_str()) == server && is_behind(copy))
    {
        return Err("the server that counted has a copy that is behind".into());
    }
    Ok(info.num_pending)
}

fn is_behind(copy: &PeerInfo) -> bool {
    copy.offline || !copy.current || copy.lag.unwrap_or_default() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_graded_twice_in_a_row_ends_it() {
        let mut draining = Draining::default();
        assert!(!draining.look(3, 2));
        assert!(!draining.look(3, 3));
        assert!(draining.look(3, 3));
    }

    #[test]
    fn a_completion_between_looks_begins_anew() {
        let mut draining = Draining::default();
        assert!(!draining.look(3, 3));
        assert!(!draining.look(4, 4));
        assert!(!draining.look(5, 4));
        assert!(!draining.look(5, 5));
        assert!(draining.look(5, 5));
    }
}
