//! A small Markov chain, drawn as engines draw: bias, penalties, temperature, cuts, then one random number a token.

use super::{Answers, Question, Sampling};
use crate::hash::{mix, uniform};
use crate::tokens::{self, END, GENERATED};

/// Words in use.
const STATES: u64 = 12;

/// Draws the tokens that follow `so_far`, up to the cap, and says whether they end by themselves.
///
/// The random numbers are those of this request alone, counted from its own beginning, as real engines count them: who
/// continues a sample with its old seed gets the old numbers again.
pub(super) fn draw(settings: &Answers, item: u64, question: &Question<'_>, so_far: &[u32]) -> (Vec<u32>, bool) {
    let sampling = &question.sampling;
    let mut chain = Chain {
        settings,
        sampling,
        item,
        prompt: question.ids,
        drawn: Vec::new(),
    };
    let mut last = so_far.last().copied().unwrap_or(END);
    let most = question.max_tokens as usize;
    while chain.drawn.len() < most {
        let may_end = !question.ignore_eos && chain.drawn.len() >= question.min_tokens as usize;
        let number = uniform(mix(mix(sampling.seed, 0xd1ce), chain.drawn.len() as u64));
        last = chain.next(last, may_end, number);
        if last == END {
            return (chain.drawn, true);
        }
        chain.drawn.push(last);
    }
    (chain.drawn, false)
}

struct Chain<'a> {
    settings: &'a Answers,
    sampling: &'a Sampling,
    item: u64,
    prompt: &'a [u32],
    drawn: Vec<u32>,
}

impl Chain<'_> {
    /// The token that a random number picks.
    fn next(&self, last: u32, may_end: bool, number: f64) -> u32 {
        let mut tokens = self.distribution(last, may_end);
        tokens.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        self.cut(&mut tokens);
        let total: f64 = tokens.iter().map(|(_, weight)| weight).sum();
        let mut left = number * total;
        for (id, weight) in &tokens {
            left -= weight;
            if left < 0.0 {
                return *id;
            }
        }
        tokens.last().map_or(END, |(id, _)| *id)
    }

    /// Every token with its weight after temperature.
    fn distribution(&self, last: u32, may_end: bool) -> Vec<(u32, f64)> {
        let words = (0..STATES).map(|index| tokens::word(index) | GENERATED);
        let end = may_end.then_some(END);
        let temperature = self.sampling.temperature.max(1e-3);
        let weighed = words
            .chain(end)
            .map(|id| (id, (self.logit(last, id) / temperature).exp()));
        weighed.collect()
    }

    /// In vLLM's order: bias, then the penalties, of which repetition comes first.
    fn logit(&self, last: u32, id: u32) -> f64 {
        let sampling = self.sampling;
        let mut logit = if id == END {
            // As probable as `1 / chain_tokens` beside words whose weights are one on average.
            (STATES as f64 * 1.5 / self.settings.chain_tokens).ln()
        } else {
            4.0 * uniform(mix(mix(self.item % 7, u64::from(last)), u64::from(id))) - 2.0
        };
        logit += sampling
            .logit_bias
            .iter()
            .filter(|(of, _)| *of == id)
            .map(|(_, bias)| bias)
            .sum::<f64>();
        let used = self.drawn.iter().filter(|drawn| **drawn == id).count();
        if (used > 0 || self.prompt.contains(&id)) && id != END {
            logit = if logit > 0.0 {
                logit / sampling.repetition_penalty
            } else {
                logit * sampling.repetition_penalty
            };
        }
        let is_used = f64::from(u8::from(used > 0));
        logit - sampling.frequency_penalty * used as f64 - sampling.presence_penalty * is_used
    }

    /// Keeps the most probable ones; `tokens` is sorted by weight.
    fn cut(&self, tokens: &mut Vec<(u32, f64)>) {
        if self.sampling.top_k > 0 {
            tokens.truncate(self.sampling.top_k);
        }
        let total: f64 = tokens.iter().map(|(_, weight)| weight).sum();
        let mut share = 0.0;
        let within = tokens.iter().take_while(|(_, weight)| {
            let is_needed = share < self.sampling.top_p;
            share += weight / total;
            is_needed
        });
        let kept = within.count().max(1);
        tokens.truncate(kept);
    }
}
