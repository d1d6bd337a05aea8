//! The embedded inference engine: an OpenAI-compatible server for small Llama checkpoints, on the processor alone.
//!
//! It is there so that a pipeline runs on a machine without a GPU and without downloads, and as the reference that conversions and
//! other engines are compared with. Hence its order of aims: right numbers first, the same numbers whatever else is computed
//! second, speed on models of a few million parameters third. It has no quantisation, no GPU, no prefix cache, no tools,
//! no sampling penalties; it applies no sampling default from generation_config.json; and it refuses what it does not implement.
//!
//! - `checkpoint`: files to configuration and weights
//! - `model`: the forward pass over a ragged batch
//! - `text`: tokens to text and back
//! - `sampling`: logits to tokens and log-probabilities
//! - `schedule`: continuous batching on one thread
//! - `api`, `server`, `run`: HTTP, life cycle, process

mod api;
mod checkpoint;
mod error;
mod metrics;
mod model;
mod options;
mod run;
mod sampling;
mod schedule;
mod server;
#[cfg(test)]
mod testing;
mod text;

pub use checkpoint::{Summary, validate};
pub use error::Error;
pub use options::{EngineArgs, Options};
pub use run::run;
pub use server::serve;
pub use text::TokenCounter;
