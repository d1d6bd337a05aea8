//! Answers that are interrupted, against an engine whose tries bring as many tokens as a script says.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use futures::FutureExt as _;
use tidemill_domain::{Penalties, Prompt};
use tidemill_inference::{Capabilities, Load, ProbeError, Scored, Scoring, Watch};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::attempt::{Budget, Course, Ended, GivenBack, MOST_REDONE, Places, Signals, ask};
use crate::pool::{Member, Pool, Terms, Wish};

/// One try: so many tokens come, and then this. A try without a verdict brings nothing more and does not end.
type Try = (u32, Option<Verdict<()>>);

/// An engine that streams token after token.
struct Growing {
    tries: Mutex<VecDeque<Try>>,
    /// What each try had to go on from, and the continuations that were counted.
    begun: Mutex<Vec<(usize, u32)>>,
    continues: bool,
    /// Stalls come in the middle of a character.
    breaks_off: bool,
}

fn stalled() -> Option<Verdict<()>> {
    Some(Verdict::Stalled {
        why: "no token".to_owned(),
    })
}

fn lost() -> Option<Verdict<()>> {
    Some(Verdict::Down {
        why: "reset".to_owned(),
        sent: true,
    })
}

fn done() -> Option<Verdict<()>> {
    Some(Verdict::Done(()))
}

impl Engine for Growing {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            continues: self.continues,
            ..Capabilities::ASSUMED
        }
    }

    fn may_continue(&self, request: &Request<'_>) -> bool {
        self.continues && request.penalties.presence == 0.0
    }

    async fn complete(&self, request: &Request<'_>, connection: Connection, partial: &mut Partial) -> Attempt<Answer> {
        self.complete_watched(request, connection, partial, &mut |_| {}).await
    }

    async fn complete_watched(
        &self,
        _: &Request<'_>,
        _: Connection,
        partial: &mut Partial,
        watch: Watch<'_>,
    ) -> Attempt<Answer> {
        partial.continuations += u32::from(!partial.is_empty());
        self.begun
            .lock()
            .unwrap()
            .push((partial.tokens.len(), partial.continuations));
        let (tokens, verdict) = self.tries.lock().unwrap().pop_front().unwrap();
        partial.prompt_tokens = vec![1];
        for _ in 0..tokens {
            let token = partial.tokens.len() as u32;
            partial.tokens.push(token);
            partial.completion_tokens += 1;
            partial.text.push_str(&format!("{token} "));
            watch(partial);
            sleep(Duration::from_secs(1)).await;
        }
        // An event without a token.
        watch(partial);
        if matches!(verdict, Some(Verdict::Stalled { .. })) && self.breaks_off {
            // The first half of a character.
            partial.completion_tokens += 1;
            watch(partial);
        }
        let verdict = match verdict {
            None => std::future::pending().await,
            Some(Verdict::Done(())) => Verdict::Done(Answer {
                ending: Ending::Stop,
                text: partial.text.clone(),
                reasoning: None,
                finish_reason: None,
                stop_reason: None,
                truncated: false,
                prompt_tokens: 1,
                completion_tokens: partial.completion_tokens,
                cached_tokens: None,
                first_token_after: None,
            }),
            Some(Verdict::Stalled { why }) => Verdict::Stalled { why },
            Some(Verdict::Down { why, sent }) => Verdict::Down { why, sent },
            Some(Verdict::Endless { why }) => Verdict::Endless { why },
            Some(other) => panic!("{other:?} is not in these scripts"),
        };
        Attempt { verdict, requests: 1 }
    }

    async fn score(&self, _: &mut Scoring<'_>, _: &str, _: Connection) -> Attempt<Scored> {
        panic!("nothing is scored here")
    }

    async fn alive(&self) -> Result<(), ProbeError> {
        Ok(())
    }

    async fn load(&self) -> Result<Load, ProbeError> {
        Ok(Load::default())
    }
}

/// How asking is set up; by default everything allows to continue.
struct Setting {
    continues: bool,
    continuation: Continuation,
    presence: f64,
    stop_after: Option<Duration>,
    breaks_off: bool,
}

const EXACT: Setting = Setting {
    continues: true,
    continuation: Continuation::Exact,
    presence: 0.0,
    stop_after: None,
    breaks_off: false,
};

/// What came of asking.
struct Came {
    ended: Result<Ended<Answer>, GivenBack>,
    begun: Vec<(usize, u32)>,
    /// Tokens that the question holds at the end.
    tokens: usize,
    took: Duration,
}

impl Came {
    fn text(&self) -> &str {
        match &self.ended {
            Ok(Ended::Answered(answer)) => &answer.text,
            other => panic!("{other:?}"),
        }
    }

    fn failed(&self) -> bool {
        matches!(self.ended, Ok(Ended::Failed(Ending::EngineError, _)))
    }
}

