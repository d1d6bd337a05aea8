//! What is seen of a block's items without keeping their prompts.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{Item, Prompt, length_class};

/// Prompts are compared up to these lengths in bytes: the first, which no short instruction reaches, and its doublings.
const RUNGS: [usize; 9] = [256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536];

/// What order needs to know of a block's items without reading their prompts: one entry an item each.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outline {
    /// The length of each prompt in bytes, as [`crate::length_class`] of it.
    pub prompts: Vec<u8>,
    /// What prompts with the same long beginning have in common; 0 where there is none.
    pub prefixes: Vec<u64>,
}

impl Outline {
    /// The outline of neighbouring items.
    ///
    /// A prompt's prefix is the longest of its beginnings of 256, 512, 1,024 and so on to 65,536 bytes that another item of
    /// these has too. Its hash depends on nothing but those bytes, so that the examples before a benchmark's questions give
    /// every block the same one. Each prompt is read once, as far as the last of these lengths.
    #[must_use]
    pub fn of(items: &[Item]) -> Self {
        let beginnings: Vec<Vec<u64>> = items.iter().map(|item| beginnings(&item.prompt)).collect();
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for hash in beginnings.iter().flatten() {
            *counts.entry(*hash).or_default() += 1;
        }
        let is_shared = |hash: &&u64| counts.get(hash).is_some_and(|count| *count > 1);
        Self {
            prompts: items.iter().map(|item| length_class(bytes(&item.prompt))).collect(),
            prefixes: beginnings
                .iter()
                .map(|hashes| hashes.iter().rfind(is_shared).copied().unwrap_or(0))
                .collect(),
        }
    }
}

fn bytes(prompt: &Prompt) -> u64 {
    parts(prompt).map(|part| part.len() as u64).sum()
}

/// What a prompt is made of, in order.
fn parts(prompt: &Prompt) -> impl Iterator<Item = &[u8]> {
    let (text, messages) = match prompt {
        Prompt::Text(text) => (Some(text.as_bytes()), None),
        Prompt::Chat(messages) => (None, Some(messages)),
    };
    let turns = messages.into_iter().flatten();
    let turns = turns.flat_map(|turn| [turn.role.as_bytes(), b"\0", turn.content.as_bytes(), b"\0"]);
    text.into_iter().chain(turns)
}

/// The hashes of a prompt's beginnings, shortest first.
fn beginnings(prompt: &Prompt) -> Vec<u64> {
    let mut hasher = blake3::Hasher::new();
    let (mut hashes, mut read) = (Vec::new(), 0);
    for mut part in parts(prompt) {
        while let Some(rung) = RUNGS.get(hashes.len()) {
            let (now, later) = part.split_at(part.len().min(rung - read));
            hasher.update(now);
            (part, read) = (later, read + now.len());
            if read < *rung {
                break;
            }
            let mut leading = [0; 8];
            leading.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
            hashes.push(u64::from_le_bytes(leading).max(1));
        }
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;

    fn item(prompt: Prompt) -> Item {
        Item {
            id: String::new(),
            prompt,
            targets: Vec::new(),
            choices: Vec::new(),
            correct_choice: None,
            cluster: None,
            subset: None,
            weight: 1.0,
            material: Vec::new(),
        }
    }

    fn text(beginning: &str, times: usize, end: usize) -> Item {
        item(Prompt::Text(format!("{}{end}", beginning.repeat(times))))
    }

    #[test]
    fn items_that_share_a_long_beginning_share_its_hash_in_every_block() {
        let blocks: Vec<Outline> = (0..2)
            .map(|block| {
                let shots = (0..3).map(|index| text("An example.\n", 100, 10 * block + index));
                let others = (0..2).map(|index| text("Another one\n", 30, 10 * block + index));
                Outline::of(&others.chain(shots).collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(blocks[0].prefixes, blocks[1].prefixes);
        let [other, _, shots, ..] = blocks[0].prefixes[..] else {
            panic!()
        };
        assert_eq!(blocks[0].prefixes, [other, other, shots, shots, shots]);
        assert!(other != shots && other != 0 && shots != 0);
        assert_eq!(blocks[0].prompts[0], length_class(361));
    }

    #[test]
    fn the_longest_shared_beginning_counts_and_short_or_lonely_ones_do_not() {
        let shared = "s".repeat(300);
        let document = |name: &str, end: usize| text(&format!("{shared}{}", name.repeat(400)), 1, end);
        let items = [
            document("a", 1),
            document("b", 2),
            document("a", 3),
            document("c", 4),
            text("s", 255, 1),
        ];
        let prefixes = Outline::of(&items).prefixes;
        assert_eq!(prefixes[0], prefixes[2]);
        assert_eq!(prefixes[1], prefixes[3], "they share what all share");
        assert!(prefixes[0] != prefixes[1] && prefixes[4] == 0);
        assert_eq!(Outline::of(&items[..1]).prefixes, [0]);
    }

    #[test]
    fn turns_do_not_run_together() {
        let chat = |system: &str, user: &str| {
            let turn = |role: &str, content: &str| Message {
                role: role.to_owned(),
                content: content.to_owned(),
            };
            item(Prompt::Chat(vec![turn("system", system), turn("user", user)]))
        };
        let long = "x".repeat(400);
        let alike = Outline::of(&[chat(&long, "1"), chat(&long, "2")]).prefixes;
        assert!(alike[0] == alike[1] && alike[0] != 0);
        let apart = Outline::of(&[chat(&long[..100], &long), chat(&long[..101], &long[1..])]).prefixes;
        assert_eq!(apart, [0, 0]);
    }
}
