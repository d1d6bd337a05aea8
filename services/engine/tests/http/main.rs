//! The engine over HTTP, with the sample checkpoints.

mod batching;
mod chat;
mod completions;
mod errors;
mod lifecycle;
mod loading;
mod parity;
mod support;