async fn asked(setting: Setting, tries: Vec<Try>) -> Came {
    let member = Member {
        engine: Growing {
            tries: Mutex::new(tries.into()),
            begun: Mutex::default(),
            continues: setting.continues,
            breaks_off: setting.breaks_off,
        },
        name: "one".to_owned(),
        max_in_flight: 4,
    };
    let terms = Terms {
        seed: 1,
        stall_patience: Duration::from_secs(3_600),
        most: 100,
    };
    let pool = Pool::new(vec![member], terms);
    let (room, prompt) = (Semaphore::new(4), Prompt::Text("Q".to_owned()));
    let request = Request {
        prompt: &prompt,
        max_tokens: 1_000,
        temperature: 1.0,
        top_p: 1.0,
        stop: &[],
        seed: Some(7),
        penalties: Penalties {
            presence: setting.presence,
            ..Penalties::default()
        },
        stream: true,
        stall_timeout: Duration::from_secs(60),
    };
    let signals = Signals {
        stopped: CancellationToken::new(),
        abandoned: CancellationToken::new(),
    };
    let mut question = Generate::new(request, setting.continuation);
    let mut course = Course::begin(|| async { Ok(false) }.boxed());
    let stop = async {
        match setting.stop_after {
            Some(after) => sleep(after).await,
            None => std::future::pending().await,
        }
        signals.stopped.cancel();
        std::future::pending().await
    };
    let begun_at = Instant::now();
    let places = Places {
        pool: &pool,
        room: &room,
        wish: Wish::default(),
    };
    let ended = tokio::select! {
        ended = ask(places, &mut question, Budget::new(3), &signals, &mut course) => ended,
        () = pool.look_after() => unreachable!("looking after engines does not end"),
        () = stop => unreachable!("stopping does not end"),
    };
    let begun = pool
        .book(Wish::default())
        .now_or_never()
        .unwrap()
        .unwrap()
        .engine()
        .begun
        .lock()
        .unwrap()
        .clone();
    Came {
        ended,
        begun,
        tokens: question.partial.tokens.len(),
        took: begun_at.elapsed(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_answer_is_continued_from_its_tokens() {
    let came = asked(EXACT, vec![(3, stalled()), (0, lost()), (2, lost()), (1, done())]).await;
    assert_eq!(came.text(), "0 1 2 3 4 5 ");
    assert_eq!(came.begun, [(0, 0), (3, 1), (3, 2), (5, 3)]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_ends_in_the_middle_of_a_character_is_continued_from_the_one_before() {
    let breaking_off = Setting {
        breaks_off: true,
        ..EXACT
    };
    let came = asked(breaking_off, vec![(3, stalled()), (0, stalled()), (2, done())]).await;
    assert_eq!(came.text(), "0 1 2 3 4 ");
    assert_eq!(came.begun, [(0, 0), (3, 1), (3, 2)]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_continued_exactly_is_asked_for_from_the_start() {
    let never = Setting {
        continuation: Continuation::Never,
        ..EXACT
    };
    let without_ids = Setting {
        continues: false,
        ..EXACT
    };
    let with_presence = Setting { presence: 0.5, ..EXACT };
    for setting in [never, without_ids, with_presence] {
        let came = asked(setting, vec![(3, stalled()), (2, done())]).await;
        assert_eq!(came.text(), "0 1 ", "nothing of the first try is in the answer");
        assert_eq!(came.begun, [(0, 0), (0, 0)]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_progresses_outlives_any_number_of_engines_and_one_that_does_not_is_given_up() {
    let mut tries: Vec<Try> = (0..50)
        .map(|round| (1, if round % 2 == 0 { lost() } else { stalled() }))
        .collect();
    tries.push((1, done()));
    let came = asked(EXACT, tries).await;
    assert_eq!(came.text().split_whitespace().count(), 51);

    let came = asked(
        EXACT,
        vec![(1, stalled()), (0, stalled()), (0, stalled()), (0, stalled())],
    )
    .await;
    assert!(came.failed(), "{:?}", came.ended);
    assert_eq!(came.begun.len(), 4, "the first try brought it on and does not count");

    let without_ids = Setting {
        continues: false,
        ..EXACT
    };
    let came = asked(without_ids, vec![(0, stalled()), (0, stalled()), (0, stalled())]).await;
    assert!(came.failed(), "{:?}", came.ended);
}

#[tokio::test(start_paused = true)]
async fn interruptions_of_an_answer_that_cannot_be_continued_are_not_held_against_it() {
    let never = Setting {
        continuation: Continuation::Never,
        ..EXACT
    };
    let without_ids = || Setting {
        continues: false,
        ..EXACT
    };
    let interrupted = |times: u32| (0..times).map(|round| (5, if round % 2 == 0 { lost() } else { stalled() }));
    for setting in [never, without_ids()] {
        let mut tries: Vec<Try> = vec![(0, stalled()), (0, stalled())];
        tries.extend(interrupted(MOST_REDONE - 1));
        tries.push((1, done()));
        let came = asked(setting, tries).await;
        assert_eq!(came.text(), "0 ");
        assert!(came.begun.iter().all(|begun| *begun == (0, 0)), "{:?}", came.begun);
    }
    let came = asked(without_ids(), interrupted(MOST_REDONE).collect()).await;
    assert!(came.failed(), "but not for ever: {:?}", came.ended);
    let mut tries: Vec<Try> = interrupted(2).collect();
    tries.extend([(0, stalled()), (5, lost()), (0, stalled()), (0, stalled())]);
    let came = asked(without_ids(), tries).await;
    assert!(came.failed(), "nor do they excuse others: {:?}", came.ended);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_its_engine_does_not_end_is_a_bad_try_however_many_tokens_came() {
    let endless = || {
        Some(Verdict::Endless {
            why: "no end".to_owned(),
        })
    };
    let without_ids = Setting {
        continues: false,
        ..EXACT
    };
    let came = asked(without_ids, vec![(5, endless()), (5, endless()), (5, endless())]).await;
    assert!(came.failed(), "{:?}", came.ended);
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_is_given_back_at_once_where_it_can_be_continued() {
    let stop_after = Some(Duration::from_millis(2_500));
    let came = asked(Setting { stop_after, ..EXACT }, vec![(9, done())]).await;
    assert_eq!(came.ended, Err(GivenBack::Stopped));
    assert_eq!((came.tokens, came.took), (3, Duration::from_millis(2_500)));

    let without_ids = Setting {
        stop_after,
        continues: false,
        ..EXACT
    };
    let came = asked(without_ids, vec![(9, done())]).await;
    assert_eq!(came.text().split_whitespace().count(), 9, "another one is finished");
}
