//! How long answers are expected to be, before they are asked for: a pure rule over what earlier checkpoints took.
//!
//! From the best knowledge to the least: what the same item took in an earlier checkpoint of the run; its rank among the items
//! of its benchmark in another run, read on this run's distribution; that distribution alone; the length of its prompt. An
//! expectation decides order and nothing else: whether a sample counts never depends on it.

use serde::{Deserialize, Serialize};

use crate::{AnswerLength, Benchmark, Outline, length_class};

/// How many quantiles a [`Spread`] keeps.
const QUANTILES: usize = 64;

/// The quantile that stands for an item of which nothing else is known: late enough that it is no straggler more often than not,
/// early enough that a whole benchmark does not stand before what is known to be long.
const UNKNOWN_ITEM: f64 = 0.9;

/// So many classes, one doubling, lie between the longest and the shortest prompt of a benchmark of which nothing else is
/// known: a prompt's length says little of its answer's.
const PROMPT_SAYS: u8 = 8;

/// How many answers a distribution has to rest on.
pub const ANSWERS_OF_A_SPREAD: usize = 16;

/// How long the answers to neighbouring items were: those of one block, two bytes an item at most.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lengths {
    /// [`length_class`] of the longest answer to each item, from 1; 0 where none is known.
    pub classes: Vec<u8>,
    /// A bit an item, eight to a byte, the first one the lowest: that answer was cut, so it would have been longer.
    pub cut: Vec<u8>,
}

impl Lengths {
    /// Nothing known of so many items.
    #[must_use]
    pub fn unknown(items: usize) -> Self {
        Self {
            classes: vec![0; items],
            cut: vec![0; items.div_ceil(8)],
        }
    }

    /// Sets what is known of an item; an item beyond the last one is none of these.
    pub fn set(&mut self, item: usize, class: u8, is_cut: bool) {
        let Some(known) = self.classes.get_mut(item) else {
            return;
        };
        *known = class;
        if let Some(byte) = self.cut.get_mut(item / 8) {
            let bit = 1 << (item % 8);
            *byte = if is_cut { *byte | bit } else { *byte & !bit };
        }
    }

    /// The class of an item's longest answer, and whether that was cut.
    #[must_use]
    pub fn get(&self, item: usize) -> Option<(u8, bool)> {
        let class = *self.classes.get(item).filter(|class| **class > 0)?;
        let is_cut = self.cut.get(item / 8).is_some_and(|byte| byte >> (item % 8) & 1 == 1);
        Some((class, is_cut))
    }

    /// Takes over what a later checkpoint took; what that does not know stays.
    #[must_use]
    pub fn with_newer(mut self, newer: &Self) -> Self {
        if self.classes.len() != newer.classes.len() {
            return newer.clone();
        }
        self.cut.resize(newer.cut.len(), 0);
        for item in 0..newer.classes.len() {
            if let Some((class, is_cut)) = newer.get(item) {
                self.set(item, class, is_cut);
            }
        }
        self
    }
}

/// The distribution of the lengths of a benchmark's answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Classes of length at evenly spaced ranks, from the shortest to the longest answer.
    pub quantiles: Vec<u8>,
}

impl Spread {
    /// The distribution of so many answers of each class; `None` where there are too few to tell.
    #[must_use]
    pub fn of(counts: &[u32]) -> Option<Self> {
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        if total < ANSWERS_OF_A_SPREAD as u64 {
            return None;
        }
        let (mut quantiles, mut seen) = (Vec::with_capacity(QUANTILES), 0_u64);
        for (class, count) in (0..=u8::MAX).zip(counts) {
            seen += u64::from(*count);
            while quantiles.len() < QUANTILES && rank(quantiles.len(), total) < seen {
                quantiles.push(class);
            }
        }
        Some(Self { quantiles })
    }

    /// The class at a share of the answers, 0 to 1; `None` where it holds none.
    #[must_use]
    pub fn at(&self, share: f64) -> Option<u8> {
        let last = self.quantiles.len().checked_sub(1)?;
        let place = (share.clamp(0.0, 1.0) * last as f64).round() as usize;
        self.quantiles.get(place).copied()
    }
}

/// The answer, counted from 0, that the `index`-th quantile is read of.
const fn rank(index: usize, total: u64) -> u64 {
    index as u64 * (total - 1) / (QUANTILES as u64 - 1)
}

/// What is known of a block's items.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// What they took in earlier checkpoints of the run.
    pub own: Option<Lengths>,
    /// What they took in whatever run evaluated them last.
    pub others: Option<Lengths>,
    /// What can be seen of them.
    pub outline: Option<Outline>,
}

/// What is expected of a benchmark's items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expectation {
    /// The class of the length that is expected of each item; empty where all are expected alike, at the cap.
    pub classes: Vec<u8>,
    /// Of how many items an answer of an earlier checkpoint of the run is known.
    pub known: u32,
    /// Which prompts begin alike.
    pub prefixes: Prefixes,
}

/// Which prompts of a benchmark begin alike: a byte an item, and what the numbers stand for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefixes {
    /// The group of each item; 0 for none. Empty where no two prompts begin alike.
    pub groups: Vec<u8>,
    /// The prefix of each group, the first one that of group 1.
    pub table: Vec<u64>,
}

impl Prefixes {
    /// Takes in the next item's prefix. Beyond 255 different ones several share a group: they stay together with some others.
    fn push(&mut self, prefix: u64) {
        let group = match prefix {
            0 => 0,
            prefix => match self.table.iter().position(|known| *known == prefix) {
                Some(index) => index as u8 + 1,
                None if self.table.len() < usize::from(u8::MAX) => {
                    self.table.push(prefix);
                    self.table.len() as u8
                }
                None => (prefix % u64::from(u8::MAX)) as u8 + 1,
            },
        };
        self.groups.push(group);
    }

