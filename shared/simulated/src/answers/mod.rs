//! What the engine says: how long, whether it is right, and which tokens.
//!
//! All of it is made from hashes of the prompt and of a number that stands for the checkpoint, so that every replica, and every
//! run, says the same. Drawn samples (temperature above 0) also depend on the request's seed.
//!
//! Length: the logarithm is normal around that of `median_tokens`; `tail_share` of the items are `tail_factor` times
//! longer. Both come from latent numbers of which a part belongs to the item alone, so that an item is about as long in the
//! next checkpoint (`correlation`), and in another sample of it (`sample_correlation`).
//!
//! Continuing: where a prompt ends in generated ids, what is said is what would have followed. For greedy decoding that is the
//! rest of the same answer. For drawn samples it is another draw of the rest, given that the answer is no shorter than what is
//! there, so that joined answers are as long as whole ones; in the mode `chain` they are distributed as whole ones, token by token.
//!
//! The right answer: an item's prompt may hold it between the marker of the configuration and a closing bracket, as in
//! `[target: 42]`. Then the share `correct` of the items is answered with it, the others with something else of its kind. A
//! prompt without a marker has no right answer and gets a digit.

mod chain;
mod settings;

pub use settings::{Answers, Form, Mode};

use crate::hash::{below, mix, normal, of_tokens, uniform};
use crate::tokens::{self, GENERATED};

/// What of a request decides the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Question<'a> {
    /// The prompt's ids, perhaps with the first ids of its answer behind.
    pub ids: &'a [u32],
    /// The cap, at least 1.
    pub max_tokens: u32,
    /// No end before this many tokens.
    pub min_tokens: u32,
    /// Go on to the cap.
    pub ignore_eos: bool,
    /// Texts that end the answer.
    pub stop: &'a [String],
    /// Whether the text keeps the stop text.
    pub keep_stop: bool,
    /// How tokens are drawn.
    pub sampling: Sampling,
}

/// How tokens are drawn; the defaults are neutral.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f64,
    /// The most probable tokens that make up this share are kept.
    pub top_p: f64,
    /// As many tokens are kept; 0 keeps all.
    pub top_k: usize,
    /// Subtracted for each earlier use of a token in this answer.
    pub frequency_penalty: f64,
    /// Subtracted for any earlier use in this answer.
    pub presence_penalty: f64,
    /// Divides, or multiplies where negative, what prompt or answer hold already.
    pub repetition_penalty: f64,
    /// Added, by token.
    pub logit_bias: Vec<(u32, f64)>,
    /// Of this draw.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_p: 1.0,
            top_k: 0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// By itself.
    End,
    /// At a stop text.
    Stop(String),
    /// At the cap.
    Length,
}

/// An answer, known before its first token is due.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What this request generates.
    pub tokens: Vec<u32>,
    /// Their text, up to a stop text.
    pub text: String,
    /// Why it ends there.
    pub finish: Finish,
    /// Tokens of the answer that came with the prompt.
    pub continued: u32,
    /// They are not what this checkpoint says greedily: they came from other weights, or were drawn.
    pub is_foreign: bool,
}

/// Hash of a prompt without what was generated: the same for a request and its continuations.
#[must_use]
pub fn prompt_hash(ids: &[u32]) -> u64 {
    of_tokens(0, tokens::split(ids).0)
}

/// [`prompt_hash`] of a text.
#[must_use]
pub fn text_hash(prompt: &str) -> u64 {
    prompt_hash(&tokens::tokenize(prompt))
}

/// Tokens of the greedy answer of `checkpoint` to a prompt, within a cap.
#[must_use]
pub fn length(settings: &Answers, checkpoint: u64, prompt: &[u32], cap: u32) -> u32 {
    let item = of_tokens(0, prompt);
    let latent = Latent {
        settings,
        checkpoint,
        item,
    };
    u32::try_from(latent.length(None, 0)).unwrap_or(u32::MAX).min(cap)
}

