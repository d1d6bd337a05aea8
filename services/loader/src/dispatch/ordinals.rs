//! A set of ordinals: a bit for each that is declared.

#[derive(Debug)]
pub(super) struct Ordinals {
    words: Vec<u64>,
    declared: u64,
    count: u64,
}

impl Ordinals {
    pub(super) fn none_of(declared: u64) -> Self {
        Self {
            words: vec![0; usize::try_from(declared.div_ceil(64)).unwrap_or(usize::MAX)],
            declared,
            count: 0,
        }
    }

    pub(super) fn contains(&self, ordinal: u32) -> bool {
        let word = self.words.get(ordinal as usize / 64);
        word.is_some_and(|word| word >> (ordinal % 64) & 1 == 1)
    }

    /// False when it was there already.
    pub(super) fn insert(&mut self, ordinal: u32) -> bool {
        let Some(word) = self.words.get_mut(ordinal as usize / 64) else {
            return false;
        };
        let bit = 1 << (ordinal % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
        self.count = 0;
    }

    pub(super) const fn missing(&self) -> u64 {
        self.declared - self.count
    }

    #[cfg(test)]
    pub(super) fn state_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}
