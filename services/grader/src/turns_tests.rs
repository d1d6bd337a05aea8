//! The turns of a lane, alone and in a model of broker and graders in virtual time.

use std::collections::HashSet;

use super::*;

type Grading = Lane<u32, u64>;

const fn at(milliseconds: u64) -> Moment {
    Duration::from_millis(milliseconds)
}

fn asking(evaluation: u32, sequence: u64) -> Asking<u32, u64> {
    Asking {
        evaluation,
        sequence,
        family: "code",
        since: Timestamp(i64::try_from(sequence).unwrap()),
        waiter: sequence,
    }
}

fn lane(at_once: usize, held: usize) -> Grading {
    Lane::new(Room { at_once, held })
}

/// What is started and what is given back, by place in the stream.
fn told(moves: &[Move<u64>]) -> (Vec<u64>, Vec<u64>) {
    let (mut started, mut back) = (Vec::new(), Vec::new());
    for one in moves {
        match one {
            Move::Start(_, sequence) => started.push(*sequence),
            Move::Back(sequence, _) => back.push(*sequence),
        }
    }
    (started, back)
}

fn started(moves: &[Move<u64>]) -> Option<Place> {
    moves.iter().find_map(|one| match one {
        Move::Start(place, _) => Some(*place),
        Move::Back(..) => None,
    })
}

/// A series that looks drawn and is the same each time.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn evaluations_take_turns_and_the_oldest_of_each_comes_first() {
    let mut lane = lane(1, 100);
    let (_, first) = lane.arrive(asking(1, 10), at(0));
    for (evaluation, sequence) in [(1, 12), (1, 11), (1, 13), (2, 30), (2, 20), (3, 40)] {
        lane.arrive(asking(evaluation, sequence), at(0));
    }
    let (mut order, mut running) = (told(&first).0, started(&first));
    while let Some(place) = running {
        let moves = lane.finish(place, at(0));
        order.extend(told(&moves).0);
        running = started(&moves);
    }
    assert_eq!(order, [10, 11, 20, 40, 12, 30, 13]);
}

#[test]
fn a_turn_comes_after_as_many_as_there_are_evaluations_for_each_that_is_ahead_of_it_in_its_own() {
    const EVALUATIONS: u64 = 7;
    let (mut drawn, mut lane) = (Drawn(1), lane(3, usize::MAX));
    let (mut starts, mut running) = (0, Vec::new());
    let mut latest: HashMap<u64, u64> = HashMap::new();
    let mut own: HashMap<u32, HashSet<u64>> = HashMap::new();
    for sequence in 0..20_000 {
        let evaluation = u32::try_from(drawn.below(EVALUATIONS).min(drawn.below(EVALUATIONS))).unwrap();
        let ahead = own.entry(evaluation).or_default();
        latest.insert(sequence, starts + (ahead.len() as u64 + 1) * EVALUATIONS);
        ahead.insert(sequence);
        let mut moves = lane.arrive(asking(evaluation, sequence), at(0)).1;
        if drawn.below(40) > 1 && !running.is_empty() {
            let ended = drawn.below(running.len() as u64);
            moves.extend(lane.finish(running.swap_remove(usize::try_from(ended).unwrap()), at(0)));
        }
        for one in moves {
            note_start(&one, &mut starts, &mut running, &latest, &mut own);
        }
    }
    assert!(starts > 10_000, "{starts}");
}

fn note_start(
    one: &Move<u64>,
    starts: &mut u64,
    running: &mut Vec<Place>,
    latest: &HashMap<u64, u64>,
    own: &mut HashMap<u32, HashSet<u64>>,
) {
    let Move::Start(place, sequence) = one else {
        panic!("a quick lane gives nothing back: {one:?}");
    };
    *starts += 1;
    running.push(*place);
    assert!(
        *starts <= latest[sequence],
        "{sequence} at turn {starts}, due at {}",
        latest[sequence]
    );
    own.values_mut().for_each(|ahead| {
        ahead.remove(sequence);
    });
}

