//! Which replica is picked, when one is left alone, and when all hope is lost.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const STALL: Duration = Duration::from_secs(120);

fn replicas(bounds: &[u32]) -> Replicas {
    let mut replicas = Replicas::new(7, STALL);
    for bound in bounds {
        replicas.join("engine", *bound, Instant::now());
    }
    replicas
}

/// Any replica will do.
fn any() -> Wish {
    Wish::default()
}

fn avoiding(index: usize) -> Wish {
    Wish {
        avoid: Some(index),
        ..any()
    }
}

fn with_prefix(prefix: u64) -> Wish {
    Wish {
        prefix,
        prompt_tokens: 1_000,
        ..any()
    }
}

fn picked(replicas: &Replicas, now: Instant, wish: &Wish) -> usize {
    match replicas.pick(now, wish) {
        Pick::Replica(index) => index,
        other => panic!("expected a replica, got {other:?}"),
    }
}

/// Books one request where it is best.
fn booked(replicas: &mut Replicas, now: Instant, wish: &Wish) -> Place {
    let index = picked(replicas, now, wish);
    sent(replicas, index, wish, now)
}

/// Books one request and sends it.
fn sent(replicas: &mut Replicas, index: usize, wish: &Wish, now: Instant) -> Place {
    let mut place = replicas.book(index, wish);
    replicas.begin(&mut place, now);
    place
}

fn filled(replicas: &mut Replicas, index: usize, requests: u32) -> Vec<Place> {
    (0..requests)
        .map(|_| sent(replicas, index, &any(), Instant::now()))
        .collect()
}

fn looked(replicas: &mut Replicas, index: usize, looked: Looked, now: Instant) -> Change {
    replicas.looked(index, looked, Load::default(), None, now)
}

fn busy(overloaded: bool, pause: Option<Duration>) -> Sign {
    Sign::Busy { overloaded, pause }
}

#[test]
fn the_least_loaded_replica_is_picked_and_limits_hold() {
    let now = Instant::now();
    let mut replicas = replicas(&[4, 2]);
    let places: Vec<Place> = (0..6).map(|_| booked(&mut replicas, now, &any())).collect();
    assert_eq!((replicas.in_flight(0), replicas.in_flight(1)), (4, 2));
    assert_eq!(replicas.pick(now, &any()), Pick::Wait(None));
    let of_second = places.iter().find(|place| place.index == 1).unwrap();
    replicas.free(*of_second);
    assert_eq!(picked(&replicas, now, &any()), 1);
}

#[test]
fn load_is_a_share_of_what_a_replica_takes() {
    let now = Instant::now();
    let mut replicas = replicas(&[90, 2]);
    filled(&mut replicas, 0, 10);
    filled(&mut replicas, 1, 1);
    assert_eq!(picked(&replicas, now, &any()), 0, "a ninth against a half");
}

#[test]
fn another_replica_is_preferred_after_a_bad_answer() {
    let now = Instant::now();
    let mut replicas = replicas(&[2, 2]);
    assert_eq!(picked(&replicas, now, &avoiding(0)), 1);
    filled(&mut replicas, 1, 2);
    assert_eq!(picked(&replicas, now, &avoiding(0)), 0, "there is no other");
}

#[test]
fn a_replica_with_many_bad_answers_is_the_second_choice_until_a_good_one() {
    let now = Instant::now();
    let mut replicas = replicas(&[2, 2]);
    for _ in 0..8 {
        assert_eq!(picked(&replicas, now, &any()), 0);
        replicas.note(0, Sign::Bad, now);
    }
    assert_eq!(picked(&replicas, now, &any()), 1);
    replicas.note(0, Sign::Good, now);
    assert_eq!(picked(&replicas, now, &any()), 0);
}

