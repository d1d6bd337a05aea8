//! One running sequence: its tokens, its text, and when it ends.

use std::sync::atomic::Ordering::Relaxed;

use super::{Ending, Event, FinishReason, Job, Piece};
use crate::{
    metrics::{Metrics, Outcome},
    model::Row,
    sampling::{Draws, score},
    text::{Detokenizer, StopMatcher, TextModel},
};

/// A sequence in a slot.
pub(super) struct Sequence<C> {
    job: Job,
    pub(super) cache: C,
    /// Prompt and generated tokens.
    tokens: Vec<u32>,
    /// How many of them have their keys and values in the cache.
    computed: usize,
    draws: Draws,
    detokenizer: Detokenizer,
    stops: StopMatcher,
    piece: Piece,
    ended: bool,
}

/// What all sequences share.
pub(super) struct Surroundings<'a> {
    pub(super) text: &'a TextModel,
    pub(super) eos_token_ids: &'a [u32],
    pub(super) metrics: &'a Metrics,
    pub(super) vocab_size: usize,
}

impl<C> Sequence<C> {
    /// Puts `job` into a slot with an empty cache.
    pub(super) fn new(job: Job, cache: C, text: &TextModel) -> Self {
        let params = &job.params;
        let detokenizer = if params.goes_on {
            Detokenizer::after(text, &job.prompt, params.skip_special)
        } else {
            Detokenizer::new(params.skip_special)
        };
        Self {
            cache,
            tokens: job.prompt.clone(),
            computed: 0,
            draws: Draws::new(params.sampling.seed, job.sample),
            detokenizer,
            stops: StopMatcher::new(params.stop.clone(), params.include_stop),
            piece: Piece::default(),
            ended: false,
            job,
        }
    }

    /// Whether its result was delivered or is no longer wanted.
    pub(super) fn is_over(&self) -> bool {
        self.ended || self.job.events.is_closed()
    }

    /// Tokens still to be computed before the next one can be drawn.
    pub(super) fn outstanding(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Whether only the token drawn last is to be computed.
    pub(super) fn is_decoding(&self) -> bool {
        self.computed >= self.job.prompt.len()
    }

    /// Tokens in the cache.
    pub(super) fn computed(&self) -> usize {
        self.computed
    }

    /// The next `count` rows.
    pub(super) fn rows(&self, sequence: usize, count: usize) -> impl Iterator<Item = Row> {
        let range = self.computed..self.computed + count;
        range.map(move |position| Row {
            sequence,
            position,
            token: self.tokens[position],
            wants_logits: self.wants_logits(position),
        })
    }

    fn wants_logits(&self, position: usize) -> bool {
        if position + 1 < self.job.prompt.len() {
            self.job.params.prompt_logprobs.is_some()
        } else {
            self.job.params.max_tokens > 0
        }
    }

    /// Takes the logits of `count` computed rows: scores prompt tokens, draws the next token.
    pub(super) fn advance(&mut self, count: usize, logits: &[f32], around: &Surroundings<'_>) {
        let mut logits = logits.chunks_exact(around.vocab_size);
        for position in self.computed..self.computed + count {
            if !self.wants_logits(position) {
                continue;
            }
            let Some(row) = logits.next() else {
                return self.fail("logits are missing", around);
            };
            if position + 1 < self.job.prompt.len() {
                let top = self.job.params.prompt_logprobs.unwrap_or_default();
                self.piece
                    .prompt_scores
                    .push(score(row, self.tokens[position + 1], top));
            } else {
                self.draw(row, around);
            }
        }
        let was_decoding = self.is_decoding();
        self.computed += count;
        if self.is_decoding() && !was_decoding {
            let prompt_tokens = self.job.prompt.len() as u64;
            around.metrics.prompt_tokens.fetch_add(prompt_tokens, Relaxed);
            if self.job.params.max_tokens == 0 {
                self.finish(FinishReason::Length, around);
            }
        }
    }

    fn draw(&mut self, logits: &[f32], around: &Surroundings<'_>) {
        let params = self.job.params.clone();
        let Some(token) = params.sampling.draw(logits, self.draws, self.tokens.len()) else {
            return self.fail("the model gave a logit that is not a finite number", around);
        };
        if self.generated() == 0 {
            around.metrics.first_token(self.job.arrived.elapsed());
        }
        around.metrics.generation_tokens.fetch_add(1, Relaxed);
        self.tokens.push(token);
        self.piece.tokens.push(token);
        if let Some(top) = params.logprobs {
            self.piece.scores.push(score(logits, token, top));
        }
        if !params.ignore_eos && around.eos_token_ids.contains(&token) {
            return self.finish(FinishReason::Stop, around);
        }
        let text = self.detokenizer.push(around.text, token);
        if self.add_text(&text, around) {
            return;
        }
        if self.generated() >= params.max_tokens {
            return self.finish(FinishReason::Length, around);
        }
        // Who is told the tokens gets them with their whole text.
        let keeps_step = !params.tells_tokens || self.detokenizer.is_clean();
        if params.stream && keeps_step && !(self.piece.text.is_empty() && self.piece.scores.is_empty()) {
            self.send(None);
        }
    }

    fn generated(&self) -> usize {
        self.tokens.len() - self.job.prompt.len()
    }

    /// Adds text and ends the sequence when that completes a stop string.
    fn add_text(&mut self, text: &str, around: &Surroundings<'_>) -> bool {
        let found = self.stops.push(text);
        self.piece.text.push_str(&found.text);
        match found.stop {
            Some(stop) => self.end(FinishReason::Stop, Some(stop), around),
            None => return false,
        }
        true
    }

    /// Gives out all text held back and ends the sequence.
    pub(super) fn finish(&mut self, reason: FinishReason, around: &Surroundings<'_>) {
        let rest = self.detokenizer.finish(around.text);
        if self.add_text(&rest, around) {
            return;
        }
        let held = self.stops.finish();
        self.piece.text.push_str(&held);
        self.end(reason, None, around);
    }

    fn end(&mut self, reason: FinishReason, stop: Option<String>, around: &Surroundings<'_>) {
        around
            .metrics
            .ended(Outcome::Finished(reason), self.job.arrived.elapsed());
        self.ended = true;
        self.send(Some(Ending::Finished { reason, stop }));
    }

    /// Ends the sequence by a fault.
    pub(super) fn fail(&mut self, reason: &str, around: &Surroundings<'_>) {
        tracing::error!(reason, "sequence failed");
        around.metrics.ended(Outcome::Failed, self.job.arrived.elapsed());
        self.ended = true;
        self.send(Some(Ending::Failed(reason.to_owned())));
    }

    /// Counts a sequence whose client went away and gives back its cache.
    pub(super) fn release(self, metrics: &Metrics) -> C {
        if !self.ended {
            metrics.ended(Outcome::Finished(FinishReason::Abort), self.job.arrived.elapsed());
        }
        self.cache
    }

    fn send(&mut self, end: Option<Ending>) {
        let event = Event {
            index: self.job.index,
            piece: std::mem::take(&mut self.piece),
            end,
        };
        // The channel has room for every event; an error means that the client is gone, which the next step notices.
        self.job.events.try_send(event).unwrap_or_default();
    }
}