#[test]
fn each_evaluation_keeps_its_part_of_a_full_lane_and_its_oldest_in_it() {
    let mut lane = lane(2, 10);
    lane.arrive(asking(1, 100), at(0));
    lane.arrive(asking(1, 101), at(0));
    let mut back = Vec::new();
    for sequence in 102..200 {
        back.extend(told(&lane.arrive(asking(1, sequence), at(5_000)).1).1);
    }
    assert_eq!(back, (110..200).collect::<Vec<_>>(), "the youngest do not get in");
    // Another evaluation's push out the youngest of the one that has the most, until both have as many.
    let other: Vec<u64> = (300..306)
        .flat_map(|sequence| told(&lane.arrive(asking(2, sequence), at(5_000)).1).1)
        .collect();
    assert_eq!(other, [109, 108, 107, 106, 304, 305]);
    // One that was given back before is older than what waits.
    assert_eq!(told(&lane.arrive(asking(1, 50), at(5_000)).1).1, [105]);
}

#[test]
fn a_quick_lane_holds_what_it_gets_until_it_stands_still() {
    let mut lane = lane(2, 10);
    for sequence in 0..30 {
        assert!(told(&lane.arrive(asking(1, sequence), at(0)).1).1.is_empty());
    }
    assert!(lane.go_on(at(3)).is_empty());
    let (_, back) = told(&lane.go_on(at(10_000)));
    assert_eq!(back, (10..30).rev().collect::<Vec<_>>());
}

#[test]
fn who_does_not_wait_any_more_gets_no_turn() {
    let mut lane = lane(1, 10);
    let (running, _) = lane.arrive(asking(1, 1), at(0));
    let (gone, _) = lane.arrive(asking(2, 2), at(0));
    lane.arrive(asking(3, 3), at(0));
    lane.leave(&2, gone);
    lane.leave(&2, gone);
    assert_eq!(told(&lane.finish(running, at(0))).0, [3]);
}

#[test]
fn levels_tell_what_of_each_family_is_where_and_the_age_of_the_oldest() {
    let mut lane = lane(1, 2);
    lane.arrive(asking(1, 7), at(0));
    for sequence in [8, 9] {
        lane.arrive(asking(1, sequence), at(1_000));
    }
    let level = Level {
        running: 1,
        waiting: 1,
        back: 1,
        oldest: Some(Timestamp(7)),
    };
    assert_eq!(lane.levels(at(1_000)), BTreeMap::from([("code", level)]));
    let later = lane.levels(at(1_000) + LONGEST);
    assert_eq!(later["code"].back, 0, "it is the broker's to deliver");
}

/// What a delivery costs: to take it, to see whose it is, to grade it in place or to give it back.
const TAKE: Duration = Duration::from_micros(200);

#[derive(Debug, Clone, Copy)]
struct Stored {
    evaluation: u32,
    /// How long a grade takes in the lane; nothing in place.
    slow: Duration,
    at: Moment,
    /// Grades that had been begun in lanes by then.
    turns: u64,
}

/// A stream whose consumer delivers in order, and again what was given back.
#[derive(Default)]
struct Broker {
    stored: Vec<Stored>,
    delivered: usize,
    back: BinaryHeap<Reverse<(Moment, usize)>>,
    /// Delivered and not acknowledged.
    pending: usize,
    max_ack_pending: usize,
    deliveries: u64,
}

impl Broker {
    fn deliver(&mut self, now: Moment) -> Option<usize> {
        let next = match self.back.peek() {
            Some(Reverse((due, index))) if *due <= now => {
                let index = *index;
                self.back.pop();
                index
            }
            _ if self.delivered < self.stored.len() && self.pending < self.max_ack_pending => {
                self.delivered += 1;
                self.pending += 1;
                self.delivered - 1
            }
            _ => return None,
        };
        self.deliveries += 1;
        Some(next)
    }
}

struct Grader {
    lane: Grading,
    held: usize,
    ends: BinaryHeap<Reverse<(Moment, Place, usize)>>,
    graded: usize,
}

