//! A suite rendered once: every prompt, reference and setting that generators and graders need.
//!
//! The manifest itself holds no items: it names the blocks in which they lie, so that who needs counts and settings alone
//! (the dispatcher, the aggregator) stays small whatever a suite's size, and who needs items reads the blocks in use.

use serde::{Deserialize, Serialize};

use crate::{
    BenchmarkName, BlockRef, ClustersRef, Digest, EvaluationId, GraderSpec, Group, ItemKey, Metric, Reasoning, SuiteRef,
};

/// A rendered suite, stored under its digest in the object store.
///
/// Benchmarks and items are addressed by their ordinals here, so subjects stay short and free of whatever an id may hold.
/// The backlog of an evaluation is its manifest minus the completions that exist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The suite it was rendered from.
    pub suite: SuiteRef,
    /// Share of failed samples, 0 to 1, above which an evaluation is invalid.
    pub max_failure_rate: f64,
    /// At least one.
    pub benchmarks: Vec<Benchmark>,
    /// Means over several benchmarks.
    pub groups: Vec<Group>,
}

/// A benchmark, and where its items are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    /// Its name, unique in the suite.
    pub name: BenchmarkName,
    /// How completions are asked for.
    pub settings: Settings,
    /// How they are graded.
    pub grader: GraderSpec,
    /// How many items it has, at least one.
    pub items: u32,
    /// The blocks that hold them, in order.
    pub blocks: Vec<BlockRef>,
    /// Which items belong together, where the suite names clusters.
    pub clusters: Option<ClustersRef>,
    /// What makes repeated tokens less likely.
    pub penalties: Penalties,
    /// What becomes of an answer that is interrupted.
    pub continuation: Continuation,
    /// How many of the samples of each item, the last ones, are drawn only in slots that nothing else wants. All of them end
    /// and count like the others; see [`Settings::samples`], which holds them too.
    pub spare_samples: u32,
    /// The [`crate::Outline`] of each block, in order, under its digest in the object store; empty where none were made.
    pub outlines: Vec<Digest>,
    /// How reasoning is told from the answer.
    pub reasoning: Reasoning,
    /// What is measured beside the score.
    pub metrics: Vec<Metric>,
    /// Which items are looked at apart: the digest of a [`crate::SubsetColumn`].
    pub subsets: Option<Digest>,
    /// How much each item counts, where not all count the same: the digest of a [`crate::WeightColumn`].
    pub weights: Option<Digest>,
}

/// What makes tokens that occurred before less likely. Sent in full like all settings; neutral unless a suite says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Penalties {
    /// Taken from a token's logit for each time that the answer holds it.
    pub frequency: f64,
    /// Taken once from the logit of a token that the answer holds.
    pub presence: f64,
    /// Divides the positive logits, and multiplies the negative ones, of tokens that prompt or answer hold; 1 changes nothing.
    pub repetition: f64,
}

/// What becomes of an answer that is interrupted: by a preemption, a drain, or the loss of its replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Continuation {
    /// It is continued from its tokens where that is the same draw, else asked for anew.
    #[default]
    Exact,
    /// It is asked for anew.
    Never,
}

/// How completions are asked for; always sent in full, so no server's default takes part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The cap on the answer's length in tokens.
    pub max_tokens: u32,
    /// 0 is greedy.
    pub temperature: f64,
    /// Nucleus sampling; 1 keeps every token.
    pub top_p: f64,
    /// Texts that end an answer and are not part of it.
    pub stop: Vec<String>,
    /// Base of the seeds of the samples. Each sample's seed is made from it, the item's id and the sample's index.
    pub seed: u64,
    /// Samples drawn for each item, at least 1.
    pub samples: u32,
}

