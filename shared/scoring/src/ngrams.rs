//! N-grams as numbers, and how many of one text are in another.

use std::collections::HashMap;

/// Words as numbers, so that a run of four is one number.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    ids: HashMap<String, u32>,
}

impl Vocabulary {
    pub(crate) fn id(&mut self, word: &str) -> u32 {
        if let Some(&id) = self.ids.get(word) {
            return id;
        }
        let id = self.ids.len() as u32;
        self.ids.insert(word.to_owned(), id);
        id
    }

    pub(crate) fn all<'a>(&mut self, words: impl Iterator<Item = &'a str>) -> Vec<u32> {
        words.map(|word| self.id(word)).collect()
    }
}

/// How often each run of `N` is there. The caller sees to it that the bits of a unit times the order are at most 128.
pub(crate) type Counts = HashMap<u128, u32>;

/// The n-grams of `order`, of units of `bits` bits.
pub(crate) fn grams(units: &[u32], order: usize, bits: u32) -> impl Iterator<Item = u128> + '_ {
    units.windows(order).map(move |window| {
        let join = |joined: u128, &unit: &u32| joined << bits | u128::from(unit);
        window.iter().fold(0, join)
    })
}

pub(crate) fn counts(units: &[u32], order: usize, bits: u32) -> Counts {
    let mut counts = Counts::new();
    for gram in grams(units, order, bits) {
        *counts.entry(gram).or_default() += 1;
    }
    counts
}

/// How many n-grams there are.
pub(crate) const fn total(units: &[u32], order: usize) -> usize {
    (units.len() + 1).saturating_sub(order)
}

/// How many of the n-grams are among `wanted`, each at most as often as it is there.
pub(crate) fn matches(units: &[u32], order: usize, bits: u32, mut wanted: Counts) -> usize {
    let mut found = 0;
    for gram in grams(units, order, bits) {
        if let Some(left) = wanted.get_mut(&gram).filter(|left| **left > 0) {
            *left -= 1;
            found += 1;
        }
    }
    found
}
