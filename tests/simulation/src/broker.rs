//! A model of the broker, as bad as brokers were seen to be and a little worse.
//!
//! What is stored stays stored. Consumers are another matter: messages come again, in any order, also to a process that
//! has them in flight; acknowledgements are accepted from whoever had a message once, however late; and a broker that was
//! killed may have forgotten which messages it delivered, how often, and the last acknowledgements.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tidemill_domain::{BenchmarkResult, Completion, Grade, ItemKey, Release};
use tidemill_service::lease::rule::AGE;
use tidemill_streams::durable;

use crate::chance::Chance;
use crate::plan::Time;

/// The durable consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durable {
    /// The generators', on READY.
    Generator,
    /// The graders', on DONE.
    Grader,
}

impl Durable {
    pub(crate) const fn ack_wait(self) -> Duration {
        match self {
            Self::Generator => durable::ACK_WAIT,
            Self::Grader => durable::GRADER_ACK_WAIT,
        }
    }
}

/// A state of an evaluation, as its events tell.
#[derive(Debug, Clone)]
pub(crate) enum State {
    Queued,
    Serving,
    Final(Vec<BenchmarkResult>),
}

/// What a process asks of the broker.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Pull(Durable, usize),
    Ack(Durable, u64),
    Nak(Durable, u64, Duration),
    Term(Durable, u64),
    Progress(Durable, u64),
    Release(Release),
    Complete(Box<Completion>),
    /// As `Complete`, without the condition that the first write wins: a breakage.
    Overwrite(Box<Completion>),
    Grade(Box<Grade>),
    Bury(ItemKey),
    LookUp(ItemKey),
    /// The keys of an evaluation in DONE after a sequence.
    Keys(usize, u64),
    /// The grades of an evaluation after a sequence.
    Grades(usize, u64),
    /// The events after a sequence.
    Events(u64),
    Announce(usize, State),
    Result(Published),
    Create(&'static str, String),
    Update(&'static str, String, u64),
    Entry(&'static str),
    Delete(&'static str, u64),
}

/// A result as it is published.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) evaluation: usize,
    pub(crate) provisional: bool,
    /// When it was sent.
    pub(crate) sent: Time,
}

/// What the broker says.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// It is done.
    Stored,
    /// An earlier write had won.
    AlreadyThere,
    /// The stream is full.
    Later,
    Found(bool),
    Keys(Vec<ItemKey>, u64),
    Grades(Vec<Grade>, u64),
    Events(Vec<(usize, State)>, u64),
    Revision(u64),
    Refused,
    Entry(Option<(String, u64)>),
}

/// A message on its way to a process.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) sequence: u64,
    pub(crate) delivered: i64,
    pub(crate) body: Body,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    Release(Release),
    Completion(Box<Completion>),
}

/// What a consumer knows of a message.
#[derive(Debug)]
struct Pending {
    /// It is delivered again from then on.
    until: Time,
}

#[derive(Debug, Default)]
struct Consumer {
    pending: HashMap<u64, Pending>,
    counts: HashMap<u64, i64>,
    /// Acknowledged, of a stream that keeps its messages; in the order of time.
    acked: Vec<(Time, u64)>,
}

/// Something that must not be, in words.
pub(crate) type Violation = String;

/// The broker.
#[derive(Debug, Default)]
pub(crate) struct Broker {
    sequence: u64,
    /// READY by sequence.
    ready: BTreeMap<u64, Release>,
    /// Releases that were acknowledged, with the time.
    left: Vec<(Time, u64, Release)>,
    /// Every completion that was stored, in order.
    pub(crate) done: Vec<(Time, Completion)>,
    done_at: HashMap<ItemKey, Time>,
    pub(crate) grades: Vec<Grade>,
    graded: HashSet<ItemKey>,
    pub(crate) dead: BTreeSet<ItemKey>,
    pub(crate) events: Vec<(usize, State)>,
    pub(crate) results: Vec<Published>,
    final_at: HashMap<usize, Time>,
    generator: Consumer,
    grader: Consumer,
    leases: HashMap<&'static str, (String, u64, Time)>,
    max_ack_pending: usize,
    evaluations: Vec<tidemill_domain::EvaluationId>,
    pub(crate) full_until: Time,
    /// Messages delivered while an earlier delivery of them was not settled, or was forgotten.
    pub(crate) redelivered: u64,
    pub(crate) refused_writes: u64,
    pub(crate) refused_releases: u64,
    pub(crate) late_acks: u64,
}

