//! Tries and their budgets, against scripted engines and in paused time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use tidemill_domain::{ChoiceScore, Continuation, Partial, Penalties, Prompt};
use tidemill_inference::{Answer, Capabilities, Load, ProbeError, Request};
use tidemill_service::Failure;

use super::*;
use crate::pool::{Member, Terms};

/// An engine that gives the verdicts of a list, one a request, and then good answers.
struct Scripted {
    verdicts: Mutex<VecDeque<Verdict<Answer>>>,
    connections: Mutex<Vec<Connection>>,
}

impl Scripted {
    fn member(name: &str, verdicts: impl IntoIterator<Item = Verdict<Answer>>) -> Member<Self> {
        Member {
            engine: Self {
                verdicts: Mutex::new(verdicts.into_iter().collect()),
                connections: Mutex::default(),
            },
            name: name.to_owned(),
            max_in_flight: 4,
        }
    }
}

impl Engine for Scripted {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ASSUMED
    }

    async fn complete(&self, _: &Request<'_>, connection: Connection, _: &mut Partial) -> Attempt<Answer> {
        self.connections.lock().unwrap().push(connection);
        let next = self.verdicts.lock().unwrap().pop_front();
        Attempt {
            verdict: next.unwrap_or_else(|| Verdict::Done(answer(Ending::Stop))),
            requests: 1,
        }
    }

    async fn score(&self, _: &mut Scoring<'_>, _: &str, _: Connection) -> Attempt<Scored> {
        let choice = ChoiceScore {
            log_probability: -1.0,
            tokens: 1,
            is_greedy: true,
        };
        Attempt {
            verdict: Verdict::Done(Scored {
                choice,
                prompt_tokens: 2,
                completion_tokens: 0,
            }),
            requests: 1,
        }
    }

    async fn alive(&self) -> Result<(), ProbeError> {
        Ok(())
    }

    async fn load(&self) -> Result<Load, ProbeError> {
        Ok(Load::default())
    }
}

fn pool_of(members: Vec<Member<Scripted>>) -> Pool<Scripted> {
    let terms = Terms {
        seed: 1,
        stall_patience: Duration::from_secs(60),
        most: 100,
    };
    Pool::new(members, terms)
}

fn answer(ending: Ending) -> Answer {
    Answer {
        ending,
        text: String::new(),
        reasoning: None,
        finish_reason: None,
        stop_reason: None,
        truncated: false,
        prompt_tokens: 1,
        completion_tokens: 1,
        cached_tokens: None,
        first_token_after: None,
    }
}

fn retry(why: &str) -> Verdict<Answer> {
    Verdict::Retry {
        why: why.to_owned(),
        on_new_connection: false,
        retry_after: None,
    }
}

fn down(sent: bool) -> Verdict<Answer> {
    Verdict::Down {
        why: "reset".to_owned(),
        sent,
    }
}

fn busy() -> Verdict<Answer> {
    Verdict::Busy {
        status: 429,
        why: "slow down".to_owned(),
        retry_after: Some(Duration::from_secs(7)),
    }
}

fn signals() -> Signals {
    Signals {
        stopped: CancellationToken::new(),
        abandoned: CancellationToken::new(),
    }
}

/// An item that nobody else finishes.
fn alone() -> Course<'static> {
    Course::begin(|| async { Ok(false) }.boxed())
}

async fn asked(pool: &Pool<Scripted>, signals: &Signals) -> (Result<Ended<Answer>, GivenBack>, Tally) {
    asked_on(pool, signals, alone()).await
}

async fn asked_on(
    pool: &Pool<Scripted>,
    signals: &Signals,
    mut course: Course<'_>,
) -> (Result<Ended<Answer>, GivenBack>, Tally) {
    let room = Semaphore::new(4);
    let ended = asked_within(&room, pool, signals, &mut course).await;
    (ended, course.tally)
}

/// Asks within the room of a whole process.
async fn asked_within(
    room: &Semaphore,
    pool: &Pool<Scripted>,
    signals: &Signals,
    course: &mut Course<'_>,
) -> Result<Ended<Answer>, GivenBack> {
    let prompt = Prompt::Text("Q".to_owned());
    let request = Request {
        prompt: &prompt,
        max_tokens: 4,
        temperature: 0.0,
        top_p: 1.0,
        stop: &[],
        seed: None,
        penalties: Penalties::default(),
        stream: false,
        stall_timeout: Duration::from_secs(60),
    };
    let places = Places {
        pool,
        room,
        wish: Wish::default(),
    };
    let mut question = Generate::new(request, Continuation::Exact);
    let asking = ask(places, &mut question, Budget::new(3), signals, course);
    tokio::select! {
        ended = asking => ended,
        () = pool.look_after() => unreachable!("looking after engines does not end"),
    }
}

