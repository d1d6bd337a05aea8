//! A judge's server: which requests it gets and when, and what its failures mean.
//!
//! A failure that may pass delays a grade and does nothing else. Only what a server says of one request alone, or does to one
//! while it answers others, counts against that sample. Where nobody else asks, a small question of the grader's own is the
//! other one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tidemill_config::Grader as Config;
use tidemill_domain::{EngineKind, JudgeCost, Message, Partial, Penalties, Prompt};
use tidemill_inference::{Answer, Client, Connection, Engine as _, OpenAi, Options, Request, Verdict};
use tidemill_service::Context;
use tidemill_telemetry::{Metric, Warning};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::pace::{Admission, Bounds, Ended, Pace};
use super::queue::Queue;
use super::verdicts::Verdicts;
use crate::error::AFTERWARDS;
use crate::lanes::LaneName;
use crate::{Error, Postponed};

/// How long a completion is given back for when as many wait for its judge here as may: while the judge works, and while it is
/// away.
const LEFT_FOR: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Nothing is streamed, so nothing stalls.
pub(super) const STALL: Duration = Duration::from_secs(120);

/// Tokens of the reply to a question that only asks whether the server answers.
const CHECK_TOKENS: u32 = 16;

/// Shortest and longest pause of a request that failed while its server takes others.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// The judges that are configured, and what they said before.
#[derive(Debug, Default)]
pub(crate) struct Judges {
    endpoints: BTreeMap<String, Result<Endpoint, String>>,
    pub(crate) verdicts: Verdicts,
}

impl Judges {
    /// Prepares the judges of a configuration; asks nothing yet.
    pub(crate) fn new(config: &Config) -> Self {
        // So that one that is away leaves turns to the others.
        let held = (LaneName::Judge.room(config).at_once / config.judge.len().max(1)).max(1);
        let endpoints = config.judge.iter().map(|(name, judge)| {
            let endpoint = Endpoint::try_new(name, judge, held);
            (name.clone(), endpoint)
        });
        Self {
            endpoints: endpoints.collect(),
            verdicts: Verdicts::default(),
        }
    }

    /// With the verdicts of the broker, until the process drains.
    pub(crate) fn within(mut self, context: &Context) -> Self {
        for endpoint in self.endpoints.values_mut().flatten() {
            endpoint.draining = context.draining.clone();
        }
        self.verdicts = Verdicts::of(context);
        self
    }

    /// What each is, and whether it answers.
    pub(crate) async fn in_words(&self) -> Vec<String> {
        let words = self.endpoints.iter().map(|(name, endpoint)| async move {
            match endpoint {
                Ok(endpoint) => format!("{name}: {}", endpoint.in_words().await),
                Err(reason) => format!("{name}: none, so its benchmarks end as grader_error: {reason}"),
            }
        });
        join_all(words).await
    }

    pub(crate) fn endpoint(&self, name: &str) -> Result<&Endpoint, Error> {
        match self.endpoints.get(name) {
            Some(Ok(endpoint)) => Ok(endpoint),
            Some(Err(reason)) => Err(Error::Judge(format!("{name}: {reason}"))),
            None => Err(Error::Judge(format!(
                "{name} is not configured: add [grader.judge.{name}] with url and model to the graders' configuration"
            ))),
        }
    }
}

/// Why a question has no reply.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// It is to be asked later.
    Postponed(Postponed),
    /// It will have none.
    NoVerdict(String),
}

impl From<Postponed> for Stopped {
    fn from(postponed: Postponed) -> Self {
        Self::Postponed(postponed)
    }
}

/// A judge's server.
#[derive(Debug)]
pub(crate) struct Endpoint {
    name: String,
    engine: OpenAi,
    attempts: u32,
    patience: Duration,
    pace: Mutex<Pace>,
    /// Requests that wait to be sent: one that fails goes to the end, so that none keeps the others from their turn.
    queue: Queue,
    /// Why the last request failed.
    trouble: Mutex<String>,
    /// A request ended.
    changed: Notify,
    /// Completions that may wait for it in this process.
    places: Semaphore,
    draining: CancellationToken,
}