#[test]
fn a_replica_that_answers_nothing_of_use_is_left_alone_where_another_serves() {
    let now = Instant::now();
    let mut two = replicas(&[2, 2]);
    let changes: Vec<Change> = (0..16).map(|_| two.note(0, Sign::Bad, now)).collect();
    assert_eq!(changes.last(), Some(&Change::Opened));
    filled(&mut two, 1, 2);
    assert_eq!(two.pick(now, &any()), Pick::Wait(None), "it is sent nothing");
    let at = two.next_look(0, now).unwrap();
    assert_eq!(looked(&mut two, 0, Looked::Answered, at), Change::Closed);
    let probe = booked(&mut two, at, &any());
    assert_eq!(two.pick(at, &any()), Pick::Wait(None), "one request decides");
    assert_eq!(two.note(0, Sign::Good, at), Change::Closed);
    two.free(probe);
    assert_eq!(picked(&two, at, &any()), 0);

    let mut alone = replicas(&[2]);
    assert!((0..100).all(|_| alone.note(0, Sign::Bad, now) == Change::None));
    assert_eq!(picked(&alone, now, &any()), 0, "its items' budgets end that");
}

#[test]
fn a_replica_that_is_away_is_tried_with_one_request_whatever_is_stuck_there() {
    let now = Instant::now();
    let mut replicas = replicas(&[4]);
    filled(&mut replicas, 0, 3);
    assert_eq!(replicas.note(0, Sign::Away, now), Change::Opened);
    assert_eq!(replicas.note(0, Sign::Away, now), Change::None);
    assert_eq!(replicas.pick(now, &any()), Pick::Wait(None));
    let at = replicas.next_look(0, now).unwrap();
    assert!(at - now <= SECOND);
    assert_eq!(looked(&mut replicas, 0, Looked::Silent, at), Change::None);
    let at = replicas.next_look(0, at).unwrap();
    assert_eq!(looked(&mut replicas, 0, Looked::Answered, at), Change::Closed);
    let probe = booked(&mut replicas, at, &any());
    assert_eq!(replicas.pick(at, &any()), Pick::Wait(None), "one request decides");
    assert_eq!(replicas.note(0, Sign::Good, at), Change::Closed);
    replicas.free(probe);
    booked(&mut replicas, at, &any());
}

#[test]
fn a_replica_that_comes_back_as_another_server_is_sent_nothing_and_says_why_until_it_is_what_it_was() {
    let now = Instant::now();
    let mut replicas = replicas(&[4]);
    filled(&mut replicas, 0, 2);
    replicas.note(0, Sign::Away, now);
    let another = |reason: &str| Looked::Another(reason.to_owned());
    let change = looked(&mut replicas, 0, another("of 2048 tokens"), now + SECOND);
    assert_eq!(change, Change::Opened, "it is said, although it was away");
    for at in 2..100 {
        let at = now + at * SECOND;
        assert_eq!(looked(&mut replicas, 0, another("of 2048 tokens"), at), Change::None);
        assert_eq!(replicas.note(0, Sign::Good, at), Change::None, "it may answer well");
        assert_eq!(replicas.pick(at, &any()), Pick::Wait(None));
        assert!(replicas.next_look(0, at).unwrap() <= at + SECOND);
    }
    let at = now + 100 * SECOND;
    let trouble = replicas.capacity(at).replicas[0].trouble.clone().unwrap();
    assert_eq!((trouble.kind, trouble.since_seconds), (TroubleKind::Away, 100));
    assert_eq!(trouble.reason.as_deref(), Some("of 2048 tokens"));
    assert_eq!(
        looked(&mut replicas, 0, another("owned by b"), at),
        Change::Opened,
        "another reason is said too"
    );
    assert_eq!(looked(&mut replicas, 0, Looked::Answered, at), Change::Closed);
    booked(&mut replicas, at, &any());
    assert_eq!(
        looked(&mut replicas, 0, another("owned by b"), at),
        Change::Opened,
        "while one request tries it"
    );
    assert_eq!(replicas.note(0, Sign::Good, at), Change::None);
    assert_eq!(looked(&mut replicas, 0, Looked::Answered, at), Change::Closed);
    assert_eq!(replicas.note(0, Sign::Good, at), Change::Closed);
    assert_eq!(replicas.capacity(at).replicas[0].trouble, None);
}

