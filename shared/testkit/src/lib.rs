//! What tests run against, in place of a production deployment.
//!
//! - [`Broker`]: a real nats-server with JetStream, on a free port and a store of its own, that can be killed and brought back.
//! - [`Cluster`]: three of them that share their streams.
//! - [`FakeEngine`]: an OpenAI-compatible server inside the test, scripted to answer well, badly or not at all.
//! - [`SimulatedEngine`]: one that takes its time as real engines do, with the settings of [`simulated`].
//! - [`Proxy`]: a network between two of them that can be cut, made silent, slowed and healed.
//! - [`SmallDisk`]: a disk that fills up, and grows when told to, for a broker's store or a service's files.
//! - [`Service`]: a program of ours as a process, with its log captured, that can be killed at any moment.
//!
//! Nothing outlives the test process, even one that is killed. Only tests use this crate, so it returns [`anyhow::Error`]
//! throughout; it knows nothing of Tidemill's own types, so that every other crate may use it.

pub mod broker;
pub mod cluster;
pub mod engine;
pub mod process;

mod port;
mod proxy;
mod small_disk;
mod watchdog;

pub use broker::Broker;
pub use cluster::Cluster;
pub use engine::{FakeEngine, Reply};
pub use process::Service;
pub use proxy::Proxy;
pub use small_disk::SmallDisk;
pub use tidemill_simulated::{self as simulated, SimulatedEngine};
