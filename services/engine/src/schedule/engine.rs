//! The thread that the scheduler runs on, and the way to it.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Job, Scheduler};
use crate::{Error, metrics::Metrics, model::Decoder, text::TextModel};

/// Jobs between the server and the engine's thread. Only a hand-over: the thread empties it before every step.
const INBOX: usize = 64;

/// A running engine thread.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Where jobs go. The thread ends when all clones are dropped; they are closed when the thread ends.
    pub(crate) jobs: mpsc::Sender<Job>,
    /// Ends all sequences, running and waiting.
    pub(crate) abort: CancellationToken,
}

/// What an engine thread is made of.
pub(crate) struct Parts<D> {
    pub(crate) model: D,
    pub(crate) text: Arc<TextModel>,
    pub(crate) eos_token_ids: Vec<u32>,
    pub(crate) max_sequences: usize,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) threads: usize,
}

impl Engine {
    /// Starts the thread. It works inside a pool of its own of `threads` threads, where parallel loops of the tensor library stay;
    /// with one thread they are plain loops.
    pub(crate) fn start<D>(parts: Parts<D>) -> Result<Self, Error>
    where
        D: Decoder + Send + 'static,
        D::Cache: Send,
    {
        let (jobs, inbox) = mpsc::channel(INBOX);
        let abort = CancellationToken::new();
        let scheduler = Scheduler {
            model: parts.model,
            text: parts.text,
            eos_token_ids: parts.eos_token_ids,
            max_sequences: parts.max_sequences,
            metrics: parts.metrics,
            abort: abort.clone(),
            inbox,
            running: Vec::new(),
            waiting: VecDeque::new(),
        };
        let name = |index| format!("engine-{index}");
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(parts.threads)
            .thread_name(name)
            .build();
        let pool = pool.map_err(std::io::Error::other)?;
        let thread = std::thread::Builder::new().name("engine".to_owned());
        thread.spawn(move || pool.install(|| scheduler.run()))?;
        Ok(Self { jobs, abort })
    }
}
