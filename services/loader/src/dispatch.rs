//! Which item is released next: a pure rule over the manifest, the completions seen and the slots.
//!
//! The backlog of an evaluation is its manifest minus its completions, so a dispatcher that begins anew needs no other
//! state than those two. About twice as many items as there are slots are out at a time: one in each slot, and one just
//! ahead of it, so that an engine never waits for the way here and back. Of samples that want the same generation one is
//! out at a time; see `sharing`.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tidemill_domain::{Benchmark, Digest, EvaluationId, GenerationKey, ItemKey, Manifest, Release, Reuse};
use tokio::time::Instant;

use crate::sharing::Sharing;

/// An item that is out for so long without a completion is released again; READY refuses that while it is still there.
pub const RELEASE_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// The dispatcher of one server group.
#[derive(Debug, Default)]
pub struct Dispatcher {
    slots: usize,
    /// Releases that may still be made, where that is limited.
    allowance: Option<usize>,
    evaluations: Vec<Evaluation>,
    sharing: Sharing,
}

#[derive(Debug)]
struct Evaluation {
    id: EvaluationId,
    digest: Digest,
    manifest: Arc<Manifest>,
    /// Ordinal of the first sample of each benchmark.
    offsets: Vec<u64>,
    done: Ordinals,
    /// What was never released, in the order in which it will be; those among it that are done are passed over. Few
    /// ranges whatever the number of samples.
    waiting: VecDeque<Range<u32>>,
    /// Ordinals that are out, with the time of their release.
    out: BTreeMap<u32, Instant>,
    /// Ordinals that are held in the DEAD stream.
    held: BTreeSet<u32>,
    /// Another dispatcher may have released items before.
    again: bool,
    /// Its answers are left in the generation cache.
    keeps: bool,
    /// What each sample asks for, by ordinal; empty while it is not known.
    generations: Vec<GenerationKey>,
}

impl Dispatcher {
    /// Sets how many requests the group's replicas take at once; 0 while none is ready.
    pub const fn set_slots(&mut self, slots: usize) {
        self.slots = slots;
    }

    /// Sets how many releases may be made until it is set again; until it is set the first time there is no limit.
    pub(crate) const fn set_allowance(&mut self, allowance: usize) {
        self.allowance = Some(allowance);
    }

    /// Items that are out, over all evaluations.
    pub(crate) fn out(&self) -> usize {
        self.evaluations.iter().map(|evaluation| evaluation.out.len()).sum()
    }

    /// Adds an evaluation with the completions that it has. With `again`, items may have been released before.
    pub fn add(&mut self, id: EvaluationId, digest: Digest, manifest: Arc<Manifest>, done: &[ItemKey], again: bool) {
        let mut evaluation = Evaluation::new(id, digest, manifest, again);
        for key in done {
            evaluation.complete(key);
        }
        evaluation.fill();
        self.remove(&evaluation.id.clone());
        self.evaluations.push(evaluation);
    }