impl Broker {
    /// An empty broker for these evaluations, whose generators may have so many releases in flight.
    pub(crate) fn new(evaluations: Vec<tidemill_domain::EvaluationId>, max_ack_pending: usize) -> Self {
        Self {
            evaluations,
            max_ack_pending,
            ..Self::default()
        }
    }

    /// When a key's completion was stored.
    pub(crate) fn done_at(&self, key: &ItemKey) -> Option<Time> {
        self.done_at.get(key).copied()
    }

    /// Applies a request.
    pub(crate) fn apply(&mut self, op: Op, now: Time, chance: &mut Chance) -> Result<Option<Answer>, Violation> {
        let is_write = matches!(
            op,
            Op::Release(_) | Op::Complete(_) | Op::Overwrite(_) | Op::Grade(_) | Op::Announce(..) | Op::Result(_)
        );
        if is_write && now < self.full_until {
            return Ok(Some(Answer::Later));
        }
        let answer = match op {
            Op::Pull(..) => Answer::Stored,
            Op::Ack(durable, sequence) => return self.ack(durable, sequence, now).map(|()| None),
            Op::Nak(durable, sequence, pause) => {
                if let Some(pending) = self.consumer(durable).pending.get_mut(&sequence) {
                    pending.until = now + pause;
                }
                return Ok(None);
            }
            Op::Term(durable, sequence) => return self.term(durable, sequence, now).map(|()| None),
            Op::Progress(durable, sequence) => {
                if let Some(pending) = self.consumer(durable).pending.get_mut(&sequence) {
                    pending.until = now + durable.ack_wait();
                }
                return Ok(None);
            }
            Op::Release(release) => self.release(release),
            Op::Complete(completion) if self.done_at.contains_key(&completion.key) => self.refuse(),
            Op::Complete(completion) | Op::Overwrite(completion) => {
                self.done_at.entry(completion.key.clone()).or_insert(now);
                self.done.push((now, *completion));
                Answer::Stored
            }
            Op::Grade(grade) if self.graded.contains(&grade.key) => self.refuse(),
            Op::Grade(grade) => {
                self.graded.insert(grade.key.clone());
                self.grades.push(*grade);
                Answer::Stored
            }
            Op::Bury(key) => {
                self.dead.insert(key);
                Answer::Stored
            }
            Op::LookUp(key) => Answer::Found(self.done_at.contains_key(&key)),
            Op::Keys(evaluation, after) => self.keys(evaluation, after),
            Op::Grades(evaluation, after) => self.grades_after(evaluation, after, chance),
            Op::Events(after) => {
                let from = usize::try_from(after).unwrap_or(usize::MAX).min(self.events.len());
                Answer::Events(self.events[from..].to_vec(), self.events.len() as u64)
            }
            Op::Announce(evaluation, state) => {
                if matches!(state, State::Final(_)) {
                    self.final_at.entry(evaluation).or_insert(now);
                }
                self.events.push((evaluation, state));
                Answer::Stored
            }
            Op::Result(published) => self.result(published)?,
            Op::Create(..) | Op::Update(..) | Op::Entry(_) | Op::Delete(..) => self.lease(op, now),
        };
        Ok(Some(answer))
    }

    const fn refuse(&mut self) -> Answer {
        self.refused_writes += 1;
        Answer::AlreadyThere
    }

    fn consumer(&mut self, durable: Durable) -> &mut Consumer {
        match durable {
            Durable::Generator => &mut self.generator,
            Durable::Grader => &mut self.grader,
        }
    }

