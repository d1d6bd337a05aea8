//! What a process is asked, and answers, about itself: what it waits for.
//!
//! Asked and answered over the connection alone, without a stream or a bucket: it works when nothing can be stored, and
//! leaves nothing behind. A process that does not answer is not there, or not reachable.

use std::time::Duration;

use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use tidemill_streams::subject;
use tokio::time::{Instant, timeout_at};

use crate::backoff::Backoff;
use crate::{Broker, Context, Load};

/// What a process says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of this form: 1.
    pub schema: u32,
    /// The process's name among all.
    pub holder: String,
    /// What it waits for, the longest first; empty while it works or has nothing to do.
    pub waits: Vec<Stalled>,
    /// What it has in hand of each kind of work, where it says; none of an older process.
    #[serde(default)]
    pub loads: Vec<Load>,
}

/// Something that a process waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stalled {
    /// A stream's name, `object_store` or `grading`.
    pub on: String,
    /// Seconds since anything passed.
    pub seconds: f64,
    /// The other side's word.
    pub reason: String,
}

/// Answers questions about this process until it ends.
pub async fn answer(context: Context) {
    let mut backoff = Backoff::standard();
    loop {
        match context.broker.client.subscribe(subject::STATUS).await {
            Ok(mut questions) => {
                while let Some(question) = questions.next().await {
                    let Some(reply) = question.reply else { continue };
                    let Ok(said) = serde_json::to_vec(&status(&context)) else {
                        continue;
                    };
                    if let Err(error) = context.broker.client.publish(reply, said.into()).await {
                        tracing::debug!(%error, "a question about this process was not answered");
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "questions about this process are not heard"),
        }
        tokio::select! {
            () = context.cancelled.cancelled() => return,
            () = tokio::time::sleep(backoff.next_pause()) => {}
        }
    }
}

fn status(context: &Context) -> Status {
    let waits = context.waits.all().into_iter().map(|wait| Stalled {
        on: wait.on.label().to_owned(),
        seconds: wait.since.elapsed().as_secs_f64(),
        reason: wait.reason,
    });
    Status {
        schema: 1,
        holder: context.holder.to_string(),
        waits: waits.collect(),
        loads: context.loads.all(),
    }
}

/// Asks every process and returns what came within `patience`, by name; answers in another form are left out.
///
/// # Errors
/// When the question cannot be sent.
pub async fn ask(broker: &Broker, patience: Duration) -> Result<Vec<Status>, async_nats::Error> {
    let inbox = broker.client.new_inbox();
    let mut answers = broker.client.subscribe(inbox.clone()).await?;
    broker
        .client
        .publish_with_reply(subject::STATUS, inbox, Vec::new().into())
        .await?;
    broker.client.flush().await?;
    let deadline = Instant::now() + patience;
    let mut said: Vec<Status> = Vec::new();
    while let Ok(Some(answer)) = timeout_at(deadline, answers.next()).await {
        // Nobody is there: the broker says so at once, with a status and without a body.
        if answer.status.is_some() {
            break;
        }
        said.extend(
            serde_json::from_slice(&answer.payload)
                .ok()
                .filter(|status: &Status| status.schema == 1),
        );
    }
    said.sort_by(|one, other| one.holder.cmp(&other.holder));
    Ok(said)
}