    /// Lets the answers of an evaluation that was added be left in the generation cache. What it asks for need not be known
    /// while nobody else could have asked for it.
    pub fn keep(&mut self, id: &EvaluationId) {
        if let Some(evaluation) = self.evaluations.iter_mut().find(|evaluation| evaluation.id == *id) {
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
        let done = (0_u32..).zip(&evaluation.generations);
        let done = done.filter(|(ordinal, _)| evaluation.done.contains(*ordinal));
        self.sharing.learn(done.map(|(_, key)| *key));
        for ordinal in evaluation.out.keys() {
            self.sharing.note_out(evaluation.generation(*ordinal));
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
        let (removed, kept) = std::mem::take(&mut self.evaluations)
            .into_iter()
            .partition(|evaluation| evaluation.id == *id);
        self.evaluations = kept;
        let out = |evaluation: &Evaluation| -> Vec<GenerationKey> {
            let out = evaluation.out.keys();
            out.filter_map(|ordinal| evaluation.generation(*ordinal)).collect()
        };
        let removed: Vec<Evaluation> = removed;
        for key in removed.iter().flat_map(out) {
            // A generator that has it may still finish it.
            let held = self.sharing.settle(key);
            self.take_back(held);
        }
    }

    /// Puts samples that were held back in front again.
    fn take_back(&mut self, held: Vec<(EvaluationId, u32)>) {
        for (id, ordinal) in held.into_iter().rev() {
            if let Some(evaluation) = self.evaluations.iter_mut().find(|evaluation| evaluation.id == id) {
                evaluation.waiting.push_front(ordinal..ordinal + 1);
            }
        }
    }

    /// Notes a completion; any order, any number of times.
    pub fn complete(&mut self, key: &ItemKey) {
        let evaluation = self
            .evaluations
            .iter_mut()
            .find(|evaluation| evaluation.id == key.evaluation);
        let Some(evaluation) = evaluation else { return };
        let Some(completed) = evaluation.complete(key) else {
            return;
        };
        match evaluation.generation(completed.ordinal) {
            Some(generation) if completed.was_out => {
                let held = self.sharing.settle(generation);
                self.take_back(held);
            }
            Some(generation) => self.sharing.learn([generation]),
            None => {}
        }
    }

    /// What is to be released now: earlier evaluations first, within one the longest expected answers first.
    #[must_use]
    pub fn release(&mut self, now: Instant) -> Vec<Release> {
        let allowance = self.allowance.unwrap_or(usize::MAX);
        let mut room = (2 * self.slots).saturating_sub(self.out()).min(allowance);
        let mut releases = Vec::new();
        for evaluation in &mut self.evaluations {
            while room > 0 {
                let Some(ordinal) = evaluation.next_waiting() else {
                    break;
                };
                let reuse = match evaluation.generation(ordinal) {
                    None => evaluation.reuse_unknown(false),
                    Some(key) => match self.sharing.admit(key, &evaluation.id, ordinal) {
                        Some(reuse) => reuse,
                        None => continue,
                    },
                };
                evaluation.out.insert(ordinal, now);
                releases.push(evaluation.release_of(ordinal, evaluation.again, reuse));
                room -= 1;
            }
        }
        self.allowance = self.allowance.map(|allowance| allowance - releases.len());
        releases
    }

    /// Items that have been out for long: the broker refuses those that it still has, and takes those that it lost.
    #[must_use]
    pub fn overdue(&mut self, now: Instant) -> Vec<Release> {
        let mut releases = Vec::new();
        for evaluation in &mut self.evaluations {
            let late = |since: &Instant| now.duration_since(*since) >= RELEASE_AGAIN_AFTER;
            let overdue: Vec<u32> = evaluation
                .out
                .iter()
                .filter(|(_, since)| late(since))
                .map(|(ordinal, _)| *ordinal)
                .collect();
            for ordinal in overdue {
                evaluation.out.insert(ordinal, now);
                let reuse = evaluation.reuse_unknown(true);
                releases.push(evaluation.release_of(ordinal, true, reuse));
            }
        }
        releases
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
        evaluation.is_some_and(|evaluation| {
            let ordinal = evaluation.ordinal(key);
            ordinal.is_some_and(|ordinal| !evaluation.done.contains(ordinal))
        })
    }

    /// Samples without a completion, over all evaluations.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.evaluations
            .iter()
            .map(|evaluation| evaluation.done.missing())
            .sum()
    }

    /// Bytes that its state takes beside the manifests.
    #[cfg(test)]
    pub(crate) fn state_bytes(&self) -> usize {
        let of = |evaluation: &Evaluation| {
            evaluation.done.words.capacity() * size_of::<u64>()
                + evaluation.waiting.capacity() * size_of::<Range<u32>>()
                + evaluation.out.len() * (size_of::<u32>() + size_of::<Instant>())
        };
        self.evaluations.iter().map(of).sum()
    }
}

impl Evaluation {
    fn new(id: EvaluationId, digest: Digest, manifest: Arc<Manifest>, again: bool) -> Self {
        let mut offsets = Vec::with_capacity(manifest.benchmarks.len());
        let mut samples = 0;
        for benchmark in &manifest.benchmarks {
            offsets.push(samples);
            samples += benchmark.samples();
        }
        let done = Ordinals::none_of(samples);
        Self {
            id,
            digest,
            manifest,
            offsets,
            done,
            waiting: VecDeque::new(),
            out: BTreeMap::new(),
            held: BTreeSet::new(),
            again,
            keeps: false,
            generations: Vec::new(),
        }
    }

    fn fill(&mut self) {
        let mut order: Vec<usize> = (0..self.manifest.benchmarks.len()).collect();
        // Stable: benchmarks of the same expected length keep the suite's order.
        order.sort_by_key(|index| std::cmp::Reverse(expected_tokens(&self.manifest.benchmarks[*index])));
        for index in order {
            let first = self.offsets[index];
            let last = first + self.manifest.benchmarks[index].samples();
            if let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(last)) {
                self.waiting.push_back(first..last);
            }
        }
    }

