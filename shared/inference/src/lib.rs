//! Clients of inference engines: what is asked, what came back, and what it means.
//!
//! [`OpenAi`] speaks to any server with the OpenAI API: the embedded engine, vLLM, SGLang, llama.cpp and remote ones. Every
//! way in which a request can end is named by one pure function, [`classify()`] (and [`classify_score`] for likelihoods), so
//! that a failure can never pass as an answer.
//!
//! Nothing here retries, waits or chooses between engines: that is the generator's part. The two exceptions repair a
//! request rather than repeat it: a connection that the server closed while it lay idle, and a field that one server
//! refuses although it is not needed.

mod engine;
mod verdict;

mod dialect;
mod embedded;
mod llamacpp;
mod openai;
mod sglang;
mod vllm;

mod classify;
mod complaint;
mod likelihood;
mod repeats;
mod retry_after;
mod windows;

mod assembly;
mod continuation;
mod sse;
mod streaming;

mod body;
mod text;
mod wire;

mod address;
mod http;
mod metrics;
mod probe;

pub use address::normalise_url;
pub use classify::classify;
pub use dialect::penalty_refusal;
pub use engine::{Attempt, Capabilities, Connection, Engine, Load, Request, Scoring, Watch};
pub use http::{Client, ClientError, Options};
pub use likelihood::{NeedsContextTokens, ROUNDING, Scored, classify_score};
pub use openai::OpenAi;
pub use probe::{Described, ProbeError, Probed, is_reachable, probe, probe_with};
pub use verdict::{Answer, HttpOutcome, Verdict};
