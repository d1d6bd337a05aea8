//! What judges said before, kept in a bucket that all graders share: a regrade, or the same answer to the same question, asks
//! for nothing that was said. It only saves requests: when the bucket is away or full, judges are asked, and nothing waits
//! for longer than [`PATIENCE`].

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::kv::Store;
use serde::{Deserialize, Serialize};
use tidemill_domain::{Digest, JudgeSpec, Message};
use tidemill_service::Context;
use tidemill_streams::buckets;
use tidemill_telemetry::{Metric, Warning};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use super::NAME;

/// How long a verdict waits for an answer of the bucket.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the bucket is left alone after it did not answer.
const REST: Duration = Duration::from_secs(10);

/// A reply that held a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// Its end: what verdicts are read from. Kept as it is, so that another grammar may read it.
    pub(crate) text: String,
    /// What it cost whoever asked.
    pub(crate) prompt_tokens: u64,
    /// What it cost whoever asked.
    pub(crate) completion_tokens: u64,
}

/// What a reply is known by: the judge's model, all that it was asked, and the version of the grader that asked. A vote is a
/// draw of its own.
pub(crate) fn key(spec: &JudgeSpec, model: &str, question: &[Message], vote: u32) -> Digest {
    let settings = [
        spec.temperature.to_le_bytes().as_slice(),
        spec.max_tokens.to_le_bytes().as_slice(),
        vote.to_le_bytes().as_slice(),
    ]
    .concat();
    let head = [NAME.as_bytes(), model.as_bytes(), settings.as_slice()];
    let turns = question
        .iter()
        .flat_map(|message| [message.role.as_bytes(), message.content.as_bytes()]);
    Digest::of_parts(head.into_iter().chain(turns))
}

/// The bucket, where there is a broker.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    context: Option<Context>,
    bucket: OnceCell<Store>,
    reads: Rest,
    writes: Rest,
}

/// For how long something is left alone that failed: a bucket that is full takes nothing and answers all the same.
#[derive(Debug, Default)]
struct Rest(Mutex<Option<Instant>>);

impl Verdicts {
    pub(crate) fn of(context: &Context) -> Self {
        Self {
            context: Some(context.clone()),
            ..Self::default()
        }
    }

    /// What was said; `None` where nothing is known.
    pub(crate) async fn find(&self, key: &Digest) -> Option<Reply> {
        let context = self.context.as_ref().filter(|_| !self.reads.is_on())?;
        let looking = async {
            let entry = self.bucket(context).await?.get(buckets::verdict(key)).await;
            entry.map_err(|error| error.to_string())
        };
        match timeout(PATIENCE, looking).await.unwrap_or_else(|_| Err(unanswered())) {
            // An entry that cannot be read is asked for anew, and replaced.
            Ok(entry) => entry.and_then(|entry| serde_json::from_slice(&entry).ok()),
            Err(reason) => {
                self.reads.begin(&reason);
                None
            }
        }
    }

    /// Keeps what was said for others.
    pub(crate) async fn keep(&self, key: &Digest, reply: &Reply) {
        let Some(context) = self.context.as_ref().filter(|_| !self.writes.is_on()) else {
            return;
        };
        let keeping = async {
            let value = serde_json::to_vec(reply).map_err(|error| error.to_string())?;
            let kept = self
                .bucket(context)
                .await?
                .put(buckets::verdict(key), value.into())
                .await;
            kept.map_err(|error| error.to_string())
        };
        if let Err(reason) = timeout(PATIENCE, keeping).await.unwrap_or_else(|_| Err(unanswered())) {
            tidemill_telemetry::count(Metric::JudgeVerdicts, [("result", "not_kept")]);
            self.writes.begin(&reason);
        }
    }

    async fn bucket(&self, context: &Context) -> Result<&Store, String> {
        let open = || context.jetstream().get_key_value(buckets::VERDICTS.name);
        self.bucket
            .get_or_try_init(open)
            .await
            .map_err(|error| error.to_string())
    }
}

impl Rest {
    fn is_on(&self) -> bool {
        let until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn begin(&self, reason: &str) {
        let warning = Warning {
            message: "the verdicts of judges are not kept at present",
            scope: buckets::VERDICTS.name,
            reason,
        };
        if tidemill_telemetry::is_said(warning) {
            tracing::warn!(
                reason,
                "the verdicts of judges are not kept at present; judges are asked"
            );
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + REST);
    }
}

fn unanswered() -> String {
    format!("no answer within {PATIENCE:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::spec;

    #[test]
    fn any_single_change_is_another_verdict() {
        let spec = spec(&[("C", 1.0)]);
        let turn = |role: &str, content: &str| Message {
            role: role.to_owned(),
            content: content.to_owned(),
        };
        let question = [turn("system", "s"), turn("user", "u")];
        let base = key(&spec, "m", &question, 0);
        assert_eq!(key(&spec, "m", &question, 0), base);
        let warmer = JudgeSpec {
            temperature: 0.5,
            ..spec.clone()
        };
        let longer = JudgeSpec {
            max_tokens: spec.max_tokens + 1,
            ..spec.clone()
        };
        let others = [
            key(&spec, "n", &question, 0),
            key(&spec, "m", &question, 1),
            key(&warmer, "m", &question, 0),
            key(&longer, "m", &question, 0),
            key(&spec, "m", &question[1..], 0),
            key(&spec, "m", &[turn("system", "s"), turn("user", "v")], 0),
            key(&spec, "m", &[turn("user", "s"), turn("user", "u")], 0),
        ];
        for (index, other) in others.iter().enumerate() {
            assert_ne!(*other, base, "{index}");
        }
    }
}
