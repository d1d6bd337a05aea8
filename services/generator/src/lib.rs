//! Generator: keeps engines busy with released items and records how each one ended.
//!
//! ```text
//! bucket tm_groups -> one worker a server group
//! READY -> item: recorded already? -> prompt from the manifest -> generated before? (cache)
//!          -> begun before? (bucket tm_parked) -> replica -> attempts -> CACHE -> DONE (first write wins) -> ack
//! ```
//! Any number of generators may run: the group's durable consumer shares its items out, and the write to DONE decides.
//! A generator keeps no state that matters: what it holds when it is killed is delivered to another one. Which item comes
//! next is the dispatcher's decision and what an answer is worth the grader's; here every ending is recorded as it was.

mod replicas;

mod attempt;
mod controller;
mod health;
mod pool;
mod routing;
mod sent;

mod cache;
mod group;
mod item;
mod keys;
mod parking;
mod pulse;
mod service;
pub mod step;

pub use keys::{Held, Keys};
pub use service::run;
