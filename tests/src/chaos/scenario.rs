//! What is done to a pipeline, and when.

use std::time::Duration;

use tidemill_service::fault::Point;

use super::random::Random;
use super::work::Work;

/// The services, in the order of an item's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Intake and dispatch.
    Loader,
    /// Asks the engine.
    Generator,
    /// Grades.
    Grader,
    /// Adds up.
    Aggregator,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Loader, Self::Generator, Self::Grader, Self::Aggregator];

    /// The command's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loader => "loader",
            Self::Generator => "generator",
            Self::Grader => "grader",
            Self::Aggregator => "aggregator",
        }
    }

    /// Processes of it in every run.
    pub(super) const fn processes(self) -> usize {
        match self {
            Self::Loader => 1,
            Self::Generator | Self::Grader | Self::Aggregator => 2,
        }
    }

    /// How long one is suspended: longer than the leases (10 s) and the role's `ack_wait` (20 s; graders 6 s).
    pub(super) const fn suspension(self) -> Duration {
        match self {
            Self::Loader | Self::Generator => Duration::from_secs(25),
            Self::Grader | Self::Aggregator => Duration::from_secs(14),
        }
    }
}

/// A disturbance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// SIGKILL to every process of a role at once, each replaced at once.
    Kill(Role),
    /// SIGKILL to one process of a role, replaced at once.
    KillOne(Role),
    /// SIGSTOP to one process of a role, SIGCONT after a while; a replacement works meanwhile and after.
    Suspend(Role, Duration),
    /// The engine ends in the middle of its answers, and is back after a moment.
    Engine,
    /// SIGKILL to the broker, started again on the same store after so long.
    Broker(Duration),
    /// SIGKILL to the broker as soon as it has received so many acknowledgements, and to the generators.
    BrokerAfterAcks(u64),
    /// SIGKILL to every process, broker and engine, then all of them started again.
    Everything,
    /// The network between a role's processes and the broker fails, and is healed after a while.
    Network(Role, Network, Duration),
    /// The disk of the broker is full for so long; then it has room, and the broker is started again.
    FullDisk(Duration),
    /// The clocks of all services are so many seconds off from now on.
    Clock(i64),
}

/// How a network fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Connections are dropped and new ones refused.
    Cut,
    /// Connections stay open and bring nothing.
    Silent,
}

/// A disturbance and its moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The share of an undisturbed run's requests that have been asked.
    pub at: f64,
    /// What is done.
    pub action: Action,
}

/// A process that kills or suspends itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Whose.
    pub role: Role,
    /// Where.
    pub point: Point,
    /// Which passing of it.
    pub passing: u64,
    /// Suspended, and continued after a while, instead of killed.
    pub is_stop: bool,
}

/// What is done to one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name in the table; runs of one name are one row.
    pub name: &'static str,
    /// What is evaluated.
    pub work: Work,
    /// What the harness does, in order.
    pub steps: Vec<Step>,
    /// What processes do to themselves: of each role the first process has the first of its faults, its replacement the
    /// next one.
    pub faults: Vec<Fault>,
}

const SCRIPTED: Work = Work::Scripted(150);
const EMBEDDED: Work = Work::Embedded(60);

/// Runs over which the fault points are dealt: each kill of a lease's holder costs the lease's age.
const RUNS_OF_POINTS: usize = 4;

impl Scenario {
    fn new(name: &'static str, steps: Vec<Step>) -> Self {
        Self {
            name,
            work: SCRIPTED,
            steps,
            faults: Vec::new(),
        }
    }

    /// `count` times the same action at random moments.
    fn at_random(name: &'static str, random: &mut Random, count: usize, action: Action) -> Self {
        let mut moments: Vec<f64> = (0..count).map(|_| random.share(0.03, 0.9)).collect();
        moments.sort_by(f64::total_cmp);
        Self::new(name, moments.into_iter().map(|at| Step { at, action }).collect())
    }

    fn on_embedded_engine(self) -> Self {
        Self { work: EMBEDDED, ..self }
    }

    /// Nothing is done.
    #[must_use]
    pub fn undisturbed(work: Work) -> Self {
        Self {
            work,
            ..Self::new("undisturbed", Vec::new())
        }
    }
}

