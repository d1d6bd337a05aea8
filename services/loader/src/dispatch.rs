//! Which item is released next: a pure rule over the manifest, the completions seen, the lengths expected and the slots.
//!
//! The backlog of an evaluation is its manifest minus its completions, so a dispatcher that begins anew needs no other
//! state than those two. A little more is out than there are slots: one item in each slot, and a few just ahead of them, so
//! that an engine never waits for the way here and back, and what is urgent waits one turnaround. Of samples that want the
//! same generation one is out at a time; see `sharing`.
//!
//! The order: the most urgent tier; within it the team whose turn it is (`shares`); of that team's evaluations the longest
//! expected answer (`queue`). Spare samples go once nothing else waits, here or for a slot.

mod drift;
mod evaluation;
mod ordinals;
mod queue;
mod shares;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tidemill_domain::{
    AnswerLength, Digest, EvaluationId, Expectation, GenerationKey, ItemKey, Manifest, Release, TeamId, Tier,
    length_class,
};
use tokio::time::Instant;

use self::evaluation::{Evaluation, Head};
pub use self::evaluation::{Learned, LearnedBlock};
pub use self::shares::QUANTUM;
use self::shares::Shares;
use crate::sharing::Sharing;

/// An item that is out for so long without a completion is released again; READY refuses that while it is still there.
pub const RELEASE_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// One slot of so many has an item ahead of it.
const SLOTS_AN_ITEM_AHEAD: usize = 4;

/// Below so many items ahead there is one for each slot: short answers end several at a time.
const FEW_AHEAD: usize = 8;

/// An item whose answer is expected to take less than this share of the time that is left fits in wherever it goes: it is released
/// as its prompt lies with others. The rest are released longest first.
const FITS_IN: u64 = 8;

/// What any request costs a team, in tokens.
const LEAST_COST: u64 = 16;

/// The dispatcher of one server group.
#[derive(Debug, Default)]
pub struct Dispatcher {
    slots: usize,
    /// Slots that are there, where more are expected.
    sure: Option<usize>,
    /// Releases that may still be made, where that is limited.
    allowance: Option<usize>,
    evaluations: Vec<Evaluation>,
    sharing: Sharing,
    /// The teams' shares of each rank.
    shares: BTreeMap<Rank, Shares<Option<TeamId>>>,
}

/// How urgent an evaluation is: the least goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    tier: u8,
    value: Reverse<u32>,
}

impl Rank {
    const fn of(tier: Tier, value: u32) -> Self {
        let tier = match tier {
            Tier::Canary => 0,
            Tier::Promotion => 1,
            Tier::InTraining => 2,
            Tier::Ablation => 3,
        };
        Self {
            tier,
            value: Reverse(value),
        }
    }
}

/// What is released next.
struct Pick {
    evaluation: usize,
    head: Head,
    rank: Rank,
}

impl Dispatcher {
    /// Sets how many requests the group's replicas take at once; 0 while none is ready.
    pub const fn set_slots(&mut self, slots: usize) {
        self.slots = slots;
    }

    /// Sets how many of the slots are there; the others are expected. Until it is set all are.
    pub(crate) const fn set_sure(&mut self, sure: usize) {
        self.sure = Some(sure);
    }

    /// Sets how many releases may be made until it is set again; until it is set the first time there is no limit.
    pub(crate) const fn set_allowance(&mut self, allowance: usize) {
        self.allowance = Some(allowance);
    }

    /// Items that are out, over all evaluations.
    pub(crate) fn out(&self) -> usize {
        self.evaluations.iter().map(Evaluation::out_count).sum()
    }

    /// Adds an evaluation with the completions that it has. With `again`, items may have been released before.
    pub fn add(&mut self, id: EvaluationId, digest: Digest, manifest: Arc<Manifest>, done: &[ItemKey], again: bool) {
        let mut evaluation = Evaluation::new(id, digest, manifest, again);
        for key in done {
            evaluation.complete(key, None);
        }
        self.remove(&evaluation.id.clone());
        self.evaluations.push(evaluation);
    }