impl Penalties {
    /// They change nothing.
    #[must_use]
    pub fn are_neutral(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Penalties {
    fn default() -> Self {
        Self {
            frequency: 0.0,
            presence: 0.0,
            repetition: 1.0,
        }
    }
}

/// One row, rendered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its id, unique in the benchmark.
    pub id: String,
    /// What is sent.
    pub prompt: Prompt,
    /// Accepted answers; at least one unless the grader is by likelihood or needs none.
    pub targets: Vec<String>,
    /// The continuations compared by a likelihood grader, or the options of a multiple choice graded by text.
    pub choices: Vec<String>,
    /// Index of the right choice.
    pub correct_choice: Option<u32>,
    /// Items of one cluster are not independent: the standard error groups them.
    pub cluster: Option<String>,
    /// The part of the benchmark that it belongs to, which is also reported apart.
    pub subset: Option<String>,
    /// How much it counts in the mean, above 0; 1 unless the suite names weights.
    pub weight: f64,
    /// What else the grader needs of the row, rendered: pairs of a name that the grader's kind documents and a text.
    pub material: Vec<(String, String)>,
}

/// What is sent to the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prompt {
    /// To the completions endpoint, as it is.
    Text(String),
    /// To the chat endpoint; the server applies its template. Where turns are of the role [`Message::CONTEXT`] nothing of this
    /// is meant: see [`Prompt::of_contexts`].
    Chat(Vec<Message>),
}

impl Prompt {
    /// What stands before the choices of an item whose likelihoods are asked for, where that is another text for each: a turn a
    /// choice. A generator that does not know of it refuses such an item, as any chat whose likelihood is asked for.
    #[must_use]
    pub fn of_contexts(contexts: Vec<String>) -> Self {
        let turn = |content| Message {
            role: Message::CONTEXT.to_owned(),
            content,
        };
        Self::Chat(contexts.into_iter().map(turn).collect())
    }

    /// The contexts of [`Prompt::of_contexts`], one a choice; `None` for any other prompt.
    #[must_use]
    pub fn contexts(&self) -> Option<Vec<&str>> {
        let Self::Chat(turns) = self else { return None };
        let context = |turn: &'_ Message| turn.role == Message::CONTEXT;
        let is_such = !turns.is_empty() && turns.iter().all(context);
        is_such.then(|| turns.iter().map(|turn| turn.content.as_str()).collect())
    }
}

/// One turn of a chat prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user` or `assistant`; [`Message::CONTEXT`] for what is no turn of a chat.
    pub role: String,
    /// The turn's text.
    pub content: String,
}

impl Message {
    /// The role of a text that stands before one choice.
    pub const CONTEXT: &'static str = "context";
}

impl Manifest {
    /// Declared samples over all benchmarks.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.benchmarks.iter().map(Benchmark::samples).sum()
    }

    /// Every declared key, benchmark by benchmark, item by item.
    pub fn keys<'a>(&'a self, evaluation: &'a EvaluationId) -> impl Iterator<Item = ItemKey> + 'a {
        self.benchmarks.iter().zip(0_u32..).flat_map(move |(benchmark, index)| {
            (0..benchmark.items).flat_map(move |item| {
                (0..benchmark.settings.samples).map(move |sample| ItemKey {
                    evaluation: evaluation.clone(),
                    benchmark: index,
                    item,
                    sample,
                })
            })
        })
    }

    /// The benchmark of a key; `None` when this manifest does not declare the key.
    #[must_use]
    pub fn benchmark_of(&self, key: &ItemKey) -> Option<&Benchmark> {
        let benchmark = self.benchmarks.get(key.benchmark as usize)?;
        (key.item < benchmark.items && key.sample < benchmark.settings.samples).then_some(benchmark)
    }
}

impl Settings {
    /// The seed of one sample, made from the base seed, the item's id and the sample's index.
    ///
    /// From 1 to 2^31 - 1: some servers keep seeds in 32 signed bits, and some take 0 as "no seed".
    #[must_use]
    pub fn sample_seed(&self, item_id: &str, sample: u32) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_le_bytes());
        hasher.update(&sample.to_le_bytes());
        hasher.update(item_id.as_bytes());
        let mut leading = [0_u8; 8];
        leading.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        (u64::from_le_bytes(leading) & 0x7fff_ffff).max(1)
    }
}