impl Endpoint {
    fn try_new(name: &str, judge: &tidemill_config::Judge, held: usize) -> Result<Self, String> {
        let api_key = match &judge.key_variable {
            Some(variable) => {
                let key = std::env::var(variable).ok().filter(|key| !key.is_empty());
                Some(key.ok_or_else(|| {
                    format!("its key is wanted in the environment variable {variable}, which is not set")
                })?)
            }
            None => None,
        };
        let options = Options {
            max_in_flight: judge.concurrency.max(1) as usize,
            request_timeout: judge.request_timeout,
            api_key,
            ..Options::default()
        };
        let client = Client::new(&judge.url, &options).map_err(|error| error.to_string())?;
        let bounds = Bounds {
            at_once: judge.concurrency.max(1),
            requests_per_minute: judge.requests_per_minute,
            tokens_per_hour: judge.tokens_per_hour,
        };
        Ok(Self {
            name: name.to_owned(),
            engine: OpenAi::new(client, &judge.model, EngineKind::OpenAi),
            attempts: judge.attempts.max(1),
            patience: judge.patience,
            pace: Mutex::new(Pace::new(bounds, Instant::now())),
            queue: Queue::default(),
            trouble: Mutex::default(),
            changed: Notify::new(),
            places: Semaphore::new(held),
            draining: CancellationToken::new(),
        })
    }