    /// Says for whom an evaluation that was added is, and how much a decision waits for it. Without this it is nobody's.
    pub fn bill(&mut self, id: &EvaluationId, team: TeamId, decision_value: Option<u32>) {
        if let Some(evaluation) = self.find(id) {
            evaluation.team = Some(team);
            evaluation.rank.value = Reverse(decision_value.unwrap_or(0));
        }
    }

    /// Releases nothing of an evaluation until it is known what is expected of it, or until then.
    pub(crate) fn hold_back(&mut self, id: &EvaluationId, until: Instant) {
        if let Some(evaluation) = self.find(id) {
            evaluation.begins = Some(until);
        }
    }

    /// Says what is expected of the items of an evaluation that was added, benchmark by benchmark. Without this the answers of a
    /// benchmark are expected to be as long as they may. It may come late, and again: it is about what was not released, and what
    /// answers have said counts for more.
    pub fn expect(&mut self, id: &EvaluationId, expectations: Vec<Expectation>) {
        if let Some(evaluation) = self.find(id) {
            evaluation.begins = None;
            evaluation.expect(expectations);
        }
    }

    fn find(&mut self, id: &EvaluationId) -> Option<&mut Evaluation> {
        self.evaluations.iter_mut().find(|evaluation| evaluation.id == *id)
    }

    /// Lets the answers of an evaluation that was added be left in the generation cache. What it asks for need not be known
    /// while nobody else could have asked for it.
    pub fn keep(&mut self, id: &EvaluationId) {
        if let Some(evaluation) = self.find(id) {
            evaluation.keeps = true;
        }
    }

    /// Lets such an evaluation also take over what others generate. `generations` says what each of its samples asks for,
    /// in the order of [`Manifest::keys`].
    pub fn share(&mut self, id: &EvaluationId, generations: Vec<GenerationKey>) {
        let Some(evaluation) = self.evaluations.iter_mut().find(|evaluation| evaluation.id == *id) else {
            return;
        };
        (evaluation.keeps, evaluation.generations) = (true, generations);
        self.sharing.learn(evaluation.generations_done());
        for generation in evaluation.generations_out() {
            self.sharing.note_out(Some(generation));
        }
    }

    /// Whether it is known what an evaluation asks for.
    #[must_use]
    pub fn is_shared(&self, id: &EvaluationId) -> bool {
        let mut evaluations = self.evaluations.iter();
        evaluations.any(|evaluation| evaluation.id == *id && !evaluation.generations.is_empty())
    }

    /// Whether anything is known to be in the cache.
    #[must_use]
    pub fn knows_generations(&self) -> bool {
        self.sharing.knows_any()
    }

    /// Notes generations that are in the cache.
    pub fn learn(&mut self, generations: impl IntoIterator<Item = GenerationKey>) {
        self.sharing.learn(generations);
    }

    /// Forgets an evaluation: nothing more of it is released.
    pub fn remove(&mut self, id: &EvaluationId) {
        let (removed, kept): (Vec<Evaluation>, Vec<Evaluation>) = std::mem::take(&mut self.evaluations)
            .into_iter()
            .partition(|evaluation| evaluation.id == *id);
        self.evaluations = kept;
        for key in removed.iter().flat_map(Evaluation::generations_out) {
            // A generator that has it may still finish it.
            let held = self.sharing.settle(key);
            self.take_back(held);
        }
    }

    /// Puts samples that were held back in front again.
    fn take_back(&mut self, held: Vec<(EvaluationId, u32)>) {
        for (id, ordinal) in held.into_iter().rev() {
            if let Some(evaluation) = self.find(&id) {
                evaluation.returned.push_front(ordinal);
            }
        }
    }