impl Item {
    /// About how many bytes it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let texts = |texts: &[String]| -> usize { texts.iter().map(|text| text.len() + size_of::<String>()).sum() };
        let prompt = match &self.prompt {
            Prompt::Text(text) => text.len(),
            Prompt::Chat(messages) => messages
                .iter()
                .map(|message| message.role.len() + message.content.len() + size_of::<Message>())
                .sum(),
        };
        let labels = [&self.cluster, &self.subset];
        let labels: usize = labels.iter().filter_map(|label| label.as_ref()).map(String::len).sum();
        let material = |(name, text): &(String, String)| name.len() + text.len() + 2 * size_of::<String>();
        let material: usize = self.material.iter().map(material).sum();
        size_of::<Self>() + self.id.len() + prompt + texts(&self.targets) + texts(&self.choices) + labels + material
    }

    /// What stands before each choice when their likelihoods are asked for; `None` for a chat, whose text the server alone knows.
    #[must_use]
    pub fn contexts(&self) -> Option<Vec<&str>> {
        let contexts = match &self.prompt {
            Prompt::Text(text) => vec![text.as_str(); self.choices.len()],
            chat @ Prompt::Chat(_) => chat.contexts()?,
        };
        (contexts.len() == self.choices.len()).then_some(contexts)
    }

    /// The text of that name which the grader was given.
    #[must_use]
    pub fn material(&self, name: &str) -> Option<&str> {
        let found = self.material.iter().find(|(known, _)| known == name)?;
        Some(&found.1)
    }
}

impl Benchmark {
    /// Declared samples: items times samples per item.
    #[must_use]
    pub fn samples(&self) -> u64 {
        u64::from(self.items) * u64::from(self.settings.samples)
    }

    /// The block of an item, and the item's index there; `None` for an ordinal that is not declared.
    #[must_use]
    pub fn block_of(&self, item: u32) -> Option<(&BlockRef, usize)> {
        let index = self.blocks.partition_point(|block| block.end <= item);
        let block = self.blocks.get(index)?;
        let first = index.checked_sub(1).map_or(0, |before| self.blocks[before].end);
        Some((block, (item - first) as usize))
    }

    /// Nothing is generated: the choices' log-probabilities are asked for.
    #[must_use]
    pub const fn is_likelihood(&self) -> bool {
        self.grader.is_likelihood()
    }

    /// Samples of each item that are not spare: the first ones, at least one.
    #[must_use]
    pub fn required_samples(&self) -> u32 {
        let samples = self.settings.samples;
        samples.saturating_sub(self.spare_samples).max(samples.min(1))
    }

    /// Whether a sample of an item is a spare one; see [`Benchmark::spare_samples`].
    #[must_use]
    pub fn is_spare(&self, sample: u32) -> bool {
        sample >= self.required_samples()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn settings(seed: u64) -> Settings {
        Settings {
            max_tokens: 16,
            temperature: 1.0,
            top_p: 1.0,
            stop: Vec::new(),
            seed,
            samples: 4,
        }
    }

    #[test]
    fn sample_seeds_differ_by_seed_item_and_sample() {
        let mut seeds = HashSet::new();
        for seed in 0..3 {
            for item in ["1", "11", "a"] {
                for sample in 0..4 {
                    seeds.insert(settings(seed).sample_seed(item, sample));
                }
            }
        }
        assert_eq!(seeds.len(), 3 * 3 * 4);
    }

    #[test]
    fn a_sample_seed_fits_a_signed_32_bit_integer_and_stays_the_same() {
        for sample in 0..1_000 {
            let seed = settings(u64::MAX).sample_seed("item", sample);
            assert!((1..=i32::MAX as u64).contains(&seed));
        }
        assert_eq!(settings(7).sample_seed("q1", 2), settings(7).sample_seed("q1", 2));
    }
}
