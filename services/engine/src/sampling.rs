//! From logits to a token and its log-probabilities, on plain slices.
//!
//! Log-probabilities are those of the model itself, before temperature and truncation. The random number for a token is a
//! function of the request's seed, the choice's index and the token's place in its sequence, and of nothing else: a sample that is
//! cut off and continued by a second request, prompt and partial output together, draws the same tokens.

use std::cmp::Ordering;

/// Lowest log-probability reported; JSON has no infinities.
const LOWEST: f64 = -9999.0;

/// How a token is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampling {
    /// 0 takes the likeliest token.
    pub(crate) temperature: f32,
    /// Keep the likeliest tokens that together reach this probability; 1 keeps all.
    pub(crate) top_p: f32,
    /// Keep at most this many of the likeliest tokens.
    pub(crate) top_k: Option<usize>,
    /// Seed of the draws.
    pub(crate) seed: u64,
}

/// Uniform random numbers of one choice, by position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draws {
    key: u64,
}

/// A token's log-probability and the likeliest tokens at its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenScore {
    pub(crate) token: u32,
    pub(crate) logprob: f32,
    /// Likeliest first, ties by token id.
    pub(crate) top: Vec<(u32, f32)>,
}

impl Draws {
    /// The numbers for the `choice`-th sample drawn with `seed`.
    pub(crate) fn new(seed: u64, choice: usize) -> Self {
        Self {
            key: mix(mix(seed) ^ choice as u64),
        }
    }

