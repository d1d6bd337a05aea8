//! Whether subjects hold a message, asked for many at once where that is as good as asking the leader about each.
//!
//! A question about one subject costs the broker more than storing a message does. The broker answers for many subjects at
//! once only by a direct read, which any copy of a stream may answer. So questions are asked together only of a server that
//! is in no cluster: what it stores has one copy, and to get another it must be started anew, which ends the connection.
//! Everywhere else, and whenever the answer is not simply that none holds a message, the leader is asked about each.
//!
//! A request may be lost with its connection, and the client library waits for its answer all the same. So what was under way
//! when there is a new connection is asked again over that.
//!
//! Questions are not kept for company: those that come while others are under way are asked together when these are answered.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::stream::ClusterInfo;
use async_nats::{Message, StatusCode};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::json;
use tidemill_streams::Stream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::{ReadError, last};
use crate::connect::Broker;

/// Questions that wait to be asked; who has another one waits.
const WAITING: usize = 4_096;

/// Most subjects of one request, each about 60 bytes.
const TOGETHER: usize = 512;

/// Requests about several subjects that are under way at once.
const UNDER_WAY: usize = 2;

/// How long a server is waited for to say whether it is in a cluster; then leaders are asked.
const PATIENCE: Duration = Duration::from_secs(2);

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
        let server = Live {
            broker: Arc::new(broker.clone()),
            stream: stream.name,
        };
        tokio::spawn(Asker::new(server, broker.connections.clone()).run(questions));
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

/// Who answers, over whatever connection there is.
trait Server: Clone + Send + Sync + 'static {
    /// Whether what it stores has one copy for as long as the connection lasts; `None` when it does not say.
    fn is_alone(&self) -> impl Future<Output = Option<bool>> + Send;

    /// Whether any of the subjects holds a message.
    fn together(&self, asked: &[Question]) -> impl Future<Output = Answer> + Send;

    /// Whether a subject holds a message, as the stream's leader knows.
    fn leader(&self, subject: &str) -> impl Future<Output = Result<bool, ReadError>> + Send;
}

/// The broker that holds a stream.
#[derive(Clone)]
struct Live {
    broker: Arc<Broker>,
    stream: &'static str,
}

#[derive(Clone)]
struct Asker<S> {
    server: S,
    connections: watch::Receiver<u64>,
    /// The connection, and whether the server at its other end is in no cluster.
    is_alone_on: Arc<Mutex<Option<(u64, bool)>>>,
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

impl<S: Server> Asker<S> {
    fn new(server: S, connections: watch::Receiver<u64>) -> Self {
        Self {
            server,
            connections,
            is_alone_on: Arc::default(),
        }
    }

    async fn run(self, mut questions: mpsc::Receiver<Question>) {
        let mut together = FuturesUnordered::new();
        let mut one_by_one = FuturesUnordered::new();
        let mut next = Vec::with_capacity(TOGETHER);
        loop {
            tokio::select! { biased;
                Some(left) = together.next(), if !together.is_empty() => {
                    let left: Vec<Question> = left;
                    one_by_one.extend(left.into_iter().map(|question| self.clone().ask_leader(question)));
                }
                Some(()) = one_by_one.next(), if !one_by_one.is_empty() => {}
                count = questions.recv_many(&mut next, TOGETHER), if together.len() < UNDER_WAY => {
                    if count == 0 {
                        return;
                    }
                    together.push(self.clone().ask_together(std::mem::take(&mut next)));
                }
            }
        }
    }

    /// Asks together where that is as good as asking the leader, answers what can be answered, and returns the others.
    async fn ask_together(mut self, asked: Vec<Question>) -> Vec<Question> {
        let connection = *self.connections.borrow_and_update();
        let (server, is_alone_on) = (&self.server, &self.is_alone_on);
        let answer = async {
            match is_alone(server, is_alone_on, connection).await {
                true => server.together(&asked).await,
                false => Answer::Some,
            }
        };
        match over_one_connection(&mut self.connections, answer).await {
            None | Some(Answer::Some) => return asked,
            Some(Answer::None) => asked.into_iter().for_each(|question| question.answered(Ok(false))),
            Some(Answer::Silence(reason)) => {
                let silence = || Err(ReadError::Silence(reason.clone()));
                asked.into_iter().for_each(|question| question.answered(silence()));
            }
        }
        Vec::new()
    }

    /// Asks the leader, and once more over each new connection, until it answers or nobody wants to know.
    async fn ask_leader(mut self, question: Question) {
        while !question.answer.is_closed() {
            self.connections.mark_unchanged();
            let answer = self.server.leader(&question.subject);
            if let Some(answer) = over_one_connection(&mut self.connections, answer).await {
                question.answered(answer);
                return;
            }
        }
    }
}

/// An answer over the connection that was seen last; `None` once there is another one. What was under way on the old one may
/// have been lost with it, and whoever waited for it would wait until the request times out; and who answers over the new one
/// may be another server.
async fn over_one_connection<T>(connections: &mut watch::Receiver<u64>, answer: impl Future<Output = T>) -> Option<T> {
    tokio::select! { biased;
        Ok(()) = connections.changed() => None,
        answer = answer => (!connections.has_changed().unwrap_or(false)).then_some(answer),
    }
}

/// Whether what the stream's server stores has one copy for as long as this connection lasts, asked once for each.
async fn is_alone<S: Server>(server: &S, known: &Mutex<Option<(u64, bool)>>, connection: u64) -> bool {
    let noted = || known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((on, is_alone)) = *noted()
        && on == connection
    {
        return is_alone;
    }
    let Ok(Some(is_alone)) = timeout(PATIENCE, server.is_alone()).await else {
        return false;
    };
    *noted() = Some((connection, is_alone));
    is_alone
}

impl Server for Live {
    async fn is_alone(&self) -> Option<bool> {
        let stream = self.broker.jetstream.get_stream(self.stream).await.ok()?;
        let info = stream.cached_info();
        // A server of a cluster names it, also for a stream with one copy, which may get another at any moment.
        let is_clustered = |cluster: &ClusterInfo| cluster.name.is_some() || cluster.raft_group.is_some();
        Some(!info.cluster.as_ref().is_some_and(is_clustered) && info.config.num_replicas == 1)
    }

