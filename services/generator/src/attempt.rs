//! From verdicts to an ending: what is tried again, how often, and when it is over.
//!
//! Only faults that may be the item's count against its budget. A server that is busy or away is waited for, because an
//! item is not worse for it; how long is bounded by the group's record, which its loader withdraws when it gives up.

mod course;
mod generate;

use std::time::Duration;

use tidemill_domain::{Ending, Timestamp};
use tidemill_inference::{Attempt, Connection, Engine, Scored, Scoring, Verdict};
use tidemill_service::backoff::Backoff;
use tidemill_service::now;
use tidemill_telemetry::Metric;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub(crate) use self::course::Course;
pub(crate) use self::generate::Generate;
use crate::pool::{Booking, Hopeless, Pool, Wish};
use crate::replicas::{Sign, Took};
use crate::routing::Barred;

/// Engines that may end under one item before the item is suspected of ending them.
const MOST_LOST: u32 = 5;

/// Refusals of every request that one item may meet: an engine may lack just the endpoint that this item needs.
const MOST_REFUSED: u32 = 5;

/// Tries of one item that may be interrupted after tokens had come which could not be kept. They are no fault of the item, and
/// the longer its answer the more of them it meets: counted as bad, whether there is an answer would depend on its length.
const MOST_REDONE: u32 = 20;

/// Bad tries after which an answer without content is taken at its word.
const MOST_EMPTY: u32 = 3;

/// Pauses before an item is tried again: the first, the one after it, from which they double, and the longest. An engine may
/// fail for some seconds, and answers are not to be lost for it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const NEXT_PAUSE: Duration = Duration::from_secs(1);
const LATER_PAUSE: Duration = Duration::from_secs(15);

/// Pauses before what was interrupted more than once is asked for again, where its tokens are lost: [`MOST_REDONE`] tries take a
/// minute at least, because an engine may interrupt everything for some seconds.
const REDONE_PAUSE: Duration = Duration::from_millis(250);
const REDONE_LATER_PAUSE: Duration = Duration::from_secs(5);

/// How long a server may keep saying that it is busy.
const BUSY_PATIENCE: Duration = Duration::from_secs(15 * 60);

/// The longest pause before a try that a server may ask for: until then, nothing is sent before it is due.
const LONGEST_PAUSE: Duration = BUSY_PATIENCE;

/// A question that can be asked of any replica, any number of times.
pub(crate) trait Ask<E>: Send {
    /// What a good answer is.
    type Answer: Send;

    /// The ending of an answer, for metrics.
    fn ending(answer: &Self::Answer) -> Ending;

    /// What an answer tells of its replica.
    fn took(answer: &Self::Answer) -> Took;

    /// Asks once, and goes on from what earlier tries have left where that is the same.
    ///
    /// `flows` is called when something of a streamed answer is there, once or more often.
    ///
    /// # Cancel safety
    /// What has arrived is kept for the next try.
    fn ask(
        &mut self,
        engine: &E,
        connection: Connection,
        flows: Flows<'_>,
    ) -> impl Future<Output = Attempt<Self::Answer>> + Send;

    /// How much of the answer there is that the next try need not ask an engine like this for, in tokens.
    fn kept(&mut self, _engine: &E) -> u64 {
        0
    }

    /// The last try has brought tokens, kept or not.
    fn has_begun(&self) -> bool {
        false
    }

    /// A request under way at `engine` may be given back at any moment: it is continued later, and nothing is lost.
    fn may_pause(&self, _engine: &E) -> bool {
        false
    }
}

/// Is told that an answer has begun.
pub(crate) type Flows<'a> = &'a (dyn Fn() + Send + Sync);

/// Asks how likely one choice is.
pub(crate) struct Score<'a, 'b> {
    pub(crate) scoring: &'a mut Scoring<'b>,
    pub(crate) choice: &'a str,
}

impl<E: Engine> Ask<E> for Score<'_, '_> {
    type Answer = Scored;

    fn ending(_: &Scored) -> Ending {
        Ending::Scored
    }

    fn took(scored: &Scored) -> Took {
        Took {
            tokens: scored.completion_tokens,
            first_token: None,
        }
    }

    async fn ask(&mut self, engine: &E, connection: Connection, _: Flows<'_>) -> Attempt<Scored> {
        engine.score(self.scoring, self.choice, connection).await
    }
}

/// How asking ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Ended<T> {
    /// With an answer.
    Answered(T),
    /// Without one.
    Failed(Ending, String),
}

