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

    /// Takes back what came after `mark`, a mark of a time at which it [had its tokens](Self::has_tokens).
    pub fn take_back(&mut self, mark: Mark) {
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
