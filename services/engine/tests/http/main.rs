//! The engine over HTTP, with the sample checkpoints.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod batching;
mod chat;
mod completions;
mod continuation;
mod errors;
mod lifecycle;
mod loading;
mod parity;
mod support;