    /// A number in `[0, 1)` for the token at `position`.
    pub(crate) fn uniform(self, position: usize) -> f64 {
        let bits = mix(self
            .key
            .wrapping_add((position as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The finaliser of SplitMix64.
///
/// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Sampling {
    /// Draws the token at `position`; `None` when a logit is NaN or infinite.
    pub(crate) fn draw(&self, logits: &[f32], draws: Draws, position: usize) -> Option<u32> {
        if !logits.iter().all(|logit| logit.is_finite()) {
            return None;
        }
        let best = argmax(logits)?;
        if self.temperature == 0.0 {
            return Some(best as u32);
        }
        let weight = |logit: f32| f64::from(((logit - logits[best]) / self.temperature).exp());
        let weights: Vec<f64> = logits.iter().map(|logit| weight(*logit)).collect();
        let uniform = draws.uniform(position);
        if self.top_p >= 1.0 && self.top_k.is_none() {
            return Some(pick(weights.iter().copied().enumerate(), uniform) as u32);
        }
        let kept = self.nucleus(&weights);
        Some(pick(kept.iter().map(|&token| (token, weights[token])), uniform) as u32)
    }

    /// The tokens left by top-k and then top-p, likeliest first; never none.
    fn nucleus(&self, weights: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_unstable_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
        order.truncate(self.top_k.unwrap_or(usize::MAX).max(1));
        if self.top_p < 1.0 {
            let goal = order.iter().map(|&token| weights[token]).sum::<f64>() * f64::from(self.top_p);
            let mut reached = 0.0;
            let enough = order.iter().position(|&token| {
                reached += weights[token];
                reached >= goal
            });
            order.truncate(enough.map_or(order.len(), |index| index + 1));
        }
        order
    }
}

/// The index whose share of the total holds `uniform`.
fn pick(weights: impl Iterator<Item = (usize, f64)> + Clone, uniform: f64) -> usize {
    let mut left = uniform * weights.clone().map(|(_, weight)| weight).sum::<f64>();
    let mut last = 0;
    for (index, weight) in weights {
        if weight > 0.0 {
            last = index;
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
    }
    last
}

/// The index of the largest logit, the first of equals.
fn argmax(logits: &[f32]) -> Option<usize> {
    logits
        .iter()
        .enumerate()
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
        .map(|(index, _)| index)
}

/// The log-probability of `token` and the `top` likeliest tokens.
pub(crate) fn score(logits: &[f32], token: u32, top: usize) -> TokenScore {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from((logit - largest).exp())).sum();
    let normaliser = f64::from(largest) + sum.ln();
    let logprob = |token: u32| (f64::from(logits[token as usize]) - normaliser).max(LOWEST) as f32;
    let top = likeliest(logits, top)
        .into_iter()
        .map(|token| (token, logprob(token)))
        .collect();
    TokenScore {
        token,
        logprob: logprob(token),
        top,
    }
}

fn likeliest(logits: &[f32], count: usize) -> Vec<u32> {
    let count = count.min(logits.len());
    if count == 0 {
        return Vec::new();
    }
    let order = |a: &u32, b: &u32| -> Ordering { logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b)) };
    let mut tokens: Vec<u32> = (0..logits.len() as u32).collect();
    if count < tokens.len() {
        tokens.select_nth_unstable_by(count - 1, order);
        tokens.truncate(count);
    }
    tokens.sort_unstable_by(order);
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [0.0, 2.0, 1.0, 2.0];

    fn sampling(temperature: f32, top_p: f32, top_k: Option<usize>) -> Sampling {
        Sampling {
            temperature,
            top_p,
            top_k,
            seed: 7,
        }
    }

    fn seen(sampling: Sampling) -> Vec<u32> {
        let mut tokens: Vec<_> = (0..500)
            .filter_map(|at| sampling.draw(&LOGITS, Draws::new(sampling.seed, 0), at))
            .collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    #[test]
    fn temperature_zero_takes_the_first_of_the_likeliest() {
        assert_eq!(seen(sampling(0.0, 1.0, None)), [1]);
    }

    #[test]
    fn top_p_keeps_the_smallest_set_that_reaches_it() {
        // Probabilities 0.052, 0.387, 0.142, 0.387 and a rest.
        assert_eq!(seen(sampling(1.0, 0.3, None)), [1]);
        assert_eq!(seen(sampling(1.0, 0.7, None)), [1, 3]);
        assert_eq!(seen(sampling(1.0, 0.9, None)), [1, 2, 3]);
        assert_eq!(seen(sampling(1.0, 1.0, None)), [0, 1, 2, 3]);
    }

    #[test]
    fn top_k_keeps_that_many() {
        assert_eq!(seen(sampling(1.0, 1.0, Some(2))), [1, 3]);
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let sampling = sampling(1.0, 1.0, None);
        let ones = (0..4000)
            .filter(|&at| sampling.draw(&LOGITS, Draws::new(1, 0), at) == Some(1))
            .count();
        let share = ones as f64 / 4000.0;
        assert!((share - 0.3995).abs() < 0.03, "{share}");
    }

    #[test]
    fn seeds_and_choices_draw_differently_and_repeatably() {
        let row = |seed, choice| {
            (0..8)
                .map(|at| Draws::new(seed, choice).uniform(at))
                .collect::<Vec<_>>()
        };
        assert_eq!(row(1, 0), row(1, 0));
        assert_ne!(row(1, 0), row(1, 1));
        assert_ne!(row(1, 0), row(2, 0));
        assert!(row(1, 0).iter().all(|number| (0.0..1.0).contains(number)));
    }

    #[test]
    fn logits_that_are_not_numbers_draw_nothing() {
        assert_eq!(
            sampling(1.0, 1.0, None).draw(&[0.0, f32::NAN], Draws::new(0, 0), 0),
            None
        );
    }

    #[test]
    fn scores_are_log_probabilities_with_the_likeliest_first() {
        let score = score(&LOGITS, 2, 3);
        let total: f64 = LOGITS.iter().map(|logit| f64::from(*logit).exp()).sum();
        assert!((f64::from(score.logprob) - (1.0 - total.ln())).abs() < 1e-6);
        assert_eq!(score.top.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [1, 3, 2]);
        assert_eq!(super::score(&LOGITS, 2, 9).top.len(), 4);
    }
}
