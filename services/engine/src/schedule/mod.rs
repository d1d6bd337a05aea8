//! Continuous batching: one thread owns the model and all caches; requests reach it through a channel.
//!
//! Every step computes one row for each sequence that is decoding, and fills up with prompt rows of those just admitted.
//! There is no preemption: a sequence is admitted only into a free slot and keeps it to its end.

mod engine;
mod job;
mod scheduler;
mod sequence;

pub(crate) use engine::{Engine, Parts};
pub(crate) use job::{Ending, Event, FinishReason, Job, Params, Piece};
use scheduler::Scheduler;