#[test]
fn a_replica_that_is_away_and_serves_another_model_says_so() {
    let now = Instant::now();
    let mut replicas = replicas(&[4]);
    replicas.note(0, Sign::Away, now);
    let other = Looked::Refusing("it serves \"other\"".to_owned());
    assert_eq!(looked(&mut replicas, 0, other, now + SECOND), Change::None);
    let reason = |replicas: &Replicas| {
        let trouble = replicas.capacity(now + SECOND).replicas[0].trouble.clone();
        trouble.and_then(|trouble| trouble.reason)
    };
    assert_eq!(reason(&replicas).as_deref(), Some("it serves \"other\""));
    looked(&mut replicas, 0, Looked::Nobody, now + 2 * SECOND);
    assert_eq!(reason(&replicas), None);
}

#[test]
fn a_replica_that_still_answers_others_is_not_away() {
    let now = Instant::now();
    let mut replicas = replicas(&[4]);
    replicas.note(0, Sign::Away, now);
    assert_eq!(replicas.note(0, Sign::Good, now), Change::Closed);
    assert_eq!(picked(&replicas, now, &any()), 0);
}

#[test]
fn a_dead_replica_is_known_within_three_looks_and_what_it_holds_is_lost() {
    let mut now = Instant::now();
    let mut replicas = replicas(&[4, 4]);
    filled(&mut replicas, 0, 3);
    let begun = now;
    let mut changes = Vec::new();
    for _ in 0..3 {
        now = replicas.next_look(0, now).unwrap();
        changes.push(looked(&mut replicas, 0, Looked::Nobody, now));
    }
    assert_eq!(changes, [Change::None, Change::None, Change::Died]);
    assert!(now - begun <= 3 * SECOND);
    assert_eq!(picked(&replicas, now, &any()), 1);

    // Requests fail as well, and nobody is there: no doubt is left.
    filled(&mut replicas, 1, 3);
    replicas.note(1, Sign::Away, now);
    assert_eq!(looked(&mut replicas, 1, Looked::Nobody, now), Change::Died);
    assert_eq!(replicas.allowed(), 0);
}

#[test]
fn an_engine_that_is_too_busy_for_looks_but_works_is_not_dead() {
    let now = Instant::now();
    let mut replicas = replicas(&[4]);
    filled(&mut replicas, 0, 3);
    for pieces in 1..20 {
        let change = replicas.looked(0, Looked::Silent, Load::default(), Some(pieces), now);
        assert_eq!(change, Change::None);
    }
    assert_eq!(picked(&replicas, now, &any()), 0);
}

#[test]
fn an_engine_in_which_nothing_moves_is_lost_also_when_it_answers_looks() {
    let now = Instant::now();
    let at =
        |replicas: &mut Replicas, pieces, now| replicas.looked(0, Looked::Answered, Load::default(), Some(pieces), now);
    let mut one = replicas(&[4]);
    let places = filled(&mut one, 0, 3);
    one.flows(places[0], now);
    at(&mut one, 10, now);
    assert_eq!(at(&mut one, 10, now + STALL - SECOND), Change::None);
    assert_eq!(at(&mut one, 10, now + STALL), Change::Died);
    one.ended(0);
    places.into_iter().for_each(|place| one.free(place));
    // The next one waits for its first token for as long as it takes.
    let later = now + STALL + SECOND;
    assert_eq!(at(&mut one, 10, later), Change::Closed);
    booked(&mut one, later, &any());
    assert_eq!(at(&mut one, 10, later + 10 * STALL), Change::None);

    // Where pieces are not counted, answers that stall one after another say it.
    let mut uncounted = replicas(&[4]);
    for place in filled(&mut uncounted, 0, 3) {
        uncounted.flows(place, now);
    }
    uncounted.note(0, Sign::Good, now);
    assert_eq!(uncounted.note(0, Sign::Stalled, now + STALL / 2), Change::None);
    assert_eq!(uncounted.note(0, Sign::Stalled, now + STALL), Change::Died);
}