struct Model {
    now: Moment,
    broker: Broker,
    graders: Vec<Grader>,
    max_in_flight: usize,
    turns: u64,
    /// What was graded: which, when, and how many turns after it was stored.
    graded: Vec<(Stored, Moment, u64)>,
}

impl Model {
    fn new(graders: usize, room: Room, max_ack_pending: usize) -> Self {
        let grader = |_| Grader {
            lane: Lane::new(room),
            held: 0,
            ends: BinaryHeap::new(),
            graded: 0,
        };
        Self {
            now: Moment::ZERO,
            broker: Broker {
                max_ack_pending,
                ..Broker::default()
            },
            graders: (0..graders).map(grader).collect(),
            max_in_flight: 256,
            turns: 0,
            graded: Vec::new(),
        }
    }

    fn store(&mut self, evaluation: u32, slow: Duration) {
        self.broker.stored.push(Stored {
            evaluation,
            slow,
            at: self.now,
            turns: self.turns,
        });
    }

    fn ungraded(&self) -> usize {
        self.broker.stored.len() - self.graded.len()
    }

    fn grade(&mut self, grader: usize, index: usize) {
        let stored = self.broker.stored[index];
        self.broker.pending -= 1;
        self.graders[grader].graded += 1;
        self.graded.push((stored, self.now, self.turns - stored.turns));
    }

    /// Every grader takes one, and what has ended by now ends.
    fn step(&mut self) {
        for number in 0..self.graders.len() {
            while let Some(Reverse((end, place, index))) = self.graders[number].ends.peek().copied() {
                if end > self.now {
                    break;
                }
                self.graders[number].ends.pop();
                self.graders[number].held -= 1;
                self.grade(number, index);
                let moves = self.graders[number].lane.finish(place, self.now);
                self.carry_out(number, moves);
            }
            if self.graders[number].held == self.max_in_flight {
                continue;
            }
            let Some(index) = self.broker.deliver(self.now) else {
                continue;
            };
            let stored = self.broker.stored[index];
            if stored.slow.is_zero() {
                self.grade(number, index);
                continue;
            }
            self.graders[number].held += 1;
            let (_, moves) = self.graders[number]
                .lane
                .arrive(asking(stored.evaluation, index as u64), self.now);
            self.carry_out(number, moves);
        }
        self.now += TAKE;
    }

    fn carry_out(&mut self, number: usize, moves: Vec<Move<u64>>) {
        for one in moves {
            match one {
                Move::Start(place, index) => {
                    let index = usize::try_from(index).unwrap();
                    self.turns += 1;
                    let end = self.now + self.broker.stored[index].slow;
                    self.graders[number].ends.push(Reverse((end, place, index)));
                }
                Move::Back(index, pause) => {
                    let index = usize::try_from(index).unwrap();
                    self.graders[number].held -= 1;
                    self.broker.back.push(Reverse((self.now + pause, index)));
                }
            }
        }
    }

    /// Goes to where something can happen next, at most to `until`.
    fn skip(&mut self, until: Moment) {
        let has_new =
            self.broker.delivered < self.broker.stored.len() && self.broker.pending < self.broker.max_ack_pending;
        if has_new && self.graders.iter().any(|grader| grader.held < self.max_in_flight) {
            return;
        }
        let due = self.broker.back.peek().map(|Reverse((due, _))| *due);
        let ends = self
            .graders
            .iter()
            .filter_map(|grader| grader.ends.peek().map(|Reverse((end, ..))| *end));
        let next = ends.chain(due).min().unwrap_or(until).min(until);
        self.now = self.now.max(next);
    }
}

const SECOND: Duration = Duration::from_secs(1);
const SWEEP: u32 = 1;
const OTHER: u32 = 2;

/// A sweep of a million grades of a second each, of which as many lie in the stream as may be ungraded, and another
/// evaluation that stores one completion a second, each tenth of them slow as well.
fn sweep_and_other(room: Room) -> Model {
    const UNGRADED: usize = 20_000;
    const LASTS: u64 = 200;
    let mut model = Model::new(1, room, UNGRADED + 1_000);
    let mut left = 1_000_000;
    for second in 1..=LASTS {
        while model.now < SECOND * u32::try_from(second).unwrap() {
            while left > 0 && model.ungraded() < UNGRADED {
                model.store(SWEEP, SECOND);
                left -= 1;
            }
            model.step();
            model.skip(SECOND * u32::try_from(second).unwrap());
        }
        let slow = if second % 10 == 0 { SECOND } else { Duration::ZERO };
        model.store(OTHER, slow);
    }
    model
}