/// One of each scenario that takes below a minute, with moments from the seed.
#[must_use]
pub fn standard(seed: u64) -> Vec<Scenario> {
    let random = &mut Random::new(seed);
    let mut scenarios = of_processes(random);
    scenarios.extend(surroundings(random));
    scenarios
}

fn of_processes(random: &mut Random) -> Vec<Scenario> {
    let mut scenarios = kills(random);
    scenarios.extend(suspensions(random));
    scenarios.extend(brokers(random));
    scenarios.extend(faults(random));
    scenarios.extend(stale_workers(random));
    scenarios
}

/// The scenarios for which nobody waits at a desk.
#[must_use]
pub fn long(seed: u64) -> Vec<Scenario> {
    let random = &mut Random::new(seed);
    let outage = Action::Broker(Duration::from_secs(120));
    vec![Scenario::at_random("broker out for 2 min", random, 1, outage)]
}

/// A set for continuous integration: each fault point once, and each kind of which no other test holds the same. Networks,
/// disks and clocks have tests of their own.
#[must_use]
pub fn short(seed: u64) -> Vec<Scenario> {
    of_processes(&mut Random::new(seed))
}

fn kills(random: &mut Random) -> Vec<Scenario> {
    let of_role = [
        ("kill the loader", Role::Loader, 2),
        ("kill the generators", Role::Generator, 2),
        ("kill the graders", Role::Grader, 4),
        ("kill the aggregators", Role::Aggregator, 2),
    ];
    let mut scenarios: Vec<Scenario> = of_role
        .into_iter()
        .map(|(name, role, times)| Scenario::at_random(name, random, times, Action::Kill(role)))
        .collect();
    let one = Action::KillOne(Role::Generator);
    scenarios.push(Scenario::at_random("kill a generator", random, 4, one));
    scenarios.push(Scenario::at_random("kill the engine", random, 3, Action::Engine));
    scenarios.push(Scenario::at_random("kill everything", random, 2, Action::Everything));
    let embedded = Scenario::at_random("kill the embedded engine", random, 2, Action::Engine);
    scenarios.push(embedded.on_embedded_engine());
    scenarios.push(mixed(random));
    scenarios
}

/// Kills of every kind in one run.
fn mixed(random: &mut Random) -> Scenario {
    let mut kinds = vec![Action::Engine, Action::Broker(Duration::ZERO)];
    kinds.extend(Role::ALL.map(Action::KillOne));
    let mut scenario = Scenario::at_random("kill one after another", random, 5, Action::Engine);
    for step in &mut scenario.steps {
        step.action = random.pick(&kinds).unwrap_or(step.action);
    }
    scenario
}

fn suspensions(random: &mut Random) -> Vec<Scenario> {
    let of_role = [
        ("suspend the loader", Role::Loader),
        ("suspend a generator", Role::Generator),
        ("suspend a grader", Role::Grader),
        ("suspend the aggregator", Role::Aggregator),
    ];
    let suspend =
        |(name, role): (_, Role)| Scenario::at_random(name, random, 1, Action::Suspend(role, role.suspension()));
    of_role.into_iter().map(suspend).collect()
}

fn brokers(random: &mut Random) -> Vec<Scenario> {
    let at_once = Action::Broker(Duration::ZERO);
    let outage = Action::Broker(Duration::from_secs(15));
    let acks = random.between(1, 40);
    vec![
        Scenario::at_random("kill the broker", random, 3, at_once),
        Scenario::at_random("broker out for 15 s", random, 1, outage),
        Scenario::at_random("kill the broker after acks", random, 2, Action::BrokerAfterAcks(acks)),
    ]
}

/// Networks, disks and clocks. Each seed fails the networks of other roles.
fn surroundings(random: &mut Random) -> Vec<Scenario> {
    let mut network = |name, kind| {
        let role = Role::ALL[random.between(0, 3) as usize];
        let action = Action::Network(role, kind, role.suspension());
        Scenario::at_random(name, random, 1, action)
    };
    let (cut, silent) = (
        network("network cut", Network::Cut),
        network("silent network", Network::Silent),
    );
    let full = Scenario::at_random("disk full", random, 1, Action::FullDisk(Duration::from_secs(6)));
    let mut clock = Scenario::at_random("clock jump", random, 3, Action::Clock(0));
    for (step, offset) in clock.steps.iter_mut().zip([HOUR, -HOUR, TO_1970]) {
        step.action = Action::Clock(offset);
    }
    vec![cut, silent, full, clock]
}

