//! Generators with their controllers against the simulated engine's model, in virtual time: how much of the best throughput is
//! reached, and how replicas are shared.

use std::collections::HashMap;
use std::time::Duration;

use tidemill_simulated::model::{Arrival, Engine, Limits, SequenceId};
use tokio::time::Instant;

use super::*;
use crate::health::Looked;
use crate::replicas::{Pick, Place, Replicas, Sign, Took};
use crate::routing::Wish;

/// How often generators act; as long as a request takes to be replaced.
const TICK: Duration = Duration::from_millis(10);

/// What requests are like.
#[derive(Clone, Copy)]
struct Work {
    prompt: u32,
    /// Median, and how unequal: the logarithm's standard deviation.
    output: f64,
    spread: f64,
    /// From this moment on the median is this.
    then: Option<(Duration, f64)>,
}

const ANSWERS: Work = Work {
    prompt: 100,
    output: 100.0,
    spread: 1.0,
    then: None,
};

const LONGEST: f64 = 2_000.0;

#[derive(Clone)]
struct World {
    limits: Limits,
    engines: usize,
    generators: usize,
    work: Work,
    has_metrics: bool,
    /// What a server says that turns requests away: that there are too many, and for how long.
    overloaded: bool,
    retry_after: Option<Duration>,
    /// All is turned away from one moment to another.
    outage: Option<(Duration, Duration)>,
    /// The level that is kept, in place of a controller's.
    fixed: Option<u32>,
    lasts: Duration,
    /// From when on throughput is measured.
    warm: Duration,
}

impl World {
    fn of(limits: Limits) -> Self {
        Self {
            limits,
            engines: 1,
            generators: 1,
            work: ANSWERS,
            has_metrics: true,
            overloaded: true,
            retry_after: Some(Duration::from_secs(2)),
            outage: None,
            fixed: None,
            lasts: Duration::from_secs(80),
            warm: Duration::from_secs(20),
        }
    }

    fn at(&self, level: u32) -> f64 {
        let fixed = Self {
            fixed: Some(level),
            generators: 1,
            engines: 1,
            ..self.clone()
        };
        fixed.run().throughput * self.engines as f64
    }

    /// The throughput that is reached, as a share of the best of some fixed levels.
    fn reached(&self, levels: &[u32]) -> (f64, Ran) {
        let best = levels.iter().map(|level| self.at(*level)).fold(0.0, f64::max);
        let ran = self.run();
        (ran.throughput / best, ran)
    }

    fn run(&self) -> Ran {
        let mut running = Running::new(self);
        while running.time < self.lasts {
            running.tick();
        }
        running.ran
    }
}

/// What came of it.
#[derive(Debug, Default)]
struct Ran {
    /// Tokens a second, once warm.
    throughput: f64,
    tokens: u64,
    /// Requests in flight of each generator, on average over the last quarter.
    in_flight: Vec<f64>,
    /// Requests waiting in the first engine, on average over the last quarter.
    waiting: f64,
    samples: f64,
    preemptions: u64,
    /// Requests turned away, when, and whether they were sent before they were due.
    turned_away: Vec<Duration>,
    sent_too_early: u32,
    /// The first generator's level at each second.
    levels: Vec<u32>,
}

struct Generator {
    replicas: Replicas,
    looked: Vec<Duration>,
    /// Nothing is to be sent before, by replica.
    due: Vec<Duration>,
}

struct Running<'a> {
    world: &'a World,
    begun: Instant,
    time: Duration,
    engines: Vec<Engine>,
    generators: Vec<Generator>,
    flights: Vec<HashMap<SequenceId, Flight>>,
    /// Places whose answer arrives at the next tick.
    random: u64,
    ran: Ran,
}

struct Flight {
    generator: usize,
    place: Place,
    sent: Duration,
    tokens: u32,
    has_begun: bool,
}