#[test]
fn a_million_slow_ones_of_one_evaluation_hold_no_other_up() {
    let room = Room { at_once: 2, held: 51 };
    let model = sweep_and_other(room);
    let others: Vec<_> = model
        .graded
        .iter()
        .filter(|(stored, ..)| stored.evaluation == OTHER)
        .collect();
    assert!(others.len() >= 198, "{} of 200", others.len());
    for (stored, at, turns) in others {
        // Until the sweep was passed over once, which is bounded by what may be ungraded, and then at once.
        let is_early = stored.at < SECOND * 5;
        let bound = match (stored.slow.is_zero(), is_early) {
            (true, false) => 2,
            (false, false) => 5,
            (_, true) => 10,
        };
        assert!(*turns <= bound, "{stored:?} graded at {at:?} after {turns} turns");
    }
    let sweep = model
        .graded
        .iter()
        .filter(|(stored, ..)| stored.evaluation == SWEEP)
        .count();
    assert!(sweep >= 360, "the lane stood idle: {sweep}");
    assert!(model.broker.deliveries < 100_000, "{}", model.broker.deliveries);
    // A grader that holds whatever it gets is full of the sweep, and grades nothing else.
    let holding = sweep_and_other(Room {
        held: usize::MAX,
        ..room
    });
    assert!(holding.graded.iter().all(|(stored, ..)| stored.evaluation == SWEEP));
}

/// Grades so many slow ones and returns how long it took over how long it must, and the deliveries of each.
fn makespan(graders: usize, count: u32, slow: Duration) -> (Model, f64, f64) {
    let room = Room { at_once: 2, held: 20 };
    let mut model = Model::new(graders, room, usize::MAX);
    (0..count).for_each(|_| model.store(SWEEP, slow));
    while model.ungraded() > 0 {
        model.skip(Moment::MAX);
        model.step();
    }
    let least = slow * count / (2 * u32::try_from(graders).unwrap());
    let over = model.now.as_secs_f64() / least.as_secs_f64();
    let deliveries = model.broker.deliveries as f64 / f64::from(count);
    (model, over, deliveries)
}

#[test]
fn more_than_fit_of_one_evaluation_come_again_before_all_of_another() {
    let mut model = Model::new(1, Room { at_once: 2, held: 20 }, usize::MAX);
    (0..10_000).for_each(|_| model.store(SWEEP, SECOND));
    let run = |model: &mut Model, until: Moment| {
        while model.now < until {
            model.skip(until);
            model.step();
        }
    };
    run(&mut model, SECOND * 100);
    (0..60).for_each(|_| model.store(OTHER, SECOND));
    run(&mut model, SECOND * 200);
    let others: Vec<_> = model
        .graded
        .iter()
        .filter(|(stored, ..)| stored.evaluation == OTHER)
        .collect();
    assert_eq!(others.len(), 60);
    let last = others.iter().map(|(.., turns)| turns).max().unwrap();
    assert!((100..150).contains(last), "every other turn is theirs: {last}");
}

#[test]
fn what_was_given_back_comes_in_time_and_not_too_often() {
    for (count, slow) in [(2_000, 100), (3_000, 20), (300, 5_000)] {
        let (_, over, deliveries) = makespan(1, count, at(slow));
        assert!(over < 1.06, "{count} of {slow} ms: {over} times as long");
        assert!(deliveries < 10.0, "{count} of {slow} ms: {deliveries} deliveries each");
    }
}

#[test]
fn graders_share_what_there_is() {
    let (model, over, _) = makespan(3, 3_000, at(100));
    assert!(over < 1.06, "{over} times as long");
    assert!(model.graders.iter().all(|grader| grader.graded > 800));
}