#[test]
fn a_replica_does_not_stand_still_while_nothing_of_it_is_awaited_but_first_tokens() {
    let now = Instant::now();
    let at =
        |replicas: &mut Replicas, pieces, now| replicas.looked(0, Looked::Answered, Load::default(), Some(pieces), now);
    let mut waits = replicas(&[8]);
    // Two that were sent together: one is answered, the other waits for its first token ever since.
    let places = filled(&mut waits, 0, 2);
    waits.flows(places[0], now);
    at(&mut waits, 10, now + SECOND);
    waits.ended(0);
    waits.free(places[0]);
    assert_eq!(at(&mut waits, 10, now + 2 * STALL), Change::None);

    // Places whose items wait for a broker that is away are not in flight, for the controller neither.
    let mut booked = replicas(&[8]);
    let sent = filled(&mut booked, 0, 1);
    at(&mut booked, 10, now + SECOND);
    let places: Vec<Place> = (0..4).map(|_| booked.book(0, &any())).collect();
    booked.free(sent[0]);
    assert_eq!(at(&mut booked, 10, now + 2 * STALL), Change::None);
    assert_eq!((booked.in_flight(0), booked.states[&0].sent), (4, 0));
    places.into_iter().for_each(|place| booked.free(place));
}

#[test]
fn a_place_holds_until_its_replica_is_away_or_asks_to_be_left_alone() {
    let now = Instant::now();
    for sign in [busy(true, Some(7 * SECOND)), Sign::Away, Sign::Refusing(String::new())] {
        let mut replicas = replicas(&[4]);
        let (mut first, mut second) = (replicas.book(0, &any()), replicas.book(0, &any()));
        assert!(replicas.begin(&mut first, now));
        replicas.note(0, sign.clone(), now);
        assert!(!replicas.begin(&mut second, now), "{sign:?}");
        replicas.free(second);
    }
    // The one request that decides goes out; one that was booked before does not.
    let mut replicas = replicas(&[4]);
    let mut early = replicas.book(0, &any());
    replicas.note(0, Sign::Away, now);
    looked(&mut replicas, 0, Looked::Answered, now);
    let mut probe = replicas.book(0, &any());
    assert!(!replicas.begin(&mut early, now) && replicas.begin(&mut probe, now));
    replicas.leave(0);
    assert!(!replicas.begin(&mut early, now));
}

#[test]
fn a_slow_engine_is_sent_nothing_more_and_keeps_what_it_has() {
    let now = Instant::now();
    let mut replicas = replicas(&[4]);
    filled(&mut replicas, 0, 3);
    let mut changes = Vec::new();
    let mut time = now;
    while time < now + 26 * SECOND {
        time = replicas.next_look(0, time).unwrap() + 2 * SECOND;
        changes.push(looked(&mut replicas, 0, Looked::Silent, time));
    }
    assert_eq!(changes.iter().filter(|change| **change != Change::None).count(), 1);
    assert_eq!(changes[2], Change::Opened);
    assert_eq!(replicas.pick(time, &any()), Pick::Wait(None));
    assert_eq!(
        looked(&mut replicas, 0, Looked::Silent, now + 31 * SECOND),
        Change::Died
    );
}

#[test]
fn a_status_at_a_look_is_not_nobody_and_what_works_is_not_lost() {
    let now = Instant::now();
    let mut replicas = replicas(&[4]);
    filled(&mut replicas, 0, 3);
    replicas.note(0, Sign::Away, now);
    for second in 1..60 {
        let now = now + second * SECOND;
        assert_eq!(looked(&mut replicas, 0, Looked::Unready, now), Change::None);
    }
    // Its streams bring tokens although nothing new gets through.
    let at = now + 60 * SECOND;
    let change = replicas.looked(0, Looked::Nobody, Load::default(), Some(7), at);
    assert_eq!(change, Change::None);
    assert_eq!(
        looked(&mut replicas, 0, Looked::Nobody, at),
        Change::None,
        "it worked just now"
    );
}