    /// The prefix of an item's group; 0 for none.
    #[must_use]
    pub fn of(&self, item: u32) -> u64 {
        let group = self.groups.get(item as usize).copied().unwrap_or(0);
        let index = usize::from(group).checked_sub(1);
        index.and_then(|index| self.table.get(index)).copied().unwrap_or(0)
    }
}

/// What is expected of the items of a benchmark, block after block.
#[must_use]
pub fn expectation(benchmark: &Benchmark, blocks: &[Known], spread: Option<&Spread>) -> Expectation {
    let mut prefixes = Prefixes::default();
    for_each_item(benchmark, blocks, |known, index| {
        let outline = known.and_then(|known| known.outline.as_ref());
        prefixes.push(
            outline
                .and_then(|outline| outline.prefixes.get(index).copied())
                .unwrap_or(0),
        );
    });
    if prefixes.table.is_empty() {
        prefixes = Prefixes::default();
    }
    if benchmark.is_likelihood() {
        let classes = if prefixes.groups.is_empty() {
            0
        } else {
            benchmark.items as usize
        };
        return Expectation {
            classes: vec![0; classes],
            known: 0,
            prefixes,
        };
    }
    let mut rule = Rule::new(benchmark, blocks, spread);
    if rule.knows_nothing(blocks) && prefixes.groups.is_empty() {
        return Expectation::default();
    }
    let mut classes = Vec::with_capacity(benchmark.items as usize);
    for_each_item(benchmark, blocks, |known, index| classes.push(rule.class(known, index)));
    Expectation {
        classes,
        known: rule.known,
        prefixes,
    }
}

fn for_each_item<'k>(benchmark: &Benchmark, blocks: &'k [Known], mut each: impl FnMut(Option<&'k Known>, usize)) {
    let mut first = 0;
    for (place, block) in benchmark.blocks.iter().enumerate() {
        for index in 0..block.end.saturating_sub(first) as usize {
            each(blocks.get(place), index);
        }
        first = block.end;
    }
}

struct Rule<'s> {
    cap: u8,
    spread: Option<&'s Spread>,
    /// The share of the other runs' answers that are shorter than each class, half of those equal to it included.
    ranks: Option<Vec<f64>>,
    /// The class of the benchmark's longest prompt; 0 where it is not known.
    longest_prompt: u8,
    known: u32,
}

impl<'s> Rule<'s> {
    fn new(benchmark: &Benchmark, blocks: &[Known], spread: Option<&'s Spread>) -> Self {
        let mut counts = vec![0_u32; 256];
        for lengths in blocks.iter().filter_map(|known| known.others.as_ref()) {
            lengths
                .classes
                .iter()
                .for_each(|class| counts[usize::from(*class)] += 1);
        }
        counts[0] = 0;
        let prompts = blocks.iter().filter_map(|known| known.outline.as_ref());
        Self {
            cap: length_class(u64::from(benchmark.settings.max_tokens)),
            spread: spread.filter(|spread| !spread.quantiles.is_empty()),
            ranks: ranks(&counts),
            longest_prompt: prompts
                .flat_map(|outline| outline.prompts.iter().copied())
                .max()
                .unwrap_or(0),
            known: 0,
        }
    }

    fn knows_nothing(&self, blocks: &[Known]) -> bool {
        let own = blocks.iter().any(|known| known.own.is_some());
        self.spread.is_none() && self.ranks.is_none() && self.longest_prompt == 0 && !own
    }

    fn class(&mut self, known: Option<&Known>, index: usize) -> u8 {
        let of = |lengths: Option<&Lengths>| lengths.and_then(|lengths| lengths.get(index));
        if let Some((class, is_cut)) = of(known.and_then(|known| known.own.as_ref())) {
            self.known += 1;
            return if is_cut {
                self.cap
            } else {
                class.clamp(1, self.cap.max(1))
            };
        }
        let other = of(known.and_then(|known| known.others.as_ref()));
        let class = match (other, &self.ranks, self.spread) {
            (Some((class, _)), Some(ranks), Some(spread)) => spread.at(ranks[usize::from(class)]),
            (Some((class, is_cut)), _, None) => Some(if is_cut { self.cap } else { class }),
            (_, _, Some(spread)) => spread.at(UNKNOWN_ITEM),
            _ => None,
        };
        let class = class.unwrap_or_else(|| self.by_prompt(known, index));
        class.clamp(1, self.cap.max(1))
    }

    fn by_prompt(&self, known: Option<&Known>, index: usize) -> u8 {
        let outline = known.and_then(|known| known.outline.as_ref());
        let Some(class) = outline.and_then(|outline| outline.prompts.get(index)) else {
            return self.cap;
        };
        let shorter = self.longest_prompt.saturating_sub(*class);
        self.cap.saturating_sub((shorter / 4).min(PROMPT_SAYS))
    }
}

fn ranks(counts: &[u32]) -> Option<Vec<f64>> {
    let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    if total == 0 {
        return None;
    }
    let mut below = 0_u64;
    let ranks = counts.iter().map(|count| {
        let rank = (below as f64 + f64::from(*count) / 2.0) / total as f64;
        below += u64::from(*count);
        rank
    });
    Some(ranks.collect())
}

/// The class of an answer's length as it is kept: at least 1, since 0 says that nothing is known.
#[must_use]
pub fn answer_class(length: AnswerLength) -> u8 {
    length_class(u64::from(length.tokens)).max(1)
}

#[cfg(test)]
#[path = "expect_tests.rs"]
mod tests;
