//! One evaluation as the dispatcher knows it: what is done, out, held and waiting.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use tidemill_domain::{
    AnswerLength, BenchmarkName, Digest, EvaluationId, Expectation, GenerationKey, ItemKey, Lengths, Manifest, Release,
    Reuse, Spread, TeamId,
};
use tokio::time::Instant;

use super::ordinals::Ordinals;
use super::queue::Queue;
use super::shares::Epoch;
use super::{LEAST_COST, RELEASE_AGAIN_AFTER, Rank};

/// Before every class: what was held back for another one is next.
const RETURNED: u16 = 256;

#[derive(Debug)]
pub(super) struct Evaluation {
    pub(super) id: EvaluationId,
    digest: Digest,
    manifest: Arc<Manifest>,
    pub(super) rank: Rank,
    pub(super) team: Option<TeamId>,
    /// Nothing of it is released before.
    pub(super) begins: Option<Instant>,
    /// Ordinal of the first sample of each benchmark.
    offsets: Vec<u64>,
    done: Ordinals,
    /// What was never released, benchmark by benchmark; those among it that are done are passed over.
    queues: Vec<Queue>,
    /// What was held back while another sample of the same generation was out.
    pub(super) returned: VecDeque<u32>,
    /// Ordinals that are out, and how many of them are spare.
    out: BTreeMap<u32, Out>,
    spare_out: usize,
    /// Ordinals that are held in the DEAD stream.
    held: BTreeSet<u32>,
    /// Another dispatcher may have released items before.
    again: bool,
    /// Its answers are left in the generation cache.
    pub(super) keeps: bool,
    /// What each sample asks for, by ordinal; empty while it is not known.
    pub(super) generations: Vec<GenerationKey>,
    /// Benchmark and number of blocks of whose items lengths were learnt.
    dirty: BTreeSet<(u32, u32)>,
}

/// Tokens that a release took from its team's share, and when; `None` for none.
type Charged = Option<(u64, Epoch)>;

/// A sample that is out.
#[derive(Debug, Clone, Copy)]
struct Out {
    since: Instant,
    charged: Charged,
    /// The class that its benchmark's drift knows it by; 0 for none.
    class: u8,
}

/// The next sample of an evaluation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) ordinal: u32,
    /// The class of its expected length; above all for one that was held back.
    pub(super) class: u16,
    is_spare: bool,
    /// The benchmark; `None` for one that was held back.
    queue: Option<usize>,
}

/// A completion that was noted.
#[derive(Debug)]
pub(super) struct Completed {
    pub(super) ordinal: u32,
    pub(super) was_out: bool,
    /// What its release took from its team's share.
    pub(super) charged: Charged,
}

/// What completions said of lengths.
#[derive(Debug, Default)]
pub struct Learned {
    /// Of single items, block by block.
    pub blocks: Vec<LearnedBlock>,
    /// Of whole benchmarks.
    pub spreads: Vec<(BenchmarkName, Spread)>,
}

/// Lengths of a block's items, as far as there were any.
#[derive(Debug)]
pub struct LearnedBlock {
    /// The block.
    pub digest: Digest,
    /// What its items took.
    pub lengths: Lengths,
}

impl Evaluation {
    pub(super) fn new(id: EvaluationId, digest: Digest, manifest: Arc<Manifest>, again: bool) -> Self {
        let (mut offsets, mut queues) = (Vec::with_capacity(manifest.benchmarks.len()), Vec::new());
        let mut samples = 0;
        for benchmark in &manifest.benchmarks {
            offsets.push(samples);
            queues.push(Queue::new(benchmark, u32::try_from(samples).unwrap_or(u32::MAX)));
            samples += benchmark.samples();
        }
        Self {
            id,
            digest,
            rank: Rank::of(manifest.suite.tier, 0),
            team: None,
            begins: None,
            manifest,
            offsets,
            done: Ordinals::none_of(samples),
            queues,
            returned: VecDeque::new(),
            out: BTreeMap::new(),
            spare_out: 0,
            held: BTreeSet::new(),
            again,
            keeps: false,
            generations: Vec::new(),
            dirty: BTreeSet::new(),
        }
    }

    pub(super) fn expect(&mut self, expectations: Vec<Expectation>) {
        for (queue, expectation) in self.queues.iter_mut().zip(expectations) {
            queue.expect(expectation);
        }
    }

    pub(super) fn out_count(&self) -> usize {
        self.out.len()
    }

    /// Samples that are out and no spare ones.
    pub(super) fn required_out(&self) -> usize {
        self.out.len() - self.spare_out
    }

    pub(super) const fn left(&self) -> u64 {
        self.done.missing()
    }

    /// Tokens that are expected of what was not released.
    pub(super) fn work(&self) -> u64 {
        self.queues.iter().map(Queue::work).sum()
    }

