//! What the end-to-end tests share: a folder with a suite, the command run on it, and pipelines that are disturbed.

pub mod chaos;
mod command;
mod pipeline;
mod workbench;

pub use command::{Ran, tidemill};
pub use pipeline::{Pipeline, ROLES, Setup, limit_stream};
pub use workbench::{GENERATED, SUITE, Workbench, workspace};
