//! An OpenAI-compatible inference server inside the test, scripted by the test.
//!
//! It answers `/v1/completions` (text, token ids and lists of either; `n`, `echo`, `logprobs`, `stop`, `stream`), `/v1/chat/completions`, `/tokenize`,
//! `/v1/models`, `/health`, `/metrics` under vLLM's names, and `/stats`. There is no model: the text of an answer comes from the script, else from
//! a hash of the prompt, tokens are words, and log-probabilities are a fixed function of a token ([`token_logprob`]). What it does have is every way
//! in which a real server disappoints: broken bodies, statuses, delays, connections that end in the middle, a port that refuses.

mod answer;
mod counts;
mod fast;
mod journal;
mod reply;
mod request;
mod respond;
mod server;
mod stream;
mod tokens;

pub use counts::Stats;
pub use journal::{Asked, End};
pub use reply::Reply;
pub use request::{Endpoint, Request};
pub use server::{Builder, FakeEngine};
pub use tokens::{prompt_hash, split_tokens, token_logprob};