    /// The next sample; a spare one, or one that is not.
    pub(super) fn head(&mut self, spare: bool, bulk: u8) -> Option<Head> {
        if !spare && let Some(head) = self.head_of(None, bulk) {
            return Some(head);
        }
        let mut best: Option<Head> = None;
        for queue in 0..self.queues.len() {
            // Looking decides which item is next: nothing is decided for one that has to wait.
            let mut head = None;
            while self.queues[queue].is_spare() == Some(spare) {
                head = self.head_of(Some(queue), bulk);
                if head.is_none_or(|head| head.is_spare == spare) {
                    break;
                }
            }
            let head = head.filter(|head| head.is_spare == spare);
            if let Some(head) = head.filter(|head| best.is_none_or(|best| best.class < head.class)) {
                best = Some(head);
            }
        }
        best
    }

    fn head_of(&mut self, queue: Option<usize>, bulk: u8) -> Option<Head> {
        let (done, held, out) = (&self.done, &self.held, &self.out);
        // What is out may be here too: it was held, as a dead letter or for another one, before it was released.
        let is_left = |ordinal: u32| !done.contains(ordinal) && !held.contains(&ordinal) && !out.contains_key(&ordinal);
        let Some(index) = queue else {
            while let Some(ordinal) = self.returned.front().copied() {
                if is_left(ordinal) {
                    return Some(Head {
                        ordinal,
                        class: RETURNED,
                        is_spare: false,
                        queue,
                    });
                }
                self.returned.pop_front();
            }
            return None;
        };
        let (ordinal, class) = self.queues[index].peek(bulk, is_left)?;
        Some(Head {
            ordinal,
            class: u16::from(class),
            is_spare: self.queues[index].is_spare() == Some(true),
            queue,
        })
    }

    /// The sample after this one, where no other could come before it.
    pub(super) fn next_of(&mut self, head: &Head, bulk: u8) -> Option<Head> {
        if head
            .queue
            .is_some_and(|queue| self.queues[queue].is_spare() != Some(head.is_spare))
        {
            return None;
        }
        let next = self.head_of(head.queue, bulk)?;
        (next.class == head.class && next.is_spare == head.is_spare).then_some(next)
    }

    /// Takes the sample that was looked at out of what waits.
    pub(super) fn take(&mut self, head: &Head) {
        match head.queue {
            Some(queue) => self.queues[queue].take(),
            None => drop(self.returned.pop_front()),
        }
    }

    /// What a sample costs its team, in tokens.
    pub(super) fn cost(&self, ordinal: u32) -> u64 {
        self.queues[self.benchmark_of(ordinal)].cost(ordinal).max(LEAST_COST)
    }

    /// Releases the sample, for which its team was charged so.
    pub(super) fn release(&mut self, head: &Head, reuse: Reuse, charged: Charged, now: Instant) -> Release {
        let index = self.benchmark_of(head.ordinal);
        let out = Out {
            since: now,
            charged,
            class: self.queues[index].released(head.ordinal),
        };
        self.put_out(head.ordinal, out);
        self.release_of(head.ordinal, self.again, reuse)
    }

    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Release> {
        let mut overdue = Vec::new();
        for (ordinal, out) in &mut self.out {
            if now.duration_since(out.since) >= RELEASE_AGAIN_AFTER {
                out.since = now;
                overdue.push(*ordinal);
            }
        }
        let reuse = self.reuse_unknown(true);
        overdue
            .into_iter()
            .map(|ordinal| self.release_of(ordinal, true, reuse))
            .collect()
    }

    fn put_out(&mut self, ordinal: u32, out: Out) -> Option<Out> {
        let before = self.out.insert(ordinal, out);
        self.spare_out += usize::from(before.is_none() && self.is_spare(ordinal));
        before
    }

    fn take_out(&mut self, ordinal: u32) -> Option<Out> {
        let out = self.out.remove(&ordinal);
        self.spare_out -= usize::from(out.is_some() && self.is_spare(ordinal));
        out
    }

    fn is_spare(&self, ordinal: u32) -> bool {
        self.queues[self.benchmark_of(ordinal)].spares(ordinal)
    }

    fn benchmark_of(&self, ordinal: u32) -> usize {
        self.offsets.partition_point(|first| *first <= u64::from(ordinal)) - 1
    }

    fn ordinal(&self, key: &ItemKey) -> Option<u32> {
        let benchmark = self.manifest.benchmark_of(key)?;
        let within = u64::from(key.item) * u64::from(benchmark.settings.samples) + u64::from(key.sample);
        u32::try_from(self.offsets[key.benchmark as usize] + within).ok()
    }

    pub(super) fn lacks(&self, key: &ItemKey) -> bool {
        self.ordinal(key).is_some_and(|ordinal| !self.done.contains(ordinal))
    }

    /// What a release says of the cache while it is not known what the sample asks for, or what became of it.
    pub(super) const fn reuse_unknown(&self, was_released: bool) -> Reuse {
        match (self.keeps, was_released) {
            (false, _) => Reuse::Never,
            (true, false) => Reuse::Unlikely,
            (true, true) => Reuse::Likely,
        }
    }

    /// What a sample asks for; `None` while it is not known.
    pub(super) fn generation(&self, ordinal: u32) -> Option<GenerationKey> {
        self.generations.get(ordinal as usize).copied()
    }