#[test]
fn preemptions_count_from_the_first_look_on() {
    let now = Instant::now();
    let mut replicas = replicas(&[4, 4]);
    let mut at = |index, preemptions| {
        let load = Load {
            preemptions,
            ..Load::default()
        };
        replicas.looked(index, Looked::Answered, load, None, now);
        replicas.preemptions()
    };
    assert_eq!((at(0, Some(1_000)), at(0, Some(1_002))), (0, 2));
    assert_eq!((at(1, Some(50)), at(0, None), at(0, Some(1_003))), (2, 2, 3));
    assert_eq!((at(0, Some(1)), at(0, Some(2))), (3, 4), "it began anew");
}

#[test]
fn a_busy_replica_is_left_alone_until_it_is_due_and_cut_once() {
    let now = Instant::now();
    let mut replicas = replicas(&[90]);
    let seven = Duration::from_secs(7);
    for place in filled(&mut replicas, 0, 90) {
        assert_eq!(replicas.note(0, busy(true, Some(seven)), now), Change::Level);
        replicas.free(place);
    }
    let Pick::Wait(Some(due)) = replicas.pick(now, &any()) else {
        panic!("it is left alone");
    };
    assert!(
        due >= now + seven && due <= now + seven + SECOND,
        "as asked, and a little apart from others"
    );
    assert_eq!(replicas.pick(now + seven - SECOND, &any()), Pick::Wait(Some(due)));
    let mut went = 0;
    while let Pick::Replica(index) = replicas.pick(due, &any()) {
        sent(&mut replicas, index, &any(), due);
        went += 1;
    }
    assert_eq!(went, 45, "all were turned away: half, and once");
}

#[test]
fn a_server_that_turns_some_away_is_sent_as_many_as_it_took() {
    let now = Instant::now();
    let mut replicas = replicas(&[96]);
    let places = filled(&mut replicas, 0, 96);
    for place in &places[..20] {
        replicas.note(0, busy(true, Some(SECOND)), now);
        replicas.free(*place);
    }
    assert!((70..=76).contains(&replicas.allowed()), "{}", replicas.allowed());
}

#[test]
fn patience_is_not_fewer_requests() {
    let now = Instant::now();
    let mut replicas = replicas(&[10]);
    let places = filled(&mut replicas, 0, 10);
    replicas.note(0, busy(false, None), now);
    places.into_iter().for_each(|place| replicas.free(place));
    let Pick::Wait(Some(due)) = replicas.pick(now, &any()) else {
        panic!("it is left alone for a moment");
    };
    assert!(due - now <= SECOND);
    for _ in 0..10 {
        booked(&mut replicas, due, &any());
    }
}

#[test]
fn an_absurd_wait_is_bounded() {
    let now = Instant::now();
    let mut replicas = replicas(&[10]);
    replicas.note(0, busy(true, Some(Duration::from_secs(1_000_000))), now);
    let Pick::Wait(Some(due)) = replicas.pick(now, &any()) else {
        panic!("it is left alone");
    };
    assert!(due - now >= Duration::from_secs(15 * 60) && due - now <= Duration::from_secs(15 * 60 + 1));
}

#[test]
fn when_every_replica_refuses_every_request_there_is_no_hope_after_a_while() {
    let now = Instant::now();
    let mut two = replicas(&[1, 1]);
    let wrong_model = || Sign::Refusing("status 404: no such model".to_owned());
    two.note(0, wrong_model(), now);
    assert_eq!(picked(&two, now, &any()), 1);
    two.note(1, wrong_model(), now);
    let patience = now + REFUSAL_PATIENCE;
    assert_eq!(two.pick(patience, &any()), Pick::Wait(None), "once is not always");
    two.note(0, wrong_model(), patience);
    assert_eq!(two.pick(patience, &any()), Pick::Wait(None), "the other one may not");
    assert_eq!(
        two.note(1, wrong_model(), patience),
        Change::Level,
        "those that wait are told"
    );
    assert_eq!(
        two.pick(patience, &any()),
        Pick::Hopeless("status 404: no such model".to_owned())
    );
    // A replica that is merely away may come back.
    let mut two = replicas(&[1, 1]);
    two.note(0, wrong_model(), now);
    two.note(1, Sign::Away, now);
    two.note(0, wrong_model(), patience);
    assert!(matches!(two.pick(patience, &any()), Pick::Wait(_)));
}

