//! Evaluations that ended leave the broker: their items go to the object store, and a while later out of the streams.
//!
//! The order of effects is: the files, each read back; the record that says where they are (the commit); the purge, which
//! begins by saying so in the record. A process that dies in between is repeated by the next one, and what it left is
//! swept. One process at a time holds the lease; a second one would find the record written and give way.

mod plan;
mod provenance;
mod service;
mod steps;

pub(crate) use service::run;
pub use steps::archive_now;

#[cfg(test)]
mod tests;