async fn asked_of(verdicts: impl IntoIterator<Item = Verdict<Answer>>) -> (Ended<Answer>, Tally) {
    let pool = pool_of(vec![Scripted::member("one", verdicts)]);
    let (ended, tally) = asked(&pool, &signals()).await;
    (ended.unwrap(), tally)
}

fn ending(ended: &Ended<Answer>) -> Ending {
    match ended {
        Ended::Answered(answer) => answer.ending,
        Ended::Failed(ending, _) => *ending,
    }
}

#[tokio::test(start_paused = true)]
async fn a_good_answer_takes_one_try() {
    let (ended, tally) = asked_of([]).await;
    assert_eq!(ending(&ended), Ending::Stop);
    assert_eq!((tally.requests, tally.attempts, tally.engine.as_str()), (1, 1, "one"));
    assert!(tally.started.is_some());
}

#[tokio::test(start_paused = true)]
async fn bad_answers_are_tried_again_within_the_budget() {
    let (ended, tally) = asked_of([retry("a"), retry("b")]).await;
    assert_eq!((ending(&ended), tally.attempts), (Ending::Stop, 3));
    let (ended, tally) = asked_of([retry("a"), retry("b"), retry("c"), retry("d")]).await;
    assert_eq!(ended, Ended::Failed(Ending::EngineError, "c".to_owned()));
    assert_eq!(tally.attempts, 3);
}

#[tokio::test(start_paused = true)]
async fn a_suspect_answer_is_asked_for_on_new_connections_and_then_believed() {
    let suspect = || Verdict::Suspect(answer(Ending::Empty));
    let pool = pool_of(vec![Scripted::member("one", [suspect(), suspect(), suspect()])]);
    let (ended, tally) = asked(&pool, &signals()).await;
    assert_eq!((ending(&ended.unwrap()), tally.attempts), (Ending::Empty, 3));
    let booking = pool.book(Wish::default()).await.unwrap();
    assert_eq!(
        *booking.engine().connections.lock().unwrap(),
        [Connection::Kept, Connection::New, Connection::New]
    );
    let (ended, _) = asked_of([suspect()]).await;
    assert_eq!(ending(&ended), Ending::Stop, "it was the connection");
}

/// A look at DONE for each of these answers, in their order; then nothing is recorded.
type Answers = Arc<Mutex<VecDeque<Result<bool, Failure>>>>;

fn looking(answers: Vec<Result<bool, Failure>>) -> (Course<'static>, Answers) {
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let left = Arc::clone(&answers);
    let look = move || {
        let answer = answers.lock().unwrap().pop_front().unwrap_or(Ok(false));
        async { answer }.boxed()
    };
    (Course::begin(look), left)
}