/// Answers a question as `checkpoint` would.
#[must_use]
pub fn answer(settings: &Answers, checkpoint: u64, question: &Question<'_>) -> Answer {
    let (prompt, so_far) = tokens::split(question.ids);
    let item = of_tokens(0, prompt);
    let is_greedy = question.sampling.temperature <= 0.0;
    let mut is_foreign = false;
    let (mut tokens, ends) = if settings.mode == Mode::Chain && !is_greedy {
        chain::draw(settings, item, question, so_far)
    } else {
        let plan = Plan::new(settings, checkpoint, item, prompt, question, so_far.len());
        is_foreign = is_greedy && !so_far.iter().enumerate().all(|(at, id)| plan.token(at) == Some(*id));
        plan.rest(so_far.len(), question)
    };
    // As engines do: at the cap nobody knows whether the end would have come next.
    let capped = tokens.len() >= question.max_tokens as usize || !ends;
    tokens.truncate(question.max_tokens as usize);
    let mut finish = if capped { Finish::Length } else { Finish::End };
    let mut text = tokens::text(&tokens);
    if let Some((at, stop)) = first_stop(&text, question.stop) {
        keep_until(&mut tokens, at + stop.len());
        text.truncate(at + if question.keep_stop { stop.len() } else { 0 });
        finish = Finish::Stop(stop.to_owned());
    }
    Answer {
        tokens,
        text,
        finish,
        continued: u32::try_from(so_far.len()).unwrap_or(u32::MAX),
        is_foreign,
    }
}

/// The stop text that is complete first, and where it begins.
fn first_stop<'a>(text: &str, stops: &'a [String]) -> Option<(usize, &'a str)> {
    let found = stops.iter().filter(|stop| !stop.is_empty());
    let found = found.filter_map(|stop| text.find(stop.as_str()).map(|at| (at, stop.as_str())));
    found.min_by_key(|(at, stop)| (at + stop.len(), *at))
}

/// Drops the tokens behind the one that completes `bytes` of text.
fn keep_until(tokens: &mut Vec<u32>, bytes: usize) {
    let mut text = String::new();
    let complete = tokens.iter().position(|id| {
        tokens::write_text(*id, &mut text);
        text.len() >= bytes
    });
    tokens.truncate(complete.map_or(tokens.len(), |at| at + 1));
}

/// A planned answer: words up to its last tokens, which give the answer proper.
struct Plan {
    words: u64,
    length: usize,
    end: Vec<u32>,
}

impl Plan {
    fn new(
        settings: &Answers,
        checkpoint: u64,
        item: u64,
        prompt: &[u32],
        question: &Question<'_>,
        so_far: usize,
    ) -> Self {
        let seed = (question.sampling.temperature > 0.0).then_some(question.sampling.seed);
        let latent = Latent {
            settings,
            checkpoint,
            item,
        };
        let length = latent.length(seed, so_far);
        let end = settings.ending(prompt, latent.is_correct(seed), item);
        let length = match settings.form {
            Form::Bare => end.len(),
            Form::Worked => length.max(end.len()),
        };
        Self {
            words: mix(mix(item, checkpoint), seed.map_or(0, |seed| mix(seed, 3))),
            length: length.max(question.min_tokens as usize),
            end,
        }
    }

    /// The token at a place of the answer.
    fn token(&self, at: usize) -> Option<u32> {
        let words = self.length - self.end.len();
        match at.checked_sub(words) {
            None => Some(tokens::word(mix(self.words, at as u64)) | GENERATED),
            Some(at) => self.end.get(at).copied(),
        }
    }

    /// The tokens from `from` on, and whether the answer ends by itself.
    fn rest(&self, from: usize, question: &Question<'_>) -> (Vec<u32>, bool) {
        let most = from.saturating_add(question.max_tokens as usize);
        if question.ignore_eos {
            let repeated = (from..most).map(|at| tokens::word(mix(self.words, at as u64)) | GENERATED);
            return (repeated.collect(), false);
        }
        (
            (from..self.length.min(most)).filter_map(|at| self.token(at)).collect(),
            true,
        )
    }
}

