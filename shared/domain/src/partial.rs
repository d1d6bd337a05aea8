//! What there is of an answer before it has ended.

use serde::{Deserialize, Serialize};

use crate::{Digest, GenerationKey};

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

/// A moment of a growing partial answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    tokens: usize,
    text: usize,
    reasoning: usize,
}

impl Partial {
    /// Nothing has arrived.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.text.is_empty() && self.reasoning.is_empty()
    }

    /// How far it goes.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark {
            tokens: self.tokens.len(),
            text: self.text.len(),
            reasoning: self.reasoning.len(),
        }
    }

    /// Takes back what came after `mark`, a mark of a time at which it [had its tokens](Self::has_tokens). One that has begun
    /// anew since, so that the mark is none of its own, is emptied.
    pub fn take_back(&mut self, mark: Mark) {
        let is_own = mark.tokens <= self.tokens.len()
            && self.text.is_char_boundary(mark.text)
            && self.reasoning.is_char_boundary(mark.reasoning);
        if !is_own {
            *self = Self::default();
            return;
        }
        self.tokens.truncate(mark.tokens);
        self.text.truncate(mark.text);
        self.reasoning.truncate(mark.reasoning);
        self.completion_tokens = mark.tokens as u64;
    }

    /// It holds all the token ids that continuing it exactly takes: text could be tokenised otherwise.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        !self.prompt_tokens.is_empty() && !self.tokens.is_empty() && self.tokens.len() as u64 == self.completion_tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(tokens: &[u32], text: &str) -> Partial {
        Partial {
            prompt_tokens: vec![1],
            tokens: tokens.to_vec(),
            text: text.to_owned(),
            completion_tokens: tokens.len() as u64,
            ..Partial::default()
        }
    }

    #[test]
    fn what_came_after_a_mark_is_taken_back() {
        let mut partial = with(&[2, 3], "aé");
        let mark = partial.mark();
        partial.tokens.push(4);
        partial.text.push('b');
        partial.completion_tokens += 2;
        partial.take_back(mark);
        assert_eq!(partial, with(&[2, 3], "aé"));
    }

    #[test]
    fn a_mark_of_what_was_begun_anew_since_empties_it() {
        let mark = with(&[2, 3], "ab").mark();
        // Within a character, beyond the text, and beyond the tokens.
        for mut refilled in [with(&[5, 6], "aé"), with(&[5, 6], "a"), with(&[5], "abc")] {
            refilled.take_back(mark);
            assert_eq!(refilled, Partial::default());
        }
    }
}