#[tokio::test(start_paused = true)]
async fn an_old_look_is_renewed_before_the_first_request() {
    let pool = pool_of(vec![Scripted::member("one", [])]);
    let looked = Instant::now();
    sleep(course::LOOK_AGAIN_AFTER + Duration::from_millis(1)).await;
    let (course, left) = looking(vec![Ok(true)]);
    let (ended, tally) = asked_on(&pool, &signals(), course.after(looked)).await;
    assert_eq!(ended, Err(GivenBack::Overtaken));
    assert_eq!((tally.requests, left.lock().unwrap().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_item_that_somebody_else_finished_meanwhile_is_not_asked_again() {
    // The pause before the second try is longer than a look is good for.
    let pool = || pool_of(vec![Scripted::member("one", [busy()])]);
    let away = Err(Failure::transient("the broker is away"));
    let (course, left) = looking(vec![away, Ok(true)]);
    let (ended, tally) = asked_on(&pool(), &signals(), course).await;
    assert_eq!((ended, tally.attempts), (Err(GivenBack::Overtaken), 1));
    assert!(left.lock().unwrap().is_empty());

    let (course, left) = looking(vec![Ok(false)]);
    let (ended, tally) = asked_on(&pool(), &signals(), course).await;
    assert_eq!((ending(&ended.unwrap()), tally.attempts), (Ending::Stop, 2));
    assert!(
        left.lock().unwrap().is_empty(),
        "it was looked for before the second try"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fresh_look_is_not_taken_twice() {
    let pool = pool_of(vec![Scripted::member("one", [])]);
    let looked = Instant::now();
    sleep(course::LOOK_AGAIN_AFTER).await;
    let (course, left) = looking(vec![Ok(true)]);
    let (ended, tally) = asked_on(&pool, &signals(), course.after(looked)).await;
    assert_eq!((ending(&ended.unwrap()), tally.attempts), (Ending::Stop, 1));
    assert_eq!(left.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn refusals_of_the_item_are_not_tried_again() {
    let overflow = Verdict::Overflow {
        detail: "too long".to_owned(),
    };
    let (ended, tally) = asked_of([overflow]).await;
    assert_eq!(ended, Ended::Failed(Ending::ContextOverflow, "too long".to_owned()));
    assert_eq!(tally.attempts, 1);
    let rejected = Verdict::Rejected {
        detail: "no".to_owned(),
    };
    let (ended, tally) = asked_of([rejected]).await;
    assert_eq!((ending(&ended), tally.attempts), (Ending::EngineError, 1));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_away_is_waited_for_however_often() {
    let (ended, tally) = asked_of((0..40).map(|_| down(false))).await;
    assert_eq!((ending(&ended), tally.attempts), (Ending::Stop, 41));
}

#[tokio::test(start_paused = true)]
async fn an_item_under_which_engines_keep_ending_is_given_up() {
    let (ended, _) = asked_of((0..MOST_LOST - 1).map(|_| down(true))).await;
    assert_eq!(ending(&ended), Ending::Stop);
    let (ended, tally) = asked_of((0..MOST_LOST).map(|_| down(true))).await;
    assert_eq!((ending(&ended), tally.attempts), (Ending::EngineError, MOST_LOST));
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_left_alone_for_as_long_as_it_asks_and_not_counted() {
    let begun = Instant::now();
    let (ended, tally) = asked_of((0..10).map(|_| busy())).await;
    assert_eq!((ending(&ended), tally.attempts), (Ending::Stop, 11));
    assert!(begun.elapsed() >= Duration::from_secs(70));
    let (ended, _) = asked_of((0..1_000).map(|_| busy())).await;
    assert_eq!(ending(&ended), Ending::EngineError, "but not for ever");
}

#[tokio::test(start_paused = true)]
async fn the_other_replica_takes_over() {
    let wrong_model = Verdict::Fatal {
        detail: "no such model".to_owned(),
    };
    let members = vec![
        Scripted::member("wrong", [wrong_model]),
        Scripted::member("right", [retry("once")]),
    ];
    let (ended, tally) = asked(&pool_of(members), &signals()).await;
    assert_eq!(ending(&ended.unwrap()), Ending::Stop);
    assert_eq!((tally.attempts, tally.engine.as_str()), (3, "right"));
}

#[tokio::test(start_paused = true)]
async fn when_every_engine_refuses_every_request_the_item_ends_with_the_reason() {
    let wrong_model = || Verdict::Fatal {
        detail: "no such model".to_owned(),
    };
    let (ended, _) = asked_of((0..1_000).map(|_| wrong_model())).await;
    let Ended::Failed(Ending::EngineError, detail) = ended else {
        panic!("{ended:?}")
    };
    assert!(detail.contains("no such model"), "{detail}");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_engines_refuse_while_they_answer_others_ends_too() {
    let no_endpoint = || Verdict::Fatal {
        detail: "status 404".to_owned(),
    };
    let (ended, tally) = asked_of((0..MOST_REFUSED).map(|_| no_endpoint())).await;
    assert_eq!(ended, Ended::Failed(Ending::EngineError, "status 404".to_owned()));
    assert_eq!(tally.attempts, MOST_REFUSED);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_given_back_when_its_group_ends() {
    let pool = pool_of(vec![Scripted::member("one", (0..1_000).map(|_| down(false)))]);
    let signals = signals();
    let stop = signals.stopped.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(20)).await;
        stop.cancel();
    });
    let begun = Instant::now();
    let (ended, tally) = asked(&pool, &signals).await;
    assert_eq!(ended, Err(GivenBack::Stopped));
    assert_eq!(begun.elapsed(), Duration::from_secs(20));
    assert!(tally.attempts > 1);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_an_engine_leaves_its_room_to_other_groups() {
    // Room for one request in the whole process.
    let room = Semaphore::new(1);
    let slow_to_return = || Verdict::Busy {
        status: 503,
        why: "come back later".to_owned(),
        retry_after: Some(Duration::from_secs(30)),
    };
    let retry_later = Verdict::Retry {
        why: "later".to_owned(),
        on_new_connection: false,
        retry_after: Some(Duration::from_secs(30)),
    };
    let gone = (0..1_000).map(|_| down(false)).collect();
    for verdicts in [gone, vec![slow_to_return()], vec![retry_later]] {
        let waiting = pool_of(vec![Scripted::member("waiting", verdicts)]);
        let healthy = pool_of(vec![Scripted::member("healthy", [])]);
        let signals = signals();
        let (mut course, mut other) = (alone(), alone());
        let waits = asked_within(&room, &waiting, &signals, &mut course);
        tokio::pin!(waits);
        let answered = tokio::select! { biased;
            _ = &mut waits => panic!("the group that waits is not answered first"),
            answered = asked_within(&room, &healthy, &signals, &mut other) => answered,
        };
        assert_eq!(ending(&answered.unwrap()), Ending::Stop);
        signals.stopped.cancel();
        assert_eq!(waits.await, Err(GivenBack::Stopped));
        assert_eq!(room.available_permits(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_waited_long_for_room_is_looked_for_before_it_is_asked() {
    let room = Semaphore::new(1);
    let taken = room.acquire().await.unwrap();
    let pool = pool_of(vec![Scripted::member("one", [])]);
    let (mut course, left) = looking(vec![Ok(true)]);
    let signals = signals();
    let (ended, ()) = tokio::join!(asked_within(&room, &pool, &signals, &mut course), async {
        sleep(crate::step::LOOK_IS_GOOD_FOR + Duration::from_millis(1)).await;
        drop(taken);
    });
    assert_eq!((ended, course.tally.requests), (Err(GivenBack::Overtaken), 0));
    assert!(left.lock().unwrap().is_empty());
}

#[test]
fn tries_are_spread_so_that_an_engine_may_fail_for_some_seconds() {
    let mut budget = Budget::new(5);
    let mut pauses = Vec::new();
    let failed = loop {
        match budget.judge(retry("status 500"), Brought::Nothing, Instant::now()) {
            Step::Again { pause, .. } => pauses.push(pause),
            Step::End(ended) => break ended,
        }
    };
    assert_eq!((ending(&failed), pauses.len()), (Ending::EngineError, 4));
    assert_eq!(pauses[0], FIRST_PAUSE);
    assert!(pauses.iter().sum::<Duration>() >= Duration::from_secs(5), "{pauses:?}");
}

#[test]
fn an_answer_that_says_nothing_is_asked_for_as_often_whatever_tokens_came_with_it() {
    for brought in [Brought::Nothing, Brought::Lost, Brought::Kept] {
        let mut budget = Budget::new(5);
        let mut tries = 1;
        let suspect = || Verdict::Suspect(answer(Ending::Empty));
        while let Step::Again { .. } = budget.judge(suspect(), brought, Instant::now()) {
            tries += 1;
        }
        assert_eq!(tries, 3, "{brought:?}");
    }
}

#[test]
fn the_first_loss_of_an_engine_is_no_reason_to_wait_and_later_ones_are() {
    let mut budget = Budget::new(3);
    let mut lose = || match budget.judge(down(true), Brought::Nothing, Instant::now()) {
        Step::Again { pause, .. } => pause,
        Step::End(ended) => panic!("{ended:?}"),
    };
    assert_eq!(lose(), Duration::ZERO);
    assert!(lose() >= NEXT_PAUSE / 2);
}

#[tokio::test(start_paused = true)]
async fn what_waited_for_room_is_not_sent_while_its_server_asks_to_be_left_alone() {
    let seven = Duration::from_secs(7);
    let busy = Sign::Busy {
        overloaded: true,
        pause: Some(seven),
    };
    for (sign, due) in [(busy, seven), (Sign::Away, Duration::ZERO)] {
        let is_away = sign == Sign::Away;
        let room = Semaphore::new(1);
        let taken = room.acquire().await.unwrap();
        let pool = pool_of(vec![Scripted::member("one", [])]);
        let (signals, mut course) = (signals(), alone());
        let begun = Instant::now();
        let asking = asked_within(&room, &pool, &signals, &mut course);
        let (ended, ()) = tokio::join!(asking, async {
            let mut other = pool.book(Wish::default()).await.unwrap();
            assert!(other.begin());
            other.note(sign);
            drop((other, taken));
        });
        assert_eq!(ending(&ended.unwrap()), Ending::Stop);
        assert_eq!(course.tally.requests, 1);
        assert!(begun.elapsed() >= due, "{:?}", begun.elapsed());
        assert!(
            !is_away || begun.elapsed() >= crate::health::FIRST_LOOK,
            "only after a look"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_it_is_due_however_long_that_is() {
    let asked_for = Some(Duration::from_secs(600));
    let away = Verdict::Busy {
        status: 503,
        why: "back in ten minutes".to_owned(),
        retry_after: asked_for,
    };
    let later = Verdict::Retry {
        why: "later".to_owned(),
        on_new_connection: false,
        retry_after: asked_for,
    };
    for verdict in [away, later] {
        let begun = Instant::now();
        let (ended, tally) = asked_of([verdict]).await;
        assert_eq!((ending(&ended), tally.attempts), (Ending::Stop, 2));
        assert!(begun.elapsed() >= Duration::from_secs(600), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_replica_cannot_answer_is_tried_at_the_others_before_it_ends() {
    let overflow = || Verdict::Overflow {
        detail: "8192 tokens".to_owned(),
    };
    let unsupported = || Verdict::Unsupported {
        detail: "no such penalty".to_owned(),
    };
    for verdict in [overflow, unsupported] {
        // The one that cannot has room for it; the other is full.
        let members = vec![
            Scripted::member("cannot", (0..50).map(|_| verdict())),
            Scripted::member("can", []),
        ];
        let pool = pool_of(members);
        let held: Vec<_> = (0..8).map(|_| pool.book(Wish::default()).now_or_never()).collect();
        let (of_can, of_cannot): (Vec<_>, Vec<_>) = held
            .into_iter()
            .map(|booked| booked.unwrap().unwrap())
            .partition(|booking| booking.name() == "can");
        drop(of_cannot);
        let signals = signals();
        let (asked, ()) = tokio::join!(asked(&pool, &signals), async {
            sleep(Duration::from_secs(5)).await;
            drop(of_can);
        });
        let (ended, tally) = asked;
        assert_eq!(ending(&ended.unwrap()), Ending::Stop);
        assert_eq!((tally.attempts, tally.engine.as_str()), (2, "can"));
        let members = ["one", "other"].map(|name| Scripted::member(name, (0..50).map(|_| verdict())));
        let (ended, tally) = asked_of_all(members.into()).await;
        assert!(matches!(ended, Ended::Failed(..)), "{ended:?}");
        assert_eq!(tally.attempts, 2, "each is asked once");
    }
}

async fn asked_of_all(members: Vec<Member<Scripted>>) -> (Ended<Answer>, Tally) {
    let (ended, tally) = asked(&pool_of(members), &signals()).await;
    (ended.unwrap(), tally)
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_answers_nothing_to_everyone_uses_up_no_items_tries_and_a_silent_model_ends_all_the_same() {
    let suspect = || Verdict::Suspect(answer(Ending::Empty));
    for (empty, expected) in [(26, Ending::Stop), (1_000, Ending::Empty)] {
        let pool = pool_of(vec![Scripted::member("one", (0..empty).map(|_| suspect()))]);
        let (room, signals) = (Semaphore::new(40), signals());
        let one = |_| async {
            let mut course = alone();
            asked_within(&room, &pool, &signals, &mut course).await.unwrap()
        };
        let begun = Instant::now();
        // Their first tries take eight at a time; the engine is at fault after 16.
        let ended = futures::future::join_all((0..12).map(one)).await;
        let endings: Vec<Ending> = ended.iter().map(ending).collect();
        assert!(endings.iter().all(|ending| *ending == expected), "{endings:?}");
        assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
    }
}

#[test]
fn tries_whose_tokens_are_lost_are_spread_over_half_a_minute_and_the_first_is_repeated_at_once() {
    for verdict in [retry("aborted"), down(true)] {
        let mut budget = Budget::new(5);
        let mut pauses = Vec::new();
        let again = || match &verdict {
            Verdict::Down { .. } => down(true),
            _ => retry("aborted"),
        };
        while let Step::Again { pause, .. } = budget.judge(again(), Brought::Lost, Instant::now()) {
            pauses.push(pause);
        }
        assert_eq!(pauses.len() as u32, MOST_REDONE - 1);
        assert!(
            pauses[0] <= FIRST_PAUSE && pauses[1] < Duration::from_secs(1),
            "{pauses:?}"
        );
        assert!(pauses.iter().sum::<Duration>() >= Duration::from_secs(30), "{pauses:?}");
    }
}
