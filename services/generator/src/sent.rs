//! The beginnings of prompts that were sent: what an engine's prefix cache could have had of the next one.
//!
//! Known by bytes, in blocks, each under a hash of the prompt up to its end: the form of the engines' own caches, but of all
//! replicas together and without their bounds, so what they have is a share of it. Only prompts whose beginning others share
//! are kept.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use tidemill_domain::Prompt;

/// Bytes of a block; about as many as are forty tokens.
const BLOCK: usize = 160;

/// Blocks of the newer half: together at most 40 MiB of prompts.
const HALF: usize = 1 << 17;

/// Bytes of a prompt that are taken to be a token where nobody counted.
const BYTES_PER_TOKEN: usize = 4;

/// Prompts that were sent, as far as they are remembered.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    newer: HashSet<u64>,
    older: HashSet<u64>,
}

impl Sent {
    /// The share of a prompt that had been sent before as the beginning of another one, 0 to 1. It counts as sent from now on.
    pub(crate) fn share(&mut self, prompt: &Prompt) -> f64 {
        let bytes = bytes(prompt);
        let (mut known, mut hash, mut is_known) = (0, DefaultHasher::new(), true);
        for block in bytes.chunks_exact(BLOCK) {
            block.hash(&mut hash);
            is_known &= self.keep(hash.finish());
            known += usize::from(is_known);
        }
        (known * BLOCK) as f64 / bytes.len().max(1) as f64
    }

    /// Whether the block was there.
    fn keep(&mut self, block: u64) -> bool {
        let is_known = self.newer.contains(&block) || self.older.contains(&block);
        if self.newer.insert(block) && self.newer.len() >= HALF {
            self.older = std::mem::take(&mut self.newer);
        }
        is_known
    }
}

/// The tokens of a prompt, roughly.
pub(crate) fn tokens(prompt: &Prompt) -> u32 {
    let bytes = match prompt {
        Prompt::Text(text) => text.len(),
        Prompt::Chat(turns) => turns.iter().map(|turn| turn.content.len()).sum(),
    };
    u32::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u32::MAX)
}

fn bytes(prompt: &Prompt) -> std::borrow::Cow<'_, [u8]> {
    match prompt {
        Prompt::Text(text) => text.as_bytes().into(),
        Prompt::Chat(turns) => {
            let turns = turns
                .iter()
                .flat_map(|turn| [turn.role.as_bytes(), b"\n", turn.content.as_bytes(), b"\0"]);
            turns.collect::<Vec<_>>().concat().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parts: &[(&str, usize)]) -> Prompt {
        Prompt::Text(parts.iter().map(|(text, times)| text.repeat(*times)).collect())
    }

    #[test]
    fn what_two_prompts_begin_with_alike_was_sent_before_and_no_more() {
        let mut sent = Sent::default();
        let first = text(&[("a", 10 * BLOCK), ("b", 10 * BLOCK)]);
        let second = text(&[("a", 10 * BLOCK), ("c", 10 * BLOCK)]);
        let other = text(&[("c", 10 * BLOCK), ("a", 10 * BLOCK)]);
        assert!(sent.share(&first).abs() < f64::EPSILON);
        assert!((sent.share(&second) - 0.5).abs() < f64::EPSILON);
        assert!(
            sent.share(&other).abs() < f64::EPSILON,
            "the same text elsewhere is not a prefix"
        );
        assert!((sent.share(&first) - 1.0).abs() < f64::EPSILON);
        assert!(
            sent.share(&text(&[("a", 3)])).abs() < f64::EPSILON,
            "too short to be a block"
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut sent = Sent::default();
        for prompt in 0..4 * HALF / 1_000 {
            let prompt = (0..1_000).map(|block| format!("{:0BLOCK$}", prompt * 1_000 + block));
            sent.share(&Prompt::Text(prompt.collect()));
        }
        assert!(sent.newer.len() + sent.older.len() <= 2 * HALF);
    }

    #[test]
    fn a_token_is_about_four_bytes() {
        assert_eq!(tokens(&text(&[("a", 400)])), 100);
    }
}