    /// Notes a completion; any order, any number of times.
    pub fn complete(&mut self, key: &ItemKey) {
        self.complete_with(key, None);
    }

    /// Notes a completion and how long its answer was, where its message says.
    pub fn complete_with(&mut self, key: &ItemKey, length: Option<AnswerLength>) {
        let Some(evaluation) = self.find(&key.evaluation) else {
            return;
        };
        let Some(completed) = evaluation.complete(key, length) else {
            return;
        };
        let (team, rank) = (evaluation.team.clone(), evaluation.rank);
        let generation = evaluation.generation(completed.ordinal);
        if let (Some(length), Some((cost, epoch))) = (length, completed.charged)
            && let Some(shares) = self.shares.get_mut(&rank)
        {
            let took = u64::from(length.tokens).max(LEAST_COST);
            shares.settle(&team, epoch, took.cast_signed() - cost.cast_signed());
        }
        match generation {
            Some(generation) if completed.was_out => {
                let held = self.sharing.settle(generation);
                self.take_back(held);
            }
            Some(generation) => self.sharing.learn([generation]),
            None => {}
        }
    }

    /// How many items may be out: one for each slot, and some ahead.
    fn places(&self) -> usize {
        self.slots + (self.slots / SLOTS_AN_ITEM_AHEAD).max(self.slots.min(FEW_AHEAD))
    }

    /// What is to be released now, in its order.
    #[must_use]
    pub fn release(&mut self, now: Instant) -> Vec<Release> {
        let allowance = self.allowance.unwrap_or(usize::MAX);
        let room = self.places().saturating_sub(self.out()).min(allowance);
        let mut releases = Vec::new();
        if room > 0 {
            let bulk = self.fitting_class();
            while releases.len() < room {
                let Some(pick) = self.pick(bulk, now) else { break };
                self.release_of(pick, bulk, room, now, &mut releases);
            }
        }
        self.allowance = self.allowance.map(|allowance| allowance - releases.len());
        releases
    }

    /// Answers of lower classes fit in anywhere in the time that is left.
    fn fitting_class(&self) -> u8 {
        let work: u64 = self.evaluations.iter().map(Evaluation::work).sum();
        length_class(work / (self.slots.max(1) as u64 * FITS_IN))
    }

    /// The next item; a spare one when nothing else waits, and all else that is out has its slot: what is ahead of the slots
    /// waits for one, and may be passed by on its way.
    fn pick(&mut self, bulk: u8, now: Instant) -> Option<Pick> {
        for spare in [false, true] {
            if spare && !self.has_slots_to_spare() {
                break;
            }
            let heads = self.evaluations.iter_mut().enumerate();
            let begun = heads.filter(|(_, evaluation)| evaluation.begins.is_none_or(|begins| begins <= now));
            let picks = begun.filter_map(|(index, evaluation)| {
                Some(Pick {
                    evaluation: index,
                    head: evaluation.head(spare, bulk)?,
                    rank: evaluation.rank,
                })
            });
            let picks = picks.collect();
            if let Some(pick) = self.first_of(picks) {
                return Some(pick);
            }
        }
        None
    }

    fn has_slots_to_spare(&self) -> bool {
        let required: usize = self.evaluations.iter().map(Evaluation::required_out).sum();
        required == 0 || required <= self.sure.unwrap_or(self.slots)
    }

    /// The first of the evaluations' next items.
    fn first_of(&mut self, mut picks: Vec<Pick>) -> Option<Pick> {
        let rank = picks.iter().map(|pick| pick.rank).min()?;
        picks.retain(|pick| pick.rank == rank);
        // Stable: of equal ones that of the earlier evaluation.
        picks.sort_by_key(|pick| Reverse(pick.head.class));
        let mut teams: Vec<(&Option<TeamId>, u64)> = Vec::new();
        let mut firsts = Vec::new();
        for (place, pick) in picks.iter().enumerate() {
            let evaluation = &self.evaluations[pick.evaluation];
            if teams.iter().all(|(team, _)| **team != evaluation.team) {
                teams.push((&evaluation.team, evaluation.cost(pick.head.ordinal)));
                firsts.push(place);
            }
        }
        let team = self.shares.entry(rank).or_default().next(&teams);
        Some(picks.swap_remove(firsts[team]))
    }

