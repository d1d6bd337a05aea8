//! Loader: from an announced checkpoint to items that are released to engines.
//!
//! ```text
//! CHECKPOINT -> intake: complete? identity, manifest -> EVALUATION queued
//! EVALUATION -> board -> group: lease, engines started or attached, warm-up by a real request -> bucket tm_groups
//!                     -> dispatcher: manifest minus DONE -> READY, as many as there are free slots
//! ```
//! Any number of loaders may run. Intake is shared through one durable consumer; a server group is run by the loader that
//! holds its lease. Whatever a killed loader knew is in the streams: the next holder starts the engines again and releases
//! what has no completion. Nothing here counts or grades.

mod board;
mod cached;
pub mod checkpoint;
pub mod claims;
pub mod dispatch;
mod engine;
mod group;
mod inbox;
pub mod intake;
mod registry;
mod released;
mod service;
mod sharing;
mod suites;
mod sweep;

pub use intake::{IntakeError, Queued};
pub use service::{Scope, run};