/// The item was given back on purpose: nothing is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenBack {
    /// Somebody else, or this process later, goes on with it.
    Stopped,
    /// Somebody else has finished it.
    Overtaken,
}

/// When to stop.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    /// Begin nothing new: what waits is given back, what is in flight goes on.
    pub(crate) stopped: CancellationToken,
    /// Give back what is in flight too.
    pub(crate) abandoned: CancellationToken,
}

/// What an item cost so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Tally {
    pub(crate) requests: u32,
    pub(crate) attempts: u32,
    /// When the first request was sent.
    pub(crate) started: Option<Timestamp>,
    /// The replica of the last try.
    pub(crate) engine: String,
    /// The share of its prompt that had been sent to some replica before, where others share its beginning.
    pub(crate) reusable: Option<f64>,
}

/// What to do after a verdict.
#[derive(Debug, PartialEq)]
enum Step<T> {
    End(Ended<T>),
    Again { pause: Duration, connection: Connection },
}

/// What a try has brought, however it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Brought {
    Nothing,
    /// Tokens, from which the next try cannot go on.
    Lost,
    /// Tokens, from which it can.
    Kept,
}

/// What one question may cost.
#[derive(Debug)]
pub(crate) struct Budget {
    tries: u32,
    /// What the try that is judged counts: 0 or 1.
    weight: u32,
    bad: u32,
    lost: u32,
    redone: u32,
    /// The pause before the try that follows, where the one that is judged lost its tokens, and not for the first time.
    redone_pause: Option<Duration>,
    refused: u32,
    busy_since: Option<Instant>,
    backoff: Backoff,
    redone_backoff: Backoff,
}

impl Budget {
    /// So many tries that an engine answered badly.
    pub(crate) fn new(tries: u32) -> Self {
        Self {
            tries: tries.max(1),
            weight: 1,
            bad: 0,
            lost: 0,
            redone: 0,
            redone_pause: None,
            refused: 0,
            busy_since: None,
            backoff: Backoff::new(NEXT_PAUSE, LATER_PAUSE),
            redone_backoff: Backoff::new(REDONE_PAUSE, REDONE_LATER_PAUSE),
        }
    }

    /// What follows a try. One that has brought the answer on counts for nothing, and neither do those before it, so that an
    /// answer which takes long may outlive any number of engines: each such try is a token at least, so the cap bounds them. One
    /// whose tokens are lost is not held against the item either, but bounded on its own.
    fn judge<T>(&mut self, verdict: Verdict<T>, brought: Brought, now: Instant) -> Step<T> {
        // An answer that says nothing has brought nothing, whatever tokens came with it; and one that its engine does not end was
        // not interrupted by anything.
        let brought = match verdict {
            Verdict::Suspect(_) | Verdict::Endless { .. } => Brought::Nothing,
            _ => brought,
        };
        self.weight = u32::from(brought == Brought::Nothing);
        self.redone_pause = None;
        match brought {
            Brought::Nothing => {}
            Brought::Lost => {
                self.redone += 1;
                self.redone_pause = (self.redone > 1).then(|| self.redone_backoff.next_pause());
            }
            Brought::Kept => {
                (self.bad, self.lost) = (0, 0);
                self.backoff.reset();
            }
        }
        let failed = |detail| Step::End(Ended::Failed(Ending::EngineError, detail));
        if !matches!(verdict, Verdict::Busy { .. }) {
            self.busy_since = None;
        }
        match verdict {
            Verdict::Done(answer) => Step::End(Ended::Answered(answer)),
            Verdict::Suspect(answer) => match self.bad_try(Connection::New, Some(FIRST_PAUSE)) {
                Some(again) if self.bad < MOST_EMPTY => again,
                _ => Step::End(Ended::Answered(answer)),
            },
            Verdict::Retry {
                why,
                on_new_connection,
                retry_after,
            } => {
                let connection = if on_new_connection {
                    Connection::New
                } else {
                    Connection::Kept
                };
                self.bad_try(connection, retry_after).unwrap_or_else(|| failed(why))
            }
            Verdict::Busy { why, .. } => {
                if now.duration_since(*self.busy_since.get_or_insert(now)) >= BUSY_PATIENCE {
                    return failed(format!("busy for {BUSY_PATIENCE:?}: {why}"));
                }
                Step::at_once()
            }
            Verdict::Down { sent: true, why } => {
                self.lost += self.weight;
                if self.lost >= MOST_LOST {
                    return failed(format!("{} engines ended while they answered it: {why}", self.lost));
                }
                if self.redone >= MOST_REDONE {
                    return failed(format!("{} answers to it were interrupted: {why}", self.redone));
                }
                // The first loss is the replica's, and another one may be there.
                let pause = match self.redone_pause {
                    Some(pause) => pause,
                    None if self.lost <= 1 => Duration::ZERO,
                    None => self.backoff.next_pause(),
                };
                Step::Again {
                    pause,
                    connection: Connection::Kept,
                }
            }
            Verdict::Stalled { why } | Verdict::Endless { why } => {
                self.bad_try(Connection::New, None).unwrap_or_else(|| failed(why))
            }
            // The replica is marked; another one is asked, or its return is waited for.
            Verdict::Down { sent: false, .. } => Step::at_once(),
            Verdict::Fatal { detail } => {
                self.refused += 1;
                if self.refused >= MOST_REFUSED {
                    return failed(detail);
                }
                Step::at_once()
            }
            Verdict::Overflow { detail } => Step::End(Ended::Failed(Ending::ContextOverflow, detail)),
            Verdict::Rejected { detail } | Verdict::Unsupported { detail } => failed(detail),
        }
    }