impl<'a> Running<'a> {
    fn new(world: &'a World) -> Self {
        let begun = Instant::now();
        let generator = |seed: usize| {
            let mut replicas = Replicas::new(seed as u64 + 1, Duration::from_secs(600));
            for _ in 0..world.engines {
                replicas.join("engine", world.fixed.unwrap_or(1_024), begun);
            }
            Generator {
                replicas,
                looked: vec![Duration::ZERO; world.engines],
                due: vec![Duration::ZERO; world.engines],
            }
        };
        Self {
            world,
            begun,
            time: Duration::ZERO,
            engines: (0..world.engines).map(|_| Engine::new(world.limits.clone())).collect(),
            generators: (0..world.generators).map(generator).collect(),
            flights: (0..world.engines).map(|_| HashMap::new()).collect(),
            random: 0x2545_F491_4F6C_DD1D,
            ran: Ran {
                in_flight: vec![0.0; world.generators],
                ..Ran::default()
            },
        }
    }

    fn tick(&mut self) {
        self.time += TICK;
        for at in 0..self.engines.len() {
            self.compute(at);
        }
        for at in 0..self.generators.len() {
            self.look(at);
            self.send(at);
        }
        self.measure();
    }

    fn now(&self) -> Instant {
        self.begun + self.time
    }

    /// Lets an engine work until now, and takes what it finished.
    fn compute(&mut self, at: usize) {
        let engine = &mut self.engines[at];
        idle(engine, self.time);
        while engine.now() < self.time {
            let Some(step) = engine.step() else { break };
            for finished in step.finished {
                let Some(flight) = self.flights[at].remove(&finished.id) else {
                    continue;
                };
                let replicas = &mut self.generators[flight.generator].replicas;
                let took = Took {
                    tokens: u64::from(flight.tokens),
                    first_token: Some(finished.first_token_at.saturating_sub(flight.sent)),
                };
                let now = self.begun + self.time;
                if !flight.has_begun {
                    replicas.flows(flight.place, now);
                }
                replicas.ended(at);
                replicas.took(flight.place, took, now);
                replicas.note(at, Sign::Good, now);
                replicas.free(flight.place);
            }
        }
        for (id, tokens) in self.engines[at].progress() {
            if let Some(flight) = self.flights[at].get_mut(&id)
                && tokens > 0
                && !flight.has_begun
            {
                flight.has_begun = true;
                let replicas = &mut self.generators[flight.generator].replicas;
                replicas.flows(flight.place, self.begun + self.time);
            }
        }
    }

    fn look(&mut self, generator: usize) {
        let now = self.now();
        for at in 0..self.engines.len() {
            let next = self.generators[generator].replicas.next_look(at, now);
            if next.is_none_or(|next| next > now) {
                continue;
            }
            let engine = &self.engines[at];
            let mut load = Load::default();
            if self.world.has_metrics {
                load.running = Some(engine.running());
                load.waiting = Some(engine.waiting());
                load.kv_use = Some(engine.kv_use());
                load.preemptions = Some(engine.totals().preemptions);
            }
            let pieces = engine.totals().generated_tokens;
            let replicas = &mut self.generators[generator].replicas;
            replicas.looked(at, Looked::Answered, load, Some(pieces), now);
            if let Some(fixed) = self.world.fixed {
                replicas.fix(at, fixed);
            }
            self.generators[generator].looked[at] = self.time;
        }
    }

    /// Sends as much as there are places.
    fn send(&mut self, generator: usize) {
        let now = self.now();
        while let Pick::Replica(at) = self.generators[generator].replicas.pick(now, &Wish::default()) {
            let output = self.length();
            let replicas = &mut self.generators[generator].replicas;
            let mut place = replicas.book(at, &Wish::default());
            replicas.begin(&mut place, now);
            if self.time < self.generators[generator].due[at] {
                self.ran.sent_too_early += 1;
            }
            let arrival = Arrival {
                chain: [].into(),
                prompt: self.world.work.prompt,
                output,
                reads_cache: false,
                stalls_after: None,
            };
            idle(&mut self.engines[at], self.time);
            if self
                .world
                .outage
                .is_some_and(|(from, to)| (from..to).contains(&self.time))
            {
                self.turned_away(generator, at, place);
                continue;
            }
            match self.engines[at].submit(arrival) {
                Ok(id) => {
                    let flight = Flight {
                        generator,
                        place,
                        sent: self.time,
                        tokens: output,
                        has_begun: false,
                    };
                    self.flights[at].insert(id, flight);
                }
                Err(_) => self.turned_away(generator, at, place),
            }
        }
    }

