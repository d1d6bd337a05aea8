//! Whether subjects hold a message, asked for many at once where that is as good as asking the leader about each.
//!
//! A question about one subject costs the broker more than storing a message does. The broker answers for many subjects at
//! once only by a direct read, which any copy of a stream may answer. So questions are asked together only of a server that
//! is in no cluster: what it stores has one copy, and to get another it must be started anew, which ends the connection.
//! Everywhere else, and whenever the answer is not simply that none holds a message, the leader is asked about each.
//!
//! Questions are not kept for company: those that come while others are under way are asked together when these are answered.

use async_nats::jetstream::stream::ClusterInfo;
use async_nats::{Message, StatusCode};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::json;
use tidemill_streams::Stream;
use tokio::sync::{mpsc, oneshot};

use super::{ReadError, last};
use crate::connect::Broker;

/// Questions that wait to be asked; who has another one waits.
const WAITING: usize = 4_096;

/// Most subjects of one request, each about 60 bytes.
const TOGETHER: usize = 512;

/// Requests about several subjects that are under way at once.
const UNDER_WAY: usize = 2;

/// Looks into one stream. Clones share it.
#[derive(Debug, Clone)]
pub struct Looks(mpsc::Sender<Question>);

#[derive(Debug)]
struct Question {
    subject: String,
    answer: oneshot::Sender<Result<bool, ReadError>>,
}

impl Looks {
    /// Opens looks into `stream`; they end with their last handle.
    #[must_use]
    pub fn open(broker: &Broker, stream: Stream) -> Self {
        let (asking, questions) = mpsc::channel(WAITING);
        let asker = Asker {
            broker: broker.clone(),
            stream: stream.name,
            is_alone_on: None,
        };
        tokio::spawn(asker.run(questions));
        Self(asking)
    }

    /// Whether the stream holds a message on `subject`, which holds no wildcards. Everything is seen that was acknowledged
    /// before the call.
    ///
    /// # Errors
    /// [`ReadError`] when nobody who knows answers; that may pass.
    ///
    /// # Cancel safety
    /// Dropping the future drops the question.
    pub async fn holds(&self, subject: String) -> Result<bool, ReadError> {
        let (answer, answered) = oneshot::channel();
        let question = Question { subject, answer };
        self.0.send(question).await.map_err(|_| ReadError::Ended)?;
        answered.await.map_err(|_| ReadError::Ended)?
    }
}

struct Asker {
    broker: Broker,
    stream: &'static str,
    /// The connection, and whether the server at its other end is in no cluster.
    is_alone_on: Option<(u64, bool)>,
}

/// What became of questions that were asked together.
enum Answer {
    /// No subject holds a message.
    None,
    /// Some may.
    Some,
    /// The broker did not answer in time.
    Silence(String),
}

impl Asker {
    async fn run(mut self, mut questions: mpsc::Receiver<Question>) {
        let mut together = FuturesUnordered::new();
        let mut one_by_one: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        let mut next = Vec::with_capacity(TOGETHER);
        loop {
            tokio::select! { biased;
                Some(left) = together.next(), if !together.is_empty() => {
                    for question in left {
                        one_by_one.push(self.ask_leader(question).boxed());
                    }
                }
                Some(()) = one_by_one.next(), if !one_by_one.is_empty() => {}
                count = questions.recv_many(&mut next, TOGETHER), if together.len() < UNDER_WAY => {
                    if count == 0 {
                        return;
                    }
                    let asked = std::mem::take(&mut next);
                    if self.is_alone().await {
                        together.push(self.ask_together(asked));
                    } else {
                        one_by_one.extend(asked.into_iter().map(|question| self.ask_leader(question).boxed()));
                    }
                }
            }
        }
    }

    /// Whether what the stream's server stores has one copy for as long as this connection lasts.
    async fn is_alone(&mut self) -> bool {
        let connection = *self.broker.connections.borrow();
        if let Some((known, is_alone)) = self.is_alone_on
            && known == connection
        {
            return is_alone;
        }
        let Ok(stream) = self.broker.jetstream.get_stream(self.stream).await else {
            return false;
        };
        let info = stream.cached_info();
        // A server of a cluster names it, also for a stream with one copy, which may get another at any moment.
        let is_clustered = |cluster: &ClusterInfo| cluster.name.is_some() || cluster.raft_group.is_some();
        let is_alone = !info.cluster.as_ref().is_some_and(is_clustered) && info.config.num_replicas == 1;
        self.is_alone_on = Some((connection, is_alone));
        is_alone
    }

    /// Asks together, answers what can be answered, and returns the others.
    fn ask_together(&self, asked: Vec<Question>) -> impl Future<Output = Vec<Question>> + Send + use<> {
        let (broker, stream) = (self.broker.clone(), self.stream);
        async move {
            let connection = *broker.connections.borrow();
            let mut answer = together(&broker, stream, &asked).await;
            if *broker.connections.borrow() != connection {
                // Who answered may be another server.
                answer = Answer::Some;
            }
            match answer {
                Answer::Some => return asked,
                Answer::None => asked.into_iter().for_each(|question| question.answered(Ok(false))),
                Answer::Silence(reason) => {
                    let silence = || Err(ReadError::Silence(reason.clone()));
                    asked.into_iter().for_each(|question| question.answered(silence()));
                }
            }
            Vec::new()
        }
    }

    fn ask_leader(&self, question: Question) -> impl Future<Output = ()> + Send + use<> {
        let (jetstream, stream) = (self.broker.jetstream.clone(), self.stream);
        async move {
            let message = last(&jetstream, stream, &question.subject).await;
            question.answered(message.map(|message| message.is_some()));
        }
    }
}

impl Question {
    fn answered(self, answer: Result<bool, ReadError>) {
        // Who asked may have gone.
        drop(self.answer.send(answer));
    }
}

async fn together(broker: &Broker, stream: &str, asked: &[Question]) -> Answer {
    let subjects: Vec<&str> = asked.iter().map(|question| question.subject.as_str()).collect();
    // One message is enough to know that not all subjects are empty.
    let request = json!({ "multi_last": subjects, "batch": 1 }).to_string();
    match broker
        .client
        .request(format!("$JS.API.DIRECT.GET.{stream}"), request.into())
        .await
    {
        Ok(Message {
            status: Some(StatusCode::NOT_FOUND),
            ..
        }) => Answer::None,
        Ok(_) => Answer::Some,
        Err(error) if error.kind() == async_nats::RequestErrorKind::TimedOut => Answer::Silence(error.to_string()),
        // Nobody takes such questions: the leader says more.
        Err(_) => Answer::Some,
    }
}