    fn release(&mut self, release: Release) -> Answer {
        if self.ready.values().any(|waiting| waiting.key == release.key) {
            self.refused_releases += 1;
            return Answer::AlreadyThere;
        }
        self.sequence += 1;
        self.ready.insert(self.sequence, release);
        Answer::Stored
    }

    /// Hands out up to `room` messages: new ones, those whose time is over, and now and then one that is in flight.
    pub(crate) fn deliver(
        &mut self,
        durable: Durable,
        room: usize,
        now: Time,
        doubled: f64,
        chance: &mut Chance,
    ) -> Vec<Delivery> {
        let sequences: Vec<u64> = match durable {
            Durable::Generator => self.ready.keys().copied().collect(),
            Durable::Grader => (0..self.done.len() as u64).collect(),
        };
        let most = self.max_ack_pending;
        let consumer = self.consumer(durable);
        let acked: HashSet<u64> = consumer.acked.iter().map(|(_, sequence)| *sequence).collect();
        let mut chosen = Vec::new();
        let mut repeats = 0;
        for sequence in sequences {
            if chosen.len() == room {
                break;
            }
            let is_new = match consumer.pending.get(&sequence) {
                _ if acked.contains(&sequence) => continue,
                Some(pending) if pending.until > now && !chance.happens(doubled) => continue,
                Some(_) => false,
                None if durable == Durable::Generator && consumer.pending.len() >= most => continue,
                None => true,
            };
            repeats += u64::from(!is_new);
            let count = consumer.counts.entry(sequence).or_insert(0);
            *count += 1;
            chosen.push((sequence, *count));
            let until = now + durable.ack_wait();
            consumer.pending.insert(sequence, Pending { until });
        }
        self.redelivered += repeats;
        let delivery = |(sequence, delivered)| Delivery {
            sequence,
            delivered,
            body: match durable {
                Durable::Generator => Body::Release(self.ready[&sequence].clone()),
                Durable::Grader => Body::Completion(Box::new(self.done[sequence as usize].1.clone())),
            },
        };
        chosen.into_iter().map(delivery).collect()
    }

    /// The effect of what is acknowledged must be stored: that is the rule which everything else leans on.
    fn ack(&mut self, durable: Durable, sequence: u64, now: Time) -> Result<(), Violation> {
        let is_pending = self.consumer(durable).pending.remove(&sequence).is_some();
        self.late_acks += u64::from(!is_pending);
        match durable {
            Durable::Generator => {
                let Some(release) = self.ready.remove(&sequence) else {
                    return Ok(());
                };
                let is_stored = self.done_at.contains_key(&release.key);
                let key = release.key.clone();
                self.left.push((now, sequence, release));
                if !is_stored {
                    return Err(format!(
                        "the release of {key} was acknowledged before its completion was stored"
                    ));
                }
            }
            Durable::Grader => {
                self.grader.acked.push((now, sequence));
                let key = &self.done[sequence as usize].1.key;
                if !self.graded.contains(key) {
                    return Err(format!(
                        "the completion of {key} was acknowledged before its grade was stored"
                    ));
                }
            }
        }
        Ok(())
    }

    fn term(&mut self, durable: Durable, sequence: u64, now: Time) -> Result<(), Violation> {
        self.consumer(durable).pending.remove(&sequence);
        let key = match durable {
            Durable::Generator => match self.ready.remove(&sequence) {
                Some(release) => release.key,
                None => return Ok(()),
            },
            Durable::Grader => {
                self.grader.acked.push((now, sequence));
                self.done[sequence as usize].1.key.clone()
            }
        };
        if self.dead.contains(&key) {
            return Ok(());
        }
        Err(format!("{key} was terminated before its dead letter was stored"))
    }

    fn keys(&self, evaluation: usize, after: u64) -> Answer {
        let id = &self.evaluations[evaluation];
        let keys = self
            .done
            .iter()
            .skip(after as usize)
            .map(|(_, completion)| &completion.key);
        let keys = keys.filter(|key| key.evaluation == *id).cloned().collect();
        Answer::Keys(keys, self.done.len() as u64)
    }

