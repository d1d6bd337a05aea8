//! The one place where every stream, subject, consumer and bucket is declared.
//!
//! Services look streams up and refuse to run when what is there differs from what is declared; they create none.
//! [`apply`](live::apply) creates or updates them. `STREAMS.md` beside this crate is rendered from the declarations, so a
//! change of retention is seen in its diff; `schemas/` holds the JSON Schema of everything that leaves Tidemill.

pub mod buckets;
pub mod declared;
pub mod durable;
pub mod live;
mod message;
pub mod render;
pub mod schema;
mod stream;
pub mod subject;

pub use durable::Durable;
pub use message::{CheckpointMessage, DeadLetter, Message, Released, ResultSnapshot, StateChange, evaluation_event};
pub use stream::{Retention, Stream};
