//! The loop that admits, computes and retires sequences.

use std::{
    collections::VecDeque,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use tokio::sync::mpsc::{Receiver, error::TryRecvError};
use tokio_util::sync::CancellationToken;

use super::{
    FinishReason, Job,
    sequence::{Sequence, Surroundings},
};
use crate::{
    metrics::{Metrics, Outcome},
    model::{Decoder, Row},
    text::TextModel,
};

/// Rows computed in one step. Bounds the time between two tokens of a running sequence while others' prompts are computed.
const STEP_ROWS: usize = 256;
/// Prompt rows in a step however many sequences are decoding, so that admission never starves.
const MIN_PROMPT_ROWS: usize = 16;

/// Owns the model's caches and all sequences.
pub(crate) struct Scheduler<D: Decoder> {
    pub(crate) model: D,
    pub(crate) text: Arc<TextModel>,
    pub(crate) eos_token_ids: Vec<u32>,
    /// Most sequences computed at once.
    pub(crate) max_sequences: usize,
    pub(crate) metrics: Arc<Metrics>,
    /// Ends all sequences at once.
    pub(crate) abort: CancellationToken,
    pub(crate) inbox: Receiver<Job>,
    pub(crate) running: Vec<Sequence<D::Cache>>,
    pub(crate) waiting: VecDeque<Job>,
}

/// The rows of one sequence in a step.
struct Share {
    sequence: usize,
    rows: Range<usize>,
}

impl<D: Decoder> Scheduler<D> {
    /// Works until the inbox is closed and everything in it is done.
    pub(crate) fn run(mut self) {
        while self.receive() {
            self.step();
        }
    }

    /// Takes in new jobs, waiting for one when there is nothing else to do. False when there will be none.
    fn receive(&mut self) -> bool {
        if self.running.is_empty() && self.waiting.is_empty() {
            self.report();
            match self.inbox.blocking_recv() {
                Some(job) => self.waiting.push_back(job),
                None => return false,
            }
        }
        loop {
            match self.inbox.try_recv() {
                Ok(job) => self.waiting.push_back(job),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return true,
            }
        }
    }

    fn step(&mut self) {
        self.retire();
        self.admit();
        if self.abort.is_cancelled() {
            self.each(.., |sequence, around| sequence.finish(FinishReason::Abort, around));
        } else {
            let (rows, shares) = self.plan();
            self.compute(&rows, &shares);
        }
        self.retire();
        self.report();
    }

    /// Frees the slots of sequences that are over and forgets waiting jobs whose client is gone.
    fn retire(&mut self) {
        for sequence in self.running.extract_if(.., |sequence| sequence.is_over()) {
            sequence.release(&self.metrics);
        }
        let metrics = &self.metrics;
        self.waiting.retain(|job| {
            let is_wanted = !job.events.is_closed();
            if !is_wanted {
                metrics.ended(Outcome::Finished(FinishReason::Abort), job.arrived.elapsed());
            }
            is_wanted
        });
    }

    fn admit(&mut self) {
        while self.running.len() < self.max_sequences {
            let Some(job) = self.waiting.pop_front() else { return };
            let cache = self.model.new_cache(job.prompt.len() + job.params.max_tokens);
            self.running.push(Sequence::new(job, cache, &self.text));
        }
    }

    /// One row for each decoding sequence, then prompt rows in order of admission.
    fn plan(&self) -> (Vec<Row>, Vec<Share>) {
        let decoding = self.running.iter().filter(|sequence| sequence.is_decoding()).count();
        let mut room = STEP_ROWS.saturating_sub(decoding).max(MIN_PROMPT_ROWS);
        let (mut rows, mut shares) = (Vec::new(), Vec::new());
        for (index, sequence) in self.running.iter().enumerate() {
            let count = if sequence.is_decoding() {
                1
            } else {
                sequence.outstanding().min(room)
            };
            if !sequence.is_decoding() {
                room -= count;
            }
            if count > 0 {
                let start = rows.len();
                rows.extend(sequence.rows(index, count));
                shares.push(Share {
                    sequence: index,
                    rows: start..rows.len(),
                });
            }
        }
        (rows, shares)
    }

    /// Computes a step. When it fails, each sequence is computed alone, so that only those at fault end; the others
    /// lose nothing, because their results do not depend on company.
    fn compute(&mut self, rows: &[Row], shares: &[Share]) {
        match self.forward(rows) {
            Ok(logits) => self.distribute(&logits, rows, shares),
            Err(reason) if shares.len() <= 1 => {
                for share in shares {
                    self.each(share.sequence..=share.sequence, |sequence, around| {
                        sequence.fail(&reason, around)
                    });
                }
            }
            Err(_) => {
                for share in shares {
                    let alone = Share {
                        sequence: share.sequence,
                        rows: 0..share.rows.len(),
                    };
                    self.compute(&rows[share.rows.clone()], &[alone]);
                }
            }
        }
    }

    fn forward(&mut self, rows: &[Row]) -> Result<Vec<f32>, String> {
        let mut caches: Vec<_> = self.running.iter_mut().map(|sequence| &mut sequence.cache).collect();
        let result = catch_unwind(AssertUnwindSafe(|| self.model.forward(rows, &mut caches)));
        match result {
            Ok(Ok(logits)) => Ok(logits),
            Ok(Err(error)) => Err(format!("the computation failed: {error}")),
            Err(_) => Err("the computation panicked".to_owned()),
        }
    }

    fn distribute(&mut self, logits: &[f32], rows: &[Row], shares: &[Share]) {
        let vocab_size = self.model.vocab_size();
        let mut rest = logits;
        for share in shares {
            let wanted = rows[share.rows.clone()].iter().filter(|row| row.wants_logits).count();
            let (own, others) = rest.split_at((wanted * vocab_size).min(rest.len()));
            rest = others;
            let count = share.rows.len();
            self.each(share.sequence..=share.sequence, |sequence, around| {
                let advanced = catch_unwind(AssertUnwindSafe(|| sequence.advance(count, own, around)));
                if advanced.is_err() {
                    sequence.fail("the engine panicked", around);
                }
            });
        }
    }

    fn each(
        &mut self,
        range: impl std::slice::SliceIndex<[Sequence<D::Cache>], Output = [Sequence<D::Cache>]>,
        mut act: impl FnMut(&mut Sequence<D::Cache>, &Surroundings<'_>),
    ) {
        let around = Surroundings {
            text: &self.text,
            eos_token_ids: &self.eos_token_ids,
            metrics: &self.metrics,
            vocab_size: self.model.vocab_size(),
        };
        for sequence in &mut self.running[range] {
            act(sequence, &around);
        }
    }

    fn report(&self) {
        let tokens: usize = self.running.iter().map(Sequence::computed).sum();
        self.metrics.running.store(self.running.len() as u64, Relaxed);
        self.metrics.waiting.store(self.waiting.len() as u64, Relaxed);
        self.metrics.kv_tokens.store(tokens as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Mutex, time::Instant};

    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        sampling::Sampling,
        schedule::{Ending, Event, Params},
        testing::sample,
    };

    const VOCAB: u32 = 384;
    const PANICS_ON: u32 = 200;
    const FAILS_ON: u32 = 210;
    const BREAKS_ON: u32 = 220;

    /// Counts upwards, and fails in three ways on three tokens. Remembers the size of each step.
    #[derive(Default)]
    struct Counter {
        steps: Arc<Mutex<Vec<usize>>>,
    }

    impl Decoder for Counter {
        type Cache = Vec<u32>;

        fn new_cache(&self, _capacity: usize) -> Vec<u32> {
            Vec::new()
        }

        fn vocab_size(&self) -> usize {
            VOCAB as usize
        }

        fn forward(&self, rows: &[Row], caches: &mut [&mut Vec<u32>]) -> Result<Vec<f32>, candle_core::Error> {
            self.steps.lock().unwrap().push(rows.len());
            let mut logits = Vec::new();
            for row in rows {
                assert_ne!(row.token, PANICS_ON, "as planned");
                if row.token == FAILS_ON {
                    candle_core::bail!("as planned");
                }
                let cache = &mut *caches[row.sequence];
                cache.truncate(row.position);
                assert_eq!(cache.len(), row.position, "positions come without gaps");
                cache.push(row.token);
                if row.wants_logits {
                    let weight = if row.token == BREAKS_ON { f32::NAN } else { 1.0 };
                    logits.extend((0..VOCAB).map(|token| if token == row.token + 1 { weight } else { 0.0 }));
                }
            }
            Ok(logits)
        }
    }

    struct Run {
        /// Generated tokens and ending of each sequence.
        results: Vec<(Vec<u32>, Option<Ending>)>,
        steps: Vec<usize>,
        metrics: Arc<Metrics>,
    }

    /// Runs one sequence per first token, all waiting before the first step.
    fn run(prompts: &[Vec<u32>], max_sequences: usize, max_tokens: usize) -> Run {
        let (jobs, inbox) = mpsc::channel(prompts.len());
        let (events, mut received) = mpsc::channel::<Event>(prompts.len() * (max_tokens + 2));
        let sampling = Sampling {
            temperature: 0.0,
            top_p: 1.0,
            top_k: None,
            seed: 0,
        };
        let params = Arc::new(Params {
            sampling,
            max_tokens,
            stop: Vec::new(),
            logprobs: None,
            prompt_logprobs: None,
            ignore_eos: false,
            skip_special: true,
            include_stop: false,
            tells_tokens: false,
            goes_on: false,
            stream: false,
        });
        for (index, prompt) in prompts.iter().enumerate() {
            let (prompt, params, events) = (prompt.clone(), Arc::clone(&params), events.clone());
            jobs.try_send(Job {
                prompt,
                params,
                sample: 0,
                index,
                events,
                arrived: Instant::now(),
            })
            .unwrap();
        }
        drop((jobs, events));
        let model = Counter::default();
        let steps = Arc::clone(&model.steps);
        let metrics = Arc::new(Metrics::new("counter", 1));
        Scheduler {
            model,
            text: Arc::new(TextModel::load(&sample("hf-single"), VOCAB as usize).unwrap()),
            eos_token_ids: vec![4],
            max_sequences,
            metrics: Arc::clone(&metrics),
            abort: CancellationToken::new(),
            inbox,
            running: Vec::new(),
            waiting: VecDeque::new(),
        }
        .run();
        let mut results = vec![(Vec::new(), None); prompts.len()];
        while let Some(event) = received.blocking_recv() {
            results[event.index] = (event.piece.tokens, event.end);
        }
        let steps = steps.lock().unwrap().clone();
        Run {
            results,
            steps,
            metrics,
        }
    }

    fn finished(reason: FinishReason) -> Option<Ending> {
        Some(Ending::Finished { reason, stop: None })
    }

    #[test]
    fn a_fault_ends_the_sequence_at_fault_and_no_other() {
        let run = run(
            &[
                vec![100],
                vec![PANICS_ON - 3],
                vec![FAILS_ON - 2],
                vec![BREAKS_ON - 4],
                vec![300],
            ],
            16,
            8,
        );
        for (index, said) in [(1, "panicked"), (2, "as planned"), (3, "not a finite number")] {
            let ending = &run.results[index].1;
            assert!(
                matches!(ending, Some(Ending::Failed(reason)) if reason.contains(said)),
                "{ending:?}"
            );
        }
        for (index, first) in [(0, 101), (4, 301)] {
            let expected = ((first..first + 8).collect(), finished(FinishReason::Length));
            assert_eq!(run.results[index], expected);
        }
        assert!(run.metrics.render().contains("finished_reason=\"error\"} 3"));
    }

    #[test]
    fn no_more_sequences_run_than_there_are_slots() {
        let prompts: Vec<_> = (0..7).map(|number| vec![100 + number * 10]).collect();
        let run = run(&prompts, 3, 5);
        assert_eq!(run.steps.iter().max(), Some(&3));
        assert!(run.results.iter().all(|(tokens, _)| tokens.len() == 5));
    }

    #[test]
    fn a_freed_slot_is_filled_at_the_next_step() {
        // The first two end early by the end-of-sequence token 4; the third then takes a slot while the others go on.
        let run = run(&[vec![2], vec![100], vec![150]], 2, 6);
        assert_eq!(run.results[0], (vec![3, 4], finished(FinishReason::Stop)));
        assert_eq!(run.steps, [2, 2, 2, 2, 2, 2, 1, 1]);
    }

    #[test]
    fn long_prompts_are_cut_into_steps_beside_running_sequences() {
        let run = run(&[vec![100], vec![9; 600]], 2, 4);
        assert_eq!(run.steps, [256, 256, 91, 2, 1, 1]);
        assert_eq!(run.results[1].0, [10, 11, 12, 13]);
    }
}
