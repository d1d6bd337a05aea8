//! Configuration: defaults, then one TOML file, then the environment, then flags.
//!
//! The sections are plain data with the default beside each field. Unknown keys are errors, and all errors are reported at
//! once. Flags are applied by the commands that own them.

mod broker;
mod duration;
mod load;
mod sections;
mod size;

pub use broker::SyncInterval;
pub use load::{Error, dump, load};
pub use sections::{
    Aggregator, Archive, Broker, Cache, Config, Generator, Grader, Judge, Loader, Sandbox, SandboxLevel, Service,
    Storage,
};