    async fn together(&self, asked: &[Question]) -> Answer {
        let subjects: Vec<&str> = asked.iter().map(|question| question.subject.as_str()).collect();
        // One message is enough to know that not all subjects are empty.
        let request = json!({ "multi_last": subjects, "batch": 1 }).to_string();
        let subject = format!("$JS.API.DIRECT.GET.{}", self.stream);
        match self.broker.client.request(subject, request.into()).await {
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

    async fn leader(&self, subject: &str) -> Result<bool, ReadError> {
        let message = last(&self.broker.jetstream, self.stream, subject).await?;
        Ok(message.is_some())
    }
}

impl Question {
    fn answered(self, answer: Result<bool, ReadError>) {
        // Who asked may have gone.
        drop(self.answer.send(answer));
    }
}

#[cfg(test)]
mod tests {
    use futures::future::{join, join_all, pending};
    use tokio::time::{Instant, sleep};

    use super::*;

    /// When the client library gives a request up.
    const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

    /// What of a server is lost with its first connection.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Lost {
        Info,
        Together,
        Leader,
    }

    /// A server that has no message, and loses requests of one kind over its first connection.
    #[derive(Clone)]
    struct Losing {
        connections: watch::Receiver<u64>,
        lost: Lost,
        /// Requests that were lost.
        count: watch::Sender<usize>,
    }

    impl Losing {
        /// Waits as for an answer that was lost.
        async fn lose(&self, kind: Lost) {
            if self.lost == kind && *self.connections.borrow() == 1 {
                self.count.send_modify(|count| *count += 1);
                sleep(REQUEST_TIMEOUT).await;
            }
        }
    }

    impl Server for Losing {
        async fn is_alone(&self) -> Option<bool> {
            self.lose(Lost::Info).await;
            Some(self.lost != Lost::Leader)
        }

        async fn together(&self, _: &[Question]) -> Answer {
            if *self.connections.borrow() > 1 {
                return Answer::None;
            }
            self.lose(Lost::Together).await;
            Answer::Silence("timed out".to_owned())
        }

        async fn leader(&self, _: &str) -> Result<bool, ReadError> {
            self.lose(Lost::Leader).await;
            match *self.connections.borrow() {
                1 => Err(ReadError::Silence("timed out".to_owned())),
                _ => Ok(false),
            }
        }
    }

    fn open<S: Server>(server: S, connections: &watch::Receiver<u64>) -> Looks {
        let (asking, questions) = mpsc::channel(WAITING);
        tokio::spawn(Asker::new(server, connections.clone()).run(questions));
        Looks(asking)
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_lost_with_a_connection_is_asked_again_over_the_next() {
        for lost in [Lost::Info, Lost::Together, Lost::Leader] {
            let (connected, connections) = watch::channel(1);
            let (count, mut counted) = watch::channel(0);
            let server = Losing {
                connections: connections.clone(),
                lost,
                count,
            };
            let (looks, begun) = (open(server, &connections), Instant::now());
            // More than are under way: the others wait for these.
            let all = (0..4 * TOGETHER).map(|item| looks.holds(item.to_string()));
            let reconnected = async {
                counted.wait_for(|count| *count >= UNDER_WAY).await.unwrap();
                connected.send_replace(2);
            };
            let (answers, ()) = join(join_all(all), reconnected).await;
            let silent = answers.iter().filter(|answer| !matches!(answer, Ok(false))).count();
            assert_eq!((silent, begun.elapsed()), (0, Duration::ZERO), "{lost:?}");
        }
    }

    /// A server whose leader answers when it is told to, and that does not say what it is after its first connection.
    #[derive(Clone)]
    struct Told {
        connections: watch::Receiver<u64>,
        told: watch::Receiver<bool>,
        info_asked: watch::Sender<bool>,
    }

    impl Server for Told {
        async fn is_alone(&self) -> Option<bool> {
            if *self.connections.borrow() > 1 {
                self.info_asked.send_replace(true);
                pending::<()>().await;
            }
            Some(false)
        }

        async fn together(&self, _: &[Question]) -> Answer {
            Answer::Some
        }

        async fn leader(&self, _: &str) -> Result<bool, ReadError> {
            drop(self.told.clone().wait_for(|told| *told).await);
            Ok(true)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_come_while_it_is_not_known_what_the_server_is() {
        let (connected, connections) = watch::channel(1);
        let (tell, told) = watch::channel(false);
        let (info_asked, mut asked) = watch::channel(false);
        let server = Told {
            connections: connections.clone(),
            told,
            info_asked,
        };
        let looks = open(server, &connections);
        let mut first = Box::pin(looks.holds("first".to_owned()));
        // Until it waits for the leader.
        assert!(timeout(Duration::from_millis(1), &mut first).await.is_err());
        connected.send_replace(2);
        let mut second = Box::pin(looks.holds("second".to_owned()));
        tokio::select! {
            _ = &mut second => panic!("the leader was not told to answer"),
            _ = asked.wait_for(|asked| *asked) => {}
        }
        tell.send_replace(true);
        tokio::select! { biased;
            _ = &mut second => panic!("it waits for the server to say what it is"),
            answer = first => assert!(answer.unwrap()),
        }
        // Who does not say what it is has its leader asked.
        assert!(second.await.unwrap());
    }
}