    fn turned_away(&mut self, generator: usize, at: usize, place: Place) {
        let now = self.now();
        let pause = self.world.retry_after;
        let generator = &mut self.generators[generator];
        let busy = Sign::Busy {
            overloaded: self.world.overloaded,
            pause,
        };
        generator.replicas.note(at, busy, now);
        generator.replicas.free(place);
        generator.due[at] = self.time + pause.unwrap_or_default();
        self.ran.turned_away.push(self.time);
    }

    fn length(&mut self) -> u32 {
        let mut uniform = || {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            ((self.random >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        let (first, second) = (uniform(), uniform());
        let normal = (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos();
        let work = self.world.work;
        let median = match work.then {
            Some((from, median)) if self.time >= from => median,
            _ => work.output,
        };
        (median * (normal * work.spread).exp()).clamp(1.0, LONGEST) as u32
    }

    fn measure(&mut self) {
        let tokens: u64 = self.engines.iter().map(|engine| engine.totals().generated_tokens).sum();
        if self.time <= self.world.warm {
            self.ran.tokens = tokens;
        } else {
            let seconds = (self.time - self.world.warm).as_secs_f64();
            self.ran.throughput = (tokens - self.ran.tokens) as f64 / seconds;
        }
        self.ran.preemptions = self.engines.iter().map(|engine| engine.totals().preemptions).sum();
        if self.time.subsec_millis() == 0 {
            self.ran.levels.push(self.generators[0].replicas.allowed());
        }
        if self.time < self.world.lasts * 3 / 4 {
            return;
        }
        self.ran.samples += 1.0;
        let weight = 1.0 / self.ran.samples;
        let mean = |mean: &mut f64, value: f64| *mean += (value - *mean) * weight;
        mean(&mut self.ran.waiting, f64::from(self.engines[0].waiting()));
        for (generator, in_flight) in self.generators.iter().zip(&mut self.ran.in_flight) {
            let own: u32 = (0..self.engines.len()).map(|at| generator.replicas.in_flight(at)).sum();
            mean(in_flight, f64::from(own));
        }
    }
}

/// Lets an engine's time pass where it has nothing to do.
fn idle(engine: &mut Engine, until: Duration) {
    if engine.running() + engine.waiting() == 0 {
        engine.idle_until(until);
    }
}

fn batch_bound() -> Limits {
    Limits {
        max_num_seqs: 200,
        prefill_per_token: Duration::from_micros(10),
        ..Limits::default()
    }
}

/// Room for about as many as 90 requests grow to; starting one again costs its prefill.
fn kv_bound() -> Limits {
    Limits {
        kv_blocks: 1_800,
        max_model_len: 4_096,
        prefill_per_token: Duration::from_micros(60),
        ..Limits::default()
    }
}

#[test]
fn a_batch_is_filled_and_a_short_queue_kept() {
    let world = World::of(batch_bound());
    let (share, ran) = world.reached(&[128, 200, 260, 400]);
    assert!(share >= 0.97, "{share}: {ran:?}");
    assert!((1.0..40.0).contains(&ran.waiting), "{ran:?}");
    assert!(ran.levels[2] >= 200, "it ramps within seconds: {ran:?}");
}

#[test]
fn room_for_the_cache_bounds_what_runs() {
    let world = World::of(kv_bound());
    let (share, ran) = world.reached(&[40, 60, 80, 100, 130, 200]);
    assert!(share >= 0.97, "{share}: {ran:?}");
    let unbounded = World {
        fixed: Some(400),
        ..world.clone()
    }
    .run();
    assert!(
        ran.preemptions * 2 < unbounded.preemptions,
        "{} of {}",
        ran.preemptions,
        unbounded.preemptions
    );
}

#[test]
fn an_engine_that_turns_away_is_sent_what_it_takes_and_nothing_before_it_is_due() {
    let limits = Limits {
        max_waiting: Some(0),
        ..batch_bound()
    };
    let world = World::of(limits);
    let (share, ran) = world.reached(&[150, 190, 200]);
    assert!(share >= 0.97, "{share}: {ran:?}");
    assert_eq!(ran.sent_too_early, 0);
    let mut seconds: Vec<u64> = ran.turned_away.iter().map(Duration::as_secs).collect();
    seconds.dedup();
    assert!(seconds.len() <= 3, "episodes are rare: {seconds:?}");
}

#[test]
fn a_full_queue_that_asks_for_time_alone_is_sent_what_it_takes() {
    for (max_waiting, has_metrics) in [(0, true), (4, true), (4, false)] {
        let limits = Limits {
            max_waiting: Some(max_waiting),
            ..batch_bound()
        };
        let world = World {
            overloaded: false,
            retry_after: None,
            has_metrics,
            ..World::of(limits)
        };
        let (share, ran) = world.reached(&[150, 190, 200]);
        assert!(share >= 0.95, "{share}: {ran:?}");
        let mut seconds: Vec<u64> = ran.turned_away.iter().map(Duration::as_secs).collect();
        seconds.dedup();
        assert!(seconds.len() <= 8, "episodes are rare: {seconds:?}");
    }
}

#[test]
fn after_an_outage_the_level_before_is_back_within_half_of_it_and_two_seconds() {
    let from = Duration::from_secs(15);
    for (milliseconds, overloaded) in [(200, false), (1_000, false), (1_000, true), (3_000, false)] {
        let to = from + Duration::from_millis(milliseconds);
        let world = World {
            overloaded,
            retry_after: None,
            outage: Some((from, to)),
            lasts: Duration::from_secs(60),
            // Long answers are under way, and those who sent them must not be waited for.
            work: Work {
                output: 300.0,
                ..ANSWERS
            },
            ..World::of(batch_bound())
        };
        let ran = world.run();
        // Levels are those at each second, the first that of second 1.
        let at = |second: Duration| ran.levels[second.as_secs() as usize - 1];
        let before = at(from);
        // It asks again within as long as it was away for.
        let back = at(to + Duration::from_millis(milliseconds / 2 + 1_999));
        assert!(before >= 200 && back >= before * 9 / 10, "{before}, {back}: {ran:?}");
    }
}

#[test]
fn a_few_refusals_at_once_leave_the_level_as_it_was() {
    let mut now = Instant::now();
    let mut controller = Controller::new(1_024, 7);
    controller.fix(136);
    let refuse = |controller: &mut Controller, in_flight, now| {
        let event = Event::TurnedAway {
            overloaded: false,
            pause: None,
            in_flight,
        };
        controller.observe(event, now)
    };
    assert_eq!(refuse(&mut controller, 136, now), 136);
    now = controller.held_until(now).unwrap();
    // Thirty places became free meanwhile; 19 of those that take them are sent away.
    for _ in 0..30 {
        controller.observe(Event::Sent, now);
    }
    for in_flight in (118..=136).rev() {
        refuse(&mut controller, in_flight, now);
    }
    assert_eq!(controller.limit(), 117, "nobody knows what it takes");
    now = controller.held_until(now).unwrap();
    controller.observe(Event::Sent, now);
    assert_eq!(controller.observe(Event::Begun(now), now), 136);
}

#[test]
fn a_share_of_requests_that_is_turned_away_at_any_level_costs_half_of_it_at_most() {
    let mut now = Instant::now();
    let mut controller = Controller::new(1_024, 7);
    controller.fix(200);
    for _ in 0..500 {
        let level = controller.limit();
        for _ in 0..20 {
            controller.observe(Event::Sent, now);
        }
        let event = Event::TurnedAway {
            overloaded: false,
            pause: None,
            in_flight: level,
        };
        controller.observe(event, now);
        now = controller.held_until(now).unwrap();
        controller.observe(Event::Sent, now);
        controller.observe(Event::Begun(now), now);
        assert!(controller.limit() >= 90, "{}", controller.limit());
    }
}

#[test]
fn without_metrics_throughput_and_first_tokens_find_the_level() {
    for limits in [batch_bound(), kv_bound()] {
        let world = World {
            has_metrics: false,
            lasts: Duration::from_secs(120),
            warm: Duration::from_secs(30),
            ..World::of(limits)
        };
        let (share, ran) = world.reached(&[60, 80, 100, 128, 200, 260]);
        assert!(share >= 0.97, "{share}: {ran:?}");
        assert!(ran.waiting < 120.0, "{ran:?}");
    }
}

#[test]
fn lengths_that_change_are_followed() {
    let work = Work {
        output: 30.0,
        then: Some((Duration::from_secs(30), 300.0)),
        ..ANSWERS
    };
    for limits in [batch_bound(), kv_bound()] {
        let world = World {
            work,
            warm: Duration::from_secs(10),
            ..World::of(limits)
        };
        let (share, ran) = world.reached(&[50, 80, 128, 200, 260, 400]);
        assert!(share >= 0.97, "{share}: {ran:?}");
    }
}

#[test]
fn prompts_alone_keep_an_engine_busy_too() {
    let work = Work {
        prompt: 500,
        output: 1.0,
        spread: 0.0,
        then: None,
    };
    let limits = Limits {
        first_token: Duration::ZERO,
        prefill_per_token: Duration::from_micros(20),
        ..batch_bound()
    };
    let world = World {
        work,
        lasts: Duration::from_secs(30),
        warm: Duration::from_secs(6),
        ..World::of(limits)
    };
    let (share, ran) = world.reached(&[16, 32, 64, 128]);
    assert!(share >= 0.97, "{share}: {ran:?}");
}

#[test]
fn generators_that_know_nothing_of_each_other_share_a_replica() {
    for generators in [2, 3] {
        let world = World {
            generators,
            lasts: Duration::from_secs(160),
            ..World::of(batch_bound())
        };
        let (share, ran) = world.reached(&[200, 260]);
        assert!(share >= 0.97, "{share}: {ran:?}");
        assert!(ran.waiting < 60.0, "{ran:?}");
        let mean = ran.in_flight.iter().sum::<f64>() / ran.in_flight.len() as f64;
        assert!(
            ran.in_flight.iter().all(|own| (own / mean - 1.0).abs() < 0.25),
            "shares even out: {ran:?}"
        );
    }
}

#[test]
fn eight_replicas_are_eight_times_one() {
    let world = World {
        engines: 8,
        lasts: Duration::from_secs(40),
        warm: Duration::from_secs(10),
        ..World::of(batch_bound())
    };
    let (share, ran) = world.reached(&[200, 260]);
    assert!(share >= 0.97, "{share}: {ran:?}");
}

#[test]
fn what_is_not_said_is_not_nought() {
    let now = Instant::now();
    let mut controller = Controller::new(1_024, 1);
    let sample = |running, waiting| {
        Event::Sampled(Sample {
            load: Load {
                running,
                waiting,
                ..Load::default()
            },
            in_flight: 96,
            work: 0,
        })
    };
    let mut silent = Controller::new(1_024, 1);
    for at in 1..20 {
        let now = now + Duration::from_millis(100) * at;
        controller.observe(sample(Some(96), Some(0)), now);
        silent.observe(sample(Some(96), None), now);
    }
    assert!(controller.limit() > 96, "nothing waits");
    assert_eq!(silent.limit(), 96, "nothing is known, and no token has come");
}

#[test]
fn a_large_batch_is_reached_within_a_few_looks() {
    let mut now = Instant::now();
    let mut controller = Controller::new(1_024, 1);
    let mut took = Duration::ZERO;
    let mut sample = |in_flight: u32, pause: Duration| {
        now += pause;
        let load = Load {
            running: Some(in_flight.min(256)),
            waiting: Some(in_flight.saturating_sub(256)),
            ..Load::default()
        };
        controller.observe(
            Event::Sampled(Sample {
                load,
                in_flight,
                work: 0,
            }),
            now,
        );
        (
            controller.limit(),
            controller.limit_soon(),
            controller.next_sample(in_flight),
        )
    };
    let (mut limit, mut soon, mut pause) = sample(0, Duration::ZERO);
    assert_eq!((limit, soon), (96, 192), "what comes next is at hand");
    while limit < 256 {
        took += pause;
        assert!(took <= Duration::from_millis(300), "{limit} after {took:?}");
        (limit, soon, pause) = sample(limit, pause);
    }
    assert!(soon >= limit);
    // Half as many again wait for good, and it goes back.
    for _ in 0..20 {
        (limit, soon, pause) = sample(limit, pause);
    }
    assert!((257..=300).contains(&limit) && soon == limit, "{limit}");
}

#[test]
fn requests_that_the_engine_has_not_seen_yet_do_not_raise_the_level() {
    let now = Instant::now();
    let mut controller = Controller::new(1_024, 1);
    for at in 1..20 {
        let load = Load {
            running: Some(10),
            waiting: Some(0),
            ..Load::default()
        };
        let sample = Sample {
            load,
            in_flight: 96,
            work: 0,
        };
        controller.observe(Event::Sampled(sample), now + SAMPLE_RAMP * at);
    }
    assert_eq!(controller.limit(), 96);
}
