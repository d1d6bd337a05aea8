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
    /// Those that are out for some evaluation.
    out: HashSet<GenerationKey>,
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
        if !self.out.insert(key) {
            self.held.entry(key).or_default().push((evaluation.clone(), ordinal));
            return None;
        }
        Some(if self.known.contains(&key) {
            Reuse::Likely
        } else {
            Reuse::Unlikely
        })
    }

    /// What the release of a sample that is out says when it is released again.
    pub(crate) const fn again() -> Reuse {
        Reuse::Likely
    }

    /// Notes that the sample that was out for a key is out no longer: its generation is in the cache, or may get there.
    /// Returns the samples that waited for it.
    pub(crate) fn settle(&mut self, key: GenerationKey) -> Vec<(EvaluationId, u32)> {
        self.out.remove(&key);
        self.known.insert(key);
        self.held.remove(&key).unwrap_or_default()
    }
}