    /// Counts a bad try; `None` when it was the last one.
    fn bad_try<T>(&mut self, connection: Connection, retry_after: Option<Duration>) -> Option<Step<T>> {
        self.bad += self.weight;
        (self.bad < self.tries && self.redone < MOST_REDONE).then(|| Step::Again {
            pause: match retry_after.map(|pause| pause.min(LONGEST_PAUSE)).or(self.redone_pause) {
                Some(pause) => pause,
                None if self.bad <= 1 => FIRST_PAUSE,
                None => self.backoff.next_pause(),
            },
            connection,
        })
    }
}

impl<T> Step<T> {
    /// Without a pause here: the pool holds requests back until a replica takes them.
    const fn at_once() -> Self {
        Self::Again {
            pause: Duration::ZERO,
            connection: Connection::Kept,
        }
    }
}

/// What a verdict tells about its replica.
fn sign<T>(verdict: &Verdict<T>) -> Option<Sign> {
    let sign = match verdict {
        Verdict::Done(_) | Verdict::Overflow { .. } | Verdict::Rejected { .. } => Sign::Good,
        // Nothing need have been sent.
        Verdict::Unsupported { .. } => return None,
        Verdict::Suspect(_) => Sign::Empty,
        Verdict::Retry { .. } | Verdict::Endless { .. } => Sign::Bad,
        Verdict::Stalled { .. } => Sign::Stalled,
        Verdict::Busy {
            status, retry_after, ..
        } => Sign::Busy {
            overloaded: *status == 429,
            pause: *retry_after,
        },
        Verdict::Down { .. } => Sign::Away,
        Verdict::Fatal { detail } => Sign::Refusing(detail.clone()),
    };
    Some(sign)
}

/// It is the replica that cannot answer, and another one may: its context is shorter, or it lacks what is asked for.
const fn is_of_replica<T>(verdict: &Verdict<T>) -> bool {
    matches!(verdict, Verdict::Overflow { .. } | Verdict::Unsupported { .. })
}

/// Where a request finds its place.
pub(crate) struct Places<'a, E> {
    /// The engines of the item's group.
    pub(crate) pool: &'a Pool<E>,
    /// The requests that this process may have in flight, over all groups.
    pub(crate) room: &'a Semaphore,
    /// What the item wants of its replica.
    pub(crate) wish: Wish,
}

impl<'a, E: Engine> Places<'a, E> {
    /// Waits for a place at a replica and, once it is there, for room in this process: what waits for an engine takes no room
    /// from the other groups. `avoid` is taken only where no other replica has a place, and none of `barred` while another serves.
    ///
    /// # Cancel safety
    /// Nothing stays booked when the future is dropped.
    async fn take(&self, avoid: Option<usize>, barred: Barred) -> Result<Place<'a, E>, Hopeless> {
        let wish = Wish {
            avoid,
            barred,
            ..self.wish
        };
        let booking = self.pool.book(wish).await?;
        // Nobody closes the room.
        let room = self.room.acquire().await.ok();
        Ok(Place { booking, _room: room })
    }
}

