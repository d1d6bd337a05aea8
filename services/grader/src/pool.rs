//! The lanes of one grader: whoever needs a turn waits here for it.
//!
//! The rule is [`turns`](crate::turns); this gives it a clock and tells those who wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_config::Grader as Config;
use tidemill_domain::{EvaluationId, Timestamp};
use tidemill_service::{Delivery, Failure};
use tidemill_telemetry::Metric;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lanes::LaneName;
use crate::turns::{Asking, Lane, Level, Moment, Move, Place};

type Lanes = [Lane<EvaluationId, oneshot::Sender<Word>>; LaneName::ALL.len()];

/// What somebody who waits for a turn is told.
#[derive(Debug)]
enum Word {
    Turn(Turn),
    Back(Duration),
}

/// A completion of an evaluation that is to be graded in a lane.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) lane: LaneName,
    pub(crate) evaluation: EvaluationId,
    /// Its grader's kind.
    pub(crate) family: &'static str,
    /// When it was generated.
    pub(crate) since: Timestamp,
}

/// A cheap handle on the lanes.
#[derive(Debug, Clone)]
pub(crate) struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    lanes: Mutex<Lanes>,
    begun: Instant,
}

/// A turn. The lane's place is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    pool: Pool,
    lane: LaneName,
    place: Place,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = self.pool.now();
        let moves = self.pool.lanes()[self.lane.index()].finish(self.place, now);
        self.pool.tell(self.lane, moves);
    }
}

/// Somebody who waits. Nobody does any more when it is dropped.
struct Waits<'a> {
    pool: &'a Pool,
    wanted: &'a Wanted,
    place: Place,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.pool.lanes()[self.wanted.lane.index()].leave(&self.wanted.evaluation, self.place);
    }
}

impl Pool {
    pub(crate) fn new(config: &Config) -> Self {
        Self(Arc::new(Inner {
            lanes: Mutex::new(LaneName::ALL.map(|lane| Lane::new(lane.room(config)))),
            begun: Instant::now(),
        }))
    }

    /// Waits for the delivery's turn.
    ///
    /// # Errors
    /// The delivery is to be given back: there is no room for it, the grader drains, or the broker gives it to another.
    ///
    /// # Cancel safety
    /// It waits no more when the future is dropped.
    pub(crate) async fn turn(
        &self,
        wanted: &Wanted,
        delivery: &Delivery,
        draining: &CancellationToken,
    ) -> Result<Turn, Failure> {
        let (sender, told) = oneshot::channel();
        let asking = Asking {
            evaluation: wanted.evaluation.clone(),
            sequence: delivery.sequence,
            family: wanted.family,
            since: wanted.since,
            waiter: sender,
        };
        let now = self.now();
        let (place, moves) = self.lanes()[wanted.lane.index()].arrive(asking, now);
        self.tell(wanted.lane, moves);
        let _waits = Waits {
            pool: self,
            wanted,
            place,
        };
        tokio::select! { biased;
            word = told => match word {
                Ok(Word::Turn(turn)) => Ok(turn),
                Ok(Word::Back(pause)) => {
                    tidemill_telemetry::count(Metric::GradesGivenBack, [("family", wanted.family)]);
                    Err(Failure::later(format!("{} holds as many as it may", wanted.family), pause))
                }
                Err(_) => Err(Failure::cancelled()),
            },
            () = draining.cancelled() => Err(Failure::cancelled()),
            () = delivery.stopped.cancelled() => Err(Failure::cancelled()),
        }
    }

