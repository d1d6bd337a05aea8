//! Samples in the broker: where each message is first, then the messages in the manifest's order.

use std::collections::VecDeque;

use async_nats::jetstream::stream::{DirectGetErrorKind, Info, Stream};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use tidemill_codec::{Body, Envelope};
use tidemill_domain::EvaluationId;
use tidemill_service::{Context, Follow, Start};
use tidemill_storage::Store;
use tidemill_streams::{declared, subject};

use crate::{Error, Layout};

/// Samples fetched together: their messages and claimed bodies are in memory at once.
const TOGETHER: u64 = 64;

/// Requests in flight at once: enough to hide the way to the broker, few enough to leave it to others.
const IN_FLIGHT: usize = 32;

/// The messages of an evaluation in DONE and GRADE. Takes sixteen bytes a declared sample.
pub struct Live {
    context: Context,
    evaluation: EvaluationId,
    done: Places,
    grade: Places,
    /// What was fetched and not handed over: from `ahead_from` on.
    ahead: VecDeque<(Option<Bytes>, Option<Bytes>)>,
    ahead_from: u64,
    claims: Vec<String>,
}

/// A message with its body, and the key of that where it lay in the object store.
struct Message {
    bytes: Bytes,
    claim: Option<String>,
}

/// Where the message of each declared sample is in its stream; 0 where there is none.
struct Places {
    stream: Stream<Info>,
    sequences: Vec<u64>,
    /// The last sequence at which the stream was seen whole.
    through: u64,
    undeclared: u64,
}

impl Live {
    /// Looks where the messages of an evaluation are.
    ///
    /// # Errors
    /// [`Error::Broker`].
    pub async fn open(context: &Context, layout: &Layout, evaluation: &EvaluationId) -> Result<Self, Error> {
        let done = subject::done_of_evaluation(evaluation);
        let grade = subject::grade_of_evaluation(evaluation);
        Ok(Self {
            context: context.clone(),
            evaluation: evaluation.clone(),
            done: Places::look(context, layout, declared::DONE, done).await?,
            grade: Places::look(context, layout, declared::GRADE, grade).await?,
            ahead: VecDeque::new(),
            ahead_from: 0,
            claims: Vec::new(),
        })
    }

    /// The last messages of DONE and GRADE up to which everything is known here.
    #[must_use]
    pub const fn through(&self) -> (u64, u64) {
        (self.done.through, self.grade.through)
    }

    /// There is no message of the evaluation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.completions() == 0 && self.grade.sequences.iter().all(|sequence| *sequence == 0)
    }

    /// Samples with a completion.
    #[must_use]
    pub fn completions(&self) -> u64 {
        self.done.sequences.iter().filter(|sequence| **sequence > 0).count() as u64
    }

    /// Messages under keys that the manifest does not declare; graders have sent those to the dead letters.
    #[must_use]
    pub const fn undeclared(&self) -> u64 {
        self.done.undeclared + self.grade.undeclared
    }

    /// The messages of the sample with this ordinal: its completion and its grade, bodies included.
    ///
    /// Ordinals are asked for in order.
    ///
    /// # Errors
    /// [`Error::Vanished`] when a message that was there is there no longer; [`Error::Broker`] and [`Error::Storage`].
    pub async fn messages(&mut self, ordinal: u64) -> Result<(Option<Bytes>, Option<Bytes>), Error> {
        if ordinal != self.ahead_from || self.ahead.is_empty() {
            self.ahead.clear();
            let end = (ordinal + TOGETHER).min(self.done.sequences.len() as u64);
            let (completions, grades) = tokio::try_join!(
                self.fetch(&self.done, ordinal, end),
                self.fetch(&self.grade, ordinal, end)
            )?;
            let messages = completions.iter().chain(&grades).flatten();
            self.claims.extend(messages.filter_map(|message| message.claim.clone()));
            let bytes = |message: Option<Message>| message.map(|message| message.bytes);
            let pairs = completions.into_iter().zip(grades);
            self.ahead = pairs
                .map(|(completion, grade)| (bytes(completion), bytes(grade)))
                .collect();
            self.ahead_from = ordinal;
        }
        self.ahead_from += 1;
        Ok(self.ahead.pop_front().unwrap_or_default())
    }

    /// The keys of bodies that were fetched from the object store since the last call.
    pub fn take_claims(&mut self) -> Vec<String> {
        std::mem::take(&mut self.claims)
    }

    async fn fetch(&self, places: &Places, from: u64, end: u64) -> Result<Vec<Option<Message>>, Error> {
        let sequences: Vec<u64> = places.sequences[from as usize..end as usize].to_vec();
        let fetched = sequences
            .into_iter()
            .map(|sequence| self.message(&places.stream, sequence));
        futures::stream::iter(fetched).buffered(IN_FLIGHT).try_collect().await
    }

    async fn message(&self, stream: &Stream<Info>, sequence: u64) -> Result<Option<Message>, Error> {
        if sequence == 0 {
            return Ok(None);
        }
        match stream.direct_get(sequence).await {
            Ok(message) => whole(&self.context.store, message.payload).await.map(Some),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Err(Error::Vanished {
                evaluation: self.evaluation.clone(),
            }),
            Err(error) => Err(Error::broker(
                "read message",
                format!("{sequence} of {}", stream.cached_info().config.name),
                &error,
            )),
        }
    }
}

/// A message with its body in it. What is no message of ours stays as it is.
async fn whole(store: &Store, message: Bytes) -> Result<Message, Error> {
    let claim = claim(&message);
    let bytes = match &claim {
        Some(key) => store.get(key).await?.into(),
        None => message,
    };
    Ok(Message { bytes, claim })
}

/// The key of the body of a message that lies in the object store.
fn claim(message: &[u8]) -> Option<String> {
    match Envelope::open(message).ok()?.body {
        Body::Claimed(key) => Some(key.to_owned()),
        Body::Here(_) => None,
    }
}

impl Places {
    async fn look(
        context: &Context,
        layout: &Layout,
        stream: tidemill_streams::Stream,
        filter: String,
    ) -> Result<Self, Error> {
        let found = context.jetstream().get_stream(stream.name).await;
        let mut places = Self {
            stream: found.map_err(|error| Error::broker("look up stream", stream.name, &error))?,
            sequences: vec![0; usize::try_from(layout.samples()).unwrap_or(usize::MAX)],
            through: 0,
            undeclared: 0,
        };
        let mut follow = Follow::open(context, stream, filter, true, Start::Beginning).await;
        while let Some(message) = follow.next_known().await {
            places.through = places.through.max(message.sequence);
            match subject::key_of(&message.subject).and_then(|key| layout.ordinal(&key)) {
                Some(ordinal) => {
                    // The first write of a key is the one that counts.
                    let place = &mut places.sequences[ordinal as usize];
                    if *place == 0 {
                        *place = message.sequence;
                    }
                }
                None => places.undeclared += 1,
            }
        }
        Ok(places)
    }
}
