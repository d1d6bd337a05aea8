//! The object store: manifests, and bodies too large for a message.
//!
//! Everything is stored under its content's digest, so a second write of the same thing changes nothing and two writers
//! cannot disagree. Nothing here decides what is kept for how long.

mod address;
mod cached;
mod error;
mod manifests;
mod store;

pub use address::Address;
pub use cached::{CachedBody, cached_body};
pub use error::Error;
pub use store::Store;