    /// A reader that was made anew may bring what it brought before, and a fold must not care for the order.
    fn grades_after(&self, evaluation: usize, after: u64, chance: &mut Chance) -> Answer {
        let id = &self.evaluations[evaluation];
        let again = if chance.happens(0.1) { chance.below(4) as u64 } else { 0 };
        let grades = self.grades.iter().skip(after.saturating_sub(again) as usize);
        let mut grades: Vec<Grade> = grades.filter(|grade| grade.key.evaluation == *id).cloned().collect();
        if chance.happens(0.2) {
            grades.reverse();
        }
        Answer::Grades(grades, self.grades.len() as u64)
    }

    /// Nobody says "so far" who could have known that the last word is said: whoever says the last word holds the lease.
    fn result(&mut self, published: Published) -> Result<Answer, Violation> {
        let last_word = self.final_at.get(&published.evaluation);
        if published.provisional && last_word.is_some_and(|at| *at < published.sent) {
            return Err(format!(
                "a provisional result of evaluation {} was sent after its final one was stored",
                published.evaluation
            ));
        }
        self.results.push(published);
        Ok(Answer::Stored)
    }

    fn lease(&mut self, op: Op, now: Time) -> Answer {
        self.leases.retain(|_, (_, _, written)| *written + AGE > now);
        self.sequence += 1;
        let revision = self.sequence;
        match op {
            Op::Create(key, holder) => {
                if self.leases.contains_key(key) {
                    return Answer::Refused;
                }
                self.leases.insert(key, (holder, revision, now));
                Answer::Revision(revision)
            }
            Op::Update(key, holder, expected) => {
                if self.leases.get(key).is_none_or(|(_, known, _)| *known != expected) {
                    return Answer::Refused;
                }
                self.leases.insert(key, (holder, revision, now));
                Answer::Revision(revision)
            }
            Op::Entry(key) => {
                let entry = self.leases.get(key);
                Answer::Entry(entry.map(|(holder, revision, _)| (holder.clone(), *revision)))
            }
            Op::Delete(key, expected) => {
                self.leases.retain(|known, entry| *known != key || entry.1 != expected);
                Answer::Stored
            }
            _ => Answer::Refused,
        }
    }

    pub(crate) fn expire_leases(&mut self) {
        self.leases.clear();
    }

    /// Takes a message out of READY, as a purge would. True when there was one.
    pub(crate) fn lose_waiting(&mut self, chance: &mut Chance) -> bool {
        let sequences: Vec<u64> = self.ready.keys().copied().collect();
        if sequences.is_empty() {
            return false;
        }
        let sequence = chance.one_of(&sequences);
        self.ready.remove(&sequence);
        self.generator.pending.remove(&sequence);
        true
    }

    /// Forgets what consumers had, and their last acknowledgements: acknowledged messages come back as new ones.
    pub(crate) fn forget(&mut self, now: Time, chance: &mut Chance) {
        for consumer in [&mut self.generator, &mut self.grader] {
            consumer.pending.clear();
            consumer.counts.clear();
        }
        let since = now.saturating_sub(chance.millis(0, 5_000));
        self.grader.acked.retain(|(at, _)| *at < since);
        let forgotten = self.left.iter().filter(|(at, _, _)| *at >= since);
        for (_, sequence, release) in forgotten {
            if !self.ready.values().any(|waiting| waiting.key == release.key) {
                self.ready.insert(*sequence, release.clone());
            }
        }
        self.left.retain(|(at, _, _)| *at < since);
    }

    /// Completions in order of their store, for checks.
    pub(crate) fn times_stored(&self, key: &ItemKey) -> usize {
        self.done
            .iter()
            .filter(|(_, completion)| completion.key == *key)
            .count()
    }

    pub(crate) fn times_graded(&self, key: &ItemKey) -> usize {
        self.grades.iter().filter(|grade| grade.key == *key).count()
    }
}