    /// Releases what was picked, and what follows it where nothing else could come before.
    fn release_of(&mut self, pick: Pick, bulk: u8, room: usize, now: Instant, releases: &mut Vec<Release>) {
        let shares = self.shares.entry(pick.rank).or_default();
        let evaluation = &mut self.evaluations[pick.evaluation];
        let mut head = pick.head;
        loop {
            let cost = evaluation.cost(head.ordinal);
            evaluation.take(&head);
            let reuse = match evaluation.generation(head.ordinal) {
                None => Some(evaluation.reuse_unknown(false)),
                Some(key) => self.sharing.admit(key, &evaluation.id, head.ordinal),
            };
            if let Some(reuse) = reuse {
                let charged = shares.charge(&evaluation.team, cost).map(|epoch| (cost, epoch));
                releases.push(evaluation.release(&head, reuse, charged, now));
            }
            if releases.len() >= room {
                // Not looked at before it has to be: it may be another one by then.
                return;
            }
            match evaluation.next_of(&head, bulk) {
                Some(next) if shares.affords(&evaluation.team, evaluation.cost(next.ordinal)) => head = next,
                _ => return,
            }
        }
    }

    /// Items that have been out for long: the broker refuses those that it still has, and takes those that it lost.
    #[must_use]
    pub fn overdue(&mut self, now: Instant) -> Vec<Release> {
        self.evaluations
            .iter_mut()
            .flat_map(|evaluation| evaluation.overdue(now))
            .collect()
    }

    /// Takes in which items are held in the DEAD stream, all of them. They are not released, and take no other item's place
    /// among those that are out. One that is held no longer, and has no completion, is overdue.
    pub fn hold(&mut self, held: &HashSet<ItemKey>, now: Instant) {
        let mut settled = Vec::new();
        for evaluation in &mut self.evaluations {
            let (stopped, begun) = evaluation.hold(held, now);
            settled.extend(stopped);
            begun.into_iter().for_each(|key| self.sharing.note_out(Some(key)));
        }
        for key in settled {
            let waiting = self.sharing.settle(key);
            self.take_back(waiting);
        }
    }

    /// A sample of an evaluation here that has no completion.
    pub(crate) fn lacks(&self, key: &ItemKey) -> bool {
        let mut evaluations = self.evaluations.iter();
        let evaluation = evaluations.find(|evaluation| evaluation.id == key.evaluation);
        evaluation.is_some_and(|evaluation| evaluation.lacks(key))
    }

    /// Samples without a completion, over all evaluations.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.evaluations.iter().map(Evaluation::left).sum()
    }

    /// Samples of one evaluation without a completion; `None` when it is not here.
    pub(crate) fn left_of(&self, id: &EvaluationId) -> Option<u64> {
        let mut evaluations = self.evaluations.iter();
        evaluations
            .find(|evaluation| evaluation.id == *id)
            .map(Evaluation::left)
    }

    /// What was learnt of lengths since this was asked last: of one evaluation, in whole blocks.
    pub(crate) fn learnt(&mut self, id: &EvaluationId) -> Learned {
        self.find(id).map(Evaluation::learnt).unwrap_or_default()
    }

    /// Bytes that its state takes beside the manifests.
    #[cfg(test)]
    pub(crate) fn state_bytes(&self) -> usize {
        self.evaluations.iter().map(Evaluation::state_bytes).sum()
    }
}

#[cfg(test)]
pub(crate) mod tests;

#[cfg(test)]
mod order_tests;
