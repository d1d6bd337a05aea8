//! A simulated inference engine: OpenAI-compatible, without a model.
//!
//! It is there to measure and to test what drives engines: how full their batches are kept, in which order work is sent, and
//! what becomes of it when they fail. So what a client can see of an engine is modelled, and what it cannot see is not:
//!
//! - [`model`]: time. Continuous batching, chunked prefill, KV blocks with a prefix cache, preemption; pure, in virtual time.
//! - [`answers`]: what it says and how long that is. Fixed by the prompt and a seed that stands for the checkpoint.
//! - [`faults`]: what goes wrong, on demand.
//! - [`bounds`]: how fast the work that it saw could have been done, by the same model.
//! - [`server`]: HTTP around them, one port a replica; [`run()`] is the process.
//!
//! Tokens are pieces of text with ids that anybody can turn back into text (see [`tokens`]), so a client may send ids, get
//! ids back and continue from them. The probabilities are made up. Nothing here depends on other crates of the project: every
//! one of them may test against it.

pub mod answers;
pub mod bounds;
pub mod complaint;
pub mod config;
pub mod faults;
pub mod model;
pub mod server;
pub mod tokens;

mod hash;
mod run;

pub use config::{Config, ConfigError};
pub use faults::{Fault, FaultKind};
pub use run::run;
pub use server::{SimulatedEngine, StartError};
