//! Which replica is picked, when one is left alone, and when all hope is lost.

use super::*;

fn picked(replicas: &Replicas, now: Instant) -> usize {
    match replicas.pick(now, None) {
        Pick::Replica(index) => index,
        other => panic!("expected a replica, got {other:?}"),
    }
}

#[test]
fn the_least_loaded_replica_is_picked_and_limits_hold() {
    let now = Instant::now();
    let mut replicas = Replicas::new([4, 2]);
    let mut booked = [0, 0];
    for _ in 0..6 {
        let index = picked(&replicas, now);
        replicas.book(index);
        booked[index] += 1;
    }
    assert_eq!(booked, [4, 2]);
    assert_eq!(replicas.pick(now, None), Pick::Wait(None));
    replicas.free(1);
    assert_eq!(picked(&replicas, now), 1);
}

#[test]
fn load_is_a_share_of_what_a_replica_takes() {
    let now = Instant::now();
    let mut replicas = Replicas::new([100, 2]);
    (0..10).for_each(|_| replicas.book(0));
    replicas.book(1);
    assert_eq!(picked(&replicas, now), 0, "a tenth against a half");
}

#[test]
fn another_replica_is_preferred_after_a_bad_answer() {
    let now = Instant::now();
    let mut replicas = Replicas::new([2, 2]);
    assert_eq!(replicas.pick(now, Some(0)), Pick::Replica(1));
    replicas.book(1);
    replicas.book(1);
    assert_eq!(replicas.pick(now, Some(0)), Pick::Replica(0), "there is no other");
}

#[test]
fn a_replica_with_many_bad_answers_is_the_second_choice_until_a_good_one() {
    let now = Instant::now();
    let mut replicas = Replicas::new([2, 2]);
    for _ in 0..SUSPICIOUS {
        assert_eq!(picked(&replicas, now), 0);
        replicas.note(0, Sign::Bad, now);
    }
    assert_eq!(picked(&replicas, now), 1);
    replicas.note(0, Sign::Good, now);
    assert_eq!(picked(&replicas, now), 0);
}

#[test]
fn a_replica_that_is_away_is_looked_at_ever_more_rarely_and_tried_with_one_request() {
    let now = Instant::now();
    let mut replicas = Replicas::new([4]);
    assert_eq!(replicas.note(0, Sign::Away, now), Change::Opened);
    assert_eq!(
        replicas.note(0, Sign::Away, now),
        Change::None,
        "the second loss of a batch tells nothing new"
    );
    assert_eq!(replicas.pick(now, None), Pick::Wait(None));
    let mut pauses = Vec::new();
    let mut time = now;
    for _ in 0..4 {
        let (_, look_at) = replicas.next_look().unwrap();
        pauses.push(look_at.duration_since(time));
        time = look_at;
        assert!(!replicas.looked(0, false, time));
    }
    assert_eq!(pauses[0], FIRST_LOOK);
    assert_eq!(pauses[3], LONGEST_LOOK);

    assert!(replicas.looked(0, true, time));
    assert_eq!(replicas.next_look(), None);
    replicas.book(picked(&replicas, time));
    assert_eq!(replicas.pick(time, None), Pick::Wait(None), "one request decides");
    assert_eq!(replicas.note(0, Sign::Good, time), Change::Closed);
    replicas.book(picked(&replicas, time));
}

#[test]
fn a_replica_that_still_answers_others_is_not_away() {
    let now = Instant::now();
    let mut replicas = Replicas::new([4]);
    replicas.note(0, Sign::Away, now);
    assert_eq!(replicas.note(0, Sign::Good, now), Change::Closed);
    assert_eq!(replicas.next_look(), None);
    assert_eq!(picked(&replicas, now), 0);
}

#[test]
fn a_request_that_fails_after_a_good_look_opens_the_breaker_again() {
    let now = Instant::now();
    let mut replicas = Replicas::new([4]);
    replicas.note(0, Sign::Away, now);
    replicas.looked(0, true, now);
    assert_eq!(replicas.note(0, Sign::Away, now), Change::Opened);
    let (_, look_at) = replicas.next_look().unwrap();
    assert_eq!(look_at.duration_since(now), FIRST_LOOK * 2);
}

#[test]
fn a_busy_replica_is_left_alone_until_it_is_due() {
    let now = Instant::now();
    let mut replicas = Replicas::new([200]);
    let seven = Duration::from_secs(7);
    (0..200).for_each(|_| replicas.book(0));
    for _ in 0..200 {
        let sign = Sign::Busy {
            overloaded: true,
            pause: Some(seven),
        };
        assert_eq!(replicas.note(0, sign, now), Change::None);
        replicas.free(0);
    }
    assert_eq!(replicas.pick(now, None), Pick::Wait(Some(now + seven)));
    let due = now + seven;
    let mut sent = 0;
    while let Pick::Replica(index) = replicas.pick(due, None) {
        replicas.book(index);
        sent += 1;
    }
    assert_eq!(sent, 100, "one cut of concurrency an episode");
    (0..150).for_each(|_| {
        replicas.note(0, Sign::Good, due);
    });
    (0..100).for_each(|_| replicas.book(0));
    assert_eq!(
        replicas.pick(due, None),
        Pick::Wait(None),
        "it grew back to its limit and no further"
    );
}

#[test]
fn patience_is_not_fewer_requests() {
    let now = Instant::now();
    let mut replicas = Replicas::new([10]);
    (0..10).for_each(|_| replicas.book(0));
    let sign = Sign::Busy {
        overloaded: false,
        pause: None,
    };
    replicas.note(0, sign, now);
    (0..10).for_each(|_| replicas.free(0));
    let due = now + SHORTEST_HOLD;
    assert!(matches!(replicas.pick(now, None), Pick::Wait(Some(time)) if time == due));
    (0..10).for_each(|_| replicas.book(picked(&replicas, due)));
}

#[test]
fn an_absurd_wait_is_bounded() {
    let now = Instant::now();
    let mut replicas = Replicas::new([10]);
    let sign = Sign::Busy {
        overloaded: true,
        pause: Some(Duration::from_secs(1_000_000)),
    };
    replicas.note(0, sign, now);
    assert_eq!(replicas.pick(now, None), Pick::Wait(Some(now + LONGEST_HOLD)));
}

#[test]
fn when_every_replica_refuses_every_request_there_is_no_hope_after_a_while() {
    let now = Instant::now();
    let mut replicas = Replicas::new([1, 1]);
    let wrong_model = || Sign::Refusing("status 404: no such model".to_owned());
    replicas.note(0, wrong_model(), now);
    assert_eq!(picked(&replicas, now), 1);
    replicas.note(1, wrong_model(), now);
    let patience = now + REFUSAL_PATIENCE;
    assert_eq!(replicas.pick(now, None), Pick::Wait(Some(patience)));
    assert_eq!(
        replicas.pick(patience, None),
        Pick::Hopeless("status 404: no such model".to_owned())
    );
    // A replica that is merely away may come back.
    let mut replicas = Replicas::new([1, 1]);
    replicas.note(0, wrong_model(), now);
    replicas.note(1, Sign::Away, now);
    assert!(matches!(replicas.pick(patience, None), Pick::Wait(_)));
}