/// The numbers behind an item's length and correctness.
struct Latent<'a> {
    settings: &'a Answers,
    checkpoint: u64,
    item: u64,
}

impl Latent<'_> {
    /// A standard normal number of this item: one part is the item's, one the checkpoint's, and, for drawn samples, one the
    /// sample's.
    fn number(&self, kind: u64, sample: Option<u64>) -> f64 {
        let of_item = normal(mix(self.item, kind));
        let of_checkpoint = normal(mix(mix(self.item, kind), mix(self.checkpoint, 0x0c)));
        let shared = self.settings.correlation;
        let both = shared.sqrt() * of_item + (1.0 - shared).sqrt() * of_checkpoint;
        let Some(sample) = sample else { return both };
        let shared = self.settings.sample_correlation;
        shared.sqrt() * both + (1.0 - shared).sqrt() * normal(mix(mix(self.item, kind), mix(sample, 0x5a)))
    }

    /// Tokens of the answer. A drawn one is drawn until it is not shorter than what is there: what is left of it is then
    /// distributed as the rest of answers that got so far.
    fn length(&self, sample: Option<u64>, so_far: usize) -> usize {
        let Some(sample) = sample else {
            return self.one_length(None);
        };
        let mut draws = (0..10_000).map(|draw| self.one_length(Some(mix(sample, draw))));
        draws.find(|length| *length >= so_far).unwrap_or(so_far)
    }

    fn one_length(&self, sample: Option<u64>) -> usize {
        let settings = self.settings;
        let spread = (settings.spread * self.number(1, sample)).exp();
        let is_tail = below(self.number(2, sample)) < settings.tail_share;
        let factor = if is_tail { settings.tail_factor } else { 1.0 };
        (settings.median_tokens * spread * factor).round().clamp(1.0, 1e6) as usize
    }

    fn is_correct(&self, sample: Option<u64>) -> bool {
        below(self.number(3, sample)) < self.settings.correct
    }
}

impl Answers {
    /// The last tokens of an answer.
    fn ending(&self, prompt: &[u32], is_correct: bool, item: u64) -> Vec<u32> {
        let said = match self.target(prompt) {
            Some(target) if is_correct => target,
            Some(target) => wrong(&target),
            None => (mix(item, 4) % 10).to_string(),
        };
        let text = match self.form {
            Form::Bare => format!(" {said}"),
            Form::Worked => format!("\nAnswer: {said}"),
        };
        tokens::tokenize(&text).iter().map(|id| id | GENERATED).collect()
    }

    /// What stands between the last marker of the prompt and the bracket that closes it.
    fn target(&self, prompt: &[u32]) -> Option<String> {
        if self.marker.is_empty() {
            return None;
        }
        let text = tokens::text(prompt);
        let start = text.rfind(&self.marker)? + self.marker.len();
        let length = text[start..].find(']')?;
        Some(text[start..start + length].trim().to_owned())
    }
}

/// Another answer of the same kind.
fn wrong(target: &str) -> String {
    match (target.parse::<i64>(), target.as_bytes()) {
        (Ok(number), _) => number.wrapping_add(1).to_string(),
        (_, [letter @ b'A'..=b'D']) => char::from(b'A' + (letter - b'A' + 1) % 4).to_string(),
        _ => format!("not {target}"),
    }
}

/// The log-probability of a token after another, between -10 and -0.01. Made up, and the same everywhere.
#[must_use]
pub fn logprob(before: Option<u32>, id: u32) -> f64 {
    let hash = mix(u64::from(before.unwrap_or(0) & !GENERATED), u64::from(id & !GENERATED));
    -(0.01 + uniform(hash) * 9.99)
}

#[cfg(test)]
mod tests;
