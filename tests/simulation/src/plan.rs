//! What a seed stands for: sizes, how bad the network is, and which faults come when.

use std::time::Duration;

use crate::chance::Chance;

/// Virtual time since the beginning of a run.
pub(crate) type Time = Duration;

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Loader,
    Generator,
    Grader,
    Aggregator,
}

/// Something that happens to the system as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// kill -9 of the n-th process; it is started again after the pause.
    Kill(usize, Duration),
    /// kill -9 of everything but the broker.
    KillAll,
    /// SIGSTOP, and SIGCONT after the pause.
    Suspend(usize, Duration),
    /// SIGTERM; another process takes its place when it has ended.
    Drain(usize),
    /// kill -9 of the broker, started on the same store after the pause. It may have forgotten what consumers had.
    KillBroker { down: Duration, forgets: bool },
    /// The broker cannot be reached.
    CutBroker(Duration),
    /// A message that waits in READY is gone.
    LoseWaiting,
    /// Streams refuse to store.
    Full(Duration),
    /// The engine takes nothing.
    EngineAway(Duration),
    /// An entry of the leases expires before its time: the broker's clock jumped.
    ExpireLeases,
    /// Another generator joins.
    Join,
}

/// The run that a seed stands for.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) roles: Vec<Role>,
    pub(crate) slots: usize,
    /// Items of each benchmark of each evaluation.
    pub(crate) items: u32,
    pub(crate) evaluations: usize,
    pub(crate) net: Net,
    pub(crate) faults: Vec<(Time, Fault)>,
    /// Everything bad happens before.
    pub(crate) calm_from: Time,
}

/// Probabilities, for each message or step.
#[derive(Debug, Default)]
pub(crate) struct Net {
    /// A message or its answer is lost.
    pub(crate) lost: f64,
    /// A message takes up to seconds, and so is overtaken by later ones.
    pub(crate) slow: f64,
    /// The broker delivers what is in flight once more.
    pub(crate) doubled: f64,
    /// A process dies before or after a step.
    pub(crate) dies: f64,
    /// A process is suspended after a step.
    pub(crate) stops: f64,
    /// A handler panics.
    pub(crate) panics: f64,
    /// The object store fails.
    pub(crate) store_fails: f64,
}

impl Plan {
    pub(crate) fn of(chance: &mut Chance) -> Self {
        let count = |role, least: usize, chance: &mut Chance| vec![role; least + chance.below(2)];
        let roles = [
            count(Role::Loader, 2, chance),
            count(Role::Generator, 1 + chance.below(2), chance),
            count(Role::Grader, 1, chance),
            count(Role::Aggregator, 2, chance),
        ]
        .concat();
        let net = Net {
            lost: chance.one_of(&[0.0, 0.01, 0.05]),
            slow: chance.one_of(&[0.0, 0.02, 0.1]),
            doubled: chance.one_of(&[0.0, 0.05, 0.3]),
            dies: chance.one_of(&[0.0, 0.001, 0.005]),
            stops: chance.one_of(&[0.0, 0.002, 0.01]),
            panics: chance.one_of(&[0.0, 0.02, 0.3]),
            store_fails: chance.one_of(&[0.0, 0.05]),
        };
        let mut faults = Vec::new();
        let mut at = Duration::ZERO;
        for _ in 0..6 + chance.below(12) {
            at += chance.millis(50, 3_000);
            faults.push((at, Fault::of(roles.len(), chance)));
        }
        Self {
            slots: 2 + chance.below(7),
            items: 4 + chance.below(5) as u32,
            evaluations: 1 + chance.below(2),
            calm_from: at + Duration::from_secs(20),
            roles,
            net,
            faults,
        }
    }

    /// Nothing bad happens.
    pub(crate) fn calm(chance: &mut Chance) -> Self {
        Self {
            net: Net::default(),
            faults: Vec::new(),
            calm_from: Duration::ZERO,
            ..Self::of(chance)
        }
    }
}

impl Fault {
    fn of(processes: usize, chance: &mut Chance) -> Self {
        let process = chance.below(processes);
        match chance.below(16) {
            0..=3 => Self::Kill(process, chance.millis(0, 8_000)),
            4..=6 => Self::Suspend(process, chance.suspension()),
            7 => Self::Drain(process),
            8 | 9 => Self::KillBroker {
                down: chance.millis(100, 15_000),
                forgets: chance.happens(0.7),
            },
            10 => Self::CutBroker(chance.millis(1_000, 20_000)),
            11 => Self::LoseWaiting,
            12 => Self::Full(chance.millis(500, 8_000)),
            13 => Self::EngineAway(chance.millis(500, 10_000)),
            14 => Self::Join,
            _ if chance.happens(0.3) => Self::KillAll,
            _ => Self::ExpireLeases,
        }
    }
}