    /// What of each family is where, after giving back what is too much by now. Families in `known` are among them, and
    /// new ones are added to it, so that one that is done is said to be.
    pub(crate) fn levels(&self, known: &mut BTreeSet<&'static str>) -> BTreeMap<&'static str, Level> {
        let mut levels: BTreeMap<&'static str, Level> =
            known.iter().map(|family| (*family, Level::default())).collect();
        for lane in LaneName::ALL {
            let now = self.now();
            let (moves, found) = {
                let mut lanes = self.lanes();
                let lane = &mut lanes[lane.index()];
                (lane.go_on(now), lane.levels(now))
            };
            self.tell(lane, moves);
            for (family, level) in found {
                let all = levels.entry(family).or_default();
                *all = all.and(level);
            }
        }
        known.extend(levels.keys());
        levels
    }

    /// Tells them, with no lane locked: a turn that nobody waits for any more ends here.
    fn tell(&self, lane: LaneName, moves: Vec<Move<oneshot::Sender<Word>>>) {
        for one in moves {
            let (waiter, word) = match one {
                Move::Start(place, waiter) => {
                    let pool = self.clone();
                    (waiter, Word::Turn(Turn { pool, lane, place }))
                }
                Move::Back(waiter, pause) => (waiter, Word::Back(pause)),
            };
            drop(waiter.send(word));
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Moment {
        self.0.begun.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use tidemill_domain::Digest;

    use super::*;

    fn wanted() -> Wanted {
        Wanted {
            lane: LaneName::Code,
            evaluation: EvaluationId::from_digest(&Digest::of(b"evaluation")),
            family: "code",
            since: Timestamp(0),
        }
    }

    fn delivery(sequence: u64) -> Delivery {
        Delivery {
            subject: String::new(),
            payload: Vec::new().into(),
            trace: None,
            delivered: 1,
            sequence,
            stopped: CancellationToken::new(),
        }
    }

    /// One is graded at once, and one more is held.
    fn pool() -> Pool {
        let room = crate::turns::Room { at_once: 1, held: 2 };
        Pool(Arc::new(Inner {
            lanes: Mutex::new(LaneName::ALL.map(|_| Lane::new(room))),
            begun: Instant::now(),
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_ends_when_it_is_dropped_and_the_next_begins() {
        let (pool, wanted, draining) = (pool(), wanted(), CancellationToken::new());
        let (first, second) = (delivery(1), delivery(2));
        let turn = pool.turn(&wanted, &first, &draining).await.unwrap();
        let mut next = std::pin::pin!(pool.turn(&wanted, &second, &draining));
        tokio::time::timeout(Duration::from_secs(1), &mut next)
            .await
            .expect_err("it is somebody else's turn");
        drop(turn);
        assert!(next.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_there_is_no_room_for_is_given_back_without_a_failure() {
        let (pool, wanted, draining) = (pool(), wanted(), CancellationToken::new());
        let deliveries = [1, 2, 3].map(delivery);
        let _turn = pool.turn(&wanted, &deliveries[0], &draining).await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut second = std::pin::pin!(pool.turn(&wanted, &deliveries[1], &draining));
        tokio::select! { biased;
            _ = &mut second => panic!("it is somebody else's turn"),
            () = std::future::ready(()) => {}
        }
        let failure = pool.turn(&wanted, &deliveries[2], &draining).await.unwrap_err();
        assert_eq!(failure.class, tidemill_domain::Class::Cancelled);
        assert_eq!(failure.pause, Some(Duration::from_millis(500)));
        let level = pool.levels(&mut BTreeSet::new())["code"];
        assert_eq!((level.running, level.waiting, level.back), (1, 1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_given_back_on_drain_and_leaves_its_place() {
        let (pool, wanted, draining) = (pool(), wanted(), CancellationToken::new());
        let (first, second, third) = (delivery(1), delivery(2), delivery(3));
        let turn = pool.turn(&wanted, &first, &draining).await.unwrap();
        let cut = tokio::time::timeout(Duration::from_secs(1), pool.turn(&wanted, &third, &draining));
        assert!(cut.await.is_err());
        draining.cancel();
        let failure = pool.turn(&wanted, &second, &draining).await.unwrap_err();
        assert_eq!(
            (failure.class, failure.pause),
            (tidemill_domain::Class::Cancelled, None)
        );
        drop(turn);
        let level = pool.levels(&mut BTreeSet::from(["code"]))["code"];
        assert_eq!(level, Level::default(), "nobody waits, nothing runs");
    }
}