#[test]
fn a_refusal_before_an_outage_is_not_hopeless_however_long_the_outage() {
    let refusal = || Sign::Refusing("status 404".to_owned());
    let outages: [fn(&mut Replicas, Instant) -> Change; 4] = [
        |one, now| one.note(0, Sign::Away, now),
        |one, now| one.looked(0, Looked::Nobody, Load::default(), None, now),
        |one, now| one.looked(0, Looked::Silent, Load::default(), None, now),
        |one, now| one.looked(0, Looked::Unready, Load::default(), None, now),
    ];
    for outage in outages {
        let now = Instant::now();
        let mut one = replicas(&[4]);
        one.note(0, refusal(), now);
        outage(&mut one, now + SECOND);
        let later = now + 60 * SECOND;
        assert_eq!(one.pick(later, &any()), Pick::Wait(None));
        one.note(0, refusal(), later);
        assert_eq!(one.pick(later, &any()), Pick::Wait(None), "it begins anew");
        // One that refuses looks as well is not tried, and refuses all the same.
        let change = looked(&mut one, 0, Looked::Refusing(String::new()), later + REFUSAL_PATIENCE);
        assert_eq!(change, Change::Level);
        assert!(matches!(one.pick(later + REFUSAL_PATIENCE, &any()), Pick::Hopeless(_)));
    }
}

#[test]
fn one_that_leaves_finishes_what_it_has_and_one_that_joins_is_picked_at_once() {
    let now = Instant::now();
    let mut replicas = replicas(&[4]);
    let places = filled(&mut replicas, 0, 2);
    replicas.leave(0);
    assert_eq!(replicas.pick(now, &any()), Pick::Wait(None));
    let joined = replicas.join("another", 4, now);
    assert_eq!(picked(&replicas, now, &any()), joined);
    assert_eq!((replicas.bound(), replicas.in_flight(0)), (4, 2));
    places.into_iter().for_each(|place| replicas.free(place));
    assert_eq!(replicas.next_look(0, now), None, "it is forgotten");
}

#[test]
fn a_prefix_goes_where_it_was_while_that_costs_no_balance() {
    let mut replicas = replicas(&[64, 64]);
    let now = Instant::now();
    let first = booked(&mut replicas, now, &with_prefix(5));
    assert_eq!(
        picked(&replicas, now, &with_prefix(5)),
        1 - first.index,
        "the other one is idle"
    );
    // Both are busy, and the one that has the prefix a little more.
    filled(&mut replicas, first.index, 40);
    filled(&mut replicas, 1 - first.index, 40);
    assert_eq!(picked(&replicas, now, &with_prefix(5)), first.index);
    assert_eq!(picked(&replicas, now, &with_prefix(6)), 1 - first.index);
    filled(&mut replicas, first.index, 10);
    assert_eq!(
        picked(&replicas, now, &with_prefix(5)),
        1 - first.index,
        "it is too full"
    );
    // A dead one has lost its cache.
    filled(&mut replicas, 1 - first.index, 10);
    assert_eq!(replicas.fit(first.index, &with_prefix(5)), Fit::Held);
    replicas.note(first.index, Sign::Away, now);
    looked(&mut replicas, first.index, Looked::Nobody, now);
    assert_eq!(replicas.fit(first.index, &with_prefix(5)), Fit::Any);
}

#[test]
fn long_answers_are_spread_by_what_is_outstanding() {
    let now = Instant::now();
    let mut replicas = replicas(&[64, 64]);
    let expecting = |expected_tokens| Wish {
        expected_tokens,
        ..any()
    };
    for _ in 0..40 {
        let place = booked(&mut replicas, now, &expecting(100));
        replicas.free(place);
    }
    // As many on both; the first has the long ones.
    for _ in 0..20 {
        sent(&mut replicas, 0, &expecting(101), now);
        sent(&mut replicas, 1, &expecting(100), now);
    }
    sent(&mut replicas, 0, &expecting(8_000), now);
    sent(&mut replicas, 1, &expecting(100), now);
    assert_eq!(picked(&replicas, now, &expecting(8_000)), 1);
    assert_eq!(replicas.fit(0, &expecting(8_000)), Fit::Elsewhere);
    assert_eq!(replicas.fit(1, &expecting(8_000)), Fit::Any);
}

