//! Bytes to domain types and back, for everything that stays inside Tidemill.
//!
//! Every message begins with an [`envelope`]: whose it is, which schema, which version of it, and whether the body is here
//! or in the object store. What leaves Tidemill (checkpoint events, evaluation events, results) is JSON and has no
//! envelope. This crate is the only user of the binary format crate, in one module, so replacing it touches one file.

mod binary;
pub mod envelope;
mod seal;
mod shift;
pub mod v1;
pub mod v2;
pub mod v3;
mod wire;

pub use envelope::{Body, Envelope, Error};
pub use seal::{seal, unseal};
pub use wire::{Wire, claim, decode, decode_body, encode};
