//! The seed of one sample.

use tidemill_domain::Digest;

/// The seed that a sample is drawn with: fixed by the benchmark's base seed, the item's id and the sample's index, so that
/// the same sample is drawn again with the same seed, and another one of the same item with another.
///
/// 31 bits, the range that every engine takes.
pub(crate) fn of_sample(base: u64, item: &str, sample: u32) -> u64 {
    let digest = Digest::of_parts([
        base.to_le_bytes().as_slice(),
        item.as_bytes(),
        sample.to_le_bytes().as_slice(),
    ]);
    let bits = u32::from_str_radix(&digest.hex()[..8], 16).unwrap_or_default();
    u64::from(bits >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_seed_is_fixed_by_base_item_and_sample() {
        assert_eq!(of_sample(1, "a", 0), of_sample(1, "a", 0));
        let seeds: HashSet<u64> = (0..100).map(|sample| of_sample(1, "a", sample)).collect();
        assert_eq!(seeds.len(), 100);
        assert_ne!(of_sample(1, "a", 0), of_sample(2, "a", 0));
        assert_ne!(of_sample(1, "a", 0), of_sample(1, "b", 0));
        assert!(seeds.iter().all(|seed| *seed < 1 << 31));
    }
}
