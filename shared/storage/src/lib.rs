//! The object store: manifests with their blocks of items, and bodies too large for a message.
//!
//! Everything is stored under its content's digest, so a second write of the same thing changes nothing and two writers
//! cannot disagree. Nothing here decides what is kept for how long.

mod address;
mod blocks;
mod cached;
mod claims;
mod error;
mod folders;
mod manifests;
mod objects;
mod store;

pub use address::Address;
pub use blocks::{BlockWriter, StoredItem};
pub use cached::{CachedBody, cached_body};
pub use claims::Claim;
pub use error::Error;
pub use objects::Kind;
pub use store::{CLAIM_ABOVE_BYTES, Store};
