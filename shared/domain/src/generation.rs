//! The identity of a generation: what was asked of which weights, whichever evaluation asks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Benchmark, ChoiceScore, Completion, Digest, Ending, Item, ItemKey, Penalties, Prompt, Served, Settings, Timestamp,
};

/// The lane of all evaluations so far: bulk requests, not bit-for-bit repeatable on every engine.
///
/// It takes part in an evaluation's id and in every [`GenerationKey`], so another lane never meets this one's answers.
pub const LANE: &str = "fast";

/// The encoding below and its version: a change of either is another context string, which makes every old key unreachable.
const CONTEXT: &str = "tidemill generation key, version 1";

/// The identity of one generation: 128 bits of a BLAKE3 hash, written as 32 hexadecimal digits.
///
/// Equal keys mean that the same request was sent to the same weights for the same draw, so one answer serves both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GenerationKey([u8; 16]);

/// A text that is not the key of a generation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the key of a generation: expected 32 lower-case hexadecimal digits")]
pub struct InvalidGenerationKey(String);

/// How a release stands to the generation cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub enum Reuse {
    /// The evaluation wants its own draws: nothing is looked up and nothing is stored.
    #[default]
    Never,
    /// No earlier generation is known: the engine is asked without a look, and the answer is stored.
    Unlikely,
    /// There is, or may be, an earlier generation: it is looked up first.
    Likely,
}

/// Everything that one request for a sample consists of. What is not sent (targets, the item's id, the grader) is not in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked<'a> {
    /// Identity of the weights, as evaluations state it: template and tokenizer of a checkpoint in files are part of it.
    pub weights: &'a Digest,
    /// The lane of the request; see [`LANE`].
    pub lane: &'a str,
    /// The rendered prompt.
    pub prompt: &'a Prompt,
    /// What is asked about it.
    pub question: Question<'a>,
    /// The n-th draw for the item, from 0.
    pub sample: u32,
}

/// What is asked about a prompt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Question<'a> {
    /// A completion under these settings, drawn with this seed.
    Complete {
        /// Cap, temperature, nucleus and stop texts; base seed and sample count are not sent and take no part.
        settings: &'a Settings,
        /// They are part of the key where they are not neutral.
        penalties: Penalties,
        /// The sample's own seed, as it is sent.
        seed: u64,
    },
    /// The log-probabilities of these continuations; nothing is drawn, so neither settings nor seed are sent.
    Score {
        /// The continuations, in order.
        choices: &'a [String],
    },
}

impl<'a> Asked<'a> {
    /// What is asked for one sample of an item.
    #[must_use]
    pub fn of(weights: &'a Digest, benchmark: &'a Benchmark, item: &'a Item, sample: u32) -> Self {
        let settings = &benchmark.settings;
        let question = if benchmark.is_likelihood() {
            Question::Score { choices: &item.choices }
        } else {
            Question::Complete {
                settings,
                penalties: benchmark.penalties,
                seed: settings.sample_seed(&item.id, sample),
            }
        };
        Self {
            weights,
            lane: LANE,
            prompt: &item.prompt,
            question,
            sample,
        }
    }

    /// The request's key.
    #[must_use]
    pub fn key(&self) -> GenerationKey {
        let mut parts = Parts(blake3::Hasher::new_derive_key(CONTEXT));
        parts.text(self.weights.as_str());
        parts.text(self.lane);
        match self.prompt {
            Prompt::Text(text) => {
                parts.tag(0);
                parts.text(text);
            }
            Prompt::Chat(turns) => {
                parts.tag(1);
                parts.number(turns.len() as u64);
                for turn in turns {
                    parts.text(&turn.role);
                    parts.text(&turn.content);
                }
            }
        }
        match self.question {
            Question::Complete {
                settings,
                penalties,
                seed,
            } => {
                parts.tag(0);
                parts.number(u64::from(settings.max_tokens));
                parts.real(settings.temperature);
                parts.real(settings.top_p);
                parts.texts(&settings.stop);
                parts.number(seed);
                if !penalties.are_neutral() {
                    parts.tag(2);
                    parts.real(penalties.frequency);
                    parts.real(penalties.presence);
                    parts.real(penalties.repetition);
                }
            }
            Question::Score { choices } => {
                parts.tag(1);
                parts.texts(choices);
            }
        }
        parts.number(u64::from(self.sample));
        parts.finish()
    }
}

