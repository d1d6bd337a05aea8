//! Places, who gets them, and what becomes of them when replicas come, go and die; in paused time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::FutureExt as _;
use tidemill_domain::Partial;
use tidemill_inference::{Answer, Attempt, Capabilities, Connection, ProbeError, Request, Scored, Scoring, Verdict};
use tokio::time::sleep;

use super::*;

/// An engine that is there or not, and says what it is told to say of its load.
#[derive(Default)]
struct Told {
    is_gone: Arc<AtomicBool>,
    is_silent: Arc<AtomicBool>,
    /// It takes for ever to tell its load.
    is_slow: bool,
    load: Load,
    looks: Arc<AtomicU64>,
}

impl Engine for Told {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            metrics: true,
            ..Capabilities::ASSUMED
        }
    }

    async fn complete(&self, _: &Request<'_>, _: Connection, _: &mut Partial) -> Attempt<Answer> {
        std::future::pending().await
    }

    async fn score(&self, _: &mut Scoring<'_>, _: &str, _: Connection) -> Attempt<Scored> {
        Attempt {
            verdict: Verdict::Unsupported { detail: String::new() },
            requests: 0,
        }
    }

    async fn alive(&self) -> Result<(), ProbeError> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        if self.is_silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(ProbeError::Unreachable {
                url: "http://gone".to_owned(),
                why: "refused".to_owned(),
            });
        }
        Ok(())
    }

    async fn load(&self) -> Result<Load, ProbeError> {
        if self.is_slow {
            std::future::pending::<()>().await;
        }
        self.alive().await.map(|()| self.load)
    }
}

fn member(engine: Told, max_in_flight: u32) -> Member<Told> {
    Member {
        engine,
        name: "engine".to_owned(),
        max_in_flight,
    }
}

fn pool(bounds: &[u32]) -> Pool<Told> {
    let terms = Terms {
        seed: 1,
        stall_patience: Duration::from_secs(120),
        most: 5_000,
    };
    Pool::new(
        bounds.iter().map(|bound| member(Told::default(), *bound)).collect(),
        terms,
    )
}

async fn booked<E: Engine>(pool: &Pool<E>, places: u32) -> Vec<Booking<'_, E>> {
    let mut bookings = Vec::new();
    for _ in 0..places {
        let mut booking = pool.book(Wish::default()).await.unwrap();
        assert!(booking.begin());
        bookings.push(booking);
    }
    bookings
}

#[tokio::test(start_paused = true)]
async fn a_free_place_is_handed_to_whoever_waits_longest_and_wakes_nobody_else() {
    let pool = pool(&[1]);
    let held = booked(&pool, 1).await;
    let mut waiting: Vec<_> = (0..1_000).map(|_| Box::pin(pool.book(Wish::default()))).collect();
    assert!(waiting.iter_mut().all(|waits| waits.now_or_never().is_none()));
    let woken = Arc::new(AtomicU64::new(0));
    let order = Arc::new(Mutex::new(Vec::new()));
    let all = waiting.into_iter().enumerate().map(|(number, mut waits)| {
        let (woken, order) = (Arc::clone(&woken), Arc::clone(&order));
        async move {
            let booking = std::future::poll_fn(|context| {
                woken.fetch_add(1, Ordering::Relaxed);
                waits.poll_unpin(context)
            });
            drop(booking.await.unwrap());
            order.lock().unwrap().push(number);
        }
    });
    let all = all.collect::<FuturesUnordered<_>>().collect::<Vec<()>>();
    tokio::join!(all, async { drop(held) });
    assert!(
        woken.load(Ordering::Relaxed) <= 3_000,
        "each is woken for its own place alone"
    );
    assert!(order.lock().unwrap().is_sorted());
}

