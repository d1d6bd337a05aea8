//! What there is of an answer before it has ended.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{Digest, GenerationKey, Penalties};

/// The largest bias on one token that servers take.
const MOST_BIAS: f64 = 100.0;

/// The part of an answer that has arrived, from which it may be continued on the same weights under the same settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Partial {
    /// The prompt as the engine tokenised it, template included; empty where it does not say.
    pub prompt_tokens: Vec<u32>,
    /// The answer's tokens so far; empty where the engine does not say.
    pub tokens: Vec<u32>,
    /// The answer's text so far, without reasoning that the engine split off.
    pub text: String,
    /// Reasoning that the engine split off so far.
    pub reasoning: String,
    /// How many tokens the engine says there are so far.
    pub completion_tokens: u64,
    /// How often it was continued before.
    pub continuations: u32,
}

/// A partial answer that waits for somebody to continue it, as the `parked` bucket holds it under its item's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// What was asked of which weights for which draw: only a request of the same key continues it.
    pub generation: GenerationKey,
    /// The manifest that holds its prompt.
    pub manifest: Digest,
    /// What has arrived.
    pub partial: Partial,
}

impl Partial {
    /// Nothing has arrived.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.text.is_empty() && self.reasoning.is_empty()
    }

    /// It holds all the token ids that continuing it exactly takes: text could be tokenised otherwise.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        !self.prompt_tokens.is_empty() && !self.tokens.is_empty() && self.tokens.len() as u64 == self.completion_tokens
    }

    /// How often each of the answer's tokens has occurred.
    #[must_use]
    pub fn counts(&self) -> HashMap<u32, u32> {
        let mut counts = HashMap::new();
        for token in &self.tokens {
            *counts.entry(*token).or_default() += 1;
        }
        counts
    }

    /// Asking for the rest is the same draw as going on would have been: all token ids are there, and the penalties that the
    /// tokens so far have earned can be given to the request for the rest.
    ///
    /// A server that gets the tokens as a prompt counts none of them for the frequency penalty, so each one's share is sent as
    /// a bias; biases come before the repetition penalty scales logits, so both together are another draw. The repetition
    /// penalty counts the prompt anyway. A presence penalty is taken once, and as a bias it would be taken twice.
    #[must_use]
    pub fn is_continuable(&self, penalties: &Penalties) -> bool {
        let has_its_frequencies = penalties.frequency == 0.0
            || penalties.repetition == 1.0
                && self
                    .counts()
                    .values()
                    .all(|count| penalties.frequency.abs() * f64::from(*count) <= MOST_BIAS);
        self.has_tokens() && penalties.presence == 0.0 && has_its_frequencies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partial(tokens: Vec<u32>) -> Partial {
        Partial {
            prompt_tokens: vec![1],
            completion_tokens: tokens.len() as u64,
            text: "text".to_owned(),
            tokens,
            ..Partial::default()
        }
    }

    fn penalties(frequency: f64, presence: f64, repetition: f64) -> Penalties {
        Penalties {
            frequency,
            presence,
            repetition,
        }
    }

    #[test]
    fn only_what_has_every_token_id_is_continued() {
        let neutral = Penalties::default();
        assert!(partial(vec![7, 8]).is_continuable(&neutral));
        assert!(!Partial::default().is_continuable(&neutral));
        let without_prompt = Partial {
            prompt_tokens: Vec::new(),
            ..partial(vec![7])
        };
        assert!(!without_prompt.is_continuable(&neutral));
        let with_a_gap = Partial {
            completion_tokens: 3,
            ..partial(vec![7, 8])
        };
        assert!(!with_a_gap.is_continuable(&neutral), "a token without its id");
    }

    #[test]
    fn only_penalties_that_can_be_given_to_the_rest_are_continued() {
        let partial = partial(vec![7; 60]);
        for (penalties, is_continuable) in [
            (penalties(0.0, 0.0, 1.3), true),
            (penalties(1.5, 0.0, 1.0), true),
            (penalties(-1.5, 0.0, 1.0), true),
            (penalties(1.7, 0.0, 1.0), false),
            (penalties(0.1, 0.0, 1.1), false),
            (penalties(0.0, 0.1, 1.0), false),
        ] {
            assert_eq!(partial.is_continuable(&penalties), is_continuable, "{penalties:?}");
        }
    }
}
