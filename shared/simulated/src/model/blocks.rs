//! KV room in blocks, and the prefix cache that lives in what is free.

use std::collections::{BTreeMap, HashMap};

/// The blocks of one replica. A block is private to a sequence, or holds a full block of a prompt and may be shared.
///
/// Shared blocks are named by a hash over the prompt up to their end. One that no sequence uses stays until its room is
/// wanted; the one longest unused goes first.
///
/// Source: vLLM's design of automatic prefix caching (docs/design/prefix_caching).
#[derive(Debug)]
pub(super) struct Blocks {
    total: u32,
    caching: bool,
    private: u32,
    shared: HashMap<u64, Shared>,
    unused: BTreeMap<u64, u64>,
    tick: u64,
}

#[derive(Debug)]
struct Shared {
    users: u32,
    /// Its place in `unused`, while there are no users.
    since: u64,
}

/// The blocks of one sequence.
#[derive(Debug, Default)]
pub(super) struct Held {
    private: u32,
    shared: Vec<u64>,
}

impl Held {
    pub(super) fn count(&self) -> u32 {
        self.private + u32::try_from(self.shared.len()).unwrap_or(u32::MAX)
    }
}

impl Blocks {
    pub(super) fn new(total: u32, caching: bool) -> Self {
        Self {
            total,
            caching,
            private: 0,
            shared: HashMap::new(),
            unused: BTreeMap::new(),
            tick: 0,
        }
    }

    /// Blocks that sequences use.
    pub(super) fn used(&self) -> u32 {
        self.private + u32::try_from(self.shared.len() - self.unused.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// How many of the chain's first blocks are there.
    pub(super) fn hits(&self, chain: &[u64]) -> usize {
        if !self.caching {
            return 0;
        }
        chain.iter().take_while(|key| self.shared.contains_key(key)).count()
    }

    /// Gives a new sequence the first `hits` blocks of its chain, which are there, and `private` blocks; or nothing where the
    /// room is too small.
    pub(super) fn admit(&mut self, chain: &[u64], hits: usize, private: u32) -> Option<Held> {
        let unused = chain[..hits]
            .iter()
            .filter(|key| self.shared.get(key).is_some_and(|block| block.users == 0));
        let wanted = private + u32::try_from(unused.count()).unwrap_or(u32::MAX);
        if self.used() + wanted > self.total {
            return None;
        }
        let mut held = Held::default();
        for key in &chain[..hits] {
            if let Some(block) = self.shared.get_mut(key) {
                if block.users == 0 {
                    self.unused.remove(&block.since);
                }
                block.users += 1;
                held.shared.push(*key);
            }
        }
        self.take(private, &mut held);
        Some(held)
    }

    /// One more private block, if there is room.
    pub(super) fn grow(&mut self, held: &mut Held) -> bool {
        let there_is_room = self.used() < self.total;
        if there_is_room {
            self.take(1, held);
        }
        there_is_room
    }

    fn take(&mut self, private: u32, held: &mut Held) {
        self.private += private;
        held.private += private;
        let cached = |blocks: &Self| u32::try_from(blocks.shared.len()).unwrap_or(u32::MAX);
        while self.private + cached(self) > self.total {
            let Some((_, key)) = self.unused.pop_first() else {
                return;
            };
            self.shared.remove(&key);
        }
    }

    /// Makes computed blocks of a prompt shared, from `from` on; what another sequence shared meanwhile stays private here.
    pub(super) fn share(&mut self, held: &mut Held, chain: &[u64]) {
        if !self.caching {
            return;
        }
        for key in chain {
            if self.shared.contains_key(key) || held.private == 0 {
                continue;
            }
            self.shared.insert(*key, Shared { users: 1, since: 0 });
            held.shared.push(*key);
            held.private -= 1;
            self.private -= 1;
        }
    }

    /// Takes a sequence's blocks back. The end of its prompt counts as longer unused than the beginning, which more prompts share.
    pub(super) fn release(&mut self, held: Held) {
        self.private -= held.private;
        for key in held.shared.iter().rev() {
            let Some(block) = self.shared.get_mut(key) else {
                continue;
            };
            block.users -= 1;
            if block.users == 0 {
                self.tick += 1;
                block.since = self.tick;
                self.unused.insert(self.tick, *key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_block_makes_room_and_used_ones_stay() {
        let mut blocks = Blocks::new(4, true);
        let mut first = blocks.admit(&[1, 2], 0, 2).unwrap();
        blocks.share(&mut first, &[1, 2]);
        blocks.release(first);
        assert_eq!((blocks.used(), blocks.hits(&[1, 2])), (0, 2));

        let mut second = blocks.admit(&[1, 3], 1, 1).unwrap();
        assert_eq!((blocks.used(), second.count()), (2, 2));
        assert!(blocks.grow(&mut second) && blocks.grow(&mut second), "2 is evicted");
        assert_eq!(blocks.hits(&[1, 2]), 1);
        assert!(!blocks.grow(&mut second), "1 is in use");
        assert!(blocks.admit(&[9], 0, 1).is_none());
        blocks.release(second);
        assert_eq!(blocks.used(), 0);
    }

    #[test]
    fn without_a_cache_nothing_is_shared() {
        let mut blocks = Blocks::new(4, false);
        let mut held = blocks.admit(&[1, 2], 0, 2).unwrap();
        blocks.share(&mut held, &[1, 2]);
        assert_eq!((blocks.hits(&[1, 2]), blocks.used()), (0, 2));
        blocks.release(held);
        assert_eq!(blocks.used(), 0);
    }
}