/// Appends parts so that no two sequences of them run together: texts and lists after their length, numbers in 8 bytes.
struct Parts(blake3::Hasher);

impl Parts {
    fn tag(&mut self, tag: u8) {
        self.0.update(&[tag]);
    }

    fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    /// Both zeros are one number.
    fn real(&mut self, number: f64) {
        self.number((number + 0.0).to_bits());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
    }

    fn texts(&mut self, texts: &[String]) {
        self.number(texts.len() as u64);
        texts.iter().for_each(|text| self.text(text));
    }

    fn finish(self) -> GenerationKey {
        let mut key = [0; 16];
        key.copy_from_slice(&self.0.finalize().as_bytes()[..16]);
        GenerationKey(key)
    }
}

impl GenerationKey {
    /// The key's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for GenerationKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for GenerationKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "GenerationKey({self})")
    }
}

impl std::str::FromStr for GenerationKey {
    type Err = InvalidGenerationKey;

    fn from_str(text: &str) -> Result<Self, InvalidGenerationKey> {
        let invalid = || InvalidGenerationKey(text.to_owned());
        if text.len() != 32 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(invalid());
        }
        let mut key = [0; 16];
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| invalid())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| invalid())?;
        }
        Ok(Self(key))
    }
}

/// An answer as the cache keeps it: what was generated, without the evaluation that asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// What it is known by; a reader compares it with what it looked for.
    pub key: GenerationKey,
    /// How it ended.
    pub ending: Ending,
    /// The answer's text.
    pub text: String,
    /// Reasoning that the engine split off.
    pub reasoning: Option<String>,
    /// The engine's own word for the ending.
    pub finish_reason: Option<String>,
    /// The stop text that fired, where the engine says.
    pub stop_reason: Option<String>,
    /// Cut by the cap or the context.
    pub truncated: bool,
    /// One entry a choice of a likelihood benchmark.
    pub choices: Vec<ChoiceScore>,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub completion_tokens: u64,
    /// The replica that generated it.
    pub engine: String,
    /// When it was generated.
    pub generated: Timestamp,
}

impl Generation {
    /// What of a completion may answer others; `None` for what may not.
    ///
    /// Kept is what the model itself ended, or its cap: [`Ending::Stop`], [`Ending::Length`] and [`Ending::Scored`]. The
    /// other endings are the engine's or its filter's doing, which another try, server or setting of it may not repeat.
    #[must_use]
    pub fn of(completion: &Completion) -> Option<Self> {
        let is_kept = matches!(completion.ending, Ending::Stop | Ending::Length | Ending::Scored);
        let key = completion.generation.filter(|_| is_kept && !completion.cached)?;
        Some(Self {
            key,
            ending: completion.ending,
            text: completion.text.clone(),
            reasoning: completion.reasoning.clone(),
            finish_reason: completion.finish_reason.clone(),
            stop_reason: completion.stop_reason.clone(),
            truncated: completion.truncated,
            choices: completion.choices.clone(),
            prompt_tokens: completion.prompt_tokens,
            completion_tokens: completion.completion_tokens,
            engine: completion.engine.clone(),
            generated: completion.finished,
        })
    }

    /// The completion of a sample that this generation answers at `now`: no request and no try, the tokens that the answer
    /// has, and the engine that generated it.
    #[must_use]
    pub fn answer(self, key: ItemKey, manifest: Digest, now: Timestamp) -> Completion {
        Completion {
            key,
            manifest,
            ending: self.ending,
            text: self.text,
            reasoning: self.reasoning,
            finish_reason: self.finish_reason,
            stop_reason: self.stop_reason,
            truncated: self.truncated,
            choices: self.choices,
            detail: None,
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.completion_tokens,
            requests: 0,
            attempts: 0,
            cached: true,
            generation: Some(self.key),
            served: Served::default(),
            engine: self.engine,
            started: now,
            finished: now,
        }
    }
}

#[cfg(test)]
#[path = "generation_tests.rs"]
mod tests;