/// A request's place at a replica and in this process, given back when dropped.
struct Place<'a, E: Engine> {
    booking: Booking<'a, E>,
    _room: Option<SemaphorePermit<'a>>,
}

/// Asks until there is an ending, the budget is spent, or the item must be given back: on a signal, or because somebody
/// else has finished it.
///
/// # Cancel safety
/// What has arrived is kept in the question.
pub(crate) async fn ask<E: Engine, A: Ask<E>>(
    places: Places<'_, E>,
    question: &mut A,
    mut budget: Budget,
    signals: &Signals,
    course: &mut Course<'_>,
) -> Result<Ended<A::Answer>, GivenBack> {
    let mut connection = Connection::Kept;
    let mut avoid = None;
    let mut barred = Barred::default();
    loop {
        let place = tokio::select! { biased;
            () = signals.stopped.cancelled() => return Err(GivenBack::Stopped),
            place = places.take(avoid, barred) => place,
        };
        let mut place = match place {
            Ok(place) => place,
            Err(hopeless) => return Ok(Ended::Failed(Ending::EngineError, hopeless.to_string())),
        };
        // Given back, it is delivered again and answered from its record.
        let is_overtaken = tokio::select! { biased;
            () = signals.stopped.cancelled() => return Err(GivenBack::Stopped),
            is_overtaken = course.is_overtaken() => is_overtaken,
        };
        if is_overtaken {
            return Err(GivenBack::Overtaken);
        }
        if !place.booking.begin() {
            // While it waited, the replica went away or asked to be left alone.
            continue;
        }
        let engine = place.booking.engine();
        let (kept, may_pause) = (question.kept(engine), question.may_pause(engine));
        let attempt = tokio::select! {
            attempt = ask_once(&place.booking, question, connection, &mut course.tally) => attempt,
            () = signals.stopped.cancelled(), if may_pause => return Err(GivenBack::Stopped),
            () = signals.abandoned.cancelled() => return Err(GivenBack::Stopped),
        };
        let brought = if question.kept(engine) > kept {
            Brought::Kept
        } else if question.has_begun() {
            Brought::Lost
        } else {
            Brought::Nothing
        };
        if let Some(sign) = sign(&attempt) {
            place.booking.note(sign);
        }
        let index = place.booking.index;
        avoid = Some(index);
        if is_of_replica(&attempt) && barred.add(index) && places.pool.has_other(&barred) {
            continue;
        }
        if matches!(attempt, Verdict::Suspect(_)) && place.booking.is_stopped() {
            // The engine is at fault, and the item waits until one request has shown that it is not any more.
            connection = Connection::New;
            continue;
        }
        drop(place);
        let pause = match budget.judge(attempt, brought, Instant::now()) {
            Step::End(ended) => return Ok(ended),
            Step::Again {
                pause,
                connection: next,
            } => {
                connection = next;
                pause
            }
        };
        tokio::select! { biased;
            () = signals.stopped.cancelled() => return Err(GivenBack::Stopped),
            () = sleep(pause) => {}
        }
    }
}

async fn ask_once<E: Engine, A: Ask<E>>(
    booking: &Booking<'_, E>,
    question: &mut A,
    connection: Connection,
    tally: &mut Tally,
) -> Verdict<A::Answer> {
    let begun = Instant::now();
    tally.started.get_or_insert_with(now);
    let flows = || booking.flows();
    let Attempt { verdict, requests } = tokio::select! { biased;
        attempt = question.ask(booking.engine(), connection, &flows) => attempt,
        () = booking.lost() => lost(),
    };
    tally.attempts += 1;
    tally.requests += requests;
    if tally.engine != booking.name() {
        booking.name().clone_into(&mut tally.engine);
    }
    if let Verdict::Done(answer) = &verdict {
        booking.took(A::took(answer));
    }
    let ending = match &verdict {
        Verdict::Done(answer) => A::ending(answer).label(),
        other => other.label(),
    };
    tidemill_telemetry::add(Metric::Requests, u64::from(requests), [("ending", ending)]);
    tidemill_telemetry::observe(Metric::RequestSeconds, begun.elapsed().as_secs_f64(), []);
    verdict
}

/// The replica died, or stands still, while it answered; no connection need have said so.
fn lost<T>() -> Attempt<T> {
    Attempt {
        verdict: Verdict::Down {
            why: "the engine gives no sign of life any more".to_owned(),
            sent: true,
        },
        requests: 1,
    }
}

#[cfg(test)]
mod tests;
