//! Which replica an item wants, beyond one that has room.
//!
//! An engine computes a prompt's beginning once for all prompts that share it, as long as its cache holds it. So items with
//! the same long beginning go to the replica that had it last, but only where that costs no balance. Items whose answers will
//! be long go where the least is outstanding: several of them on one replica would be the last to end.

use std::collections::{BTreeMap, HashMap};

use tidemill_domain::length_class;

/// What a request wants of its replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Wish {
    /// Taken only where no other has room.
    pub(crate) avoid: Option<usize>,
    /// Taken only where no other serves.
    pub(crate) barred: Barred,
    /// What it has in common with others whose prompts begin alike; 0 for nothing.
    pub(crate) prefix: u64,
    /// Tokens of its prompt, roughly; 0 where nobody knows.
    pub(crate) prompt_tokens: u32,
    /// The tokens that its answer is expected to have; 0 where nobody knows.
    pub(crate) expected_tokens: u32,
    /// A spare sample: it gets no place that another item waits for.
    pub(crate) is_spare: bool,
}

impl Wish {
    /// The tokens that it will take in the replica's cache.
    pub(crate) const fn tokens(&self) -> u64 {
        self.prompt_tokens as u64 + self.expected_tokens as u64
    }
}

/// The first replicas that cannot answer a request which another one may: their context is shorter, or they lack what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Barred([Option<usize>; 4]);

impl Barred {
    /// One more. False when there is no room for it.
    pub(crate) fn add(&mut self, index: usize) -> bool {
        let free = self.0.iter_mut().find(|known| known.is_none_or(|known| known == index));
        free.map(|free| *free = Some(index)).is_some()
    }

    pub(crate) fn holds(&self, index: usize) -> bool {
        self.0.contains(&Some(index))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }
}

/// Tokens sent to a replica since a prefix was, within which its cache is taken to hold it still.
const CACHE_TOKENS: u64 = 1 << 18;

/// Prefixes remembered for one replica.
const MOST_PREFIXES: usize = 4_096;

/// The prefixes that a replica's cache is taken to hold: the least recently used goes first.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    /// All tokens sent so far.
    sent: u64,
    /// For each prefix, what had been sent when it was last used.
    used: HashMap<u64, u64>,
}

impl Prefixes {
    pub(crate) fn holds(&self, prefix: u64) -> bool {
        prefix != 0
            && self
                .used
                .get(&prefix)
                .is_some_and(|used| self.sent - used <= CACHE_TOKENS)
    }

    pub(crate) fn sent(&mut self, wish: &Wish) {
        self.sent += wish.tokens();
        if wish.prefix == 0 {
            return;
        }
        self.used.insert(wish.prefix, self.sent);
        if self.used.len() > MOST_PREFIXES {
            let sent = self.sent;
            self.used.retain(|_, used| sent - *used <= CACHE_TOKENS);
            let mut ages: Vec<u64> = self.used.values().copied().collect();
            ages.sort_unstable();
            if let Some(oldest) = ages
                .len()
                .checked_sub(MOST_PREFIXES / 2)
                .and_then(|at| ages.get(at))
                .copied()
            {
                self.used.retain(|_, used| *used >= oldest);
            }
        }
    }

    /// Its cache is lost.
    pub(crate) fn forget(&mut self) {
        self.used.clear();
    }
}

/// How long answers were expected to be, to know the long ones.
#[derive(Debug)]
pub(crate) struct Lengths {
    counts: [u32; 256],
    total: u32,
}

/// Lengths after which older ones count half.
const REMEMBERED: u32 = 4_096;

/// Lengths known before any counts as long.
const ENOUGH: u32 = 20;

impl Default for Lengths {
    fn default() -> Self {
        Self {
            counts: [0; 256],
            total: 0,
        }
    }
}

