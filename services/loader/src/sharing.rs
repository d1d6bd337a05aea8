//! Who generates what several evaluations of one group want: one of them, and the others take it over. A pure rule.
//!
//! All evaluations of the same weights belong to one group, so the group's dispatcher sees all that want the same
//! generation. One is released at a time; the others are held back until it is done, and then find it in the cache.

use std::collections::{HashMap, HashSet};

use tidemill_domain::{EvaluationId, GenerationKey, Reuse};

/// What a group's dispatcher knows of generations: at most 17 bytes for each that is cached, out or held back.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// Those that are in the cache, or were likely put there.
    known: HashSet<GenerationKey>,
    /// Those that are out, with how many samples are out for each: more than one only where releases came before it was
    /// known what they ask for, or dead letters went.
    out: HashMap<GenerationKey, u32>,
    /// Samples that wait for what is out.
    held: HashMap<GenerationKey, Vec<(EvaluationId, u32)>>,
}

impl Sharing {
    /// Notes generations that are in the cache.
    pub(crate) fn learn(&mut self, keys: impl IntoIterator<Item = GenerationKey>) {
        self.known.extend(keys);
    }

    /// Whether a sample may go out now, and what its release says of the cache; `None` when it is held back.
    pub(crate) fn admit(&mut self, key: GenerationKey, evaluation: &EvaluationId, ordinal: u32) -> Option<Reuse> {
        if self.out.contains_key(&key) {
            self.held.entry(key).or_default().push((evaluation.clone(), ordinal));
            return None;
        }
        self.note_out(Some(key));
        Some(if self.known.contains(&key) {
            Reuse::Likely
        } else {
            Reuse::Unlikely
        })
    }

    /// Notes that a sample is out, whatever else is: it went out before it was known what it asks for, or its dead letter is
    /// gone.
    pub(crate) fn note_out(&mut self, key: Option<GenerationKey>) {
        if let Some(key) = key {
            *self.out.entry(key).or_default() += 1;
        }
    }

    pub(crate) fn knows_any(&self) -> bool {
        !self.known.is_empty()
    }