    /// What the samples that are done had asked for.
    pub(super) fn generations_done(&self) -> impl Iterator<Item = GenerationKey> {
        let all = (0_u32..).zip(&self.generations);
        all.filter(|(ordinal, _)| self.done.contains(*ordinal))
            .map(|(_, key)| *key)
    }

    /// What the samples that are out ask for.
    pub(super) fn generations_out(&self) -> impl Iterator<Item = GenerationKey> {
        self.out.keys().filter_map(|ordinal| self.generation(*ordinal))
    }

    /// Notes a completion; `None` when the key is none of this evaluation or was done before.
    pub(super) fn complete(&mut self, key: &ItemKey, length: Option<AnswerLength>) -> Option<Completed> {
        let ordinal = self.ordinal(key)?;
        let out = self.take_out(ordinal);
        self.held.remove(&ordinal);
        let is_new = self.done.insert(ordinal);
        // Not released here: another dispatcher was at it before.
        self.again |= is_new && out.is_none();
        if is_new || out.is_some() {
            let class = out.map_or(0, |out| out.class);
            self.queues[key.benchmark as usize].ended(ordinal, length, class);
        }
        if is_new && length.is_some() {
            self.mark_dirty(key);
        }
        (is_new || out.is_some()).then_some(Completed {
            ordinal,
            was_out: out.is_some(),
            charged: out.and_then(|out| out.charged),
        })
    }

    fn mark_dirty(&mut self, key: &ItemKey) {
        let blocks = &self.manifest.benchmarks[key.benchmark as usize].blocks;
        let block = blocks.partition_point(|block| block.end <= key.item);
        if block < blocks.len() {
            self.dirty.insert((key.benchmark, block as u32));
        }
    }

    /// What was learnt of lengths since this was asked last.
    pub(super) fn learnt(&mut self) -> Learned {
        let dirty = std::mem::take(&mut self.dirty);
        let mut learnt = Learned::default();
        for (benchmark, block) in &dirty {
            let blocks = &self.manifest.benchmarks[*benchmark as usize].blocks;
            let place = &blocks[*block as usize];
            let first = block.checked_sub(1).map_or(0, |before| blocks[before as usize].end);
            learnt.blocks.push(LearnedBlock {
                digest: place.digest.clone(),
                lengths: self.queues[*benchmark as usize].lengths(first..place.end),
            });
        }
        let benchmarks: BTreeSet<u32> = dirty.into_iter().map(|(benchmark, _)| benchmark).collect();
        for benchmark in benchmarks {
            if let Some(spread) = self.queues[benchmark as usize].spread() {
                let name = self.manifest.benchmarks[benchmark as usize].name.clone();
                learnt.spreads.push((name, spread));
            }
        }
        learnt
    }

    /// Takes in which samples are dead letters. Returns what those asked for that are out no longer, and what those that are
    /// out now.
    pub(super) fn hold(&mut self, held: &HashSet<ItemKey>, now: Instant) -> (Vec<GenerationKey>, Vec<GenerationKey>) {
        let before = std::mem::take(&mut self.held);
        let (mut settled, mut begun) = (Vec::new(), Vec::new());
        let id = self.id.clone();
        for key in held.iter().filter(|key| key.evaluation == id) {
            if let Some(ordinal) = self.ordinal(key).filter(|ordinal| !self.done.contains(*ordinal)) {
                if let Some(out) = self.take_out(ordinal) {
                    self.queues[key.benchmark as usize].ended(ordinal, None, out.class);
                    settled.extend(self.generation(ordinal));
                }
                self.held.insert(ordinal);
            }
        }
        // Its letter is gone: it was retried, and may wait in READY, which then refuses it; or it is nowhere.
        let freed: Vec<u32> = before.difference(&self.held).copied().collect();
        for ordinal in freed {
            let overdue = Out {
                since: now.checked_sub(RELEASE_AGAIN_AFTER).unwrap_or(now),
                charged: None,
                class: 0,
            };
            if self.put_out(ordinal, overdue).is_none() {
                begun.extend(self.generation(ordinal));
            }
        }
        (settled, begun)
    }

    fn release_of(&self, ordinal: u32, again: bool, reuse: Reuse) -> Release {
        let index = self.benchmark_of(ordinal);
        let within = u64::from(ordinal) - self.offsets[index];
        let samples = u64::from(self.manifest.benchmarks[index].settings.samples);
        let key = ItemKey {
            evaluation: self.id.clone(),
            benchmark: index as u32,
            item: (within / samples) as u32,
            sample: (within % samples) as u32,
        };
        Release {
            key,
            manifest: self.digest.clone(),
            again,
            reuse,
            expected_tokens: self.queues[index].expected_tokens(ordinal),
            prefix: self.queues[index].prefix(ordinal),
        }
    }

    /// Bytes that it takes beside its manifest.
    #[cfg(test)]
    pub(super) fn state_bytes(&self) -> usize {
        self.done.state_bytes()
            + self.queues.iter().map(Queue::state_bytes).sum::<usize>()
            + self.returned.capacity() * size_of::<u32>()
            + self.out.len() * (size_of::<u32>() + size_of::<Out>())
    }
}