impl Lengths {
    pub(crate) fn add(&mut self, tokens: u32) {
        if tokens == 0 {
            return;
        }
        self.counts[usize::from(length_class(u64::from(tokens)))] += 1;
        self.total += 1;
        if self.total >= REMEMBERED {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
    }

    /// It is among the longest tenth.
    pub(crate) fn is_long(&self, tokens: u32) -> bool {
        if tokens == 0 || self.total < ENOUGH {
            return false;
        }
        let class = usize::from(length_class(u64::from(tokens)));
        let longer: u32 = self.counts[class + 1..].iter().sum();
        let alike = self.counts[class];
        (longer + alike) * 10 <= self.total || (longer * 10 <= self.total && alike * 2 <= self.total)
    }
}

/// Waiting items that are looked at for a place.
const WINDOW: usize = 128;

/// Places that may pass an item by.
const MOST_SKIPPED: u32 = 32;

/// Items that wait for a place, in the order in which they came; spare samples behind all others.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    waiting: BTreeMap<Ticket, Waiting<T>>,
    next: u64,
    /// Those with a prefix.
    with_prefix: usize,
}

/// Whose turn it is: the least is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    is_spare: bool,
    number: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    wish: Wish,
    skipped: u32,
    who: T,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            next: 0,
            with_prefix: 0,
        }
    }
}

/// How well a place suits a waiting item; the less the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// The replica holds its prefix.
    Held,
    /// No other replica would be better.
    Any,
    /// Another replica holds its prefix.
    Elsewhere,
    /// It has just failed there.
    Avoided,
    /// It cannot be answered there, and may be elsewhere.
    Barred,
}