    /// Notes that a sample that was out for a key is out no longer: its generation is in the cache, or may get there.
    /// Returns the samples that waited for it, once no other one is out for it.
    pub(crate) fn settle(&mut self, key: GenerationKey) -> Vec<(EvaluationId, u32)> {
        self.known.insert(key);
        if let Some(others) = self.out.get_mut(&key).filter(|count| **count > 1) {
            *others -= 1;
            return Vec::new();
        }
        self.out.remove(&key);
        self.held.remove(&key).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tidemill_domain::{Digest, ItemKey, Release};
    use tokio::time::Instant;

    use super::*;
    use crate::dispatch::{Dispatcher, RELEASE_AGAIN_AFTER, tests::manifest_of};

    fn id(name: &str) -> EvaluationId {
        EvaluationId::from_digest(&Digest::of(name.as_bytes()))
    }

    fn generation(number: u8) -> GenerationKey {
        format!("{number:032x}").parse().unwrap()
    }

    /// A dispatcher with evaluations of one benchmark, by name and by what each item asks for.
    fn dispatcher(slots: usize, evaluations: &[(&str, &[u8])]) -> Dispatcher {
        let mut dispatcher = Dispatcher::default();
        dispatcher.set_slots(slots);
        for (name, generations) in evaluations {
            let manifest = Arc::new(manifest_of(&[("b", generations.len() as u32, 1, 16)]));
            dispatcher.add(id(name), Digest::of(name.as_bytes()), manifest, &[], false);
            dispatcher.share(
                &id(name),
                generations.iter().map(|number| generation(*number)).collect(),
            );
        }
        dispatcher
    }

    fn key(name: &str, item: u32) -> ItemKey {
        ItemKey {
            evaluation: id(name),
            benchmark: 0,
            item,
            sample: 0,
        }
    }

    fn released(releases: &[Release]) -> Vec<(ItemKey, Reuse)> {
        releases
            .iter()
            .map(|release| (release.key.clone(), release.reuse))
            .collect()
    }

    #[test]
    fn what_is_in_the_cache_is_released_as_likely_and_the_rest_is_not() {
        let mut dispatcher = dispatcher(8, &[("a", &[1, 2, 3])]);
        dispatcher.learn([generation(2), generation(9)]);
        let expected = [
            (key("a", 0), Reuse::Unlikely),
            (key("a", 1), Reuse::Likely),
            (key("a", 2), Reuse::Unlikely),
        ];
        assert_eq!(released(&dispatcher.release(Instant::now())), expected);
    }

    #[test]
    fn an_evaluation_without_the_cache_says_never_and_waits_for_nobody() {
        let (mut dispatcher, now) = (dispatcher(8, &[("a", &[1])]), Instant::now());
        let manifest = Arc::new(manifest_of(&[("b", 1, 1, 16)]));
        dispatcher.add(id("own"), Digest::of(b"own"), manifest, &[], false);
        let expected = [(key("a", 0), Reuse::Unlikely), (key("own", 0), Reuse::Never)];
        assert_eq!(released(&dispatcher.release(now)), expected);
        let overdue = released(&dispatcher.overdue(now + RELEASE_AGAIN_AFTER));
        assert_eq!(overdue, [(key("a", 0), Reuse::Likely), (key("own", 0), Reuse::Never)]);
    }

    #[test]
    fn of_those_that_want_the_same_one_is_out_at_a_time() {
        let (mut dispatcher, now) = (
            dispatcher(8, &[("a", &[1, 2]), ("b", &[2, 1, 3]), ("c", &[1])]),
            Instant::now(),
        );
        let expected = [
            (key("a", 0), Reuse::Unlikely),
            (key("a", 1), Reuse::Unlikely),
            (key("b", 2), Reuse::Unlikely),
        ];
        assert_eq!(released(&dispatcher.release(now)), expected);
        assert!(dispatcher.release(now).is_empty() && dispatcher.left() == 6);
        dispatcher.complete(&key("a", 0));
        assert_eq!(released(&dispatcher.release(now)), [(key("b", 1), Reuse::Likely)]);
        dispatcher.complete(&key("b", 1));
        dispatcher.complete(&key("a", 1));
        let expected = [(key("b", 0), Reuse::Likely), (key("c", 0), Reuse::Likely)];
        assert_eq!(released(&dispatcher.release(now)), expected);
    }

    #[test]
    fn one_that_began_alone_shares_what_is_done_and_what_is_out_with_the_next() {
        let (mut dispatcher, now) = (dispatcher(1, &[]), Instant::now());
        let manifest = Arc::new(manifest_of(&[("b", 3, 1, 16)]));
        dispatcher.add(id("a"), Digest::of(b"a"), Arc::clone(&manifest), &[], false);
        dispatcher.keep(&id("a"));
        let expected = [(key("a", 0), Reuse::Unlikely), (key("a", 1), Reuse::Unlikely)];
        assert_eq!(released(&dispatcher.release(now)), expected);
        dispatcher.complete(&key("a", 0));
        assert!(!dispatcher.knows_generations() && !dispatcher.is_shared(&id("a")));
        dispatcher.set_slots(8);
        dispatcher.add(id("b"), Digest::of(b"b"), manifest, &[], false);
        for name in ["a", "b"] {
            dispatcher.share(&id(name), [1, 2, 3].map(generation).to_vec());
        }
        assert!(dispatcher.is_shared(&id("a")) && dispatcher.knows_generations());
        let expected = [(key("a", 2), Reuse::Unlikely), (key("b", 0), Reuse::Likely)];
        assert_eq!(released(&dispatcher.release(now)), expected);
        dispatcher.complete(&key("a", 1));
        assert_eq!(released(&dispatcher.release(now)), [(key("b", 1), Reuse::Likely)]);
    }

    #[test]
    fn one_whose_letter_is_gone_is_out_and_others_wait_for_it() {
        let (mut dispatcher, now) = (
            dispatcher(8, &[("a", &[1, 1]), ("b", &[1]), ("c", &[1])]),
            Instant::now(),
        );
        assert_eq!(released(&dispatcher.release(now)), [(key("a", 0), Reuse::Unlikely)]);
        dispatcher.hold(&[key("a", 0), key("a", 1), key("b", 0)].into(), now);
        dispatcher.hold(&[key("a", 1), key("b", 0)].into(), now);
        assert!(dispatcher.release(now).is_empty(), "the first one is out again");
        dispatcher.hold(&[key("b", 0)].into(), now);
        let overdue = released(&dispatcher.overdue(now));
        assert_eq!(overdue, [(key("a", 0), Reuse::Likely), (key("a", 1), Reuse::Likely)]);
        dispatcher.complete(&key("a", 0));
        assert!(dispatcher.release(now).is_empty(), "the second one is out yet");
        dispatcher.complete(&key("a", 1));
        assert_eq!(released(&dispatcher.release(now)), [(key("c", 0), Reuse::Likely)]);
        dispatcher.complete(&key("c", 0));
        dispatcher.hold(&HashSet::new(), now);
        assert_eq!(released(&dispatcher.overdue(now)), [(key("b", 0), Reuse::Likely)]);
        dispatcher.complete(&key("b", 0));
        assert!(dispatcher.left() == 0 && dispatcher.release(now).is_empty());
    }

    #[test]
    fn those_that_wait_for_an_evaluation_that_leaves_go_on() {
        let (mut dispatcher, now) = (dispatcher(8, &[("a", &[1]), ("b", &[1]), ("c", &[1])]), Instant::now());
        assert_eq!(released(&dispatcher.release(now)), [(key("a", 0), Reuse::Unlikely)]);
        assert!(dispatcher.release(now).is_empty());
        dispatcher.remove(&id("b"));
        dispatcher.remove(&id("a"));
        // A generator may be at it yet, or have stored it.
        assert_eq!(released(&dispatcher.release(now)), [(key("c", 0), Reuse::Likely)]);
    }

    #[test]
    fn completions_from_before_are_likely_to_be_cached() {
        let (mut dispatcher, now) = (dispatcher(8, &[]), Instant::now());
        let add = |dispatcher: &mut Dispatcher, name: &str, done: &[ItemKey]| {
            let manifest = Arc::new(manifest_of(&[("b", 2, 1, 16)]));
            dispatcher.add(id(name), Digest::of(name.as_bytes()), manifest, done, true);
            dispatcher.share(&id(name), vec![generation(1), generation(2)]);
        };
        add(&mut dispatcher, "a", &[key("a", 0)]);
        assert_eq!(released(&dispatcher.release(now)), [(key("a", 1), Reuse::Unlikely)]);
        add(&mut dispatcher, "b", &[]);
        assert_eq!(released(&dispatcher.release(now)), [(key("b", 0), Reuse::Likely)]);
        // By somebody else, as far as this dispatcher knows.
        dispatcher.complete(&key("b", 1));
        assert_eq!(dispatcher.left(), 2);
        dispatcher.complete(&key("a", 1));
        dispatcher.complete(&key("b", 0));
        assert_eq!(
            (
                dispatcher.left(),
                dispatcher.release(now + Duration::from_secs(1)).len()
            ),
            (0, 0)
        );
    }

    /// Whatever overlaps, every sample goes out and no two for one generation are out at once.
    #[test]
    fn every_sample_ends_and_no_generation_is_out_twice() {
        for seed in 0..200_u8 {
            let numbers = |salt: u8| -> Vec<u8> {
                let mix = |index: u8| index.wrapping_mul(37).wrapping_add(seed.wrapping_mul(salt)) % 11;
                (0..20).map(mix).collect()
            };
            let (a, b, c) = (numbers(3), numbers(5), numbers(7));
            let wanted: HashMap<EvaluationId, Vec<u8>> = [("a", &a), ("b", &b), ("c", &c)]
                .map(|(name, numbers)| (id(name), numbers.clone()))
                .into();
            let mut dispatcher = dispatcher(1 + usize::from(seed % 5), &[("a", &a), ("b", &b), ("c", &c)]);
            let (mut out, mut asked) = (Vec::new(), HashMap::<u8, u32>::new());
            for turn in 0..1_000_u32 {
                for release in dispatcher.release(Instant::now()) {
                    let number = wanted[&release.key.evaluation][release.key.item as usize];
                    assert!(
                        out.iter().all(|(_, other)| *other != number),
                        "{number} is out twice (seed {seed})"
                    );
                    *asked.entry(number).or_default() += u32::from(release.reuse == Reuse::Unlikely);
                    out.push((release.key, number));
                }
                if out.is_empty() {
                    break;
                }
                let (key, _) = out.remove(turn as usize * 7 % out.len());
                dispatcher.complete(&key);
            }
            assert_eq!(dispatcher.left(), 0, "seed {seed}");
            assert!(asked.values().all(|times| *times == 1), "{asked:?} (seed {seed})");
        }
    }
}