    fn next_waiting(&mut self) -> Option<u32> {
        while let Some(range) = self.waiting.front_mut() {
            // What is out may be here too: it was held, as a dead letter or for another one, before it was released.
            let is_left = |ordinal: &u32| {
                !self.done.contains(*ordinal) && !self.held.contains(ordinal) && !self.out.contains_key(ordinal)
            };
            if let Some(ordinal) = range.find(is_left) {
                return Some(ordinal);
            }
            self.waiting.pop_front();
        }
        None
    }

    fn ordinal(&self, key: &ItemKey) -> Option<u32> {
        let benchmark = self.manifest.benchmark_of(key)?;
        let within = u64::from(key.item) * u64::from(benchmark.settings.samples) + u64::from(key.sample);
        u32::try_from(self.offsets[key.benchmark as usize] + within).ok()
    }

    /// What a release says of the cache while it is not known what the sample asks for, or what became of it.
    const fn reuse_unknown(&self, was_released: bool) -> Reuse {
        match (self.keeps, was_released) {
            (false, _) => Reuse::Never,
            (true, false) => Reuse::Unlikely,
            (true, true) => Reuse::Likely,
        }
    }

    /// What a sample asks for; `None` while it is not known.
    fn generation(&self, ordinal: u32) -> Option<GenerationKey> {
        self.generations.get(ordinal as usize).copied()
    }

    /// Notes a completion; `None` when the key is none of this evaluation or was done before.
    fn complete(&mut self, key: &ItemKey) -> Option<Completed> {
        let ordinal = self.ordinal(key)?;
        let was_out = self.out.remove(&ordinal).is_some();
        self.held.remove(&ordinal);
        let is_new = self.done.insert(ordinal);
        // Not released here: another dispatcher was at it before.
        self.again |= is_new && !was_out;
        (is_new || was_out).then_some(Completed { ordinal, was_out })
    }

    /// Takes in which samples are dead letters. Returns what those asked for that are out no longer, and what those that are
    /// out now.
    fn hold(&mut self, held: &HashSet<ItemKey>, now: Instant) -> (Vec<GenerationKey>, Vec<GenerationKey>) {
        let before = std::mem::take(&mut self.held);
        let (mut settled, mut begun) = (Vec::new(), Vec::new());
        for key in held.iter().filter(|key| key.evaluation == self.id) {
            if let Some(ordinal) = self.ordinal(key).filter(|ordinal| !self.done.contains(*ordinal)) {
                if self.out.remove(&ordinal).is_some() {
                    settled.extend(self.generation(ordinal));
                }
                self.held.insert(ordinal);
            }
        }
        // Its letter is gone: it was retried, and may wait in READY, which then refuses it; or it is nowhere.
        for ordinal in before.difference(&self.held).copied() {
            let overdue = now.checked_sub(RELEASE_AGAIN_AFTER).unwrap_or(now);
            if self.out.insert(ordinal, overdue).is_none() {
                begun.extend(self.generation(ordinal));
            }
        }
        (settled, begun)
    }

    fn release_of(&self, ordinal: u32, again: bool, reuse: Reuse) -> Release {
        let index = self.offsets.partition_point(|first| *first <= u64::from(ordinal)) - 1;
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
            expected_tokens: 0,
            prefix: 0,
        }
    }
}

/// A completion that was noted.
struct Completed {
    ordinal: u32,
    was_out: bool,
}

/// A set of ordinals: a bit for each that is declared.
#[derive(Debug)]
struct Ordinals {
    words: Vec<u64>,
    declared: u64,
    count: u64,
}

impl Ordinals {
    fn none_of(declared: u64) -> Self {
        Self {
            words: vec![0; usize::try_from(declared.div_ceil(64)).unwrap_or(usize::MAX)],
            declared,
            count: 0,
        }
    }

    fn contains(&self, ordinal: u32) -> bool {
        let word = self.words.get(ordinal as usize / 64);
        word.is_some_and(|word| word >> (ordinal % 64) & 1 == 1)
    }