impl<T> Queue<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts an item at the end of those of its kind, and returns its ticket.
    pub(crate) fn push(&mut self, wish: Wish, who: T) -> Ticket {
        let ticket = Ticket {
            is_spare: wish.is_spare,
            number: self.next,
        };
        self.next += 1;
        self.with_prefix += usize::from(wish.prefix != 0);
        self.waiting.insert(ticket, Waiting { wish, skipped: 0, who });
        ticket
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<(Wish, T)> {
        let waiting = self.waiting.remove(&ticket)?;
        self.with_prefix -= usize::from(waiting.wish.prefix != 0);
        Some((waiting.wish, waiting.who))
    }

    /// The first in the queue.
    pub(crate) fn first(&self) -> Option<(Ticket, Wish)> {
        self.waiting
            .first_key_value()
            .map(|(ticket, waiting)| (*ticket, waiting.wish))
    }

    /// The item that a place suits best; the first of those that are alike, and a spare sample only where all that wait are. None
    /// is passed by for ever, except for what goes before spare samples; and whoever waits, one of them gets the place: it never
    /// stays empty, unless none can be answered there.
    pub(crate) fn choose(&mut self, fit: impl Fn(&Wish) -> Fit) -> Option<Ticket> {
        let (first, waiting) = self.waiting.first_key_value()?;
        let first = *first;
        let has_waited = waiting.skipped >= MOST_SKIPPED && fit(&waiting.wish) != Fit::Barred;
        let is_plain = waiting.wish.avoid.is_none() && waiting.wish.barred.is_empty();
        if has_waited || (self.with_prefix == 0 && is_plain) {
            return Some(first);
        }
        let seen = self
            .waiting
            .iter()
            .take(WINDOW)
            .take_while(|(ticket, _)| ticket.is_spare == first.is_spare)
            .map(|(ticket, waiting)| (fit(&waiting.wish), *ticket))
            .filter(|(fit, _)| *fit != Fit::Barred);
        let (_, chosen) = seen.min()?;
        self.waiting
            .range_mut(first..chosen)
            .for_each(|(_, waiting)| waiting.skipped += 1);
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(prefix: u64, tokens: u32) -> Wish {
        Wish {
            prefix,
            prompt_tokens: tokens,
            ..Wish::default()
        }
    }

    #[test]
    fn a_prefix_is_held_until_a_cache_full_of_others_was_sent() {
        let mut prefixes = Prefixes::default();
        prefixes.sent(&wish(7, 1_000));
        prefixes.sent(&wish(8, u32::try_from(CACHE_TOKENS).unwrap()));
        assert!(prefixes.holds(7) && prefixes.holds(8) && !prefixes.holds(9) && !prefixes.holds(0));
        prefixes.sent(&wish(0, 1));
        assert!(
            !prefixes.holds(7) && prefixes.holds(8),
            "the least recently used goes first"
        );
        prefixes.forget();
        assert!(!prefixes.holds(8));
    }

    #[test]
    fn what_is_remembered_of_prefixes_is_bounded() {
        let mut prefixes = Prefixes::default();
        (1..=20_000).for_each(|prefix| prefixes.sent(&wish(prefix, 1)));
        assert!(prefixes.used.len() <= MOST_PREFIXES);
        assert!(prefixes.holds(20_000));
    }

    #[test]
    fn the_longest_tenth_is_long() {
        let mut lengths = Lengths::default();
        assert!(!lengths.is_long(1_000_000), "nothing to compare with");
        (0..95).for_each(|_| lengths.add(100));
        (0..5).for_each(|_| lengths.add(10_000));
        assert!(lengths.is_long(10_000) && !lengths.is_long(100) && !lengths.is_long(0));
        let mut equal = Lengths::default();
        (0..100).for_each(|_| equal.add(500));
        assert!(!equal.is_long(500), "where all are alike none is");
    }

    fn queue(prefixes: &[u64]) -> Queue<u64> {
        let mut queue = Queue::default();
        for prefix in prefixes {
            queue.push(wish(*prefix, 100), *prefix);
        }
        queue
    }

    fn fit(held: u64, elsewhere: u64) -> impl Fn(&Wish) -> Fit {
        move |wish| match wish.prefix {
            prefix if prefix == held => Fit::Held,
            prefix if prefix == elsewhere => Fit::Elsewhere,
            _ => Fit::Any,
        }
    }

    #[test]
    fn a_place_goes_to_whom_it_suits_and_else_to_the_first() {
        let mut queue = queue(&[1, 2, 3, 2]);
        let mut next = |held, elsewhere| {
            let ticket = queue.choose(fit(held, elsewhere))?;
            queue.remove(ticket).map(|(_, who)| who)
        };
        assert_eq!(next(2, 1), Some(2));
        assert_eq!(next(2, 1), Some(2));
        assert_eq!(next(2, 1), Some(3), "nobody else has it");
        assert_eq!(next(2, 1), Some(1), "a place is never left empty");
        assert_eq!(next(2, 1), None);
    }

    #[test]
    fn a_spare_sample_gets_no_place_that_another_item_waits_for() {
        let mut queue = queue(&[]);
        let spare = |prefix| Wish {
            is_spare: true,
            ..wish(prefix, 100)
        };
        queue.push(spare(2), 20);
        queue.push(spare(3), 30);
        // They came later, and their prompts lie elsewhere.
        for who in 0..200 {
            queue.push(wish(1, 100), who);
        }
        assert_eq!(queue.first().map(|(_, wish)| wish.is_spare), Some(false));
        let mut order = Vec::new();
        while let Some(ticket) = queue.choose(fit(3, 1)) {
            order.extend(queue.remove(ticket).map(|(wish, who)| (wish.is_spare, who)));
        }
        assert_eq!(order.len(), 202);
        assert!(order[..200].iter().all(|(is_spare, _)| !is_spare), "{order:?}");
        assert_eq!(order[200..], [(true, 30), (true, 20)], "among them the one that fits");
    }

    #[test]
    fn nobody_is_passed_by_for_ever() {
        let mut queue = queue(&[1]);
        let mut passed = 0;
        loop {
            let other = queue.push(wish(2, 100), 2);
            let chosen = queue.choose(fit(2, 1)).unwrap();
            if chosen != other {
                break;
            }
            queue.remove(chosen);
            passed += 1;
        }
        assert_eq!(passed, MOST_SKIPPED);
    }
}
