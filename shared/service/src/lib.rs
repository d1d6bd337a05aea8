//! What every service does the same way: start, connect, take work, publish, hold leases, stop.
//!
//! The rules of delivery live here and nowhere else. A handler does its work and publishes the effect; only then does
//! [`work`](work::work) acknowledge the input. What a failure does is decided by its [`Class`](tidemill_domain::Class) in
//! [`settle`]. Services keep no state that another process could not rebuild from the streams.

mod admin;
pub mod backoff;
pub mod children;
mod clock;
mod connect;
mod context;
pub mod dead;
mod doubt;
mod failures;
pub mod fault;
mod follow;
mod insist;
pub mod leader;
pub mod lease;
mod loads;
pub mod outcome;
mod progress;
mod publish;
mod run;
pub mod settle;
mod span;
pub mod status;
mod take;
mod waits;
mod work;

pub use admin::Admin;
pub use clock::now;
pub use connect::{Broker, ConnectError, connect, prepare};
pub use context::Context;
pub use follow::{Follow, Followed, Start};
pub use insist::check_in;
pub use lease::{Certainty, Held, acquire};
pub use loads::{Load, Loads};
pub use publish::{PublishError, Published, Publisher, Ttl};
pub use run::{Args, ExitStatus, Fatal, run, until_signal};
pub use settle::{Failure, Settled};
pub use span::span;
pub use waits::{Obstacle, Wait, Waiting, Waits};
pub use work::{Delivery, Slots, Taking, work};
