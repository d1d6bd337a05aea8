//! Numbers that look random and are always the same.

/// Joins a value to a seed.
///
/// Source: the finaliser of SplitMix64; Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
pub(crate) const fn mix(seed: u64, value: u64) -> u64 {
    let mut z = seed
        .wrapping_add(value.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// From 0, included, to 1, excluded.
pub(crate) fn uniform(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

/// One draw of the standard normal distribution (Box and Muller).
pub(crate) fn normal(hash: u64) -> f64 {
    let (first, second) = (1.0 - uniform(mix(hash, 1)), uniform(mix(hash, 2)));
    (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos()
}

/// How probable a smaller draw of the standard normal distribution is.
///
/// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.17; error below 1e-7.
pub(crate) fn below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series =
        t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * series;
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// Of a sequence of token ids, and of what stood before it.
pub(crate) fn of_tokens(before: u64, ids: &[u32]) -> u64 {
    ids.iter().fold(before, |hash, id| mix(hash, u64::from(*id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_draws_have_their_mean_spread_and_quantiles() {
        let draws: Vec<f64> = (0..20_000).map(|index| normal(mix(7, index))).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        let share = draws.iter().filter(|draw| below(**draw) < 0.1).count();
        assert!((1_800..2_200).contains(&share), "{share}");
    }
}
