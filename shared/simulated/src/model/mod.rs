//! What happens inside one replica, step by step, in virtual time. No clock, no text, no randomness.
//!
//! The form is vLLM's: each step first gives every running sequence its next token, then fills what is left of the token
//! budget with prefill, in order of arrival. A sequence that needs a KV block when none is free takes the room of the newest
//! one, which starts again later and computes its prompt and what it generated a second time. Simplified against it: a
//! prompt's blocks are taken at once, and only prompts are shared, not answers.

mod blocks;
mod limits;
mod sequence;

use std::collections::VecDeque;
use std::time::Duration;

pub use limits::Limits;
pub use sequence::{Arrival, SequenceId, chain};

use blocks::Blocks;
use sequence::Sequence;

/// One replica.
#[derive(Debug)]
pub struct Engine {
    limits: Limits,
    now: Duration,
    next: u64,
    /// In order of start.
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    blocks: Blocks,
    totals: Totals,
}

/// What a replica did since it began. Tokens and sequences are counts; times are virtual.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Totals {
    /// Steps.
    pub steps: u64,
    /// Time in steps, and waiting for first tokens.
    #[serde(serialize_with = "seconds")]
    pub busy: Duration,
    /// Sequence-seconds of what ran.
    pub running_seconds: f64,
    /// Sequence-seconds of what ran or waited.
    pub present_seconds: f64,
    /// Sequences that lost their room and started again.
    pub preemptions: u64,
    /// Prompt tokens that were looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Those that were there.
    pub prefix_hits: u64,
    /// Prompt tokens of sequences that started.
    pub prompt_tokens: u64,
    /// Tokens computed in prefill, those of repeated starts included.
    pub prefill_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// As many wait as may.
    #[error("{waiting} requests wait already")]
    Full {
        /// How many wait.
        waiting: u32,
    },
    /// Prompt and answer are longer than the context.
    #[error("{wanted} tokens are more than {max_model_len}")]
    TooLong {
        /// Tokens of prompt and answer.
        wanted: u32,
        /// The context.
        max_model_len: u32,
    },
}

/// A sequence that has all its tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finished {
    /// Which.
    pub id: SequenceId,
    /// Prompt tokens that were in the prefix cache.
    pub cached: u32,
    /// When its first token was there.
    pub first_token_at: Duration,
}

/// What a step brought.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// When it ended.
    pub ended_at: Duration,
    /// Sequences that decoded.
    pub decoded: u32,
    /// Those that ended with it.
    pub finished: Vec<Finished>,
}

