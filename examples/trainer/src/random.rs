//! A seeded generator of random numbers.
//!
//! Training and the shipped data must come out the same on every machine and with every version of a dependency, so
//! the few lines are kept here. Not for secrets.

/// SplitMix64: 64 bits of state, passes the usual statistical batteries, any seed is good.
///
/// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Starts a stream of numbers that the seed decides.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Draws 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws from `0..bound`; the bias is below `bound / 2^64`. Zero for an empty range.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws from `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Draws an index into a collection of `length` entries.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// Draws from the half-open unit interval.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws from the standard normal distribution (Box and Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts a slice in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for end in (1..values.len()).rev() {
            values.swap(end, self.index(end + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_published_sequence() {
        let mut random = Random::new(1_234_567);
        assert_eq!(
            [random.bits(), random.bits(), random.bits()],
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_its_ends() {
        let mut random = Random::new(1);
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|_| random.between(3, 7)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
    }
}