const HOUR: i64 = 3_600;

/// From the time at which this was written to 1970, as a clock that was never set.
const TO_1970: i64 = -1_795_000_000;

/// Every fault point once, dealt over a few runs.
fn faults(random: &mut Random) -> Vec<Scenario> {
    let mut dealt = vec![Vec::new(); RUNS_OF_POINTS];
    for role in Role::ALL {
        let points = points_of(role).into_iter().filter(|point| !is_of_parking(*point));
        for (index, point) in points.enumerate() {
            dealt[index % RUNS_OF_POINTS].push(fault(role, point, random));
        }
    }
    let run = |faults| Scenario {
        faults,
        ..Scenario::new("kill at each fault point", Vec::new())
    };
    let mut runs: Vec<Scenario> = dealt.into_iter().map(run).collect();
    let parking = points_of(Role::Generator)
        .into_iter()
        .filter(|point| is_of_parking(*point));
    runs.push(Scenario {
        faults: parking.map(|point| fault(Role::Generator, point, random)).collect(),
        ..Scenario::new("kill where tokens are saved", Vec::new()).on_embedded_engine()
    });
    runs
}

/// Passed only for answers whose engine tells their tokens, which the scripted one does not.
const fn is_of_parking(point: Point) -> bool {
    matches!(point, Point::GeneratorParked | Point::GeneratorUnparked)
}

/// A worker of each kind that stops between two effects and goes on once another one has done the same work.
fn stale_workers(random: &mut Random) -> Vec<Scenario> {
    let places = [
        [Point::GeneratorDelivered, Point::GraderDelivered],
        [Point::GeneratorAnswered, Point::GraderGraded],
        [Point::GeneratorPublished, Point::GraderPublished],
    ];
    let mut stop = |point| Fault {
        is_stop: true,
        ..fault(role_of(point), point, random)
    };
    let run = |points: [Point; 2]| Scenario {
        faults: points.into_iter().map(&mut stop).collect(),
        ..Scenario::new("stale worker comes back", Vec::new())
    };
    places.into_iter().map(run).collect()
}

fn fault(role: Role, point: Point, random: &mut Random) -> Fault {
    Fault {
        role,
        point,
        passing: random.between(1, most_passings(point)),
        is_stop: false,
    }
}

/// The points of a role in the order in which one evaluation passes them.
fn points_of(role: Role) -> Vec<Point> {
    let mut points: Vec<Point> = Point::ALL
        .iter()
        .copied()
        .filter(|point| role_of(*point) == role && !point.is_after_end())
        .collect();
    // Its message comes first, and the others wait for nothing that it holds up.
    points.sort_by_key(|point| *point != Point::DeadLetterStored);
    points
}

/// Who passes a point; the loader stands for those that any role passes.
fn role_of(point: Point) -> Role {
    let name = point.name();
    let is_of = |role: &Role| name.split('.').next() == Some(role.name());
    Role::ALL.into_iter().find(is_of).unwrap_or(Role::Loader)
}

/// How often a process passes a point for certain.
const fn most_passings(point: Point) -> u64 {
    match point {
        Point::LoaderReleased => 8,
        Point::GeneratorDelivered
        | Point::GeneratorAnswered
        | Point::GeneratorKept
        | Point::GeneratorBodyStored
        | Point::GeneratorPublished
        | Point::GeneratorAcked
        | Point::GraderDelivered
        | Point::GraderGraded
        | Point::GraderPublished
        | Point::GraderAcked => 12,
        Point::AggregatorFolded => 40,
        Point::AggregatorResult => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_disturb_alike_and_others_do_not() {
        assert_eq!(standard(7), standard(7));
        assert_ne!(standard(7), standard(8));
    }

    #[test]
    fn the_short_set_holds_every_fault_point() {
        for point in Point::ALL.iter().filter(|point| !point.is_after_end()) {
            let holds = |scenario: &Scenario| scenario.faults.iter().any(|fault| fault.point == *point);
            assert!(short(1).iter().any(holds), "{}", point.name());
        }
    }
}