impl Engine {
    /// An idle replica.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let blocks = Blocks::new(limits.kv_blocks, limits.prefix_cache);
        Self {
            limits,
            now: Duration::ZERO,
            next: 0,
            running: Vec::new(),
            waiting: VecDeque::new(),
            blocks,
            totals: Totals::default(),
        }
    }

    /// Its settings.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The end of the last step.
    #[must_use]
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// Sequences being computed.
    #[must_use]
    pub fn running(&self) -> u32 {
        u32::try_from(self.running.len()).unwrap_or(u32::MAX)
    }

    /// Sequences that wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        u32::try_from(self.waiting.len()).unwrap_or(u32::MAX)
    }

    /// Used KV blocks over all, from 0 to 1.
    #[must_use]
    pub fn kv_use(&self) -> f64 {
        f64::from(self.blocks.used()) / f64::from(self.blocks.total())
    }

    /// What it did so far.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The tokens that each running sequence has so far, in order of start.
    pub fn progress(&self) -> impl Iterator<Item = (SequenceId, u32)> + '_ {
        self.running.iter().map(|sequence| (sequence.id, sequence.generated))
    }

    /// Lets time pass in which nothing was computed; nothing happens when the moment has passed.
    pub fn idle_until(&mut self, moment: Duration) {
        self.now = self.now.max(moment);
    }

    /// Puts a request at the end of the queue.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn submit(&mut self, arrival: Arrival) -> Result<SequenceId, Refusal> {
        let wanted = arrival.prompt.saturating_add(arrival.output);
        if wanted > self.limits.max_model_len {
            let max_model_len = self.limits.max_model_len;
            return Err(Refusal::TooLong { wanted, max_model_len });
        }
        let waiting = self.waiting();
        if self.limits.max_waiting.is_some_and(|most| waiting >= most) && self.running() >= self.limits.max_num_seqs {
            return Err(Refusal::Full { waiting });
        }
        let id = SequenceId(self.next);
        self.next += 1;
        self.waiting.push_back(Sequence::new(id, arrival));
        Ok(id)
    }

    /// Forgets a sequence, wherever it is; whether it was there.
    pub fn abort(&mut self, id: SequenceId) -> bool {
        if let Some(at) = self.running.iter().position(|sequence| sequence.id == id) {
            let sequence = self.running.remove(at);
            self.blocks.release(sequence.held);
            return true;
        }
        let found = self.waiting.iter().position(|sequence| sequence.id == id);
        found.and_then(|at| self.waiting.remove(at)).is_some()
    }

    /// An idle replica with an empty cache and the same settings at the same moment, as after a restart.
    #[must_use]
    pub fn renewed(&self) -> Self {
        Self {
            now: self.now,
            ..Self::new(self.limits.clone())
        }
    }

    /// Computes one step; none while there is nothing to do, or nothing but stalled sequences.
    pub fn step(&mut self) -> Option<Step> {
        let preempted = self.make_room();
        let mut decoding: u32 = self
            .running
            .iter()
            .map(|sequence| u32::from(self.decodes(sequence)))
            .sum();
        let mut budget = self.limits.max_batched_tokens.saturating_sub(decoding);
        let mut prefill = self.prefill_running(&mut budget);
        if !preempted {
            prefill += self.start_waiting(&mut budget);
        }
        let start = self.now;
        if decoding == 0 && prefill == 0 {
            // Everybody waits for a first token; the step begins when the earliest is due.
            let pending = self
                .running
                .iter()
                .filter(|sequence| !sequence.is_prefilling() && !sequence.is_stalled());
            self.now = pending.map(|sequence| sequence.ready_at).min()?.max(self.now);
            decoding = self
                .running
                .iter()
                .map(|sequence| u32::from(self.decodes(sequence)))
                .sum();
        }
        let decoders = self.decoders(decoding);
        self.now += self.limits.step_time(decoding, prefill);
        let finished = self.advance(&decoders);
        self.count(start, prefill, finished.len());
        Some(Step {
            ended_at: self.now,
            decoded: decoding,
            finished,
        })
    }

    /// Whether a sequence gets a token in the step that begins now.
    fn decodes(&self, sequence: &Sequence) -> bool {
        !sequence.is_prefilling() && !sequence.is_stalled() && sequence.ready_at <= self.now
    }

    fn decoders(&self, decoding: u32) -> Vec<bool> {
        if decoding == self.running() {
            return Vec::new();
        }
        self.running.iter().map(|sequence| self.decodes(sequence)).collect()
    }

    /// Gives each sequence the block that its next token needs, at the cost of the newest where there is none.
    fn make_room(&mut self) -> bool {
        let mut preempted = false;
        let mut at = 0;
        while at < self.running.len() {
            let sequence = &mut self.running[at];
            let wanted = (sequence.context() + 1).div_ceil(self.limits.block_size);
            if sequence.is_prefilling() || sequence.held.count() >= wanted || self.blocks.grow(&mut sequence.held) {
                at += 1;
                continue;
            }
            self.preempt_newest();
            preempted = true;
        }
        preempted
    }

    fn preempt_newest(&mut self) {
        let Some(mut sequence) = self.running.pop() else { return };
        self.blocks.release(std::mem::take(&mut sequence.held));
        sequence.computed = 0;
        self.totals.preemptions += 1;
        self.waiting.push_front(sequence);
    }

    fn prefill_running(&mut self, budget: &mut u32) -> u32 {
        let before = *budget;
        for sequence in &mut self.running {
            if sequence.is_prefilling() && *budget > 0 {
                prefill(sequence, budget, &mut self.blocks, self.limits.block_size);
            }
        }
        before - *budget
    }

    /// Starts what waits, in order, until the first that finds no room.
    fn start_waiting(&mut self, budget: &mut u32) -> u32 {
        let before = *budget;
        while *budget > 0 && self.running() < self.limits.max_num_seqs {
            let Some(mut sequence) = self.waiting.pop_front() else {
                break;
            };
            if !self.start(&mut sequence) {
                self.waiting.push_front(sequence);
                break;
            }
            prefill(&mut sequence, budget, &mut self.blocks, self.limits.block_size);
            self.running.push(sequence);
        }
        before - *budget
    }

    fn start(&mut self, sequence: &mut Sequence) -> bool {
        let size = self.limits.block_size;
        let prompt = sequence.arrival.prompt;
        // The last token of a prompt is always computed: its result is the first token's distribution.
        let usable = (prompt.saturating_sub(1) / size) as usize;
        let usable = usable.min(sequence.arrival.chain.len());
        let reads = sequence.arrival.reads_cache;
        let hits = if reads {
            self.blocks.hits(&sequence.arrival.chain[..usable])
        } else {
            0
        };
        let blocks = (sequence.context() + 1).div_ceil(size);
        let found = u32::try_from(hits).unwrap_or(0);
        let Some(held) = self.blocks.admit(&sequence.arrival.chain, hits, blocks - found) else {
            return false;
        };
        sequence.held = held;
        sequence.computed = found * size;
        if sequence.cached.is_none() {
            sequence.cached = Some(found * size);
            sequence.started_at = self.now;
            sequence.ready_at = self.now + self.limits.first_token;
            self.totals.prompt_tokens += u64::from(prompt);
            if reads {
                self.totals.prefix_queries += u64::from(prompt);
                self.totals.prefix_hits += u64::from(found * size);
            }
        }
        true
    }

    /// Gives the tokens of a step whose end is now. An empty list stands for all.
    fn advance(&mut self, decoders: &[bool]) -> Vec<Finished> {
        let now = self.now;
        let mut done = false;
        for (at, sequence) in self.running.iter_mut().enumerate() {
            if decoders.get(at).is_some_and(|decodes| !decodes) || sequence.is_prefilling() {
                continue;
            }
            sequence.generated += 1;
            sequence.computed += 1;
            self.totals.generated_tokens += 1;
            sequence.first_token_at.get_or_insert(now);
            done |= sequence.is_done();
        }
        if !done {
            return Vec::new();
        }
        let ended = self.running.extract_if(.., |sequence| sequence.is_done());
        let mut finished = Vec::new();
        for sequence in ended {
            finished.push(Finished {
                id: sequence.id,
                cached: sequence.cached.unwrap_or(0),
                first_token_at: sequence.first_token_at.unwrap_or(now),
            });
            self.blocks.release(sequence.held);
        }
        finished
    }

    fn count(&mut self, start: Duration, prefill: u32, ended: usize) {
        let lasted = self.now - start;
        let totals = &mut self.totals;
        totals.steps += 1;
        totals.busy += lasted;
        totals.prefill_tokens += u64::from(prefill);
        let running = (self.running.len() + ended) as f64;
        totals.running_seconds += running * lasted.as_secs_f64();
        totals.present_seconds += (running + self.waiting.len() as f64) * lasted.as_secs_f64();
    }
}

/// Computes a chunk of what a sequence lacks, and shares the blocks of the prompt when all of it is there.
fn prefill(sequence: &mut Sequence, budget: &mut u32, blocks: &mut Blocks, block_size: u32) {
    let chunk = (*budget).min(sequence.context() - sequence.computed);
    *budget -= chunk;
    sequence.computed += chunk;
    if !sequence.is_prefilling() {
        let full = (sequence.arrival.prompt / block_size) as usize;
        let chain = &sequence.arrival.chain;
        blocks.share(&mut sequence.held, &chain[..full.min(chain.len())]);
    }
}

#[cfg(test)]
mod tests;
