//! Is a checkpoint complete, and which weights is it?
//!
//! Nothing in a checkpoint is unpickled or executed here: only JSON and safetensors headers are read.

mod complete;
mod identity;
mod locate;

pub use complete::{Complete, Incomplete, inspect};
pub use identity::digest;
pub use locate::{LocateError, locate};