    /// False when it was there already.
    fn insert(&mut self, ordinal: u32) -> bool {
        let Some(word) = self.words.get_mut(ordinal as usize / 64) else {
            return false;
        };
        let bit = 1 << (ordinal % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    const fn missing(&self) -> u64 {
        self.declared - self.count
    }
}

/// How long an answer may get: its cap. A likelihood item generates nothing.
const fn expected_tokens(benchmark: &Benchmark) -> u32 {
    if benchmark.is_likelihood() {
        0
    } else {
        benchmark.settings.max_tokens
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tidemill_domain::{
        BenchmarkName, Continuation, GraderSpec, Normalise, Penalties, Settings, SuiteName, SuiteRef, Tier,
    };

    fn benchmark(name: &str, items: u32, samples: u32, max_tokens: u32) -> Benchmark {
        let grader = if max_tokens == 0 {
            GraderSpec::Likelihood {
                normalise: Normalise::None,
            }
        } else {
            GraderSpec::Exact {
                ignore_case: false,
                ignore_punctuation: false,
            }
        };
        let settings = Settings {
            max_tokens,
            temperature: 0.0,
            top_p: 1.0,
            stop: Vec::new(),
            seed: 0,
            samples,
        };
        Benchmark {
            name: BenchmarkName::try_new(name).unwrap(),
            settings,
            grader,
            items,
            // Which items these are does not matter to the rule, and no service ever reads them for it.
            blocks: Vec::new(),
            clusters: None,
            penalties: Penalties::default(),
            continuation: Continuation::default(),
            spare_samples: 0,
            outlines: Vec::new(),
        }
    }

    fn manifest() -> Arc<Manifest> {
        let benchmarks = [("likelihood", 5, 1, 0), ("short", 6, 2, 16), ("long", 4, 1, 512)];
        Arc::new(manifest_of(&benchmarks))
    }

    /// Benchmarks by name, items, samples and cap; without a cap by likelihood.
    pub(crate) fn manifest_of(benchmarks: &[(&str, u32, u32, u32)]) -> Manifest {
        let suite = SuiteRef {
            name: SuiteName::try_new("s").unwrap(),
            version: "1".to_owned(),
            tier: Tier::Canary,
        };
        let benchmarks = benchmarks
            .iter()
            .map(|(name, items, samples, max_tokens)| benchmark(name, *items, *samples, *max_tokens));
        Manifest {
            suite,
            max_failure_rate: 0.0,
            benchmarks: benchmarks.collect(),
        }
    }

    fn id() -> EvaluationId {
        EvaluationId::from_digest(&Digest::of(b"e"))
    }

    fn dispatcher(done: &[ItemKey]) -> Dispatcher {
        let mut dispatcher = Dispatcher::default();
        dispatcher.add(id(), Digest::of(b"m"), manifest(), done, false);
        dispatcher
    }

    #[test]
    fn releases_every_declared_sample_once_longest_first() {
        let (mut dispatcher, now) = (dispatcher(&[]), Instant::now());
        dispatcher.set_slots(3);
        let mut released = Vec::new();
        while dispatcher.left() > 0 {
            let batch = dispatcher.release(now);
            assert!(!batch.is_empty() && batch.len() <= 6);
            batch.iter().for_each(|release| dispatcher.complete(&release.key));
            released.extend(batch.into_iter().map(|release| release.key));
        }
        let distinct: HashSet<_> = released.iter().cloned().collect();
        let (manifest, id) = (manifest(), id());
        assert_eq!(distinct, manifest.keys(&id).collect());
        assert_eq!(released.len() as u64, manifest.samples());
        let order: Vec<u32> = released.iter().map(|key| key.benchmark).collect();
        assert!(
            order.is_sorted_by_key(|benchmark| [2, 1, 0][*benchmark as usize]),
            "{order:?}"
        );
    }

    #[test]
    fn a_new_dispatcher_releases_only_what_has_no_completion() {
        let (manifest, id) = (manifest(), id());
        let done: Vec<ItemKey> = manifest.keys(&id).step_by(2).collect();
        let mut dispatcher = dispatcher(&done);
        dispatcher.set_slots(100);
        let released: HashSet<_> = dispatcher
            .release(Instant::now())
            .into_iter()
            .map(|release| release.key)
            .collect();
        let missing: HashSet<_> = manifest.keys(&id).filter(|key| !done.contains(key)).collect();
        assert_eq!(released, missing);
    }

    #[test]
    fn without_slots_nothing_is_released_and_what_is_out_counts() {
        let (mut dispatcher, now) = (dispatcher(&[]), Instant::now());
        assert!(dispatcher.release(now).is_empty());
        dispatcher.set_slots(2);
        assert_eq!(dispatcher.release(now).len(), 4);
        assert!(dispatcher.release(now).is_empty());
        dispatcher.set_slots(3);
        assert_eq!(dispatcher.release(now).len(), 2);
    }

    #[test]
    fn no_more_is_released_than_is_allowed_until_more_is() {
        let (mut dispatcher, now) = (dispatcher(&[]), Instant::now());
        dispatcher.set_slots(4);
        dispatcher.set_allowance(5);
        let first = dispatcher.release(now);
        assert_eq!(first.len(), 5);
        first.iter().for_each(|release| dispatcher.complete(&release.key));
        assert!(dispatcher.release(now).is_empty());
        dispatcher.set_allowance(3);
        assert_eq!(dispatcher.release(now).len(), 3);
        assert_eq!(dispatcher.out(), 3);
    }

    #[test]
    fn what_stays_out_is_released_again_as_such() {
        let (mut dispatcher, now) = (dispatcher(&[]), Instant::now());
        dispatcher.set_slots(1);
        let first = dispatcher.release(now);
        assert!(dispatcher.overdue(now + RELEASE_AGAIN_AFTER / 2).is_empty());
        dispatcher.complete(&first[0].key);
        let overdue = dispatcher.overdue(now + RELEASE_AGAIN_AFTER);
        assert_eq!(overdue.len(), 1);
        assert!(overdue[0].again && overdue[0].key == first[1].key);
        assert!(dispatcher.overdue(now + RELEASE_AGAIN_AFTER).is_empty());
    }

    #[test]
    fn a_million_items_take_less_than_a_byte_each() {
        let (manifest, id) = (Arc::new(manifest_of(&[("big", 500_000, 2, 16)])), id());
        let mut dispatcher = Dispatcher::default();
        dispatcher.add(id.clone(), Digest::of(b"m"), Arc::clone(&manifest), &[], true);
        // A new dispatcher is told of what is done after it knows the evaluation: nothing lists a million keys.
        manifest
            .keys(&id)
            .filter(|key| key.item % 3 != 0)
            .for_each(|key| dispatcher.complete(&key));
        dispatcher.set_slots(1_000);
        let mut released = 0;
        while dispatcher.left() > 0 {
            assert!(dispatcher.state_bytes() < 250_000, "{}", dispatcher.state_bytes());
            for release in dispatcher.release(Instant::now()) {
                assert_eq!(release.key.item % 3, 0);
                released += 1;
                dispatcher.complete(&release.key);
            }
        }
        assert_eq!(released, 2 * 166_667);
    }

    #[test]
    fn what_is_held_is_not_released_and_takes_no_place_until_its_letter_is_gone() {
        let (mut dispatcher, now) = (dispatcher(&[]), Instant::now());
        dispatcher.set_slots(1);
        let first = dispatcher.release(now);
        let never_released = manifest().keys(&id()).last().unwrap();
        let held: HashSet<ItemKey> = [first[0].key.clone(), never_released.clone()].into();
        let later = now + RELEASE_AGAIN_AFTER;
        dispatcher.hold(&held, later);
        let overdue: Vec<ItemKey> = dispatcher
            .overdue(later)
            .into_iter()
            .map(|release| release.key)
            .collect();
        assert_eq!(overdue, [first[1].key.clone()]);
        assert_eq!(dispatcher.release(later).len(), 1, "the held one's place is free");
        dispatcher.set_slots(100);
        let rest = dispatcher.release(later);
        assert!(rest.iter().all(|release| !held.contains(&release.key)));
        assert!(rest.len() > 5);
        rest.iter().for_each(|release| dispatcher.complete(&release.key));

        let last = later + RELEASE_AGAIN_AFTER;
        dispatcher.hold(&[never_released].into(), last);
        let overdue = dispatcher.overdue(last);
        assert!(
            overdue
                .iter()
                .any(|release| release.key == first[0].key && release.again)
        );
        dispatcher.complete(&first[0].key);
        dispatcher.hold(&HashSet::new(), last);
        assert!(
            dispatcher
                .overdue(last)
                .iter()
                .all(|release| release.key != first[0].key)
        );
    }

    #[test]
    fn completions_of_strangers_and_repeats_change_nothing() {
        let mut dispatcher = dispatcher(&[]);
        let left = dispatcher.left();
        let key = ItemKey {
            evaluation: id(),
            benchmark: 0,
            item: 0,
            sample: 0,
        };
        dispatcher.complete(&ItemKey {
            item: 99,
            ..key.clone()
        });
        dispatcher.complete(&ItemKey {
            evaluation: EvaluationId::from_digest(&Digest::of(b"other")),
            ..key.clone()
        });
        dispatcher.complete(&key);
        dispatcher.complete(&key);
        assert_eq!(dispatcher.left(), left - 1);
    }
}