    async fn in_words(&self) -> String {
        let (model, url) = (self.model(), self.engine.url());
        match self.engine.alive().await {
            Ok(()) => format!("{model} at {url}"),
            Err(error) => format!("{model} at {url} does not answer, so its grades wait: {error}"),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn model(&self) -> &str {
        self.engine.model()
    }

    /// Replies that may be asked for until one holds a verdict.
    pub(crate) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// A place for a completion that waits for this judge. Others wait in the broker, so that they take none from other
    /// judges; other families have lanes of their own.
    pub(crate) fn hold(&self) -> Result<SemaphorePermit<'_>, Error> {
        self.places.try_acquire().map_err(|_| {
            let pause = if self.pace().is_away() { LEFT_FOR.1 } else { LEFT_FOR.0 };
            Error::Postponed(Postponed {
                reason: format!("as many completions wait for judge {} here as may", self.name),
                pause: Some(pause),
            })
        })
    }

    /// Asks until there is a reply, however long the server is away, within the judge's patience.
    ///
    /// # Cancel safety
    /// A request that is under way is dropped, and leaves its place.
    pub(crate) async fn ask(&self, request: &Request<'_>, cost: &mut JudgeCost) -> Result<Answer, Stopped> {
        let begun = Instant::now();
        let (mut failures, mut charged, mut seen) = (0, 0, self.pace().answers());
        let mut connection = Connection::Kept;
        loop {
            let place = self.admitted(begun).await?;
            let failure = match self.sent(request, connection, cost).await {
                Verdict::Done(answer) | Verdict::Suspect(answer) => {
                    place.ended(answered(&answer));
                    return Ok(answer);
                }
                Verdict::Overflow { detail } | Verdict::Rejected { detail } | Verdict::Unsupported { detail } => {
                    place.ended(Ended::Answered { tokens: 0 });
                    return Err(Stopped::NoVerdict(format!(
                        "judge {} refuses the request: {detail}",
                        self.name
                    )));
                }
                verdict => Failure::of(verdict),
            };
            failures += 1;
            self.say(&failure);
            let is_alone = failures >= self.attempts && self.pace().answers() == seen;
            let other = if is_alone && failure.may_be_of_request {
                self.answers_another(cost).await
            } else {
                None
            };
            place.ended(other.unwrap_or(failure.ended));
            let answers = self.pace().answers();
            charged += u32::from(failure.may_be_of_request && answers > seen);
            seen = answers;
            if charged >= self.attempts {
                return Err(Stopped::NoVerdict(format!(
                    "judge {} failed {charged} times while it answered others: {}",
                    self.name, failure.why
                )));
            }
            failure
                .why
                .clone_into(&mut self.trouble.lock().unwrap_or_else(PoisonError::into_inner));
            if begun.elapsed() >= self.patience {
                return Err(self.out_of_patience());
            }
            connection = failure.connection;
            self.pause(failures, begun + self.patience).await?;
        }
    }

    /// Sends a request, and counts what it takes.
    async fn sent(&self, request: &Request<'_>, connection: Connection, cost: &mut JudgeCost) -> Verdict<Answer> {
        let attempt = self.engine.complete(request, connection, &mut Partial::default()).await;
        cost.requests += attempt.requests;
        tidemill_telemetry::count(Metric::JudgeRequests, [("ending", attempt.verdict.label())]);
        if let Verdict::Done(answer) | Verdict::Suspect(answer) = &attempt.verdict {
            spent(answer, cost);
        }
        attempt.verdict
    }

    /// Asks, in the place of a request that failed, for next to nothing: what came of it, where the server answers.
    async fn answers_another(&self, cost: &mut JudgeCost) -> Option<Ended> {
        self.pace().also_sent();
        let prompt = Prompt::Chat(vec![Message {
            role: "user".to_owned(),
            content: "Say OK.".to_owned(),
        }]);
        match self.sent(&check(&prompt), Connection::New, cost).await {
            Verdict::Done(answer) | Verdict::Suspect(answer) => Some(answered(&answer)),
            Verdict::Overflow { .. } | Verdict::Rejected { .. } | Verdict::Unsupported { .. } => {
                Some(Ended::Answered { tokens: 0 })
            }
            _ => None,
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn out_of_patience(&self) -> Stopped {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        Stopped::NoVerdict(format!(
            "judge {} did not answer within {:?}: {trouble}; {AFTERWARDS}",
            self.name, self.patience
        ))
    }

    /// Waits for its turn and the right to send a request, while the server is away no longer than until the patience ends with a
    /// request that has waited since `begun`. One request tries whether it is back, and may be the last one to learn that patience
    /// is over.
    ///
    /// # Cancel safety
    /// The turn is lost, and is the next one's.
    async fn admitted(&self, begun: Instant) -> Result<Place<'_>, Stopped> {
        let patient_until = begun + self.patience;
        let turn = self.queue.join(&self.changed);
        loop {
            let changed = self.changed.notified();
            let now = Instant::now();
            let (admission, is_away) = {
                let mut pace = self.pace();
                let admission = if turn.is_come() {
                    pace.admit(now)
                } else {
                    Admission::Later
                };
                (admission, pace.is_away())
            };
            if is_away && admission != Admission::Now && now >= patient_until {
                return Err(self.out_of_patience());
            }
            let due = match admission {
                Admission::Now => {
                    return Ok(Place {
                        endpoint: self,
                        sent: now,
                        is_open: true,
                    });
                }
                Admission::At(due) => Some(due),
                Admission::Later => None,
            };
            tokio::select! { biased;
                () = self.draining.cancelled() => return Err(Self::drained().into()),
                () = changed => {}
                () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
                () = sleep_until(patient_until), if is_away => {}
            }
        }
    }

    /// Waits longer with each failure, and no longer than the patience with this request.
    async fn pause(&self, failures: u32, patient_until: Instant) -> Result<(), Postponed> {
        let pause = (PAUSES.0 * 2_u32.pow(failures.clamp(1, 8) - 1)).min(PAUSES.1);
        let pause = pause.min(patient_until.saturating_duration_since(Instant::now()));
        tokio::select! { biased;
            () = self.draining.cancelled() => Err(Self::drained()),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    fn drained() -> Postponed {
        Postponed {
            reason: "draining".to_owned(),
            pause: None,
        }
    }

    fn say(&self, failure: &Failure) {
        let warning = Warning {
            message: "a judge did not answer; its grades wait for its `patience`",
            scope: &self.name,
            reason: &failure.why,
        };
        if tidemill_telemetry::is_said(warning) {
            tracing::warn!(
                judge = self.name,
                engine = self.engine.url(),
                reason = failure.why,
                "a judge did not answer; its grades wait for its `patience`"
            );
        }
    }
}

const fn answered(answer: &Answer) -> Ended {
    Ended::Answered {
        tokens: answer.prompt_tokens + answer.completion_tokens,
    }
}

/// A request whose answer matters to nobody.
const fn check(prompt: &Prompt) -> Request<'_> {
    Request {
        prompt,
        max_tokens: CHECK_TOKENS,
        temperature: 0.0,
        top_p: 1.0,
        stop: &[],
        seed: None,
        penalties: Penalties {
            frequency: 0.0,
            presence: 0.0,
            repetition: 1.0,
        },
        stream: false,
        stall_timeout: STALL,
    }
}

fn spent(answer: &Answer, cost: &mut JudgeCost) {
    cost.prompt_tokens += answer.prompt_tokens;
    cost.completion_tokens += answer.completion_tokens;
    tidemill_telemetry::add(Metric::JudgeTokens, answer.prompt_tokens, [("of", "prompt")]);
    tidemill_telemetry::add(Metric::JudgeTokens, answer.completion_tokens, [("of", "reply")]);
}

/// A failure that may pass.
#[derive(Debug)]
struct Failure {
    ended: Ended,
    why: String,
    /// The request may have caused it; not so where the server turns everything away.
    may_be_of_request: bool,
    connection: Connection,
}

impl Failure {
    fn of(verdict: Verdict<Answer>) -> Self {
        let (ended, why, may_be_of_request, is_damaged) = match verdict {
            Verdict::Busy {
                status: 429,
                why,
                retry_after,
            } => (Ended::TurnedAway { pause: retry_after }, why, false, false),
            Verdict::Busy { why, retry_after, .. } => (Ended::Away { pause: retry_after }, why, false, false),
            Verdict::Retry {
                why,
                on_new_connection,
                retry_after,
            } => (Ended::Faulty { pause: retry_after }, why, true, on_new_connection),
            Verdict::Stalled { why } | Verdict::Endless { why } => (Ended::Faulty { pause: None }, why, true, false),
            Verdict::Down { why, sent } => (Ended::Away { pause: None }, why, sent, false),
            Verdict::Fatal { detail } => (Ended::Away { pause: None }, detail, false, false),
            other => (Ended::Faulty { pause: None }, other.label().to_owned(), true, false),
        };
        Self {
            ended,
            why,
            may_be_of_request,
            connection: if is_damaged { Connection::New } else { Connection::Kept },
        }
    }
}

/// The right to have one request under way.
#[derive(Debug)]
struct Place<'e> {
    endpoint: &'e Endpoint,
    sent: Instant,
    is_open: bool,
}

impl Place<'_> {
    fn ended(mut self, ended: Ended) {
        self.leave(ended);
    }

    fn leave(&mut self, ended: Ended) {
        self.is_open = false;
        self.endpoint.pace().ended(ended, self.sent, Instant::now());
        self.endpoint.changed.notify_waiters();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.leave(Ended::Dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures::poll;

    use super::*;

    fn endpoint() -> Endpoint {
        let judge = tidemill_config::Judge {
            url: "http://127.0.0.1:9".to_owned(),
            model: "m".to_owned(),
            key_variable: None,
            concurrency: 8,
            requests_per_minute: 0,
            tokens_per_hour: 0,
            attempts: 3,
            request_timeout: Duration::from_secs(10),
            patience: Duration::from_secs(60),
        };
        Endpoint::try_new("main", &judge, 8).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_judge_that_is_away_is_tried_by_each_that_waits_in_its_turn() {
        let endpoint = endpoint();
        let begun = Instant::now();
        let failing = endpoint.admitted(begun).await.unwrap();
        failing.ended(Ended::Away { pause: None });
        let mut first = Box::pin(endpoint.admitted(begun));
        let mut second = Box::pin(endpoint.admitted(begun));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(poll!(&mut second).is_pending(), "it came later");
        let Poll::Ready(Ok(place)) = poll!(&mut first) else {
            panic!("it is its turn")
        };
        // What failed once more waits behind who has not been asked.
        place.ended(Ended::Away { pause: None });
        let mut again = Box::pin(endpoint.admitted(begun));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(poll!(&mut again).is_pending());
        assert!(poll!(&mut second).is_ready());
        // Who waits no longer keeps nobody.
        let gone = Box::pin(endpoint.admitted(begun));
        drop(gone);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(poll!(&mut again).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_judge_that_is_away_gives_up_with_its_own_patience_though_another_tries_whether_it_is_back()
    {
        let endpoint = endpoint();
        let begun = Instant::now();
        let first = endpoint.admitted(begun).await.unwrap();
        first.ended(Ended::Away { pause: None });
        let _tries = endpoint.admitted(begun).await.unwrap();
        let Err(Stopped::NoVerdict(reason)) = endpoint.admitted(begun).await.map(|_| ()) else {
            panic!("it waits for nothing")
        };
        assert!(reason.contains("judge main did not answer within 60s"), "{reason}");
        assert_eq!(begun.elapsed().as_secs(), 60);
    }
}