#[test]
fn why_a_replica_takes_nothing_is_told_until_it_takes_something() {
    let mut now = Instant::now();
    let mut replicas = Replicas::new(1, Duration::from_secs(120));
    let index = replicas.join("a", 8, now);
    let trouble = |replicas: &Replicas, now| replicas.capacity(now).replicas[0].trouble.clone();
    assert_eq!(trouble(&replicas, now), None);
    let busy = |overloaded| Sign::Busy {
        overloaded,
        pause: Some(Duration::from_secs(7)),
    };
    let begun = now;
    for _ in 0..5 {
        replicas.note(index, busy(false), now);
        now += Duration::from_secs(8);
    }
    replicas.note(index, busy(false), now);
    let told = trouble(&replicas, now).unwrap();
    assert_eq!((told.kind, told.since_seconds), (TroubleKind::Unavailable, 40));
    assert!(
        told.next_seconds.is_some_and(|next| (7..=9).contains(&next)),
        "{told:?}"
    );
    replicas.note(index, busy(true), now);
    assert_eq!(trouble(&replicas, now).unwrap().kind, TroubleKind::Overloaded);
    // Away counts from when it was found away, also when a try in between found it so again.
    replicas.note(index, Sign::Away, now);
    let away = trouble(&replicas, now + Duration::from_secs(3)).unwrap();
    assert_eq!((away.kind, away.since_seconds), (TroubleKind::Away, 3));
    replicas.looked(index, Looked::Answered, Load::default(), None, now);
    replicas.note(
        index,
        Sign::Refusing("no such model".to_owned()),
        now + Duration::from_secs(4),
    );
    let refusing = trouble(&replicas, now + Duration::from_secs(4)).unwrap();
    assert_eq!((refusing.kind, refusing.since_seconds), (TroubleKind::Refusing, 4));
    assert_eq!(refusing.reason.as_deref(), Some("no such model"));
    replicas.note(index, Sign::Good, now + Duration::from_secs(60));
    assert_eq!(
        trouble(&replicas, now + Duration::from_secs(60)),
        None,
        "since {begun:?}"
    );
}

#[test]
fn answers_to_what_was_taken_before_do_not_hide_that_others_are_turned_away() {
    let now = Instant::now();
    let mut replicas = Replicas::new(1, Duration::from_secs(120));
    let index = replicas.join("a", 8, now);
    let hour = Duration::from_secs(3_600);
    let busy = Sign::Busy {
        overloaded: true,
        pause: Some(hour),
    };
    replicas.note(index, busy, now);
    let later = now + Duration::from_secs(30);
    replicas.note(index, Sign::Good, later);
    let told = replicas.capacity(later).replicas[0].trouble.clone().unwrap();
    assert_eq!((told.kind, told.since_seconds), (TroubleKind::Overloaded, 30));
    let due = now + hour * 2;
    replicas.note(index, Sign::Good, due);
    assert_eq!(replicas.capacity(due).replicas[0].trouble, None);
}

#[test]
fn the_load_of_a_replica_that_went_away_is_not_told_any_more() {
    let now = Instant::now();
    let mut replicas = Replicas::new(1, Duration::from_secs(120));
    let index = replicas.join("a", 8, now);
    let load = Load {
        running: Some(5),
        waiting: Some(2),
        kv_use: Some(0.5),
        ..Load::default()
    };
    replicas.looked(index, Looked::Answered, load, None, now);
    assert_eq!(replicas.capacity(now).replicas[0].running, Some(5));
    replicas.note(index, Sign::Away, now);
    let told = &replicas.capacity(now).replicas[0];
    assert!(told.is_away);
    assert_eq!((told.running, told.waiting, told.kv_use), (None, None, None));
}
