//! Numbers from a seed: equal seeds disturb alike.

/// SplitMix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// A share of the whole, from `low` to `high`, in thousandths.
    pub(super) fn share(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.between(0, 1_000) as f64 / 1_000.0)
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let last = of.len().checked_sub(1)?;
        of.get(self.between(0, last as u64) as usize).copied()
    }
}