#[tokio::test(start_paused = true)]
async fn a_spare_sample_that_comes_first_leaves_the_place_to_what_comes_with_it() {
    let pool = pool(&[1]);
    let spare = Wish {
        is_spare: true,
        ..Wish::default()
    };
    let order = Mutex::new(Vec::new());
    let took = |wish: Wish, name| {
        let (pool, order) = (&pool, &order);
        async move {
            let booking = pool.book(wish).await.unwrap();
            order.lock().unwrap().push(name);
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(booking);
        }
    };
    tokio::join!(took(spare, "spare"), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        took(Wish::default(), "declared before").await;
    });
    assert_eq!(order.into_inner().unwrap(), ["declared before", "spare"]);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_handed_to_one_who_gave_up_goes_to_the_next() {
    let pool = pool(&[1]);
    let held = booked(&pool, 1).await;
    let mut gives_up = Box::pin(pool.book(Wish::default()));
    let mut waits = Box::pin(pool.book(Wish::default()));
    assert!((&mut gives_up).now_or_never().is_none() && (&mut waits).now_or_never().is_none());
    drop(held);
    // It has the place and has not seen it.
    drop(gives_up);
    let booking = waits.now_or_never().unwrap().unwrap();
    assert_eq!(pool.capacity().in_flight, 1);
    drop(booking);
    assert_eq!(pool.capacity().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_joins_gets_those_that_wait_at_once_and_one_that_leaves_finishes() {
    let pool = pool(&[1]);
    let held = booked(&pool, 1).await;
    let mut waits = Box::pin(pool.book(Wish::default()));
    assert!((&mut waits).now_or_never().is_none());
    let joined = pool.join(member(Told::default(), 1));
    let booking = waits.now_or_never().unwrap().unwrap();
    assert_eq!(booking.index, joined);
    pool.leave(held[0].index);
    assert!(!held[0].life.is_cancelled(), "what it has goes on");
    drop(held);
    assert_eq!(pool.capacity().replicas.len(), 1);
    assert_eq!(pool.slots().borrow().max_ack_pending, Some(1));
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_at_a_dead_replica_is_lost_within_seconds_and_goes_on_elsewhere() {
    for silently in [false, true] {
        let (gone, silent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let engine = Told {
            is_gone: Arc::clone(&gone),
            is_silent: Arc::clone(&silent),
            ..Told::default()
        };
        let pool = pool(&[]);
        let doomed = pool.join(member(engine, 4));
        let work = async {
            let bookings = booked(&pool, 4).await;
            sleep(Duration::from_secs(60)).await;
            pool.join(member(Told::default(), 4));
            assert!(bookings.iter().all(|booking| !booking.life.is_cancelled()));
            if silently { &silent } else { &gone }.store(true, Ordering::Relaxed);
            let died = Instant::now();
            for booking in &bookings {
                booking.lost().await;
            }
            let took = died.elapsed();
            assert!(took <= Duration::from_secs(if silently { 34 } else { 3 }), "{took:?}");
            drop(bookings);
            let elsewhere = booked(&pool, 4).await;
            assert!(elsewhere.iter().all(|booking| booking.index != doomed));
            // It comes back, and one request decides.
            gone.store(false, Ordering::Relaxed);
            silent.store(false, Ordering::Relaxed);
            let back = Instant::now();
            let probe = pool.book(Wish::default()).await.unwrap();
            assert_eq!(probe.index, doomed);
            assert!(back.elapsed() <= Duration::from_secs(4), "{:?}", back.elapsed());
            probe.note(Sign::Good);
            booked(&pool, 3).await;
        };
        tokio::select! {
            () = work => {}
            () = pool.look_after() => unreachable!("looking after engines does not end"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_worker_takes_follows_the_replicas() {
    let full = Load {
        running: Some(96),
        waiting: Some(0),
        ..Load::default()
    };
    let engine = Told {
        load: full,
        ..Told::default()
    };
    let pool = pool(&[]);
    pool.join(member(engine, 1_024));
    let mut slots = pool.slots();
    let first = slots.borrow_and_update().taken;
    assert!((96..=128).contains(&first), "{first}");
    let fill = async {
        let held = booked(&pool, 96).await;
        slots.changed().await.unwrap();
        assert!(slots.borrow_and_update().taken > first, "it has room for more");
        held[0].note(Sign::Away);
        slots.changed().await.unwrap();
        assert!(slots.borrow_and_update().taken < first, "it takes nothing");
    };
    tokio::select! {
        () = fill => {}
        () = pool.look_after() => unreachable!("looking after engines does not end"),
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_are_looked_at_rarely_while_nothing_is_in_flight_and_never_twice_at_once() {
    let looks = Arc::new(AtomicU64::new(0));
    let engine = Told {
        looks: Arc::clone(&looks),
        is_silent: Arc::new(AtomicBool::new(true)),
        ..Told::default()
    };
    let pool = pool(&[]);
    pool.join(member(engine, 4));
    tokio::select! {
        () = sleep(Duration::from_millis(1_900)) => {}
        () = pool.look_after() => unreachable!("looking after engines does not end"),
    }
    assert_eq!(
        looks.load(Ordering::Relaxed),
        2,
        "neither its load nor whether it is there is answered yet"
    );

    let looks = Arc::new(AtomicU64::new(0));
    let engine = Told {
        looks: Arc::clone(&looks),
        load: Load {
            running: Some(0),
            ..Load::default()
        },
        ..Told::default()
    };
    let idle = self::pool(&[]);
    idle.join(member(engine, 4));
    tokio::select! {
        () = sleep(Duration::from_secs(60)) => {}
        () = idle.look_after() => unreachable!("looking after engines does not end"),
    }
    assert!(looks.load(Ordering::Relaxed) <= 31);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_busy_server_gets_its_place_when_that_is_due() {
    let pool = pool(&[4]);
    let busy = Sign::Busy {
        overloaded: false,
        pause: Some(Duration::from_secs(7)),
    };
    let work = async {
        booked(&pool, 1).await[0].note(busy);
        let begun = Instant::now();
        let bookings = tokio::join!(booked(&pool, 2), booked(&pool, 2));
        assert_eq!(bookings.0.len() + bookings.1.len(), 4);
        let waited = begun.elapsed();
        assert!(
            waited >= Duration::from_secs(7) && waited <= Duration::from_secs(8),
            "{waited:?}"
        );
    };
    tokio::select! {
        () = work => {}
        () = pool.look_after() => unreachable!("looking after engines does not end"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_slow_to_tell_its_load_is_there() {
    let engine = Told {
        is_slow: true,
        ..Told::default()
    };
    let pool = pool(&[]);
    pool.join(member(engine, 4));
    let work = async {
        let bookings = booked(&pool, 3).await;
        sleep(Duration::from_secs(600)).await;
        assert!(bookings.iter().all(|booking| !booking.life.is_cancelled()));
        assert_eq!(booked(&pool, 1).await.len(), 1, "it is sent more");
    };
    tokio::select! {
        () = work => {}
        () = pool.look_after() => unreachable!("looking after engines does not end"),
    }
}

#[test]
fn only_what_gives_no_status_at_all_is_nobody() {
    let (url, why) = (String::new, String::new);
    let unready = ProbeError::Unready { url: url(), why: why() };
    assert_eq!(found(&unready), Looked::Unready);
    let page = ProbeError::NotOpenAi { url: url(), why: why() };
    assert_eq!(found(&page), Looked::Unready);
    let locked = ProbeError::Unauthorised {
        url: url(),
        status: 401,
    };
    assert!(matches!(found(&locked), Looked::Refusing(_)));
    let silent = ProbeError::Silent { url: url(), why: why() };
    assert_eq!(found(&silent), Looked::Silent);
    let gone = ProbeError::Unreachable { url: url(), why: why() };
    assert_eq!(found(&gone), Looked::Nobody);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_has_begun_counts_until_its_place_is_given_back() {
    let pool = pool(&[4]);
    let mut booking = pool.book(Wish::default()).await.unwrap();
    assert!(booking.begin() && booking.begin());
    booking.flows();
    booking.flows();
    let stalled = |pool: &Pool<Told>| {
        let later = Instant::now() + Duration::from_secs(200);
        pool.lock()
            .replicas
            .looked(0, Looked::Answered, Load::default(), Some(0), later)
    };
    drop(booking);
    assert_eq!(stalled(&pool), Change::None);
    let mut booking = pool.book(Wish::default()).await.unwrap();
    assert!(booking.begin());
    booking.flows();
    assert_eq!(stalled(&pool), Change::Died);
}
