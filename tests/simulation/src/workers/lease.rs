//! A lease as a process takes, keeps and loses it: the real rule, driven by virtual time.

use std::time::Duration;

use tidemill_service::lease::rule::{Answer as Renewed, Lease, RENEW_EVERY};
use tokio::time::Instant;

use crate::breakage::Breakage;
use crate::broker::{Answer, Op};
use crate::world::{Reach, Timer};

/// How often a taken lease is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where a process is with its lease.
#[derive(Debug, Default)]
enum Stage {
    /// Waiting for the next try.
    #[default]
    Without,
    Creating(u64, Instant),
    Held(Lease),
    /// A renewal was sent then.
    Renewing(Lease, u64, Instant),
    /// It was not taken for one: what is in the entry? True: the broker refused, as opposed to not answering.
    Looking(Lease, u64, Instant, bool),
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Taken,
    Lost,
}

#[derive(Debug)]
pub(super) struct Leasing {
    key: &'static str,
    stage: Stage,
    /// It was held once, and is believed in for ever: a breakage.
    is_believed: bool,
}

impl Leasing {
    pub(super) const fn new(key: &'static str) -> Self {
        Self {
            key,
            stage: Stage::Without,
            is_believed: false,
        }
    }

    pub(super) const fn key(&self) -> &'static str {
        self.key
    }

    const fn lease(&self) -> Option<&Lease> {
        match &self.stage {
            Stage::Without | Stage::Creating(..) => None,
            Stage::Held(lease) | Stage::Renewing(lease, ..) | Stage::Looking(lease, ..) => Some(lease),
        }
    }

    /// The process holds it, as far as it can know.
    pub(super) const fn is_held(&self) -> bool {
        self.lease().is_some()
    }

    /// What is asked right before an act.
    pub(super) fn is_certain(&self, now: Instant) -> bool {
        self.is_believed || self.lease().is_some_and(|lease| lease.is_certain(now))
    }

    /// Begins to try for it.
    pub(super) fn start(&mut self, reach: &mut Reach<'_>) {
        let sent = reach.instant();
        let request = reach.request(Op::Create(self.key, reach.holder()));
        self.stage = Stage::Creating(request, sent);
    }

    /// `Timer::Lease`: time to try, or to renew.
    pub(super) fn due(&mut self, reach: &mut Reach<'_>) {
        match std::mem::take(&mut self.stage) {
            Stage::Without => self.start(reach),
            Stage::Held(lease) => {
                let sent = reach.instant();
                let request = reach.request(Op::Update(self.key, reach.holder(), lease.revision()));
                self.stage = Stage::Renewing(lease, request, sent);
            }
            other => self.stage = other,
        }
    }

    /// `Timer::LeaseEnds`: an answer that comes when the lease is over is none.
    pub(super) fn ends(&mut self, reach: &mut Reach<'_>) -> Option<Change> {
        let now = reach.instant();
        if self.lease().is_none_or(|lease| lease.is_certain(now)) {
            return None;
        }
        match std::mem::take(&mut self.stage) {
            Stage::Held(lease) => self.renewed(reach, lease, Renewed::Away, now),
            Stage::Renewing(lease, _, sent) | Stage::Looking(lease, _, sent, _) => {
                self.renewed(reach, lease, Renewed::Away, sent)
            }
            other => {
                self.stage = other;
                None
            }
        }
    }

    pub(super) fn answered(&mut self, reach: &mut Reach<'_>, request: u64, answer: Option<&Answer>) -> Option<Change> {
        match std::mem::take(&mut self.stage) {
            Stage::Creating(expected, sent) if expected == request => {
                let Some(Answer::Revision(revision)) = answer else {
                    reach.about(LOOK_EVERY, Timer::Lease);
                    return None;
                };
                self.is_believed = reach.is_broken(Breakage::BelieveLease);
                self.hold(reach, Lease::taken(*revision, sent));
                Some(Change::Taken)
            }
            Stage::Renewing(lease, expected, sent) if expected == request => {
                if let Some(Answer::Revision(revision)) = answer {
                    return self.renewed(reach, lease, Renewed::Written(*revision), sent);
                }
                let request = reach.request(Op::Entry(self.key));
                self.stage = Stage::Looking(lease, request, sent, answer.is_some());
                None
            }
            Stage::Looking(lease, expected, sent, was_refused) if expected == request => {
                let renewed = match answer {
                    Some(Answer::Entry(Some((holder, revision)))) if *holder == reach.holder() => {
                        Renewed::Ours(*revision)
                    }
                    Some(Answer::Entry(Some(_))) => Renewed::NotOurs,
                    _ if was_refused => Renewed::NotOurs,
                    _ => Renewed::Away,
                };
                self.renewed(reach, lease, renewed, sent)
            }
            other => {
                self.stage = other;
                None
            }
        }
    }

    fn renewed(&mut self, reach: &mut Reach<'_>, mut lease: Lease, answer: Renewed, sent: Instant) -> Option<Change> {
        if lease.note(answer, sent, reach.instant()) || self.is_believed {
            self.hold(reach, lease);
            return None;
        }
        self.stage = Stage::Without;
        reach.about(LOOK_EVERY, Timer::Lease);
        Some(Change::Lost)
    }

    fn hold(&mut self, reach: &mut Reach<'_>, lease: Lease) {
        reach.timer(RENEW_EVERY, Timer::Lease);
        let left = lease.until().saturating_duration_since(reach.instant());
        if !self.is_believed {
            reach.timer(left, Timer::LeaseEnds);
        }
        self.stage = Stage::Held(lease);
    }

    /// Gives it back.
    pub(super) fn give_back(&mut self, reach: &mut Reach<'_>) {
        if let Some(revision) = self.lease().map(Lease::revision) {
            reach.send(Op::Delete(self.key, revision));
        }
        self.stage = Stage::Without;
        self.is_believed = false;
    }
}
