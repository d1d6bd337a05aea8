//! The HTTP interface: OpenAI's requests and answers with vLLM's extensions, error shapes and status codes.
//!
//! A setting that would change an answer and that the engine does not implement is refused, never ignored.

mod chat;
mod completions;
mod error;
mod fields;
mod generation;
mod plain;
mod router;
mod settings;
mod sse;

pub(crate) use router::{App, router};
